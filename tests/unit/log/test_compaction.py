"""Compaction: the last record of each key, at its offset, in order, and what must outlive it."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from millpond.base.errors import OutOfOrderSequence, ProducerFenced, StorageFailure
from millpond.log.config import LogConfig
from millpond.log.file_storage import FileStorage
from millpond.log.partition_log import PartitionLog
from millpond.record.batch import BatchHeader, check_crc, write_crc
from millpond.record.compression import Compression
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import (
    NOW,
    append,
    batch,
    compact,
    fetch,
    headers,
    latest_by_key,
    marker,
    offsets,
    open_log,
    records,
)

DAY_MS = 24 * 60 * 60 * 1000
TABLE = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=100_000,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
)


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage()


@pytest.fixture
def log(storage: FaultyStorage) -> PartitionLog:
    return open_log(storage, TABLE)


def put(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], **fields: int) -> int:
    return append(log, batch(*pairs, **fields)).first_offset


def table(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records(log)]


# --- what stays -------------------------------------------------------------------------------


def test_the_last_value_of_each_key_stays_at_its_offset(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"c", b"1"), (b"b", b"2"))
    log.roll(NOW)
    put(log, (b"a", b"3"))

    assert compact(log)

    # The active segment is not compacted, so the older "a" below it stays for now.
    assert table(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3")]
    assert log.cleaner_offset == 5
    assert (log.start_offset, log.end_offset) == (0, 6)


def test_a_later_pass_uses_what_came_since(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll(NOW)
    compact(log)
    put(log, (b"a", b"2"))
    log.roll(NOW)

    assert compact(log)

    assert table(log) == [(1, b"b", b"1"), (2, b"a", b"2")]
    assert log.cleaner_offset == 3


def test_records_without_a_key_go(log: PartitionLog) -> None:
    put(log, (None, b"x"), (b"a", b"1"))
    log.roll(NOW)

    compact(log)

    assert table(log) == [(1, b"a", b"1")]


def test_keys_are_compared_whole_however_long(log: PartitionLog) -> None:
    long_a, long_b = b"k" * 500 + b"a", b"k" * 500 + b"b"
    put(log, (long_a, b"1"), (long_b, b"1"), (long_a, b"2"), (b"", b"empty key"))
    log.roll(NOW)

    compact(log)

    assert table(log) == [(1, long_b, b"1"), (2, long_a, b"2"), (3, b"", b"empty key")]


def test_untouched_batches_are_copied_byte_for_byte(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), compression=Compression.ZSTD)
    before = [data for _, data in fetch(log)]
    log.roll(NOW)

    compact(log)

    assert [data for _, data in fetch(log)] == before


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_that_loses_records_keeps_its_codec_offsets_and_producer(
    log: PartitionLog, codec: Compression
) -> None:
    put(
        log,
        (b"a", b"1"), (b"b", b"1"), (b"a", b"2"),
        compression=codec, producer_id=9, producer_epoch=2, base_sequence=40,
    )  # fmt: skip
    log.roll(NOW)

    compact(log)

    ((header, data),) = fetch(log)
    assert check_crc(data, 0, header)
    assert header.compression == codec
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 40)


def test_a_batch_of_nonsense_stays_and_stops_nothing(log: PartitionLog) -> None:
    """Its checksum is right: a producer made it so. One such batch must not end compaction for good."""
    nonsense = batch((b"n", b"12345"))
    nonsense[61:] = b"\xff" * (len(nonsense) - 61)
    write_crc(nonsense, 0, len(nonsense))
    put(log, (b"a", b"1"))
    append(log, nonsense)
    put(log, (b"a", b"2"))
    log.roll(NOW)

    assert compact(log)

    assert [header.base_offset for header in headers(log)] == [1, 2]


# --- tombstones -------------------------------------------------------------------------------


def test_a_tombstone_outlives_the_pass_that_saw_it_by_its_delay(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    log.roll(NOW)

    compact(log, now_ms=NOW)
    assert table(log) == [(1, b"b", b"1"), (2, b"a", None)]
    assert headers(log)[-1].delete_horizon_ms == NOW + DAY_MS
    assert records(log)[-1].timestamp == NOW  # times of records stay

    put(log, (b"c", b"1"))
    log.roll(NOW)
    compact(log, now_ms=NOW + DAY_MS - 1)
    assert (2, b"a", None) in table(log)

    put(log, (b"d", b"1"))
    log.roll(NOW)
    compact(log, now_ms=NOW + DAY_MS)
    assert table(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1")]


def test_a_value_after_a_tombstone_brings_the_key_back(log: PartitionLog) -> None:
    put(log, (b"a", None))
    put(log, (b"a", b"2"))
    log.roll(NOW)

    compact(log, now_ms=NOW)

    assert table(log) == [(1, b"a", b"2")]


# --- producers --------------------------------------------------------------------------------


def test_the_last_batch_of_an_active_producer_stays_if_need_be_empty(
    storage: FaultyStorage,
) -> None:
    log = open_log(storage, TABLE)
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=9, producer_epoch=1, base_sequence=0)
    put(log, (b"a", b"2"), (b"b", b"2"))
    log.roll(NOW)

    compact(log)

    assert table(log) == [(2, b"a", b"2"), (3, b"b", b"2")]
    empty = headers(log)[0]
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (0, 1, 0)
    # So its sequence is still known when everything but the batches is lost.
    log.close()
    for name in storage.files():
        if name.endswith(".snapshot"):
            storage.delete(name)
    log = open_log(storage, TABLE)
    repeated = batch((b"a", b"1"), (b"b", b"1"), producer_id=9, producer_epoch=1, base_sequence=0)
    assert append(log, repeated).duplicate
    with pytest.raises(OutOfOrderSequence):
        put(log, (b"a", b"9"), producer_id=9, producer_epoch=1, base_sequence=7)


def test_the_batch_of_a_forgotten_producer_goes(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(TABLE, producer_id_expiration_ms=1000))
    put(log, (b"a", b"1"), producer_id=9, producer_epoch=1, base_sequence=0)
    put(log, (b"a", b"2"))
    log.roll(NOW)
    log.apply_retention(NOW + 5000)

    compact(log)

    assert [header.base_offset for header in headers(log)] == [1]


def test_the_last_batch_of_a_pass_stays_so_that_offsets_do(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (None, b"no key, goes"))
    log.roll(NOW)

    compact(log)

    assert [(h.base_offset, h.record_count) for h in headers(log)] == [(0, 1), (1, 0)]


# --- transactions -----------------------------------------------------------------------------


def transaction(log: PartitionLog, pid: int, sequence: int, *pairs: tuple[bytes, bytes]) -> int:
    return append(
        log,
        batch(
            *pairs, producer_id=pid, producer_epoch=0, base_sequence=sequence, transactional=True
        ),
    ).first_offset


def markers(log: PartitionLog) -> list[BatchHeader]:
    return [header for header in headers(log) if header.is_control]


def test_records_of_an_aborted_transaction_go_and_win_over_nothing(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    transaction(log, 5, 0, (b"a", b"never"))
    append(log, marker(commit=False, producer_id=5))
    transaction(log, 5, 1, (b"b", b"2"))
    append(log, marker(commit=True, producer_id=5))
    log.roll(NOW)

    compact(log)

    assert table(log) == [(0, b"a", b"1"), (3, b"b", b"2")]
    assert len(markers(log)) == 2


def test_an_earlier_aborted_transaction_of_the_same_producer_is_not_the_one_at_hand(
    log: PartitionLog,
) -> None:
    put(log, (b"a", b"1"))
    transaction(log, 5, 0, (b"x", b"never"))
    append(log, marker(commit=False, producer_id=5))
    log.roll(NOW)
    compact(log)
    transaction(log, 5, 1, (b"a", b"2"))
    append(log, marker(commit=True, producer_id=5))
    log.roll(NOW)

    compact(log)

    assert table(log) == [(3, b"a", b"2")]


def test_nothing_of_an_open_transaction_is_touched(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    transaction(log, 5, 0, (b"a", b"2"))
    log.roll(NOW)
    put(log, (b"a", b"3"))
    log.roll(NOW)

    assert not compact(log)

    append(log, marker(commit=True, producer_id=5))
    assert compact(log)
    assert [offset for offset, _, _ in table(log)] == [2]


def test_a_marker_goes_after_its_transaction_and_its_delay(storage: FaultyStorage) -> None:
    log = open_log(storage, TABLE)
    transaction(log, 5, 0, (b"a", b"1"))
    append(log, marker(commit=True, producer_id=5))
    put(log, (b"a", b"2"))
    log.roll(NOW)
    compact(log, now_ms=NOW)
    assert len(markers(log)) == 1
    assert markers(log)[0].delete_horizon_ms is None  # its (empty) batch was still there

    log.producers.expire(NOW + 10 * DAY_MS, 1)  # the producer is forgotten, its batch may go
    put(log, (b"b", b"1"))
    log.roll(NOW)
    compact(log, now_ms=NOW + 1)
    put(log, (b"c", b"1"))
    log.roll(NOW)
    compact(log, now_ms=NOW + 2)
    assert [h.delete_horizon_ms for h in markers(log)] == [NOW + 2 + DAY_MS]

    put(log, (b"d", b"1"))
    log.roll(NOW)
    compact(log, now_ms=NOW + 2 + DAY_MS)
    assert markers(log) == []
    assert [key for _, key, _ in table(log)] == [b"a", b"b", b"c", b"d"]


def test_the_index_of_aborted_transactions_is_rebuilt_with_the_segment(
    storage: FaultyStorage,
) -> None:
    log = open_log(storage, TABLE)
    transaction(log, 5, 0, (b"a", b"1"))
    append(log, marker(commit=False, producer_id=5))
    put(log, (b"b", b"1"))
    log.roll(NOW)
    assert log.aborted_transactions(0, 3) == [(5, 0, 1, 2)]

    compact(log)

    # The batch is still there, empty, for its producer's sake: readers need the entry.
    assert log.aborted_transactions(0, 3) == [(5, 0, 1, 2)]
    log.close()
    log = open_log(storage, TABLE, clean=True, recovery_point=3)
    assert log.aborted_transactions(0, 3) == [(5, 0, 1, 2)]


def test_a_fenced_producer_stays_fenced(storage: FaultyStorage) -> None:
    log = open_log(storage, TABLE)
    append(log, marker(commit=True, producer_id=5, producer_epoch=3))
    put(log, (b"a", b"1"))
    log.roll(NOW)
    compact(log, now_ms=NOW)
    put(log, (b"a", b"2"))
    log.roll(NOW)
    compact(log, now_ms=NOW + 2 * DAY_MS)
    storage.kill()
    for name in storage.files():
        if name.endswith(".snapshot"):
            storage.delete(name)

    log = open_log(storage, TABLE, now_ms=NOW)

    with pytest.raises(ProducerFenced):
        transaction(log, 5, 0, (b"a", b"x"))


# --- when -------------------------------------------------------------------------------------


def test_only_topics_that_compact_are_compacted(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig())
    put(log, (b"a", b"1"))
    log.roll(NOW)
    assert log.plan_compaction(NOW) is None


def test_one_pass_at_a_time(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll(NOW)
    plan = log.plan_compaction(NOW)
    assert plan is not None
    assert log.plan_compaction(NOW) is None
    log.install_compaction(plan.run())
    put(log, (b"a", b"2"))
    log.roll(NOW)
    assert log.plan_compaction(NOW) is not None


def test_the_dirty_ratio_decides(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(TABLE, min_cleanable_dirty_ratio=0.5))
    for _ in range(4):
        put(log, (b"%d" % log.end_offset, b"v" * 100))
        log.roll(NOW)
    assert compact(log)
    assert not compact(log)  # nothing is dirty

    for _ in range(4):
        put(log, (b"%d" % log.end_offset, b"v" * 100))
        log.roll(NOW)
        assert not compact(log)  # four beside four are not more than half
    put(log, (b"%d" % log.end_offset, b"v" * 100))
    log.roll(NOW)
    assert compact(log)


def test_too_long_dirty_is_compacted_whatever_the_ratio(storage: FaultyStorage) -> None:
    config = replace(TABLE, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10_000)
    log = open_log(storage, config)
    put(log, (b"a", b"1"))
    log.roll(NOW)
    put(log, (b"b", b"1"))
    log.roll(NOW)
    log.cleaner_offset = 1  # as if a pass had been there: half of the log is dirty

    assert not compact(log, now_ms=NOW + 10_000)
    assert compact(log, now_ms=NOW + 10_001)


def test_the_active_segment_rolls_when_its_lag_is_up(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(TABLE, max_compaction_lag_ms=10_000))
    put(log, (b"a", b"1"))
    assert not log.roll_if_due(NOW + 10_000)
    assert log.roll_if_due(NOW + 10_001)


def test_young_records_are_left_alone(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(TABLE, min_compaction_lag_ms=10_000))
    append(log, batch((b"a", b"1"), timestamp=NOW))
    log.roll(NOW)
    append(log, batch((b"a", b"2"), timestamp=NOW + 5_000))
    log.roll(NOW)
    append(log, batch((b"a", b"3"), timestamp=NOW + 6_000))

    assert not compact(log, now_ms=NOW + 9_999)
    assert compact(log, now_ms=NOW + 10_000)
    assert offsets(log) == [0, 1, 2]
    assert compact(log, now_ms=NOW + 20_000)
    assert offsets(log) == [1, 2]


def test_nothing_that_is_not_replicated_is_compacted(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll(NOW)
    put(log, (b"a", b"2"))
    log.roll(NOW)

    assert log.plan_compaction(NOW, upto=0) is None
    plan = log.plan_compaction(NOW, upto=1)
    assert plan is not None
    assert plan.bound == 1


def test_more_keys_than_fit_take_several_passes(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(TABLE, segment_bytes=500))
    for number in range(60):
        put(log, (b"k%d" % (number % 20), b"%d" % number))
    log.roll(NOW)
    passes = 0
    while True:
        plan = log.plan_compaction(NOW)
        if plan is None:
            break
        plan.keys_max = 7
        result = plan.run()
        assert result.end_offset > plan.first_dirty
        log.install_compaction(result)
        passes += 1
    assert passes > 3
    assert latest_by_key(records(log)) == {b"k%d" % n: b"%d" % (40 + n) for n in range(20)}


# --- how --------------------------------------------------------------------------------------


def small_segments(storage: FaultyStorage) -> PartitionLog:
    log = open_log(storage, replace(TABLE, segment_bytes=400))
    for number in range(40):
        put(log, (b"k%d" % (number % 4), b"%d" % number * 10))
    return log


def test_small_segments_are_joined(storage: FaultyStorage) -> None:
    log = small_segments(storage)
    before = len(log.segments)

    compact(log)
    log.roll(NOW)
    put(log, (b"k0", b"x"))
    log.roll(NOW)
    compact(log)

    assert len(log.segments) < before / 2
    assert all(segment.size <= 400 for segment in log.segments)


def test_old_files_go_after_their_delay_and_none_is_left_over(storage: FaultyStorage) -> None:
    log = small_segments(storage)
    compact(log)
    assert any(name.endswith(".deleted") for name in storage.files())

    log.purge(NOW + log.config.file_delete_delay_ms)

    assert not any(name.endswith((".deleted", ".cleaned", ".swap")) for name in storage.files())
    bases = {f"orders-0/{segment.base_offset:020d}.log" for segment in log.segments}
    assert {name for name in storage.files() if name.endswith(".log")} == bases


def test_appends_and_reads_go_on_while_a_pass_runs(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll(NOW)
    plan = log.plan_compaction(NOW)
    assert plan is not None

    put(log, (b"a", b"3"))
    result = plan.run()
    put(log, (b"a", b"4"))
    log.roll(NOW)
    assert offsets(log) == [0, 1, 2, 3]
    log.install_compaction(result)

    assert offsets(log) == [1, 2, 3]


def test_a_pass_that_a_truncation_overtook_is_thrown_away(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll(NOW)
    put(log, (b"a", b"3"))
    plan = log.plan_compaction(NOW)
    assert plan is not None
    result = plan.run()

    log.truncate_to(2)
    log.install_compaction(result)

    assert offsets(log) == [0, 1]
    assert not any(name.endswith(".cleaned") for name in storage.files())


def test_retention_waits_for_a_pass(storage: FaultyStorage) -> None:
    config = replace(TABLE, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=0)
    log = open_log(storage, config)
    put(log, (b"a", b"1"))
    log.roll(NOW)
    plan = log.plan_compaction(NOW)
    assert plan is not None

    assert log.apply_retention(NOW + 10) == 0
    log.install_compaction(plan.run())
    assert log.apply_retention(NOW + 10) == 1


def test_a_full_disk_ends_the_pass_and_nothing_else(storage: FaultyStorage) -> None:
    log = small_segments(storage)
    before = table(log)
    plan = log.plan_compaction(NOW)
    assert plan is not None
    storage.capacity = storage.used

    with pytest.raises(StorageFailure):
        plan.run()
    storage.capacity = None
    log.abandon_compaction(plan)

    assert table(log) == before
    assert not any(name.endswith(".cleaned") for name in storage.files())
    assert compact(log)


def test_a_pass_can_run_in_another_process(tmp_path: Path) -> None:
    """The plan holds no descriptor and no reference to the log."""
    log = open_log(FileStorage(tmp_path), TABLE)
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll(NOW)
    plan = log.plan_compaction(NOW)
    assert plan is not None

    elsewhere = pickle.loads(pickle.dumps(plan))
    log.install_compaction(pickle.loads(pickle.dumps(elsewhere.run())))

    assert offsets(log) == [1]


def test_the_result_says_what_was_gained(storage: FaultyStorage) -> None:
    log = small_segments(storage)
    plan = log.plan_compaction(NOW)
    assert plan is not None
    result = plan.run()
    assert result.records_read == log.active.base_offset
    assert result.records_kept < result.records_read
    assert result.bytes_kept < result.bytes_read


def test_reads_find_their_way_through_gaps(storage: FaultyStorage) -> None:
    log = small_segments(storage)
    compact(log)
    kept = offsets(log)
    for start in range(log.end_offset):
        piece = offsets(log, start=start, max_bytes=1)
        assert [offset for offset in piece if offset >= start] == [o for o in kept if o >= start]


def test_compacted_segments_survive_a_restart_and_a_change_of_policy(
    storage: FaultyStorage,
) -> None:
    """Gaps are no damage where compaction has been, even if the topic no longer compacts."""
    log = small_segments(storage)
    compact(log)
    kept = offsets(log)
    storage.kill()

    log = open_log(storage, LogConfig(segment_bytes=400), cleaner_offset=log.cleaner_offset)

    assert log.recovery.damage == []
    assert offsets(log) == kept
    assert log.end_offset == 40


def test_gaps_that_a_follower_copied_are_no_damage_when_the_topic_no_longer_compacts(
    storage: FaultyStorage,
) -> None:
    leader = small_segments(storage)
    compact(leader)
    copies = FaultyStorage()
    follower = open_log(copies, TABLE)
    while follower.end_offset < leader.end_offset:
        data = leader.read(follower.end_offset, 1 << 20, upto=leader.end_offset).data
        follower.append_as_follower(data, now_ms=NOW)
    kept = offsets(leader)

    plain = LogConfig(segment_bytes=400)
    follower.reconfigure(plain)
    follower.flush()

    assert offsets(follower) == kept
    assert offsets(follower, max_bytes=1) == kept
    copies.kill()
    follower = open_log(copies, plain, cleaner_offset=follower.cleaner_offset)
    assert follower.recovery.damage == []
    assert (follower.end_offset, offsets(follower)) == (40, kept)


def test_a_cut_where_all_before_is_compacted_away_is_no_damage_after_a_crash(
    storage: FaultyStorage, log: PartitionLog
) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), (b"a", b"3"))
    log.roll(NOW)
    compact(log)
    log.flush()

    log.truncate_to(1)

    assert log.recovery_point <= log.end_offset == 0
    storage.kill()
    log = open_log(storage, TABLE, recovery_point=log.recovery_point)
    assert (log.recovery.damage, log.end_offset) == ([], 0)


def test_what_is_written_after_a_cut_below_what_was_compacted_is_compacted_too(
    log: PartitionLog,
) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), (b"a", b"3"), (b"a", b"4"))
    log.roll(NOW)
    compact(log)
    log.truncate_to(0)
    assert log.cleaner_offset == 0
    put(log, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"), (b"a", b"4"), (b"b", b"5"))
    log.roll(NOW)

    assert compact(log)

    assert table(log) == [(3, b"a", b"4"), (4, b"b", b"5")]
