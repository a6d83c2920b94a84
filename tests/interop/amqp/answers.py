"""Plays the scenes to a broker and keeps what it answers.

`python -m tests.interop.amqp.answers HOST PORT` prints the answers of a running broker as JSON. What RabbitMQ
3.10.8 said, from Debian's package and fresh, is in `rabbitmq.json` beside this file.
"""

import json
import sys
from pathlib import Path

from millpond.wire.amqp.events import ChannelClosed, ConnectionClosed
from millpond.wire.amqp.methods import Method
from tests.interop.amqp.scenes import SCENES
from tests.support.amqp_client import AmqpClient, said

RECORDED = Path(__file__).parent / "rabbitmq.json"


def play(host: str, port: int, scene: list[Method]) -> list[str]:
    """One line for each method."""
    lines = []
    channel = 1
    with AmqpClient(host, port) as client:
        client.open_channel(channel)
        for method in scene:
            client.send(channel, method)
            event = client.wait()
            lines.append(said(event))
            if isinstance(event, ChannelClosed):
                channel += 1
                client.open_channel(channel)
            elif event is None or isinstance(event, ConnectionClosed):
                break
    return lines


def play_all(host: str, port: int) -> dict[str, list[str]]:
    return {name: play(host, port, scene) for name, scene in SCENES.items()}


def recorded() -> dict[str, list[str]]:
    """What RabbitMQ answered when it was last asked."""
    answers: dict[str, list[str]] = json.loads(RECORDED.read_text())
    return answers


if __name__ == "__main__":
    print(json.dumps(play_all(sys.argv[1], int(sys.argv[2])), indent=1, ensure_ascii=False))
