"""A log against the simplest thing that could be one: a list of what was acknowledged.

Hypothesis chooses the verbs and their order: append, repeat, read, find by time, roll, flush, delete, retain,
compact, truncate, close, kill, lose power. After each step the log answers as the list does.
"""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from millpond.base.errors import OffsetOutOfRange, OutOfOrderSequence
from millpond.base.ids import TopicPartition
from millpond.log.checkpoint import RECOVERY_POINTS_FILE, read_offsets
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir
from millpond.log.partition_log import PartitionLog
from millpond.record.batch import iter_batches
from millpond.record.compression import Compression
from millpond.record.records import Record
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import NOW, batch, headers, records

TP = TopicPartition("orders", 0)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.one_of(st.none(), st.binary(max_size=60))


class LogMachine(RuleBasedStateMachine):
    """One partition that is never compacted: every acknowledged record stays until it is deleted."""

    policy = frozenset({"delete"})

    def __init__(self) -> None:
        super().__init__()
        self.storage = FaultyStorage()
        self.now_ms = NOW
        self.told: dict[int, Record] = {}  # by offset
        self.ever: dict[int, set[bytes | None]] = {}  # what was ever written there
        self.ends: list[int] = [0]  # offsets at which batches end
        self.start = 0
        self.sequence = 0
        self.last: tuple[bytearray, int] | None = None  # a batch and its first offset

    @initialize(
        segment_bytes=st.integers(300, 1500),
        index_interval=st.integers(0, 400),
        append_time=st.booleans(),
    )
    def begin(self, segment_bytes: int, index_interval: int, append_time: bool) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval,
            segment_ms=60_000,
            retention_ms=100_000,
            retention_bytes=20_000,
            cleanup_policy=self.policy,
            delete_retention_ms=30_000,
            min_cleanable_dirty_ratio=0.0,
            message_timestamp_type="LogAppendTime" if append_time else "CreateTime",
        )
        self.open()
        self.directory.create(TP, self.config, now_ms=self.now_ms)

    # --- helpers --------------------------------------------------------------------------------

    @property
    def log(self) -> PartitionLog:
        return self.directory.logs[TP]

    @property
    def end(self) -> int:
        return self.ends[-1]

    def open(self) -> None:
        self.directory = LogDir(self.storage, "data")
        self.directory.open(1, "cluster", now_ms=self.now_ms, config_for=lambda topic: self.config)

    def expected(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (offset, record.key, record.value)
            for offset, record in sorted(self.told.items())
            if offset >= self.start
        ]

    # --- writing --------------------------------------------------------------------------------

    @rule(
        pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5),
        codec=st.sampled_from([Compression.NONE, Compression.LZ4, Compression.ZSTD]),
        later_ms=st.integers(0, 2_000),
    )
    def append(
        self, pairs: list[tuple[bytes, bytes | None]], codec: Compression, later_ms: int
    ) -> None:
        self.now_ms += later_ms
        data = batch(
            *pairs,
            timestamp=self.now_ms,
            compression=codec,
            producer_id=7,
            producer_epoch=0,
            base_sequence=self.sequence,
        )
        kept = bytearray(data)

        info = self.log.append_as_leader(data, leader_epoch=1, now_ms=self.now_ms)

        assert (info.first_offset, info.duplicate) == (self.end, False)
        assert info.last_offset == self.end + len(pairs) - 1
        for delta, (key, value) in enumerate(pairs):
            offset = info.first_offset + delta
            self.told[offset] = Record(offset, self.now_ms, key, value, ())
            self.ever.setdefault(offset, set()).add(value)
        self.ends.append(info.last_offset + 1)
        self.sequence += len(pairs)
        self.last = (kept, info.first_offset)

    @precondition(lambda self: self.last is not None)
    @rule()
    def append_again(self) -> None:
        assert self.last is not None
        data, offset = self.last
        info = self.log.append_as_leader(bytearray(data), leader_epoch=1, now_ms=self.now_ms)
        assert (info.first_offset, info.duplicate) == (offset, True)

    @precondition(lambda self: self.last is not None)
    @rule(skip=st.integers(1, 10))
    def append_with_a_gap(self, skip: int) -> None:
        data = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=self.sequence + skip)
        with pytest.raises(OutOfOrderSequence):
            self.log.append_as_leader(data, leader_epoch=1, now_ms=self.now_ms)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush_and_write_down(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end
        self.directory.write_checkpoints()

    @rule()
    def flush_slowly(self) -> None:
        """Another thread syncs while appends go on."""
        plan = self.log.begin_flush()
        if plan is None:
            return
        end = self.end
        self.append([(b"a", b"meanwhile")], Compression.NONE, 0)
        plan.run()
        self.log.finish_flush(plan)
        assert self.log.recovery_point == end

    # --- deleting -------------------------------------------------------------------------------

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        before = self.start + int((self.end - self.start) * share)
        assert self.log.delete_records(before) == before
        self.start = before

    @rule(later_ms=st.integers(0, 60_000))
    def retain(self, later_ms: int) -> None:
        self.now_ms += later_ms
        self.log.apply_retention(self.now_ms)

        assert self.log.start_offset >= self.start
        self.start = self.log.start_offset
        if "delete" in self.policy:
            kept = [r for o, r in self.told.items() if o >= self.start]
            segments = self.log.segments
            if len(segments) > 1:
                newest = max(
                    (r.timestamp for r in kept if r.offset < segments[1].base_offset), default=None
                )
                assert newest is None or self.now_ms - newest <= self.config.retention_ms

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int((self.end - self.start) * share)
        self.log.truncate_to(offset)
        # Where all before is compacted away, what is left to end with is the beginning of the segment.
        first = min(offset, self.log.segments[0].base_offset)
        self.ends = [end for end in self.ends if end <= offset] or [first]
        # A batch goes whole or stays whole; a log cut below its first batch begins anew there.
        assert self.log.end_offset == max(self.end, min(offset, self.log.end_offset))
        self.after_loss()

    def after_loss(self) -> None:
        """The end went back: forget what lay above it, and whom we were."""
        end = self.log.end_offset
        self.told = {offset: record for offset, record in self.told.items() if offset < end}
        self.ends = [known for known in self.ends if known < end] + [end]
        self.start = self.log.start_offset
        self.last = None
        known = self.log.producers.producers.get(7)
        if known is not None and known.batches:
            self.sequence = known.last_sequence + 1

    # --- dying ----------------------------------------------------------------------------------

    @rule()
    def close_and_open(self) -> None:
        self.directory.close(now_ms=self.now_ms)
        self.storage.kill()
        self.open()
        assert self.directory.was_clean
        assert not self.directory.reports, [str(report) for report in self.directory.reports]

    @rule()
    def kill_and_open(self) -> None:
        self.storage.kill()
        self.open()
        assert self.log.recovery.damage == []
        assert self.log.recovery.bytes_truncated == 0

    @rule(keep_names=st.booleans(), tail_bytes=st.integers(0, 200))
    def lose_power_and_open(self, keep_names: bool, tail_bytes: int) -> None:
        self.storage.lose_power(keep_names=keep_names, tail_bytes=tail_bytes)
        flushed = read_offsets(self.storage, f"data/{RECOVERY_POINTS_FILE}").get(TP, 0)
        self.open()
        if TP not in self.directory.logs:
            self.directory.create(TP, self.config, now_ms=self.now_ms)
            assert flushed == 0
        assert self.log.end_offset >= flushed
        assert self.log.recovery.damage == []
        self.after_loss()
        self.after_power_loss(flushed)

    def after_power_loss(self, flushed: int) -> None:
        """What was flushed is what it was. Above, a deletion or a cut may not have been for good: older
        records may be back, but none that never was."""
        found = {record.offset: record for record in records(self.log)}
        for offset, record in found.items():
            assert record.value in self.ever[offset]
            if offset < flushed and offset in self.told:
                assert record.value == self.told[offset].value
        for offset in self.told:
            assert offset in found or not self.start <= offset < flushed
        self.told = found
        # And with them batches that ended elsewhere.
        known = {header.next_offset for header in headers(self.log)}
        self.ends = sorted({self.log.segments[0].base_offset, *known, self.log.end_offset})

    # --- asking ---------------------------------------------------------------------------------

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 3_000))
    def read_from(self, share: float, max_bytes: int) -> None:
        offset = self.start + int((self.end - self.start) * share)
        found = [
            r for r in records(self.log, start=offset, max_bytes=max_bytes) if r.offset >= offset
        ]
        assert [(r.offset, r.key, r.value) for r in found] == [
            entry for entry in self.expected() if entry[0] >= offset
        ]

    @rule(share=st.floats(0, 1), upto_share=st.floats(0, 1))
    def read_below_a_bound(self, share: float, upto_share: float) -> None:
        upto = self.ends[int((len(self.ends) - 1) * upto_share)]
        offset = self.start + int((self.end - self.start) * share)
        data = self.log.read(offset, 500, upto=upto, at_least_one=True).data
        if offset >= upto:
            assert data == b""
        elif data:
            assert all(header.next_offset <= upto for _, header in iter_batches(data))

    @rule(beyond=st.integers(1, 1000))
    def read_outside(self, beyond: int) -> None:
        for offset in (self.start - beyond, self.end + beyond):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, 100, upto=self.end)

    @rule(back_ms=st.integers(-5_000, 100_000))
    def find_by_time(self, back_ms: int) -> None:
        wanted = self.now_ms - back_ms
        found = self.log.offset_for_time(wanted)
        live = [(o, r) for o, r in sorted(self.told.items()) if o >= self.start]
        first = next((o for o, r in live if r.timestamp >= wanted), None)
        assert (None if found is None else found.offset) == first

    # --- always ---------------------------------------------------------------------------------

    @invariant()
    def bounds_agree(self) -> None:
        log = self.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        assert log.recovery_point <= log.end_offset
        assert log.segments[0].base_offset <= max(log.start_offset, log.segments[0].base_offset)
        assert [s.base_offset for s in log.segments] == sorted(s.base_offset for s in log.segments)

    @invariant()
    def everything_can_be_read(self) -> None:
        found = [r for r in records(self.log) if r.offset >= self.start]
        assert [(r.offset, r.key, r.value) for r in found] == self.expected()
        covered = [
            offset
            for header in headers(self.log)
            for offset in range(header.base_offset, header.next_offset)
        ]
        if covered:
            assert covered == list(range(covered[0], self.end))

    def teardown(self) -> None:
        if hasattr(self, "directory") and TP in self.directory.logs:
            self.kill_and_open()


