"""AddOffsetsToTxn: a transaction will commit a group's positions, that is, write where the group is kept."""

from millpond.base.errors import CoordinatorNotAvailable, MillpondError
from millpond.engine.api import OFFSETS_TOPIC
from millpond.engine.coordinators.transactions import AddPartitions
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
from millpond.wire.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

_FENCED_FROM = 2


def handle(context: Context, request: Request) -> Result:
    message: AddOffsetsToTxnRequest = decode(request)
    if not context.engine.groups.is_ready:
        # A producer may name a group before any consumer has looked for its coordinator.
        return _prepare(context, request)
    try:
        partition = context.engine.groups.partition_of(message.group_id)
        durable = context.engine.transactions.add_partitions(
            AddPartitions(
                transactional_id=message.transactional_id,
                producer_id=message.producer_id,
                producer_epoch=message.producer_epoch,
                partitions=frozenset({(OFFSETS_TOPIC, partition)}),
            )
        )
    except MillpondError as error:
        return _refused(request, error)
    return when_all_durable((durable,), encode(request, AddOffsetsToTxnResponse()))


async def _prepare(context: Context, request: Request) -> Payload:
    await context.engine.groups.prepare()
    return _refused(request, CoordinatorNotAvailable("the group's place was made just now"))


def _refused(request: Request, error: MillpondError) -> Payload:
    code = fenced_code(error, version=request.api_version, fenced_from=_FENCED_FROM)
    return encode(request, AddOffsetsToTxnResponse(error_code=code))


HANDLER = Handler(
    api_key=ApiKey.ADD_OFFSETS_TO_TXN,
    min_version=0,
    max_version=4,
    handle=handle,
    refuse=refuse_whole(AddOffsetsToTxnResponse),
)
