"""``df.writeStream.format("millpond")`` and ``df.write.format("millpond")``: rows to topics.

Spark creates a writer on the driver, sends copies of it to the tasks, and calls ``commit`` or ``abort`` on
the driver with the tasks' results. The work itself is in ``sink_task``; this module adapts it to Spark.
"""

import asyncio
import functools
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from millpond.client.aio import Cluster
from millpond.spark.errors import SparkError, WrongOption
from millpond.spark.sink_options import DEFAULT_PREFIX, SinkOptions, check_schema
from millpond.spark.sink_task import SinkTask, TaskName, Written

# A topic that was created a moment ago may not be known to all brokers yet.
_UNKNOWN_TOPIC_S = 3.0


@dataclass
class Message(WriterCommitMessage):
    """A task's result for Spark."""

    written: Written


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query, each exactly once unless ``delivery`` says otherwise."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        self.options = SinkOptions.parse(options)
        if self.options.txn_app_id is not None:
            raise WrongOption("option txnAppId is for df.write; a stream has its query's id")
        check_schema(schema, self.options)

    def write(self, iterator: Iterator[Any]) -> Message:
        """Called in a task, with its rows."""
        context = TaskContext.get()
        assert context is not None, "write is called in a task"
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise SparkError("Spark does not say which query and batch the task belongs to")
        name = TaskName(
            query=f"{self.options.transactional_id_prefix}-{query}",
            task=context.partitionId(),
            batch=int(batch),
        )
        return Message(_worker(self.options).write(name, iterator))

    def commit(self, messages: Sequence[Message | None], batchId: int) -> None:  # noqa: N803
        """Called on the driver when every task is done."""
        _worker(self.options).commit(_written(messages), batchId)

    def abort(self, messages: Sequence[Message | None], batchId: int) -> None:  # noqa: N803
        """Called on the driver when a task failed finally, or ``commit`` did."""
        _worker(self.options).abort([one and one.written for one in messages])


class BatchSink(DataSourceArrowWriter):
    """Writes a DataFrame once: one transaction for each task, committed when all are done.

    A repeated job writes its rows again, unless ``txnAppId`` and ``txnVersion`` identify it: a committed
    version is not written twice (for ``foreachBatch``: the query's id and the batch's number).
    """

    def __init__(self, options: Mapping[str, str], schema: Any, *, overwrite: bool) -> None:
        self.options = SinkOptions.parse(options)
        if overwrite:
            raise WrongOption('a topic cannot be overwritten: say .mode("append")')
        check_schema(schema, self.options)
        job = self.options.txn_app_id or uuid.uuid4()
        self._query = f"{self.options.transactional_id_prefix}-{job}"

    def write(self, iterator: Iterator[Any]) -> Message:
        """Called in a task, with its rows."""
        context = TaskContext.get()
        assert context is not None, "write is called in a task"
        name = TaskName(
            query=self._query,
            task=context.partitionId(),
            batch=self.options.txn_version,
        )
        return Message(_worker(self.options).write(name, iterator))

    def commit(self, messages: Sequence[Message | None]) -> None:
        """Called on the driver when every task is done."""
        _worker(self.options).commit(_written(messages), self.options.txn_version)

    def abort(self, messages: Sequence[Message | None]) -> None:
        """Called on the driver when a task failed finally, or ``commit`` did."""
        _worker(self.options).abort([one and one.written for one in messages], self._query)


def _written(messages: Sequence[Message | None]) -> list[Written]:
    return [message.written for message in messages if message is not None]


def _worker(options: SinkOptions) -> SinkTask:
    """Return this process's connections for a sink; Spark keeps its Python processes, so they are reused.

    The application and version of a write are in the task's name and not in here: every batch of a
    ``foreachBatch`` has another version and should reuse the same connections.
    """
    connection = _Connection(
        bootstrap=options.bootstrap,
        client_id=options.client_id,
        delivery_s=options.delivery_timeout_ms / 1000,
        request_s=options.request_timeout_ms / 1000,
        process=os.getpid(),
    )
    plain = replace(
        options, txn_app_id=None, txn_version=None, transactional_id_prefix=DEFAULT_PREFIX
    )
    return _worker_of(plain, connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Connection:
    """The key of one set of connections; a forked process makes its own."""

    bootstrap: str
    client_id: str
    delivery_s: float
    request_s: float
    process: int


@functools.lru_cache(maxsize=64)
def _worker_of(options: SinkOptions, connection: _Connection) -> SinkTask:
    cluster, loop = _connected(connection)
    return SinkTask(options, cluster, lambda work: asyncio.run_coroutine_threadsafe(work, loop))


@functools.cache
def _connected(connection: _Connection) -> tuple[Cluster, asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="millpond-sink", daemon=True).start()
    cluster = Cluster(
        connection.bootstrap,
        client_id=connection.client_id,
        timeout_s=connection.delivery_s,
        request_s=connection.request_s,
        unknown_topic_s=_UNKNOWN_TOPIC_S,
    )
    return cluster, loop
