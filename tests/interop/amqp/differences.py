"""Every difference between Millpond and RabbitMQ 3.10.8 that a client of these tests can see, and why it is.

A story is told to both brokers (``conftest.py``: ``alike``) and both must answer line for line the same, but
for what is listed here. A difference that is not there any more fails its story, so that the list stays true.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where one says these lines and the other says those."""

    story: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    why: str


DIFFERENCES: tuple[Difference, ...] = ()


def as_rabbitmq(story: str, lines: list[str]) -> list[str]:
    """What Millpond said, with each declared difference put as RabbitMQ puts it."""
    for difference in DIFFERENCES:
        if difference.story == story:
            lines = _replaced(lines, difference)
    return lines


def _replaced(lines: list[str], difference: Difference) -> list[str]:
    size = len(difference.ours)
    for start in range(len(lines) - size + 1):
        if tuple(lines[start : start + size]) == difference.ours:
            return [*lines[:start], *difference.theirs, *lines[start + size :]]
    raise AssertionError(f"a declared difference is not there any more: {difference}: {lines}")
