"""The end of a connection while the client still says something: whoever closes it, the client hears of it.

A socket that is closed with bytes unread is reset, and what was on its way to the client goes with it.
"""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.wire.amqp.client import ClientConnection, ConnectOptions
from millpond.wire.amqp.content import content_frames, method_frame
from millpond.wire.amqp.events import ChannelOpened, OpenRequested
from millpond.wire.amqp.methods import (
    BasicPublish,
    BasicQos,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
)
from millpond.wire.amqp.properties import Properties, encode_properties
from millpond.wire.shape import received
from tests.interop.amqp.answers import frames_of
from tests.interop.amqp.brokers import AmqpPeer, Broker
from tests.interop.amqp.conftest import Alike
from tests.interop.amqp.test_tls import HOST, SecureBroker
from tests.support.processes.certificates import Authority

TIMEOUT_S = 60
# Far more than the buffers of two sockets hold, so that the broker has not read it all when it answers.
FLOOD_BYTES = 24 * 1024 * 1024


def flood() -> bytes:
    """Messages for nobody, which are on their way when the connection ends."""
    properties = encode_properties(Properties())
    publish = method_frame(1, BasicPublish(exchange="amq.fanout"))
    message = publish + content_frames(1, properties, b"x" * 60_000, 131_072)
    return message * (FLOOD_BYTES // len(message))


def opened(connection: socket.socket) -> None:
    """Logged in, with channel 1."""
    connection.settimeout(TIMEOUT_S)
    client = ClientConnection(ConnectOptions(client_properties={"capabilities": {}}))
    wanted: list[type] = [OpenRequested, ChannelOpened]
    while wanted:
        connection.sendall(b"".join(client.data_to_send()))
        for event in received(client, connection.recv(65536)):
            assert isinstance(event, wanted.pop(0))
            if wanted:
                client.open_channel(1)


def heard(connection: socket.socket, last: str) -> bytes:
    """What comes up to the end, or to this method."""
    data = b""
    while not (data and frames_of(data)[-1].startswith(last)):
        more = connection.recv(65536)
        if not more:
            break
        data += more
    return data


def end(connection: socket.socket, first: bytes, last: str) -> list[str]:
    """Says something after which the connection is over, and much more before it listens."""
    try:
        connection.sendall(first + flood())
        answer = heard(connection, last)
    except OSError as error:
        return [type(error).__name__]
    return ["all was sent", *(line.partition(" b")[0] for line in frames_of(answer))]


def leave(connection: socket.socket, answer: Method | None = None) -> None:
    """The client ends the connection; nothing comes any more, not even a reset."""
    if answer is not None:
        connection.sendall(method_frame(0, answer))
    if isinstance(connection, ssl.SSLSocket):
        connection.unwrap()
    else:
        with contextlib.suppress(OSError):  # the broker may have ended it already
            connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536) == b""


def raw_closing(peer: AmqpPeer) -> list[str]:
    with socket.create_connection(("127.0.0.1", peer.port), TIMEOUT_S) as connection:
        opened(connection)
        lines = end(connection, method_frame(0, ConnectionClose(reply_code=200)), "method 10.51")
        if peer.is_millpond:
            leave(connection)
        return lines


def raw_closed(peer: AmqpPeer) -> list[str]:
    with socket.create_connection(("127.0.0.1", peer.port), TIMEOUT_S) as connection:
        opened(connection)
        lines = end(connection, method_frame(7, BasicQos()), "method 10.50")
        if peer.is_millpond:
            leave(connection, ConnectionCloseOk())
        return lines


def test_a_client_that_closes_hears_that_it_is_closed(alike: Alike) -> None:
    assert alike(raw_closing) == ["all was sent", "method 10.51"]


def test_a_client_that_is_closed_hears_why(alike: Alike) -> None:
    assert alike(raw_closed) == ["all was sent", "method 10.50"]


def test_a_client_that_is_not_understood_hears_why(amqp_broker: Broker) -> None:
    """RabbitMQ does not listen any more then, so that its words may get lost."""
    with socket.create_connection(("127.0.0.1", amqp_broker.amqp_port), TIMEOUT_S) as connection:
        opened(connection)
        cut_short = method_frame(1, BasicQos())[:-1] + b"?"
        assert end(connection, cut_short, "method 10.50") == ["all was sent", "method 10.50"]
        leave(connection)


# --- over TLS -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure_broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path_factory.mktemp("tls"), authority)
    with broker.process:
        yield broker


@contextlib.contextmanager
def secured(broker: SecureBroker, certificate: Path) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(certificate))
    with (
        socket.create_connection((HOST, broker.secure_port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as connection,
    ):
        opened(connection)
        yield connection


@pytest.mark.parametrize(
    ("first", "last", "answer"),
    [
        (method_frame(0, ConnectionClose(reply_code=200)), "method 10.51", None),
        (method_frame(7, BasicQos()), "method 10.50", ConnectionCloseOk()),
    ],
    ids=["the client closes", "the broker closes"],
)
def test_the_end_is_heard_over_tls(
    secure_broker: SecureBroker,
    authority: Authority,
    first: bytes,
    last: str,
    answer: Method | None,
) -> None:
    with secured(secure_broker, authority.own.certificate) as connection:
        assert end(connection, first, last) == ["all was sent", last]
        leave(connection, answer)
