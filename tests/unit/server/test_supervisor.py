"""Processes that are kept running: what is started again, what is not, and how all end."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from millpond.server.supervisor import Hopeless, Supervisor, in_words

WAITS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('up', flush=True); time.sleep(60)"
    ),
]


def ends_with(code: int) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.exit({code})"]


class Notes:
    """A observer with a memory; stories wait for what it hears."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self.starts: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.ends: list[tuple[int, str, float | None]] = []

    def said(self, node_id: int, line: str) -> None:
        self.lines.put_nowait((node_id, line))

    def started(self, node_id: int, pid: int) -> None:
        self.starts.put_nowait((node_id, pid))

    def ended(self, node_id: int, how: str, pause_s: float | None) -> None:
        self.ends.append((node_id, how, pause_s))


def run(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await story

    asyncio.run(bounded())


def test_what_dies_is_started_again() -> None:
    async def story() -> None:
        notes = Notes()
        supervisor = Supervisor({1: WAITS, 2: WAITS}, notes, pause_s_min=0.01)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(supervisor.run())
            pids = dict([await notes.starts.get(), await notes.starts.get()])
            os.kill(pids[2], signal.SIGKILL)
            node_id, again = await notes.starts.get()
            assert (node_id, again != pids[2]) == (2, True)
            assert notes.ends == [(2, "was ended by SIGKILL", 0.01)]
            heard = [await notes.lines.get() for _ in range(2)]
            assert set(heard) <= {(1, "up"), (2, "up")}
            supervisor.stop()
            assert await running
        assert len(notes.ends) == 3

    run(story())


def test_one_that_keeps_dying_is_given_more_and_more_time() -> None:
    async def story() -> None:
        notes = Notes()
        supervisor = Supervisor({1: ends_with(1)}, notes, pause_s_min=0.01)
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run())
            for _ in range(4):
                await notes.starts.get()
            supervisor.stop()
        assert [pause for _, _, pause in notes.ends][:3] == [0.01, 0.02, 0.04]

    run(story())


def test_settings_that_cannot_work_end_all() -> None:
    async def story() -> None:
        notes = Notes()
        with pytest.raises(Hopeless) as failed:
            await Supervisor({1: WAITS, 2: ends_with(4)}, notes).run()
        assert (failed.value.node_id, failed.value.code) == (2, 4)
        _, pid = await notes.starts.get()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run(story())


def test_one_that_does_not_stop_is_killed() -> None:
    async def story() -> None:
        notes = Notes()
        supervisor = Supervisor({1: STUBBORN}, notes, stop_s=0.1)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(supervisor.run())
            await notes.lines.get()
            supervisor.stop()
            assert not await running
        assert notes.ends == [(1, "was ended by SIGKILL", None)]

    run(story())


def test_a_second_order_ends_all_at_once() -> None:
    async def story() -> None:
        notes = Notes()
        supervisor = Supervisor({1: STUBBORN, 2: STUBBORN}, notes)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(supervisor.run())
            for _ in range(2):
                await notes.lines.get()
            supervisor.stop()
            supervisor.kill()
            assert not await running

    run(story())


def test_how_a_process_ended() -> None:
    assert in_words(3) == "ended with 3"
    assert in_words(-9) == "was ended by SIGKILL"
    assert in_words(-250) == "was ended by signal 250"
