"""What the stories about pipelines need: records as the source gives them, and clocks as numbers."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from millpond.spark.pipelines.flow import RECORD_SCHEMA

START = datetime(2026, 1, 31, 5, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment of the story, in seconds from its start."""
    return START + timedelta(seconds=seconds)


def since_start() -> float:
    """The present as a moment of the story, for what depends on the machine's clock."""
    return (datetime.now(UTC) - START).total_seconds()


def record(
    value: str | bytes | None,
    *,
    key: str | None = None,
    topic: str = "clicks",
    partition: int = 0,
    offset: int = 0,
    seconds: float = 0,
    headers: Mapping[str, str] | None = None,
) -> tuple[Any, ...]:
    """One row of the source."""
    return (
        None if key is None else key.encode(),
        value.encode() if isinstance(value, str) else value,
        topic,
        partition,
        offset,
        at(seconds),
        0,
        None if headers is None else [(name, text.encode()) for name, text in headers.items()],
    )


def frame(spark: Any, rows: Iterable[tuple[Any, ...]]) -> Any:
    """Records as a DataFrame with the source's columns."""
    return spark.createDataFrame(list(rows), RECORD_SCHEMA)


def numbered(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same records with offsets 0, 1, 2 and so on."""
    return [(*row[:4], offset, *row[5:]) for offset, row in enumerate(rows)]


def rows_of(frame: Any, *columns: str) -> set[tuple[Any, ...]]:
    """Rows as plain tuples, in no order."""
    return {tuple(row) for row in frame.select(*columns).collect()}


def headers_of(row: Any) -> dict[str, str]:
    """A row's headers as text."""
    return {header["key"]: bytes(header["value"]).decode() for header in row["headers"]}
