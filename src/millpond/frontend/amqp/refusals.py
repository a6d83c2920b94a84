"""Maps errors to AMQP's reply codes, which close the channel or the connection."""

from millpond.base import errors
from millpond.wire.amqp.methods import Method
from millpond.wire.amqp.violations import ReplyCode, Violation

CODES: dict[type[errors.MillpondError], ReplyCode] = {
    errors.UnknownResource: ReplyCode.NOT_FOUND,
    errors.AccessRefused: ReplyCode.ACCESS_REFUSED,
    errors.QueueInUse: ReplyCode.ACCESS_REFUSED,
    errors.QueueLocked: ReplyCode.RESOURCE_LOCKED,
    errors.Inequivalent: ReplyCode.PRECONDITION_FAILED,
    errors.InvalidQueueArgument: ReplyCode.PRECONDITION_FAILED,
    errors.InvalidBinding: ReplyCode.PRECONDITION_FAILED,
    errors.ResourceInUse: ReplyCode.PRECONDITION_FAILED,
    errors.UnknownDeliveryTag: ReplyCode.PRECONDITION_FAILED,
    errors.LimitReached: ReplyCode.PRECONDITION_FAILED,
    errors.UnknownExchangeType: ReplyCode.COMMAND_INVALID,
    errors.NotSupported: ReplyCode.NOT_IMPLEMENTED,
    errors.UnknownVirtualHost: ReplyCode.NOT_ALLOWED,
    errors.VirtualHostRefused: ReplyCode.NOT_ALLOWED,
    errors.ShuttingDown: ReplyCode.CONNECTION_FORCED,
}


def violation_of(
    error: errors.MillpondError, channel: int, method: Method | type[Method] | None
) -> Violation:
    """Return the error for the peer. An unknown error is an internal error."""
    if isinstance(error, Violation):
        return error
    return Violation(
        CODES.get(type(error), ReplyCode.INTERNAL_ERROR),
        str(error),
        channel=channel,
        class_id=0 if method is None else method.class_id,
        method_id=0 if method is None else method.method_id,
    )
