"""Spark drivers and the broker are killed again and again while records go to a topic and to a lake.

Afterwards sent = read = distinct, in the topic for a consumer of committed data that is not ours, and in the
lake for a plain reader of Parquet files.
"""

import faulthandler
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer

from millpond.client import BlockingClient
from tests.spark.conftest import missing_reason
from tests.support.broker_process import ROOT, MillpondProcess
from tests.support.committed import read_committed, read_uncommitted, values
from tests.support.ports import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(900)]

# Five drivers die by SIGKILL: these at any moment, those between two commits of one batch.
KILLS_AT_RANDOM = 3
DEATHS_IN_COMMIT = 2
BROKER_KILLS_BY_DRIVER = 2
ALLOWANCE = 100_000
# Patience with a machine that does other things too; on one that does not the whole takes two minutes.
START_S = 180
DRAIN_S = 240
PROGRESS_S = 120


class Feeder:
    """A producer that goes on through everything and numbers its records."""

    def __init__(self, bootstrap: str) -> None:
        self.sent = 0
        self._failed: list[object] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.max.ms": 100,
                "message.timeout.ms": 600_000,
                "log_level": 0,
                "on_delivery": self._on_delivery,
            }
        )
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> "Feeder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more; all that was sent is in the topic when this returns."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self._failed == []

    def _feed(self) -> None:
        # Several hundred a second, until there are many; then a few, so that there is always something new.
        while not self._stop.wait(0.02):
            for _ in range(12 if self.sent < ALLOWANCE else 1):
                text = b"%09d" % self.sent
                self._producer.produce("in", text, key=text)
                self.sent += 1
            self._producer.poll(0)

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(error)


class Driver:
    """A driver process, warmed up and waiting for its order."""

    def __init__(self, bootstrap: str, directory: Path, number: int) -> None:
        self.errors = directory / f"driver-{number}.err"
        source = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.spark_driver", bootstrap, str(directory)],
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, source))},
            )

    def order(self, what: str) -> None:
        """Set the driver to work."""
        self._expect("READY")
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        self._expect("STARTED")

    def wait_drained(self) -> None:
        self._expect("DRAINED", DRAIN_S)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Python and Java at once, as a machine dies."""
        if self.is_alive():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def last_words(self) -> str:
        return self.errors.read_text(errors="replace")[-4000:]

    def _expect(self, word: str, seconds: float = START_S) -> None:
        assert self.process.stdout is not None
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            said = self.process.stdout.readline().strip()
        finally:
            timer.cancel()
        assert said == word, f"{word} was expected, not {said!r}\n{self.last_words()}"


@dataclass
class Toll:
    """What was done to them."""

    kills_at_random: int = 0
    deaths_in_commit: int = 0
    broker_kills: int = 0
    mid_batch: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.perf_counter, repr=False)

    def seconds(self) -> float:
        """Since the story began."""
        return time.perf_counter() - self.began


class Checkpoint:
    """How far the queries are, by Spark's own logs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "checkpoint"

    def last(self, query: str, log: str) -> int:
        place = self._directory / query / log
        numbers = [int(one.name) for one in place.glob("[0-9]*")] if place.exists() else []
        return max(numbers, default=-1)

    def batches(self) -> dict[str, int]:
        return {query: self.last(query, "commits") for query in ("copy", "lake")}

    def is_mid_batch(self, query: str) -> bool:
        return self.last(query, "offsets") > self.last(query, "commits")

    def wait_for_progress(self, driver: Driver, batches: int = 2) -> None:
        """Until both queries have committed some more batches; a driver that fails meanwhile is told of."""
        before = self.batches()

        def moved() -> bool:
            assert driver.is_alive(), f"the driver has ended:\n{driver.last_words()}"
            return all(self.batches()[query] >= count + batches for query, count in before.items())

        wait_until(moved, timeout_s=PROGRESS_S, what=f"both queries go on from {before}")


