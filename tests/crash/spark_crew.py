"""Who takes part in the stories of Spark and death: a producer, drivers, and what their checkpoints say."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from tests.support.kafka.committed import read_committed, read_uncommitted, values
from tests.support.processes.broker_process import ROOT
from tests.support.processes.ports import wait_until

QUERIES = ("copy", "lake")
ALLOWANCE = 100_000
# Patience with a machine that does other things too.
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

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Until this is so; a driver that fails meanwhile is told of."""

        def is_ready() -> bool:
            assert self.is_alive(), f"the driver has ended:\n{self.last_words()}"
            return ready()

        wait_until(is_ready, timeout_s=PROGRESS_S, what=what, poll_s=0.002)

    def kill_when(self, moment: Callable[[], bool], what: str) -> None:
        """Kill it in such a moment: it is stopped there, and let go on if the moment was over before that."""

        def is_caught() -> bool:
            if not moment():
                return False
            os.killpg(self.process.pid, signal.SIGSTOP)
            wait_until(
                self._is_stopped, timeout_s=PROGRESS_S, what="the driver stops", poll_s=0.002
            )
            if moment():
                return True
            os.killpg(self.process.pid, signal.SIGCONT)
            return False

        self.wait_until(is_caught, f"the middle of {what}")
        self.kill()
        self._assert_killed()

    def _is_stopped(self) -> bool:
        """Whether Python and Java stand still (``T``); a process' name may have brackets in it."""
        stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()]
        states = [stat.rpartition(")")[2].split()[:3] for stat in stats]
        group = [state for state, _parent, group in states if group == str(self.process.pid)]
        return bool(group) and set(group) <= {"T", "Z"}

    def wait_killed(self) -> None:
        """Until it has died by its own hand, which is SIGKILL and no failure."""
        self.process.wait(PROGRESS_S)
        self._assert_killed()
        self.kill()

    def _assert_killed(self) -> None:
        code = self.process.returncode
        assert code == -signal.SIGKILL, f"ended with {code}, not by SIGKILL:\n{self.last_words()}"

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


class Checkpoint:
    """How far the queries are, by Spark's own logs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "checkpoint"
        self._lake = directory / "lake"

    def last(self, query: str, log: str) -> int:
        place = self._directory / query / log
        numbers = [int(one.name) for one in place.glob("[0-9]*")] if place.exists() else []
        return max(numbers, default=-1)

    def batches(self) -> dict[str, int]:
        return {query: self.last(query, "commits") for query in QUERIES}

    def is_mid_batch(self, query: str) -> bool:
        return self.last(query, "offsets") > self.last(query, "commits")

    def are_all_mid_batch(self) -> bool:
        return all(map(self.is_mid_batch, QUERIES))

    def is_compacting(self) -> bool:
        """Whether a directory of the lake is being written anew out of sight."""
        return any(self._lake.with_name(".lake.work").glob("compact-*"))

    def compacted_files(self) -> list[Path]:
        """Files of the lake that were made of smaller ones."""
        return list(self._lake.rglob("compact-*.parquet"))

    def wait_for_progress(self, driver: Driver, batches: int = 2) -> None:
        """Until both queries have committed some more batches; a driver that fails meanwhile is told of."""
        before = self.batches()

        def moved() -> bool:
            return all(self.batches()[query] >= count + batches for query, count in before.items())

        driver.wait_until(moved, f"both queries go on from {before}")


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


def numbered(count: int) -> list[bytes]:
    """The values of so many records, in order."""
    return [b"%09d" % number for number in range(count)]


def in_topic(bootstrap: str) -> list[bytes]:
    """What a consumer of committed data finds, which is not ours."""
    return values(read_committed(bootstrap, "out"))


def in_lake(directory: Path) -> list[bytes]:
    """What a plain reader of Parquet files finds."""
    import pyarrow.dataset as ds

    files = sorted((directory / "lake").rglob("*.parquet"))
    if not files:
        return []
    kept = ds.dataset([str(one) for one in files], format="parquet").to_table(columns=["value"])
    found: list[bytes] = kept.column("value").to_pylist()
    return found


def judge(bootstrap: str, directory: Path, sent: int) -> None:
    """Sent = read = distinct, in the topic and in the lake."""
    copied, lake = in_topic(bootstrap), in_lake(directory)
    everything = len(read_uncommitted(bootstrap, "out"))
    print(
        f"sent {sent}; topic: {len(copied)} committed, {len(set(copied))} distinct, {everything} with"
        f" aborted ones; lake: {len(lake)} rows, {len(set(lake))} distinct"
    )
    assert sorted(copied) == numbered(sent), difference(copied, sent)
    assert sorted(lake) == numbered(sent), difference(lake, sent)


def difference(found: list[bytes], sent: int) -> str:
    """What is missing and what is there twice."""
    counts = Counter(found)
    lost = [number for number in range(sent) if b"%09d" % number not in counts]
    doubled = [text for text, count in counts.items() if count > 1]
    return f"{len(lost)} lost: {lost[:10]}; {len(doubled)} doubled: {doubled[:10]}"
