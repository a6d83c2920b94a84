"""Opening what a crash, a disk or a person left behind: nothing stops it, nothing is dropped in silence."""

from dataclasses import dataclass, replace
from uuid import UUID

import pytest

from millpond.base.errors import CorruptLog
from millpond.base.ids import TopicPartition
from millpond.log.config import LogConfig
from millpond.log.partition_log import PartitionLog
from millpond.record.batch import check_crc, iter_batches, read_header
from millpond.record.records import decode_batch
from tests.support.storage.faulty_storage import Crash, FaultyStorage
from tests.support.storage.log_kit import (
    NOW,
    TP,
    append,
    batch,
    compact,
    fill,
    headers,
    marker,
    offsets,
    open_log,
    records,
    values,
)

SMALL = LogConfig(segment_bytes=350, index_interval_bytes=100)
ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
LAST = "orders-0/00000000000000000020.log"


@dataclass(frozen=True)
class Written:
    """A small log that has everything in it, left by a crash or by a clean stop."""

    storage: FaultyStorage
    end: int
    recovery_point: int
    clean: bool

    def open(self, storage: FaultyStorage) -> PartitionLog:
        return open_log(
            storage, SMALL, clean=self.clean, recovery_point=self.recovery_point, topic_id=ID
        )


def write_log(*, flush_at: int | None, clean: bool) -> Written:
    """22 offsets in three segments: plain, idempotent, transactional and aborted batches, two epochs."""
    storage = FaultyStorage()
    log = open_log(storage, SMALL, topic_id=ID)
    sequence = 0
    for number in range(10):
        epoch = number // 5
        if number % 5 == 3:
            data = batch(
                b"t%d" % number, producer_id=2, producer_epoch=0, base_sequence=number // 5,
                transactional=True,
            )  # fmt: skip
        elif number % 5 == 4:
            data = marker(commit=number < 5, producer_id=2)
        else:
            data = batch(
                b"a%d" % number, b"b%d" % number, b"c%d" % number, producer_id=1,
                producer_epoch=0, base_sequence=sequence, timestamp=NOW + number,
            )  # fmt: skip
            sequence += 3
        log.append_as_leader(data, leader_epoch=epoch, now_ms=NOW)
        if log.end_offset == flush_at:
            log.flush()
    assert log.end_offset == 22
    assert [segment.base_offset for segment in log.segments] == [0, 10, 20]
    recovery_point = log.recovery_point
    if clean:
        log.close()
        recovery_point = log.end_offset
    storage.kill()
    return Written(storage, log.end_offset, recovery_point, clean)


WRITTEN = {
    "killed, nothing flushed": write_log(flush_at=None, clean=False),
    "killed, flushed to the second segment": write_log(flush_at=14, clean=False),
    "killed, flushed to the third segment": write_log(flush_at=21, clean=False),
    "closed": write_log(flush_at=None, clean=True),
}
EVERYTHING = [
    (record.offset, record.value)
    for record in records(WRITTEN["closed"].open(WRITTEN["closed"].storage.copy()))
]


@pytest.fixture(params=list(WRITTEN))
def written(request: pytest.FixtureRequest) -> Written:
    return WRITTEN[request.param]


def survey(log: PartitionLog) -> tuple[list[tuple[int, bytes | None]], set[int]]:
    """Every record that is served, and every offset that is refused as damaged."""
    found: list[tuple[int, bytes | None]] = []
    refused: set[int] = set()
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            piece = log.read(offset, 1, upto=log.end_offset)
        except CorruptLog:
            refused.add(offset)
            offset += 1
            continue
        if not piece.data:
            break
        header = read_header(piece.data)
        if not check_crc(piece.data, 0, header):
            refused.add(offset)  # by the reader, as every consumer does
            offset += 1
            continue
        if not header.is_control:
            found += [(record.offset, record.value) for record in decode_batch(piece.data)]
        assert header.next_offset > offset
        offset = header.next_offset
    return found, refused


