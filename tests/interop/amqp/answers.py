"""Plays the scenes to a broker and keeps what it answers.

`python -m tests.interop.amqp.answers HOST PORT` asks a running broker and writes what it said beside this
file. What is there is RabbitMQ 3.10.8's, from Debian's package, started afresh.
"""

import json
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millpond.base.fields import Table
from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.content import PROTOCOL_HEADER
from millpond.wire.amqp.events import ChannelClosed, ConnectionClosed, ContentReceived, Event
from millpond.wire.amqp.methods import Method
from millpond.wire.amqp.properties import KINDS, Properties, decode_properties
from tests.interop.amqp.channel_scenes import CHANNEL_SCENES
from tests.interop.amqp.greetings import FIRST_BYTES, GREETINGS
from tests.interop.amqp.message_scenes import MESSAGE_SCENES, Collect, Send, Step, Wait
from tests.interop.amqp.raw_scenes import RAW_SCENES
from tests.interop.amqp.scenes import SCENES
from tests.support.amqp.amqp_client import AmqpClient, said

_HERE = Path(__file__).parent
RECORDED = _HERE / "rabbitmq.json"
RECORDED_MESSAGES = _HERE / "rabbitmq_messages.json"
RECORDED_RAW = _HERE / "rabbitmq_raw.json"
RECORDED_CHANNELS = _HERE / "rabbitmq_channels.json"
RECORDED_GREETINGS = _HERE / "rabbitmq_greetings.json"

# How long a broker on a busy machine is given to say something, or to say something that it should not.
_SILENCE_S = 1.0
# Real time is given more room than virtual time is.
_WAIT_FACTOR = 6
# Scenes are played side by side, each over a connection and with names of its own.
_SIDE_BY_SIDE = 8


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


def play_messages(host: str, port: int, scene: list[Step]) -> list[str]:
    """A line for everything that the broker says."""
    lines: list[str] = []
    with AmqpClient(host, port) as client:
        client.open_channel(1)
        for step in scene:
            match step:
                case Wait():
                    time.sleep(step.ms * _WAIT_FACTOR / 1000)
                case Send():
                    client.publish(1, step.method, step.body, step.properties)
                    lines += [line(client.wait()) for _answer in range(step.answers)]
                case Collect():
                    lines += [line(client.wait()) for _delivery in range(step.count)]
                    more = client.wait_briefly(_SILENCE_S)
                    lines += ["nothing more" if more is None else line(more)]
                case _:
                    client.send(1, step)
                    if step.is_synchronous:
                        lines.append(line(client.wait()))
    return lines


def play_raw(host: str, port: int, data: bytes) -> str:
    """What the broker says to these bytes."""
    with AmqpClient(host, port) as client:
        client.open_channel(1)
        client.send_raw(data)
        return said(client.wait())


def play_greeting(host: str, port: int, wish: ConnectOptions) -> str:
    """What the broker says to somebody who introduces himself like this."""
    with AmqpClient(host, port, wish) as client:
        return said(client.first)


def play_first_bytes(host: str, port: int, data: bytes) -> list[str]:
    """Everything that the broker says to these bytes on a new connection, in frames."""
    with socket.create_connection((host, port), 20) as connection:
        connection.sendall(data)
        heard = b""
        while not is_waiting(data, heard):
            try:
                more = connection.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return [*frames_of(heard), "hung up"]
            heard += more
        return frames_of(heard)


def is_waiting(data: bytes, heard: bytes) -> bool:
    """Whether it is its client's turn: the broker has greeted it, has opened the connection, or closes it."""
    frames = frames_of(heard)
    last = "method 10.10" if len(data) == len(PROTOCOL_HEADER) else "method 10.41"
    return bool(frames) and frames[-1].startswith((last, "method 10.50"))


def frames_of(heard: bytes) -> list[str]:
    """What came, frame by frame: methods by their numbers."""
    found = []
    while heard:
        if heard.startswith(b"AMQP"):
            found.append(f"header {heard[:8]!r}")
            heard = heard[8:]
            continue
        size = int.from_bytes(heard[3:7], "big")
        payload, heard = heard[7 : 7 + size], heard[8 + size :]
        numbers = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        text = f" {payload[4:-4]!r}" if numbers == (10, 50) else ""
        found.append(f"method {numbers[0]}.{numbers[1]}{text}")
    return found


def line(event: Event | None) -> str:
    """What was said, with the properties of a message, and without times."""
    if not isinstance(event, ContentReceived):
        return said(event)
    return f"{said(event)} {shown(decode_properties(event.content.properties))}"


def shown(properties: Properties) -> str:
    """Properties that are there; headers by name."""
    parts = []
    for name, _kind in KINDS:
        value = getattr(properties, name)
        if value is not None:
            parts.append(f"{name}={_shown_headers(value) if name == 'headers' else repr(value)}")
    return " ".join(parts)


def _shown_headers(headers: Table) -> str:
    return json.dumps(_timeless(headers), sort_keys=True, default=str)


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: "?" if key == "time" else _timeless(one) for key, one in value.items()}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def play_all(host: str, port: int) -> dict[str, list[str]]:
    return {name: play(host, port, scene) for name, scene in SCENES.items()}


def play_all_messages(host: str, port: int) -> dict[str, list[str]]:
    return _side_by_side(host, port, MESSAGE_SCENES)


def play_all_raw(host: str, port: int) -> dict[str, list[str]]:
    return {name: [play_raw(host, port, data)] for name, data in RAW_SCENES.items()}


def play_all_channels(host: str, port: int) -> dict[str, list[str]]:
    return _side_by_side(host, port, CHANNEL_SCENES)


def _side_by_side(host: str, port: int, scenes: dict[str, list[Step]]) -> dict[str, list[str]]:
    with ThreadPoolExecutor(max_workers=_SIDE_BY_SIDE) as pool:
        said = {
            name: pool.submit(play_messages, host, port, scene) for name, scene in scenes.items()
        }
        return {name: one.result() for name, one in said.items()}


def play_all_greetings(host: str, port: int) -> dict[str, list[str]]:
    """The slow ones are those where RabbitMQ keeps a stranger waiting; they are played side by side."""
    with ThreadPoolExecutor(max_workers=32) as pool:
        first = {
            name: pool.submit(play_first_bytes, host, port, data)
            for name, data in FIRST_BYTES.items()
        }
        said = {
            name: pool.submit(play_greeting, host, port, wish) for name, wish in GREETINGS.items()
        }
        return {name: one.result() for name, one in first.items()} | {
            name: [one.result()] for name, one in said.items()
        }


def recorded(path: Path = RECORDED) -> dict[str, list[str]]:
    """What RabbitMQ answered when it was last asked."""
    answers: dict[str, list[str]] = json.loads(path.read_text())
    return answers


def main(host: str, port: int) -> None:
    for path, answers in (
        (RECORDED, play_all(host, port)),
        (RECORDED_MESSAGES, play_all_messages(host, port)),
        (RECORDED_RAW, play_all_raw(host, port)),
        (RECORDED_CHANNELS, play_all_channels(host, port)),
        (RECORDED_GREETINGS, play_all_greetings(host, port)),
    ):
        path.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
