"""A handler: an API, the versions it answers, and one function.

``handle(context, request)`` runs at once, in order of arrival, and gives

* the payload (buffers of the answer's body): written before anything else happens, no task, no
  future;
* a ``Deferred``: the answer comes later by a plain call; requests behind it are already carried
  out, and their answers wait for their turn (long polls, writes that wait for a flush);
* an awaitable: a coroutine or future; requests behind a *coroutine* wait until it has ended, so
  that a client which creates a topic and asks for it in one breath sees it; a coroutine that gives a
  ``Deferred`` has ended, and those behind it go on;
* ``None``: there is no answer (acks=0).

It may raise any class of ``base.errors``. What means "these bytes are no request" closes the
connection; the rest is answered through ``refuse``, or through the answer's own ``error_code`` when
it has one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from millpond.base.errors import ClusterAuthorizationFailed
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.primitives import BytesLike

if TYPE_CHECKING:
    from millpond.engine.api import Engine
    from millpond.frontend.kafka.frontend import KafkaFrontend
    from millpond.frontend.kafka.session import KafkaSession
    from millpond.peer.proof import Answering

Payload: TypeAlias = Sequence[BytesLike]
T = TypeVar("T")


class Deferred:
    """An answer that comes later. ``cancelled`` is called if the client leaves before it.

    ``is_idle``: nothing is lost if it never comes, because the client only waits for new data.
    """

    __slots__ = ("_payload", "_receiver", "cancelled", "is_idle")

    def __init__(
        self, cancelled: Callable[[], None] | None = None, *, is_idle: bool = False
    ) -> None:
        self.cancelled = cancelled
        self.is_idle = is_idle
        self._payload: Payload | BaseException | None = None
        self._receiver: Callable[[Payload | BaseException], None] | None = None

    def resolve(self, answer: Payload | BaseException) -> None:
        """Give the answer, or why there is none. Only the first counts."""
        if self._payload is not None:
            return
        self._payload = answer
        self.cancelled = None
        if self._receiver is not None:
            self._receiver(answer)

    def deliver_to(self, receiver: Callable[[Payload | BaseException], None]) -> None:
        """Call the receiver with the answer, at once if it is there."""
        self._receiver = receiver
        if self._payload is not None:
            receiver(self._payload)

    async def received(self) -> "Payload":
        """Wait for the answer. A caller that stops waiting gives it up."""
        future: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()

        def settle(answer: "Payload | BaseException") -> None:
            if future.done():
                return
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.deliver_to(settle)
        try:
            return await future
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Give up the answer: the client does not wait for it any more."""
        self._receiver = None
        cancelled, self.cancelled = self.cancelled, None
        if cancelled is not None:
            cancelled()


class Context:
    """The services that a handler may use besides the request; one for each connection."""

    __slots__ = (
        "engine",
        "frontend",
        "is_node",
        "listener",
        "local",
        "peer",
        "proof",
        "session",
        "software_name",
        "software_version",
    )

    def __init__(
        self,
        *,
        engine: "Engine",
        frontend: "KafkaFrontend",
        session: "KafkaSession",
        listener: str,
        peer: str,
        local: str = "",
    ) -> None:
        self.engine = engine
        self.frontend = frontend
        self.session = session
        self.listener = listener
        self.peer = peer
        # The address that the other side is connected to, if it came by a socket (``proof.address_text``).
        self.local = local
        # Whether the other side has proved that it is a node of this cluster, and the proof under way.
        self.is_node = False
        self.proof: Answering | None = None
        # What the client calls itself in ApiVersions; one that does not say is "unknown" (KIP-511).
        self.software_name = "unknown"
        self.software_version = "unknown"

    @property
    def is_believed(self) -> bool:
        """Return whether requests that only nodes may send are answered on this connection."""
        return self.is_node or not self.engine.metadata.requires_proof

    def check_node(self, what: str) -> None:
        """Raises ``ClusterAuthorizationFailed`` unless nodes' requests are answered on this connection."""
        if not self.is_believed:
            self.frontend.complaints.say(
                "peer=%s listener=%s: %s is for nodes of this cluster only, and the sender has not proved "
                "that it is one; refused. If it is a node, give it this cluster's secret, or upgrade it",
                self.peer,
                self.listener,
                what,
            )
            raise ClusterAuthorizationFailed(f"{what} is for nodes of this cluster only")


Result: TypeAlias = (
    Payload | Deferred | Awaitable[Payload] | Awaitable[Payload | Deferred | None] | None
)
Handle: TypeAlias = Callable[[Context, Request], Result]
Refuse: TypeAlias = Callable[[Request, ErrorCode], Payload]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One API as this broker serves it."""

    api_key: ApiKey
    min_version: int
    max_version: int
    handle: Handle
    refuse: Refuse | None = None
    # Loads the handler of a module that is not imported before a client uses its API.
    load: "Callable[[], Handler] | None" = None

    def __post_init__(self) -> None:
        spec = APIS[self.api_key]
        assert spec.min_version <= self.min_version <= self.max_version <= spec.max_version


def handler_in(
    module: str, api_key: ApiKey, versions: tuple[int, int], *, refuses: bool
) -> Handler:
    """A handler whose module is loaded on first use."""

    @cache
    def load() -> Handler:
        found = import_module(module)
        handlers: Sequence[Handler] = getattr(found, "HANDLERS", None) or (found.HANDLER,)
        (handler,) = (one for one in handlers if one.api_key is api_key)
        return handler

    def handle(context: Context, request: Request) -> Result:
        return load().handle(context, request)

    def refuse(request: Request, code: ErrorCode) -> Payload:
        known = load().refuse
        assert known is not None
        return known(request, code)

    return Handler(
        api_key=api_key,
        min_version=versions[0],
        max_version=versions[1],
        handle=handle,
        refuse=refuse if refuses else None,
        load=load,
    )


def decode(request: Request) -> Any:
    """The request as a message. ``RemoteProtocolError`` if it is none."""
    return APIS[request.api_key].decode_request(request.body, request.api_version)


def encode(request: Request, message: Any) -> Payload:
    """The payload of an answer to this request."""
    return (APIS[request.api_key].encode_response(message, request.api_version),)


def without_repeats(items: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """Each thing once, the last that was said of it. Kafka's own requests are maps; and what a request names
    ten thousand times must not be answered ten thousand times, or a small one makes a huge answer.
    """
    return list({key(item): item for item in items}.values())


def refuse_whole(response: Callable[..., Any]) -> Refuse:
    """A ``refuse`` for answers that have one error code for everything."""

    def refuse(request: Request, code: ErrorCode) -> Payload:
        return encode(request, response(error_code=code))

    return refuse
