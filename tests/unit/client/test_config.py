"""Settings: Kafka's names and Python's, their bounds, and what does not go together."""

from typing import Any

import pytest

from millpond.client import BadConfig
from millpond.client.config import ACKS_ALL, consumer_config, producer_config


def test_both_ways_of_writing_mean_the_same() -> None:
    one = producer_config({"linger.ms": "20", "batch.size": 1000}, {})
    two = producer_config(None, {"linger_ms": 20, "batch_size": "1000"})
    assert one == two
    assert (one.linger_ms, one.batch_size) == (20, 1000)


def test_defaults_are_those_of_kafka_4() -> None:
    made = producer_config(None, {})
    assert (made.batch_size, made.linger_ms, made.buffer_memory) == (16_384, 5, 33_554_432)
    assert (made.acks, made.retries, made.is_idempotent) == (ACKS_ALL, 2**31 - 1, True)
    assert (made.max_block_ms, made.delivery_timeout_ms) == (60_000, 120_000)
    reader = consumer_config(None, {})
    assert (reader.session_timeout_ms, reader.heartbeat_interval_ms) == (45_000, 3_000)
    assert (reader.max_poll_interval_ms, reader.max_poll_records) == (300_000, 500)
    assert (reader.auto_offset_reset, reader.enable_auto_commit) == ("latest", True)


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
@pytest.mark.parametrize(("value", "meaning"), [("all", -1), (-1, -1), ("0", 0), (1, 1)])
def test_acks_by_their_new_and_their_old_name(name: str, value: object, meaning: int) -> None:
    assert producer_config({name: value}, {}).acks == meaning


def test_one_dictionary_may_serve_producers_and_consumers() -> None:
    both = {"bootstrap.servers": "a:1", "linger.ms": 7, "group.id": "g", "metric.reporters": "x"}
    assert producer_config(both, {}).linger_ms == 7
    assert consumer_config(both, {}).group_id == "g"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"linger_msec": 5}, r"did you mean linger\.ms"),
        ({"batch_size": "many"}, "whole number"),
        ({"batch_size": -1}, "from 0"),
        ({"linger_ms": "soon"}, "milliseconds"),
        ({"acks": 2}, "0, 1 or all"),
        ({"compression_type": "rar"}, "one of gzip"),
        ({"partitioner_ignore_keys": "perhaps"}, "true or false"),
        ({"security_protocol": "SSL"}, "PLAINTEXT"),
        ({"sasl_mechanism": "PLAIN"}, "plain text only"),
        ({"enable_idempotence": True, "acks": 1}, "acks=all"),
        ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"transactional_id": "x", "enable_idempotence": False}, "is idempotent"),
        ({"delivery_timeout_ms": 1, "linger_ms": 5}, "nothing could be sent"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        producer_config(None, settings)


def test_what_is_said_twice_must_agree() -> None:
    assert producer_config({"linger.ms": 5, "acks": 1}, {"acks": "1"}).acks == 1
    with pytest.raises(BadConfig, match="given twice"):
        producer_config({"batch.size": 5}, {"batch_size": 6})


def test_idempotence_steps_back_where_it_was_not_asked_for() -> None:
    assert not producer_config(None, {"acks": 1}).is_idempotent
    assert not producer_config(None, {"retries": 0}).is_idempotent


def test_a_consumer_must_beat_faster_than_its_session_ends() -> None:
    with pytest.raises(BadConfig, match="less than session"):
        consumer_config(None, {"session_timeout_ms": 1000, "heartbeat_interval_ms": 1000})
