"""How a node proves to another that it belongs to the cluster, and the other to it: ``MILLPOND-CLUSTER``.

Every node of a cluster has the same secret. The node that connects asks for the mechanism by SaslHandshake,
as Kafka's brokers do, and two rounds of SaslAuthenticate follow:

    1. asker: version, its number, its cluster's id, its nonce,   answerer: version, its number, its nonce
       the node it wants, the address it dialled and reached
    2. asker: HMAC(secret, "asker", all of the above)             answerer: HMAC(secret, "answerer", …)

Each side proves that it knows the secret, for this connection (both nonces), in its role (a proof cannot be
sent back to its maker) and in this cluster. The asker proves first: a client without the secret gets nothing
that it could try secrets against.

A client that has a node connect to it could pass both sides' words on to another node and keep that
connection. So the proof names where it goes: the asker gives no proof to another node than the one it wants,
and the answerer takes none that was sent to another node or to an address that is not its own (``Place``).

What follows on the connection is neither encrypted nor signed, so that the proof keeps out clients of the
listener, and not those who can change packets on their way.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import Final

from millpond.base.errors import (
    ClusterAuthorizationFailed,
    InvalidConfig,
    RemoteProtocolError,
    WrongCluster,
)
from millpond.base.ids import NodeId

MECHANISM: Final = "MILLPOND-CLUSTER"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = hashlib.sha256().digest_size

# As long as a random password that a person can still copy by hand, and no longer than a line of a file.
SECRET_CHARACTERS_MIN: Final = 16
SECRET_CHARACTERS_MAX: Final = 1024

_LABEL: Final = b"millpond cluster proof 1"
_VERSION: Final = 1
# version, node, node that is wanted, nonce; sizes of what follows: cluster id, addresses dialled and reached
_FIRST: Final = Struct(f">Bii{NONCE_BYTES}sHHH")
_SECOND: Final = Struct(f">Bi{NONCE_BYTES}s")  # version, node, nonce
_NODES: Final = Struct(">iii")  # asker, answerer, wanted
_ANY_NODE: Final = -1
_ASKER: Final = b"asker"
_ANSWERER: Final = b"answerer"


class ClusterSecret:
    """The secret that all nodes of a cluster share. Only ``text`` shows it."""

    __slots__ = ("_key", "_text")

    def __init__(self, text: str) -> None:
        """Raises ``InvalidConfig`` for one that is too short or too long; spaces around it do not count."""
        text = text.strip()
        if not SECRET_CHARACTERS_MIN <= len(text) <= SECRET_CHARACTERS_MAX:
            raise InvalidConfig(
                f"a cluster secret has {SECRET_CHARACTERS_MIN} to {SECRET_CHARACTERS_MAX} characters, and "
                f"this one has {len(text)}: make one with `millpond node secret --new`"
            )
        self._text = text
        self._key = hashlib.sha256(text.encode()).digest()

    @property
    def text(self) -> str:
        """To be written to a file that only the node's user can read, or shown to that user."""
        return self._text

    def prove(self, *parts: bytes) -> bytes:
        """A code over these parts that only one who has the secret can make."""
        code = hmac.new(self._key, _LABEL, hashlib.sha256)
        for part in parts:
            code.update(len(part).to_bytes(4))
            code.update(part)
        return code.digest()

    def __repr__(self) -> str:
        return "<ClusterSecret>"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a cluster secret is not to be pickled")


class ProofFailed(ClusterAuthorizationFailed):
    """The other side does not know this cluster's secret, or belongs to another cluster."""


class WrongDestination(ProofFailed):
    """The proof is a node's, and was made for another node or another address: it may have been relayed."""


def address_text(host: str, port: int) -> str:
    """An address as both sides write it: names in lower case, IP addresses in their shortest form."""
    host = host.partition("%")[0].rstrip(".").lower()
    try:
        address = ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    if isinstance(address, IPv6Address):
        return f"{address.ipv4_mapped or address}:{port}"
    return f"{address}:{port}"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a node that connects wants to go."""

    # None: it knows only the address, as of controller.quorum.bootstrap.servers.
    node: NodeId | None
    # The address that it was told (``address_text``), and the one that its socket is connected to.
    dialled: str
    reached: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where the node is that was connected to."""

    # The address of its socket (``address_text``).
    local: str
    # What its settings say about where other nodes find it: behind a proxy or a translation of addresses they
    # dial one of these and reach another than ``local``.
    own: Collection[str] = ()
    # Addresses where any node of the cluster may answer, for those who ask for none in particular.
    shared: Collection[str] = ()

    def check(self, node: NodeId, to: Destination) -> None:
        """Raises ``WrongDestination`` unless this node is where the asker wanted to go."""
        if to.node not in {None, node}:
            raise WrongDestination(f"its proof is for node {to.node}, and this is node {node}")
        if to.reached == self.local and self.local:
            return
        if to.dialled in self.own or (to.node is None and to.dialled in self.shared):
            return
        known = ", ".join(sorted({*self.own, *([self.local] if self.local else [])})) or "?"
        raise WrongDestination(
            f"its proof is for {to.dialled} (its connection goes to {to.reached}), and node {node} is at "
            f"{known}. If a proxy or a translation of addresses is between the two, put the address that "
            f"other nodes dial into advertised.listeners or controller.quorum.voters of node {node}"
        )


