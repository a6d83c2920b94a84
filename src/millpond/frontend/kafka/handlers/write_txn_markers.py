"""WriteTxnMarkers: end a producer's transaction in partitions, as a coordinator or an administrator says.

A coordinator is a node, and is believed. An administrator (`kafka-transactions abort`) is a client: it may
abort what a producer has open in the partition, by the epoch that the producer has there, and nothing else. A
commit, and a marker that would shut out the producer or the coordinator, are for nodes.
"""

import asyncio

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.frontend.kafka.transactions import when_all_durable
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: WriteTxnMarkersRequest = decode(request)
    flushes: list[asyncio.Future[None]] = []
    answer = WriteTxnMarkersResponse(
        markers=[
            _result(
                marker,
                [
                    [
                        _write(context, marker, topic.name, index, flushes)
                        for index in topic.partition_indexes
                    ]
                    for topic in marker.topics
                ],
            )
            for marker in message.markers
        ]
    )
    return when_all_durable(flushes, encode(request, answer))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: WriteTxnMarkersRequest = decode(request)
    answer = WriteTxnMarkersResponse(
        markers=[
            _result(
                marker, [[code for _index in topic.partition_indexes] for topic in marker.topics]
            )
            for marker in message.markers
        ]
    )
    return encode(request, answer)


def _write(
    context: Context,
    marker: WritableTxnMarker,
    topic: str,
    index: int,
    flushes: "list[asyncio.Future[None]]",
) -> ErrorCode:
    try:
        if not context.is_believed:
            if marker.transaction_result:
                context.check_node("WriteTxnMarkers that commit")
            if not context.engine.transactions.check_abort(
                (topic, index),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
            ):
                return ErrorCode.NONE
        durable = context.engine.transactions.write_marker(
            (topic, index),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            committed=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
        )
    except MillpondError as error:
        return code_of(error)
    if durable is not None:
        flushes.append(durable)
    return ErrorCode.NONE


def _result(marker: WritableTxnMarker, codes: list[list[ErrorCode]]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                    for index, code in zip(topic.partition_indexes, row, strict=True)
                ],
            )
            for topic, row in zip(marker.topics, codes, strict=True)
        ],
    )


HANDLER = Handler(
    api_key=ApiKey.WRITE_TXN_MARKERS, min_version=1, max_version=2, handle=handle, refuse=refuse
)
