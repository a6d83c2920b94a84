"""A broker and the sink's half of a Spark process, without Spark."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeAlias

import pytest

import millpond
from millpond.client.aio import Cluster
from millpond.spark.sink_options import SinkOptions
from millpond.spark.sink_task import SinkTask
from millpond.spark.transactions import Transactions

MakeSink: TypeAlias = Callable[..., SinkTask]


class Process:
    """A loop in a thread and a cluster, as a Python process of Spark has them."""

    def __init__(self, bootstrap: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.cluster = Cluster(bootstrap, unknown_topic_s=0.1)

    def submit(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Any) -> Any:
        return self.submit(work).result(30)

    def close(self) -> None:
        self.run(self.cluster.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[millpond.Broker]:
    settings = {
        "auto.create.topics.enable": "false",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
    }
    with millpond.Broker(settings=settings) as running:
        yield running


@pytest.fixture
def process(broker: millpond.Broker) -> Iterator[Process]:
    running = Process(broker.bootstrap)
    yield running
    running.close()


@pytest.fixture(params=[False, True], ids=["first-generation", "second-generation"])
def second_generation(request: pytest.FixtureRequest) -> bool:
    """Both ways to speak of transactions."""
    return bool(request.param)


@pytest.fixture
def transactions(process: Process, second_generation: bool) -> Transactions:
    return Transactions(process.cluster, timeout_s=20, second_generation=second_generation)


@pytest.fixture
def sink(broker: millpond.Broker, process: Process, second_generation: bool) -> MakeSink:
    """Make a sink with these options; each is a process of its own in the eyes of the broker."""

    def make(**options: str) -> SinkTask:
        given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "out"}
        given |= {name.replace("__", "."): value for name, value in options.items()}
        given = {name: value for name, value in given.items() if value}
        return SinkTask(
            SinkOptions.parse(given),
            process.cluster,
            process.submit,
            second_generation=second_generation,
        )

    return make
