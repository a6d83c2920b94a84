"""The other nodes of the cluster, over sockets: ``engine.peers.Peers`` with Kafka's inter-broker APIs.

One connection for each peer and purpose (``Lane``), opened when it is first needed. A connection that breaks,
or on which an answer does not come in time, is closed and made anew at the next question; a peer that cannot
be reached is not tried more often than a back-off allows, and meanwhile whoever asks is told at once. Asking
again is the asker's business.
"""

import asyncio
import logging
from typing import Any, TypeVar

from millpond.base.clock import Clock
from millpond.base.errors import PeerUnreachable
from millpond.base.ids import NodeId
from millpond.engine.api import Engine
from millpond.engine.peers import PeerRequest
from millpond.frontend.kafka.peers.call import Lane
from millpond.frontend.kafka.peers.quorum import APIS_OF, Sender
from millpond.frontend.kafka.peers.quorum_asking import addresses_in, answer_of, to_wire
from millpond.frontend.kafka.peers.table import CALLS
from millpond.frontend.kafka.peers.versions import Versions
from millpond.raft.messages import Answer, Fetch, FetchSnapshot, ReplicaKey, Request
from millpond.server.peer_connection import PeerConnection
from millpond.server.peer_watch import is_refused, until_refused
from millpond.wire.kafka.api import APIS

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

_BACKOFF_MS_MIN = 20
_BACKOFF_MS_MAX = 1_000

# A connection that takes longer does not come: its packets are lost, and the next try sends new ones sooner
# than the system would repeat the old ones.
_CONNECT_MS_MAX = 5_000

# Long polls of the quorum are not in the way of votes.
_FETCHING = (Fetch, FetchSnapshot)


class _Link:
    """The connection to one peer for one purpose, as far as there is one."""

    def __init__(self, node: NodeId, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._connection: PeerConnection | None = None
        self._address: tuple[str, int] | None = None
        self._connecting = asyncio.Lock()
        self._not_before_ms = 0
        self._backoff_ms = _BACKOFF_MS_MIN

    async def ask(
        self,
        address: tuple[str, int],
        versions: Versions,
        message: object,
        *,
        client_id: str | None,
        timeout_ms: int,
    ) -> Any:
        """The message of the answer. Raises ``PeerUnreachable``."""
        connection: PeerConnection | None = None
        spec = APIS[versions.api_key]
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connected(address)
                version = self._common(connection, versions)
                body = await connection.ask(
                    versions.api_key,
                    version,
                    spec.encode_request(message, version),
                    client_id=client_id,
                )
                return spec.decode_response(body, version)
        except TimeoutError:
            reason = f"did not answer {spec.name} within {timeout_ms} ms"
            if connection is not None:
                connection.close(reason)
            raise PeerUnreachable(f"node {self._node} {reason}") from None
        except PeerUnreachable as error:
            raise type(error)(f"node {self._node}, {error}") from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self, address: tuple[str, int]) -> PeerConnection:
        async with self._connecting:
            if self._address != address:
                self.close()
                self._address, self._not_before_ms = address, 0
            if self._connection is not None and self._connection.is_open:
                return self._connection
            if self._clock.monotonic_ms() < self._not_before_ms:
                raise PeerUnreachable(f"{address[0]}:{address[1]} cannot be reached")
            # Until it has succeeded: a connection that never comes must not be waited for by everybody.
            self._put_off()
            try:
                async with asyncio.timeout(_CONNECT_MS_MAX / 1000):
                    self._connection = await PeerConnection.open(*address)
            except TimeoutError:
                raise PeerUnreachable(
                    f"{address[0]}:{address[1]} says nothing within {_CONNECT_MS_MAX} ms"
                ) from None
            self._backoff_ms, self._not_before_ms = _BACKOFF_MS_MIN, 0
            return self._connection

    def _common(self, connection: PeerConnection, versions: Versions) -> int:
        try:
            return versions.common(connection.spoken)
        except PeerUnreachable as error:
            # It may have more to say when it has joined, or has been upgraded.
            connection.close(str(error))
            raise type(error)(f"{connection.address}: {error}") from None

    def _put_off(self) -> None:
        self._not_before_ms = self._clock.monotonic_ms() + self._backoff_ms
        self._backoff_ms = min(self._backoff_ms * 2, _BACKOFF_MS_MAX)


