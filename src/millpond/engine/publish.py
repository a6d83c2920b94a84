"""Writing: check what a client sent, append it, say when it may be acknowledged.

Synchronous to the end. With the flush policy ``os`` an append is complete when it returns; with
``group`` it comes with a future that the flusher resolves. Once per batch, never per record.
"""

import asyncio
from typing import NamedTuple

from millpond.base.clock import Clock
from millpond.base.errors import InvalidTopicName, InvalidTransactionState, MillpondError
from millpond.engine.flusher import Flusher
from millpond.log.partition_log import AppendInfo
from millpond.metadata.controller import INTERNAL_TOPICS
from millpond.record.validate import validate_produce
from millpond.replication.partition import Partition


class Appended(NamedTuple):
    """What an append did. ``durable`` is None when it may be acknowledged at once."""

    info: AppendInfo
    durable: "asyncio.Future[None] | None"


class Publisher:
    """Appends to partitions this node leads."""

    def __init__(self, flusher: Flusher, clock: Clock) -> None:
        self._flusher = flusher
        self._clock = clock

    def append(
        self,
        partition: Partition,
        records: bytearray | memoryview,
        *,
        acks: int,
        produce_version: int,
        internal: bool,
    ) -> Appended:
        """Append one batch that came from a client (or, ``internal``, from a coordinator of ours)."""
        now_ms = self._clock.now_ms()
        config = partition.log.config
        headers = None
        if not internal:
            if partition.topic in INTERNAL_TOPICS:
                raise InvalidTopicName(
                    f"clients may not write to the internal topic {partition.topic}"
                )
            headers = validate_produce(
                records,
                message_bytes_max=config.max_message_bytes,
                produce_version=produce_version,
                now_ms=now_ms,
                before_max_ms=config.message_timestamp_before_max_ms,
                after_max_ms=config.message_timestamp_after_max_ms,
                append_time=config.uses_append_time,
                keys_required=config.compacts,
            )
            if headers[0].is_transactional:
                raise InvalidTransactionState("transactions are not supported yet")
        if acks == -1:
            partition.check_in_sync()
        info = partition.append(records, now_ms=now_ms, headers=headers)
        if partition.flushes_first:
            return Appended(info, self._durable(partition, info, acks))
        return Appended(info, None)

    def _durable(
        self, partition: Partition, info: AppendInfo, acks: int
    ) -> "asyncio.Future[None] | None":
        self._flusher.request(partition)
        offset = info.last_offset + 1
        if acks == 0 or partition.high_watermark >= offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def confirm(error: MillpondError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        partition.confirm_at(offset, confirm)
        return future
