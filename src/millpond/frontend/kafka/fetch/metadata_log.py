"""The Fetch of the metadata log, by which its voters and observers replicate it (KIP-595).

The node's Raft replica answers it, not a partition. It is encoded by the generated codec, as the quorum's
other APIs are: metadata is small.
"""

import asyncio

from millpond.frontend.kafka.handler import Context, Payload
from millpond.frontend.kafka.quorum import answer_quorum, is_metadata
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.fetch import FetchRequest


def is_read_by(fetch: FetchRequest) -> bool:
    """Return whether the first topic of a request is the metadata log."""
    if not fetch.topics:
        return False
    name, topic_id, _partitions = fetch.topics[0]
    return is_metadata(name, topic_id)


def answer(context: Context, request: Request, _fetch: FetchRequest) -> "asyncio.Future[Payload]":
    """Answer another replica of the metadata log, possibly after waiting for records."""
    return asyncio.ensure_future(answer_quorum(context, request))