def check_opened(
    written: Written, log: PartitionLog, storage: FaultyStorage, *, told: bool = True
) -> tuple[list[tuple[int, bytes | None]], set[int]]:
    """What holds after any damage at all: what is served was written, and the log goes on where it must.

    Answers what is served and what is refused.
    """
    found, refused = survey(log)
    assert set(found) <= set(EVERYTHING)
    assert sorted(found) == found
    # Nothing that was flushed is missing without being refused, unless it is said to be gone.
    expected = {
        offset for offset, _ in EVERYTHING if log.start_offset <= offset < written.recovery_point
    }
    assert expected <= {offset for offset, _ in found} | refused
    if told and (log.start_offset > 0 or refused):
        assert not log.recovery.clean
    # Offsets that were flushed are not given out again, and the log accepts appends.
    assert log.end_offset >= written.recovery_point
    end = log.end_offset
    assert append(log, batch(b"new")).first_offset == end
    assert values(log, start=end) == [b"new"]
    # And all of that is still so after a clean stop.
    log.close()
    if refused:
        storage.kill()
        again = open_log(
            storage, SMALL, clean=True, recovery_point=end + 1, start_offset=log.start_offset
        )
        assert survey(again) == ([*found, (end, b"new")], refused)
    return found, refused


# --- files that are cut or gone ---------------------------------------------------------------


def test_undamaged_everything_is_there(written: Written) -> None:
    storage = written.storage.copy()

    log = written.open(storage)

    assert survey(log) == (EVERYTHING, set())
    assert log.recovery.damage == []
    assert log.recovery.clean == written.clean
    assert log.last_stable_offset == written.end
    assert log.aborted_transactions(0, 22) == [(2, 20, 21, 22)]
    assert log.epochs.entries == [(0, 0), (1, 11)]
    assert log.topic_id == ID
    check_opened(written, log, storage)


def test_any_file_cut_at_any_byte(written: Written) -> None:
    for name, size in written.storage.files().items():
        for cut in range(size):
            storage = written.storage.copy()
            storage.cut(name, cut)

            log = written.open(storage)

            if not name.endswith(".log"):
                # No file at all is what a segment without aborts has; nobody looks after a clean stop.
                if not (written.clean and name.endswith(".txnindex") and cut == 0):
                    assert log.aborted_transactions(0, 22) == [(2, 20, 21, 22)], (name, cut)
                assert log.epochs.entries == [(0, 0), (1, 11)], (name, cut)
                assert not any(
                    producer.txn_first_offset >= 0 for producer in log.active_producers()
                )
            served = check_opened(written, log, storage, told=not written.clean)
            if not name.endswith(".log"):
                assert served == (EVERYTHING, set()), (name, cut)


def test_any_file_gone(written: Written) -> None:
    for name in written.storage.files():
        storage = written.storage.copy()
        storage.delete(name)

        log = written.open(storage)

        if not name.endswith(".log"):
            assert survey(log) == (EVERYTHING, set()), name
            if not (written.clean and name.endswith(".txnindex")):
                assert log.aborted_transactions(0, 22) == [(2, 20, 21, 22)], name
        check_opened(written, log, storage, told=not written.clean)


def test_all_index_snapshot_and_checkpoint_files_gone(written: Written) -> None:
    storage = written.storage.copy()
    for name in storage.files():
        if not name.endswith(".log"):
            storage.delete(name)

    log = written.open(storage)

    assert survey(log) == (EVERYTHING, set())
    assert log.epochs.entries == [(0, 0), (1, 11)]
    repeated = batch(
        b"a7", b"b7", b"c7", producer_id=1, producer_epoch=0, base_sequence=15, timestamp=NOW + 7
    )
    assert append(log, repeated).duplicate
    check_opened(written, log, storage)


def test_the_whole_directory_gone(written: Written) -> None:
    log = written.open(FaultyStorage())

    assert (log.start_offset, log.end_offset) == (written.recovery_point, written.recovery_point)
    fill(log, 1)


# --- bytes that changed -----------------------------------------------------------------------


def test_any_byte_of_any_file_flipped(written: Written) -> None:
    for name, size in written.storage.files().items():
        for position in range(size):
            storage = written.storage.copy()
            storage.flip(name, position, 0x41)
            log = written.open(storage)
            check_opened(written, log, storage, told=not name.endswith(".log"))


def test_the_end_of_the_last_segment_zeroed(written: Written) -> None:
    """What some file systems leave of the last pages after a loss of power."""
    size = written.storage.files()[LAST]
    for start in range(size):
        storage = written.storage.copy()
        storage.zero(LAST, start, size)
        check_opened(written, written.open(storage), storage)


