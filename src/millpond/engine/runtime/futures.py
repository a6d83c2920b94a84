"""Waits for several futures by plain calls, without a task: the one way to act when all are done."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

AnyFuture: TypeAlias = "asyncio.Future[Any]"


def failure_of(done: AnyFuture) -> BaseException | None:
    """Return why a future that is done has failed, ``CancelledError`` if it was cancelled."""
    return asyncio.CancelledError() if done.cancelled() else done.exception()


def when_all_done(futures: Iterable[AnyFuture], call: Callable[[], None]) -> None:
    """Call once when every future is done, with a result or a failure; at once if there is none."""
    missing = set(futures)
    if not missing:
        call()
        return

    def on_done(done: AnyFuture) -> None:
        missing.discard(done)
        if not missing:
            call()

    for future in tuple(missing):
        future.add_done_callback(on_done)


def when_all_succeed(
    futures: Iterable[AnyFuture], call: Callable[[BaseException | None], None]
) -> None:
    """Call once: with None when every future has a result, or with the first failure as soon as there is one.
    Call at once if there is no future.
    """
    missing = set(futures)
    if not missing:
        call(None)
        return
    is_called = False

    def on_done(done: AnyFuture) -> None:
        nonlocal is_called
        missing.discard(done)
        failure = failure_of(done)
        if not is_called and (failure is not None or not missing):
            is_called = True
            call(failure)

    for future in tuple(missing):
        future.add_done_callback(on_done)
