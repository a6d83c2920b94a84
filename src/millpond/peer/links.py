"""Connections to the other nodes of the cluster: ``engine.peers.Peers`` over sockets.

One connection for each peer and purpose (``ConnectionKind``), opened when it is first needed. A
connection that breaks, or on which an answer does not come in time, is closed and made anew at the next
call; a peer that cannot be reached is not tried more often than a back-off allows, and meanwhile calls fail
at once. Calling again is up to the caller.
"""

import asyncio
import logging
from typing import Any, TypeVar

from millpond.base.clock import Clock
from millpond.base.errors import MillpondError, PeerNotProved, PeerUnreachable, WrongCluster
from millpond.base.ids import NodeId
from millpond.base.rng import Rng
from millpond.engine.node.node import Node
from millpond.engine.peers import PeerRequest
from millpond.peer.calls import ConnectionKind
from millpond.peer.connection import PeerConnection, Prove
from millpond.peer.proof import Asking, ClusterSecret, Destination, nonce_from
from millpond.peer.quorum import APIS_OF, Sender
from millpond.peer.quorum_asking import addresses_in, answer_of, to_wire
from millpond.peer.table import CALLS
from millpond.peer.versions import Versions
from millpond.peer.watch import is_refused, until_refused
from millpond.raft.messages import Answer, Fetch, FetchSnapshot, ReplicaKey, Request
from millpond.wire.kafka.api import APIS

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

_BACKOFF_MS_MIN = 20
_BACKOFF_MS_MAX = 1_000

# A connection that takes longer does not come: its packets are lost, and the next try sends new ones sooner
# than the system would repeat the old ones.
_CONNECT_MS_MAX = 5_000

# How often it is said of a node that it cannot prove what it is.
_SAID_MS = 60_000

_NOT_PROVED = "it has not proved that it is a node of this cluster"

# Long polls of the quorum are not in the way of votes.
_FETCHING = (Fetch, FetchSnapshot)


class _Link:
    """The connection to one peer for one purpose, as far as there is one."""

    def __init__(self, node: NodeId, clock: Clock, policy: "_ProofPolicy") -> None:
        self._node = node
        self._clock = clock
        self._policy = policy
        self._connection: PeerConnection | None = None
        self._address: tuple[str, int] | None = None
        self._connecting = asyncio.Lock()
        self._not_before_ms = 0
        self._backoff_ms = _BACKOFF_MS_MIN
        # Why the last connection was not used, if its ends did not prove that they belong together.
        self._refused: tuple[type[MillpondError], str] | None = None

    async def call(
        self,
        address: tuple[str, int],
        versions: Versions,
        message: object,
        *,
        client_id: str | None,
        timeout_ms: int,
        leave_by_ms: int | None = None,
    ) -> Any:
        """The message of the answer. Raises ``PeerUnreachable``."""
        connection: PeerConnection | None = None
        spec = APIS[versions.api_key]
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connected(address)
                version = self._common(connection, versions)
                if leave_by_ms is not None and self._clock.monotonic_ms() > leave_by_ms:
                    # The connection stays for the next request, which leaves at once.
                    raise PeerUnreachable(
                        "the connection was made too late to send what waited for it"
                    )
                body = await connection.ask(
                    versions.api_key,
                    version,
                    spec.encode_request(message, version),
                    client_id=client_id,
                )
                # It may have become necessary while the answer was awaited.
                self._policy.check(self._node, connection)
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
                if not self._policy.refuses(self._connection):
                    return self._connection
                # It was opened when no proof was required; a new one may bring it.
                self._connection.close(_NOT_PROVED)
            if self._clock.monotonic_ms() < self._not_before_ms:
                if self._refused is not None:
                    kind, reason = self._refused
                    raise kind(reason)
                raise PeerUnreachable(f"{address[0]}:{address[1]} cannot be reached")
            # Until it has succeeded: not every caller is to wait for a connection that never comes.
            self._put_off()
            self._refused = None
            try:
                async with asyncio.timeout(_CONNECT_MS_MAX / 1000):
                    proof = self._policy.proof_for(self._node)
                    connection = await PeerConnection.open(*address, proof=proof)
                self._policy.check(self._node, connection)
            except TimeoutError:
                raise PeerUnreachable(
                    f"{address[0]}:{address[1]} says nothing within {_CONNECT_MS_MAX} ms"
                ) from None
            except (PeerNotProved, WrongCluster) as error:
                self._refused = type(error), str(error)
                raise
            self._connection = connection
            self._backoff_ms, self._not_before_ms = _BACKOFF_MS_MIN, 0
            return connection

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


