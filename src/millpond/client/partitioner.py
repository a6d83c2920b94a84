"""Which partition a record goes to, as Java's client decides it.

A key always goes to the same partition, whichever client wrote it: murmur2 of its bytes, sign bit
cleared, modulo the number of partitions. Records without a key stick to one partition until a batch is
full and then move on, which makes larger batches than one record here and one there.
"""

from millpond.base.rng import Rng

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Kafka's variant of MurmurHash2, as an unsigned 32-bit number."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if whole != length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that every Kafka client with the default partitioner gives to this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartition:
    """Where records of one topic without a key go at the moment."""

    __slots__ = ("_current", "_rng")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._current = -1

    def current(self, partition_count: int) -> int:
        """The partition to use, until ``move`` says otherwise."""
        if not 0 <= self._current < partition_count:
            self._current = self._rng.randrange(partition_count)
        return self._current

    def move(self, partition_count: int) -> None:
        """A batch is full: go on with another partition, any but this one."""
        if partition_count > 1 and self._current >= 0:
            step = 1 + self._rng.randrange(partition_count - 1)
            self._current = (self._current + step) % partition_count
