"""Chooses the partition of a record, as Java's client does.

A key always maps to the same partition, whichever client wrote it: murmur2 of its bytes, sign bit cleared,
modulo the number of partitions. Records without a key go to one partition until a batch's worth of bytes went
there and then to another (KIP-794), which makes larger batches than distributing single records.

An application's partitioner is a function ``(topic, key, value, partition_count) -> int`` or a class with a
method ``partition`` of that form and, optionally, ``configure(config)`` and ``close()``.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

from millpond.base.murmur2 import partition_for_key
from millpond.base.rng import Rng
from millpond.client.errors import BadConfig, ClientError


class Partitioner(Protocol):
    """Chooses partitions. ``configure`` and ``close`` are optional."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int
    ) -> int:
        """Return a partition from 0 to ``partition_count - 1``."""
        ...


Choose: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]


class StickyPartition:
    """The partition that records of one topic without a key go to at the moment (KIP-794).

    ``take`` counts bytes, and changes the partition once ``batch_bytes`` went there, whether or not they made
    full batches: with bytes instead of batches every partition gets the same share in the long run.
    """

    __slots__ = ("_batch_bytes", "_current", "_rng", "_used")

    def __init__(self, rng: Rng, batch_bytes: int = 1) -> None:
        self._rng = rng
        self._batch_bytes = max(1, batch_bytes)
        self._current = -1
        self._used = 0

    def current(self, partition_count: int) -> int:
        """Return the partition to use, until ``move`` changes it."""
        if not 0 <= self._current < partition_count:
            self._current = self._rng.randrange(partition_count)
            self._used = 0
        return self._current

    def is_full(self, size: int) -> bool:
        """Return whether a record of ``size`` bytes goes to another partition than the one before it."""
        return self._used > 0 and self._used + size > self._batch_bytes

    def take(self, size: int, partition_count: int, loads: Sequence[int] | None = None) -> int:
        """Return the partition for a record of ``size`` bytes; ``loads`` are the lengths of the partitions'
        queues.
        """
        used = self._used + size
        if used <= self._batch_bytes and 0 <= self._current < partition_count:
            self._used = used
            return self._current
        if self.is_full(size):
            self.move(partition_count, loads)
        chosen = self.current(partition_count)
        self._used += size
        return chosen

    def move(self, partition_count: int, loads: Sequence[int] | None = None) -> None:
        """Change to any other partition, or, given ``loads``, to one with a shorter queue."""
        self._used = 0
        if partition_count <= 1 or self._current < 0:
            return
        if loads is not None and len(loads) == partition_count and any(loads):
            self._current = self._rng_weighted(loads)
            return
        step = 1 + self._rng.randrange(partition_count - 1)
        self._current = (self._current + step) % partition_count

    def _rng_weighted(self, loads: Sequence[int]) -> int:
        """Choose a partition at random, with a lower probability the longer its queue is."""
        ceiling = max(loads) + 1
        bounds = list(accumulate(ceiling - load for load in loads))
        drawn = self._rng.randrange(bounds[-1])
        return next(index for index, bound in enumerate(bounds) if drawn < bound)


class RoundRobinPartitioner:
    """Distributes records over partitions in turn, ignoring the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int
    ) -> int:
        """Return the partition after the last one of this topic."""
        number = self._next.get(topic, -1) + 1
        self._next[topic] = number
        return number % partition_count


class Murmur2Partitioner:
    """Chooses by key as Java does; each record without a key goes to a random partition."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int
    ) -> int:
        """Return the partition of the key."""
        if key is None:
            return self._rng.randrange(partition_count)
        return partition_for_key(key, partition_count)


def partitioner_of(given: Any, config: Mapping[str, Any], rng: Rng) -> Partitioner | None:
    """Return the configured partitioner; None for the default (sticky, or by key). Raises ``BadConfig``."""
    if given is None:
        return None
    if isinstance(given, str):
        short = given.rsplit(".", 1)[-1].lower().removesuffix("partitioner").replace("_", "")
        match short:
            case "default" | "sticky" | "uniformsticky" | "builtin":
                return None
            case "roundrobin":
                return RoundRobinPartitioner()
            case "murmur2" | "murmur2random" | "random":
                return Murmur2Partitioner(rng)
            case _:
                raise BadConfig(
                    f"no partitioner is called {given!r}; known are sticky, roundrobin and murmur2,"
                    " or give a function or a class"
                )
    instance = given() if isinstance(given, type) else given
    if hasattr(instance, "partition"):
        if hasattr(instance, "configure"):
            instance.configure(config)
        own: Partitioner = instance
        return own
    if callable(instance):
        return _Chosen(instance)
    raise BadConfig(f"{given!r} is no partitioner: it cannot be called and has no partition()")


def checked_partition(chosen: object, topic: str, partition_count: int) -> int:
    """Return a partitioner's choice, if the topic has that partition."""
    if isinstance(chosen, int) and 0 <= chosen < partition_count:
        return chosen
    raise ClientError(
        f"the partitioner chose {chosen!r} for {topic}, which has partitions 0 to {partition_count - 1}"
    )


class _Chosen:
    """Wraps a function as a partitioner."""

    def __init__(self, choose: Choose) -> None:
        self.partition = choose