class _ProofPolicy:
    """Which peers this node believes: those that proved to be of its cluster, once that is required."""

    def __init__(self, own: NodeId, clock: Clock, rng: Rng, secret: ClusterSecret | None) -> None:
        self._own = own
        self._clock = clock
        self._rng = rng
        self._secret = secret
        self._said_ms: dict[NodeId, int] = {}
        self.engine: Node | None = None

    def proof_for(self, node: NodeId) -> Prove | None:
        """How this node proves to that one what it is; None if it cannot. A negative number is of an address
        behind which any node may be.
        """
        secret, engine = self._secret, self.engine
        if secret is None or engine is None:
            return None
        nonce = nonce_from(lambda: self._rng.uuid4().bytes)
        wanted = node if node >= 0 else None
        return lambda dialled, reached: Asking(
            secret,
            self._own,
            engine.info.cluster_id,
            nonce,
            to=Destination(wanted, dialled, reached),
        )

    def refuses(self, connection: PeerConnection) -> bool:
        """Whether what comes by this connection is not believed, as things are now."""
        if connection.unproved is None:
            return False
        assert self.engine is not None
        return self.engine.metadata.requires_proof_of_answers or (
            connection.is_refuted and self.engine.metadata.requires_proof
        )

    def check(self, node: NodeId, connection: PeerConnection) -> None:
        """Raises ``PeerNotProved``. What is let pass without proof is said, but not all the time."""
        reason = connection.unproved
        if reason is None:
            return
        is_required = self.refuses(connection)
        if is_required or self._secret is not None:
            self._say(node, connection, reason, is_required=is_required)
        if is_required:
            connection.close(_NOT_PROVED)
            raise PeerNotProved(f"{connection.address}: {reason}")

    def _say(
        self, node: NodeId, connection: PeerConnection, reason: str, *, is_required: bool
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        said_ms = self._said_ms.get(node)
        if said_ms is not None and now_ms - said_ms < _SAID_MS:
            return
        self._said_ms[node] = now_ms
        if is_required:
            log.error(
                "node %d at %s: not talked to, because the two nodes cannot prove to each other that they "
                "belong to one cluster: %s. %s",
                node,
                connection.address,
                reason,
                _cure_of(reason),
            )
        else:
            log.warning(
                "node %d at %s: believed without proof as long as the cluster is at its level of "
                "millpond.version: %s. Give every node the same cluster.secret before you upgrade the level",
                node,
                connection.address,
                reason,
            )


def _cure_of(reason: str) -> str:
    """What to do about a node that is not believed."""
    if "secret" in reason:
        return "Give every node the same cluster.secret (`millpond node secret`)"
    return (
        "Check that this is the node's address and that no other process was started with its node.id; if "
        "so, give every node the same cluster.secret (`millpond node secret`)"
    )


class PeerLinks:
    """All links of a node. ``attach`` the engine before it starts."""

    def __init__(
        self,
        own: NodeId,
        clock: Clock,
        rng: Rng,
        *,
        listener: str | None = None,
        secret: ClusterSecret | None = None,
    ) -> None:
        """``listener`` is the one that nodes use among themselves; any will do without it. ``secret`` is what
        nodes of the cluster know each other by.
        """
        self._policy = _ProofPolicy(own, clock, rng, secret)
        self._own = own
        self._clock = clock
        self._listener = listener
        self._client_id = f"node-{own}"
        self._engine: Node | None = None
        self._links: dict[tuple[NodeId, str], _Link] = {}
        # Where nodes are that an answer spoke of.
        self._learned: dict[NodeId, tuple[str, int]] = {}

    def attach(self, engine: Node) -> None:
        """Set the node whose links these are: it knows the voters and where each node is registered."""
        self._engine = self._policy.engine = engine

    def close(self) -> None:
        """Close every connection."""
        for link in self._links.values():
            link.close()

    # --- Peers ------------------------------------------------------------------------------------

    async def call(self, to: NodeId, request: PeerRequest[AnswerT], *, timeout_ms: int) -> AnswerT:
        """Ask a node. Raises ``PeerUnreachable`` if no answer comes, or what the peer refuses with."""
        call = CALLS[type(request)]
        message = call.to_wire(request)
        response = await self._ask(to, call.connection.value, call.versions, message, timeout_ms)
        answer: AnswerT = call.from_wire(request, response)
        return answer

    async def ask_quorum(
        self, to: NodeId, request: Request, *, timeout_ms: int, leave_by_ms: int | None = None
    ) -> Answer:
        """Ask a replica of the quorum. Raises ``PeerUnreachable``; refusals are in the answer."""
        assert self._engine is not None
        versions = APIS_OF[type(request)]
        voters = self._engine.metadata.quorum.voters
        voter, own = voters.get(to), voters.get(self._own)
        sender = Sender(
            cluster_id=self._engine.info.cluster_id,
            to=voter.key if voter is not None else ReplicaKey(to),
            end_points=own.endpoints if own is not None else (),
            wait_ms=self._engine.metadata.quorum.settings.fetch_wait_ms,
        )
        purpose = ConnectionKind.QUORUM.value + ("-fetch" if isinstance(request, _FETCHING) else "")
        response = await self._ask(
            to, purpose, versions, to_wire(request, sender), timeout_ms, leave_by_ms
        )
        for node, host, port in addresses_in(response):
            self._learned[node] = (host, port)
        return answer_of(request, response)

    async def until_gone(self, node: NodeId) -> bool:
        """Return when no process listens at the node's address: True if one did before."""
        address = self._address_of(node, "")
        if address is None:
            await asyncio.Event().wait()
            return False
        return await until_refused(*address)

    async def is_gone(self, node: NodeId) -> bool:
        """Return whether no process listens at the node's address."""
        address = self._address_of(node, "")
        return address is not None and await is_refused(*address)

    async def reason_against(
        self, node: NodeId, address: tuple[str, int] | None = None
    ) -> str | None:
        """Why this node and that one, at this address or where it is known to be, could not prove that they
        belong to one cluster; None if they could.
        """
        address = address or self._address_of(node, "")
        if address is None:
            return "nobody knows where it is"
        try:
            async with asyncio.timeout(_CONNECT_MS_MAX / 1000):
                connection = await PeerConnection.open(*address, proof=self._policy.proof_for(node))
        except TimeoutError:
            return f"{address[0]}:{address[1]} says nothing within {_CONNECT_MS_MAX} ms"
        except (PeerUnreachable, WrongCluster) as error:
            return str(error)
        connection.close()
        return connection.unproved

    # --- inside -----------------------------------------------------------------------------------

    async def _ask(
        self,
        to: NodeId,
        purpose: str,
        versions: Versions,
        message: object,
        timeout_ms: int,
        leave_by_ms: int | None = None,
    ) -> Any:
        link, address = self._find(to, purpose)
        return await link.call(
            address,
            versions,
            message,
            client_id=self._client_id,
            timeout_ms=timeout_ms,
            leave_by_ms=leave_by_ms,
        )

    def _find(self, to: NodeId, purpose: str) -> tuple[_Link, tuple[str, int]]:
        address = self._address_of(to, purpose)
        if address is None:
            raise PeerUnreachable(f"node {to}: nobody knows where it is")
        link = self._links.get((to, purpose))
        if link is None:
            link = self._links[to, purpose] = _Link(to, self._clock, self._policy)
        return link, address

    def _address_of(self, to: NodeId, purpose: str) -> tuple[str, int] | None:
        assert self._engine is not None
        if purpose.startswith(ConnectionKind.QUORUM.value):
            voter = self._engine.metadata.quorum.voters.get(to)
            if voter is not None and voter.endpoints:
                return voter.endpoints[0].host, voter.endpoints[0].port
        return self._engine.metadata.address_of(to, self._listener) or self._learned.get(to)
