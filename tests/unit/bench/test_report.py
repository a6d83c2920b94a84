"""The benchmark's arithmetic and its report: figures must not be flattered on the way to the table."""

from pathlib import Path

import pytest
from bench import java_perf
from bench.brokers import KAFKA, MILLPOND
from bench.model import Cell, Metric, Results, Sample, Values, percentile
from bench.raw_client import BenchmarkError, record_batch
from bench.report import BEGIN, END, bar_chart, markdown, number, write_document

from millpond.record.batch import check_crc, read_header
from millpond.record.records import decode_batch

PRODUCER_OUTPUT = """\
Warmup first 200000 records. Steady state results will print after the complete test summary.
In steady state.
194744 records sent, 38917.7 records/sec (3.71 MB/sec), 3427.8 ms avg latency, 3780.0 ms max latency.
1200000 records sent, 95754.8 records/sec (9.13 MB/sec), 2213.18 ms avg latency, 3780 ms max latency.
1000000 steady state records sent, 109769.484083 records/sec (10.47 MB/sec), 2132.13 ms avg latency, 1 ms max.
"""
CONSUMER_OUTPUT = (
    "2026-11-16 03:48:47:120, 2026-11-16 03:48:50:993, 95.3757, 24.6258, 1000087, 258220.2427, "
    "763, 3110, 30.6674, 321571.3826\n"
)
SPEED = Metric(key="mb_per_s", label="throughput", unit="MB/s", target=1.0, charted=True)
TIME = Metric(key="p50_us", label="p50", unit="µs", higher_is_better=False, target=1.0)
MACHINE = {
    "cpu": "a CPU",
    "cores": 2,
    "memory_gb": 24.0,
    "kernel": "6",
    "filesystem": "ext4",
    "python": "3.11",
    "packages": {"uvloop": "0"},
    "java": "17",
    "kafka": "4",
    "librdkafka": "2",
    "commit": "abc",
    "date": "2026-01-01",
}


def nothing(_broker: object) -> Values:
    return {}


def cell(*metrics: Metric) -> Cell:
    return Cell(name="cell", section="Produce", title="a title", metrics=metrics, run=nothing)


def results(ours: list[Values], theirs: list[Values]) -> Results:
    samples = [
        Sample(cell="cell", system=system, round=turn + 1, values=values)
        for system, rounds in ((MILLPOND, ours), (KAFKA, theirs))
        for turn, values in enumerate(rounds)
    ]
    return Results(
        scale="quick", rounds=3, systems=[MILLPOND, KAFKA], machine=MACHINE, samples=samples
    )


def test_only_records_after_the_warm_up_count_for_the_java_producer() -> None:
    assert java_perf.parse_produced(PRODUCER_OUTPUT, 100) == {
        "msgs_per_s": 109769.484083,
        "mb_per_s": pytest.approx(10.9769484083),
    }


def test_a_java_producer_without_a_steady_state_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="steady state"):
        java_perf.parse_produced("100 records sent, 1.0 records/sec (0.1 MB/sec), 1 ms avg", 100)


def test_the_java_consumer_is_timed_without_its_joining_of_the_group() -> None:
    values = java_perf.parse_consumed(CONSUMER_OUTPUT, count=1_000_000, size=100)
    assert values["msgs_per_s"] == 321571.3826
    assert values["join_s"] == 0.763


def test_a_java_consumer_that_got_too_little_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="1000087 of 2000000"):
        java_perf.parse_consumed(CONSUMER_OUTPUT, count=2_000_000, size=100)


def test_the_ratio_is_that_of_the_medians_and_its_spread_that_of_the_rounds() -> None:
    found = results(
        [{"mb_per_s": 10.0}, {"mb_per_s": 30.0}, {"mb_per_s": 20.0}],
        [{"mb_per_s": 10.0}, {"mb_per_s": 10.0}, {"mb_per_s": 40.0}],
    ).ratio("cell", "mb_per_s", MILLPOND, KAFKA)
    assert found is not None
    assert (found.value, found.lowest, found.highest) == (2.0, 0.5, 3.0)


def test_a_missed_target_is_said_and_only_the_better_side_is_bold() -> None:
    table = markdown(
        results(
            [{"mb_per_s": 9.0, "p50_us": 80.0}],
            [{"mb_per_s": 10.0, "p50_us": 100.0}],
        ),
        [cell(SPEED, TIME)],
        source="x.json",
        chart="x.svg",
    )
    assert "| 0.90 (0.90-0.90) | ≥ 1.0: missed |" in table
    assert "| **0.80** (0.80-0.80) | ≤ 1.0: met |" in table


def test_a_failed_cell_is_shown_as_failed_and_not_left_out() -> None:
    found = results([], [{"mb_per_s": 10.0}])
    found.samples.append(
        Sample(cell="cell", system=MILLPOND, round=1, values={}, error="it fell over")
    )
    assert "| failed |" in markdown(found, [cell(SPEED)], source="x", chart="x")


def test_prose_around_the_marks_survives(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{BEGIN}\nold table\n{END}\nafter\n")
    write_document(results([], []), [cell(SPEED)], document, source="x.json")
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old table" not in text


def test_the_chart_draws_a_bar_for_each_charted_figure() -> None:
    chart = bar_chart(
        results([{"mb_per_s": 5.0, "p50_us": 1}], [{"mb_per_s": 10.0, "p50_us": 1}]),
        [cell(SPEED, TIME)],
    )
    assert chart.count("0.50x") == 1
    assert chart.count("<rect") == 2  # the background and one bar


def test_percentiles_of_a_short_list() -> None:
    ordered = [float(value) for value in range(100)]
    assert percentile(ordered, 0.5) == 50.0
    assert percentile(ordered, 0.99) == 99.0
    assert percentile([7.0], 0.999) == 7.0


@pytest.mark.parametrize(
    ("value", "shown"), [(1234.5, "1,234"), (99.96, "100.0"), (12.34, "12.3"), (0.123, "0.12")]
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_the_raw_client_builds_batches_that_the_log_accepts() -> None:
    batch = record_batch([b"one", b"x" * 300])
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert [record.value for record in decode_batch(batch)] == [b"one", b"x" * 300]