class Supply:
    """One driver after the other. The next can warm up while one works; two that start are too much."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._made: list[Driver] = []
        self._warm: Driver | None = None

    def warm_up(self) -> None:
        if self._warm is None:
            self._warm = Driver(self._bootstrap, self._directory, len(self._made))
            self._made.append(self._warm)

    def take(self) -> Driver:
        self.warm_up()
        taken, self._warm = self._warm, None
        assert taken is not None
        return taken

    def __enter__(self) -> "Supply":
        return self

    def __exit__(self, *_: object) -> None:
        for driver in self._made:
            driver.kill()


def test_nothing_is_lost_or_doubled_whoever_is_killed(tmp_path: Path) -> None:
    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)
    faulthandler.cancel_dump_traceback_later()  # it is long, and not because it hangs
    seed = int(os.environ.get("MILLPOND_CRASH_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CRASH_SEED={seed}")
    chance = random.Random(seed)
    toll = Toll()
    checkpoint = Checkpoint(tmp_path)
    with MillpondProcess(tmp_path / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topic("in", partitions=4)
            client.create_topic("out", partitions=3)
        with Feeder(broker.bootstrap) as feeder, Supply(broker.bootstrap, tmp_path) as supply:
            orders = ["run"] * KILLS_AT_RANDOM
            orders[1:1] = ["half-way"] * DEATHS_IN_COMMIT
            for order in orders:
                torment(supply, order, broker, checkpoint, toll, chance)
            feeder.stop()
            print(f"drain at {toll.seconds():.0f} s", flush=True)
            last = supply.take()
            last.order("drain")
            last.wait_drained()
        judge(broker, tmp_path, feeder.sent, toll)


def torment(
    supply: Supply,
    order: str,
    broker: MillpondProcess,
    checkpoint: Checkpoint,
    toll: Toll,
    chance: random.Random,
) -> None:
    """Let a driver work, kill the broker under it, let it go on, and kill it too."""
    print(f"{order} at {toll.seconds():.0f} s: batches {checkpoint.batches()}, {toll}", flush=True)
    driver = supply.take()
    driver.order(order)
    if order == "half-way":
        supply.warm_up()
        driver.process.wait(PROGRESS_S)
        toll.deaths_in_commit += 1
        driver.kill()
        return
    checkpoint.wait_for_progress(driver)
    supply.warm_up()
    for _ in range(BROKER_KILLS_BY_DRIVER):
        threading.Event().wait(chance.uniform(0.0, 0.4))
        broker.restart()
        toll.broker_kills += 1
        checkpoint.wait_for_progress(driver, batches=1)
    threading.Event().wait(chance.uniform(0.0, 0.4))
    driver.kill()
    toll.kills_at_random += 1
    toll.mid_batch.update(query for query in ("copy", "lake") if checkpoint.is_mid_batch(query))


def judge(broker: MillpondProcess, directory: Path, sent: int, toll: Toll) -> None:
    import pyarrow.dataset as ds

    expected = [b"%09d" % number for number in range(sent)]
    copied = values(read_committed(broker.bootstrap, "out"))
    everything = len(read_uncommitted(broker.bootstrap, "out"))
    files = sorted((directory / "lake").rglob("*.parquet"))
    kept = ds.dataset([str(one) for one in files], format="parquet").to_table(columns=["value"])
    lake = kept.column("value").to_pylist()
    print(
        f"{toll.seconds():.0f} s: {toll.kills_at_random + toll.deaths_in_commit} drivers killed,"
        f" {toll.deaths_in_commit} of them"
        f" between two commits, the others in the middle of a batch: {dict(toll.mid_batch)};"
        f" the broker killed {toll.broker_kills} times"
    )
    print(
        f"sent {sent}; topic: {len(copied)} committed, {len(set(copied))} distinct, {everything} with"
        f" aborted ones; lake: {len(lake)} rows, {len(set(lake))} distinct, {len(files)} files"
    )
    assert toll.kills_at_random + toll.deaths_in_commit >= 5
    assert toll.broker_kills >= 5
    assert sorted(copied) == expected, difference(copied, sent)
    assert sorted(lake) == expected, difference(lake, sent)


def difference(found: list[bytes], sent: int) -> str:
    counts = Counter(found)
    lost = [number for number in range(sent) if b"%09d" % number not in counts]
    doubled = [text for text, count in counts.items() if count > 1]
    return f"{len(lost)} lost: {lost[:10]}; {len(doubled)} doubled: {doubled[:10]}"
