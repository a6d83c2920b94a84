"""The promise of a record, and what is told when it is kept or broken."""

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
    """Where a batch went. ``base_offset`` is -1 with acks=0: nobody said."""

    partition: TopicPartition
    base_offset: int
    record_count: int
    append_time_ms: int = -1


class Delivery:
    """The promise of one record: ``metadata = await delivery``. Giving up waiting does not take it back."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def partition(self) -> TopicPartition:
        """Where it is going."""
        return self._batch.partition

    def done(self) -> bool:
        """Whether it is known what became of it."""
        return self._batch.locate(self._index)[0].is_done

    def result(self) -> RecordMetadata:
        """What became of it, if that is known; raises why it could not be delivered."""
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
    """Until it is settled or split."""
    woken = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    batch.waiters.append(wake)
    await woken


def metadata_of(batch: Batch, index: int) -> RecordMetadata:
    """What is known of one record of a batch that arrived."""
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
    """Until the batch, or all that it was split into, is settled."""
    while not batch.is_done:
        if batch.parts is not None:
            for _, part in batch.parts:
                await wait_until_done(part)
            return
        await wait_for_change(batch)
