"""The parts of a benchmark: cells, samples and their summary. No input or output here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.brokers import KAFKA, Broker

Values = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a cell that the report shows."""

    key: str
    label: str
    unit: str
    higher_is_better: bool = True
    target: float | None = None  # Millpond's figure divided by its peer's (ARCHITECTURE §8)
    charted: bool = False
    of_itself: bool = False  # the target is for Millpond's own figure, not for a ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload. `prepare` runs once for each system, `run` once for each system and round."""

    name: str
    section: str
    title: str
    metrics: tuple[Metric, ...]
    run: Callable[[Broker], Values]
    prepare: Callable[[Broker], Values] | None = None
    seconds: float = 5.0  # about how long one run takes, for progress and the time budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of everything: the full run and --quick differ only here."""

    name: str
    messages: Mapping[int, int]  # record size to how many of them one librdkafka run moves
    java_messages: Mapping[int, int]
    partitions: tuple[int, ...]
    acks: tuple[str, ...]
    round_trips: int
    round_trips_warmup: int
    topics: tuple[int, ...]
    log_mb: tuple[int, ...]
    random_reads: int
    connections: tuple[int, ...]
    minutes_max: float
    # Whether memory and growth are measured on separate brokers; else all cells share one pair.
    fresh_brokers: bool = True


FULL = Scale(
    name="full",
    messages={100: 2_000_000, 1024: 300_000},
    java_messages={100: 800_000, 1024: 200_000},
    partitions=(1, 12),
    acks=("1", "all"),
    round_trips=5_000,
    round_trips_warmup=2_000,
    topics=(1, 500, 2_000),
    log_mb=(1, 100, 1_000, 10_000),
    random_reads=500,
    connections=(1, 100, 1_000),
    minutes_max=25.0,
)
QUICK = Scale(
    name="quick",
    messages={100: 500_000, 1024: 100_000},
    java_messages={1024: 80_000},
    partitions=(1,),
    acks=("1",),
    round_trips=2_000,
    round_trips_warmup=1_000,
    topics=(1, 200),
    log_mb=(1, 256),
    random_reads=200,
    connections=(1, 200),
    minutes_max=4.0,
    fresh_brokers=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run of one cell against one system. Round 0 is what `prepare` measured."""

    cell: str
    system: str
    round: int
    values: Values
    # Share of the machine that neither the broker nor the client used during the run.
    others_cpu: float = 0.0
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class Results:
    """The results of one run of the benchmark; written to JSON."""

    scale: str
    rounds: int
    systems: list[str]
    machine: dict[str, Any]
    samples: list[Sample] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peer: str = KAFKA

    def of(self, cell: str, system: str, key: str) -> list[float]:
        return [
            sample.values[key]
            for sample in self.samples
            if sample.cell == cell and sample.system == system and key in sample.values
        ]

    def error_of(self, cell: str, system: str) -> str | None:
        for sample in self.samples:
            if sample.cell == cell and sample.system == system and sample.error:
                return sample.error
        return None

    def ratio(self, cell: str, key: str, ours: str, theirs: str) -> Ratio | None:
        mine, peer = self.of(cell, ours, key), self.of(cell, theirs, key)
        if not mine or not peer or not median(peer):
            return None
        pairs = [a / b for a, b in zip(mine, peer, strict=False) if b]
        return Ratio(value=median(mine) / median(peer), lowest=min(pairs), highest=max(pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of the medians, and the lowest and highest ratio of a single round."""

    value: float
    lowest: float
    highest: float


def percentile(ordered: list[float], share: float) -> float:
    """Return the value that this share of an ordered, non-empty list does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
