"""What a destination answers to messages that are put into it: how many it took, and when they are kept."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from millpond.base.errors import MillpondError
from millpond.engine.runtime.futures import when_all_succeed

# Done when the messages are where they must be: with how many of them were admitted, if that was not known
# at once, or None if it was.
Kept: TypeAlias = "asyncio.Future[int | None] | asyncio.Future[None]"


class Taken(NamedTuple):
    """What became of messages that came together: the first ``admitted`` of them are taken, as far as is
    known now, and are kept when all of ``durable`` are done."""

    admitted: int
    durable: Sequence[Kept]


def when_all(admitted: int, awaited: Sequence[Kept], kept: "asyncio.Future[int | None]") -> None:
    """Complete ``kept`` when all that is awaited is done, with how many messages were admitted, or fail it
    with the first failure. A cancelled future is a failure: its messages may not be kept.
    """

    def settle(failure: BaseException | None) -> None:
        if kept.done():
            return
        if failure is None:
            kept.set_result(admitted)
        elif isinstance(failure, asyncio.CancelledError):
            kept.set_exception(MillpondError("messages may not be kept: the wait was cancelled"))
        else:
            kept.set_exception(failure)

    when_all_succeed(awaited, settle)
