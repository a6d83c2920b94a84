"""What all Kafka connections of a node share: the handlers, the fetch sessions, and a limit on
complaining.
"""

import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.engine.api import Engine
from millpond.engine.api.limits import RequestMemory, request_bytes_max
from millpond.engine.api.runtime import Turns
from millpond.frontend.kafka.all_topics import AllTopics
from millpond.frontend.kafka.fetch_sessions import FetchSessions
from millpond.frontend.kafka.forwarding import FORWARDED, carry_out, forwarded
from millpond.frontend.kafka.handler import Context, Deferred, Handler, Payload
from millpond.frontend.kafka.handlers import HANDLERS, api_versions
from millpond.frontend.kafka.session import KafkaSession
from millpond.frontend.kafka.share_sessions import ShareSessions
from millpond.peer.forwarded_request import ForwardedRequest
from millpond.peer.proof import ClusterSecret
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import SCRATCH_BYTES, Request

if TYPE_CHECKING:
    from millpond.frontend.kafka.pending import Writer

log = logging.getLogger(__name__)

_SMALL_MACHINE_BYTES = 4 * 1024**3

# What a node answers before it has joined its cluster: what its peers need of it to agree, and to join.
_PEER_APIS = frozenset(
    {
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.API_VERSIONS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CREATE_TOPICS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ENVELOPE,
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.VOTE,
    }
)


class Complaints:
    """Warnings that a peer can cause: so many a minute, one for each peer and cause that is named, and then
    how many were left out.
    """

    def __init__(self, clock: Clock, lines_max: int = 60, window_ms: int = 60_000) -> None:
        self._clock = clock
        self._lines_max = lines_max
        self._window_ms = window_ms
        self._window_start_ms = clock.monotonic_ms()
        self._lines = 0
        # What was said in this window of peers that try again and again, and how often it was left out.
        self._said: set[Hashable] = set()
        self._repeated = 0

    def say(self, message: str, *arguments: object, about: Hashable = None) -> None:
        """Log a warning unless there were too many lately, or one ``about`` the same."""
        now = self._clock.monotonic_ms()
        if now - self._window_start_ms >= self._window_ms:
            left_out = max(0, self._lines - self._lines_max) + self._repeated
            if left_out > 0:
                log.warning("%d more connections were closed for cause and not logged", left_out)
            self._window_start_ms = now
            self._lines = self._repeated = 0
            self._said.clear()
        if about in self._said:
            self._repeated += 1
            return
        self._lines += 1
        if self._lines <= self._lines_max:
            if about is not None:
                self._said.add(about)
            log.warning(message, *arguments)


