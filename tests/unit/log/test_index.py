"""Sparse indexes: Kafka's bytes, binary search, and files that cannot be right."""

import struct

import pytest

from millpond.log.index import CorruptIndex, IndexCache, OffsetIndex, TimeIndex
from tests.support.storage.faulty_storage import FaultyStorage


@pytest.fixture
def storage() -> FaultyStorage:
    made = FaultyStorage()
    made.make_dir("p")
    return made


def offset_index(storage: FaultyStorage, *entries: tuple[int, int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex(storage, f"p/{base}.index", base)
    index.begin()
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_offset_entries_are_kafkas_eight_bytes(storage: FaultyStorage) -> None:
    index = offset_index(storage, (119, 320), (2**31 - 1 + 100, 2**31 - 1))

    index.save()

    assert storage.read_all("p/100.index") == bytes.fromhex("00000013 00000140 7fffffff 7fffffff")


def test_entries_are_appended_to_the_file_and_read_back(storage: FaultyStorage) -> None:
    index = offset_index(storage, (110, 10))
    index.save()
    index.append(120, 20)
    index.save()
    index.save()

    again = OffsetIndex(storage, "p/100.index", 100)
    again.load(position_max=21)

    assert again.entries == 2
    assert again.last_position == 20
    assert again.memory_bytes == 16


def test_the_bracket_holds_the_batch() -> None:
    """The example of every talk about Kafka: offset 23 lies between entry 20 at 320 and the next."""
    index = offset_index(FaultyStorage(), (10, 100), (20, 320), (30, 700), base=0)

    assert index.bracket(23) == (320, 700)
    assert index.bracket(20) == (100, 320)
    assert index.bracket(3) == (0, 100)
    assert index.bracket(31) == (700, -1)


def test_truncation_reaches_the_file(storage: FaultyStorage) -> None:
    index = offset_index(storage, (110, 10), (120, 20), (130, 30))
    index.save()

    index.truncate(120)

    assert index.entries == 1
    assert storage.files()["p/100.index"] == 8


def test_a_longer_file_than_we_know_of_is_rewritten(storage: FaultyStorage) -> None:
    index = offset_index(storage, (110, 10))
    storage.write("p/100.index", b"left by a predecessor")

    index.save()

    assert storage.read_all("p/100.index") == struct.pack(">ii", 10, 10)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00" * 7, id="torn entry"),
        pytest.param(b"\x00" * 80, id="zeros, as a preallocated file has them after a crash"),
        pytest.param(struct.pack(">ii", 5, 4096), id="a position behind the segment's end"),
        pytest.param(struct.pack(">ii", -1, 0), id="an offset before the segment"),
        pytest.param(struct.pack(">iiii", 9, 10, 8, 20), id="offsets that shrink"),
    ],
)
def test_a_file_that_cannot_be_an_offset_index(storage: FaultyStorage, data: bytes) -> None:
    storage.write("p/100.index", data)
    with pytest.raises(CorruptIndex):
        OffsetIndex(storage, "p/100.index", 100).load(position_max=4096)


def test_a_missing_file_is_corrupt_too(storage: FaultyStorage) -> None:
    with pytest.raises(CorruptIndex):
        OffsetIndex(storage, "p/100.index", 100).load(position_max=4096)
    with pytest.raises(CorruptIndex):
        TimeIndex(storage, "p/100.timeindex", 100).load()


# --- time -------------------------------------------------------------------------------------


def time_index(storage: FaultyStorage, *entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(storage, "p/100.timeindex", 100)
    index.begin()
    for timestamp, offset in entries:
        index.append(timestamp, offset)
    return index


def test_time_entries_are_kafkas_twelve_bytes_and_only_grow(storage: FaultyStorage) -> None:
    index = time_index(storage, (1000, 110), (1000, 115), (900, 118), (2000, 120))

    index.save()

    assert storage.read_all("p/100.timeindex") == bytes.fromhex(
        "00000000000003e8 0000000a 00000000000007d0 00000014"
    )
    assert index.last_entry() == (2000, 120)


def test_the_floor_of_a_time(storage: FaultyStorage) -> None:
    index = time_index(storage, (1000, 110), (2000, 120), (3000, 130))

    assert [index.floor(ms) for ms in (999, 1000, 2500, 9999)] == [100, 110, 120, 130]
    assert time_index(storage).floor(5) == 100
    assert time_index(storage).last_entry() == (-1, 100)


def test_the_last_time_is_read_without_the_rest(storage: FaultyStorage) -> None:
    time_index(storage).save()
    storage.write("p/100.timeindex", b"")
    assert time_index(storage).read_last() == (-1, 100)
    index = time_index(storage, (1000, 110), (2000, 120))
    storage.delete("p/100.timeindex")
    with pytest.raises(CorruptIndex):
        index.read_last()
    index.save()
    assert index.read_last() == (2000, 120)
    storage.write("p/100.timeindex", b"\x00" * 24)
    with pytest.raises(CorruptIndex):
        index.read_last()
    storage.write("p/100.timeindex", b"\x00" * 25)
    with pytest.raises(CorruptIndex):
        index.read_last()


def test_time_truncation_reaches_the_file(storage: FaultyStorage) -> None:
    index = time_index(storage, (1000, 110), (2000, 120), (3000, 130))
    index.save()

    index.truncate(120)

    assert index.last_entry() == (1000, 110)
    assert storage.files()["p/100.timeindex"] == 12
    index.append(1500, 125)
    index.save()
    again = index.copy()
    again.load()
    assert again.last_entry() == (1500, 125)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00" * 11, id="torn entry"),
        pytest.param(struct.pack(">qiqi", 2000, 1, 1000, 2), id="times that shrink"),
        pytest.param(struct.pack(">qi", 2000, -1), id="an offset before the segment"),
        pytest.param(b"\x00" * 24, id="zeros"),
    ],
)
def test_a_file_that_cannot_be_a_time_index(storage: FaultyStorage, data: bytes) -> None:
    storage.write("p/100.timeindex", data)
    with pytest.raises(CorruptIndex):
        TimeIndex(storage, "p/100.timeindex", 100).load()


# --- the cache --------------------------------------------------------------------------------


def loaded(storage: FaultyStorage, base: int, entries: int) -> OffsetIndex:
    index = offset_index(storage, *[(base + n + 1, n + 1) for n in range(entries)], base=base)
    index.save()
    return index


def test_the_cache_lets_go_of_what_was_not_used(storage: FaultyStorage) -> None:
    cache = IndexCache(bytes_max=3 * 80)
    first, second, third, fourth = (loaded(storage, base, 10) for base in (0, 100, 200, 300))
    for index in (first, second, third):
        cache.admit(index)
    first.bracket(5)  # used since

    cache.admit(fourth)

    assert [index.loaded for index in (first, second, third, fourth)] == [True, False, True, True]
    assert cache.memory_bytes == 3 * 80


def test_an_index_larger_than_the_cache_is_kept_alone(storage: FaultyStorage) -> None:
    cache = IndexCache(bytes_max=10)
    small, large = loaded(storage, 0, 1), loaded(storage, 100, 100)
    cache.admit(small)

    cache.admit(large)

    assert large.loaded
    assert not small.loaded


def test_a_forgotten_index_does_not_count(storage: FaultyStorage) -> None:
    cache = IndexCache(bytes_max=80)
    first, second = loaded(storage, 0, 10), loaded(storage, 100, 10)
    cache.admit(first)
    cache.forget(first)
    cache.forget(first)

    cache.admit(second)

    assert first.loaded
    assert cache.memory_bytes == 80
