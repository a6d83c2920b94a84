"""Writes: checks batches of clients, appends them, and says when they may be acknowledged.

Synchronous to the end, but for batches whose records take long to check: those are refused with
``LongValidation``, checked beside the loop and appended then. On a node that is the only replica an append is
complete when it returns, unless the flush policy is ``group``. Otherwise it comes with a future: for a write
that wants all replicas that is done when the high watermark has passed it, for one that wants the leader when
the leader has flushed it. Once per batch, never per record.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from millpond.base.clock import Clock
from millpond.base.errors import (
    InvalidTopicName,
    LongValidation,
    MillpondError,
    NotEnoughReplicas,
    StorageFailure,
    TimersNotReady,
)
from millpond.base.limits import BESIDE_ROOM_BYTES, LOOP_DECOMPRESSED_BYTES_MAX
from millpond.engine.partitions.deferred import deferred, deferred_at_once
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.futures import when_all_succeed
from millpond.engine.runtime.offload import OffloadPool
from millpond.log.partition_log import AppendInfo
from millpond.metadata.controller import INTERNAL_TOPICS
from millpond.record.batch import BatchHeader
from millpond.record.inspection import ScratchBuffer
from millpond.record.producer_abilities import ProducerAbilities
from millpond.record.validate import (
    Validated,
    validate_at_once,
    validate_header,
    validate_records,
)
from millpond.replication.partition import Partition
from millpond.timer.deferral import Deferral

log = logging.getLogger(__name__)

# Producers retry many times a second; refusals by the disk are logged at this interval.
_DISK_TOLD_EVERY_MS = 10_000


class Appended(NamedTuple):
    """What an append did. ``durable`` is None when it may be acknowledged at once."""

    info: AppendInfo
    durable: "asyncio.Future[None] | None"


class AdmitTransactional(Protocol):
    """Checks that a transactional batch belongs to an open transaction, or joins it. Raises why not.

    The future, if any, is done when the partition is part of the transaction for good.
    """

    def __call__(
        self,
        partition: Partition,
        header: BatchHeader,
        transactional_id: str | None,
        *,
        producer: ProducerAbilities,
    ) -> "asyncio.Future[None] | None": ...


class AdmitDelayed(Protocol):
    """The leader's part in durable timers: what it must know of batches with delayed records."""

    def check(self, partition: Partition) -> None:
        """Raises ``TimersNotReady`` if the partition can take no delayed records now."""
        ...

    def note(self, partition: Partition, info: AppendInfo) -> None:
        """Note that such a batch was appended."""
        ...


