"""A partition's log: append, read, roll, find by time, delete, flush, cut."""

from dataclasses import replace

import pytest

from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageFailure,
)
from millpond.log import segment
from millpond.log.config import LogConfig
from millpond.log.partition_log import PartitionLog
from millpond.record.batch import iter_batches, read_header, write_crc
from millpond.record.compression import Compression
from millpond.record.records import decode_batch
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import (
    NOW,
    append,
    batch,
    compact,
    fill,
    headers,
    marker,
    offsets,
    open_log,
    records,
    restore,
    values,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage()


@pytest.fixture
def log(storage: FaultyStorage) -> PartitionLog:
    return open_log(storage, SMALL)


# --- appending --------------------------------------------------------------------------------


def test_the_leader_gives_offsets_and_its_epoch(log: PartitionLog) -> None:
    first = log.append_as_leader(batch(b"a", b"b"), leader_epoch=4, now_ms=NOW)
    second = log.append_as_leader(batch(b"c"), leader_epoch=4, now_ms=NOW)

    assert (first.first_offset, first.last_offset, first.duplicate) == (0, 1, False)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert log.end_offset == 3
    assert values(log) == [b"a", b"b", b"c"]
    assert [header.leader_epoch for header in headers(log)] == [4, 4]
    assert log.epochs.entries == [(4, 0)]


def test_several_batches_in_one_append(log: PartitionLog) -> None:
    info = append(log, batch(b"a", b"b") + batch(b"c") + batch(b"d", b"e"))

    assert (info.first_offset, info.last_offset) == (0, 4)
    assert [header.base_offset for header in headers(log)] == [0, 2, 3]
    assert offsets(log) == [0, 1, 2, 3, 4]


def test_bytes_that_are_not_whole_batches_are_refused(log: PartitionLog) -> None:
    with pytest.raises(InvalidRecord):
        append(log, batch(b"a") + bytearray(b"rest"))
    with pytest.raises(InvalidRecord):
        append(log, bytearray())
    assert log.end_offset == 0


def test_append_time_replaces_the_publishers_and_keeps_the_checksum_right(
    storage: FaultyStorage,
) -> None:
    log = open_log(storage, replace(SMALL, message_timestamp_type="LogAppendTime"))

    info = append(log, batch(b"a", b"b", timestamp=5), now_ms=NOW + 3)

    assert info.append_time_ms == NOW + 3
    assert [record.timestamp for record in records(log)] == [NOW + 3, NOW + 3]
    assert open_log(storage, SMALL).end_offset == 2  # recovery checks the checksum


def test_create_time_is_kept_and_not_answered(log: PartitionLog) -> None:
    assert append(log, batch(b"a", timestamp=5)).append_time_ms == -1
    assert records(log)[0].timestamp == 5


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_the_topics_codec_wins_over_the_producers(
    storage: FaultyStorage, codec: Compression
) -> None:
    name = "uncompressed" if codec is Compression.NONE else codec.name.lower()
    log = open_log(storage, LogConfig(compression_type=name))

    append(
        log, batch(b"a" * 50, b"b", compression=Compression.LZ4) + batch(b"c", compression=codec)
    )

    assert {header.compression for header in headers(log)} == {codec}
    assert values(log) == [b"a" * 50, b"b", b"c"]


def test_batches_stay_as_sent_where_the_topic_does_not_ask(log: PartitionLog) -> None:
    sent = batch(b"a" * 50, compression=Compression.LZ4)
    append(log, bytearray(sent))

    piece = log.read(0, 1000, upto=1)
    assert piece.data[17:] == bytes(sent[17:])  # all but offset, length, epoch and magic


def test_a_batch_longer_than_a_segment_is_refused(log: PartitionLog) -> None:
    with pytest.raises(BatchTooLarge, match=r"segment\.bytes"):
        append(log, batch(b"x" * 2000))
    fill(log, 3)
    assert log.end_offset == 3


def test_a_full_disk_acknowledges_nothing_and_heals(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    fill(log, 3)
    storage.capacity = storage.used + 20

    with pytest.raises(StorageFailure, match="no space"):
        append(log, batch(b"lost", producer_id=1, producer_epoch=0, base_sequence=0))
    assert log.end_offset == 3
    assert len(values(log)) == 3

    storage.capacity = None
    restore(log)
    assert (
        append(log, batch(b"kept", producer_id=1, producer_epoch=0, base_sequence=0)).first_offset
        == 3
    )
    assert values(log)[-1] == b"kept"


def test_a_disk_that_fills_while_rolling_heals_too(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    fill(log, 5)
    room = log.config.segment_bytes - log.active.size
    assert room < 172  # the next batch does not fit
    storage.capacity = storage.used

    for _ in range(3):
        with pytest.raises(StorageFailure):
            fill(log, 1)
    storage.capacity = None
    restore(log)
    fill(log, 3)

    assert offsets(log) == list(range(8))
    assert offsets(open_log(storage, SMALL)) == list(range(8))


# --- duplicates -------------------------------------------------------------------------------


def test_a_repeated_batch_is_answered_with_its_first_result(log: PartitionLog) -> None:
    sent = batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0)
    append(log)
    first = append(log, bytearray(sent))
    append(log)

    again = append(log, bytearray(sent))

    assert again.duplicate
    assert (
        (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset) == (1, 2)
    )
    assert log.end_offset == 4


def test_duplicates_are_known_after_a_restart_of_any_kind(storage: FaultyStorage) -> None:
    sent = batch(b"a", producer_id=9, producer_epoch=0, base_sequence=0)
    log = open_log(storage, SMALL)
    append(log, bytearray(sent))

    storage.kill()
    log = open_log(storage, SMALL)
    assert append(log, bytearray(sent)).duplicate

    log.close()
    storage.kill()
    log = open_log(storage, SMALL, clean=True, recovery_point=1)
    assert log.recovery.clean
    assert append(log, bytearray(sent)).duplicate
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(b"c", producer_id=9, producer_epoch=0, base_sequence=2))


# --- rolling ----------------------------------------------------------------------------------


def test_a_segment_rolls_before_it_grows_over_its_size(log: PartitionLog) -> None:
    fill(log, 20)

    assert len(log.segments) > 2
    assert all(segment.size <= 1000 for segment in log.segments)
    assert offsets(log) == list(range(20))


def test_a_segment_rolls_when_records_are_too_far_apart_in_time(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig(segment_ms=1000))
    fill(log, 1, now_ms=NOW)
    fill(log, 1, now_ms=NOW + 1000)
    assert len(log.segments) == 1

    fill(log, 1, now_ms=NOW + 1001)

    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_first_batchs_time_counts_also_after_a_restart(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig(segment_ms=1000))
    fill(log, 1, now_ms=NOW)
    log = open_log(storage, LogConfig(segment_ms=1000))

    fill(log, 1, now_ms=NOW + 1001)

    assert len(log.segments) == 2


def test_a_segment_without_times_rolls_by_its_age(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig(segment_ms=1000))
    append(log, batch(b"a", timestamp=-1), now_ms=NOW)

    append(log, batch(b"b", timestamp=-1), now_ms=NOW + 1001)

    assert len(log.segments) == 2


def test_an_idle_segment_rolls_when_asked(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig(segment_ms=1000))
    assert not log.roll_if_due(NOW + 5000)  # empty
    fill(log, 1)

    assert not log.roll_if_due(NOW + 1000)
    assert log.roll_if_due(NOW + 1001)
    assert not log.roll_if_due(NOW + 9999)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_records_of_long_ago_do_not_roll_a_young_segment(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig(segment_ms=1000))
    append(log, batch(b"from another century", timestamp=1))

    assert not log.roll_if_due(NOW + 1000)
    assert log.roll_if_due(NOW + 1001)


def test_a_segment_rolls_when_its_index_is_full(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig(index_interval_bytes=0, segment_index_bytes=32))

    fill(log, 12)

    assert len(log.segments) > 1
    assert all(segment.offset_index.entries <= 4 for segment in log.segments)
    assert offsets(log) == list(range(12))


def test_a_segment_rolls_before_offsets_leave_32_bits(log: PartitionLog) -> None:
    far = batch(b"b", base_offset=2**31)
    append(log)

    log.append_as_follower(far, now_ms=NOW)

    assert [segment.base_offset for segment in log.segments] == [0, 1]
    log.append_as_follower(batch(b"c", base_offset=2**31 + 1), now_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2**31 + 1]
    assert offsets(log) == [0, 2**31, 2**31 + 1]


def test_rolling_an_empty_segment_does_nothing(log: PartitionLog) -> None:
    log.roll(NOW)
    assert len(log.segments) == 1


def test_files_are_laid_out_as_kafka_does(log: PartitionLog, storage: FaultyStorage) -> None:
    fill(log, 6)
    log.close()

    assert sorted(name.removeprefix("orders-0/") for name in storage.files()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000005.index",
        "00000000000000000005.log",
        "00000000000000000005.snapshot",
        "00000000000000000005.timeindex",
        "00000000000000000006.snapshot",
        "leader-epoch-checkpoint",
    ]


# --- reading ----------------------------------------------------------------------------------


def test_every_offset_can_be_the_first_one_read(log: PartitionLog) -> None:
    for number in range(40):
        append(log, batch(*[b"%d" % n for n in range(number % 4 + 1)]))

    for start in range(log.end_offset):
        piece = log.read(start, 100, upto=log.end_offset)
        first = read_header(piece.data)
        assert first.base_offset <= start <= first.last_offset


@pytest.mark.parametrize("max_bytes", [1, 90, 200, 10_000])
def test_reading_on_and_on_gives_everything_once(log: PartitionLog, max_bytes: int) -> None:
    fill(log, 50)
    assert offsets(log, max_bytes=max_bytes) == list(range(50))


def test_the_same_after_a_restart_with_indexes_from_disk(storage: FaultyStorage) -> None:
    log = open_log(storage, SMALL)
    fill(log, 50)
    log.close()
    log = open_log(storage, SMALL, clean=True, recovery_point=50)

    assert offsets(log, max_bytes=1) == list(range(50))
    fill(log, 10)
    assert offsets(log, max_bytes=1) == list(range(60))


def test_more_batches_than_are_remembered_exactly(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig(index_interval_bytes=300))
    fill(log, 1500, size=10)
    assert len(log.segments) == 1

    for start in (0, 1, 511, 512, 700, 987, 988, 1200, 1499):
        assert log.read(start, 1, upto=1500).first_batch_offset == start


def test_long_batches_are_found_too(storage: FaultyStorage) -> None:
    log = open_log(storage, LogConfig())
    fill(log, 600, size=20_000)

    for start in (0, 1, 2, 50, 87, 599):
        assert log.read(start, 1, upto=600).first_batch_offset == start


def test_nothing_at_or_above_the_bound_is_served(log: PartitionLog) -> None:
    fill(log, 30)

    for upto in (0, 1, 7, 29):
        seen: list[int] = []
        while len(seen) < upto:
            piece = log.read(len(seen), 10_000, upto=upto)
            seen += [header.base_offset for _, header in iter_batches(piece.data)]
        assert seen == list(range(upto))
        assert log.read(upto, 10_000, upto=upto).data == b""
        assert log.read(upto + 1, 10_000, upto=upto).data == b""


def test_at_least_one_batch_is_whole_only_when_asked_for(log: PartitionLog) -> None:
    append(log, batch(b"x" * 500))

    assert len(log.read(0, 10, upto=1, at_least_one=True).data) > 500
    assert len(log.read(0, 10, upto=1, at_least_one=False).data) == 10
    assert log.read(0, 0, upto=1, at_least_one=False).data == b""


def test_offsets_outside_the_log_are_refused_with_its_bounds(log: PartitionLog) -> None:
    fill(log, 5)
    log.delete_records(2)

    for offset in (-1, 1, 6):
        with pytest.raises(OffsetOutOfRange) as refused:
            log.read(offset, 100, upto=5)
        assert (refused.value.start_offset, refused.value.end_offset) == (2, 5)
    assert log.read(5, 100, upto=5).data == b""


def test_an_index_that_lies_is_found_out_and_rebuilt(storage: FaultyStorage) -> None:
    log = open_log(storage, SMALL)
    fill(log, 50)
    log.close()
    index = "orders-0/00000000000000000000.index"
    for position in range(storage.files()[index]):
        broken = storage.copy()
        broken.flip(index, position, 0x55)
        log = open_log(broken, SMALL, clean=True, recovery_point=50)
        assert offsets(log, max_bytes=1) == list(range(50)), position


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_missing_index_files_are_made_anew(storage: FaultyStorage, suffix: str) -> None:
    log = open_log(storage, SMALL)
    fill(log, 50)
    log.close()
    for name in storage.files():
        if name.endswith(suffix):
            storage.delete(name)
    log = open_log(storage, SMALL, clean=True, recovery_point=50)

    assert offsets(log, max_bytes=1) == list(range(50))
    found = log.offset_for_time(NOW)
    assert found is not None
    assert found.offset == 0
    fill(log, 5)
    assert offsets(log) == list(range(55))


# --- time -------------------------------------------------------------------------------------


def timed_log(storage: FaultyStorage) -> PartitionLog:
    log = open_log(storage, SMALL)
    for number in range(40):
        append(log, batch(b"a" * 30, b"b" * 30, timestamp=1000 + number * 10), now_ms=NOW)
    return log


@pytest.mark.parametrize("restart", [False, True])
def test_the_first_record_not_earlier_than_a_time(storage: FaultyStorage, restart: bool) -> None:
    log = timed_log(storage)
    assert len(log.segments) > 3
    if restart:
        log.close()
        log = open_log(storage, SMALL, clean=True, recovery_point=80)

    for number in range(40):
        found = log.offset_for_time(1000 + number * 10)
        assert found == (1000 + number * 10, number * 2, 0)
        assert log.offset_for_time(991 + number * 10) == found
    assert log.offset_for_time(1391) is None
    assert log.max_timestamp() == (1390, 78, 0)


def test_times_out_of_order_find_the_first_that_is_late_enough(storage: FaultyStorage) -> None:
    log = open_log(storage, SMALL)
    for timestamp in (1000, 3000, 2000, 5000, 4000):
        append(log, batch(b"x" * 300, timestamp=timestamp))

    assert log.offset_for_time(1500) == (3000, 1, 0)
    assert log.offset_for_time(3500) == (5000, 3, 0)
    assert log.max_timestamp() == (5000, 3, 0)


def test_a_time_below_the_logs_start_finds_the_start(storage: FaultyStorage) -> None:
    log = timed_log(storage)
    log.delete_records(11)

    assert log.offset_for_time(0) == (1050, 11, 0)


def test_an_empty_log_has_no_times(log: PartitionLog) -> None:
    assert log.offset_for_time(0) is None
    assert log.max_timestamp() is None
    append(log, batch(b"a", timestamp=-1))
    assert log.max_timestamp() is None


# --- deleting ---------------------------------------------------------------------------------


def test_delete_records_moves_the_start_for_good(storage: FaultyStorage) -> None:
    saved: list[int] = []
    opened: list[PartitionLog] = []
    log = open_log(storage, SMALL, save_offsets=lambda _: saved.append(opened[0].start_offset))
    opened.append(log)
    fill(log, 30)

    assert log.delete_records(17) == 17
    assert log.delete_records(3) == 17
    assert saved == [17]
    assert offsets(log) == list(range(17, 30))
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(31)

    storage.kill()
    log = open_log(storage, SMALL, start_offset=saved[-1])
    assert offsets(log) == list(range(17, 30))


def test_segments_below_the_start_are_deleted(log: PartitionLog, storage: FaultyStorage) -> None:
    fill(log, 30)
    before = len(log.segments)
    log.delete_records(17)

    deleted = log.apply_retention(NOW)

    assert deleted == 3
    assert len(log.segments) == before - 3
    assert log.start_offset == 17
    assert offsets(log) == list(range(17, 30))


def test_files_go_after_their_delay(log: PartitionLog, storage: FaultyStorage) -> None:
    fill(log, 30)
    log.delete_records(17)
    log.apply_retention(NOW)
    doomed = [name for name in storage.files() if name.endswith(".deleted")]
    assert len(doomed) == 3 * 3

    log.purge(NOW + log.config.file_delete_delay_ms - 1)
    assert storage.exists(doomed[0])
    log.purge(NOW + log.config.file_delete_delay_ms)
    assert not any(name.endswith(".deleted") for name in storage.files())


def test_retention_by_time(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(SMALL, retention_ms=10_000))
    for number in range(30):
        fill(log, 1, now_ms=NOW + number * 1000)

    assert log.apply_retention(NOW + 12_000) == 0
    assert log.apply_retention(NOW + 20_000) == 2  # newest records at 4 and 9 seconds
    assert log.start_offset == 10
    assert offsets(log)[0] == 10


def test_retention_by_time_takes_the_active_segment_after_a_roll(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(SMALL, retention_ms=10_000))
    fill(log, 7)

    assert log.apply_retention(NOW + 10_001) == 2

    assert (log.start_offset, log.end_offset) == (7, 7)
    assert log.apply_retention(NOW + 99_999) == 0
    fill(log, 1)
    assert offsets(log) == [7]


def test_records_without_times_age_by_the_files(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(SMALL, retention_ms=10_000))
    append(log, batch(b"x", timestamp=-1))

    assert log.apply_retention(5_000) == 0
    assert log.apply_retention(20_000) == 1


def test_retention_by_size_keeps_at_least_that_much(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(SMALL, retention_bytes=2_000, retention_ms=-1))
    fill(log, 30)

    log.apply_retention(NOW)

    assert 2_000 <= log.size_bytes < 3_000
    assert offsets(log) == list(range(log.start_offset, 30))


def test_nothing_that_is_not_replicated_goes(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(SMALL, retention_ms=0))
    fill(log, 30)

    log.apply_retention(NOW + 1, upto=12)

    assert log.start_offset == 10


def test_a_topic_that_only_compacts_keeps_its_segments(storage: FaultyStorage) -> None:
    config = replace(
        SMALL, retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"})
    )
    log = open_log(storage, config)
    fill(log, 30)

    assert log.apply_retention(NOW + 99) == 0
    log.delete_records(12)
    assert log.apply_retention(NOW + 99) == 2


def test_a_log_that_has_been_compacted_rests_until_more_is_written(storage: FaultyStorage) -> None:
    config = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01)
    log = open_log(storage, config)
    for _ in range(30):
        append(log, batch((b"key", b"." * 200)))

    assert compact(log)
    assert not compact(log)

    for _ in range(10):
        append(log, batch((b"key", b"." * 200)))
    assert compact(log)


