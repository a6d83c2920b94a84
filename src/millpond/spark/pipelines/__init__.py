"""Shipped pipelines: short Structured Streaming programs, each also as a batch job.

A pipeline is a module with an ``Options`` class, ``start(spark, options)``, which returns its running
queries, and ``run_batch(spark, options)``, which does the same work once over the present records and returns
the result. Its transformations are plain functions from DataFrame to DataFrame. This table names the
pipelines without importing Spark.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One row of the table: a pipeline's name, its purpose, its module."""

    name: str
    summary: str

    @property
    def module(self) -> str:
        """The module with its ``Options``, ``start`` and ``run_batch``."""
        return f"{__name__}.{self.name}"


PIPELINES: dict[str, Pipeline] = {
    pipeline.name: pipeline
    for pipeline in (
        Pipeline("lake", "Topics to Parquet, exactly once, readable by any engine."),
        Pipeline("clickstream", "Sessions, funnels and top pages of a click stream."),
        Pipeline("logs", "Levels and error patterns of service logs, with alerts."),
        Pipeline("dlq", "What is in dead-letter topics and why; replay to where it came from."),
        Pipeline("dedup", "Each record once: by id within a time, or by Bloom filter."),
        Pipeline("redistribute", "A backlog spread evenly over a topic with more partitions."),
        Pipeline("bank", "Traffic recorded once, for load tests."),
        Pipeline("replay", "Banked traffic sent again, at any multiple of its speed."),
        Pipeline("audit", "What was sent against what is in the log: lost, doubled, unknown."),
    )
}
