"""A partition as its leader sees it: when records become visible, and who is told."""

from uuid import UUID

import pytest

from millpond.base.errors import (
    FencedLeaderEpoch,
    MillpondError,
    StorageFailure,
    UnknownLeaderEpoch,
    UnknownTopic,
)
from millpond.base.ids import TopicPartition
from millpond.log.config import LogConfig
from millpond.log.partition_log import PartitionLog
from millpond.record.builder import build_batch
from millpond.replication.partition import Partition, flushes_first
from tests.support.storage.faulty_storage import FaultyStorage

NOW_MS = 1_700_000_000_000


class Reader:
    """A watcher that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[int | str] = []

    def on_advance(self, added_bytes: int) -> None:
        self.heard.append(added_bytes)

    def on_gone(self) -> None:
        self.heard.append("gone")


def partition(config: LogConfig | None = None, *, epoch: int = 0) -> Partition:
    log = PartitionLog.open(
        FaultyStorage(),
        "t-0",
        TopicPartition("t", 0),
        config or LogConfig(),
        now_ms=NOW_MS,
        clean=True,
        topic_id=UUID(int=1),
    )
    return Partition(
        topic="t", index=0, topic_id=UUID(int=1), log=log, leader_epoch=epoch, isr=(1,)
    )


def write(one: Partition, value: bytes = b"v") -> int:
    return one.append(build_batch([(NOW_MS, None, value, ())]), now_ms=NOW_MS).bytes


def flush(one: Partition) -> None:
    one.log.flush()
    one.on_flushed()


GROUP = LogConfig(flush_policy="group")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LogConfig(), False),
        (GROUP, True),
        (LogConfig(flush_messages=1), True),
        (LogConfig(flush_messages=2), False),
    ],
)
def test_which_settings_make_an_acknowledgement_wait(config: LogConfig, expected: bool) -> None:
    assert flushes_first(config) is expected


def test_what_is_in_the_page_cache_is_visible_at_once() -> None:
    one = partition()
    reader = Reader()
    one.watchers[reader] = None
    size = write(one)
    assert one.high_watermark == 1
    assert reader.heard == [size]


def test_what_must_be_durable_is_visible_after_the_flush() -> None:
    one = partition(GROUP)
    reader = Reader()
    one.watchers[reader] = None
    size = write(one) + write(one)
    assert (one.high_watermark, reader.heard) == (0, [])
    flush(one)
    assert (one.high_watermark, reader.heard) == (2, [size])


def test_writers_are_confirmed_in_order_when_their_offset_is_durable() -> None:
    one = partition(GROUP)
    confirmed: list[tuple[int, MillpondError | None]] = []
    for offset in (1, 2):
        write(one)
        one.confirm_at(offset, lambda error, offset=offset: confirmed.append((offset, error)))  # type: ignore[misc]
    flush(one)
    assert confirmed == [(1, None), (2, None)]
    one.confirm_at(2, lambda error: confirmed.append((0, error)))
    assert confirmed[-1] == (0, None)


def test_a_failed_flush_is_told_to_writers_and_to_no_reader() -> None:
    one = partition(GROUP)
    reader = Reader()
    one.watchers[reader] = None
    told: list[MillpondError | None] = []
    write(one)
    one.confirm_at(1, told.append)
    error = StorageFailure("disk")
    one.on_flush_failed(error)
    assert (told, reader.heard, one.high_watermark) == ([error], [], 0)


def test_the_high_watermark_does_not_go_back_when_the_policy_changes() -> None:
    one = partition()
    write(one)
    one.reconfigure(GROUP)
    assert one.high_watermark == 1
    write(one)
    assert one.high_watermark == 1
    one.reconfigure(LogConfig())
    assert one.high_watermark == 2


def test_a_partition_that_leaves_tells_everybody_once() -> None:
    one = partition(GROUP)
    reader = Reader()
    one.watchers[reader] = None
    told: list[MillpondError | None] = []
    write(one)
    one.confirm_at(1, told.append)
    gone = UnknownTopic("t")
    one.retire(gone)
    one.retire(gone)
    assert (told, reader.heard) == ([gone], ["gone"])


def test_askers_with_another_idea_of_the_leader_are_refused() -> None:
    one = partition(epoch=3)
    one.check_epoch(-1)
    one.check_epoch(3)
    with pytest.raises(FencedLeaderEpoch):
        one.check_epoch(2)
    with pytest.raises(UnknownLeaderEpoch):
        one.check_epoch(4)


def test_epochs_end_where_the_next_begins_and_the_present_one_at_the_end() -> None:
    one = partition(epoch=0)
    write(one)
    one.lead(4)
    assert one.epoch_end_offset(4) == (4, 1)
    assert one.epoch_end_offset(2) == (0, 1)
    write(one)
    assert one.epoch_end_offset(0) == (0, 1)
    assert one.epoch_end_offset(4) == (4, 2)
    assert one.epoch_at_start() == 0


def test_an_empty_log_starts_in_the_epoch_of_its_next_record() -> None:
    assert partition(epoch=7).epoch_at_start() == 7


def test_one_replica_is_enough_where_there_is_only_one() -> None:
    partition().check_in_sync()
    partition(LogConfig(min_insync_replicas=2)).check_in_sync()
