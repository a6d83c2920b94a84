"""Every option that somebody can get wrong is refused by name, before a broker is asked."""

import pytest

from millpond.base.ids import TopicPartition
from millpond.spark.errors import WrongOption
from millpond.spark.offsets import AtOffsets, AtTime, AtTimes, Edge
from millpond.spark.options import (
    OFFSETS_PER_TRIGGER_DEFAULT,
    Isolation,
    NoMatch,
    Partitions,
    SourceOptions,
    TopicPattern,
    Topics,
    check_for_batch,
    check_for_stream,
    parse_options,
)


def options(**given: str) -> SourceOptions:
    """Parsed, with a broker and a topic unless others are given; `kafka_x_y` is `kafka.x.y`."""
    named = {
        name.replace("_", ".") if name.startswith(("kafka_", "fetchOffset_")) else name: value
        for name, value in given.items()
    }
    if "segments" not in named:
        named.setdefault("kafka.bootstrap.servers", "localhost:9092")
    if not {"subscribe", "subscribePattern", "assign"} & named.keys():
        named["subscribe"] = "orders"
    return parse_options(named)


def test_the_least_that_must_be_given_is_enough() -> None:
    parsed = options()

    assert parsed.subscription == Topics(("orders",))
    assert parsed.broker is not None
    assert parsed.broker.bootstrap == "localhost:9092"
    assert parsed.starting is None
    assert parsed.ending is Edge.LATEST
    assert parsed.fail_on_data_loss
    assert not parsed.include_headers
    assert parsed.fetch.isolation is Isolation.READ_UNCOMMITTED


def test_a_batch_has_a_bound_though_none_was_asked_for() -> None:
    assert options().offsets_per_trigger_max == OFFSETS_PER_TRIGGER_DEFAULT
    assert options(maxOffsetsPerTrigger="500").offsets_per_trigger_max == 500


def test_names_count_without_regard_to_case() -> None:
    parsed = parse_options({"KAFKA.Bootstrap.Servers": "b:1", "SUBSCRIBE": "a, b ,,a"})

    assert parsed.subscription == Topics(("a", "b"))


def test_the_three_ways_to_say_what_is_read() -> None:
    assert options(subscribePattern="or.*").subscription == TopicPattern("or.*")
    assert options(assign='{"orders":[0,2]}').subscription == Partitions(
        frozenset({TopicPartition("orders", 0), TopicPartition("orders", 2)})
    )


def test_a_pattern_must_fit_the_whole_name() -> None:
    assert TopicPattern("or.*").matches("orders")
    assert not TopicPattern("or").matches("orders")


def test_positions() -> None:
    place = TopicPartition("orders", 0)

    assert options(startingOffsets="Earliest").starting is Edge.EARLIEST
    assert options(startingOffsets='{"orders":{"0":-2}}').starting == AtOffsets({place: -2})
    assert options(startingTimestamp="5").starting == AtTime(5)
    assert options(startingOffsetsByTimestamp='{"orders":{"0":7}}').starting == AtTimes({place: 7})
    assert options(endingOffsets='{"orders":{"0":9}}').ending == AtOffsets({place: 9})


def test_one_time_goes_before_times_and_times_before_offsets() -> None:
    by_times = '{"orders":{"0":7}}'

    assert options(startingTimestamp="5", startingOffsetsByTimestamp=by_times).starting == AtTime(5)
    assert isinstance(
        options(startingOffsets="latest", startingOffsetsByTimestamp=by_times).starting, AtTimes
    )


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        ("15m", 900_000),
        ("30s", 30_000),
        ("500ms", 500),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("7", 7),
    ],
)
def test_durations_as_spark_writes_them(given: str, milliseconds: int) -> None:
    assert options(maxTriggerDelay=given).trigger_delay_ms_max == milliseconds