class KafkaFrontend:
    """One for each node; makes the sessions."""

    def __init__(
        self,
        engine: Engine,
        *,
        peers_only: bool = False,
        turns: Turns | None = None,
        secret: ClusterSecret | None = None,
        memory: RequestMemory | None = None,
        own_addresses: Collection[str] = (),
        shared_addresses: Collection[str] = (),
    ) -> None:
        """With ``peers_only`` other nodes are served, and clients when they are let in.

        ``turns`` and ``memory`` are what the connections of all front-ends share; without them, time is the
        engine's, and the bound of memory that of a small machine. Without a ``secret`` no node can prove that
        it is one. ``own_addresses`` are those by which the settings let other nodes find this one, and
        ``shared_addresses`` those behind which any node may be: see ``peer/proof.py``.
        """
        self.engine = engine
        self.secret = secret
        self.own_addresses = own_addresses
        self.shared_addresses = shared_addresses
        self.turns = (
            Turns(*[lambda: engine.runtime.clock.monotonic_ms() * 1_000_000] * 2)
            if turns is None
            else turns
        )
        self.handlers: dict[int, Handler] = {}
        # What this node answers as the controller, and never forwards.
        self.controller_handlers: dict[int, Handler] = {}
        # Clients that came too early: they believe what the first answer says for as long as they are
        # connected, so it is given when it is true of them, too.
        self._waiting: list[tuple[Deferred, Context, Request]] = []
        self._serve(one for one in HANDLERS if not peers_only or one.api_key in _PEER_APIS)
        if peers_only:
            self._serve([replace(api_versions.HANDLER, handle=self._keep_waiting)])
        engine.peer_handlers.serve(ForwardedRequest, carry_out(self))
        self.fetch_sessions = FetchSessions(
            engine.runtime.rng,
            engine.runtime.clock,
            slots=engine.settings.get("max.incremental.fetch.session.cache.slots"),
        )
        self.share_sessions = ShareSessions(
            slots=engine.settings.get("group.share.max.share.sessions")
        )
        self.request_bytes_max: int = min(
            engine.settings.get("socket.request.max.bytes"), limits.REQUEST_BYTES_MAX
        )
        self._fetch_bytes_max: int = min(
            engine.settings.get("fetch.max.bytes"), limits.FETCH_RESPONSE_BYTES_MAX
        )
        queued_max = engine.settings.get("queued.max.request.bytes")
        self.memory = memory or RequestMemory(request_bytes_max(queued_max, _SMALL_MACHINE_BYTES))
        # What request quotas measure by.
        self.counter_ns: Callable[[], int] = time.perf_counter_ns
        # What clients that do not keep up leave lying in memory, all together.
        self.stalled_bytes = 0
        self.complaints = Complaints(engine.runtime.clock)
        self.all_topics = AllTopics()
        # What any connection reads into; taken out again before the next one reads.
        self.scratch = bytearray(SCRATCH_BYTES)

    def let_clients_in(self) -> None:
        """Serve clients, too. Sessions that are open share the table."""
        self._serve(HANDLERS)
        waiting, self._waiting = self._waiting, []
        for deferred, context, request in waiting:
            deferred.resolve(api_versions.handle(context, request))

    def _keep_waiting(self, context: Context, request: Request) -> Deferred:
        deferred = Deferred(is_idle=True)
        self._waiting.append((deferred, context, request))
        return deferred

    def _serve(self, handlers: Iterable[Handler]) -> None:
        for handler in handlers:
            self.handlers[int(handler.api_key)] = forwarded(handler)
            if handler.api_key in FORWARDED:
                self.controller_handlers[int(handler.api_key)] = handler

    @property
    def fetch_bytes_max(self) -> int:
        """Record bytes that one fetch may answer now, beyond its first batch."""
        return self._fetch_bytes_max if self.stalled_bytes < limits.STALLED_BYTES_MAX else 0

    def connection_wait_ms(self, host: str) -> int:
        """Count a new connection. Return for how long to delay the end of one that exceeds its quota."""
        return self.engine.quotas.connect(host, self.engine.runtime.clock.monotonic_ms())

    def session(
        self,
        writer: "Writer",
        *,
        listener: str,
        peer: str = "?",
        local: str = "",
        is_on_trial: bool = False,
        on_node: Callable[[], None] = lambda: None,
    ) -> KafkaSession:
        """A session for a connection that was just made, from ``peer`` to ``local``.

        One that is on trial may only prove that it is a node's. ``on_node`` is called when one has done so.
        """
        return KafkaSession(
            self,
            writer,
            listener=listener,
            peer=peer,
            local=local,
            is_on_trial=is_on_trial,
            on_node=on_node,
        )

    @property
    def trial_handlers(self) -> dict[int, Handler]:
        """Return the handlers of a connection on trial: those that prove that it is a node's."""
        return {
            int(key): self.handlers[key]
            for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
        }

    def unsupported_answer(self, request: Request) -> Payload | None:
        """Return the response to an API or version that is not served; None to close the connection."""
        if request.api_key == ApiKey.API_VERSIONS:
            return api_versions.unsupported_version(self)
        return None
