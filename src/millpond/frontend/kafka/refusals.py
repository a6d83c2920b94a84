"""The response to a request that failed."""

import logging

from millpond.base.errors import MalformedVarint, MillpondError, RemoteProtocolError
from millpond.frontend.kafka.handler import Handler, Payload
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of

log = logging.getLogger(__name__)

# Bytes that cannot be a request; nothing behind them can be trusted either.
NO_REQUEST = (RemoteProtocolError, MalformedVarint)


def refusal_of(
    handler: Handler, request: Request, error: BaseException, peer: str
) -> Payload | BaseException:
    """Return the response to a request that failed, or the error with which to close the connection if no
    response can be given.
    """
    if isinstance(error, NO_REQUEST):
        return error
    if isinstance(error, MillpondError):
        code = code_of(error)
    else:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        log.error("peer=%s client=%s: %r failed", peer, request.client_id, request, exc_info=error)
    if handler.refuse is not None:
        try:
            return handler.refuse(request, code)
        except NO_REQUEST as malformed:
            # It was refused before it was decoded, and cannot be decoded.
            return malformed
        except Exception:
            log.exception("peer=%s: %r could not be refused", peer, request)
    return error
