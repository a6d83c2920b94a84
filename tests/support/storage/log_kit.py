"""Words for stories about logs: build batches, open a log, read all of it back."""

from collections.abc import Sequence
from typing import Any

from millpond.base.ids import TopicPartition
from millpond.log.config import LogConfig
from millpond.log.partition_log import AppendInfo, PartitionLog
from millpond.log.storage import Storage
from millpond.record.batch import BatchHeader, iter_batches
from millpond.record.builder import build_batch
from millpond.record.control import EndTxnMarker
from millpond.record.records import Record, decode_batch

TP = TopicPartition("orders", 0)
NOW = 1_700_000_000_000


def batch(
    *values: bytes | tuple[bytes | None, bytes | None],
    timestamp: int = NOW,
    **fields: Any,
) -> bytearray:
    """A batch of values, or of (key, value) pairs, all of one time."""
    records = [
        (timestamp, *(value if isinstance(value, tuple) else (None, value)), ())
        for value in values or (b"v",)
    ]
    return build_batch(records, **fields)


def marker(
    *, commit: bool, producer_id: int, producer_epoch: int = 0, coordinator_epoch: int = 0
) -> bytearray:
    """The end of a transaction."""
    return EndTxnMarker(committed=commit, coordinator_epoch=coordinator_epoch).build(
        timestamp=NOW, producer_id=producer_id, producer_epoch=producer_epoch
    )


def open_log(
    storage: Storage,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    now_ms: int = NOW,
    **options: Any,
) -> PartitionLog:
    """The log under ``orders-0``, recovered unless said to be clean."""
    return PartitionLog.open(
        storage, str(TP), TP, config or LogConfig(), clean=clean, now_ms=now_ms, **options
    )


def append(log: PartitionLog, data: bytearray | None = None, *, now_ms: int = NOW) -> AppendInfo:
    """Append as the leader of epoch 0, or of the latest."""
    return log.append_as_leader(
        batch() if data is None else data, leader_epoch=max(0, log.latest_epoch), now_ms=now_ms
    )


def restore(log: PartitionLog) -> None:
    """Bring a log back whose disk refused something."""
    plan = log.begin_restore()
    assert plan is not None
    plan.run()
    log.finish_restore(plan)


def fill(log: PartitionLog, count: int, *, size: int = 100, now_ms: int = NOW) -> None:
    """Append batches of one record each, with distinct values."""
    for _ in range(count):
        value = b"%d" % log.end_offset
        append(log, batch(value.ljust(size, b"."), timestamp=now_ms), now_ms=now_ms)


def headers(
    log: PartitionLog, *, start: int | None = None, max_bytes: int = 1 << 20
) -> list[BatchHeader]:
    """The headers of everything that a reader gets, one fetch after the other."""
    return [header for header, _ in fetch(log, start=start, max_bytes=max_bytes)]


def records(
    log: PartitionLog, *, start: int | None = None, max_bytes: int = 1 << 20
) -> list[Record]:
    """All records that a reader gets, without control records."""
    return [
        record
        for header, data in fetch(log, start=start, max_bytes=max_bytes)
        if not header.is_control
        for record in decode_batch(data)
    ]


def fetch(
    log: PartitionLog, *, start: int | None = None, max_bytes: int = 1 << 20
) -> list[tuple[BatchHeader, bytes]]:
    """Read as a consumer does, until the end."""
    offset = log.start_offset if start is None else start
    found: list[tuple[BatchHeader, bytes]] = []
    while offset < log.end_offset:
        piece = log.read(offset, max_bytes, upto=log.end_offset, at_least_one=True)
        if not piece.data:
            break
        whole = [(h, piece.data[p : p + h.size]) for p, h in iter_batches(piece.data)]
        assert whole, "a read of at least one batch holds one"
        assert whole[0][0].base_offset == piece.first_batch_offset
        found += whole
        assert whole[-1][0].next_offset > offset, "reading goes on"
        offset = whole[-1][0].next_offset
    return found


def values(log: PartitionLog, **options: Any) -> list[bytes | None]:
    """The values of all records."""
    return [record.value for record in records(log, **options)]


def offsets(log: PartitionLog, **options: Any) -> list[int]:
    """The offsets of all records."""
    return [record.offset for record in records(log, **options)]


def latest_by_key(found: Sequence[Record]) -> dict[bytes | None, bytes | None]:
    """What a reader that builds a table ends up with."""
    table: dict[bytes | None, bytes | None] = {}
    for record in found:
        table[record.key] = record.value
    return {key: value for key, value in table.items() if value is not None}


def compact(log: PartitionLog, *, now_ms: int = NOW) -> bool:
    """Plan, run and install a compaction; whether there was one."""
    plan = log.plan_compaction(now_ms)
    if plan is None:
        return False
    log.install_compaction(plan.run())
    return True
