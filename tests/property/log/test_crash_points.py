"""Kill the process, or the machine, between any two changes to the disk, and look at what is left.

One long script uses every verb of the log. It is run once to count its changes, then once for every change,
crashing there. The promise is checked after each restart:

* process killed: everything acknowledged is there, at its offset;
* machine lost power: everything below the recovery point that was written down is there;
* always: the log opens, offsets are dense above its start, none is given out twice, and appends go on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from millpond.base.errors import CorruptLog
from millpond.base.ids import TopicPartition
from millpond.log.checkpoint import RECOVERY_POINTS_FILE, read_offsets
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir
from millpond.log.partition_log import PartitionLog
from millpond.record.records import Record
from tests.support.storage.faulty_storage import Crash, FaultyStorage
from tests.support.storage.log_kit import (
    NOW,
    batch,
    compact,
    headers,
    latest_by_key,
    marker,
    records,
)

PLAIN = TopicPartition("plain", 0)
TABLE = TopicPartition("table", 3)
CONFIGS = {
    "plain": LogConfig(segment_bytes=600, index_interval_bytes=150, retention_ms=10_000),
    "table": LogConfig(
        segment_bytes=400, index_interval_bytes=150, cleanup_policy=frozenset({"compact"})
    ),
}


@dataclass
class Acknowledged:
    """What the world was told."""

    plain: dict[int, bytes] = field(default_factory=dict)  # offset → value
    plain_start: int = 0
    table: list[tuple[int, bytes, bytes | None]] = field(default_factory=list)
    sequence: int = 0
    deleted: bool = False
    now_ms: int = NOW


class Script:
    """Everything that can be done to a data directory, one yield after each acknowledged step."""

    def __init__(self, storage: FaultyStorage) -> None:
        self.storage = storage
        self.told = Acknowledged()

    def run(self) -> None:
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        directory = open_dir(self.storage)
        told = self.told
        plain = directory.create(PLAIN, CONFIGS["plain"], now_ms=NOW)
        table = directory.create(TABLE, CONFIGS["table"], now_ms=NOW)
        yield
        for number in range(12):
            self.append_plain(plain, epoch=number // 4)
            self.append_table(table, key=b"k%d" % (number % 3), value=b"%d" % number * 30)
            yield
        plain.flush()
        directory.write_checkpoints()
        yield
        self.append_transaction(plain)
        yield
        assert compact(table)
        yield
        self.append_table(table, key=b"k1", value=None)
        self.append_plain(plain, epoch=4)
        yield
        told.plain_start = 3  # asked for; the answer is not needed for readers not to care any more
        plain.delete_records(3)
        yield
        told.plain_start = plain.end_offset
        told.now_ms = NOW + 20_000
        assert plain.apply_retention(told.now_ms) > 2
        told.plain_start = plain.start_offset
        yield
        for number in range(6):
            self.append_plain(plain, epoch=5)
            self.append_table(table, key=b"k%d" % (number % 2), value=b"%d" % number * 30)
            yield
        table.flush()
        plain.flush()
        directory.write_checkpoints()
        yield
        assert compact(table, now_ms=NOW + 1)
        yield
        directory.close(now_ms=NOW)

    def append_plain(self, log: PartitionLog, *, epoch: int) -> None:
        told = self.told
        value = b"plain %d" % told.sequence * 8
        info = log.append_as_leader(
            batch(
                value,
                producer_id=1,
                producer_epoch=0,
                base_sequence=told.sequence,
                timestamp=told.now_ms,
            ),
            leader_epoch=epoch,
            now_ms=told.now_ms,
        )
        assert info.first_offset not in told.plain
        told.plain[info.first_offset] = value
        told.sequence += 1

    def append_transaction(self, log: PartitionLog) -> None:
        data = batch(b"txn", producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
        info = log.append_as_leader(data, leader_epoch=4, now_ms=NOW)
        self.told.plain[info.first_offset] = b"txn"
        log.append_as_leader(marker(commit=False, producer_id=2), leader_epoch=4, now_ms=NOW)

    def append_table(self, log: PartitionLog, *, key: bytes, value: bytes | None) -> None:
        info = log.append_as_leader(batch((key, value)), leader_epoch=0, now_ms=NOW)
        self.told.table.append((info.first_offset, key, value))


def open_dir(storage: FaultyStorage) -> LogDir:
    directory = LogDir(storage, "data")
    directory.open(1, "cluster", now_ms=NOW, config_for=CONFIGS.__getitem__)
    return directory


def crash(change: int, *, tears: int = 0) -> Script:
    script = Script(FaultyStorage())
    script.storage.crash_at = change
    script.storage.crash_tears = tears
    with pytest.raises(Crash):
        script.run()
    return script


def count_changes() -> int:
    script = Script(FaultyStorage())
    script.run()
    return script.storage.changes


CHANGES = count_changes()


def test_the_script_does_enough() -> None:
    script = Script(FaultyStorage())
    script.run()
    assert CHANGES > 250
    assert len(script.told.plain) > 18
    assert script.told.plain_start > 5


# --- the process dies -------------------------------------------------------------------------


@pytest.mark.parametrize(("tears", "step"), [(0, 1), (40, 1), (1, 4), (1_000, 4)])
def test_a_killed_process_loses_nothing_acknowledged(tears: int, step: int) -> None:
    for change in range(0, CHANGES, step):
        script = crash(change, tears=tears)
        script.storage.kill()
        directory = open_dir(script.storage)

        check_plain(directory, script.told, durable_from=None)
        check_table(directory, script.told)
        check_goes_on(directory)


def test_killed_again_while_recovering() -> None:
    for change in range(0, CHANGES, 7):
        script = crash(change, tears=30)
        storage = script.storage
        for again in range(0, 60, 3):
            storage.kill()
            attempt = storage.copy()
            attempt.crash_at = again
            try:
                directory = open_dir(attempt)
            except Crash:
                attempt.kill()
                directory = open_dir(attempt)
                check_plain(directory, script.told, durable_from=None)
                check_table(directory, script.told)
                check_goes_on(directory)
                continue
            break


# --- the machine dies -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep_names", "tail_bytes", "step"),
    [(False, 0, 1), (True, 0, 1), (True, 17, 3), (True, 150, 3), (False, 90, 3)],
)
def test_a_loss_of_power_loses_nothing_below_the_recovery_point(
    keep_names: bool, tail_bytes: int, step: int
) -> None:
    for change in range(0, CHANGES, step):
        script = crash(change)
        script.storage.lose_power(keep_names=keep_names, tail_bytes=tail_bytes)
        written_down = read_offsets(script.storage, f"data/{RECOVERY_POINTS_FILE}")
        directory = open_dir(script.storage)

        if PLAIN in directory.logs:
            check_plain(directory, script.told, durable_from=written_down.get(PLAIN, 0))
        if TABLE in directory.logs:
            check_table_below(directory.logs[TABLE], script.told, written_down.get(TABLE, 0))
        check_goes_on(directory)


# --- what is checked --------------------------------------------------------------------------


def read_all(log: PartitionLog) -> list[Record]:
    try:
        return records(log)
    except CorruptLog as corrupt:
        raise AssertionError(f"nothing was damaged, yet {corrupt}") from corrupt


def check_plain(directory: LogDir, told: Acknowledged, *, durable_from: int | None) -> None:
    """``durable_from`` is None after a kill; else what lies at or above it may be gone."""
    log = directory.logs.get(PLAIN)
    if log is None:
        assert not told.plain
        return
    found = {record.offset: record.value for record in read_all(log)}
    bound = log.end_offset if durable_from is None else durable_from
    start = max(told.plain_start, log.start_offset)
    for offset, value in told.plain.items():
        if start <= offset < bound or (durable_from is None and offset >= start):
            assert found[offset] == value, offset
    assert log.start_offset <= max(told.plain_start, 0) or log.start_offset <= log.end_offset
    if durable_from is None:
        assert log.end_offset > max(told.plain, default=-1)
        # A retry of the last batch is recognised: nothing acknowledged is doubled.
        if told.plain:
            last = max(told.plain)
            if last >= log.start_offset and told.plain[last] != b"txn":
                assert log.producers.producers[1].last_sequence >= told.sequence - 1


def check_table(directory: LogDir, told: Acknowledged) -> None:
    log = directory.logs.get(TABLE)
    if log is None:
        assert not told.table
        return
    found = read_all(log)
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    expected = {key: value for _, key, value in told.table}
    table = latest_by_key(found)
    last = max((offset for offset, _, _ in told.table), default=-1)
    unacknowledged = [record for record in found if record.offset > last]
    for record in unacknowledged:
        expected[record.key or b""] = record.value
    assert table == {key: value for key, value in expected.items() if value is not None}


def check_table_below(log: PartitionLog, told: Acknowledged, bound: int) -> None:
    """The last flushed value of each key is there, or a later one is."""
    newest = {record.key: record.offset for record in read_all(log)}
    flushed = {key: (offset, value) for offset, key, value in told.table if offset < bound}
    for key, (offset, value) in flushed.items():
        assert value is None or newest[key] >= offset


def check_goes_on(directory: LogDir) -> None:
    """Appends work, reads see them, and a clean stop and start changes nothing."""
    for topic_partition, log in directory.logs.items():
        end = log.end_offset
        info = log.append_as_leader(batch((b"new", b"new")), leader_epoch=99, now_ms=NOW)
        assert info.first_offset == end
        assert [record.value for record in records(log, start=end)] == [b"new"]
        if topic_partition == PLAIN:
            covered = covered_offsets(log)
            assert covered == list(range(covered[0], log.end_offset))
    before = {tp: [r.offset for r in records(log)] for tp, log in directory.logs.items()}
    directory.close(now_ms=NOW)
    again = open_dir(directory.storage)  # type: ignore[arg-type]
    assert again.was_clean
    assert not again.reports, [str(report) for report in again.reports]
    assert {tp: [r.offset for r in records(log)] for tp, log in again.logs.items()} == before


def covered_offsets(log: PartitionLog) -> list[int]:
    """Every offset that batches cover, control batches too."""
    return [
        offset
        for header in headers(log)
        for offset in range(max(header.base_offset, log.start_offset), header.next_offset)
    ]


def test_the_checks_can_fail() -> None:
    """A log that acknowledges before it writes is caught."""
    script = Script(FaultyStorage())
    steps = script.steps()
    for _ in range(5):
        next(steps)
    script.told.plain[max(script.told.plain) + 1] = b"never written"
    script.storage.kill()
    with pytest.raises((AssertionError, KeyError)):
        check_plain(open_dir(script.storage), script.told, durable_from=None)
