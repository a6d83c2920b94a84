"""Connections of the sink live as long as Spark's Python process, however many batches it writes."""

import threading

import pytest

pytest.importorskip("pyspark")

from millpond.spark.sink import _worker
from millpond.spark.sink_options import SinkOptions


def options(**more: str) -> SinkOptions:
    return SinkOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out", **more})


def threads() -> int:
    return sum(thread.name == "millpond-sink" for thread in threading.enumerate())


def test_every_version_of_an_application_is_written_over_the_same_connections() -> None:
    first = _worker(options(txnAppId="etl", txnVersion="0"))
    before = threads()

    later = {id(_worker(options(txnAppId="etl", txnVersion=str(n)))) for n in range(1, 100)}

    assert later == {id(first)}
    assert threads() == before


def test_other_topics_are_another_task_over_the_same_connections() -> None:
    _worker(options())
    before = threads()

    found = {id(_worker(options(topic=f"out-{number}"))) for number in range(200)}

    assert len(found) > 1
    assert threads() == before
