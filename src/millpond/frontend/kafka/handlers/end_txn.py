"""EndTxn: commit or abort. From version 5 on the producer goes on with the epoch it is answered (KIP-890)."""

from millpond.base.errors import MillpondError
from millpond.engine.coordinators.transactions import EndTransaction, Identity, NeedsProducerId
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.frontend.kafka.transactions import fenced_code, when_all_durable
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_FROM = 2
_BUMPS_FROM = 5


def handle(context: Context, request: Request) -> Result:
    message: EndTxnRequest = decode(request)
    command = EndTransaction(
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        committed=message.committed,
        bumps_epoch=request.api_version >= _BUMPS_FROM,
    )
    try:
        identity, durable = context.engine.transactions.end(command)
    except NeedsProducerId:
        return _end_with_new_id(context, request, command)
    except MillpondError as error:
        return _refused(request, error)
    return when_all_durable((durable,), _answered(request, identity))


async def _end_with_new_id(context: Context, request: Request, command: EndTransaction) -> Payload:
    try:
        identity = await context.engine.transactions.end_with_new_id(command)
    except MillpondError as error:
        return _refused(request, error)
    return _answered(request, identity)


def _answered(request: Request, identity: Identity) -> Payload:
    return encode(
        request,
        EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch),
    )


def _refused(request: Request, error: MillpondError) -> Payload:
    code = fenced_code(error, version=request.api_version, fenced_from=_FENCED_FROM)
    return encode(request, EndTxnResponse(error_code=code))


HANDLER = Handler(
    api_key=ApiKey.END_TXN,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(EndTxnResponse),
)
