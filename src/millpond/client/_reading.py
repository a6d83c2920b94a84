"""The buffer between the fetcher and the application: fetched batches and delivered records.

Batches are kept as bytes and decoded one at a time. When an assignment, a seek or a pause changes what to
read, buffered batches that do not fit any more are dropped, and the fetcher restarts from the application's
position.
"""

import asyncio
from collections import deque

from millpond.base.ids import TopicPartition
from millpond.client._subscription import Subscription
from millpond.client.aio import Cluster
from millpond.client.config import ConsumerConfig
from millpond.client.errors import NotSerializable
from millpond.client.fetcher import FetchedBatch, Fetcher, Isolation, WhenOutOfRange
from millpond.client.interceptors import Chain
from millpond.client.records import ConsumerRecord
from millpond.client.serializers import deserializer_of
from millpond.record import Record

_RESET = {
    "earliest": WhenOutOfRange.EARLIEST,
    "latest": WhenOutOfRange.LATEST,
    "none": WhenOutOfRange.RAISE,
}


class Reading:
    """The fetched batches of one consumer."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, subscription: Subscription
    ) -> None:
        self._subscription = subscription
        self._key = deserializer_of(config.key_deserializer)
        self._value = deserializer_of(config.value_deserializer)
        self._fetcher = Fetcher(
            cluster,
            {},
            isolation=Isolation[config.isolation_level.upper()],
            when_out_of_range=_RESET[config.auto_offset_reset],
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            partition_bytes=config.max_partition_fetch_bytes,
            check_crcs=config.check_crcs,
        )
        self._waiting: deque[FetchedBatch] = deque()
        self._records: list[Record] = []  # of the first waiting batch, decoded
        self._index = 0
        self._made_records: list[ConsumerRecord] | None = None  # the same, for the iterator
        self._in_hand: ConsumerRecord | FetchedBatch | None = None  # the loop body is processing it
        self._put_down: ConsumerRecord | None = (
            None  # the offset that the loop body committed before the next iteration
        )
        self._kept_version = -1  # of the subscription, when the buffer was last filtered
        self._fetch_version = -1  # of the subscription, when the fetcher was last updated

    async def close(self) -> None:
        """Stop fetching."""
        self._drop_all()
        await self._fetcher.close()

    def is_stale(self) -> bool:
        """Whether the subscription has changed since the last fetch."""
        return self._kept_version != self._subscription.version

    def has_records(self) -> bool:
        """Whether records can be returned without waiting."""
        if self.is_stale():
            self._drop_unwanted()
        return bool(self._waiting)

    async def fetch(self, timeout_s: float) -> None:
        """Wait for batches, up to ``timeout_s``."""
        try:
            await self._fetch(timeout_s)
        finally:
            # The position was outside of the log and was reset.
            for place, offset in self._fetcher.take_resets().items():
                self._subscription.advance(place, offset)
        self._pass_hidden()

    async def _fetch(self, timeout_s: float) -> None:
        if self._fetch_version != self._subscription.version:
            await self._restart()
        if not self._fetcher.positions:
            await asyncio.sleep(min(timeout_s, 0.1))
            return
        try:
            async with asyncio.timeout(timeout_s):
                self._waiting.extend(await self._fetcher.batches())
        except TimeoutError:
            return

    def _pass_hidden(self) -> None:
        """Skip markers and aborted records; where only those came, they count as read."""
        waiting = {batch.partition for batch in self._waiting}
        for place, reached in self._fetcher.positions.items():
            position = None if place in waiting else self._subscription.position(place)
            if position is not None and reached > position:
                self._subscription.advance(place, reached)

    def take_batches(self) -> list[FetchedBatch]:
        """Return all buffered batches."""
        batches = list(self._waiting)
        self._drop_all()
        for batch in batches:
            position = self._subscription.position(batch.partition)
            batch.from_offset = max(batch.from_offset, position or 0)
            self._advance(batch, batch.header.next_offset)
        return batches

    def take_records(self, count: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return up to ``count`` buffered records."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        if self._made_records is not None:  # an iterator was here; the position says how far it got
            self._forget_decoded()
        while count > 0 and self._waiting:
            batch = self._waiting[0]
            self._decode()
            taken = self._records[self._index : self._index + count]
            found.setdefault(batch.partition, []).extend(self._made(batch, taken))
            self._index += len(taken)
            count -= len(taken)
            if self._index >= len(self._records):
                self._next_batch()
            else:
                self._advance(batch, self._records[self._index].offset)
        return {place: records for place, records in found.items() if records}

    def first_batch(self) -> FetchedBatch:
        """Return the first buffered batch, from the application's position; call ``batch_passed`` when it is
        read.
        """
        batch = self._waiting[0]
        position = self._subscription.position(batch.partition)
        batch.from_offset = max(batch.from_offset, position or 0)
        return batch

    def batch_passed(self, batch: FetchedBatch) -> None:
        """Count a batch as read: the application asks for the next one."""
        self._in_hand = None
        if not self.is_stale() and self._waiting and self._waiting[0] is batch:
            self._next_batch()

    def hand_out(self, item: ConsumerRecord | FetchedBatch) -> None:
        """Note the item that a loop body gets. It counts as read at the next iteration, or when the body
        commits.
        """
        self._in_hand = item

    def put_down(self) -> None:
        """Count the item in the loop body as read, because the application commits it."""
        match self._in_hand:
            case ConsumerRecord() as record:
                self._put_down = record if self.passed(record) else None
            case FetchedBatch() as batch:
                self.batch_passed(batch)
            case None:
                pass

    def first_records(self, chain: Chain) -> list[ConsumerRecord]:
        """Return the remaining records of the first buffered batch; call ``passed`` for each."""
        batch = self._waiting[0]
        self._decode()
        if self._made_records is None:
            made = self._made(batch, self._records[self._index :])
            if chain.consumes:
                made = chain.on_consume({batch.partition: made}).get(batch.partition, [])
            self._made_records = made
            self._index = 0
        left = self._made_records[self._index :]
        if not left:
            self._next_batch()
        return left

    def passed(self, record: ConsumerRecord) -> bool:
        """Count a record as read. Return False if the record after it is no longer the next one."""
        self._in_hand = None
        if self._put_down is record:
            self._put_down = None
            return not self.is_stale()
        made = self._made_records or []
        if self.is_stale() or self._index >= len(made) or made[self._index] is not record:
            return False  # a seek or a pause: the rest of this batch is not wanted
        self._index += 1
        if self._index < len(made):
            self._advance(self._waiting[0], record.offset + 1)
        else:
            self._next_batch()
        return True

    def _decode(self) -> None:
        if not self._records:
            self._records = self.first_batch().records()
            self._index = 0
            self._made_records = None

    def _next_batch(self) -> None:
        batch = self._waiting.popleft()
        self._forget_decoded()
        self._advance(batch, batch.header.next_offset)

    def _advance(self, batch: FetchedBatch, offset: int) -> None:
        self._subscription.advance(batch.partition, offset, batch.header.leader_epoch)

    def _made(self, batch: FetchedBatch, records: list[Record]) -> list[ConsumerRecord]:
        topic, number = batch.partition
        kind = int(batch.header.uses_append_time)
        epoch = batch.header.leader_epoch
        made = [
            ConsumerRecord(
                topic,
                number,
                record.offset,
                record.timestamp,
                kind,
                record.key,
                record.value,
                record.headers,
                epoch,
            )
            for record in records
        ]
        if self._key is not None or self._value is not None:
            for record in made:
                self._deserialize(record)
        return made

    def _deserialize(self, record: ConsumerRecord) -> None:
        try:
            if self._key is not None:
                record.key = self._key(record.topic, record.key)
            if self._value is not None:
                record.value = self._value(record.topic, record.value)
        except Exception as error:
            raise NotSerializable(
                f"{record.topic_partition}@{record.offset}: the deserializer failed: {error!r};"
                " seek behind this record to go on"
            ) from error

    def _drop_unwanted(self) -> None:
        """Drop buffered batches that do not continue at the present positions."""
        wanted = self._subscription.to_fetch()
        kept: deque[FetchedBatch] = deque()
        reached: dict[TopicPartition, int] = dict(wanted)
        for batch in self._waiting:
            at = reached.get(batch.partition)
            if at is not None and batch.header.base_offset <= at < batch.header.next_offset:
                kept.append(batch)
                reached[batch.partition] = batch.header.next_offset
        self._waiting = kept
        self._forget_decoded()
        self._kept_version = self._subscription.version

    async def _restart(self) -> None:
        self._drop_unwanted()
        positions = self._subscription.to_fetch()
        for batch in self._waiting:
            positions[batch.partition] = batch.header.next_offset
        self._fetch_version = self._subscription.version
        if dict(self._fetcher.positions) != positions:
            await self._fetcher.assign(positions)

    def _drop_all(self) -> None:
        self._waiting.clear()
        self._forget_decoded()

    def _forget_decoded(self) -> None:
        self._records, self._index, self._made_records = [], 0, None
