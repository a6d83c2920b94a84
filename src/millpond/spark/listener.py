"""Shows Spark's progress as a consumer group, so that ``millpond kafka group describe`` shows its lag.

After ``show_as_group(spark, "localhost:9092", "etl")`` every streaming query of the session that reads Kafka
offsets, by this source or by the official connector, has its end offsets committed for the group after each
batch. The source does the same by itself for queries with the option ``kafka.group.id``; this is for queries
that cannot be changed. Checkpoints remain authoritative: the group is for monitoring, and a failed commit is
only logged.
"""

from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from millpond.spark._broker import Brokers
from millpond.spark.committer import Committer, end_offsets
from millpond.spark.options import BrokerSettings

_TIMEOUT_S = 10.0


def show_as_group(
    spark: Any, bootstrap: str, group: str, *, query: str | None = None
) -> "GroupListener":
    """Commit the progress of the session's queries, or of the one with this name. Return the listener.

    ``close`` it before the session stops, so that the last commit is not lost.
    """
    listener = GroupListener(bootstrap, group, query=query)
    listener.attach(spark)
    return listener


class GroupListener(StreamingQueryListener):
    """Receives Spark's progress events and commits in its own thread, so as not to block Spark's listener
    bus.
    """

    def __init__(self, bootstrap: str, group: str, *, query: str | None = None) -> None:
        self._group = group
        self._query = query
        self._spark: Any = None
        self._brokers = Brokers(BrokerSettings(bootstrap=bootstrap, timeout_s=_TIMEOUT_S))
        self._committer = Committer(lambda offsets: self._brokers.commit(group, offsets), group)

    def attach(self, spark: Any) -> None:
        """Start listening to a session."""
        self._spark = spark
        spark.streams.addListener(self)

    def close(self) -> None:
        """Commit the last progress, then stop."""
        if self._spark is not None:
            # Events come through a queue of Spark's; those of finished batches must not be missed.
            self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001
            self._spark.streams.removeListener(self)
            self._spark = None
        self._committer.close()
        self._brokers.close()

    def flush(self) -> None:
        """Wait until every received position is committed, or has failed."""
        self._committer.flush()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no batch is done yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Queue the end offsets of a finished batch."""
        progress = event.progress
        if self._query is None or progress.name == self._query:
            self._committer.put(end_offsets(source.endOffset for source in progress.sources))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no batch was run."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the last batch was reported before."""
