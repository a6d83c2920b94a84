"""A Bloom filter over 64-bit hashes: no false negatives, a bounded rate of false positives.

Spark computes the hashes (``xxhash64``), this module keeps the bits as a NumPy array and works on whole
columns. A filter is sized for a number of ids and a false-positive rate; when it is full, a new one takes
over and the full one is still consulted until that is full too. So memory is bounded, an id is remembered for
at least ``capacity`` further ids, and the rate is at most twice the configured one.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray, which the type checker does not follow


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a filter: bits, and how many of them one id sets."""

    bits: int
    hashes: int

    @classmethod
    def of(cls, capacity: int, rate: float) -> "Shape":
        """Return the smallest shape that holds ``capacity`` ids with this false-positive rate."""
        assert capacity > 0
        assert 0 < rate < 1
        bits = math.ceil(-capacity * math.log(rate) / math.log(2) ** 2)
        bits = -(-bits // 64) * 64
        return cls(bits, max(1, round(bits / capacity * math.log(2))))

    def rate(self, ids: int) -> float:
        """Return the expected false-positive rate with this many ids."""
        return float((1 - math.exp(-self.hashes * ids / self.bits)) ** self.hashes)


class BloomFilter:
    """Two generations of bits. ``seen`` queries, ``add`` inserts; both take arrays of int64."""

    def __init__(self, capacity: int, rate: float) -> None:
        self.capacity = capacity
        self.shape = Shape.of(capacity, rate)
        self.young: Array = np.zeros(self.shape.bits // 8, dtype=np.uint8)
        self.old: Array = np.zeros(0, dtype=np.uint8)
        self.ids = 0  # in the young generation

    @property
    def rate(self) -> float:
        """The expected false-positive rate now."""
        one = self.shape.rate(self.ids)
        return one if not len(self.old) else 1 - (1 - one) * (1 - self.shape.rate(self.capacity))

    def seen(self, hashes: Array) -> Array:
        """Return which of these were added before (or are false positives)."""
        places = _places(hashes, self.shape)
        found = _all_set(self.young, places)
        return found | _all_set(self.old, places) if len(self.old) else found

    def add(self, hashes: Array) -> None:
        """Insert new hashes; starts a new generation when the present one is full."""
        start = 0
        while start < len(hashes):
            if self.ids >= self.capacity:
                self.old, self.young, self.ids = self.young, np.zeros_like(self.young), 0
            part = hashes[start : start + self.capacity - self.ids]
            places = _places(part, self.shape)
            np.bitwise_or.at(self.young, places >> 3, _MASKS[places & 7])
            self.ids += len(part)
            start += len(part)

    def save(self, file: Path) -> None:
        """Write the filter atomically."""
        fresh = file.with_suffix(".new")
        with fresh.open("wb") as out:
            np.savez(
                out,
                young=self.young,
                old=self.old,
                ids=self.ids,
                capacity=self.capacity,
                rate=self.rate,
            )
            out.flush()
            os.fsync(out.fileno())
        fresh.rename(file)

    def load(self, file: Path) -> None:
        """Load the bits of a file that ``save`` wrote with the same capacity and rate."""
        with np.load(file) as found:
            same = int(found["capacity"]) == self.capacity and len(found["young"]) == len(
                self.young
            )
            if not same:
                raise ValueError(
                    f"{file} holds a filter of another size ({int(found['capacity'])} ids): keep --capacity "
                    "and --rate, or begin with a new checkpoint"
                )
            self.young, self.old, self.ids = found["young"], found["old"], int(found["ids"])


def rate_in(file: Path) -> float:
    """Return the expected false-positive rate of a filter in a file, without reading its bits."""
    with np.load(file) as found:
        return float(found["rate"]) if "rate" in found else 0.0


_MASKS = np.left_shift(1, np.arange(8)).astype(np.uint8)


def _places(hashes: Array, shape: Shape) -> Array:
    """Return the bit positions of each hash: a start and an odd step derived from it (Kirsch and
    Mitzenmacher).
    """
    start = np.asarray(hashes, dtype=np.int64).view(np.uint64)
    step = ((start * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) | np.uint64(1)
    turns: Array = np.arange(shape.hashes, dtype=np.uint64)
    walk = (start >> np.uint64(1))[:, None] + turns * step[:, None]
    return (walk % np.uint64(shape.bits)).astype(np.int64)


def _all_set(bits: Array, places: Array) -> Array:
    return np.all(bits[places >> 3] & _MASKS[places & 7], axis=1)
