"""The table of the Spark benchmark: medians without the warm-up, ratios at the same broker."""

from pathlib import Path

import pytest
from bench.spark import BEGIN, END, Sample, markdown, write_document

FACTS = {"cpu": "c", "cores": 2, "python": "3", "java": "j", "commit": "abc"}


def read_samples(form: str, broker: str, *rates: float) -> list[Sample]:
    return [
        Sample(cell="batch read", broker=broker, form=form, round=n, values={"records_per_s": rate})
        for n, rate in enumerate(rates)
    ]


def test_medians_without_the_warm_up_and_the_ratio_to_the_official_one() -> None:
    samples = [
        *read_samples("millpond", "millpond", 1, 300, 200, 250),
        *read_samples("kafka", "millpond", 1, 100, 125, 130),
        *read_samples("millpond", "kafka", 1, 50),
        *read_samples("kafka", "kafka", 1, 100),
    ]
    table = markdown(samples, FACTS, records=7, rounds=3, source="x.json")
    assert "| batch read, records/s | Millpond | millpond | 250 | **2.00** |" in table
    assert "| batch read, records/s | Millpond | official connector | 125 |  |" in table
    assert "| batch read, records/s | Apache Kafka | millpond | 50.0 | 0.50 |" in table


def test_quantiles_of_micro_batches_are_of_all_batches_of_all_rounds() -> None:
    samples = [
        Sample(
            cell="micro-batch",
            broker="millpond",
            form="millpond",
            round=n,
            values={"p50_ms": 1.0, "p99_ms": 1.0},
            times_ms=times,
        )
        for n, times in enumerate([[900.0], [70.0] * 99 + [500.0], [80.0] * 100])
    ]
    table = markdown(samples, FACTS, records=7, rounds=2, source="x.json")
    assert "at least 200" in table
    assert "| micro-batch p50, ms | Millpond | millpond | 80.0 |" in table
    assert "| micro-batch p99, ms | Millpond | millpond | 80.0 |" in table


def test_a_figure_that_only_we_have_has_no_ratio() -> None:
    lake = Sample(
        cell="stream to the lake",
        broker="kafka",
        form="millpond",
        round=1,
        values={"records_per_s": 9.0},
    )
    table = markdown([lake], FACTS, records=7, rounds=1, source="x.json")
    assert "| the pipeline lake, records/s | Apache Kafka | millpond | 9.00 |  |" in table


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_document("new\n", page)
    assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("mine")
    with pytest.raises(SystemExit, match="no place for the result"):
        write_document("new", page)
    assert page.read_text() == "mine"
