"""Redistribution, audit, bank and replay, on records whose fate is known."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
from millpond.client.blocking import BlockingClient
from millpond.spark.pipelines import audit, bank, dedup, redistribute, replay
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.table import Table
from tests.spark.pipeline_kit import (
    at,
    frame,
    headers_of,
    numbered,
    record,
    rows_of,
    since_start,
)

# --- redistribution ---


@given(st.lists(st.integers(1, 1000), max_size=50), st.integers(1, 12))
def test_no_bin_is_fuller_than_the_fairest_could_be_by_more_than_one_item(
    sizes: list[int], bins: int
) -> None:
    placed = redistribute.balance(list(enumerate(sizes)), bins)
    loads = [0] * bins
    for item, number in placed.items():
        loads[number] += sizes[item]
    assert len(placed) == len(sizes)
    assert max(loads) <= sum(sizes) / bins + max(sizes, default=0)


def test_a_skewed_backlog_becomes_even_and_no_key_overtakes_itself(spark: Any) -> None:
    """Two partitions; three keys of which each is a fifth of everything, and many small ones."""
    rows: list[tuple[Any, ...]] = []
    for number in range(600):
        heavy = number % 5
        key = f"heavy-{heavy}" if heavy < 3 else f"small-{number % 60}"
        rows.append(record(str(number), key=key, partition=hash_free(key), topic="orders"))
    records = frame(spark, numbered(rows)).repartition(3)
    options = redistribute.Options(source=("orders",), to="spread", partitions=4)
    plan = redistribute.place_keys(redistribute.count_keys(records), 4)
    moved = redistribute.spread(records, plan, options).collect()
    assert len(moved) == 600
    loads = [sum(row["partition"] == place for row in moved) for place in range(4)]
    assert max(loads) - min(loads) <= 20
    for name in {bytes(row["key"]) for row in moved}:
        mine = [row for row in moved if bytes(row["key"]) == name]
        assert len({row["partition"] for row in mine}) == 1
        numbers = [int(bytes(row["value"])) for row in mine]
        assert numbers == sorted(numbers)


def hash_free(key: str) -> int:
    return len(key) % 2


def test_records_without_a_key_go_round(spark: Any) -> None:
    records = frame(spark, numbered(record("x", topic="orders") for _ in range(8)))
    options = redistribute.Options(source=("orders",), to="spread", partitions=4)
    moved = redistribute.spread(records, {}, options).groupBy("partition").count()
    assert rows_of(moved, "partition", "count") == {(place, 2) for place in range(4)}


# --- audit ---


def sent(number: int, key: str = "k", **more: Any) -> tuple[Any, ...]:
    return record(json.dumps({"id": number}), key=key, **more)


def test_the_audit_finds_loss_doubles_and_strangers(spark: Any) -> None:
    sends = frame(spark, numbered([sent(1), sent(2), sent(3), sent(4, "other"), sent(4, "other")]))
    log = frame(
        spark,
        numbered([sent(1), sent(2), sent(2), sent(4, "other"), sent(4, "other"), sent(9, "new")]),
    )
    both = audit.entries(sends, "sent", "$.id").unionByName(audit.entries(log, "logged", "$.id"))
    ids = audit.matched(both)
    assert rows_of(audit.findings(ids), "key", "id", "verdict") == {
        ("k", "3", "lost"),
        ("k", "2", "doubled"),
        ("new", "9", "unknown"),
    }
    columns = ("key", "sent", "logged", "lost", "doubled", "unknown")
    assert [tuple(row[name] for name in columns) for row in audit.by_key(ids).collect()] == [
        ("k", 3, 3, 1, 1, 0),
        ("new", 0, 1, 0, 0, 1),
        ("other", 2, 2, 0, 0, 0),
    ]
    (doubled,) = audit.findings(ids).where("verdict = 'doubled'").collect()
    assert doubled["places"] == ["clicks-0@1", "clicks-0@2"], "where to look"


def test_a_log_that_is_read_more_slowly_than_the_sends_is_not_taken_for_lost(
    spark: Any, tmp_path: Path
) -> None:
    """The sends are done in three batches; the log is with the first of them still in its fourth."""
    early = [sent(number) for number in range(1, 5)]
    late = [[sent(5, seconds=5000)], [sent(6, seconds=90_000)]]
    sends = [[*early, sent(7)], *late]
    log = [*([one] for one in early), *late]
    for name, files in (("sends", sends), ("log", log)):
        for number, rows in enumerate(files):
            place = tmp_path / name / str(number)
            frame(spark, numbered(rows)).coalesce(1).write.parquet(str(place))
    schema = frame(spark, []).schema

    def stream(name: str) -> Any:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(tmp_path / name / "*"))

    options = audit.Options(within="10 minutes")
    both = audit.side_by_side(stream("sends"), stream("log"), options)
    query = (
        audit.findings(audit.matched(both, within=options.within))
        .writeStream.format("memory")
        .queryName("audit_story")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert rows_of(spark.table("audit_story"), "id", "verdict") == {("7", "lost")}
    spark.sql("DROP VIEW audit_story")


def test_a_producer_whose_clock_is_ahead_makes_no_entry_of_others_late(
    spark: Any, tmp_path: Path
) -> None:
    now = since_start()
    early = [sent(1, seconds=now), sent(2, "ahead", seconds=now + 3600)]
    late = [sent(3, seconds=now + 1), sent(4, seconds=now + 2)]
    schema = frame(spark, []).schema

    def stream(name: str) -> Any:
        for number, rows in enumerate((early, late)):
            place = tmp_path / name / str(number)
            frame(spark, numbered(rows)).coalesce(1).write.parquet(str(place))
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(tmp_path / name / "*"))

    options = audit.Options(within="10 minutes")
    both = audit.side_by_side(stream("sends"), stream("log"), options)
    query = (
        audit.findings(audit.matched(both, within=options.within))
        .writeStream.format("noop")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    operators = [one for report in query.recentProgress for one in report["stateOperators"]]
    assert sum(one["numRowsDroppedByWatermark"] for one in operators) == 0
    assert operators[-1]["numRowsTotal"] == 4, "all of them wait for their time to be over"


def test_what_has_no_id_is_a_letter_and_no_finding(spark: Any) -> None:
    sends = frame(spark, numbered([sent(1), record("{}", key="k")]))
    log = frame(spark, numbered([sent(1), record("no json", key="k"), record(None, key="k")]))
    ids = audit.matched(
        audit.entries(sends, "sent", "$.id").unionByName(audit.entries(log, "logged", "$.id"))
    )
    assert audit.findings(ids).isEmpty()
    (row,) = audit.by_key(ids).collect()
    assert (row["sent"], row["logged"], row["lost"], row["unknown"]) == (2, 3, 0, 0)
    assert row["without_id"] == 3
    options = audit.Options(source=("orders",), group="g")
    buried = audit.dead(dedup.judge(log, "$.id"), options).collect()
    assert [headers_of(letter)["__dlq.errors.reason"] for letter in buried] == ["NO_ID"] * 2


# --- bank and replay ---


def test_a_bank_is_replayed_slice_by_slice_and_whole(spark: Any, tmp_path: Path) -> None:
    records = frame(
        spark,
        numbered(
            record(str(second), key="k", seconds=second) for second in (0, 1, 59, 61, 120, 299)
        ),
    )
    table = Table(tmp_path / "bank")
    table.publish(bank.banked(records), writer="q", batch=0, partition_by=bank.PARTITIONS)
    options = replay.Options(bank=str(table.path), speed=60, slice_s=1)
    found = replay.open_bank(spark, options)
    slices = whole(replay.recorded(found, options), options)
    assert (slices.count, slices.length_us) == (5, 60_000_000)
    assert values_by_slice(found, slices) == [[0, 1, 59], [61], [120], [], [299]]
    assert rows_of(bank.summary(found), "topic", "records", "first", "last") == {
        ("clicks", 6, at(0).replace(tzinfo=None), at(299).replace(tzinfo=None))
    }


def whole(spans: list[replay.Span], options: replay.Options) -> replay.Slices:
    """The slices of a replay that begins now."""
    return replay.cut(
        replay.Slices(replay.length_us(options)), spans, idle_max=replay.idle_max(options)
    )


def values_by_slice(found: Any, slices: replay.Slices) -> list[list[int]]:
    """What each slice sends, as numbers."""
    return [
        sorted(int(bytes(row["value"])) for row in replay.slice_of(found, slices, number).collect())
        for number in range(slices.count)
    ]


def test_clocks_that_were_far_off_make_no_empty_years(spark: Any, tmp_path: Path) -> None:
    """Records of 1970 and of 2100 around two minutes of traffic: a pause of three slices on each side."""
    start = at(0).timestamp()
    seconds = (1 - start, 0, 61, 4_102_444_801 - start)
    table = Table(tmp_path / "bank")
    records = frame(spark, numbered(record(str(n), seconds=s) for n, s in enumerate(seconds)))
    table.publish(bank.banked(records), writer="q", batch=0, partition_by=bank.PARTITIONS)
    options = replay.Options(bank=str(table.path), speed=60, slice_s=1, idle_max_s=2.5)
    found = replay.open_bank(spark, options)
    slices = whole(replay.recorded(found, options), options)
    assert values_by_slice(found, slices) == [[0], [], [], [], [1], [2], [], [], [], [3]]


MINUTE_US = 60_000_000


def recorded_in(*minutes: int) -> list[replay.Span]:
    return [replay.Span(n * MINUTE_US, (n + 1) * MINUTE_US) for n in minutes]


@given(
    st.lists(st.integers(0, 500), min_size=1, unique=True).map(sorted),
    st.integers(1, 10**9),
    st.integers(0, 100),
    st.integers(0, 60),
)
def test_every_moment_is_in_one_slice_however_often_the_bank_grew(
    minutes: list[int], length_us: int, idle_max: int, known: int
) -> None:
    spans = recorded_in(*minutes)
    begun = replay.cut(replay.Slices(length_us), spans[:known], idle_max=idle_max)
    slices = replay.cut(begun, spans, idle_max=idle_max)

    begins = [(stretch.first_us, slices.end_of(stretch)) for stretch in slices.stretches]
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(begins))
    for span in spans:
        assert any(first <= span.first_us and span.end_us <= end for first, end in begins)
    assert slices.left_out(spans) == []
    most = -(-501 * MINUTE_US // length_us)
    assert slices.count <= min(most, len(minutes) * (idle_max + 1 + MINUTE_US // length_us)) + 1
    assert all(slices.at(number) == begun.at(number) for number in range(min(begun.count, 50)))


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("", "without --to .* came from, and clicks is not there .* or give --to TOPIC"),
        ("elsewhere", "--to elsewhere: the topic is not there .* create it first"),
    ],
)
def test_a_replay_to_a_topic_that_is_not_there_says_so_before_it_sends(
    spark: Any, tmp_path: Path, to: str, words: str
) -> None:
    table = Table(tmp_path / "bank")
    records = bank.banked(frame(spark, [record("1"), record("2", topic="orders", offset=1)]))
    table.publish(records, writer="q", batch=0, partition_by=bank.PARTITIONS)
    with (
        millpond.Broker(auto_create_topics_enable=False) as broker,
        BlockingClient(broker.bootstrap) as client,
    ):
        client.create_topic("orders", partitions=1)
        options = replay.Options(
            bootstrap=broker.bootstrap,
            bank=str(table.path),
            to=to,
            checkpoint=str(tmp_path / "state"),
        )
        for work in (replay.start, replay.run_batch):
            with pytest.raises(PipelineError, match=words) as refused:
                work(spark, options)
            assert "\n" not in str(refused.value)


def test_a_checkpoint_keeps_its_slices_and_adds_what_was_banked_since(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = replay.Options(bank="bank", speed=60, idle_max_s=2, checkpoint=str(tmp_path))
    begun = replay._of_checkpoint(recorded_in(10, 11, 1000), options)
    assert begun.stretches == (
        replay.Stretch(10 * MINUTE_US, 4),
        replay.Stretch(1000 * MINUTE_US, 1),
    )
    grown = replay._of_checkpoint(recorded_in(10, 11, 1000, 1001, 5000), options)
    assert [grown.at(number) for number in range(begun.count)] == [
        begun.at(number) for number in range(begun.count)
    ]
    assert grown.stretches[1:] == (
        replay.Stretch(1000 * MINUTE_US, 4),
        replay.Stretch(5000 * MINUTE_US, 1),
    )
    assert not caplog.records

    again = replay._of_checkpoint(recorded_in(10, 11, 500, 1000, 1001, 5000), options)
    assert again == grown
    assert "1 minutes were banked into time that this replay had passed over" in caplog.text


def test_a_checkpoint_of_an_earlier_version_goes_on_and_skips_what_is_left_of_the_void(
    tmp_path: Path,
) -> None:
    """It began in 1970 and is in its 700th empty slice; the traffic is far behind that."""
    (tmp_path / "replay-slices.json").write_text(
        json.dumps({"first_us": 0, "last_us": 10**6 * MINUTE_US, "length_us": MINUTE_US})
    )
    (tmp_path / "replay" / "offsets").mkdir(parents=True)
    for number in (698, 699):
        (tmp_path / "replay" / "offsets" / str(number)).touch()
    options = replay.Options(bank="bank", speed=60, idle_max_s=2, checkpoint=str(tmp_path))
    slices = replay._of_checkpoint(recorded_in(0, 10**6 - 1, 10**6), options)
    assert slices.at(699) == 699 * MINUTE_US
    assert [slices.at(number) // MINUTE_US for number in range(702, slices.count)] == [
        10**6 - 1,
        10**6,
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (replay.Options(), "Give --bank"),
        (replay.Options(bank="x", speed=0), "more than 0"),
        (replay.Options(bank="x", idle_max_s=-1), "--idle-max-s is a number of seconds"),
        (replay.Options(bank="/no/such/bank"), "there is nothing in it"),
    ],
)
def test_a_replay_that_makes_no_sense_is_refused(options: replay.Options, words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        replay.open_bank(None, options)
