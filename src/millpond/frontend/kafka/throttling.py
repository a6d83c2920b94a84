"""Quotas on the way of a request: what it cost, what its answer says of it, how long its client is not read.

As in Kafka (KIP-219): the answer leaves at once with ``throttle_time_ms`` in it, and the connection is mute
for that long. A fetch that is over its quota is answered without records, and does not count.
"""

from millpond.engine.api.limits import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    MutationBudget,
    Quotas,
)
from millpond.frontend.kafka.convert import ANONYMOUS
from millpond.frontend.kafka.handler import Context, Payload
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.connection import Request

# Handlers of these know themselves how long their client has to wait; it is the first field of the answer.
_TOLD_FIRST = frozenset(
    {ApiKey.FETCH, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS}
)
_THROTTLE_BYTES = 4


def charge(quotas: Quotas, request: Request, payload: Payload, now_ms: int) -> int:
    """Count a request that is being answered; for how long its client is to be mute."""
    client_id = request.client_id or ""
    wait_ms = quotas.use_time(ANONYMOUS, client_id, 0, now_ms)
    if request.api_key == ApiKey.PRODUCE:
        size = request.size
        return max(wait_ms, quotas.use(PRODUCER_BYTE_RATE, ANONYMOUS, client_id, size, now_ms))
    if request.api_key in _TOLD_FIRST and payload:
        told = int.from_bytes(payload[0][:_THROTTLE_BYTES], "big", signed=True)
        return max(wait_ms, told)
    return wait_ms


def with_throttle(request: Request, payload: Payload, wait_ms: int) -> Payload:
    """The same answer, which says how long the client has to wait; in versions that can say it."""
    if request.api_key in _TOLD_FIRST:  # a fetch's records are not worth unpacking for four bytes
        first = bytearray(payload[0])
        first[:_THROTTLE_BYTES] = wait_ms.to_bytes(_THROTTLE_BYTES, "big")
        return (first, *payload[1:])
    spec = APIS[request.api_key]
    message = spec.decode_response(b"".join(payload), request.api_version)
    if not hasattr(message, "throttle_time_ms"):
        return payload
    message.throttle_time_ms = wait_ms
    return (spec.encode_response(message, request.api_version),)


def fetch_bytes_max(context: Context, request: Request, asked: int) -> int:
    """Record bytes that a fetch may ask for: more than a whole window's can never be answered."""
    most = context.engine.quotas.most_at_once(
        CONSUMER_BYTE_RATE, ANONYMOUS, request.client_id or ""
    )
    return asked if most >= asked else int(most)


def fetch_wait_ms(context: Context, request: Request, record_bytes: int) -> int:
    """Count what a fetch is to be answered with; more than 0: it must not be, for so long."""
    engine = context.engine
    return engine.quotas.use_if_within(
        CONSUMER_BYTE_RATE,
        ANONYMOUS,
        request.client_id or "",
        record_bytes,
        engine.runtime.clock.monotonic_ms(),
    )


def mutation_budget(
    context: Context, request: Request, *, strict_from: int
) -> MutationBudget | None:
    """Return the quota for changes of topics, if there is one; strict for clients that know refusals."""
    engine = context.engine
    if not engine.quotas.active:
        return None
    return engine.quotas.mutations(
        ANONYMOUS,
        request.client_id or "",
        strict=request.api_version >= strict_from,
        now_ms=engine.runtime.clock.monotonic_ms(),
    )