TestLog = LogMachine.TestCase
TestLog.settings = settings(stateful_step_count=25)


class CompactedLogMachine(LogMachine):
    """The same, compacted: a reader who builds a table gets the same table, at the same offsets."""

    policy = frozenset({"compact"})

    @rule(later_ms=st.integers(0, 40_000))
    def compact(self, later_ms: int) -> None:
        self.now_ms += later_ms
        plan = self.log.plan_compaction(self.now_ms)
        if plan is None:
            return
        self.append([(b"b", b"meanwhile")], Compression.NONE, 0)
        result = plan.run()
        self.append([(b"c", b"and this")], Compression.NONE, 0)

        self.log.install_compaction(result)

        cleaned = {r.offset for r in records(self.log)}
        self.check_compacted(result.end_offset, cleaned)
        self.told = {o: r for o, r in self.told.items() if o in cleaned or o >= result.end_offset}
        # A batch that is gone is no place to end at any more.
        left = {header.next_offset for header in headers(self.log)} | {self.log.end_offset}
        self.ends = [end for end in self.ends if end in left]

    def check_compacted(self, end_offset: int, kept: set[int]) -> None:
        """Below the end the last record of each key stays, unless it is a tombstone whose time has come."""
        below: dict[bytes | None, int] = {}
        for offset, record in sorted(self.told.items()):
            if self.start <= offset < end_offset:
                below[record.key] = offset
        for offset, record in self.told.items():
            if not self.start <= offset < end_offset:
                continue
            if offset != below[record.key]:
                assert offset not in kept, "an older value of a key stays behind"
            elif record.value is not None:
                assert offset in kept, "the last value of a key is gone"
        assert all(offset in kept for offset in self.told if offset >= max(end_offset, self.start))

    @invariant()
    def everything_can_be_read(self) -> None:
        found = [r for r in records(self.log) if r.offset >= self.start]
        assert [(r.offset, r.key, r.value) for r in found] == self.expected()

    def find_by_time(self, **_: Any) -> None:
        """Asked of the plain log: compaction changes which record is the first of a time."""


TestCompactedLog = CompactedLogMachine.TestCase
TestCompactedLog.settings = settings(stateful_step_count=25)
