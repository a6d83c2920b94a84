"""Runs a broker under a profiler while a load is on it.

    python -m bench.profile_broker produce              librdkafka producer, 1 KB records
    python -m bench.profile_broker fetch --size 100     librdkafka consumer
    python -m bench.profile_broker round-trip           one small request at a time
    python -m bench.profile_broker produce --mode cprofile

`sample` (the default) interrupts the broker each millisecond of CPU time and records the stack: little
overhead, so the shares are true, but time inside C shows at the Python line that called it. `cprofile` counts
every call: exact numbers of calls, but it makes small functions look expensive.
"""

from __future__ import annotations

import argparse
import atexit
import os
import pstats
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from tests.support.processes.broker_process import MillpondProcess

from bench.latency import round_trips
from bench.machine import cpu_seconds_of, memory_of
from bench.raw_client import RawClient
from bench.throughput import rdkafka

REPOSITORY = Path(__file__).resolve().parents[1]
INTERVAL_SECONDS = 0.001
SAMPLES_VARIABLE = "MILLPOND_BENCH_SAMPLES"
TOPIC = "profiled"


class ProfiledProcess(MillpondProcess):
    """The same broker, started through a profiler."""

    def __init__(self, directory: Path, mode: str) -> None:
        super().__init__(directory)
        self.mode = mode
        self.samples = directory / "samples"

    def launch(self) -> None:
        settings = self._write_settings()
        profiler = {
            "cprofile": ["-m", "cProfile", "-o", str(self.samples), "-m", "millpond"],
            "sample": ["-m", "bench.profile_broker", "--inside"],
        }[self.mode]
        environment = os.environ | {
            "PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{REPOSITORY}",
            SAMPLES_VARIABLE: str(self.samples),
        }
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *profiler, "up", "--config", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )


def run_inside() -> None:
    """Run the broker with a timer that records the stack. Called in the profiled process."""
    lines: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    started = time.perf_counter()

    def note(_number: int, frame: FrameType | None) -> None:
        if time.perf_counter() - started < 1.0:
            return  # start-up is not profiled
        seen: set[str] = set()
        innermost = True
        while frame is not None:
            code = frame.f_code
            name = f"{_short(code.co_filename)}:{code.co_name}"
            if innermost:
                lines[f"{name}:{frame.f_lineno}"] += 1
                innermost = False
            if name not in seen:
                seen.add(name)
                totals[name] += 1
            frame = frame.f_back

    def write() -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        rows = [f"own\t{count}\t{name}" for name, count in lines.most_common(60)]
        rows += [f"total\t{count}\t{name}" for name, count in totals.most_common(60)]
        rows.append(f"all\t{lines.total()}\t-")
        Path(os.environ[SAMPLES_VARIABLE]).write_text("\n".join(rows))

    atexit.register(write)
    signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
    from millpond.cli import main as millpond

    millpond([argument for argument in sys.argv[1:] if argument != "--inside"])


def _short(path: str) -> str:
    for mark in ("/src/millpond/", "/site-packages/", "/lib/python"):
        if mark in path:
            return path.rpartition(mark)[2]
    return path


def load(broker: MillpondProcess, options: argparse.Namespace) -> None:
    bootstrap = broker.bootstrap
    common = ("--count", str(options.count), "--size", str(options.size))
    if options.verb == "round-trip":
        with RawClient("127.0.0.1", broker.port) as client:
            client.create_topics([TOPIC])
            cpu = cpu_seconds_of(broker.pid)
            print(round_trips([client], [TOPIC], options.size, count=20_000, warmup=100))
            print(f"broker CPU: {(cpu_seconds_of(broker.pid) - cpu) / 20_100 * 1e6:.0f} µs each")
        return
    with RawClient("127.0.0.1", broker.port) as client:
        client.create_topics([TOPIC], partitions=options.partitions)
    verbs = ["produce"] if options.verb == "produce" else ["produce", "consume", "consume"]
    for verb in verbs:
        cpu = cpu_seconds_of(broker.pid)
        more = ("--partitions", str(options.partitions)) if verb == "consume" else ()
        values = rdkafka(verb, bootstrap, TOPIC, *common, *more)
        used = cpu_seconds_of(broker.pid) - cpu
        gigabytes = options.count * options.size / 1e9
        print(
            f"{verb}: {values['mb_per_s']:.0f} MB/s, broker CPU {used / gigabytes:.2f} s/GB, "
            f"client CPU {values['client_cpu_s'] / gigabytes:.2f} s/GB"
        )
    memory = memory_of(broker.pid)
    print(f"resident {memory.rss_mb:.0f} MB, peak {memory.peak_mb:.0f} MB")


def show(broker: ProfiledProcess, rows: int) -> None:
    if broker.mode == "cprofile":
        stats = pstats.Stats(str(broker.samples))
        stats.strip_dirs().sort_stats("tottime").print_stats(rows)
        return
    parsed = [line.split("\t") for line in broker.samples.read_text().splitlines()]
    everything = next(int(count) for kind, count, _ in parsed if kind == "all") or 1
    for kind, title in (("own", "innermost line"), ("total", "anywhere in the stack")):
        print(f"\n{title} ({everything} samples)")
        for row in [row for row in parsed if row[0] == kind][:rows]:
            print(f"{100 * int(row[1]) / everything:6.1f} %  {row[2]}")


def main() -> None:
    if "--inside" in sys.argv:
        run_inside()
        return
    parser = argparse.ArgumentParser(prog="python -m bench.profile_broker")
    parser.add_argument("verb", choices=("produce", "fetch", "round-trip"))
    parser.add_argument("--mode", choices=("sample", "cprofile"), default="sample")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--rows", type=int, default=25)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millpond-profile-") as directory:
        broker = ProfiledProcess(Path(directory), options.mode)
        broker.launch()
        try:
            broker.wait_ready()
            load(broker, options)
        finally:
            broker.stop()
        show(broker, options.rows)


if __name__ == "__main__":
    main()
