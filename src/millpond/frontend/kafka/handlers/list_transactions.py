"""ListTransactions: transactional ids, by state, producer, age or name (KIP-664, KIP-994, KIP-1152)."""

from millpond.base.errors import InvalidPattern
from millpond.base.patterns import matcher
from millpond.engine.api.transactions import Status
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_STATUSES = {status.title: status for status in Status}


def handle(context: Context, request: Request) -> Result:
    message: ListTransactionsRequest = decode(request)
    statuses = [_STATUSES[name] for name in message.state_filters if name in _STATUSES]
    unknown = [name for name in message.state_filters if name not in _STATUSES]
    matches = None
    if message.transactional_id_pattern:
        try:
            matches = matcher(message.transactional_id_pattern)
        except InvalidPattern:
            code = ErrorCode.INVALID_REGULAR_EXPRESSION
            return encode(request, ListTransactionsResponse(error_code=code))
    found = context.engine.transactions.list(
        statuses=statuses,
        producer_ids=message.producer_id_filters,
        open_ms_min=message.duration_filter,
        matches=matches,
    )
    if message.state_filters and not statuses:
        found = iter(())
    return encode(
        request,
        ListTransactionsResponse(
            unknown_state_filters=unknown,
            transaction_states=[
                TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.status.title,
                )
                for one in found
            ],
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.LIST_TRANSACTIONS,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(ListTransactionsResponse),
)
