"""What the transaction handlers share."""

import asyncio
from collections.abc import Iterable

from millpond.base.errors import MillpondError, NotCoordinator
from millpond.engine.api.runtime import when_all_succeed
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
    futures: "Iterable[asyncio.Future[None] | None]",
    payload: Payload,
    *,
    failure: str = "the transaction could not be flushed",
) -> Payload | Deferred:
    """Return the answer, now or when all records that it confirms are on disk. ``failure`` is the message of
    the ``NotCoordinator`` that a client gets if they are not.
    """
    missing = [future for future in futures if future is not None]
    if not missing:
        return payload
    deferred = Deferred()
    when_all_succeed(
        missing,
        lambda error: deferred.resolve(payload if error is None else NotCoordinator(failure)),
    )
    return deferred
