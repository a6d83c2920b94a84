"""Interceptors: their order, what they may change, and that they never break a send."""

from collections.abc import Mapping
from typing import Any

import pytest
from examples.interceptors import CounterInterceptor, TimeInterceptor

from millpond.client import (
    BrokerRefused,
    NotSerializable,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
)
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_kafka import FakeKafka
from tests.unit.client.test_cluster import cluster_of, run
from tests.unit.client.test_producer import stored


def test_the_time_goes_before_the_value_and_the_counter_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story() -> None:
        counter = CounterInterceptor()
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, ErrorCode.NONE, ErrorCode.INVALID_RECORD)
            settings: dict[str, Any] = {
                "interceptor.classes": [TimeInterceptor(lambda: 1234), counter],
                "value.serializer": "string",
                "client.id": "shop",
            }
            async with Producer(cluster, **settings) as producer:
                await producer.send_and_wait("t", "a")
                with pytest.raises(BrokerRefused):
                    await producer.send_and_wait("t", "b")
                await producer.send_and_wait("t", "c")
                assert not counter.is_closed
            assert [record.value for record in stored(kafka, "t")] == [b"1234,a", b"1234,c"]
        assert (counter.arrived, counter.failed) == (2, 1)
        assert counter.is_closed

    run(story())
    assert capsys.readouterr().out == "shop: 2 arrived, 1 failed\n"


def test_each_gets_what_the_one_before_it_made() -> None:
    class Suffix(ProducerInterceptor):
        def __init__(self, text: str) -> None:
            self.text = text

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            record.value += self.text
            return record

    assert sent_through(Suffix("1"), Suffix("2")) == [b"v12"]


def test_everything_of_a_record_may_be_changed() -> None:
    class Redirect:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(
                "other", "new", "key", partition=1, timestamp_ms=5, headers=[("h", b"1")]
            )

    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.add_topic("other", 2)
            async with Producer(cluster, interceptors=[Redirect]) as producer:
                found = await producer.send_and_wait("t", "old")
                assert (found.topic, found.partition, found.timestamp) == ("other", 1, 5)
            [record] = stored(kafka, "other", 1)
            assert (record.key, record.value, record.headers) == (b"key", b"new", (("h", b"1"),))

    run(story())


def test_an_error_in_one_is_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("on_send is broken")

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: BaseException | None
        ) -> None:
            raise RuntimeError("on_acknowledgement is broken")

        def close(self) -> None:
            raise RuntimeError("close is broken")

    class Prefix:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            record.value = "p" + record.value
            return record

    assert sent_through(Broken(), Prefix()) == [b"pv"]
    for text in ("on_send is broken", "on_acknowledgement is broken", "close is broken"):
        assert text in caplog.text


def test_what_never_left_is_acknowledged_with_its_error() -> None:
    heard: list[tuple[RecordMetadata | None, BaseException | None]] = []

    class Listener:
        def configure(self, config: Mapping[str, Any]) -> None:
            assert config["linger.ms"] == 5

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: BaseException | None
        ) -> None:
            heard.append((metadata, error))

    async def story() -> None:
        async with (
            FakeKafka() as kafka,
            cluster_of(kafka) as cluster,
            Producer(cluster, interceptors=[Listener]) as producer,
        ):
            with pytest.raises(NotSerializable):
                await producer.send("t", object())

    run(story())
    [(metadata, error)] = heard
    assert metadata is None
    assert isinstance(error, NotSerializable)


def sent_through(*interceptors: Any) -> list[bytes | None]:
    """What arrives of the value ``v``."""

    async def story() -> list[bytes | None]:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, interceptors=list(interceptors)) as producer:
                await producer.send_and_wait("t", "v")
            return [record.value for record in stored(kafka, "t")]

    return run(story())
