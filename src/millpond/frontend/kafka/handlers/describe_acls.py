"""DescribeAcls: who may do what. Without an authorizer there is nothing to describe."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.frontend.kafka.handlers import _acl_words
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_context: Context, request: Request) -> Result:
    message: DescribeAclsRequest = decode(request)
    _acl_words.check(
        message.resource_type_filter,
        message.pattern_type_filter,
        message.operation,
        message.permission_type,
    )
    return encode(
        request,
        DescribeAclsResponse(
            error_code=_acl_words.NO_AUTHORIZER,
            error_message="No Authorizer is configured on the broker",
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_ACLS,
    min_version=1,
    max_version=3,
    handle=handle,
    refuse=refuse_whole(DescribeAclsResponse),
)
