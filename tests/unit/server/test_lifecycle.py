"""Signals and limits of the process that a broker runs in."""

import asyncio
import os
import resource
import signal

import pytest

from millpond.server import lifecycle
from millpond.server.failures import ExitCode


def test_the_first_signal_asks_and_the_second_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr(os, "_exit", forced.append)

    async def story() -> None:
        stop = lifecycle.StopSignals()
        stop.install()
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            assert await asyncio.wait_for(stop.wait(), 60) == "SIGTERM"
            assert forced == []

            os.kill(os.getpid(), signal.SIGINT)
            async with asyncio.timeout(60):
                while not forced:
                    await asyncio.sleep(0)
        finally:
            stop.remove()

    asyncio.run(story())
    assert forced == [ExitCode.FORCED]


def test_the_soft_limit_of_open_files_is_lifted_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = min(soft, 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lower, hard))
    try:
        before, after = lifecycle.raise_open_files_limit()

        assert before == lower
        assert after == resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= lower
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_event_loop_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_EVENT_LOOP", "asyncio")
    loop = lifecycle.new_event_loop()
    loop.close()

    assert type(loop).__module__.startswith("asyncio")
