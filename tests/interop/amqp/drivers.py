"""Stories that are told in other languages: a driver tells all of its stories to one broker in one process.

For each it prints the story's name after ``== ``, then what its client saw, line by line, and ``failed: ``
with the reason where it failed.
"""

import functools
import subprocess

from tests.interop.amqp.brokers import AmqpPeer, Story

TIMEOUT_S = 140


@functools.cache
def told(command: tuple[str, ...]) -> dict[str, list[str]]:
    """What each story's client saw; a driver is asked once."""
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    print(done.stderr.decode(errors="replace")[-8000:])
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"
    stories: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in done.stdout.decode().splitlines():
        if line.startswith("== "):
            lines = stories[line[3:]] = []
        else:
            lines.append(line)
    return stories


def story_of(command: tuple[str, ...], name: str) -> Story:
    """A story of a driver whose command ends with the port of the broker."""

    def story(peer: AmqpPeer) -> list[str]:
        lines = told((*command, str(peer.port)))[name]
        assert not [line for line in lines if line.startswith("failed: ")], lines
        return lines

    story.__name__ = name
    return story