class Publisher:
    """Appends to partitions this node leads."""

    def __init__(
        self,
        flusher: Flusher,
        clock: Clock,
        admit: AdmitTransactional,
        offload: OffloadPool,
        delays: Callable[[], AdmitDelayed],
    ) -> None:
        self._flusher = flusher
        self._offload = offload
        # Of the threads beside the loop; as many as ever worked at once.
        self._rooms: list[ScratchBuffer] = []
        self._room = ScratchBuffer(LOOP_DECOMPRESSED_BYTES_MAX)
        self._clock = clock
        self._admit = admit
        self._delays = delays
        self._disk_told_ms: int | None = None
        # The futures of waiting clients, by partition.
        self._waiting: dict[asyncio.Future[None], Partition] = {}

    def send_away(self, reason: Callable[[Partition], MillpondError]) -> None:
        """Fail the appends that clients wait for: their records may be lost or not."""
        for future, partition in tuple(self._waiting.items()):
            if not future.done():
                future.set_exception(reason(partition))

    def append(
        self,
        partition: Partition,
        records: bytearray | memoryview,
        *,
        acks: int,
        producer: ProducerAbilities,
        internal: bool,
        transactional_id: str | None = None,
        validated: Validated | Deferral | None = None,
    ) -> Appended:
        """Append one batch that came from a client (or, ``internal``, from a coordinator of ours).

        Raises ``LongValidation`` if its records must be checked beside the loop first; ``validated`` is what
        came of that.
        """
        joined: asyncio.Future[None] | None = None
        now_ms = self._clock.now_ms()
        headers: list[BatchHeader] | None = None
        is_deferred = False
        if not internal:
            if partition.topic in INTERNAL_TOPICS:
                raise InvalidTopicName(
                    f"clients may not write to the internal topic {partition.topic}"
                )
            if validated is None:
                rules = partition.log.rules
                header = validate_header(
                    records,
                    message_bytes_max=rules.message_bytes_max,
                    allows_zstd=producer.allows_zstd,
                )
                validated = validate_at_once(records, header, rules, now_ms, self._room)
                if validated is None:
                    raise LongValidation("the records are checked beside the event loop")
                if rules.has_delays:
                    validated = deferred_at_once(validated, rules, now_ms)
            if isinstance(validated, Deferral):
                is_deferred = True
                records, headers = validated.data, list(validated.headers)
                self._check_delays(partition, headers)
            else:
                records, header = validated
                headers = [header]
        if acks == -1:
            try:
                partition.check_in_sync()
            except NotEnoughReplicas as shortage:
                if headers is not None:
                    partition.log.refuse(headers, shortage)
                raise
        if headers is not None and headers[0].is_transactional:
            joined = self._admit(partition, headers[0], transactional_id, producer=producer)
        try:
            info = partition.append(records, now_ms=now_ms, headers=headers)
        except StorageFailure as failure:
            self._tell_of_disk(failure, now_ms)
            raise
        if is_deferred and not info.duplicate:
            self._delays().note(partition, info)
        durable = None if partition.is_direct else self._durable(partition, info, acks)
        if durable is not None and not internal and partition.leadership is not None:
            self._waiting[durable] = partition
            durable.add_done_callback(self._on_answered)
        if joined is not None:
            durable = joined if durable is None else both(joined, durable)
        return Appended(info, durable)

    async def validate_in_thread(
        self, partition: Partition, records: bytearray | memoryview, *, producer: ProducerAbilities
    ) -> Validated | Deferral:
        """Check one batch that came from a client on a thread. Raises what ``append`` would."""
        rules = partition.log.rules
        now_ms = self._clock.now_ms()
        rooms = self._rooms

        def validate() -> Validated | Deferral:
            header = validate_header(
                records,
                message_bytes_max=rules.message_bytes_max,
                allows_zstd=producer.allows_zstd,
            )
            try:
                room = rooms.pop()
            except IndexError:
                room = ScratchBuffer(BESIDE_ROOM_BYTES)
            try:
                validated = validate_records(records, header, rules, now_ms, room)
            finally:
                rooms.append(room)
            return deferred(validated, rules, now_ms) if rules.has_delays else validated

        return await self._offload.run(validate)

    def _check_delays(self, partition: Partition, headers: list[BatchHeader]) -> None:
        try:
            self._delays().check(partition)
        except TimersNotReady as error:
            partition.log.refuse(headers, error)
            raise

    def _on_answered(self, future: "asyncio.Future[None]") -> None:
        del self._waiting[future]

    def _tell_of_disk(self, failure: StorageFailure, now_ms: int) -> None:
        if self._disk_told_ms is None or now_ms - self._disk_told_ms >= _DISK_TOLD_EVERY_MS:
            self._disk_told_ms = now_ms
            log.error("a write is refused: %s; producers try again until it works", failure)

    def _durable(
        self, partition: Partition, info: AppendInfo, acks: int
    ) -> "asyncio.Future[None] | None":
        if partition.flushes_first:
            self._flusher.request(partition)
        offset = info.last_offset + 1
        has_all = partition.high_watermark >= offset
        if acks == 0 or has_all or (acks == 1 and not partition.flushes_first):
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def confirm(error: MillpondError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        if acks == 1:
            partition.confirm_flushed_at(offset, confirm)
        else:
            partition.confirm_at(offset, confirm)
        return future


def both(first: "asyncio.Future[None]", second: "asyncio.Future[None]") -> "asyncio.Future[None]":
    """Return a future that is done when both are, or fails with the first failure."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(failure: BaseException | None) -> None:
        if outcome.done():
            return
        if failure is None:
            outcome.set_result(None)
        elif isinstance(failure, asyncio.CancelledError):
            # Raised as it is, it would cancel the task that awaits the outcome.
            outcome.set_exception(MillpondError("records may not be kept: the wait was cancelled"))
        else:
            outcome.set_exception(failure)

    when_all_succeed((first, second), settle)
    return outcome
