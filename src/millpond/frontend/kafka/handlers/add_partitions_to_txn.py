"""AddPartitionsToTxn: where a transaction will write. All of them are added, or none.

Producers ask for one transaction (to version 3); brokers ask for many, or only whether (from 4 on).
"""

import asyncio
from collections.abc import Sequence

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.engine.api.transactions import AddPartitions, Place
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.frontend.kafka.transactions import fenced_code, when_all_durable
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_MANY_FROM = 4
_FENCED_FROM = 2


def handle(context: Context, request: Request) -> Result:
    message: AddPartitionsToTxnRequest = decode(request)
    if request.api_version < _MANY_FROM:
        return _one(context, request, message)
    context.check_node(f"AddPartitionsToTxn from version {_MANY_FROM} on")
    flushes: list[asyncio.Future[None] | None] = []
    results = [
        AddPartitionsToTxnResult(
            transactional_id=one.transactional_id,
            topic_results=_topics(one.topics, _verify_or_add(context.engine, one, flushes)),
        )
        for one in message.transactions
    ]
    answer = AddPartitionsToTxnResponse(results_by_transaction=results)
    return when_all_durable(flushes, encode(request, answer))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: AddPartitionsToTxnRequest = decode(request)
    if request.api_version >= _MANY_FROM:
        return encode(request, AddPartitionsToTxnResponse(error_code=code))
    topics = message.v3_and_below_topics
    codes = dict.fromkeys(_places(topics), code)
    return encode(
        request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(topics, codes))
    )


def _one(context: Context, request: Request, message: AddPartitionsToTxnRequest) -> Result:
    topics = message.v3_and_below_topics
    places = _places(topics)
    codes = _missing(context.engine, places)
    durable = None
    if not codes:
        try:
            durable = context.engine.transactions.add_partitions(
                AddPartitions(
                    transactional_id=message.v3_and_below_transactional_id,
                    producer_id=message.v3_and_below_producer_id,
                    producer_epoch=message.v3_and_below_producer_epoch,
                    partitions=frozenset(places),
                )
            )
            codes = dict.fromkeys(places, ErrorCode.NONE)
        except MillpondError as error:
            code = fenced_code(error, version=request.api_version, fenced_from=_FENCED_FROM)
            codes = dict.fromkeys(places, code)
    answer = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(topics, codes))
    return when_all_durable((durable,), encode(request, answer))


def _verify_or_add(
    engine: Engine,
    one: AddPartitionsToTxnTransaction,
    flushes: "list[asyncio.Future[None] | None]",
) -> dict[Place, ErrorCode]:
    places = _places(one.topics)
    codes = _missing(engine, places)
    if codes:
        return codes
    try:
        if one.verify_only:
            flushes.append(engine.transactions.settled(one.transactional_id))
            return {place: _verified(engine, one, place) for place in places}
        flushes.append(
            engine.transactions.add_partitions(
                AddPartitions(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    partitions=frozenset(places),
                    client_version=2,
                )
            )
        )
    except MillpondError as error:
        return dict.fromkeys(places, code_of(error))
    return dict.fromkeys(places, ErrorCode.NONE)


def _verified(engine: Engine, one: AddPartitionsToTxnTransaction, place: Place) -> ErrorCode:
    try:
        engine.transactions.check_partition(
            one.transactional_id, one.producer_id, one.producer_epoch, place
        )
    except MillpondError as error:
        return code_of(error)
    return ErrorCode.NONE


def _places(topics: Sequence[AddPartitionsToTxnTopic]) -> list[Place]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _missing(engine: Engine, places: Sequence[Place]) -> dict[Place, ErrorCode]:
    """Codes for all if some are not there: those are unknown, the rest was not attempted."""
    unknown = set()
    for topic, index in places:
        image = engine.metadata.image.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            unknown.add((topic, index))
    if not unknown:
        return {}
    return {
        place: (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if place in unknown
            else ErrorCode.OPERATION_NOT_ATTEMPTED
        )
        for place in places
    }


def _topics(
    topics: Sequence[AddPartitionsToTxnTopic], codes: dict[Place, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


HANDLER = Handler(
    api_key=ApiKey.ADD_PARTITIONS_TO_TXN, min_version=0, max_version=5, handle=handle, refuse=refuse
)
