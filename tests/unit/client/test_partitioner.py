"""Keys go where Java's client sends them."""

import random
from uuid import UUID

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.murmur2 import murmur2, partition_for_key
from millpond.client.partitioner import StickyPartition

# From Kafka's own UtilsTest: bytes and the signed hash.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KNOWN)
def test_hashes_as_kafka_documents(key: bytes) -> None:
    assert murmur2(key) == KNOWN[key] & 0xFFFFFFFF


@given(st.binary(max_size=70))
def test_hashes_as_another_client_does(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_the_sign_bit_is_dropped_not_the_sign() -> None:
    assert partition_for_key(b"21", 100) == (-973932308 & 0x7FFFFFFF) % 100
    assert partition_for_key(b"", 7) in range(7)


class SeededRng:
    def __init__(self) -> None:
        self._random = random.Random(1)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid4(self) -> UUID:
        raise NotImplementedError


class TestSticky:
    def test_stays_until_it_is_told_to_move(self) -> None:
        sticky = StickyPartition(SeededRng())
        first = sticky.current(5)
        assert [sticky.current(5) for _ in range(20)] == [first] * 20

    def test_moves_to_another_partition_always(self) -> None:
        sticky = StickyPartition(SeededRng())
        seen = set()
        for _ in range(100):
            before = sticky.current(4)
            sticky.move(4)
            assert sticky.current(4) != before
            seen.add(before)
        assert seen == {0, 1, 2, 3}

    def test_one_partition_is_where_everything_goes(self) -> None:
        sticky = StickyPartition(SeededRng())
        assert sticky.current(1) == 0
        sticky.move(1)
        assert sticky.current(1) == 0
