"""Positions in topics as Spark keeps them: JSON in exactly the form of the official Kafka connector.

``{"orders": {"0": 23, "1": -1}}`` is topic, partition, next offset; in options -2 is the earliest and -1 the
latest. Checkpoints of a query hold the same form, without the negative numbers. Pure functions without a
broker.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from millpond.base.ids import TopicPartition
from millpond.spark.errors import WrongOption

Offsets: TypeAlias = dict[TopicPartition, int]

EARLIEST = -2
LATEST = -1


class Edge(IntEnum):
    """One end of every log."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; may be ``EARLIEST`` or ``LATEST``."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time, for each partition; milliseconds since 1970."""

    times: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after one time, in every partition."""

    time: int


Where: TypeAlias = Edge | AtOffsets | AtTimes | AtTime

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = '{"topicA":{"0":1700000000000},"topicB":{"0":1700000000000}}'
_PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[2,4]}'


def from_checkpoint(offset: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return positions from the dictionary that Spark passes."""
    return {
        TopicPartition(topic, int(partition)): int(position)
        for topic, positions in offset.items()
        for partition, position in positions.items()
    }


def to_checkpoint(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return the dictionary that Spark stores as JSON; topics and partitions are sorted, so equal means
    equal.
    """
    result: dict[str, dict[str, int]] = {}
    for place in sorted(offsets):
        result.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return result


def to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the same as text."""
    return json.dumps(to_checkpoint(offsets), separators=(",", ":"))


def parse_where(option: str, text: str) -> Edge | AtOffsets:
    """Parse ``earliest``, ``latest`` or JSON, as in ``startingOffsets``."""
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return Edge[word.upper()]
    if not word.startswith("{"):
        raise WrongOption(
            f"{option}={text!r}: write earliest, latest, or JSON such as {_OFFSETS_EXAMPLE}"
        )
    offsets = _parse_numbers(option, text, _OFFSETS_EXAMPLE)
    for place, offset in offsets.items():
        if offset < EARLIEST:
            raise WrongOption(
                f"{option}: {offset} for {place} is no offset; -2 is the earliest, -1 the latest"
            )
    return AtOffsets(offsets)


def parse_times(option: str, text: str) -> AtTimes:
    """Parse JSON with a time for each partition, as in ``startingOffsetsByTimestamp``."""
    times = _parse_numbers(option, text, _TIMES_EXAMPLE)
    for place, time in times.items():
        if time < 0:
            raise WrongOption(f"{option}: {time} for {place} is no time in milliseconds since 1970")
    return AtTimes(times)


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """Parse JSON with lists of partitions, as in ``assign``."""
    value = _parse_object(option, text, _PARTITIONS_EXAMPLE)
    places: set[TopicPartition] = set()
    for topic, numbers in value.items():
        if not isinstance(numbers, list) or not all(_is_number(item) for item in numbers):
            raise WrongOption(f"{option}: expected e.g. {_PARTITIONS_EXAMPLE}, got {text!r}")
        places |= {TopicPartition(topic, number) for number in numbers}
    if not places:
        raise WrongOption(f"{option}={text!r} names no partition; write {_PARTITIONS_EXAMPLE}")
    return frozenset(places)


def names(places: Iterable[TopicPartition], *, at_most: int = 10) -> str:
    """Return partitions for a message: sorted, and at most ``at_most``."""
    listed = [str(place) for place in sorted(places)]
    more = f" and {len(listed) - at_most} more" if len(listed) > at_most else ""
    return ", ".join(listed[:at_most]) + more


def _parse_numbers(option: str, text: str, example: str) -> Offsets:
    value = _parse_object(option, text, example)
    offsets: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise WrongOption(f"{option}: expected e.g. {example}, got {text!r}")
        for partition, number in partitions.items():
            if not partition.strip().isdecimal() or not _is_number(number, low=None):
                raise WrongOption(f"{option}: expected e.g. {example}, got {text!r}")
            offsets[TopicPartition(topic, int(partition))] = number
    return offsets


def _parse_object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise WrongOption(f"{option}: expected e.g. {example}, got {text!r}")
    return value


def _is_number(value: object, low: int | None = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and (low is None or value >= low)
