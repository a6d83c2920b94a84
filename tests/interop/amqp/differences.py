"""Every difference between Millpond and RabbitMQ 3.10.8 that a client of these tests can see, and why it is.

A story is told to both brokers (``conftest.py``: ``alike``) and both must answer line for line the same, but
for what is listed here. A difference that is not there any more fails its story, so that the list stays true.
"""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where one says these lines and the other says those."""

    story: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    why: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        story="a method that there is not",
        ours=("connection closed: 503 COMMAND_INVALID - unknown method 60.99",),
        theirs=("hung up",),
        why="RabbitMQ's reader crashes; whoever sent it is told here",
    ),
    Difference(
        story="a table that is none",
        ours=(
            "connection closed: 501 FRAME_ERROR - cannot decode <<0,0,1,113,0,0,0,0,3,1,97,33>>",
        ),
        theirs=("hung up",),
        why="RabbitMQ's reader crashes; whoever sent it is told here, as with other arguments",
    ),
    Difference(
        story="a header with more flags",
        ours=(
            "connection closed: 501 FRAME_ERROR - a header has more flags than there are properties",
        ),
        theirs=("connection closed: 541 INTERNAL_ERROR",),
        why="RabbitMQ's channel crashes; it is the client that is wrong",
    ),
    Difference(
        story="properties that are cut off",
        ours=("connection closed: 501 FRAME_ERROR - a method ends within its arguments",),
        theirs=("connection closed: 541 INTERNAL_ERROR",),
        why="RabbitMQ's channel crashes; it is the client that is wrong",
    ),
    Difference(
        story="a body that is longer than announced",
        ours=(
            "connection closed: 501 FRAME_ERROR - content body frame exceeds remaining content size",
        ),
        theirs=(
            (
                "connection closed: 505 UNEXPECTED_FRAME - expected content body, "
                "got non content body frame instead"
            ),
        ),
        why="RabbitMQ goes on gathering without an end; it is said where it happens here",
    ),
    Difference(
        story="a body that is too large",
        ours=(
            (
                "channel closed: 406 PRECONDITION_FAILED - message size 1099511627776 is larger than "
                "configured max size 134217728"
            ),
        ),
        theirs=(
            (
                "connection closed: 505 UNEXPECTED_FRAME - expected content body, "
                "got non content body frame instead"
            ),
        ),
        why="RabbitMQ gathers the whole body and refuses it then, in the same words; here the header is "
        "enough, so that nobody can fill the memory",
    ),
    Difference(
        story="AMQP 0-8",
        ours=("header b'AMQP\\x00\\x00\\t\\x01'", "hung up"),
        theirs=("method 10.10",),
        why="no client of today speaks it",
    ),
    Difference(
        story="binding the queue of replies",
        ours=(
            (
                "channel closed: 403 ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) "
                "queue"
            ),
        ),
        theirs=("channel closed: 404 NOT_FOUND - no queue 'amq.rabbitmq.reply-to' in vhost '/'",),
        why="as RabbitMQ says it since 4.2",
    ),
)


def as_rabbitmq(story: str, lines: list[str]) -> list[str]:
    """What Millpond said, with each declared difference put as RabbitMQ puts it."""
    lines = [_without_last_death(line) for line in lines]
    for difference in DIFFERENCES:
        if difference.story == story:
            lines = _replaced(lines, difference)
    return lines


def _without_last_death(line: str) -> str:
    """A letter says of its last death what RabbitMQ says since 3.13, and 3.10 did not.

    That must be what the newest entry of ``x-death`` says. An entry keeps the exchange of the first such
    death, so that only the queue and the reason can be compared when there was another. Entries that a client
    made have no time.
    """
    before, found, rest = line.partition("headers=")
    if not found or "x-death" not in rest:
        return line
    headers, end = json.JSONDecoder().raw_decode(rest)
    newest = headers["x-death"][0] if headers["x-death"] else {}
    if "time" not in newest and "x-last-death-reason" not in headers:
        return line
    for name in ("reason", "queue", "exchange"):
        said = headers.pop(f"x-last-death-{name}")
        # What brokers that did not count wrote may lack the exchange.
        assert said == newest.get(name) or (name == "exchange" and _is_older(newest)), line
    return f"{before}headers={json.dumps(headers, sort_keys=True)}{rest[end:]}"


def _is_older(entry: dict[str, object]) -> bool:
    """Whether an entry was written before the last death, by a broker or by a client."""
    return "time" not in entry or entry["count"] != 1


def _replaced(lines: list[str], difference: Difference) -> list[str]:
    size = len(difference.ours)
    for start in range(len(lines) - size + 1):
        if tuple(lines[start : start + size]) == difference.ours:
            return [*lines[:start], *difference.theirs, *lines[start + size :]]
    raise AssertionError(f"a declared difference is not there any more: {difference}: {lines}")