def test_the_rest_of_the_official_options() -> None:
    parsed = options(
        minPartitions="8",
        maxRecordsPerPartition="1000",
        minOffsetsPerTrigger="10",
        failOnDataLoss="false",
        includeHeaders="TRUE",
        startingOffsetsByTimestampStrategy="LATEST",
        groupIdPrefix="ignored",
        kafka_isolation_level="read_committed",
        kafka_group_id="etl",
        kafka_max_partition_fetch_bytes="65536",
        kafka_default_api_timeout_ms="9000",
        kafka_max_poll_records="17",
        fetchOffset_numRetries="5",
    )

    assert (parsed.partitions_min, parsed.records_per_partition_max) == (8, 1000)
    assert parsed.offsets_per_trigger_min == 10
    assert not parsed.fail_on_data_loss
    assert parsed.include_headers
    assert parsed.no_match is NoMatch.LATEST
    assert parsed.fetch.isolation is Isolation.READ_COMMITTED
    assert parsed.fetch.partition_bytes == 65536
    assert parsed.group_id == "etl"
    assert parsed.broker is not None
    assert parsed.broker.timeout_s == 9.0
    assert parsed.offset_tries == 5


def test_segment_files_need_no_broker() -> None:
    parsed = options(segments="/data")

    assert parsed.broker is None
    assert parsed.segments == "/data"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribee": "x"}, "no option 'subscribee'; did you mean subscribe?"),
        ({"startingOffset": "x"}, "did you mean startingOffsets?"),
        ({"bootstrap.servers": "x"}, "did you mean kafka.bootstrap.servers?"),
        ({"kafka.isolation.levle": "x"}, "did you mean kafka.isolation.level?"),
        ({"zzz": "x"}, "there is no option 'zzz'"),
        ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({"kafka.key.deserializer": "x"}, r"CAST\(key AS STRING\)"),
        ({"kafka.value.deserializer": "x"}, r"CAST\(value AS STRING\)"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes is not supported"),
        ({"kafka.security.protocol": "SSL"}, "PLAINTEXT only"),
        ({"assign": '{"t":[0]}'}, r"only one \(not subscribe and assign\)"),
        ({"startingOffsets": "first"}, "write earliest, latest, or JSON"),
        ({"startingOffsets": '{"orders":5}'}, "startingOffsets: expected e.g."),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "-3 for orders-0 is no offset"),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":-3}}'}, "is no time in milliseconds"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp='yesterday': write a whole number"),
        ({"minPartitions": "0"}, "minPartitions=0: must be at least 1"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger='many'"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss='yes': write true or false"),
        ({"kafka.isolation.level": "x"}, "write read_uncommitted or read_committed"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay='soon': write a time such as"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than"),
        ({"segments": "/data"}, "give one of them"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongOption, match=message):
        parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "orders", **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "b:1"}, "give one of the options subscribe"),
        ({"kafka.bootstrap.servers": "b:1", "subscribe": " , "}, "names no topic"),
        ({"kafka.bootstrap.servers": "b:1", "subscribe": ""}, "option subscribe is empty"),
        ({"kafka.bootstrap.servers": "b:1", "subscribePattern": "("}, "is no pattern"),
        ({"kafka.bootstrap.servers": "b:1", "assign": "orders"}, "assign: expected e.g."),
        ({"kafka.bootstrap.servers": "b:1", "assign": "{}"}, "names no partition"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongOption, match=message):
        parse_options(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "would read nothing"),
        ({"endingOffsets": "earliest"}, "would read nothing"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "not for batch queries"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "not for batch queries"),
        (
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
            "must name the same partitions: orders-0, orders-1",
        ),
        (
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
            "startingOffsets is 5 for orders-0, after endingOffsets 4",
        ),
    ],
)
def test_what_a_batch_query_cannot_ask_for(given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongOption, match=message):
        check_for_batch(options(**given))


def test_a_stream_has_no_end() -> None:
    with pytest.raises(WrongOption, match="a stream has no end"):
        check_for_stream(options(endingTimestamp="5"))
