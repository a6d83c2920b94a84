"""Words that the source's tests share."""

from collections.abc import Iterable, Sequence
from typing import Any

from millpond.client import BlockingClient
from tests.support.broker_process import MillpondProcess

TIME_MS = 1_700_000_000_000  # of the first record of each call of `write`


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


def read(spark: Any, broker: MillpondProcess, **options: Any) -> Any:
    """A batch frame."""
    return with_options(spark.read, broker.bootstrap, options).load()


def stream(spark: Any, broker: MillpondProcess, **options: Any) -> Any:
    """A streaming frame."""
    return with_options(spark.readStream, broker.bootstrap, options).load()


def texts(rows: Iterable[Any]) -> list[str]:
    """The values of rows as text, in order of partition and offset."""
    ordered = sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))
    return [bytes(row.value).decode() for row in ordered]
