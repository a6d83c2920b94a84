"""Assigns rows to partitions as Java's producer does, and encodes them as record batches.

A row goes to the partition it names; else to the one of its key's hash; else, without a key, to one that is
kept for a while and then changed. The work for each row happens in ``record.columns``.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.base.ids import TopicPartition
from millpond.record.columns import encode_columns, group_rows, key_partitions
from millpond.spark.arrow import Rows, from_record_batch
from millpond.spark.sink_errors import WrongRow
from millpond.spark.sink_options import SinkOptions
from millpond.spark.sink_sender import PartitionRows

# Returns the number of partitions of a topic; may ask the broker.
PartitionsOf = Callable[[str], int]


class RowEncoder:
    """The rows of one producer: their partitions and the sequence numbers."""

    def __init__(
        self,
        options: SinkOptions,
        partitions_of: PartitionsOf,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        self._options = options
        self._partitions_of = partitions_of
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._sequences: dict[TopicPartition, int] = {}
        self._sticky: dict[str, int] = {}

    def encode(self, batch: Any, *, now_ms: int) -> Iterator[PartitionRows]:
        """Yield the rows of an Arrow batch as record batches for each partition."""
        batch = _with_times(batch, now_ms)
        try:
            rows = from_record_batch(batch)
        except ValueError as error:
            raise WrongRow(f'column "headers": {error}') from None
        for place, numbers in self._route(batch, rows):
            yield self._encode(place, rows, numbers, now_ms)

    def topic_of(self, batch: Any) -> str:
        """Return the topic of the first row; a marker needs an existing topic."""
        if self._options.topic is not None:
            return self._options.topic
        first = batch.column(batch.schema.get_field_index("topic"))[0].as_py()
        if first is None:
            raise _no_topic()
        return str(first)

    def _encode(
        self, place: TopicPartition, rows: Rows, numbers: bytearray, now_ms: int
    ) -> PartitionRows:
        def cut(start: int, sequence: int, bytes_max: int) -> deque[bytearray]:
            return deque(
                encode_columns(
                    rows.keys,
                    rows.values,
                    rows=memoryview(numbers)[4 * start :],
                    timestamps=now_ms if rows.timestamps is None else rows.timestamps,
                    headers=rows.headers,
                    batch_bytes=bytes_max,
                    compression=self._options.compression,
                    producer_id=self._producer_id,
                    producer_epoch=self._producer_epoch,
                    base_sequence=sequence,
                    transactional=self._options.is_exactly_once,
                ).batches
            )

        sequence = self._sequences.get(place, 0)
        count = len(numbers) // 4
        self._sequences[place] = (sequence + count) & 0x7FFFFFFF
        return PartitionRows(
            place=place, batches=cut(0, sequence, self._options.batch_bytes), encode=cut
        )

    def _route(self, batch: Any, rows: Rows) -> Iterator[tuple[TopicPartition, bytearray]]:
        names, codes = self._topics(batch)
        counts = [self._partitions_of(name) for name in names]
        wanted = _partition_column(batch)
        hashed = _by_key(rows)
        if codes is None:
            chosen = self._choose(names[0], counts[0], wanted, hashed)
        else:
            chosen = np.empty(rows.count, np.int32)
            base = 0
            for code, (name, count) in enumerate(zip(names, counts, strict=True)):
                mine = codes == code
                chosen[mine] = base + self._choose(name, count, wanted, hashed, mine)
                base += count
        places = [
            TopicPartition(name, number)
            for name, count in zip(names, counts, strict=True)
            for number in range(count)
        ]
        for place, numbers in zip(places, group_rows(chosen.tobytes(), len(places)), strict=True):
            if numbers:
                yield place, numbers

    def _topics(self, batch: Any) -> tuple[list[str], Any]:
        """Return the topics of a batch, and for each row which of them; None if there is only one."""
        if self._options.topic is not None:
            return [self._options.topic], None
        column = batch.column(batch.schema.get_field_index("topic"))
        if column.null_count:
            raise _no_topic()
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            return names, None
        return names, encoded.indices.to_numpy(zero_copy_only=False)

    def _choose(
        self, topic: str, count: int, wanted: Any, hashed: "ByKey", mine: Any = None
    ) -> Any:
        chosen = hashed(count, self._next_sticky(topic, count))
        if wanted is not None:
            chosen = np.where(wanted >= 0, wanted, chosen)
        if mine is not None:
            chosen = chosen[mine]
        if wanted is not None and len(chosen) and int(chosen.max()) >= count:
            raise WrongRow(
                f'column "partition" says {int(chosen.max())}, but topic {topic} has the partitions'
                f" 0 to {count - 1}"
            )
        return chosen.astype(np.int32, copy=False)

    def _next_sticky(self, topic: str, count: int) -> int:
        """Return the partition for rows without a key: another one than the last."""
        before = self._sticky.get(topic)
        if before is None or count == 1:
            number = random.randrange(count)  # noqa: S311  (spreading, not a secret)
        else:
            number = (before + 1 + random.randrange(count - 1)) % count  # noqa: S311
        self._sticky[topic] = number
        return number


# (number of partitions, partition for rows without a key) -> the partition of each row
ByKey = Callable[[int, int], Any]


def _by_key(rows: Rows) -> ByKey:
    keys = rows.keys
    if keys is None:
        return partial(_all_the_same, rows.count)

    def hashed(count: int, keyless: int) -> Any:
        return np.frombuffer(key_partitions(keys, count, keyless=keyless), np.int32)

    return hashed


def _all_the_same(rows: int, _count: int, keyless: int) -> Any:
    return np.full(rows, keyless, np.int32)


def _partition_column(batch: Any) -> Any:
    """Return the partitions that rows name, -1 where they do not; None if there is no such column."""
    index = batch.schema.get_field_index("partition")
    if index < 0:
        return None
    column = batch.column(index)
    wanted = column.fill_null(-1).to_numpy(zero_copy_only=False)
    if len(wanted) and int(wanted.min()) < 0 and (wanted < 0).sum() != column.null_count:
        raise WrongRow(f'column "partition" says {int(wanted.min())}; partitions begin at 0')
    return wanted


def _with_times(batch: Any, now_ms: int) -> Any:
    """Return rows in which missing times are the present one."""
    index = batch.schema.get_field_index("timestamp")
    if index < 0 or not batch.column(index).null_count:
        return batch
    column = batch.column(index)
    now = pa.scalar(now_ms * 1000, pa.int64()).cast(column.type)
    return batch.set_column(index, batch.schema.field(index), column.fill_null(now))


def _no_topic() -> WrongRow:
    return WrongRow(
        'column "topic" is null in a row: give every row a topic, or say .option("topic", "name")'
    )
