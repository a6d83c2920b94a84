"""A follower's Fetch: the records of partitions that this node leads, within the follower's session.

``peer/replica_fetch.py`` translates it for the engine, which keeps the session.
"""

from millpond.frontend.kafka.handler import Context, Payload
from millpond.peer import replica_fetch
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.fetch import FetchRequest


async def answer(context: Context, request: Request, fetch: FetchRequest) -> Payload:
    """Answer a follower, possibly after waiting for records."""
    return await replica_fetch.answer(context.engine.peer_handlers, fetch, request.api_version)
