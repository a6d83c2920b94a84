"""DeleteAcls: refused filter by filter; there are none to delete."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode
from millpond.frontend.kafka.handlers import _acl_words
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(_context: Context, request: Request) -> Result:
    message: DeleteAclsRequest = decode(request)
    for one in message.filters:
        _acl_words.check(
            one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type
        )
    results = [
        DeleteAclsFilterResult(
            error_code=_acl_words.NO_AUTHORIZER, error_message=_acl_words.NO_AUTHORIZER_MESSAGE
        )
        for _ in message.filters
    ]
    return encode(request, DeleteAclsResponse(filter_results=results))


HANDLER = Handler(api_key=ApiKey.DELETE_ACLS, min_version=1, max_version=3, handle=handle)