class PeerLinks:
    """All links of a node. ``attach`` the engine before it starts."""

    def __init__(self, own: NodeId, clock: Clock, *, listener: str | None = None) -> None:
        """``listener`` is the one that nodes use among themselves; any will do without it."""
        self._own = own
        self._clock = clock
        self._listener = listener
        self._client_id = f"node-{own}"
        self._engine: Engine | None = None
        self._links: dict[tuple[NodeId, str], _Link] = {}
        # Where nodes are that an answer spoke of.
        self._learned: dict[NodeId, tuple[str, int]] = {}

    def attach(self, engine: Engine) -> None:
        """Whose peers they are: it knows who votes and who is registered where."""
        self._engine = engine

    def close(self) -> None:
        """Close every connection."""
        for link in self._links.values():
            link.close()

    # --- Peers ------------------------------------------------------------------------------------

    async def call(self, to: NodeId, request: PeerRequest[AnswerT], *, timeout_ms: int) -> AnswerT:
        """Ask a node. Raises ``PeerUnreachable`` if no answer comes, or what the peer refuses with."""
        call = CALLS[type(request)]
        message = call.to_wire(request)
        response = await self._ask(to, call.lane.value, call.versions, message, timeout_ms)
        answer: AnswerT = call.from_wire(request, response)
        return answer

    async def ask_quorum(self, to: NodeId, request: Request, *, timeout_ms: int) -> Answer:
        """Ask a replica of the quorum. Raises ``PeerUnreachable``; refusals are in the answer."""
        assert self._engine is not None
        versions = APIS_OF[type(request)]
        voters = self._engine.quorum.voters
        voter, own = voters.get(to), voters.get(self._own)
        sender = Sender(
            cluster_id=self._engine.node.cluster_id,
            to=voter.key if voter is not None else ReplicaKey(to),
            end_points=own.endpoints if own is not None else (),
            wait_ms=self._engine.quorum.settings.fetch_wait_ms,
        )
        purpose = Lane.QUORUM.value + ("-fetch" if isinstance(request, _FETCHING) else "")
        response = await self._ask(to, purpose, versions, to_wire(request, sender), timeout_ms)
        for node, host, port in addresses_in(response):
            self._learned[node] = (host, port)
        return answer_of(request, response)

    async def until_gone(self, node: NodeId) -> bool:
        """Return when nobody listens where the node should be; whether it was seen there before."""
        address = self._address_of(node, "")
        if address is None:
            await asyncio.Event().wait()
            return False
        return await until_refused(*address)

    async def is_gone(self, node: NodeId) -> bool:
        """Whether nobody listens where the node should be."""
        address = self._address_of(node, "")
        return address is not None and await is_refused(*address)

    # --- inside -----------------------------------------------------------------------------------

    async def _ask(
        self,
        to: NodeId,
        purpose: str,
        versions: Versions,
        message: object,
        timeout_ms: int,
    ) -> Any:
        link, address = self._find(to, purpose)
        return await link.ask(
            address, versions, message, client_id=self._client_id, timeout_ms=timeout_ms
        )

    def _find(self, to: NodeId, purpose: str) -> tuple[_Link, tuple[str, int]]:
        address = self._address_of(to, purpose)
        if address is None:
            raise PeerUnreachable(f"node {to}: nobody knows where it is")
        link = self._links.get((to, purpose))
        if link is None:
            link = self._links[to, purpose] = _Link(to, self._clock)
        return link, address

    def _address_of(self, to: NodeId, purpose: str) -> tuple[str, int] | None:
        assert self._engine is not None
        if purpose.startswith(Lane.QUORUM.value):
            voter = self._engine.quorum.voters.get(to)
            if voter is not None and voter.endpoints:
                return voter.endpoints[0].host, voter.endpoints[0].port
        return self._engine.address_of(to, self._listener) or self._learned.get(to)
