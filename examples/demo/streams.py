"""The shipped pipelines on Spark, and the progress of each."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

from examples.demo.deadline import Deadline
from examples.demo.traffic import (
    ALERT_ERRORS_MIN,
    ALERT_SHARE,
    LATENESS_S,
    LOG_LATENESS_S,
    SESSION_GAP_S,
)
from millpond.spark.pipelines import clickstream, dedup, lake, logs
from millpond.spark.pipelines.flow import Options
from millpond.spark.pipelines.running import QueryStats, Running, start

UNIQUE = "clicks.unique"
CLICK_DEAD_LETTERS, LOG_DEAD_LETTERS, DEDUP_DEAD_LETTERS = (
    "clicks.dlq",
    "logs.dlq",
    "clicks.unique.dlq",
)
INTERVAL = "2 seconds"
PAGES_MAX = 20  # more than the shop has, so that every view is in the result


@dataclass(slots=True)
class BatchTimes:
    """The durations of batches. Spark reports its last batch until there is another; each counts once."""

    _by_batch: dict[tuple[str, int], float] = field(default_factory=dict)

    def note(self, query: str, progress: Mapping[str, Any] | None) -> None:
        """Take a query's report of its last batch; one without records does not count."""
        if progress is not None and progress["numInputRows"]:
            took = progress["durationMs"].get("triggerExecution", 0) / 1000
            self._by_batch[query, progress["batchId"]] = took

    @property
    def seconds(self) -> list[float]:
        """Return one figure for each batch."""
        return list(self._by_batch.values())


@dataclass(slots=True)
class Stream:
    """One running pipeline, and its progress over time."""

    name: str
    topics: tuple[str, ...]
    running: Running
    lag: list[tuple[float, int]] = field(default_factory=list)
    times: BatchTimes = field(default_factory=BatchTimes)

    def look(self, at_s: float, sent: int) -> list[QueryStats]:
        """Return the progress of each query; restarts what Spark gave up because the machine was busy."""
        if self.running.wait(0.01):
            self.running.check()
            raise RuntimeError(f"{self.name} ended by itself")
        stats = self.running.stats()
        for query in self.running.queries:
            self.times.note(query.name, query.lastProgress)
        behind = [max(0, sent - query_stats.rows) for query_stats in stats]
        self.lag.append((at_s, max(behind, default=sent)))
        return stats

    def drain(self) -> None:
        """Wait until everything sent is in the results, closed windows included."""
        while True:
            try:
                for query in self.running.queries:
                    query.processAllAvailable()
                return
            except StreamingQueryException:
                if self.running.wait(0.01):
                    self.running.check()
                    raise


def start_all(spark: Any, bootstrap: str, place: Path) -> list[Stream]:
    """Start lake, clicks, logs and deduplication in one session."""

    def common(name: str, *topics: str) -> dict[str, Any]:
        return {
            "bootstrap": bootstrap,
            "source": topics,
            "checkpoint": str(place / "checkpoints" / name),
            "interval": INTERVAL,
            "group": f"demo-{name}",
        }

    gap, lateness, log_lateness = (
        f"{seconds} seconds" for seconds in (SESSION_GAP_S, LATENESS_S, LOG_LATENESS_S)
    )
    options: dict[str, Options] = {
        "lake": lake.Options(
            **common("lake", "clicks", "logs"), to=str(place / "lake"), compact_every=0
        ),
        "clickstream": clickstream.Options(
            **common("clickstream", "clicks"),
            to=str(place / "clickstream"),
            dead_letters=CLICK_DEAD_LETTERS,
            gap=gap,
            lateness=lateness,
            top=PAGES_MAX,
        ),
        "logs": logs.Options(
            **common("logs", "logs"),
            to=str(place / "logs"),
            dead_letters=LOG_DEAD_LETTERS,
            lateness=log_lateness,
            errors_min=ALERT_ERRORS_MIN,
            error_share=ALERT_SHARE,
        ),
        "dedup": dedup.Options(
            **common("dedup", "clicks"), to=UNIQUE, dead_letters=DEDUP_DEAD_LETTERS, within=lateness
        ),
    }
    return [Stream(name, one.source, start(spark, name, one)) for name, one in options.items()]


def drain(streams: list[Stream], deadline: Deadline) -> None:
    """Wait until everything sent is in the results, closed windows included."""
    for stream in streams:
        failures: list[BaseException] = []
        worker = threading.Thread(target=_drain, args=(stream, failures), daemon=True)
        worker.start()
        worker.join(deadline.left())
        if worker.is_alive():
            deadline.check(f"the last windows of {stream.name}")
        if failures:
            raise failures[0]


def _drain(stream: Stream, failures: list[BaseException]) -> None:
    try:
        stream.drain()
    except Exception as error:  # noqa: BLE001 - the waiting thread raises it
        failures.append(error)


def stop(streams: list[Stream]) -> None:
    """Stop the pipelines and commit their last offsets."""
    for stream in streams:
        stream.running.stop()
        stream.running.close()