def test_anything_appended_to_the_last_segment(written: Written) -> None:
    whole = bytes(batch(b"x", base_offset=22))
    for junk in (
        b"\x00",
        b"\xff" * 100,
        whole[:-1],
        bytes(5000),
        b"\x00" * 16 + b"\x02" + bytes(80),
    ):
        storage = written.storage.copy()
        storage.write(LAST, (storage.read_all(LAST) or b"") + junk)

        log = written.open(storage)

        assert survey(log) == (EVERYTHING, set())
        check_opened(written, log, storage)


# --- a torn tail ------------------------------------------------------------------------------


def test_a_torn_tail_is_cut_off_and_reported() -> None:
    written = WRITTEN["killed, flushed to the second segment"]
    storage = written.storage.copy()
    last_batch = headers(written.open(storage.copy()))[-1]
    storage.cut(LAST, storage.files()[LAST] - 1)

    log = written.open(storage)

    assert log.end_offset == last_batch.base_offset == 21
    assert log.recovery.bytes_truncated == last_batch.size - 1
    said = str(log.recovery)
    assert said.startswith("partition=orders-0: ")
    assert "ended the log at offset 21" in said
    assert storage.files()[LAST] == sum(h.size for h in headers(log, start=20))


@pytest.mark.parametrize("recovery_point", [0, 1, 2, 4])
def test_what_was_deleted_and_then_torn_off_is_missed_by_nobody(recovery_point: int) -> None:
    storage = FaultyStorage()
    fill(open_log(storage), 3)
    storage.kill()
    name = "orders-0/00000000000000000000.log"
    storage.cut(name, storage.files()[name] // 3)
    log = open_log(storage, start_offset=2)
    assert (log.start_offset, log.end_offset) == (2, 2)
    fill(log, 2)
    written = values(log)
    storage.kill()

    log = open_log(storage, start_offset=2, recovery_point=recovery_point)

    assert (log.start_offset, log.end_offset) == (2, 4)
    assert values(log) == written
    assert not log.damage


def test_segments_after_a_torn_one_go_with_it() -> None:
    written = WRITTEN["killed, nothing flushed"]
    storage = written.storage.copy()
    storage.cut("orders-0/00000000000000000010.log", 100)

    log = written.open(storage)

    assert log.end_offset == 11
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert not storage.exists(LAST)
    assert f"removed {LAST}" in str(log.recovery)


def test_a_batch_with_an_offset_that_goes_back_ends_the_log() -> None:
    storage = FaultyStorage()
    log = open_log(storage, SMALL)
    fill(log, 2)
    path = "orders-0/00000000000000000000.log"
    storage.write(path, (storage.read_all(path) or b"") + bytes(batch(b"again", base_offset=1)))
    storage.kill()

    log = open_log(storage, SMALL)

    assert log.end_offset == 2
    assert "where 2 must follow" in str(log.recovery)


# --- damage below the recovery point ------------------------------------------------------------


def damaged(*, at: int) -> tuple[PartitionLog, FaultyStorage]:
    """A log of twelve flushed batches in one segment, with one byte changed, found by recovery."""
    storage = FaultyStorage()
    log = open_log(storage, LogConfig())
    fill(log, 12)
    log.flush()
    storage.kill()
    storage.flip("orders-0/00000000000000000000.log", at, 0x41)
    return open_log(storage, LogConfig(), recovery_point=12), storage


BATCH = len(batch(b"0".ljust(100, b".")))


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(4 * BATCH + 90, id="a record"),
        pytest.param(4 * BATCH + 10, id="the length: the chain is lost"),
        pytest.param(4 * BATCH + 16, id="the format number"),
        pytest.param(4 * BATCH + 3, id="the base offset"),
    ],
)
def test_damage_is_kept_refused_and_stepped_over(at: int) -> None:
    log, storage = damaged(at=at)

    found, refused = survey(log)

    assert [offset for offset, _ in found] == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert refused == {4}
    assert log.end_offset == 12
    assert storage.files()["orders-0/00000000000000000000.log"] == 12 * BATCH  # nothing was cut
    assert len(log.recovery.damage) == 1
    assert "DAMAGE" in str(log.recovery)
    with pytest.raises(CorruptLog, match=r"offsets 4 to 4 .*Read on from offset 5"):
        log.read(4, 100, upto=12)


