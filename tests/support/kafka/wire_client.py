"""One plain socket to a Kafka server, for tests that choose every version and every byte themselves."""

import secrets
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from millpond.peer.proof import (
    MECHANISM,
    NONCE_BYTES,
    Asking,
    ClusterSecret,
    Destination,
    address_text,
)
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import ClientConnection, Response
from millpond.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from millpond.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from millpond.wire.shape import NEED_DATA

TIMEOUT_S = 60.0


class ConnectionEnded(Exception):
    """The server closed the connection before it answered."""


class WireClient:
    """`with WireClient(port) as link: link.ask(ApiKey.METADATA, 12, MetadataRequest())`."""

    def __init__(self, port: int, *, timeout_s: float = TIMEOUT_S, host: str = "127.0.0.1") -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._connect()

    @property
    def socket(self) -> socket.socket:
        """The socket itself, for bytes that are no request."""
        return self._socket

    def ask(self, api_key: int, version: int, message: object) -> Any:
        """Send a request (a message or an encoded body) and answer the decoded response."""
        self.send(api_key, version, message)
        return self.receive().message

    def send(
        self, api_key: int, version: int, message: object, *, expect_response: bool = True
    ) -> None:
        """Send a request and do not wait."""
        frame = self._connection.send(api_key, version, message, expect_response=expect_response)
        self._socket.sendall(frame)

    def receive(self) -> Response:
        """Wait for the answer to the oldest open request."""
        while True:
            event = self._connection.next_event()
            if event is not NEED_DATA:
                assert isinstance(event, Response)
                return event
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionEnded
            self._connection.receive_data(data)

    def prove(self, data: Path) -> None:
        """Prove to the Millpond node with this data directory that this is a node of its cluster."""
        secret = ClusterSecret((data / "cluster.secret").read_text())
        lines = (data / "meta.properties").read_text().splitlines()
        (cluster,) = (line.partition("=")[2] for line in lines if line.startswith("cluster.id="))
        to = Destination(
            None,
            address_text(self._host, self._port),
            address_text(*self._socket.getpeername()[:2]),
        )
        asking = Asking(secret, 99, cluster, secrets.token_bytes(NONCE_BYTES), to=to)
        self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(MECHANISM))
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(asking.first()))
        proof = asking.second(bytes(answer.auth_bytes))
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(proof))
        asking.check(bytes(answer.auth_bytes))

    def reconnect(self) -> None:
        """Start anew on a new socket, after the server closed the old one."""
        self.close()
        self._connect()

    def _connect(self) -> None:
        address = (self._host, self._port)
        self._socket = socket.create_connection(address, timeout=self._timeout_s)
        self._connection = ClientConnection("wire-client")

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> "WireClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
