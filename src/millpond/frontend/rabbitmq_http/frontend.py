"""The front-end of the management API: a request in, an answer out, also for every error."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus

from millpond.base import errors, limits
from millpond.engine.api.limits import RequestMemory
from millpond.engine.api.runtime import Turns
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.amqp.logins import KeysNeeded
from millpond.frontend.rabbitmq_http.access import REALM, STRANGER, Rank, log_in, look_at
from millpond.frontend.rabbitmq_http.clients import close_here, tell
from millpond.frontend.rabbitmq_http.context import API_VERSION, Call, HandlerContext, ListenerInfo
from millpond.frontend.rabbitmq_http.http import Refused, Request, Response, bad_request, not_found
from millpond.frontend.rabbitmq_http.routes import find
from millpond.frontend.rabbitmq_http.session import HttpSession, Writer
from millpond.peer.close_connections import CloseConnections
from millpond.peer.list_clients import ListClients

log = logging.getLogger(__name__)

_PAGE = (
    b"<!DOCTYPE html><title>Millpond</title><p>This is the management API of an AMQP broker. "
    b'There are no pages here; <a href="/api/overview">/api/overview</a> is a beginning.'
)
_NO_SCRIPT = (
    b"rabbitmqadmin is a script of RabbitMQ and not part of Millpond. Unmodified it works with this broker. "
    b"Get it from RabbitMQ:\n"
    b"  curl -fLO https://raw.githubusercontent.com/rabbitmq/rabbitmq-server/v%s/"
    b"deps/rabbitmq_management/bin/rabbitmqadmin\n"
    b"or use `millpond amqp queue`, `millpond amqp exchange` and the other commands of Millpond.\n"
) % API_VERSION.encode()


class Management:
    """The management API of a node."""

    def __init__(self, frontend: AmqpFrontend, doors: Callable[[], Iterable[ListenerInfo]]) -> None:
        self.engine = frontend.engine
        self._context = HandlerContext(frontend, doors)
        self.engine.peer_handlers.serve(ListClients, self._tell)
        self.engine.peer_handlers.serve(CloseConnections, self._close)

    async def _tell(self, request: ListClients) -> bytes:
        return tell(self._context, request)

    async def _close(self, request: CloseConnections) -> int:
        return close_here(self._context, request)

    def session(
        self, writer: Writer, *, peer: str, turns: Turns, memory: RequestMemory
    ) -> HttpSession:
        """Make the session of a connection that was just made."""
        return HttpSession(self, writer, peer=peer, turns=turns, memory=memory)

    def knows(self, request: Request) -> bool:
        """Whether the user who sends a request may log in."""
        try:
            look_at(self._context.frontend.logins, request)
        except (Refused, KeysNeeded):
            return False
        return True

    async def answer(self, request: Request) -> Response:
        """Answer a request. Raises nothing but cancellation."""
        try:
            async with asyncio.timeout(limits.MANAGEMENT_ANSWER_S):
                return await self._answer(request)
        except Refused as error:
            headers = {"www-authenticate": REALM} if error.error == "not_authorized" else {}
            answer = error.response
            return Response(status=answer.status, body=answer.body, headers=headers)
        except errors.LocalProtocolError as error:
            # A name or number that no AMQP table or method can carry.
            return bad_request(str(error)).response
        except errors.MillpondError as error:
            log.warning("peer=%s %s %s: %s", request.peer, request.method, request.target, error)
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", str(error)).response
        except TimeoutError:
            log.warning("peer=%s %s %s: too slow", request.peer, request.method, request.target)
            reason = f"not done within {limits.MANAGEMENT_ANSWER_S} s"
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "timeout", reason).response
        except Exception:
            log.exception("peer=%s %s %s", request.peer, request.method, request.target)
            return Refused(
                HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "see the broker's log"
            ).response

    async def _answer(self, request: Request) -> Response:
        segments = request.segments
        if not segments:
            return Response(body=_PAGE, content_type="text/html")
        if segments[0] == "cli":
            # Where RabbitMQ serves its script. Not with status 200: what is downloaded would be taken for it.
            return Response(status=HTTPStatus.NOT_FOUND, body=_NO_SCRIPT, content_type="text/plain")
        if segments[0] != "api":
            raise not_found()
        found = find(segments[1:])
        if found is None:
            await log_in(self._context.frontend.logins, request)
            raise not_found()
        methods = sorted(
            {*found.handlers, "HEAD", "OPTIONS"} if "GET" in found.handlers else found.handlers
        )
        if request.method == "OPTIONS":
            return Response(status=HTTPStatus.OK, headers={"allow": ", ".join(methods)})
        wanted = found.handlers.get("GET" if request.method == "HEAD" else request.method)
        if wanted is None:
            return Response(
                status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"allow": ", ".join(methods)}
            )
        rank, handler = wanted
        if rank is Rank.NONE:
            visitor = STRANGER
        else:
            visitor = await log_in(self._context.frontend.logins, request)
            visitor.check(rank)
        return await handler(
            Call(context=self._context, request=request, visitor=visitor, place=found.place)
        )
