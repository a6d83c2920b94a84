"""Waiting until records that a coordinator appended are committed."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from millpond.base.errors import MillpondError, NotCoordinator

# Done when appended records are committed, failed when they may be lost; None if they are committed already.
Durable: TypeAlias = "asyncio.Future[None] | None"


async def flushed(durable: Durable) -> None:
    """Wait until records are committed. Raises ``NotCoordinator`` if they may be lost."""
    if durable is None:
        return
    try:
        await asyncio.shield(durable)
    except MillpondError as error:
        raise NotCoordinator("the coordinator's records could not be made durable") from error


def when_durable(durable: Durable, call: Callable[[MillpondError | None], None]) -> None:
    """Call once: with None when the records are committed (perhaps at once), else with why they are not."""
    if durable is None:
        call(None)
        return

    def on_done(done: "asyncio.Future[None]") -> None:
        failed = done.cancelled() or done.exception() is not None
        call(MillpondError(f"not durable: {done}") if failed else None)

    durable.add_done_callback(on_done)
