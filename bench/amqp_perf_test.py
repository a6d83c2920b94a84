"""Runs RabbitMQ's own load generator, perf-test, against either broker, and parses its output."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.support.processes.java_tools import jars

from bench.brokers import Broker
from bench.model import Values
from bench.raw_client import BenchmarkError

POM = Path(__file__).resolve().parent / "rabbitmq" / "pom.xml"
MAIN = "com.rabbitmq.perf.PerfTest"
VERSION = re.compile(r"perf-test-([\d.]+)\.jar")
# The time limit of a run that does not end by itself.
SPARE_SECONDS = 90.0
HEAP = ("-Xms256m", "-Xmx512m")

_TIME = re.compile(r"time: ([\d.]+)\s?s")
_RATE = re.compile(r"(sent|received|confirmed): ([\d.]+) msg/s")
_LATENCY = re.compile(r"(consumer|confirm) latency: ([\d/]+) (µs|ms|ns)")
_UNIT_US = {"ns": 1e-3, "µs": 1.0, "ms": 1e3}


class Interval(NamedTuple):
    """One line of the tool's output: what happened between two moments, in seconds from the start."""

    begin_s: float
    end_s: float
    rates: dict[str, float]
    # By the kind of latency: median and 99th percentile.
    latencies_us: dict[str, tuple[float, float]]


def missing_reason() -> str | None:
    """Return why perf-test cannot be run here, or None."""
    if shutil.which("java") is None:
        return "perf-test needs java on the path"
    if not (jars(POM, "rabbitmq-perf-test") / ".complete").exists():
        return "perf-test is missing (make interop-deps)"
    return None


def version() -> str:
    found = (VERSION.fullmatch(jar.name) for jar in jars(POM, "rabbitmq-perf-test").glob("*.jar"))
    return next((match[1] for match in found if match), "not installed")


def run(broker: Broker, *arguments: str, seconds: float, warmup_s: float = 1.0) -> Values:
    """Run perf-test for ``seconds``. Return rates and latencies after the warm-up."""
    output = _output(broker, *arguments, "-z", f"{seconds:.0f}", "-i", "1", seconds=seconds)
    return summed_up(parse(output), warmup_s=warmup_s)


def fill(broker: Broker, queue: str, *, count: int, size: int, exchange: str) -> None:
    """Put ``count`` persistent messages into a queue, without waiting for confirms."""
    _output(
        broker,
        *("--predeclared", "-e", exchange, "-k", queue, "-u", queue, "-x", "1", "-y", "0"),
        *("-s", str(size), "-f", "persistent", "-C", str(count)),
        seconds=240.0,
    )


def _output(broker: Broker, *arguments: str, seconds: float) -> str:
    classpath = f"{jars(POM, 'rabbitmq-perf-test')}/*"
    try:
        done = subprocess.run(
            [
                *("java", *HEAP, "-cp", classpath, MAIN),
                *("--uri", f"amqp://guest:guest@127.0.0.1:{broker.port}", *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=seconds + SPARE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"perf-test did not end: {str(error.stdout)[-300:]}") from error
    if done.returncode != 0:
        raise BenchmarkError(f"perf-test: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def parse(text: str) -> list[Interval]:
    intervals: list[Interval] = []
    begin = 0.0
    for line in text.splitlines():
        time = _TIME.search(line)
        if time is None:
            continue
        latencies = {}
        for who, figures, unit in _LATENCY.findall(line):
            _least, middle, _p75, _p95, p99 = (
                float(figure) * _UNIT_US[unit] for figure in figures.split("/")
            )
            latencies[who] = middle, p99
        rates = {what: float(rate) for what, rate in _RATE.findall(line)}
        intervals.append(Interval(begin, float(time[1]), rates, latencies))
        begin = float(time[1])
    return intervals


def summed_up(intervals: list[Interval], *, warmup_s: float) -> Values:
    """Sum up the intervals after the warm-up; of latencies the median second."""
    counted = [one for one in intervals if one.begin_s >= warmup_s * 0.9]
    if not counted:
        raise BenchmarkError("perf-test printed too few lines")
    seconds = sum(one.end_s - one.begin_s for one in counted)
    values: Values = {}
    for what in ("sent", "received", "confirmed"):
        if any(what in one.rates for one in counted):
            moved = sum(one.rates.get(what, 0.0) * (one.end_s - one.begin_s) for one in counted)
            values[f"{what}_per_s"] = moved / seconds
    everything = max(
        sum(one.rates.get(what, 0.0) * (one.end_s - one.begin_s) for one in intervals)
        for what in ("sent", "received")
    )
    values["messages"] = everything
    for who in ("consumer", "confirm"):
        # A second without any is a line of zeros.
        seen = [one.latencies_us[who] for one in counted if one.latencies_us.get(who, (0, 0))[1]]
        if seen:
            values[f"{who}_p50_us"] = median(p50 for p50, _p99 in seen)
            values[f"{who}_p99_us"] = median(p99 for _p50, p99 in seen)
    return values
