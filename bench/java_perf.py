"""Runs Apache Kafka's own producer and consumer performance tools with default settings, and parses them."""

from __future__ import annotations

import re

from tests.support.processes.java_tools import run_tool

from bench.raw_client import BenchmarkError

# The options of kafka-run-class.sh for tools.
TOOL_HEAP_MB = 512
TOOL_SECONDS_MAX = 240.0

_PRODUCED = re.compile(
    r"^(\d+)( steady state)? records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), "
    r"([\d.]+) ms avg latency",
    re.MULTILINE,
)


def produce(
    bootstrap: str, topic: str, *, count: int, warmup: int, size: int, acks: str
) -> dict[str, float]:
    """Return the rates of the records after the warm-up, as the tool reports them."""
    result = run_tool(
        "kafka-producer-perf-test",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--num-records", str(count + warmup), "--warmup-records", str(warmup)),
        *("--record-size", str(size), "--throughput", "-1"),
        *("--command-property", f"acks={acks}"),
        heap_mb=TOOL_HEAP_MB,
        jvm_flags=(),
        timeout_s=TOOL_SECONDS_MAX,
    ).check()
    return parse_produced(result.out, size)


def parse_produced(text: str, size: int) -> dict[str, float]:
    steady = [match for match in _PRODUCED.finditer(text) if match[2]]
    if not steady:
        raise BenchmarkError(f"the producer tool printed no steady state: {text[-300:]}")
    rate = float(steady[-1][3])
    return {"msgs_per_s": rate, "mb_per_s": rate * size / 1e6}


def consume(bootstrap: str, topic: str, *, count: int, size: int) -> dict[str, float]:
    """Return the rates from the first assignment on: joining the group is reported separately."""
    result = run_tool(
        "kafka-consumer-perf-test",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count)),
        *("--timeout", "60000", "--hide-header"),
        heap_mb=TOOL_HEAP_MB,
        jvm_flags=(),
        timeout_s=TOOL_SECONDS_MAX,
    ).check()
    return parse_consumed(result.out, count=count, size=size)


def parse_consumed(text: str, *, count: int, size: int) -> dict[str, float]:
    rows = [line.split(", ") for line in text.splitlines() if line.count(", ") == 9]
    if not rows:
        raise BenchmarkError(f"the consumer tool printed no result: {text[-300:]}")
    row = rows[-1]
    got, rate = int(row[4]), float(row[9])
    if got < count:
        raise BenchmarkError(f"the consumer tool got {got} of {count} records")
    return {"msgs_per_s": rate, "mb_per_s": rate * size / 1e6, "join_s": float(row[6]) / 1e3}


def share_consume(
    bootstrap: str, topic: str, *, group: str, members: int, count: int, size: int
) -> dict[str, float]:
    """Return the rate of all members of a share group together, from the tool's start to its last record."""
    result = run_tool(
        "kafka-share-consumer-perf-test",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--num-records", str(count), "--threads", str(members)),
        *("--timeout", "60000", "--hide-header"),
        heap_mb=TOOL_HEAP_MB,
        jvm_flags=(),
        timeout_s=TOOL_SECONDS_MAX,
    ).check()
    return parse_share_consumed(result.out, count=count, size=size)


def parse_share_consumed(text: str, *, count: int, size: int) -> dict[str, float]:
    rows = [line.split(", ") for line in text.splitlines() if line.count(", ") == 6]
    if not rows:
        raise BenchmarkError(f"the share consumer tool printed no result: {text[-300:]}")
    got, rate = int(rows[-1][5]), float(rows[-1][4])
    if got < count:
        raise BenchmarkError(f"the share consumer tool got {got} of {count} records")
    return {"msgs_per_s": rate, "mb_per_s": rate * size / 1e6}
