"""What a destination answers to messages that are put into it: how many it took, and when they are kept."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

# Done when the messages are where they must be: with how many of them were admitted, if that was not known
# at once, or None if it was.
Kept: TypeAlias = "asyncio.Future[int | None] | asyncio.Future[None]"


class Taken(NamedTuple):
    """What became of messages that came together: the first ``admitted`` of them are taken, as far as is
    known now, and are kept when all of ``durable`` are done."""

    admitted: int
    durable: Sequence[Kept]


def when_all(admitted: int, awaited: Sequence[Kept], kept: "asyncio.Future[int | None]") -> None:
    """Complete ``kept`` when all that is awaited is done, with how many messages were admitted."""
    missing = set(awaited)

    def on_done(done: Kept) -> None:
        missing.discard(done)
        if kept.done():
            return
        error = None if done.cancelled() else done.exception()
        if error is not None:
            kept.set_exception(error)
        elif not missing:
            kept.set_result(admitted)

    if not missing:
        kept.set_result(admitted)
    for future in tuple(missing):
        future.add_done_callback(on_done)
