"""The benchmark of faults: who is struck, what counts as a pause, and what makes a table complete."""

import pytest
from bench import faults
from bench.brokers import KAFKA, MILLPOND
from bench.faults import AMQP, FAULTS, Sample, Watched, is_complete, markdown, struck_by
from bench.raw_client import BenchmarkError

FACTS: dict[str, object] = {
    "cpu": "a machine", "cores": 2, "python": "3", "java": "java", "commit": "abc", "load": [1.0],
}  # fmt: skip


@pytest.mark.parametrize("controller", [1, 2, 3])
def test_a_fault_strikes_whom_it_names(controller: int) -> None:
    for fault in FAULTS:
        struck = struck_by(fault, controller)
        assert (controller in struck) == fault.controller
        assert len(set(struck)) == fault.others + fault.controller < 3


def test_the_longest_pause_is_that_of_the_worst_row_and_lasts_to_the_end() -> None:
    watched = Watched(2)
    watched.moments = [[0.0, 0.9, 1.5, 3.0, 9.9], [0.5, 5.0, 5.1]]
    assert watched.longest_pause(1.0, 10.0) == pytest.approx(6.9)
    watched.moments = [[0.0, 0.9, 4.0, 9.9]]
    assert watched.longest_pause(1.0, 10.0) == pytest.approx(5.9)


def test_a_client_that_never_worked_measures_nothing() -> None:
    with pytest.raises(BenchmarkError):
        Watched(1).longest_pause(1.0, 2.0)


def test_only_all_faults_at_both_systems_make_a_table_for_the_document() -> None:
    samples = [
        Sample(fault=fault.name, system=system, seconds=seconds)
        for fault in FAULTS
        for system, seconds in ((MILLPOND, 3.0), (KAFKA, 9.0), (AMQP, 3.5))
    ]
    assert is_complete(samples)
    assert not is_complete(samples[3:])
    table = markdown(samples, FACTS, source="x.json")
    assert "| a leader killed | 3.0 | 9.0 | **0.33** | 3.5 |" in table


def test_a_quick_run_has_faults_of_each_kind() -> None:
    chosen = [one for one in FAULTS if any(name in one.name for name in faults.QUICK)]
    assert {one.strike for one in chosen} == {faults.kill, faults.isolate, faults.part}
