"""A real Celery application with real workers: tasks, chords, retries, times, and a worker that dies."""

import contextlib
import datetime
import gc
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celery
import celery.exceptions
import kombu.pools
import pytest

from tests.interop.amqp.brokers import AmqpPeer
from tests.interop.amqp.celery_app import BROKER, RESULTS, make_app
from tests.interop.amqp.conftest import Alike
from tests.support.processes.broker_process import ROOT
from tests.support.processes.ports import free_port, wait_until

TIMEOUT_S = 60
# When tasks that wait for their time are due: never in a test, if nothing waits for them.
_COUNTDOWN_S = 3600


class Workers:
    """Worker processes, each the leader of a group of its own with its children."""

    def __init__(self, directory: Path, peer: AmqpPeer, results: str) -> None:
        self._directory = directory
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "C_FORCE_ROOT": "1",
            BROKER: peer.url,
            RESULTS: results,
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, count: int, *, processes_each: int) -> None:
        """Start them all, then wait until they are."""
        for _ in range(count):
            number = len(self._processes)
            command = [sys.executable, "-m", "celery", "-A", "tests.interop.amqp.celery_app"]
            how = ["worker", "-n", f"w{number}@story", "-c", str(processes_each), "-l", "INFO"]
            with self._log(number).open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        [*command, *how],
                        cwd=self._directory,
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        for number in range(len(self._processes) - count, len(self._processes)):
            wait_until(
                lambda number=number: self._is_ready(number),  # type: ignore[misc]
                timeout_s=TIMEOUT_S,
                what=f"worker {number} is ready",
                poll_s=0.05,
            )

    def kill(self, pid: int) -> None:
        """The worker with this pid and its children are gone at once."""
        (process,) = (one for one in self._processes if one.pid == pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def kill_all(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)

    def said(self) -> str:
        return "\n".join(
            self._log(number).read_text(errors="replace")[-3000:]
            for number in range(len(self._processes))
        )

    def _log(self, number: int) -> Path:
        return self._directory / f"worker-{number}.log"

    def _is_ready(self, number: int) -> bool:
        text = self._log(number).read_text(errors="replace")
        assert self._processes[number].poll() is None, f"a worker ended: {text[-3000:]}"
        return f"w{number}@story ready." in text


@contextlib.contextmanager
def workers(directory: Path, peer: AmqpPeer, results: str) -> Iterator[Workers]:
    crew = Workers(directory, peer, results)
    try:
        yield crew
    except BaseException:
        print(crew.said())
        raise
    finally:
        crew.kill_all()


@contextlib.contextmanager
def application(peer: AmqpPeer, results: str) -> Iterator[celery.Celery]:
    app = make_app(peer.url, results)
    try:
        yield app
    finally:
        # Celery leaves its connections to the garbage collector, which complains of each.
        app.backend.result_consumer.stop()
        app.pool.force_close_all()
        kombu.pools.reset()
        app.close()


@contextlib.contextmanager
def garbage_collected() -> Iterator[None]:
    """What an application still left open is closed here, and not in the middle of another test."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where results of chords are counted."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (make interop-deps)")
    port = free_port()
    log_path = tmp_path_factory.mktemp("redis") / "redis.log"
    with log_path.open("wb") as log:
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(
            lambda: b"eady to accept connections" in log_path.read_bytes(),
            timeout_s=TIMEOUT_S,
            what="Redis is ready",
        )
        yield f"redis://127.0.0.1:{port}/"
    finally:
        server.kill()
        server.wait()


def asked(app: celery.Celery) -> Any:
    """To be asked something of the one worker that there is, for as long as it takes it."""
    return app.control.inspect(timeout=TIMEOUT_S, limit=1)


def tell_tasks(peer: AmqpPeer, results: str) -> list[str]:
    lines: list[str] = []
    with application(peer, results) as app:
        add, total = app.tasks["shop.add"], app.tasks["shop.total"]
        numbers = celery.group(add.s(n, n) for n in range(10)).apply_async()
        lines.append(f"group {numbers.get(timeout=TIMEOUT_S)}")
        chained = (add.s(1, 2) | add.s(10) | add.s(100)).apply_async()
        lines.append(f"chain {chained.get(timeout=TIMEOUT_S)}")
        chord = celery.chord([add.s(n, 1) for n in range(8)], total.s()).apply_async()
        lines.append(f"chord {chord.get(timeout=TIMEOUT_S)}")
        nested = celery.chord(
            [celery.chord([add.s(n, 0), add.s(n, 1)], total.s()) for n in (1, 2)], total.s()
        ).apply_async()
        lines.append(f"nested chord {nested.get(timeout=TIMEOUT_S)}")
        flaky = app.tasks["shop.flaky"].delay(3)
        lines.append(f"flaky {flaky.get(timeout=TIMEOUT_S)}")
        strict = app.tasks["shop.strict"].delay()
        try:
            strict.get(timeout=TIMEOUT_S)
        except OSError as error:
            lines.append(f"strict gave up: {error}")
        now = datetime.datetime.now(datetime.UTC)
        eta = now + datetime.timedelta(seconds=0.5)
        clock = app.tasks["shop.clock"]
        late, later = clock.apply_async(eta=eta), clock.apply_async(countdown=0.7)
        at, then = late.get(timeout=TIMEOUT_S), later.get(timeout=TIMEOUT_S)
        lines.append(f"not before its time: {at >= eta.timestamp()}")
        lines.append(f"not before its countdown: {then >= now.timestamp() + 0.7}")
        # Its message may not wait at all, and somebody waits for it: what the worker had in hand is settled
        # once the broker has passed on a question that was asked after it.
        app.control.ping(timeout=TIMEOUT_S, limit=1)
        expired = add.apply_async((1, 1), expires=now - datetime.timedelta(seconds=5))
        try:
            expired.get(timeout=TIMEOUT_S)
        except celery.exceptions.TaskRevokedError as error:
            lines.append(f"expired: {error}")
        revoked = clock.apply_async(countdown=30)
        app.control.revoke(revoked.id)
        wait_until(
            lambda: any(revoked.id in ids for ids in (asked(app).revoked() or {}).values()),
            timeout_s=TIMEOUT_S,
            what="the workers know what is revoked",
        )
        lines.append(f"ping {sorted(map(str, app.control.ping(timeout=TIMEOUT_S, limit=1)))}")
        queues = asked(app).active_queues()
        lines.append(f"queues {sorted((w, q['name']) for w, qs in queues.items() for q in qs)}")
        lines.append(f"purged {app.control.purge()}")
    return lines


@pytest.mark.timeout(300)
def test_tasks_groups_chords_retries_and_times(alike: Alike, redis: str, tmp_path: Path) -> None:
    def celery_tasks(peer: AmqpPeer) -> list[str]:
        directory = tmp_path / str(peer.port)
        directory.mkdir()
        results = f"{redis}{int(peer.is_millpond)}"
        with garbage_collected(), workers(directory, peer, results) as crew:
            crew.start(1, processes_each=2)
            return tell_tasks(peer, results)

    lines = alike(celery_tasks)
    assert lines[:6] == [
        f"group {[2 * n for n in range(10)]}",
        "chain 113",
        "chord 36",
        "nested chord 8",
        "flaky after 3 retries",
        "strict gave up: attempt 2",
    ]
    assert lines[6:8] == ["not before its time: True", "not before its countdown: True"]


def tell_waiting(peer: AmqpPeer, results: str) -> list[str]:
    """The worker may hold one task; it holds six that wait, each of which makes room for another one."""
    with application(peer, results) as app:
        clock = app.tasks["shop.clock"]
        waiting = [clock.apply_async(countdown=_COUNTDOWN_S) for _task in range(6)]
        try:
            clock.delay().get(timeout=TIMEOUT_S)
            ran = sum(one.ready() for one in waiting)
        finally:
            app.control.revoke([one.id for one in waiting])
            app.control.purge()
    return [f"{ran} of {len(waiting)} ran before the one that is due at once"]


@pytest.mark.timeout(300)
def test_tasks_that_wait_for_their_time_do_not_hold_up_others(
    alike: Alike, redis: str, tmp_path: Path
) -> None:
    def celery_waiting(peer: AmqpPeer) -> list[str]:
        directory = tmp_path / str(peer.port)
        directory.mkdir()
        results = f"{redis}{2 + int(peer.is_millpond)}"
        with garbage_collected(), workers(directory, peer, results) as crew:
            crew.start(1, processes_each=1)
            return tell_waiting(peer, results)

    assert alike(celery_waiting) == ["0 of 6 ran before the one that is due at once"]


def tell_death(peer: AmqpPeer, crew: Workers, diary: Path) -> list[str]:
    """Results come as messages, too; a task of the killed worker runs again at the other."""
    lines: list[str] = []
    with application(peer, "rpc://") as app:
        add = app.tasks["shop.add"]
        before = [add.delay(n, 1) for n in range(20)]
        lines.append(f"before {[one.get(timeout=TIMEOUT_S) for one in before]}")
        fatal = app.tasks["shop.fatal"].delay(str(diary))
        wait_until(
            lambda: diary.exists() and diary.read_text().endswith("\n"),
            timeout_s=TIMEOUT_S,
            what="the task has begun",
        )
        crew.kill(int(diary.read_text().split()[0]))
        lines.append(f"the task of the dead worker: {fatal.get(timeout=TIMEOUT_S)}")
        lines.append(f"it ran {len(diary.read_text().splitlines())} times")
        after = [add.delay(n, 2) for n in range(20)]
        lines.append(f"after {[one.get(timeout=TIMEOUT_S) for one in after]}")
    return lines


@pytest.mark.timeout(300)
def test_the_task_of_a_killed_worker_runs_again(alike: Alike, tmp_path: Path) -> None:
    def celery_death(peer: AmqpPeer) -> list[str]:
        directory = tmp_path / str(peer.port)
        directory.mkdir()
        with garbage_collected(), workers(directory, peer, "rpc://") as crew:
            crew.start(2, processes_each=1)
            started = time.perf_counter()
            lines = tell_death(peer, crew, directory / "diary")
            print(f"{time.perf_counter() - started:.1f} s")
            return lines

    assert alike(celery_death) == [
        f"before {[n + 1 for n in range(20)]}",
        "the task of the dead worker: redelivered=True",
        "it ran 2 times",
        f"after {[n + 2 for n in range(20)]}",
    ]
