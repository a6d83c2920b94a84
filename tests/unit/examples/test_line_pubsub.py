"""The example of docs/ADDING_A_PROTOCOL.md, over real sockets."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from examples.line_pubsub import LINE_BYTES_MAX, LINES, SUBSCRIPTIONS_MAX, LineWire

import millpond
from millpond.base.errors import RemoteProtocolError
from millpond.base.ids import TopicPartition
from millpond.client import BlockingConsumer, BlockingProducer
from millpond.server.protocols import register, unregister
from millpond.wire.shape import received

# Only to end what hangs.
HANGS_S = 60


class Client:
    """One connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, HANGS_S)
        self._stream = self.socket.makefile("rb")

    def send(self, *lines: str) -> None:
        self.socket.sendall("".join(f"{line}\n" for line in lines).encode())

    def line(self) -> str:
        """The next line without its end; empty at the end of the connection."""
        return self._stream.readline().decode().removesuffix("\n")

    def ask(self, line: str) -> str:
        self.send(line)
        return self.line()

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


class Lines:
    """A broker with the protocol, and connections to it."""

    def __init__(self, broker: millpond.Broker, stack: ExitStack) -> None:
        self.broker = broker
        self._stack = stack
        (address,) = broker.addresses("lines")
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))

    def connect(self) -> Client:
        client = Client(self._address)
        self._stack.callback(client.close)
        return client


@pytest.fixture(scope="module")
def broker() -> Iterator[millpond.Broker]:
    register(LINES)
    try:
        with millpond.Broker(lines=True) as broker:
            yield broker
    finally:
        unregister(LINES.name)


@pytest.fixture
def lines(broker: millpond.Broker) -> Iterator[Lines]:
    with ExitStack() as stack:
        yield Lines(broker, stack)


def test_a_subscriber_gets_what_others_publish_from_then_on(lines: Lines) -> None:
    publisher, subscriber = lines.connect(), lines.connect()
    assert publisher.ask("PUB news before") == "OK 0"
    assert subscriber.ask("SUB news") == "OK 1"
    assert publisher.ask("PUB news two words") == "OK 1"
    assert publisher.ask("pub news ") == "OK 2"
    assert subscriber.line() == "MSG news 1 two words"
    assert subscriber.line() == "MSG news 2 "


def test_answers_leave_in_the_order_of_the_commands(lines: Lines) -> None:
    client = lines.connect()
    client.send(*(f"PUB many {number}" for number in range(1_000)))
    assert [client.line() for _ in range(1_000)] == [f"OK {number}" for number in range(1_000)]


def test_kafkas_clients_read_and_write_the_same_records(lines: Lines) -> None:
    client = lines.connect()
    assert client.ask("PUB shared from a line") == "OK 0"
    with BlockingConsumer(
        bootstrap_servers=lines.broker.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("shared", 0)])
        (records,) = consumer.poll(HANGS_S * 1000).values()
        assert [record.value for record in records] == [b"from a line"]
    assert client.ask("SUB shared") == "OK 1"
    with BlockingProducer(
        bootstrap_servers=lines.broker.bootstrap, compression_type="gzip"
    ) as producer:
        producer.send("shared", b"from\nKafka", partition=0).result(HANGS_S)
    assert client.line() == "MSG shared 1 from\\nKafka"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("SING news", "ERR the commands are"),
        ("PUB", "ERR the commands are"),
        ("SUB", "ERR the commands are"),
        ("SUB two topics", "ERR the commands are"),
        ("", "ERR the commands are"),
        ("PUB a/b text", "ERR "),
        ("PUB __consumer_offsets text", "ERR "),
    ],
)
def test_what_cannot_be_done_is_said_and_the_connection_goes_on(
    lines: Lines, line: str, answer: str
) -> None:
    client = lines.connect()
    assert client.ask(line).startswith(answer)
    assert client.ask("PUB still works").startswith("OK ")


def test_quit_and_the_end_of_the_stream_answer_what_came_before(lines: Lines) -> None:
    client = lines.connect()
    client.send("PUB last words", "QUIT")
    assert [client.line(), client.line(), client.line()] == ["OK 0", "BYE", ""]
    client = lines.connect()
    client.send("PUB last words")
    client.socket.shutdown(socket.SHUT_WR)
    assert [client.line(), client.line(), client.line()] == ["OK 1", "BYE", ""]


def test_what_comes_behind_quit_is_not_carried_out(lines: Lines) -> None:
    client = lines.connect()
    client.send("QUIT", "PUB unanswered text")
    assert [client.line(), client.line()] == ["BYE", ""]
    assert lines.connect().ask("PUB unanswered first") == "OK 0"


def test_a_subscriber_gets_no_record_of_an_aborted_transaction(lines: Lines) -> None:
    client = lines.connect()
    assert client.ask("SUB bookings") == "OK 0"
    with BlockingProducer(
        bootstrap_servers=lines.broker.bootstrap, transactional_id="booker"
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("bookings", b"taken back", partition=0).result(HANGS_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("bookings", b"kept", partition=0)
        producer.commit_transaction()
    assert client.line() == "MSG bookings 2 kept"


def test_a_line_without_an_end_ends_the_connection(lines: Lines) -> None:
    client = lines.connect()
    client.socket.sendall(b"PUB first text\n" + b"x" * (LINE_BYTES_MAX + 1))
    assert client.line() == "OK 0"
    assert client.line() == f"ERR a line has more than {LINE_BYTES_MAX} bytes"
    assert client.line() == ""


def test_subscriptions_are_bounded(lines: Lines) -> None:
    client = lines.connect()
    for number in range(SUBSCRIPTIONS_MAX):
        assert client.ask(f"SUB bounded-{number}") == "OK 0"
    assert client.ask("SUB bounded-x").startswith("ERR at most")


def test_a_line_may_be_as_long_as_the_limit() -> None:
    assert received(LineWire(), b"x" * LINE_BYTES_MAX + b"\n") == [b"x" * LINE_BYTES_MAX]
    with pytest.raises(RemoteProtocolError):
        received(LineWire(), b"x" * (LINE_BYTES_MAX + 1) + b"\n")
