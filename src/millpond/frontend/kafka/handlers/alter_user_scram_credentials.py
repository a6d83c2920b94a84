"""AlterUserScramCredentials: who can log in by SCRAM from now on (KIP-554)."""

from millpond.base.errors import MillpondError
from millpond.engine.api import RemoveCredential, SetCredential
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(context: Context, request: Request) -> Payload:
    message: AlterUserScramCredentialsRequest = decode(request)
    commands: list[RemoveCredential | SetCredential] = [
        *(RemoveCredential(user=one.name, mechanism=one.mechanism) for one in message.deletions),
        *(
            SetCredential(
                user=one.name,
                mechanism=one.mechanism,
                iterations=one.iterations,
                salt=bytes(one.salt),
                salted_password=bytes(one.salted_password),
            )
            for one in message.upsertions
        ),
    ]
    results = await context.engine.admin.alter_credentials(commands)
    return encode(
        request, AlterUserScramCredentialsResponse(results=[_result(*one) for one in results])
    )


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: AlterUserScramCredentialsRequest = decode(request)
    named = [*(one.name for one in message.deletions), *(one.name for one in message.upsertions)]
    results = [
        AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None)
        for user in dict.fromkeys(named)
    ]
    return encode(request, AlterUserScramCredentialsResponse(results=results))


def _result(user: str, error: MillpondError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=0 if error is None else code_of(error),
        error_message=None if error is None else str(error),
    )


HANDLER = Handler(
    api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
)
