"""Fetch: one request number for three APIs. Decode the request and give it to the API that it is for.

* A consumer sends a negative replica id. ``fetch/consumer.py`` answers it at once, or by a ``Deferred``
  while it waits for data.
* A voter or observer of the metadata log sends a node's id and the topic of that log.
  ``fetch/metadata_log.py`` answers it by a future, so that votes behind a waiting fetch are carried out.
* A follower sends a node's id and any other topic. ``fetch/follower.py`` answers it by a coroutine; a
  follower sends its next fetch after the answer.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import TypeAlias

from millpond.frontend.kafka.fetch import consumer, follower, metadata_log
from millpond.frontend.kafka.handler import Context, Deferred, Handler, Payload, Result
from millpond.frontend.kafka.slices import is_large
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.fetch import FetchRequest, decode_fetch, encode_fetch_response

Answer: TypeAlias = Callable[[Context, Request, FetchRequest], Result]

# In the message of a refusal.
_BY_REPLICA = "Fetch with the id of a replica"


def handle(context: Context, request: Request) -> Result:
    if is_large(request):
        return _handle_large(context, request)
    fetch = decode_fetch(request.body, request.api_version)
    return _api_of(context, fetch)(context, request, fetch)


async def _handle_large(context: Context, request: Request) -> Payload | Deferred | None:
    """Handle a request that takes so long to decode that a thread must do it."""
    fetch = await asyncio.to_thread(decode_fetch, request.body, request.api_version)
    result = _api_of(context, fetch)(context, request, fetch)
    return await result if inspect.isawaitable(result) else result


def _api_of(context: Context, fetch: FetchRequest) -> Answer:
    """Return the API that answers this request. Raise ``ClusterAuthorizationFailed`` if only nodes may use it
    and the client has not proved to be one.
    """
    # Consumers send any negative number: debugging tools send -2.
    if fetch.replica_id < 0:
        return consumer.answer
    context.check_node(_BY_REPLICA)
    return metadata_log.answer if metadata_log.is_read_by(fetch) else follower.answer


def refuse(request: Request, code: ErrorCode) -> Payload:
    # Every version that has sessions has one error code for the whole response.
    return encode_fetch_response((), request.api_version, error_code=code)


HANDLER = Handler(api_key=ApiKey.FETCH, min_version=4, max_version=18, handle=handle, refuse=refuse)