def test_a_read_ends_before_damage() -> None:
    log, _ = damaged(at=4 * BATCH + 90)

    piece = log.read(2, 10_000, upto=12)

    assert [header.base_offset for _, header in iter_batches(piece.data)] == [2, 3]


def test_damage_is_remembered_after_a_clean_stop() -> None:
    log, storage = damaged(at=4 * BATCH + 10)
    fill(log, 3)
    log.close()
    storage.kill()

    log = open_log(storage, LogConfig(), clean=True, recovery_point=15)

    found, refused = survey(log)
    assert refused == {4}
    assert len(found) == 14
    assert log.damage[0].first_offset == 4


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(4 * BATCH + 90, id="a record"),
        pytest.param(4 * BATCH + 23, id="the last offset delta"),
        pytest.param(4 * BATCH + 16, id="the format number"),
        pytest.param(90, id="the first batch"),
        pytest.param(11 * BATCH + 90, id="the last batch"),
    ],
)
def test_rot_in_a_closed_segment_is_found_by_whoever_reads_it(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = FaultyStorage()
    log = open_log(storage, LogConfig())
    fill(log, 12)
    log.roll(NOW)
    fill(log, 3)
    log.close()
    storage.kill()
    storage.flip("orders-0/00000000000000000000.log", at, 0x41)
    log = open_log(storage, LogConfig(), clean=True, recovery_point=15)
    assert not log.damage  # a clean start trusts what was closed

    found, refused = survey(log)

    lost = at // BATCH
    assert refused == {lost}
    assert [offset for offset, _ in found] == [number for number in range(15) if number != lost]
    assert "is damaged" in caplog.text
    log.close()
    storage.kill()
    log = open_log(storage, LogConfig(), clean=True, recovery_point=15)
    assert [damage.first_offset for damage in log.damage] == [lost]


def test_damage_does_not_hide_a_torn_tail_behind_it() -> None:
    storage = FaultyStorage()
    log = open_log(storage, LogConfig())
    fill(log, 12)
    log.flush()
    fill(log, 3)
    storage.kill()
    path = "orders-0/00000000000000000000.log"
    storage.flip(path, 4 * BATCH + 90)
    storage.cut(path, 14 * BATCH + 7)

    log = open_log(storage, LogConfig(), recovery_point=12)

    assert survey(log)[1] == {4}
    assert log.end_offset == 14
    assert log.recovery.bytes_truncated == 7


def test_flushed_offsets_that_vanished_are_not_given_out_again() -> None:
    storage = FaultyStorage()
    log = open_log(storage, LogConfig())
    fill(log, 12)
    log.flush()
    storage.kill()
    storage.cut("orders-0/00000000000000000000.log", 4 * BATCH)

    log = open_log(storage, LogConfig(), recovery_point=12)

    assert (log.start_offset, log.end_offset) == (0, 12)
    found, refused = survey(log)
    assert [offset for offset, _ in found] == [0, 1, 2, 3]
    assert refused == set(range(4, 12))
    fill(log, 1)
    assert offsets(log, start=12) == [12]


def test_a_damaged_partition_is_not_compacted() -> None:
    config = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    storage = FaultyStorage()
    log = open_log(storage, config)
    for number in range(12):
        append(log, batch((b"k", b"%d" % number * 80)))
    log.flush()
    storage.kill()
    storage.flip("orders-0/00000000000000000000.log", 90)
    log = open_log(storage, config, recovery_point=12)
    assert not log.damage  # below the recovery point nobody looked

    plan = log.plan_compaction(NOW)
    assert plan is not None
    with pytest.raises(CorruptLog, match="not compacted"):
        plan.run()
    log.abandon_compaction(plan, reason="damaged")

    assert log.plan_compaction(NOW) is None
    assert not any(name.endswith(".cleaned") for name in storage.files())


# --- leftovers --------------------------------------------------------------------------------


def test_leftovers_of_deletions_and_writes_are_removed(written: Written) -> None:
    storage = written.storage.copy()
    for name in ("00000000000000000000.log.deleted", "leader-epoch-checkpoint.tmp"):
        storage.write(f"orders-0/{name}", b"left over")

    log = written.open(storage)

    assert survey(log) == (EVERYTHING, set())
    assert not any(name.endswith((".deleted", ".tmp")) for name in storage.files())


def test_files_of_other_people_are_left_alone(written: Written) -> None:
    storage = written.storage.copy()
    for name in ("notes.txt", "1.log", "0000000000000000000x.log", "00000000000000000099.logs"):
        storage.write(f"orders-0/{name}", b"mine")

    log = written.open(storage)

    assert survey(log) == (EVERYTHING, set())
    assert storage.read_all("orders-0/1.log") == b"mine"


def test_an_index_whose_segment_is_gone_is_removed(written: Written) -> None:
    storage = written.storage.copy()
    storage.write("orders-0/00000000000000000003.index", b"")

    log = written.open(storage)

    assert not storage.exists("orders-0/00000000000000000003.index")
    assert "whose segment is gone" in str(log.recovery)


def test_stray_snapshots_are_removed_and_the_right_ones_kept(written: Written) -> None:
    storage = written.storage.copy()
    storage.write("orders-0/00000000000000000003.snapshot", b"")
    storage.write("orders-0/00000000000000000999.snapshot", b"")

    written.open(storage)

    snapshots = {name for name in storage.files() if name.endswith(".snapshot")}
    assert "orders-0/00000000000000000010.snapshot" in snapshots
    assert not snapshots & {f"orders-0/{n:020d}.snapshot" for n in (3, 999)}


def compacted_log() -> tuple[FaultyStorage, PartitionLog]:
    storage = FaultyStorage()
    log = open_log(storage, replace(SMALL, cleanup_policy=frozenset({"compact"})))
    for number in range(16):
        append(log, batch((b"k%d" % (number % 3), b"%d" % number * 40)))
    return storage, log


def test_a_compaction_killed_at_any_step_leaves_the_old_log_or_the_new_one() -> None:
    storage, log = compacted_log()
    before = [(record.offset, record.key) for record in records(log)]
    assert compact(log)
    after = [(record.offset, record.key) for record in records(log)]
    assert after != before
    steps = 0
    while True:
        storage, log = compacted_log()
        storage.crash_at = steps
        try:
            compact(log)
            break
        except Crash:
            steps += 1
        storage.kill()
        log = open_log(storage, log.config)
        found = [(record.offset, record.key) for record in records(log)]
        # Groups are swapped one after the other: old ones, then new ones.
        assert set(after) <= set(found) <= set(before), steps
        assert sorted(found) == found
        assert log.end_offset == 16
        assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in storage.files())
        fill(log, 1)
    assert steps > 20


