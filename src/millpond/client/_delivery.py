"""The pending result of a record, and the callbacks for it."""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import Batch
from millpond.client.errors import WrongState
from millpond.client.records import RecordMetadata

OnDelivery: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a batch was appended. ``base_offset`` is -1 with acks=0, which has no response."""

    partition: TopicPartition
    base_offset: int
    record_count: int
    append_time_ms: int = -1


class Delivery:
    """The pending result of one record: ``metadata = await delivery``. Cancelling the wait does not cancel
    it.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def partition(self) -> TopicPartition:
        """The record's partition."""
        return self._batch.partition

    def done(self) -> bool:
        """Return whether the result is known."""
        return self._batch.locate(self._index)[0].is_done

    def result(self) -> RecordMetadata:
        """Return the result if it is known; raise why the record could not be delivered."""
        batch, index = self._batch.locate(self._index)
        if not batch.is_done:
            raise WrongState("it is not delivered yet; await it")
        if batch.error is not None:
            raise batch.error
        return metadata_of(batch, index)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while not self.done():
            batch, _ = self._batch.locate(self._index)
            batch.is_awaited = True
            yield from wait_for_change(batch).__await__()
        return self.result()


async def wait_for_change(batch: Batch) -> None:
    """Wait until the batch has a result or is split."""
    woken = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    batch.waiters.append(wake)
    await woken


def metadata_of(batch: Batch, index: int) -> RecordMetadata:
    """Return the metadata of one record of a delivered batch."""
    record_ms, key, value, _ = batch.records[index]
    return RecordMetadata(
        batch.partition.topic,
        batch.partition.partition,
        batch.base_offset + index if batch.base_offset >= 0 else -1,
        batch.time_ms if batch.time_ms >= 0 else record_ms,
        -1 if key is None else len(key),
        -1 if value is None else len(value),
    )


async def wait_until_done(batch: Batch) -> None:
    """Wait until the batch, or every part that it was split into, has a result."""
    while not batch.is_done:
        if batch.parts is not None:
            for _, part in batch.parts:
                await wait_until_done(part)
            return
        await wait_for_change(batch)
