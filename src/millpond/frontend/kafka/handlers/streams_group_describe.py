"""StreamsGroupDescribe: nobody can join a streams group here (KIP-1071), so there is none to describe."""

from millpond.frontend.kafka.convert import NOT_ASKED
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(_context: Context, request: Request) -> Result:
    return refuse(request, ErrorCode.GROUP_ID_NOT_FOUND)


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: StreamsGroupDescribeRequest = decode(request)
    groups = [
        DescribedGroup(
            error_code=code if group_id else ErrorCode.INVALID_GROUP_ID,
            error_message=f"Group {group_id} not found." if group_id else None,
            group_id=group_id,
            authorized_operations=NOT_ASKED,
        )
        for group_id in message.group_ids
    ]
    return encode(request, StreamsGroupDescribeResponse(groups=groups))


HANDLER = Handler(
    api_key=ApiKey.STREAMS_GROUP_DESCRIBE,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
)
