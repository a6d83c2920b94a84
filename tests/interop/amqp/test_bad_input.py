"""Clients that do not behave, told to a broker process: it stays as large as it was, and nobody else notices.

Each story has a bystander: a connection of pika that publishes, with a confirm, and gets its message back
before, during and after. What bad bytes are answered with is ``test_alike.py``'s business.
"""

import contextlib
import random
import socket
from collections.abc import Iterator

import pika
import pytest

from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.content import FRAME_START, PROTOCOL_HEADER, content_frames, method_frame
from millpond.wire.amqp.events import ChannelOpened, ConnectionClosed
from millpond.wire.amqp.methods import (
    BasicConsume,
    BasicPublish,
    ChannelOpen,
    ConfirmSelect,
    QueueDeclare,
)
from tests.interop.amqp.brokers import Broker
from tests.support.amqp.amqp_client import AmqpClient
from tests.support.processes.ports import wait_until

MIB = 1024 * 1024
# The process may grow by so much in a story that would make it grow without an end.
GROWTH_BYTES_MAX = 48 * MIB
SEED = 20240229
CHANNELS = 10_000


class Bystander:
    """Somebody who behaves."""

    def __init__(self, broker: Broker) -> None:
        self._connection = broker.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.queue_declare("bystander", durable=True)
        self._count = 0

    def look(self) -> None:
        self._count += 1
        body = b"%d" % self._count
        self._channel.basic_publish("", "bystander", body, pika.BasicProperties(delivery_mode=2))
        _method, _properties, found = self._channel.basic_get("bystander", auto_ack=True)
        assert found == body

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("victim"))
    broker.process.properties["channel_max"] = str(CHANNELS)
    with broker.process:
        yield broker


@pytest.fixture
def bystander(victim: Broker) -> Iterator[Bystander]:
    """Checks at the end that nothing happened to it, to the process and to its memory."""
    witness = Bystander(victim)
    witness.look()
    before = victim.process.resident_bytes
    said = len(victim.process.output)
    yield witness
    witness.look()
    witness.close()
    assert victim.process.resident_bytes - before < GROWTH_BYTES_MAX
    assert "Traceback" not in victim.process.output[said:]


def send_until_stuck(
    client: AmqpClient, data: bytes, *, bytes_max: int, bystander: Bystander
) -> int:
    """Send the same again and again, and read nothing, until nobody takes any more. How much it was.

    A broker that is only slow serves a bystander late, too, and takes more after it.
    """
    sent, taken = 0, 1
    client.socket.settimeout(2.0)
    while taken and sent < bytes_max:
        taken = 0
        with contextlib.suppress(TimeoutError):
            while sent + taken < bytes_max:
                taken += client.socket.send(data)
        sent += taken
        bystander.look()
    return sent


def test_ten_thousand_channels(victim: Broker, bystander: Bystander) -> None:
    wish = ConnectOptions(channel_max=CHANNELS)
    with AmqpClient("127.0.0.1", victim.amqp_port, wish) as client:
        numbers = range(1, CHANNELS + 1)
        client.send_raw(b"".join(method_frame(number, ChannelOpen()) for number in numbers))
        client.connection.expect_channels(numbers)
        assert [client.wait() for _number in numbers] == [ChannelOpened(n) for n in numbers]
        bystander.look()
        client.send_raw(method_frame(CHANNELS + 1, ChannelOpen()))
        closed = client.wait()
        assert isinstance(closed, ConnectionClosed)
        assert closed.text == (
            f"NOT_ALLOWED - number of channels opened ({CHANNELS}) has reached the negotiated "
            f"channel_max ({CHANNELS})"
        )


def test_frames_that_claim_to_be_huge(victim: Broker, bystander: Bystander) -> None:
    for _client in range(50):
        with AmqpClient("127.0.0.1", victim.amqp_port) as client:
            client.open_channel(1)
            client.send_raw(FRAME_START.pack(3, 1, 2**32 - 1) + bytes(64 * 1024))
            with contextlib.suppress(OSError):
                assert isinstance(client.wait(), (ConnectionClosed, type(None)))
    bystander.look()


