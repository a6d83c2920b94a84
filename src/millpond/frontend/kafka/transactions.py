"""What the transaction handlers share."""

import asyncio
from collections.abc import Iterable

from millpond.base.errors import MillpondError, NotCoordinator
from millpond.frontend.kafka.handler import Deferred, Payload
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.error_codes import code_of


def fenced_code(error: MillpondError, *, version: int, fenced_from: int) -> ErrorCode:
    """The code of a refusal; older clients know fencing only as an old epoch (KIP-588)."""
    code = code_of(error)
    if code == ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def when_all_durable(
    futures: "Iterable[asyncio.Future[None] | None]", payload: Payload
) -> Payload | Deferred:
    """The answer, now or when everything that it confirms is on disk."""
    missing = {future for future in futures if future is not None}
    if not missing:
        return payload
    deferred = Deferred()

    def settle(done: "asyncio.Future[None]") -> None:
        missing.discard(done)
        if done.cancelled() or done.exception() is not None:
            deferred.resolve(NotCoordinator("the transaction could not be flushed"))
        elif not missing:
            deferred.resolve(payload)

    for future in tuple(missing):
        future.add_done_callback(settle)
    return deferred