def test_retention_forgets_silent_producers(storage: FaultyStorage) -> None:
    log = open_log(storage, replace(SMALL, producer_id_expiration_ms=1000))
    append(log, batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0))

    log.apply_retention(NOW + 999)
    assert [producer.producer_id for producer in log.active_producers()] == [5]
    log.apply_retention(NOW + 1000)
    assert log.active_producers() == []


# --- flushing ---------------------------------------------------------------------------------


def test_a_flush_moves_the_recovery_point_to_where_it_began(log: PartitionLog) -> None:
    fill(log, 8)
    plan = log.begin_flush()
    assert plan is not None
    fill(log, 3)

    plan.run()
    log.finish_flush(plan)

    assert log.recovery_point == 8
    log.flush()
    assert log.recovery_point == 11
    assert log.begin_flush() is None


def test_what_is_flushed_survives_a_loss_of_power(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    fill(log, 8)
    log.flush()
    fill(log, 3)

    storage.lose_power()
    log = open_log(storage, SMALL, recovery_point=8)

    assert offsets(log) == list(range(8))
    assert log.end_offset == 8


def test_after_a_failed_sync_nothing_more_is_accepted(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    fill(log, 3)
    plan = log.begin_flush()
    assert plan is not None
    storage.fail_syncs = True
    with pytest.raises(StorageFailure):
        plan.run()
    log.finish_flush(plan)
    storage.fail_syncs = False

    assert log.recovery_point == 0
    with pytest.raises(StorageFailure, match="sync failed"):
        append(log)
    with pytest.raises(StorageFailure, match="sync failed"):
        log.flush()
    assert len(values(log)) == 3  # reading goes on
    log.close()

    storage.kill()
    fill(open_log(storage, SMALL), 1)


def test_a_flush_that_a_truncation_overtook_counts_for_nothing(log: PartitionLog) -> None:
    fill(log, 8)
    plan = log.begin_flush()
    assert plan is not None
    log.truncate_to(4)
    fill(log, 8)

    plan.run()
    log.finish_flush(plan)

    assert log.recovery_point == 0


def test_an_abandoned_plan_leaves_the_data_unflushed(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    fill(log, 8)
    plan = log.begin_flush()
    assert plan is not None
    log.finish_flush(plan)  # never run
    assert log.recovery_point == 0

    log.flush()
    assert log.recovery_point == 8
    storage.lose_power()
    assert offsets(open_log(storage, SMALL, recovery_point=8)) == list(range(8))


def test_an_abandoned_plan_leaves_files_beside_the_log_unflushed(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    log.append_as_leader(batch(), leader_epoch=3, now_ms=NOW)
    beside = f"{log.directory}/quorum-state"
    storage.replace(beside, b"a vote", durable=False)
    log.flush_also(beside)
    plan = log.begin_flush()
    assert plan is not None
    log.finish_flush(plan)  # never run

    log.flush()
    storage.lose_power()

    assert storage.read_all(beside) == b"a vote"
    assert (storage.read_all(log.epochs.path) or b"").endswith(b"3 0\n")


# --- following, truncating --------------------------------------------------------------------


def test_a_follower_keeps_offsets_and_epochs(log: PartitionLog) -> None:
    sent = batch(b"a", b"b", base_offset=7, leader_epoch=2) + batch(
        b"c", base_offset=20, leader_epoch=3
    )
    cut_off = batch(b"d", base_offset=21)[:40]

    info = log.append_as_follower(sent + cut_off, now_ms=NOW)

    assert (info.first_offset, info.last_offset, info.bytes) == (7, 20, len(sent))
    assert offsets(log) == [7, 8, 20]
    assert log.epochs.entries == [(2, 7), (3, 20)]
    assert log.end_offset == 21


def test_a_follower_takes_nothing_old_and_nothing_corrupt(log: PartitionLog) -> None:
    log.append_as_follower(batch(b"a", base_offset=7), now_ms=NOW)

    with pytest.raises(InvalidRecord):
        log.append_as_follower(batch(b"b", base_offset=7), now_ms=NOW)
    broken = batch(b"b", base_offset=8)
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_as_follower(broken, now_ms=NOW)
    assert log.append_as_follower(b"", now_ms=NOW).bytes == 0
    assert log.end_offset == 8


def test_a_follower_that_refuses_one_batch_believes_nothing_of_what_came_with_it(
    log: PartitionLog,
) -> None:
    log.append_as_follower(batch(b"a", base_offset=0), now_ms=NOW)
    after_a_gap = batch(b"b", base_offset=9, leader_epoch=4)
    broken = batch(b"c", base_offset=10)
    broken[-1] ^= 1

    with pytest.raises(CorruptBatch):
        log.append_as_follower(after_a_gap + broken, now_ms=NOW)

    assert (log.end_offset, log.cleaner_offset, log.latest_epoch) == (1, 0, -1)


@pytest.mark.parametrize("offset", [0, 1, 4, 5, 6, 13, 29, 30, 31])
def test_truncation_forgets_records_producers_and_epochs(
    storage: FaultyStorage, offset: int
) -> None:
    log = open_log(storage, SMALL)
    for number in range(30):
        log.append_as_leader(
            batch(b"x" * 90, producer_id=1, producer_epoch=0, base_sequence=number),
            leader_epoch=number // 10,
            now_ms=NOW,
        )
    log.flush()

    log.truncate_to(offset)

    end = min(offset, 30)
    assert log.end_offset == end
    assert log.recovery_point <= end
    assert offsets(log) == list(range(end))
    assert log.epochs.entries == [(e, e * 10) for e in range(3) if e * 10 < end]
    info = log.append_as_leader(
        batch(b"y", producer_id=1, producer_epoch=0, base_sequence=end), leader_epoch=7, now_ms=NOW
    )
    assert info.first_offset == end
    storage.kill()
    log = open_log(storage, SMALL, recovery_point=log.recovery_point)
    assert offsets(log) == list(range(end + 1))
    assert values(log)[-1] == b"y"


def test_truncation_inside_a_batch_takes_the_whole_batch(log: PartitionLog) -> None:
    append(log, batch(b"a", b"b", b"c"))
    append(log, batch(b"d", b"e", b"f"))

    log.truncate_to(4)

    assert log.end_offset == 3
    assert values(log) == [b"a", b"b", b"c"]


def test_beginning_anew_somewhere_else(log: PartitionLog, storage: FaultyStorage) -> None:
    fill(log, 30)

    log.truncate_fully_and_start_at(1000)

    assert (log.start_offset, log.end_offset) == (1000, 1000)
    fill(log, 2)
    assert offsets(log) == [1000, 1001]
    storage.kill()
    assert offsets(open_log(storage, SMALL, start_offset=1000)) == [1000, 1001]


# --- transactions -----------------------------------------------------------------------------


def transactional(pid: int, sequence: int, value: bytes = b"t") -> bytearray:
    return batch(
        value, producer_id=pid, producer_epoch=0, base_sequence=sequence, transactional=True
    )


@pytest.mark.parametrize("restart", [None, "clean", "kill"])
def test_transactions_bound_what_is_stable_and_list_what_was_aborted(
    storage: FaultyStorage, restart: str | None
) -> None:
    log = open_log(storage, SMALL)
    append(log, transactional(1, 0))  # 0
    append(log, transactional(2, 0))  # 1
    append(log, marker(commit=False, producer_id=1))  # 2
    append(log, transactional(1, 1))  # 3
    append(log, marker(commit=True, producer_id=2))  # 4
    if restart == "clean":
        log.close()
        log = open_log(storage, SMALL, clean=True, recovery_point=5)
    elif restart == "kill":
        storage.kill()
        storage.delete("orders-0/00000000000000000000.txnindex")
        log = open_log(storage, SMALL)

    assert log.last_stable_offset == 3
    assert log.stable_below(5) == 3
    assert log.aborted_transactions(0, 3) == [(1, 0, 2, 1)]
    assert log.aborted_transactions(3, 5) == []
    append(log, marker(commit=False, producer_id=1))  # 5
    assert log.last_stable_offset == 6
    assert log.aborted_transactions(0, 6) == [(1, 0, 2, 1), (1, 3, 5, 6)]


def test_a_marker_that_is_not_replicated_holds_readers_back(log: PartitionLog) -> None:
    append(log, transactional(1, 0))
    append(log, marker(commit=True, producer_id=1))

    assert log.stable_below(1) == 0
    assert log.stable_below(2) == 2


def test_the_aborted_index_may_fail_and_is_written_later(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    append(log, transactional(1, 0))
    end = marker(commit=False, producer_id=1)
    storage.capacity = storage.used + len(end)

    append(log, end)

    assert log.aborted_transactions(0, 2) == [(1, 0, 1, 2)]
    assert storage.files().get("orders-0/00000000000000000000.txnindex", 0) == 0
    storage.capacity = None
    log.flush()
    assert storage.files()["orders-0/00000000000000000000.txnindex"] == 34


def test_the_aborted_index_survives_a_power_cut_with_what_it_speaks_of(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    append(log, transactional(1, 0))
    log.flush()  # the partition's names are durable from here on, but for those made later
    append(log, marker(commit=False, producer_id=1))
    log.flush()

    after = open_log(storage.copy_durable(), SMALL, clean=True, recovery_point=2)
    assert after.aborted_transactions(0, 2) == [(1, 0, 1, 2)]


def test_decoding_is_left_to_readers(log: PartitionLog) -> None:
    """A batch whose records are nonsense is stored and served as it is: the log never looks inside."""
    sent = batch(b"abc")
    nonsense = bytearray(sent)
    nonsense[61:] = bytes(len(sent) - 61)
    append(log, nonsense)
    with pytest.raises(CorruptBatch):
        decode_batch(log.read(0, 1000, upto=1).data)


@pytest.mark.parametrize("fault", ["nonsense", "bomb"])
def test_a_time_inside_a_batch_that_is_not_looked_into_leads_to_its_beginning(
    storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    log = open_log(storage)
    fill(log, 2)
    made = batch(b"a", b"b" * 1000, timestamp=NOW + 5, compression=Compression.ZSTD)
    if fault == "nonsense":
        made[-3:] = b"???"
        write_crc(made, 0, len(made))
    else:
        monkeypatch.setattr(segment, "SEARCHED_DECOMPRESSED_BYTES_MAX", 500)
    append(log, made)

    assert log.offset_for_time(NOW + 5) == (NOW + 5, 2, 0)
    assert log.offset_for_time(NOW + 6) is None


def test_a_control_batch_with_a_sequence_is_its_producers_batch() -> None:
    storage = FaultyStorage()
    log = open_log(storage)
    key = b"\x00\x00\x03\xf2"
    writes = {"producer_id": 7, "producer_epoch": 0}

    def deferred(sequence: int) -> bytearray:
        return batch((key, b"a"), (key, b"b"), control=True, base_sequence=sequence, **writes)

    append(log, batch(b"first", base_sequence=0, **writes))
    kept = append(log, deferred(1))
    assert (kept.first_offset, kept.duplicate) == (1, False)
    again = append(log, deferred(1))
    assert (again.first_offset, again.last_offset, again.duplicate) == (1, 2, True)
    with pytest.raises(OutOfOrderSequence):
        append(log, deferred(5))
    append(log, batch(b"next", base_sequence=3, **writes))
    assert log.producers.first_open_offset() == -1

    follower = open_log(FaultyStorage())
    follower.append_as_follower(log.read(0, 1 << 20, upto=log.end_offset).data, now_ms=NOW)
    recovered = open_log(storage)
    for one in (log, follower, recovered):
        (producer,) = one.producers
        assert [(known.first_sequence, known.first_offset) for known in producer.batches] == [
            (0, 0),
            (1, 1),
            (3, 3),
        ]
    assert append(recovered, deferred(1)).duplicate
