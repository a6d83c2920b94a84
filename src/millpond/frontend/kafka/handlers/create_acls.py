"""CreateAcls: refused one by one, because they would not be enforced."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode
from millpond.frontend.kafka.handlers import _acl_words
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(_context: Context, request: Request) -> Result:
    message: CreateAclsRequest = decode(request)
    for one in message.creations:
        _acl_words.check(
            one.resource_type, one.resource_pattern_type, one.operation, one.permission_type
        )
    results = [
        AclCreationResult(
            error_code=_acl_words.NO_AUTHORIZER, error_message=_acl_words.NO_AUTHORIZER_MESSAGE
        )
        for _ in message.creations
    ]
    return encode(request, CreateAclsResponse(results=results))


HANDLER = Handler(api_key=ApiKey.CREATE_ACLS, min_version=1, max_version=3, handle=handle)
