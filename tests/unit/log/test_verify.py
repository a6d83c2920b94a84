"""Verification: silent about a sound log, precise about any other."""

import struct
from dataclasses import replace

import pytest

from millpond.log.config import LogConfig
from millpond.log.verify import (
    Severity,
    Verified,
    recovery_points,
    verify_partition,
    verify_segment,
)
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import NOW, append, batch, compact, fill, marker, open_log

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
FIRST = "orders-0/00000000000000000000"
BATCH = len(batch(b"0".ljust(100, b".")))


@pytest.fixture
def storage() -> FaultyStorage:
    """Three segments with everything in them, closed."""
    made = FaultyStorage()
    log = open_log(made, SMALL)
    for number in range(9):
        fill(log, 1, now_ms=NOW + number)
    append(log, batch(b"t", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, marker(commit=False, producer_id=1))
    log.close()
    return made


def problems(verified: Verified) -> list[str]:
    return [
        f"{finding.path.removeprefix('orders-0/')}: {finding.text}"
        for finding in verified.findings
        if finding.severity is Severity.PROBLEM
    ]


def notices(verified: Verified) -> list[str]:
    return [f.text for f in verified.findings if f.severity is Severity.NOTICE]


def test_a_sound_log_has_no_findings(storage: FaultyStorage) -> None:
    read: list[int] = []

    verified = verify_partition(storage, "orders-0", recovery_point=11, progress=read.append)

    assert verified.findings == []
    assert verified.sound
    assert (verified.segments, verified.batches, verified.records) == (4, 11, 11)
    assert verified.bytes == sum(read)


def test_one_file_can_be_verified(storage: FaultyStorage) -> None:
    assert verify_segment(storage, FIRST + ".log").findings == []
    storage.flip(FIRST + ".log", 100)
    assert not verify_segment(storage, FIRST + ".log").sound


def test_every_flipped_byte_of_a_segment_is_found(storage: FaultyStorage) -> None:
    for position in range(storage.files()[FIRST + ".log"]):
        broken = storage.copy()
        broken.flip(FIRST + ".log", position, 0x11)
        verified = verify_partition(broken, "orders-0", recovery_point=11)
        in_batch = position % BATCH
        if 12 <= in_batch < 16:
            continue  # the leader epoch: nothing else in the segment says what it was
        assert verified.findings, position


def test_a_wrong_checksum_is_told_with_its_offsets(storage: FaultyStorage) -> None:
    storage.flip(FIRST + ".log", BATCH + 100)

    verified = verify_partition(storage, "orders-0")

    assert problems(verified) == [
        "00000000000000000000.log: wrong checksum at byte 170, offsets 1 to 1"
    ]
    assert (verified.findings[0].first_offset, verified.findings[0].next_offset) == (1, 2)
    assert verified.batches == 10  # and the rest was read


def test_a_broken_chain_is_taken_up_again(storage: FaultyStorage) -> None:
    storage.flip(FIRST + ".log", BATCH + 8, 0x40)

    verified = verify_partition(storage, "orders-0")

    assert len(problems(verified)) == 1
    assert "bytes 170 to 340 are no batches, offsets 1 to 1 are lost" in problems(verified)[0]


def test_a_torn_tail_is_a_notice_above_the_recovery_point_and_a_problem_below(
    storage: FaultyStorage,
) -> None:
    last = "orders-0/00000000000000000010.log"
    storage.cut(last, storage.files()[last] - 5)

    above = verify_partition(storage, "orders-0", recovery_point=10)
    below = verify_partition(storage, "orders-0", recovery_point=11)

    assert above.sound
    assert any("no whole batch" in text for text in notices(above))
    assert len(problems(below)) >= 1
    assert any("flushed up to 11" in text for text in problems(below))


def test_a_missing_segment_is_told(storage: FaultyStorage) -> None:
    storage.delete("orders-0/00000000000000000003.log")

    verified = verify_partition(storage, "orders-0", recovery_point=11)

    assert any("the segment it belongs to is missing" in text for text in problems(verified))
    assert any("offsets 3 to 5, before the next segment" in text for text in notices(verified))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (".index", struct.pack(">ii", 1, 169), "offset 1 at byte 169"),
        (".index", struct.pack(">iiii", 2, 340, 1, 170), "offset 1 at byte 170"),
        (".index", b"\x00" * 7, "no whole entries"),
        (".timeindex", struct.pack(">qi", NOW + 9, 1), "time"),
        (".timeindex", struct.pack(">qi", NOW + 1, 1), "largest is"),
        (".txnindex", struct.pack(">hqqqq", 0, 1, 900, 901, 902), "not in the segment"),
        (".txnindex", b"\x00" * 33, "not a multiple"),
    ],
)
def test_an_index_that_contradicts_its_segment_is_told(
    storage: FaultyStorage, name: str, data: bytes, said: str
) -> None:
    storage.write(FIRST + name, data)

    verified = verify_partition(storage, "orders-0", recovery_point=11)

    assert any(said in text for text in problems(verified)), problems(verified)


def test_missing_indexes_are_a_notice(storage: FaultyStorage) -> None:
    storage.delete(FIRST + ".index")
    verified = verify_partition(storage, "orders-0", recovery_point=11)
    assert verified.sound
    assert notices(verified) == ["it is missing; it is rebuilt when it is needed"]


def test_kafkas_reserved_index_space_is_a_notice(storage: FaultyStorage) -> None:
    last = "orders-0/00000000000000000010"
    for suffix in (".index", ".timeindex"):
        storage.write(last + suffix, (storage.read_all(last + suffix) or b"") + bytes(960))
    verified = verify_partition(storage, "orders-0", recovery_point=11)
    assert verified.sound
    assert all("reserved" in text for text in notices(verified))


@pytest.mark.parametrize("name", ["00000000000000000003.snapshot", "leader-epoch-checkpoint"])
def test_torn_small_files_are_told(storage: FaultyStorage, name: str) -> None:
    storage.cut(f"orders-0/{name}", 5)
    assert len(problems(verify_partition(storage, "orders-0", recovery_point=11))) == 1


def test_gaps_of_compaction_are_notices() -> None:
    storage = FaultyStorage()
    log = open_log(storage, replace(SMALL, cleanup_policy=frozenset({"compact"})))
    for number in range(12):
        append(log, batch((b"k%d" % (number % 2), b"v" * 90)))
    assert compact(log)
    log.close()

    verified = verify_partition(storage, "orders-0", recovery_point=12)

    assert verified.sound
    assert any("compacted" in text for text in notices(verified))


def test_leftovers_of_a_compaction_are_a_notice(storage: FaultyStorage) -> None:
    storage.write(FIRST + ".log.cleaned", b"")
    assert notices(verify_partition(storage, "orders-0")) == [
        "left by a compaction; the next start deals with it"
    ]


def test_recovery_points_come_from_the_data_directory() -> None:
    storage = FaultyStorage()
    storage.write("points", b"0\n1\norders 0 7\n")
    assert recovery_points(storage, "points") == {"orders-0": 7}
    storage.write("points", b"torn")
    assert recovery_points(storage, "points") == {}
