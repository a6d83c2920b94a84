"""Topics that options of a pipeline name, at a broker that makes none by itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.client import BlockingClient
from millpond.spark.pipelines import audit, clickstream, dedup, lake, logs
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.running import run
from tests.spark.pipeline_kit import START
from tests.support.kafka.committed import read_committed, values

START_MS = int(START.timestamp() * 1000)


@pytest.fixture(scope="module")
def strict() -> Iterator[millpond.Broker]:
    settings = {"auto.create.topics.enable": "false", "log.retention.hours": "-1"}
    with millpond.Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def source(strict: millpond.Broker, topic: str) -> str:
    """A topic with an event twice, and with what is none."""
    event = {"id": "1", "user": "u", "page": "/", "action": "view", "time": START.isoformat()}
    sent = [json.dumps(event).encode()] * 2 + [b"poison \xff"]
    with BlockingClient(strict.bootstrap) as client:
        client.create_topic(topic, partitions=3)
        client.produce_batch(topic, 1, [(START_MS, b"k", value, ()) for value in sent])
    return topic


def partitions_of(broker: millpond.Broker) -> dict[str, int]:
    with BlockingClient(broker.bootstrap) as client:
        return {topic.name: len(topic.partitions) for topic in client.list_topics()}


def test_a_stream_makes_its_topics_before_it_reads(
    spark: Any, strict: millpond.Broker, source: str, tmp_path: Path
) -> None:
    options = clickstream.Options(
        bootstrap=strict.bootstrap,
        source=(source,),
        to=str(tmp_path / "out"),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        results=f"{source}.results",
    )
    run(spark, "clickstream", options)
    assert values(read_committed(strict.bootstrap, f"{source}.dlq")) == [b"poison \xff"]
    assert partitions_of(strict)[f"{source}.results"] == 1, "what the broker gives new topics"


def test_a_batch_makes_its_topics_and_a_copy_has_the_partitions_of_its_source(
    spark: Any, strict: millpond.Broker, source: str
) -> None:
    copied = dedup.Options(bootstrap=strict.bootstrap, source=(source,), to=f"{source}.clean")
    (counted,) = dedup.run_batch(spark, copied).collect()
    assert (counted["records"], counted["kept"], counted["dead_letters"]) == (3, 1, 1)
    made = partitions_of(strict)
    assert (made[f"{source}.clean"], made[f"{source}.dlq"]) == (3, 1)
    assert values(read_committed(strict.bootstrap, f"{source}.dlq")) == [b"poison \xff"]


@pytest.mark.parametrize(
    ("module", "given", "words"),
    [
        (audit, {"sends": "sends"}, "--dead-letters no topic: "),
        (clickstream, {}, "--dead-letters no topic: "),
        (clickstream, {"dead_letters": "", "results": "no/results"}, "--results no/results: "),
        (dedup, {}, "--dead-letters no topic: "),
        (dedup, {"dead_letters": "", "to": "no to"}, "--to no to: "),
        (lake, {"value": "json"}, "--dead-letters no topic: "),
        (logs, {}, "--dead-letters no topic: "),
        (logs, {"dead_letters": "", "alerts": "no alerts"}, "--alerts no alerts: "),
    ],
)
def test_a_topic_that_cannot_be_made_is_named_before_anything_is_read(
    spark: Any,
    strict: millpond.Broker,
    source: str,
    tmp_path: Path,
    module: Any,
    given: dict[str, str],
    words: str,
) -> None:
    options = module.Options(
        bootstrap=strict.bootstrap,
        source=(source,),
        checkpoint=str(tmp_path / "checkpoint"),
        **{"to": str(tmp_path / "out") if module is not dedup else f"{source}.to"}
        | {"dead_letters": "no topic"}
        | given,
    )
    for work in (module.start, module.run_batch):
        with pytest.raises(PipelineError, match=f"^{words}the topic cannot have this name") as said:
            work(spark, options)
        assert "\n" not in str(said.value)
    assert list(tmp_path.iterdir()) == []
