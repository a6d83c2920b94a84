"""DescribeUserScramCredentials: who can log in by SCRAM; never with what (KIP-554)."""

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(context: Context, request: Request) -> Result:
    message: DescribeUserScramCredentialsRequest = decode(request)
    users = [one.name for one in message.users or ()]
    results = []
    for user, found in context.engine.admin.credentials(users).items():
        result = DescribeUserScramCredentialsResult(user=user, error_message=None)
        if isinstance(found, MillpondError):
            result.error_code = code_of(found)
            result.error_message = str(found)
        else:
            result.credential_infos = [
                CredentialInfo(mechanism=one.mechanism, iterations=one.iterations) for one in found
            ]
        results.append(result)
    return encode(
        request, DescribeUserScramCredentialsResponse(error_message=None, results=results)
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(DescribeUserScramCredentialsResponse),
)
