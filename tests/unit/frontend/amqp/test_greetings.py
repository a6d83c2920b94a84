"""Who is let in: by a certificate, in time, and how long somebody waits who is not."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from millpond import __version__
from millpond.auth.permissions import hash_password
from millpond.base import limits
from millpond.base.fields import Table
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.amqp.identity import RABBITMQ_VERSION, server_properties
from millpond.frontend.rabbitmq_http.context import API_VERSION
from millpond.rabbit.commands import Store
from millpond.rabbit.records import (
    Fact,
    Permission,
    User,
    UserDeleted,
    VirtualHost,
    VirtualHostDeleted,
)
from millpond.wire.amqp.client import ClientConnection, ConnectOptions
from millpond.wire.amqp.content import PROTOCOL_HEADER, method_frame
from millpond.wire.amqp.events import (
    ChannelClosed,
    ConnectionClosed,
    Event,
    MethodReceived,
    OpenRequested,
)
from millpond.wire.amqp.methods import (
    BasicConsume,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStart,
    QueueDeclare,
)
from millpond.wire.amqp.properties import Properties
from millpond.wire.amqp.sasl import EXTERNAL
from millpond.wire.amqp.violations import erlang_bytes
from millpond.wire.shape import received
from tests.support.amqp.memory_amqp import AmqpMemoryBroker, AmqpMemoryClient, memory_amqp
from tests.support.time.virtual_loop import run


class Caller:
    """A client of whom a certificate says something, and who may be slow."""

    def __init__(
        self, frontend: AmqpFrontend, *, name: str = "", wish: ConnectOptions | None = None
    ) -> None:
        self._client = ClientConnection(wish)
        self.raw = b""
        self.heard: list[Event] = []
        self.hung_up_s = 0.0
        self.session = frontend.session(self, peer="memory:1", certified_name=name)

    def say(self) -> None:
        """Whatever is next."""
        while data := b"".join(self._client.data_to_send()):
            self.session.data_received(data)

    def writelines(self, buffers: Sequence[bytes]) -> None:
        self.raw += b"".join(buffers)
        self.heard += received(self._client, b"".join(buffers))

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def finish(self, seconds: float) -> None:
        """A client that never ends a connection."""
        asyncio.get_running_loop().call_later(seconds, self.close)

    def close(self) -> None:
        if not self.hung_up_s:
            self.hung_up_s = asyncio.get_running_loop().time()
            self.session.connection_lost()


def mechanisms(raw: bytes) -> bytes:
    method = ConnectionStart.decode(raw[11:-1])
    assert isinstance(method, ConnectionStart)
    return method.mechanisms


@pytest.mark.parametrize(
    ("name", "offered"),
    [("", b"PLAIN AMQPLAIN"), ("guest", b"PLAIN AMQPLAIN EXTERNAL")],
)
async def test_a_certificate_is_a_way_to_log_in_only_where_there_is_one(
    name: str, offered: bytes
) -> None:
    async with memory_amqp() as amqp:
        caller = Caller(amqp.frontend, name=name)
        caller.session.data_received(PROTOCOL_HEADER)
        assert mechanisms(caller.raw) == offered


@pytest.mark.parametrize(("name", "is_let_in"), [("guest", True), ("somebody", False)])
async def test_the_name_in_the_certificate_counts_and_not_the_one_that_is_said(
    name: str, is_let_in: bool
) -> None:
    async with memory_amqp() as amqp:
        wish = ConnectOptions(mechanism=EXTERNAL, response=b"guest")
        caller = Caller(amqp.frontend, name=name, wish=wish)
        caller.say()
        kind = OpenRequested if is_let_in else ConnectionClosed
        assert isinstance(caller.heard[-1], kind)
        assert caller.session.user == ("guest" if is_let_in else "")


async def test_who_is_refused_waits_for_the_end() -> None:
    async with memory_amqp() as amqp:
        begun_s = asyncio.get_running_loop().time()
        caller = Caller(amqp.frontend, wish=ConnectOptions(password="wrong"))
        caller.say()
        assert isinstance(caller.heard[-1], ConnectionClosed)
        await asyncio.sleep(10)
        assert caller.hung_up_s - begun_s == pytest.approx(3, abs=0.1)


async def test_who_does_not_introduce_himself_in_time_is_left() -> None:
    async with memory_amqp() as amqp:
        begun_s = asyncio.get_running_loop().time()
        slow, quick = Caller(amqp.frontend), Caller(amqp.frontend)
        slow.session.data_received(PROTOCOL_HEADER)
        quick.say()
        await asyncio.sleep(60)
        assert slow.hung_up_s - begun_s == pytest.approx(10, abs=0.1)
        assert not quick.hung_up_s
        assert amqp.frontend.sessions == {quick.session}
        quick.close()


async def test_who_does_not_confirm_the_end_is_left() -> None:
    async with memory_amqp() as amqp:
        caller = Caller(amqp.frontend)
        caller.say()
        begun_s = asyncio.get_running_loop().time()
        caller.session.data_received(method_frame(7, BasicQos()))
        assert isinstance(caller.heard[-1], ConnectionClosed)
        await asyncio.sleep(60)
        assert caller.hung_up_s - begun_s == pytest.approx(30, abs=0.1)


async def test_a_client_that_closes_and_does_not_end_the_connection_is_left() -> None:
    async with memory_amqp() as amqp:
        caller = Caller(amqp.frontend)
        caller.say()
        begun_s = asyncio.get_running_loop().time()
        caller.session.data_received(method_frame(0, ConnectionClose()))
        await asyncio.sleep(0)
        assert caller.raw.endswith(method_frame(0, ConnectionCloseOk()))
        # It is not listened to.
        caller.session.data_received(method_frame(1, ChannelOpen()))
        await asyncio.sleep(60)
        assert caller.hung_up_s - begun_s == pytest.approx(30, abs=0.1)
        assert caller.raw.endswith(method_frame(0, ConnectionCloseOk()))


@pytest.mark.parametrize("who", ["client", "broker"])
async def test_a_client_that_goes_on_after_the_end_is_left(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AMQP_LATE_BYTES_MAX", 1_000)

    async with memory_amqp() as amqp:
        caller = Caller(amqp.frontend)
        caller.say()
        end = method_frame(0, ConnectionClose())
        caller.session.data_received(end if who == "client" else method_frame(7, BasicQos()))
        await asyncio.sleep(0)
        more = method_frame(1, ChannelOpen())
        for _frame in range(1_000 // len(more)):
            caller.session.data_received(more)
        assert not caller.hung_up_s
        caller.session.data_received(more)
        assert caller.hung_up_s


async def test_a_client_that_confirms_the_end_is_left_at_once() -> None:
    async with memory_amqp() as amqp:
        caller = Caller(amqp.frontend)
        caller.say()
        caller.session.data_received(method_frame(7, BasicQos()))
        assert isinstance(caller.heard[-1], ConnectionClosed)
        assert not caller.hung_up_s
        caller.session.data_received(method_frame(0, ConnectionCloseOk()))
        assert caller.hung_up_s


async def test_a_virtual_host_takes_so_many_connections() -> None:
    async with memory_amqp() as amqp:
        limited = VirtualHost(name="/", connections_max=2)
        await amqp.frontend.queues.ask(Store(fact=limited))
        callers = [Caller(amqp.frontend) for _caller in range(3)]
        for caller in callers:
            caller.say()
        assert [type(caller.heard[-1]) for caller in callers] == [
            OpenRequested,
            OpenRequested,
            ConnectionClosed,
        ]
        closed = callers[2].heard[-1]
        assert isinstance(closed, ConnectionClosed)
        assert closed.text == (
            "NOT_ALLOWED - access to vhost '/' refused for user 'guest': "
            "connection limit (2) is reached"
        )
        callers[0].close()
        again = Caller(amqp.frontend)
        again.say()
        assert isinstance(again.heard[-1], OpenRequested)


async def let_in(amqp: AmqpMemoryBroker, user: str, vhost: str) -> AmqpMemoryClient:
    """A client of a user, with channel 1 open."""
    wish = ConnectOptions(user=user, password="secret", virtual_host=vhost)
    return await AmqpMemoryClient(amqp.frontend, wish).open(1)


async def tell(amqp: AmqpMemoryBroker, *facts: Fact) -> None:
    for fact in facts:
        await amqp.frontend.queues.ask(Store(fact=fact))


MILLER = (
    VirtualHost(name="mill"),
    User(name="miller", password_hash=hash_password(b"secret", b"salt")),
    Permission(user="miller", vhost="mill", configure=".*", write=".*", read=".*"),
)


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (UserDeleted(name="miller"), "CONNECTION_FORCED - user 'miller' is deleted"),
        (VirtualHostDeleted(name="mill"), "CONNECTION_FORCED - vhost 'mill' is deleted"),
    ],
)
async def test_connections_end_with_their_user_and_their_virtual_host(
    fact: Fact, text: str
) -> None:
    async with memory_amqp() as amqp:
        await tell(amqp, *MILLER)
        client, other = await let_in(amqp, "miller", "mill"), await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await tell(amqp, fact)
        event = await client.wait()
        while not isinstance(event, ConnectionClosed):
            assert event is not None
            event = await client.wait()
        assert event.text == text
        assert isinstance(await other.ask(1, QueueDeclare(queue="q")), MethodReceived)


async def test_a_right_that_is_taken_away_is_gone_at_once() -> None:
    async with memory_amqp() as amqp:
        await tell(amqp, *MILLER)
        client = await let_in(amqp, "miller", "mill")
        await client.ask(1, ConfirmSelect())
        client.publish(1, BasicPublish(exchange="amq.fanout"), b"x")
        assert isinstance(await client.wait(), MethodReceived)
        await tell(amqp, Permission(user="miller", vhost="mill", write="^$"))
        client.publish(1, BasicPublish(exchange="amq.fanout"), b"x")
        refused = await client.wait()
        assert isinstance(refused, ChannelClosed)
        assert refused.code == 403


async def test_a_user_has_so_many_connections_and_channels() -> None:
    async with memory_amqp() as amqp:
        await tell(amqp, *MILLER)
        limits: Table = {"max-connections": 2, "max-channels": 3}
        await tell(amqp, replace(MILLER[1], limits=limits))
        client = await let_in(amqp, "miller", "mill")
        other = await let_in(amqp, "miller", "mill")
        await other.open_channel(2)
        wish = ConnectOptions(user="miller", password="secret", virtual_host="mill")
        refused = await AmqpMemoryClient(amqp.frontend, wish).wait()
        assert isinstance(refused, ConnectionClosed)
        assert refused.text == (
            "NOT_ALLOWED - connection refused for user 'miller': "
            "user connection limit (2) is reached"
        )
        client.send(2, ChannelOpen())
        closed = await client.wait()
        assert isinstance(closed, ConnectionClosed)
        assert closed.text == (
            "NOT_ALLOWED - number of channels opened for user 'miller' has reached the maximum "
            "allowed user limit of (3)"
        )


def test_a_login_that_cannot_be_read_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    response = b"me\0me\0secret"

    async def story() -> None:
        async with memory_amqp() as amqp:
            AmqpMemoryClient(amqp.frontend, ConnectOptions(response=response))
            await asyncio.sleep(1)

    with caplog.at_level("DEBUG", logger="millpond"):
        run(story())
    assert "SYNTAX_ERROR" in caplog.text
    assert erlang_bytes(response) not in caplog.text


def test_clients_are_told_what_they_decide_by() -> None:
    """By this product and these versions kombu limits whole channels, which Celery's countdowns need."""
    told = server_properties("pond")
    assert told["product"] == "RabbitMQ"
    assert told["version"] == API_VERSION == RABBITMQ_VERSION
    assert (3, 3) <= tuple(map(int, RABBITMQ_VERSION.split("."))) < (4, 0)
    assert told["millpond_version"] == __version__
    assert str(told["platform"]).startswith(f"Millpond {__version__}")


@pytest.mark.parametrize("tags", [("impersonator",), ("administrator", "management"), ()])
async def test_who_may_publish_in_the_name_of_others(tags: tuple[str, ...]) -> None:
    async with memory_amqp() as amqp:
        await tell(
            amqp,
            User(name="ann", password_hash=hash_password(b"secret", b"salt"), tags=tags),
            Permission(user="ann", vhost="/", configure=".*", write=".*", read=".*"),
        )
        client = await let_in(amqp, "ann", "/")
        await client.ask(1, ConfirmSelect())
        method = BasicPublish(exchange="amq.fanout")
        client.publish(1, method, b"x", Properties(user_id="ann"))
        assert isinstance(await client.wait(), MethodReceived)
        client.publish(1, method, b"x", Properties(user_id="bob"))
        heard = await client.wait()
        if "impersonator" in tags:
            assert isinstance(heard, MethodReceived)
        else:
            assert isinstance(heard, ChannelClosed)
            assert "user_id property set to 'bob'" in heard.text
