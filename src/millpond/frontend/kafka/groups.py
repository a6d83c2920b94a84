"""What the group handlers share: codes for refusals, answers that wait for a flush, a client's address."""

import asyncio

from millpond.engine.api.groups import ErrorClass
from millpond.frontend.kafka.handler import Context, Payload, Result
from millpond.frontend.kafka.transactions import when_all_durable
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.error_codes import CODES

# Kafka's AclOperation numbers of what can be done to a group, as bits.
GROUP_OPERATIONS = sum(1 << bit for bit in (3, 6, 8, 10, 11))


def code_for(error: ErrorClass | None) -> ErrorCode:
    """The code of a refusal, or of none."""
    return ErrorCode.NONE if error is None else CODES[error]


def when_durable(durable: "asyncio.Future[None] | None", payload: Payload) -> Result:
    """Return the answer, now or when the offsets that it confirms are on disk."""
    return when_all_durable((durable,), payload, failure="the offsets could not be flushed")


def client_host(context: Context) -> str:
    """The client's address as Kafka shows it in descriptions of groups."""
    host, separator, _port = context.peer.rpartition(":")
    return "/" + (host.strip("[]") if separator else context.peer)
