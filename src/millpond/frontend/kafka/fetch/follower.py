"""A follower's Fetch: the records of partitions that this node leads, within the follower's session.

The session is the engine's (``engine/replication/follower_sessions.py``); here requests and responses are
translated (``peers/replica_fetch.py``).
"""

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.handler import Context, Payload
from millpond.frontend.kafka.peers.replica_fetch import fetched_of, question_of
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.fetch import FetchRequest, encode_fetch_response


async def answer(context: Context, request: Request, fetch: FetchRequest) -> Payload:
    """Answer a follower, possibly after waiting for records."""
    version = request.api_version
    try:
        answered = await context.engine.peer_handlers.answer(question_of(fetch))
    except MillpondError as error:
        return encode_fetch_response((), version, error_code=code_of(error))
    return encode_fetch_response(
        fetched_of(answered.reads), version, session_id=answered.session_id
    )
