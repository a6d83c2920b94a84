"""Words that the source's tests share."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from millpond.client import BlockingClient

TIME_MS = 1_700_000_000_000  # of the first record of each call of `write`


class Reachable(Protocol):
    """A broker of either kind."""

    @property
    def bootstrap(self) -> str:
        """host:port."""


def write(
    client: BlockingClient,
    topic: str,
    partition: int,
    values: Sequence[str],
    *,
    time_ms: int = TIME_MS,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> None:
    """One batch of records, a millisecond apart."""
    pairs = tuple(headers)
    client.produce_batch(
        topic,
        partition,
        [
            (time_ms + number, f"key {value}".encode(), value.encode(), pairs)
            for number, value in enumerate(values)
        ],
    )


def with_options(source: Any, bootstrap: str, options: dict[str, Any]) -> Any:
    """A reader with options by keyword; `kafka_x_y` is `kafka.x.y`."""
    source = source.format("millpond").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        source = source.option(
            name.replace("_", ".") if name.startswith("kafka_") else name, str(value)
        )
    return source


def read(spark: Any, broker: Reachable, **options: Any) -> Any:
    """A batch frame."""
    return with_options(spark.read, broker.bootstrap, options).load()


def stream(spark: Any, broker: Reachable, **options: Any) -> Any:
    """A streaming frame."""
    return with_options(spark.readStream, broker.bootstrap, options).load()


def texts(rows: Iterable[Any]) -> list[str]:
    """The values of rows as text, in order of partition and offset."""
    ordered = sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))
    return [bytes(row.value).decode() for row in ordered]


class Collected:
    """A sink that keeps rows by batch, so that a batch that Spark runs again replaces its first try."""

    def __init__(self) -> None:
        self._batches: dict[int, list[Any]] = {}

    def __call__(self, frame: Any, batch_id: int) -> None:
        self._batches[batch_id] = frame.collect()

    @property
    def rows(self) -> list[Any]:
        """Everything that arrived."""
        return [row for batch_id in sorted(self._batches) for row in self._batches[batch_id]]

    @property
    def texts(self) -> list[str]:
        """Their values, in order of partition and offset."""
        return texts(self.rows)

    @property
    def sizes(self) -> list[int]:
        """How many rows each batch had."""
        return [len(self._batches[batch_id]) for batch_id in sorted(self._batches)]


def start(frame: Any, sink: Collected, checkpoint: Path, **trigger: Any) -> Any:
    """Start a query that fills a ``Collected``."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def run_once(frame: Any, sink: Collected, checkpoint: Path) -> Any:
    """Read what there is and stop."""
    query = start(frame, sink, checkpoint, availableNow=True)
    query.awaitTermination()
    return query