class _Exchange:
    """What both sides know of an exchange, for the codes over it."""

    def __init__(self, secret: ClusterSecret, node: NodeId, cluster_id: str, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._secret = secret
        self._node = node
        self._cluster_id = cluster_id.encode()
        self._nonce = nonce
        self._to: Destination

    def _proof(
        self, role: bytes, *, asker: tuple[NodeId, bytes], answerer: tuple[NodeId, bytes]
    ) -> bytes:
        to = self._to
        wanted = _ANY_NODE if to.node is None else to.node
        nodes = _NODES.pack(asker[0], answerer[0], wanted)
        return self._secret.prove(
            role,
            self._cluster_id,
            nodes,
            asker[1],
            answerer[1],
            to.dialled.encode(),
            to.reached.encode(),
        )


class Asking(_Exchange):
    """The side that has connected."""

    _sides: dict[str, tuple[NodeId, bytes]]

    def __init__(
        self, secret: ClusterSecret, node: NodeId, cluster_id: str, nonce: bytes, *, to: Destination
    ) -> None:
        super().__init__(secret, node, cluster_id, nonce)
        self._to = to

    def first(self) -> bytes:
        """What the first round sends."""
        to = self._to
        wanted = _ANY_NODE if to.node is None else to.node
        texts = self._cluster_id, to.dialled.encode(), to.reached.encode()
        start = _FIRST.pack(_VERSION, self._node, wanted, self._nonce, *map(len, texts))
        return b"".join((start, *texts))

    def second(self, answer: bytes) -> bytes:
        """What the second round sends, given what the first one brought. Raises ``RemoteProtocolError``, and
        ``WrongDestination`` if another node answers than the one that is wanted.
        """
        try:
            version, node, nonce = _SECOND.unpack(answer)
        except struct.error:
            raise RemoteProtocolError("its challenge cannot be read") from None
        if version != _VERSION:
            raise RemoteProtocolError(f"its challenge has version {version}")
        if self._to.node not in {None, node}:
            raise WrongDestination(
                f"node {node} answers at {self._to.dialled}, where node {self._to.node} should be"
            )
        self._sides = {"asker": (self._node, self._nonce), "answerer": (node, nonce)}
        return self._proof(_ASKER, **self._sides)

    def check(self, answer: bytes) -> None:
        """Raises ``ProofFailed`` unless the second answer proves that the other side has the secret."""
        if not hmac.compare_digest(answer, self._proof(_ANSWERER, **self._sides)):
            raise ProofFailed("it could not prove that it knows this cluster's secret")


class Answering(_Exchange):
    """The side that was connected to, at a place."""

    _sides: dict[str, tuple[NodeId, bytes]] | None = None
    # Whether the asker has proved that it is a node, which one and of which cluster it says it is,
    # and whether all rounds are done.
    is_proved = False
    asker: NodeId = -1
    cluster_id = ""
    is_over = False

    def __init__(
        self, secret: ClusterSecret, node: NodeId, cluster_id: str, nonce: bytes, *, at: Place
    ) -> None:
        super().__init__(secret, node, cluster_id, nonce)
        self._at = at

    def answer(self, data: bytes) -> bytes:
        """The answer to a round. Raises ``ProofFailed``, ``WrongCluster`` or ``RemoteProtocolError``, after
        which the exchange is over: there is no second try on a connection.
        """
        if self._sides is None:
            self.is_over = True
            challenge = self._challenge(data)
            self.is_over = False
            return challenge
        self.is_over = True
        if not hmac.compare_digest(data, self._proof(_ASKER, **self._sides)):
            raise ProofFailed("its cluster secret is not this node's")
        self._at.check(self._node, self._to)
        self.is_proved = True
        return self._proof(_ANSWERER, **self._sides)

    def _challenge(self, data: bytes) -> bytes:
        try:
            version, node, wanted, nonce, *sizes = _FIRST.unpack_from(data)
        except struct.error:
            raise RemoteProtocolError("the beginning of a proof cannot be read") from None
        if version != _VERSION or len(data) != _FIRST.size + sum(sizes):
            raise RemoteProtocolError("the beginning of a proof cannot be read")
        cluster_end = _FIRST.size + sizes[0]
        dialled_end = cluster_end + sizes[1]
        cluster_id = data[_FIRST.size : cluster_end]
        try:
            self._to = Destination(
                None if wanted == _ANY_NODE else wanted,
                data[cluster_end:dialled_end].decode(),
                data[dialled_end:].decode(),
            )
        except UnicodeDecodeError:
            raise RemoteProtocolError("the beginning of a proof cannot be read") from None
        self.asker = node
        self.cluster_id = cluster_id.decode("utf-8", "replace")
        if cluster_id != self._cluster_id:
            raise WrongCluster(
                f"node {self._node} belongs to cluster {self._cluster_id.decode()}, not to {self.cluster_id}"
            )
        self._sides = {"asker": (node, nonce), "answerer": (self._node, self._nonce)}
        return _SECOND.pack(_VERSION, self._node, self._nonce)


def nonce_from(uuid_bytes: Callable[[], bytes]) -> bytes:
    """A nonce of unpredictable bytes; two random ids have 244 bits that cannot be guessed."""
    return uuid_bytes() + uuid_bytes()