def test_the_partition_is_named_in_the_report() -> None:
    written = WRITTEN["killed, nothing flushed"]
    log = written.open(written.storage.copy())
    assert log.recovery.topic_partition == TP == TopicPartition("orders", 0)
    assert "checked" in str(log.recovery)
    assert log.recovery.bytes_checked == log.size_bytes


def test_a_log_that_ends_below_its_start_begins_anew_there_and_loses_nothing_that_comes() -> None:
    """The start is written without a sync: what is acknowledged later must not depend on it."""
    storage = FaultyStorage()
    log = open_log(storage)
    fill(log, 5)
    log.flush()
    fill(log, 5)
    log.delete_records(10)
    path = next(path for path in storage.files() if path.endswith("/00000000000000000000.log"))
    data = storage.read_all(path) or b""
    storage.write(path, data[: len(data) * 7 // 10])

    log = open_log(storage, recovery_point=5, start_offset=10)
    assert (log.start_offset, log.end_offset) == (10, 10)
    fill(log, 4)
    log.flush()
    storage.kill()

    log = open_log(storage, recovery_point=5)
    assert (log.start_offset, log.end_offset) == (10, 14)
    assert log.recovery.damage == []


def test_what_is_torn_below_the_start_of_the_log_ends_nothing_above_it() -> None:
    storage = FaultyStorage()
    config = LogConfig(segment_bytes=400)
    log = open_log(storage, config)
    fill(log, 12)
    bases = [segment.base_offset for segment in log.segments]
    log.delete_records(bases[2])
    first = next(path for path in storage.files() if path.endswith(f"/{0:020d}.log"))
    storage.write(first, (storage.read_all(first) or b"")[:100])

    log = open_log(storage, config, start_offset=bases[2])

    assert (log.start_offset, log.end_offset) == (bases[2], 12)
    assert offsets(log) == list(range(bases[2], 12))
