"""A running pipeline: its queries, their progress, and how to stop them.

Spark reports each batch of each query as a document. ``QueryStats`` adds them up; it is plain data and
independent of Spark. ``Running`` fetches the documents, shows the pipeline as a group of the broker, and
stops.
"""

import importlib
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from millpond.spark.listener import GroupListener, show_as_group
from millpond.spark.pipelines import PIPELINES
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.failures import TOO_BUSY, explained, is_unfinished
from millpond.spark.pipelines.flow import Options, Query

log = logging.getLogger(__name__)

_BEGINNINGS_MAX = 5


@dataclass(slots=True)
class QueryStats:
    """The progress of one query."""

    name: str
    batches: int = 0
    rows: int = 0
    rate: float = 0.0
    lag: int | None = None
    dead_letters: int = 0
    dropped_late: int = 0
    last_batch: int = -1
    facts: dict[str, float] = field(default_factory=dict)  # metrics of this pipeline only

    def add(self, progress: Mapping[str, Any]) -> None:
        """Count one report of Spark; repeated reports of a batch, and idle reports, add nothing.

        An idle report carries the number of the batch that comes next.
        """
        self.lag = lag_of(progress)
        number, rows = progress["batchId"], progress["numInputRows"]
        if number <= self.last_batch or "addBatch" not in progress["durationMs"]:
            return
        self.last_batch = number
        self.batches += 1
        self.rows += rows
        self.rate = progress.get("processedRowsPerSecond") or 0.0
        observed = progress.get("observedMetrics") or {}
        self.dead_letters += (observed.get("records") or {}).get("dead_letters") or 0
        self.dropped_late += sum(
            operator.get("numRowsDroppedByWatermark", 0)
            for operator in progress.get("stateOperators") or ()
        )


def lag_of(progress: Mapping[str, Any]) -> int | None:
    """Return how many records a query is behind, if its sources report it."""
    lags = [
        sum(
            max(0, last - ends.get(topic, {}).get(partition, last))
            for topic, partitions in latest.items()
            for partition, last in partitions.items()
        )
        for source in progress.get("sources") or ()
        if (latest := _offsets(source.get("latestOffset"))) is not None
        and (ends := _offsets(source.get("endOffset"))) is not None
    ]
    return sum(lags) if lags else None


def _offsets(text: Any) -> dict[str, dict[str, int]] | None:
    value = json.loads(text) if isinstance(text, str) else text
    is_kafka = isinstance(value, dict) and all(isinstance(item, dict) for item in value.values())
    return value if is_kafka else None


class Running:
    """A started pipeline.

    Spark waits ten seconds for a Python process to start and then fails the query. On a machine that is
    busier than that, the pipeline is restarted from its checkpoint, a few times.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[[], list[Query]],
        *,
        group: GroupListener | None = None,
        until_drained: bool = False,
        about: str = "",
        ends: Path | None = None,
        facts: Callable[[], dict[str, float]] = dict,
    ) -> None:
        self.name = name
        self._ends = (
            ends  # the checkpoints of queries that end by themselves, when their work is done
        )
        self._is_stopped = False
        self._about = about
        self._facts = facts
        self._begin = begin
        self._begun = 1
        self._group = group
        self._until_drained = until_drained
        self._stats: dict[str, QueryStats] = {}
        self.queries = begin()

    @property
    def active(self) -> bool:
        """Whether any query runs."""
        return any(query.isActive for query in self.queries)

    def stats(self) -> list[QueryStats]:
        """Return the progress of the queries; stops a pipeline that was to run until it is drained."""
        for query in self.queries:
            query_stats = self._stats.setdefault(query.name, QueryStats(query.name))
            for progress in query.recentProgress:
                query_stats.add(_document(progress))
            if query.name == self.name:
                query_stats.facts = self._facts()
        found = list(self._stats.values())
        if self._until_drained and self.active and all(t.batches and t.lag == 0 for t in found):
            self.stop()
        return found

    def check(self) -> None:
        """Raise the error that ended a query, if there was one."""
        for query in self.queries:
            failure = query.exception()
            if failure is not None:
                raise PipelineError(f"{query.name}{self._about}: {explained(failure)}")
        for name in self._silent():
            raise PipelineError(
                f"{name}{self._about}: Spark ended the query in the middle of a batch and does not say why; "
                "start it again, it goes on from its checkpoint"
            )

    def _silent(self) -> list[str]:
        """Return queries that were to process everything, have ended, and left a batch unfinished."""
        if self._ends is None or self._is_stopped:
            return []
        return [
            query.name
            for query in self.queries
            if not query.isActive
            and query.exception() is None
            and is_unfinished(self._ends / query.name)
        ]

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``. Return True when all queries have ended. A query that fails stops the
        others.
        """
        waited_for = next((query for query in self.queries if query.isActive), None)
        if waited_for is not None:
            with suppress(StreamingQueryException):  # checked below, with those of the others
                waited_for.awaitTermination(seconds)
        failures = [str(query.exception()) for query in self.queries if query.exception()]
        silent = self._silent()
        if not failures and not silent:
            return not self.active
        self.stats()
        self._stop_queries()
        if self._begun >= _BEGINNINGS_MAX or not all(TOO_BUSY in text for text in failures):
            return True
        log.warning("%s: %s Beginning again.", self.name, TOO_BUSY)
        self._begun += 1
        self.queries = self._begin()
        return False

    def stop(self) -> None:
        """Stop the queries. An unfinished batch is repeated from the checkpoint."""
        self._is_stopped = True
        self._stop_queries()

    def _stop_queries(self) -> None:
        for query in self.queries:
            query.stop()

    def close(self) -> None:
        """Commit the last offsets after the end."""
        if self._group is not None:
            self._group.close()
            self._group = None


def start(spark: SparkSession, name: str, options: Options) -> Running:
    """Start a pipeline by name."""
    module = importlib.import_module(PIPELINES[name].module)
    until_drained = False
    if options.available_now and getattr(options, "action", "") == "replay":
        # A bounded rate needs time between batches, which "available now" does not give.
        options, until_drained = replace(options, available_now=False), True
    group = None
    if options.source:
        shown = getattr(options, "take_over", "") or options.named(name).group
        group = show_as_group(spark, options.bootstrap, shown, query=name)
    try:
        return Running(
            name,
            lambda: module.start(spark, options),
            group=group,
            until_drained=until_drained,
            about=_about(options),
            ends=Path(options.checkpoint) if options.available_now else None,
            facts=partial(module.facts, options) if hasattr(module, "facts") else dict,
        )
    except BaseException:
        if group is not None:
            group.close()
        raise


def _about(options: Options) -> str:
    """Return what a pipeline reads and writes, for error messages."""
    given = (("--from", ",".join(options.source)), ("--to", options.to))
    named = [f"{name} {value}" for name, value in given if value]
    return f" ({' '.join([*named, f'--checkpoint {options.checkpoint}'])})"


def run(spark: SparkSession, name: str, options: Options) -> list[QueryStats]:
    """Run a pipeline with ``available_now`` to its end; raises its error."""
    running = start(spark, name, options)
    try:
        while not running.wait(0.5):
            running.stats()
        found = running.stats()
        running.check()
        return found
    finally:
        running.stop()
        running.close()


def _document(progress: Any) -> dict[str, Any]:
    """Return a report as plain data, without Spark's rows in it."""
    found: dict[str, Any] = json.loads(progress.json)
    return found
