"""DescribeTransactions: transactional ids as their coordinator knows them (KIP-664)."""

from itertools import groupby
from operator import itemgetter

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(context: Context, request: Request) -> Result:
    message: DescribeTransactionsRequest = decode(request)
    states = [_describe(context, name) for name in message.transactional_ids]
    return encode(request, DescribeTransactionsResponse(transaction_states=states))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DescribeTransactionsRequest = decode(request)
    states = [
        TransactionState(transactional_id=name, error_code=code)
        for name in message.transactional_ids
    ]
    return encode(request, DescribeTransactionsResponse(transaction_states=states))


def _describe(context: Context, name: str) -> TransactionState:
    try:
        known = context.engine.transactions.describe(name)
    except MillpondError as error:
        return TransactionState(transactional_id=name, error_code=code_of(error))
    return TransactionState(
        transactional_id=name,
        transaction_state=known.status.title,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=[index for _, index in places])
            for topic, places in groupby(sorted(known.partitions), key=itemgetter(0))
        ],
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_TRANSACTIONS, min_version=0, max_version=0, handle=handle, refuse=refuse
)