def test_rubbish(victim: Broker, bystander: Bystander) -> None:
    chance = random.Random(SEED)
    for number in range(60):
        with socket.create_connection(("127.0.0.1", victim.amqp_port), 10) as link:
            hello = PROTOCOL_HEADER if number % 2 else b""
            with contextlib.suppress(OSError):
                link.sendall(hello + chance.randbytes(chance.randrange(1, 4_000)))
    bystander.look()


def test_a_publisher_that_reads_nothing(victim: Broker, bystander: Bystander) -> None:
    publish = method_frame(1, BasicPublish(routing_key="nowhere", mandatory=True))
    message = publish + content_frames(1, b"\x00\x00", bytes(8 * 1024), 131_072)
    with AmqpClient("127.0.0.1", victim.amqp_port) as client:
        client.open_channel(1)
        client.send(1, ConfirmSelect())
        client.wait()
        # Every message comes back; nobody reads it, and so after a while nobody listens.
        sent = send_until_stuck(client, message * 100, bytes_max=512 * MIB, bystander=bystander)
        assert sent < 512 * MIB
        bystander.look()
        grown = victim.process.resident_bytes
        bystander.look()
        assert victim.process.resident_bytes - grown < MIB


def test_a_consumer_that_reads_nothing(victim: Broker, bystander: Bystander) -> None:
    body = bytes(32 * 1024)
    with victim.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("much", durable=True)
        for _message in range(2_500):
            channel.basic_publish("", "much", body, pika.BasicProperties(delivery_mode=2))
        channel.queue_declare("much", passive=True)
    with AmqpClient("127.0.0.1", victim.amqp_port) as client:
        client.open_channel(1)
        client.send(1, BasicConsume(queue="much", no_ack=True, consumer_tag="t"))
        for _look in range(20):
            bystander.look()
        # What is on its way to it is bounded, and the rest is there for others.
        with victim.connect() as connection:
            channel = connection.channel()
            left = channel.queue_declare("much", passive=True).method.message_count
            assert left > 0
            channel.queue_delete("much")


def test_a_consumer_that_acknowledges_nothing(victim: Broker, bystander: Bystander) -> None:
    with victim.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("held", durable=True)
        for _message in range(2_000):
            channel.basic_publish("", "held", bytes(10 * 1024))
        channel.queue_declare("held", passive=True)
    with AmqpClient("127.0.0.1", victim.amqp_port) as client:
        client.open_channel(1)
        client.send(1, BasicConsume(queue="held", consumer_tag="t"))
        for _delivery in range(2_001):
            assert client.wait() is not None
        bystander.look()
    # What it took is there again when it is gone, which the broker notices in its time.
    with victim.connect() as connection:
        channel = connection.channel()

        def is_back() -> bool:
            found = channel.queue_declare("held", passive=True).method
            return bool((found.message_count, found.consumer_count) == (2_000, 0))

        wait_until(is_back, timeout_s=60, what="all of it is back")
        channel.queue_delete("held")


def test_a_message_that_never_ends(victim: Broker, bystander: Bystander) -> None:
    """Many begin a large message and leave it at that; what each may begin is bounded by what it sends."""
    begun = method_frame(1, BasicPublish(routing_key="q"))
    header = FRAME_START.pack(2, 1, 14) + b"\0\x3c\0\0" + (100 * MIB).to_bytes(8, "big")
    clients = [AmqpClient("127.0.0.1", victim.amqp_port) for _client in range(20)]
    try:
        for client in clients:
            client.open_channel(1)
            client.send_raw(begun + header + b"\0\0\xce" + FRAME_START.pack(3, 1, 1000) + b"x")
        bystander.look()
    finally:
        for client in clients:
            client.close()


def test_declaring_and_leaving(victim: Broker, bystander: Bystander) -> None:
    """Queues of a connection that drops without a word go with it."""
    for _client in range(5):
        with AmqpClient("127.0.0.1", victim.amqp_port) as client:
            client.open_channel(1)
            for _queue in range(20):
                client.send(1, QueueDeclare(exclusive=True))
            for _queue in range(20):
                assert client.wait() is not None
        bystander.look()
