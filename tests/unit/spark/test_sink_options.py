"""Options and what follows from error codes and markers, without a broker."""

import pytest

from millpond.record import Compression
from millpond.spark.errors import WrongOption
from millpond.spark.sink_options import SinkOptions
from millpond.spark.transactions_model import Marker, Verdict, check_tasks, is_written, verdict
from millpond.wire.kafka.api import ErrorCode

BOOTSTRAP = {"kafka.bootstrap.servers": "localhost:9092"}


def test_names_have_no_case_and_defaults_are_the_safe_ones() -> None:
    options = SinkOptions.parse({"KAFKA.Bootstrap.Servers": "a:1,b:2", "Topic": "t"})
    assert (options.bootstrap, options.topic) == ("a:1,b:2", "t")
    assert options.is_exactly_once
    assert options.compression is Compression.NONE


def test_javas_tuning_does_no_harm() -> None:
    options = SinkOptions.parse(
        {**BOOTSTRAP, "kafka.linger.ms": "5", "kafka.compression.type": "lz4"}
    )
    assert options.compression is Compression.LZ4


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("topics", "t", "did you mean topic"),
        ("bootstrap.servers", "a:1", "did you mean kafka.bootstrap.servers"),
        ("delivery", "maybe", "exactly-once or at-least-once"),
        ("kafka.acks", "1", "kafka.acks is all"),
        ("kafka.compression.type", "rar", "one of none, gzip"),
        ("kafka.batch.size", "big", "whole number from 1 on, not 'big'"),
        ("kafka.transaction.timeout.ms", "0", "whole number from 1 on"),
        ("kafka.transactional.id", "x", "transactionalIdPrefix"),
        ("kafka.security.protocol", "SASL_SSL", "PLAINTEXT here"),
        ("kafka.sasl.mechanism", "PLAIN", "has no option 'kafka.sasl.mechanism'"),
        ("txnAppId", "x", "go together"),
        ("kafka.bootstrap.servers", "", "kafka.bootstrap.servers is missing"),
        ("kafka.bootstrap.servers", "a:b", "kafka.bootstrap.servers"),
    ],
)
def test_what_is_wrong_is_named(option: str, value: str, words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        SinkOptions.parse({**BOOTSTRAP, option: value})


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (ErrorCode.NONE, Verdict.DONE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.AGAIN),
        (ErrorCode.NOT_COORDINATOR, Verdict.AGAIN),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, Verdict.AGAIN),
        (ErrorCode.PRODUCER_FENCED, Verdict.LOST),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.LOST),
        (ErrorCode.INVALID_TXN_STATE, Verdict.LOST),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Verdict.REFUSED),
    ],
)
def test_codes_mean_one_of_four_things(code: ErrorCode, meaning: Verdict) -> None:
    assert verdict(code) is meaning


def test_a_marker_says_what_it_was_told_and_survives_a_strangers_words() -> None:
    marker = Marker(batch=3, tasks=4, rows=17)
    assert Marker.parse(3, marker.metadata()) == marker
    for strange in ("", None, "hello", "[]", '{"tasks":"x"}'):
        assert Marker.parse(3, strange) == Marker(batch=3, tasks=-1, rows=-1)


def test_a_marker_without_words_is_enough_to_leave_a_batch_out() -> None:
    bare = Marker.parse(3, "")
    assert is_written(bare, 3, what="q")
    check_tasks(bare, 3, 8, what="q")
    assert not is_written(bare, 4, what="q")
    assert not is_written(None, 0, what="q")
