"""The benchmark of clusters goes on when something cannot be measured, and says what."""

from pathlib import Path
from typing import Any

import pytest
from bench import cluster
from bench.brokers import KAFKA, MILLPOND
from bench.cluster import QUICK, Run, markdown
from rich.console import Console

FACTS = {"cpu": "a CPU", "cores": 2, "python": "3.11", "java": "Java 17", "commit": "abc"}


class Trio:
    """A cluster that is never started."""

    bootstrap = "nowhere:1"

    def __init__(self, system: str) -> None:
        self.system = system
        self.nodes: dict[int, Any] = {}

    def __enter__(self) -> "Trio":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_cell_that_fails_is_named_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mended: list[str] = []

    def breaks(trio: Trio, topic: str) -> dict[str, float]:
        if trio.system == KAFKA:
            raise RuntimeError("node 2 ended with 1\nand many words")
        return {"seconds": 1.5}

    def works(trio: Trio, topic: str) -> dict[str, float]:
        return {"msgs_per_s": 10.0 if trio.system == MILLPOND else 5.0}

    monkeypatch.setattr(cluster, "make", lambda system, directory, nodes: Trio(system))
    monkeypatch.setattr(cluster, "wait_in_sync", lambda bootstrap, timeout_s: None)
    monkeypatch.setattr(cluster, "mend", lambda trio: mended.append(trio.system))
    monkeypatch.setattr(cluster, "produce", lambda some, topic, **_: {"mb_per_s": 3.0})
    monkeypatch.setattr(
        cluster,
        "cells",
        lambda scale: [("leader fail-over", breaks, 1), ("produce 100 B", works, 1)],
    )
    run = Run(QUICK, Console(quiet=True))
    run.measure([MILLPOND, KAFKA], tmp_path)
    assert [(one.cell, one.system, one.reason) for one in run.failures] == [
        ("leader fail-over", KAFKA, "RuntimeError: node 2 ended with 1")
    ]
    assert mended == [KAFKA]
    table = markdown(run.samples, run.failures, FACTS, source="s.json", scale=QUICK)
    assert "| produce, 3 replicas, acks=all, 100 B, msgs/s | 10.0 | 5.00 | **2.00** |" in table
    assert "| leader killed: last to next acknowledgement, s | 1.50 | - |  |" in table
    assert "| produce, 1 replica, 3 node(s), MB/s | 3.00 | 3.00 | **1.00** |" in table
    assert (
        f"Not measured: leader fail-over of {KAFKA} (RuntimeError: node 2 ended with 1)." in table
    )


def test_further_rounds_and_cells_wait_for_another_day_when_time_is_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cluster, "BUDGET_S", 0.0)
    monkeypatch.setattr(cluster, "make", lambda system, directory, nodes: Trio(system))
    monkeypatch.setattr(cluster, "wait_in_sync", lambda bootstrap, timeout_s: None)
    monkeypatch.setattr(cluster, "cells", lambda scale: [("memory", lambda trio, topic: {}, 3)])
    run = Run(QUICK, Console(quiet=True))
    run.measure([MILLPOND], tmp_path)
    assert run.samples == []
    assert {one.reason for one in run.failures} == {"out of time"}
    assert [one.cell for one in run.failures] == ["memory", *(f"scaling {n}" for n in (1, 2, 3))]
