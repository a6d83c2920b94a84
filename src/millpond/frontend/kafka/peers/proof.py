"""How a node proves to another that it belongs to the cluster, and the other to it: ``MILLPOND-CLUSTER``.

Every node of a cluster has the same secret. The node that connects asks for the mechanism by SaslHandshake,
as Kafka's brokers do, and two rounds of SaslAuthenticate follow:

    1. asker: version, its number, its cluster's id, its nonce    answerer: version, its number, its nonce
    2. asker: HMAC(secret, "asker", all of the above)             answerer: HMAC(secret, "answerer", …)

Each side proves that it knows the secret, for this connection (both nonces), in its role (a proof cannot be
sent back to its maker) and in this cluster. The asker proves first: a client without the secret gets nothing
that it could try secrets against. What follows on the connection is neither encrypted nor signed, so that the
proof keeps out clients of the listener, and not those who can change packets on their way.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable
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
_FIRST: Final = Struct(
    f">Bi{NONCE_BYTES}sH"
)  # version, node, nonce, size of the cluster id behind it
_SECOND: Final = Struct(f">Bi{NONCE_BYTES}s")  # version, node, nonce
_NODES: Final = Struct(">ii")
_ASKER: Final = b"asker"
_ANSWERER: Final = b"answerer"


class ClusterSecret:
    """What all nodes of a cluster know and nobody else does. It shows itself to no one but ``text``."""

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


class _Exchange:
    """What both sides know of an exchange, for the codes over it."""

    def __init__(self, secret: ClusterSecret, node: NodeId, cluster_id: str, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._secret = secret
        self._node = node
        self._cluster_id = cluster_id.encode()
        self._nonce = nonce

    def _proof(
        self, role: bytes, *, asker: tuple[NodeId, bytes], answerer: tuple[NodeId, bytes]
    ) -> bytes:
        nodes = _NODES.pack(asker[0], answerer[0])
        return self._secret.prove(role, self._cluster_id, nodes, asker[1], answerer[1])


class Asking(_Exchange):
    """The side that has connected."""

    _sides: dict[str, tuple[NodeId, bytes]]

    def first(self) -> bytes:
        """What the first round sends."""
        size = len(self._cluster_id)
        return _FIRST.pack(_VERSION, self._node, self._nonce, size) + self._cluster_id

    def second(self, answer: bytes) -> bytes:
        """What the second round sends, given what the first one brought. Raises ``RemoteProtocolError``."""
        try:
            version, node, nonce = _SECOND.unpack(answer)
        except struct.error:
            raise RemoteProtocolError("its challenge cannot be read") from None
        if version != _VERSION:
            raise RemoteProtocolError(f"its challenge has version {version}")
        self._sides = {"asker": (self._node, self._nonce), "answerer": (node, nonce)}
        return self._proof(_ASKER, **self._sides)

    def check(self, answer: bytes) -> None:
        """Raises ``ProofFailed`` unless the second answer proves that the other side has the secret."""
        if not hmac.compare_digest(answer, self._proof(_ANSWERER, **self._sides)):
            raise ProofFailed("it could not prove that it knows this cluster's secret")


class Answering(_Exchange):
    """The side that was connected to."""

    _sides: dict[str, tuple[NodeId, bytes]] | None = None
    # Whether the asker has proved that it is a node, which one and of which cluster it says it is,
    # and whether all rounds are done.
    is_proved = False
    asker: NodeId = -1
    cluster_id = ""
    is_over = False

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
        self.is_proved = True
        return self._proof(_ANSWERER, **self._sides)

    def _challenge(self, data: bytes) -> bytes:
        try:
            version, node, nonce, size = _FIRST.unpack_from(data)
        except struct.error:
            raise RemoteProtocolError("the beginning of a proof cannot be read") from None
        cluster_id = data[_FIRST.size :]
        if version != _VERSION or len(cluster_id) != size:
            raise RemoteProtocolError("the beginning of a proof cannot be read")
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
