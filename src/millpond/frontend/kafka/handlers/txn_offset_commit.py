"""TxnOffsetCommit: positions of a group that count when the producer's transaction commits."""

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.engine.api.groups import CommittedOffset, PendOffsets
from millpond.engine.api.transactions import refusal_of_commit
from millpond.frontend.kafka.groups import code_for
from millpond.frontend.kafka.handler import (
    Context,
    Deferred,
    Handler,
    Payload,
    Result,
    decode,
    encode,
)
from millpond.frontend.kafka.producer_versions import commit_abilities
from millpond.frontend.kafka.transactions import when_all_durable
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

# Where in the request a position stands: topic, partition.
_Slot = tuple[int, int]


def handle(context: Context, request: Request) -> Result:
    message: TxnOffsetCommitRequest = decode(request)
    transactions = context.engine.transactions
    if transactions.asks_first:
        return _ask_first(context, request, message)
    return _commit(context, request, message)


async def _ask_first(
    context: Context, request: Request, message: TxnOffsetCommitRequest
) -> Payload:
    """The transaction's coordinator, on whichever node, must have the group's place in the transaction."""
    transactions = context.engine.transactions
    producer = commit_abilities(request.api_version)
    try:
        context.engine.groups.check_coordinates(message.group_id)
        write = transactions.offsets_write(
            message.group_id, message.producer_id, message.producer_epoch
        )
    except MillpondError as error:
        return refuse(request, code_of(error))
    admission = transactions.admission(
        message.transactional_id,
        [write],
        joins=producer.joins_transactions,
    )
    if admission is None:
        result = _commit(context, request, message)
    else:
        try:
            for refusal in (await admission.ask()).values():
                return refuse(request, code_of(refusal_of_commit(refusal, producer)))
            result = _commit(context, request, message)
        finally:
            admission.close()
    return await result.received() if isinstance(result, Deferred) else result


def _commit(
    context: Context, request: Request, message: TxnOffsetCommitRequest
) -> Payload | Deferred:
    codes, wanted = _sort_out(context.engine, message)
    if not wanted:
        return encode(request, _response(message, codes))
    transactions = context.engine.transactions
    command = PendOffsets(
        group_id=message.group_id,
        offsets=tuple(wanted.values()),
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        member_id=message.member_id,
        generation=message.generation_id_or_member_epoch,
        instance_id=message.group_instance_id,
    )
    try:
        joined = transactions.admit_offsets(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            message.group_id,
            producer=commit_abilities(request.api_version),
        )
        results, durable = context.engine.groups.commit_in_transaction(command)
    except MillpondError as error:
        codes.update(dict.fromkeys(wanted, code_of(error)))
        return encode(request, _response(message, codes))
    codes.update(zip(wanted, map(code_for, results), strict=True))
    return when_all_durable((joined, durable), encode(request, _response(message, codes)))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: TxnOffsetCommitRequest = decode(request)
    codes = {
        (place, number): code
        for place, topic in enumerate(message.topics)
        for number in range(len(topic.partitions))
    }
    return encode(request, _response(message, codes))


def _sort_out(
    engine: Engine, message: TxnOffsetCommitRequest
) -> tuple[dict[_Slot, ErrorCode], dict[_Slot, tuple[str, int, CommittedOffset]]]:
    """Codes for what cannot be committed, and what can be."""
    codes: dict[_Slot, ErrorCode] = {}
    wanted: dict[_Slot, tuple[str, int, CommittedOffset]] = {}
    for place, topic in enumerate(message.topics):
        image = engine.metadata.image.topics.get(topic.name)
        for number, one in enumerate(topic.partitions):
            if image is None or not 0 <= one.partition_index < len(image.partitions):
                codes[place, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            position = CommittedOffset(
                offset=one.committed_offset,
                leader_epoch=one.committed_leader_epoch,
                metadata=one.committed_metadata or "",
                topic_id=image.topic_id,
            )
            wanted[place, number] = (image.name, one.partition_index, position)
    return codes, wanted


def _response(
    message: TxnOffsetCommitRequest, codes: dict[_Slot, ErrorCode]
) -> TxnOffsetCommitResponse:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=one.partition_index, error_code=codes[place, number]
                )
                for number, one in enumerate(topic.partitions)
            ],
        )
        for place, topic in enumerate(message.topics)
    ]
    return TxnOffsetCommitResponse(topics=topics)


HANDLER = Handler(
    api_key=ApiKey.TXN_OFFSET_COMMIT, min_version=0, max_version=5, handle=handle, refuse=refuse
)
