"""Requests that only the controller can carry out, at any node: a domain of the controller's commands.

At the controller its handler answers a request. Elsewhere the client's own bytes go to the controller in an
Envelope, and the controller's answer goes back as it is; so clients may ask any node, and a handler need not
know where it runs. A request in an envelope is never sent on again: a node that is no longer the controller
says so, and the first one looks for the one that is. While nodes of two releases are one cluster, clients are
told of no version that an old controller does not know.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from millpond.base.errors import InvalidRequest, MillpondError, NotController, UnsupportedVersion
from millpond.engine.api import MILLPOND_VERSION, RESOURCE_BROKER_LOGGER, Engine
from millpond.frontend.kafka.handler import Context, Deferred, Handler, Payload, Result, decode
from millpond.peer.forwarded_request import ForwardedRequest
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.envelope import (
    unwrap_request,
    unwrap_response,
    wrap_request,
    wrap_response,
)
from millpond.wire.kafka.error_codes import code_of

if TYPE_CHECKING:
    from millpond.frontend.kafka.frontend import KafkaFrontend
    from millpond.frontend.kafka.session import KafkaSession

# The newest version of each that a controller knows, by level of ``millpond.version`` from 0 on; the last one
# holds from there on. A new version needs a new level: what a client is told today must be understood by
# whichever node is the controller tomorrow, and until the level is raised that may be an old one.
FORWARDED: Mapping[ApiKey, tuple[int, ...]] = {
    ApiKey.ADD_RAFT_VOTER: (1,),
    ApiKey.ALTER_CLIENT_QUOTAS: (1,),
    ApiKey.ALTER_CONFIGS: (2,),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (1,),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0,),
    ApiKey.CREATE_PARTITIONS: (3,),
    ApiKey.CREATE_TOPICS: (7,),
    ApiKey.DELETE_TOPICS: (6,),
    ApiKey.DESCRIBE_QUORUM: (2,),
    ApiKey.ELECT_LEADERS: (2,),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (1,),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0,),
    ApiKey.REMOVE_RAFT_VOTER: (0,),
    ApiKey.UNREGISTER_BROKER: (0,),
    ApiKey.UPDATE_FEATURES: (2,),
}

# Those that change nothing: the controller answers them at once.
_QUERIES = frozenset((ApiKey.DESCRIBE_QUORUM, ApiKey.LIST_PARTITION_REASSIGNMENTS))

# A client that was told of a change should find it where it asks next; if that takes longer, it asks again.
_LEARN_MS_MAX = 1_000


def newest_version(handler: Handler, engine: Engine) -> int:
    """Up to which version clients are told that they may ask."""
    by_level = FORWARDED.get(handler.api_key)
    if by_level is None:
        return handler.max_version
    level = engine.metadata.image.features.get(MILLPOND_VERSION, 0)
    return min(handler.max_version, by_level[min(level, len(by_level) - 1)])


@dataclass(frozen=True, slots=True)
class _Command:
    """A client's request, with the handler that answers it at the controller."""

    handler: Handler
    context: Context
    request: Request


class _Requests:
    """Kafka's requests as a ``Domain`` of commands."""

    async def decide(self, command: _Command) -> Payload:
        return await _result(command.handler.handle(command.context, command.request))

    def request(self, command: _Command) -> ForwardedRequest:
        return ForwardedRequest(request=wrap_request(command.request), client=command.context.peer)

    async def applied(self, command: _Command, reply: bytes) -> Payload:
        body = unwrap_response(command.request, reply)
        await _learn(command.context.engine, command.request, body)
        return (body,)


_REQUESTS = _Requests()


def forwarded(handler: Handler) -> Handler:
    """The handler as a node has it that may or may not be the controller."""
    if handler.api_key not in FORWARDED:
        return handler

    def handle(context: Context, request: Request) -> Result:
        is_query = handler.api_key in _QUERIES and context.engine.metadata.is_controller
        if is_query or _is_for_this_node(request):
            return handler.handle(context, request)
        return context.engine.commands.submit(_REQUESTS, _Command(handler, context, request))

    return replace(handler, handle=handle)


def carry_out(frontend: "KafkaFrontend") -> "Callable[[ForwardedRequest], asyncio.Future[bytes]]":
    """Return the function by which the controller executes a request that another node forwarded."""

    async def answer(question: ForwardedRequest) -> bytes:
        engine = frontend.engine
        if not engine.metadata.is_controller:
            raise NotController(f"node {engine.info.node_id} is not the controller")
        request = unwrap_request(question.request)
        handler = frontend.controller_handlers.get(request.api_key)
        if handler is None:
            raise InvalidRequest(f"{request!r} cannot be carried out for another node")
        if not handler.min_version <= request.api_version <= handler.max_version:
            raise UnsupportedVersion(
                f"node {engine.info.node_id} is the controller and does not know {request!r}; upgrade it"
            )
        context = Context(
            engine=engine,
            frontend=frontend,
            # What is forwarded has no business with its connection: that is the first node's.
            session=cast("KafkaSession", None),
            listener="",
            peer=question.client,
        )
        return wrap_response(request, await _carried_out(handler, context, request))

    return cast("Callable[[ForwardedRequest], asyncio.Future[bytes]]", answer)


async def _carried_out(handler: Handler, context: Context, request: Request) -> Payload:
    try:
        return await _result(handler.handle(context, request))
    except NotController:
        raise
    except MillpondError as error:
        if handler.refuse is None:
            raise
        return handler.refuse(request, code_of(error))


async def _result(result: Result) -> Payload:
    """Wait for what a handler returned."""
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, Deferred):
        result = await result.received()
    return result or ()


async def _learn(engine: Engine, request: Request, body: bytes) -> None:
    """Wait until topics that were made or removed are so here, too."""
    if request.api_key not in (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS):
        return
    spec = APIS[request.api_key]
    response = spec.decode_response(memoryview(body), request.api_version)
    results = response.topics if request.api_key == ApiKey.CREATE_TOPICS else response.responses
    names = [one.name for one in results if one.error_code == 0 and one.name]
    made = request.api_key == ApiKey.CREATE_TOPICS
    if made and getattr(decode(request), "validate_only", False):
        return
    await engine.metadata.until(
        lambda: all((name in engine.metadata.image.topics) == made for name in names),
        timeout_ms=_LEARN_MS_MAX,
    )


def _is_for_this_node(request: Request) -> bool:
    """The levels of a node's loggers are its own affair."""
    if request.api_key != ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return False
    resources = decode(request).resources
    return bool(resources) and all(one.resource_type == RESOURCE_BROKER_LOGGER for one in resources)
