"""ListTransactions: transactional ids, by state, producer, age or name (KIP-664, KIP-994, KIP-1152)."""

import re

from millpond.engine.transactions import Status
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_STATUSES = {status.title: status for status in Status}

# Long enough for any name, short enough to be no work to compile.
_PATTERN_CHARS_MAX = 1_000


def handle(context: Context, request: Request) -> Result:
    message: ListTransactionsRequest = decode(request)
    statuses = [_STATUSES[name] for name in message.state_filters if name in _STATUSES]
    unknown = [name for name in message.state_filters if name not in _STATUSES]
    pattern = None
    if message.transactional_id_pattern:
        try:
            if len(message.transactional_id_pattern) > _PATTERN_CHARS_MAX:
                raise re.error("the pattern is too long")
            pattern = re.compile(message.transactional_id_pattern)
        except re.error:
            code = ErrorCode.INVALID_REGULAR_EXPRESSION
            return encode(request, ListTransactionsResponse(error_code=code))
    found = context.engine.transactions.list(
        statuses=statuses,
        producer_ids=message.producer_id_filters,
        open_ms_min=message.duration_filter,
        pattern=pattern,
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
