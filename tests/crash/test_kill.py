"""A writing broker is killed again and again; nothing that it acknowledged may be lost.

Each round lets two writers write for a random moment, kills the process with SIGKILL (sometimes while it is
starting or stopping), sometimes does to its files what a crash can do, starts it again and reads everything
back with librdkafka. ``MILLPOND_CRASH_SEED`` repeats a run, ``MILLPOND_CRASH_KILLS`` makes it longer.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.damage import DAMAGES, lose_unsynced_tail, spoil_indexes
from tests.crash.reading import judge, judge_once_and_in_order, read_back, read_keyed
from tests.crash.writers import Writer, idempotent, plain, write_all, writing
from tests.support.processes import java_tools
from tests.support.processes.broker_process import ROOT, MillpondProcess
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("MILLPOND_CRASH_KILLS", "50"))
FLUSHED_KILLS = max(1, KILLS // 4)
COMPACTED_KILLS = max(1, KILLS // 6)
SEGMENT_BYTES = 1024 * 1024
# Reading everything back each time would take longer and longer: the tail each time, all of it each tenth.
TAIL_RECORDS = 2000
TIMEOUT_S = 60


@pytest.fixture
def chance() -> random.Random:
    """The dice of a run; the seed is printed with any failure."""
    seed = int(os.environ.get("MILLPOND_CRASH_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CRASH_SEED={seed}")
    return random.Random(seed)


@pytest.mark.timeout(840)
def test_nothing_acknowledged_is_lost(tmp_path: Path, chance: random.Random) -> None:
    broker = MillpondProcess(tmp_path).start()
    with running(broker):
        create(broker, "story", partitions=2, config={"segment.bytes": str(SEGMENT_BYTES)})
        safe = idempotent(broker.bootstrap, "story", 0)
        quick = plain(broker.bootstrap, "story", 1)
        ledger = Ledger(broker)
        with writing(safe, quick) as stop:
            for kill in range(1, KILLS + 1):
                let_write(safe, quick, chance)
                how = kill_somehow(broker, chance)
                for directory in sorted(broker.data.glob("story-*")):
                    if chance.random() < 0.5:
                        how += "; " + chance.choice(DAMAGES)(directory, chance)
                print(f"kill {kill}: {how}")
                broker.start()
                whole = kill % 10 == 0
                judge_writers(broker, (safe, quick), whole=whole)
                ledger.judge_and_go_on(kill)
            stop()
        judge_writers(broker, (safe, quick), whole=True)
        assert safe.fatal is None, safe.fatal
        assert safe.given_up == []
        judge_once_and_in_order(safe, read_back(broker.bootstrap, "story", 0))
        assert len(safe.acknowledged) == safe.sent
        print(f"{len(safe.acknowledged)} and {len(quick.acknowledged)} records acknowledged")
        assert broker.stop() == 0
    verify_files(broker.data)


@pytest.mark.timeout(600)
def test_a_topic_that_syncs_first_survives_a_lost_page_cache(
    tmp_path: Path, chance: random.Random
) -> None:
    """With flush.policy=group an acknowledged record is on the disk: whatever came later may be cut off."""
    broker = MillpondProcess(tmp_path).start()
    with running(broker):
        create(broker, "synced", partitions=2, config={"flush.policy": "group"})
        safe = idempotent(broker.bootstrap, "synced", 0)
        quick = plain(broker.bootstrap, "synced", 1)
        with writing(safe, quick) as stop:
            for kill in range(1, FLUSHED_KILLS + 1):
                let_write(safe, quick, chance)
                kill_and_settle(broker, (safe, quick))
                for writer in (safe, quick):
                    upto = max(writer.promised(), default=-1)
                    directory = broker.data / f"synced-{writer.partition}"
                    print(f"kill {kill}: {lose_unsynced_tail(directory, upto, chance)}")
                broker.start()
                judge_writers(broker, (safe, quick), whole=True)
            stop()
        assert safe.fatal is None, safe.fatal
        assert safe.given_up == []
        judge_once_and_in_order(safe, read_back(broker.bootstrap, "synced", 0))
        assert broker.stop() == 0
    verify_files(broker.data)


@pytest.mark.timeout(600)
def test_compaction_that_is_killed_keeps_the_latest_of_every_key(
    tmp_path: Path, chance: random.Random
) -> None:
    broker = MillpondProcess(tmp_path, properties={"log.cleaner.backoff.ms": "100"}).start()
    with running(broker):
        create(
            broker,
            "compacted",
            partitions=1,
            config={
                "cleanup.policy": "compact",
                "segment.ms": "150",
                "min.cleanable.dirty.ratio": "0.01",
            },
        )
        latest: dict[bytes, bytes] = {}
        number = 0
        for kill in range(1, COMPACTED_KILLS + 1):
            deadline = time.perf_counter() + chance.uniform(0.4, 1.2)
            while time.perf_counter() < deadline:
                keyed = [
                    (b"key %d" % chance.randrange(50), b"%d " % n + b"x" * 200)
                    for n in range(number, number + 100)
                ]
                number += 100
                latest.update(write_all(broker.bootstrap, "compacted", keyed))
            broker.kill()
            if chance.random() < 0.5:
                print(spoil_indexes(broker.data / "compacted-0", chance))
            broker.start()
            stored = read_keyed(broker.bootstrap, "compacted")
            wrong = {key for key, value in latest.items() if stored.get(key) != value}
            assert not wrong, f"kill {kill}: not the latest: {sorted(wrong)[:5]}"
        # That it was compacted at all: a record now and then closes segments, until what is left is small.
        directory = broker.data / "compacted-0"

        def is_compacted() -> bool:
            write_all(broker.bootstrap, "compacted", [(b"key 0", b"the end")])
            try:
                left = [path.stat().st_size for path in directory.glob("*.log")]
            except FileNotFoundError:  # replaced at this very moment
                return False
            return sum(left) < number * 200 / 2

        wait_until(is_compacted, timeout_s=TIMEOUT_S, what="half of it is gone", poll_s=0.1)
        assert broker.stop() == 0
    verify_files(broker.data)


@pytest.mark.timeout(600)
def test_a_broker_that_is_asked_to_stop_under_load_stops_cleanly(
    tmp_path: Path, chance: random.Random
) -> None:
    broker = MillpondProcess(tmp_path).start()
    with running(broker):
        create(broker, "asked", partitions=2)
        safe = idempotent(broker.bootstrap, "asked", 0)
        quick = plain(broker.bootstrap, "asked", 1)
        with writing(safe, quick) as stop:
            for _ in range(3):
                let_write(safe, quick, chance)
                assert broker.stop() == 0
                assert (broker.data / ".kafka_cleanshutdown").exists()
                broker.start()
                judge_writers(broker, (safe, quick), whole=True)
            stop()
        judge_once_and_in_order(safe, read_back(broker.bootstrap, "asked", 0))


# Small words that the stories above use


class Ledger:
    """Topics made and deleted, offsets committed between the crashes: these promises are kept too."""

    def __init__(self, broker: MillpondProcess) -> None:
        self._broker = broker
        self._topics: set[str] = {"story"}
        self._deleted: set[str] = set()
        self._committed = -1

    def judge_and_go_on(self, kill: int) -> None:
        """Look for everything promised before, then make the next promises."""
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 0})
        there = set(admin.list_topics(timeout=TIMEOUT_S).topics)
        assert there >= self._topics, f"topics are gone: {self._topics - there}"
        assert not there & self._deleted, f"topics are back: {there & self._deleted}"
        consumer = Consumer(
            {"bootstrap.servers": self._broker.bootstrap, "group.id": "ledger", "log_level": 0}
        )
        try:
            place = TopicPartition("story", 0)
            (found,) = consumer.committed([place], timeout=TIMEOUT_S)
            assert max(found.offset, -1) == self._committed
            place.offset = kill
            consumer.commit(offsets=[place], asynchronous=False)
            self._committed = kill
        finally:
            consumer.close()
        if kill % 5 == 0:
            create(self._broker, f"made-{kill}", partitions=3)
            self._topics.add(f"made-{kill}")
        if kill % 10 == 0:
            name = f"made-{kill - 5}"
            admin.delete_topics([name], operation_timeout=10)[name].result(TIMEOUT_S)
            self._topics.remove(name)
            self._deleted.add(name)


@contextlib.contextmanager
def running(broker: MillpondProcess) -> Iterator[None]:
    """Whatever happens, the process does not outlive the test; its last words are printed."""
    try:
        yield
    except BaseException:
        print(broker.output[-6000:])
        raise
    finally:
        if broker.is_running():
            broker.kill()


def create(
    broker: MillpondProcess, topic: str, *, partitions: int, config: dict[str, str] | None = None
) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    new = NewTopic(topic, partitions, 1, config=config or {})
    admin.create_topics([new], operation_timeout=10)[topic].result(TIMEOUT_S)


def let_write(safe: Writer, quick: Writer, chance: random.Random) -> None:
    """Go on when both writers have had something acknowledged, and then after a random moment."""
    before = [len(writer.promised()) for writer in (safe, quick)]
    safe.allow()
    quick.allow()
    deadline = time.perf_counter() + TIMEOUT_S
    while [len(w.promised()) > had for w, had in zip((safe, quick), before, strict=True)] != [
        True
    ] * 2:
        assert safe.fatal is None, safe.fatal
        assert time.perf_counter() < deadline, "nothing is acknowledged any more"
        time.sleep(0.005)
    time.sleep(chance.uniform(0, 0.2))  # the random moment is what is tested


def kill_somehow(broker: MillpondProcess, chance: random.Random) -> str:
    """Kill the process: mostly while it works, sometimes while it starts or stops."""
    dice = chance.random()
    if dice < 0.7:
        broker.kill()
        return "while it worked"
    wait_s = chance.uniform(0, 0.4)
    if dice < 0.85:
        broker.kill()
        broker.launch()
        time.sleep(wait_s)
        broker.kill()
        return f"while it worked, and again {wait_s:.3f} s after its start"
    os.kill(broker.pid, signal.SIGTERM)
    time.sleep(wait_s / 4)
    broker.kill()
    return f"{wait_s / 4:.3f} s after it was asked to stop"


def kill_and_settle(broker: MillpondProcess, writers: tuple[Writer, ...]) -> None:
    """Kill, and wait for what was acknowledged but is still on its way to those who count it."""
    before = [writer.disconnects for writer in writers]
    broker.kill()
    wait_until(
        lambda: all(w.disconnects > had for w, had in zip(writers, before, strict=True)),
        timeout_s=TIMEOUT_S,
        what="every writer knows that the broker is gone",
    )


def judge_writers(broker: MillpondProcess, writers: tuple[Writer, ...], *, whole: bool) -> None:
    """Read back what every writer was promised, and judge."""
    for writer in writers:
        promised = writer.promised()
        start = 0 if whole else max(0, max(promised, default=0) - TAIL_RECORDS)
        stored = read_back(broker.bootstrap, writer.topic, writer.partition, start=start)
        judge(promised, writer, stored, start=start)


def verify_files(data: Path) -> None:
    """Our own verification and Kafka's dump tool find nothing wrong in any file."""
    ours = subprocess.run(
        [sys.executable, "-m", "millpond", "log", "verify", str(data)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=120,
        check=False,
    )
    assert ours.returncode == 0, ours.stdout + ours.stderr
    reason = java_tools.missing_reason()
    assert not (reason and os.environ.get("CI")), reason
    if reason is None:
        files = [
            str(path) for kind in ("log", "index", "timeindex") for path in data.glob(f"*/*.{kind}")
        ]
        files = [path for path in files if "__cluster_metadata" not in path]
        said = java_tools.run_tool(
            "kafka-dump-log", "--files", ",".join(files), timeout_s=120
        ).check()
        complaints = [
            line
            for line in (said.out + said.err).splitlines()
            if any(
                word in line.lower()
                for word in ("mismatch", "corrupt", "isvalid: false", "exception")
            )
        ]
        assert complaints == []
