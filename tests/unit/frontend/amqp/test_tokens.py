"""Logins by token: what a bearer may do, for how long, and how it goes on."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from millpond.auth.claims import TokenRefused, TokenRules
from millpond.frontend.amqp.logins import KeysNeeded, Logins
from millpond.frontend.rabbitmq_http.context import ListenerInfo
from millpond.frontend.rabbitmq_http.frontend import Management
from millpond.frontend.rabbitmq_http.http import Request
from millpond.rabbit.commands import Store
from millpond.rabbit.records import UserDeleted
from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.events import (
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    MethodReceived,
)
from millpond.wire.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicPublish,
    ConfirmSelect,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.amqp.memory_amqp import AmqpMemoryBroker, AmqpMemoryClient, memory_amqp

EVERYTHING = "mill.read:*/* mill.write:*/* mill.configure:*/*"


class Reader:
    """Believes everything that is JSON; some of it only when keys were fetched."""

    rules = TokenRules(resource_server_id="mill", scope_prefix="mill.")

    def __init__(self) -> None:
        self.has_keys = True

    def claims(self, token: bytes) -> Mapping[str, Any]:
        if not token.startswith(b"{"):
            raise TokenRefused("it is not a token")
        if not self.has_keys:
            raise KeysNeeded("the token's key (kid) is not known")
        claims: dict[str, Any] = json.loads(token)
        return claims

    async def fetch(self) -> None:
        await asyncio.sleep(1)
        self.has_keys = True


class TokenBroker(AmqpMemoryBroker):
    """Asks for tokens first, then for passwords."""

    def __init__(self, amqp: AmqpMemoryBroker, *backends: str) -> None:
        self.broker, self.frontend = amqp.broker, amqp.frontend
        self.reader = Reader()
        self.frontend.logins = Logins(
            backends,
            lambda: self.frontend.queues.broker,
            self.broker.engine.runtime.clock,
            self.reader,
        )
        doors = [ListenerInfo(protocol="amqp", host="127.0.0.1", port=5672)]
        self.management = Management(self.frontend, lambda: doors)

    def token(self, scope: str = EVERYTHING, seconds: int = 60, **claims: object) -> str:
        expires_s = self.broker.engine.runtime.clock.now_ms() // 1000 + seconds
        said = {"sub": "ann", "aud": "mill", "scope": scope, "exp": expires_s, **claims}
        return json.dumps(said)

    def call(self, password: str, user: str = "whoever") -> AmqpMemoryClient:
        return AmqpMemoryClient(self.frontend, ConnectOptions(user=user, password=password))

    async def get(self, path: str, authorization: str) -> tuple[int, Any]:
        request = Request(
            method="GET",
            target=f"/api/{path}",
            authorization=authorization,
            body=b"",
            peer="127.0.0.1:1",
        )
        answer = await self.management.answer(request)
        return answer.status, json.loads(answer.body)


@asynccontextmanager
async def token_broker(*backends: str) -> AsyncIterator[TokenBroker]:
    async with memory_amqp() as amqp:
        yield TokenBroker(amqp, *(backends or ("oauth2", "internal")))


async def secret(client: AmqpMemoryClient, token: str) -> object:
    """What the broker says to another token."""
    client.connection.send(0, ConnectionUpdateSecret(new_secret=token.encode(), reason="old"))
    client._flush()
    return await client.wait()


async def is_refused(client: AmqpMemoryClient, channel: int, method: Any) -> str:
    """The text of a refusal; the channel is closed by it."""
    event = await client.ask(channel, method)
    assert isinstance(event, ChannelClosed), event
    assert event.code == 403
    return event.text


async def test_a_token_is_a_password_and_names_its_user() -> None:
    async with token_broker() as broker:
        client = await broker.call(broker.token()).open(1)
        assert client.session.user == "ann"
        event = await client.ask(1, QueueDeclare(queue="q"))
        assert isinstance(event, MethodReceived)
        assert isinstance(event.method, QueueDeclareOk)


async def test_the_next_is_asked_when_the_first_refuses() -> None:
    async with token_broker() as broker:
        assert (await broker.call("guest", "guest").open()).session.user == "guest"
    async with token_broker("oauth2") as broker:
        assert isinstance(await broker.call("guest", "guest").wait(), ConnectionClosed)
    async with token_broker("internal") as broker:
        assert isinstance(await broker.call(broker.token()).wait(), ConnectionClosed)


async def test_who_is_refused_hears_no_more_than_that(caplog: pytest.LogCaptureFixture) -> None:
    async with token_broker() as broker:
        token = broker.token(seconds=-1)
        event = await broker.call(token).wait()
        assert isinstance(event, ConnectionClosed)
        assert event.code == 403
        assert "expired" not in event.text
        assert "the token has expired; no such user" in caplog.text
        assert "exp" not in caplog.text.replace("expired", "")


async def test_a_virtual_host_that_no_scope_names() -> None:
    async with token_broker() as broker:
        event = await broker.call(broker.token("mill.read:shop/*")).wait()
        assert isinstance(event, ConnectionClosed)
        assert (event.code, event.text) == (
            530,
            "NOT_ALLOWED - access to vhost '/' refused for user 'ann'",
        )


async def test_scopes_say_what_a_bearer_may() -> None:
    async with token_broker() as broker:
        scope = "mill.configure:%2F/q* mill.read:%2F/* mill.write:%2F/amq.topic/a.*"
        client = await broker.call(broker.token(scope)).open(1, 2, 3, 4)
        await client.ask(1, QueueDeclare(queue="q1"))
        assert "configure access to queue 'other'" in await is_refused(
            client, 1, QueueDeclare(queue="other")
        )
        client.publish(2, BasicPublish(routing_key="q1"), b"x")
        event = await client.wait()
        assert isinstance(event, ChannelClosed)
        assert "write access to exchange 'amq.default'" in event.text
        await client.ask(3, ConfirmSelect())
        client.publish(3, BasicPublish(exchange="amq.topic", routing_key="a.b"), b"x")
        assert not isinstance(await client.wait(), ChannelClosed)
        client.publish(3, BasicPublish(exchange="amq.topic", routing_key="b.b"), b"x")
        event = await client.wait()
        assert isinstance(event, ChannelClosed)
        assert "topic 'b.b'" in event.text


async def test_an_expired_token_allows_nothing_until_it_is_renewed() -> None:
    async with token_broker() as broker:
        client = await broker.call(broker.token(seconds=30)).open(1, 2, 3)
        await client.ask(1, QueueDeclare(queue="q"))
        client.publish(1, BasicPublish(routing_key="q"), b"before")
        event = await client.ask(3, BasicConsume(queue="q", no_ack=True))
        assert isinstance(event, MethodReceived)
        assert isinstance(event.method, BasicConsumeOk)
        assert "before" in repr(await client.wait())
        await asyncio.sleep(31)
        # What was allowed a moment ago is looked at again, for publishers, too.
        client.publish(1, BasicPublish(routing_key="q"), b"after")
        event = await client.wait()
        assert isinstance(event, ChannelClosed)
        assert event.text.endswith("refused for user 'ann': the token has expired")
        await is_refused(client, 2, BasicGet(queue="q"))
        # The connection is there, and so is its consumer.
        other = await broker.client(1)
        other.publish(1, BasicPublish(routing_key="q"), b"others'")
        assert "others'" in repr(await client.wait())
        renewed = await secret(client, broker.token(seconds=30))
        assert isinstance(renewed, MethodReceived)
        assert isinstance(renewed.method, ConnectionUpdateSecretOk)
        client.connection.open_channel(2)
        client._flush()
        assert isinstance(await client.wait(), ChannelOpened)
        event = await client.ask(2, QueueDeclare(queue="q2"))
        assert isinstance(event, MethodReceived)
        # And expires again.
        await asyncio.sleep(31)
        await is_refused(client, 2, QueueDeclare(queue="q3"))


async def test_a_token_that_is_renewed_in_time_does_not_expire() -> None:
    async with token_broker() as broker:
        client = await broker.call(broker.token(seconds=30)).open(1)
        for _turn in range(5):
            await asyncio.sleep(20)
            await secret(client, broker.token(seconds=30))
        event = await client.ask(1, QueueDeclare(queue="q"))
        assert isinstance(event, MethodReceived)


async def test_fewer_scopes_hold_at_once() -> None:
    async with token_broker() as broker:
        client = await broker.call(broker.token()).open(1)
        await client.ask(1, QueueDeclare(queue="q"))
        client.publish(1, BasicPublish(routing_key="q"), b"x")
        await secret(client, broker.token("mill.read:*/*"))
        client.publish(1, BasicPublish(routing_key="q"), b"x")
        assert isinstance(await client.wait(), ChannelClosed)


@pytest.mark.parametrize("changes", [{"sub": "bob"}, {"aud": "other"}, {"exp": 7}, None], ids=str)
async def test_a_new_secret_that_is_refused_ends_the_connection(
    changes: dict[str, Any] | None,
) -> None:
    async with token_broker() as broker:
        client = await broker.call(broker.token()).open(1)
        token = "nonsense" if changes is None else broker.token(**changes)
        event = await secret(client, token)
        assert isinstance(event, ConnectionClosed)
        assert (event.code, event.text) == (
            530,
            "NOT_ALLOWED - New secret was refused by one of the backends",
        )


async def test_who_came_by_a_password_may_say_any_secret() -> None:
    async with token_broker() as broker:
        client = await broker.call("guest", "guest").open(1)
        assert isinstance(await secret(client, "nonsense"), MethodReceived)
        assert client.session.asker.scopes is None


async def test_a_login_waits_for_keys() -> None:
    async with token_broker() as broker:
        broker.reader.has_keys = False
        client = await broker.call(broker.token()).open(1)
        broker.reader.has_keys = False
        assert isinstance(await secret(client, broker.token()), MethodReceived)
        # One who does not wait leaves nothing behind.
        broker.reader.has_keys = False
        gone = broker.call(broker.token())
        gone.close()
        await asyncio.sleep(5)
        assert broker.frontend.sessions == {client.session}


async def test_a_user_of_the_same_name_has_nothing_to_do_with_it() -> None:
    async with token_broker() as broker:
        client = await broker.call(broker.token(sub="guest")).open(1)
        await broker.frontend.queues.ask(Store(fact=UserDeleted(name="guest")))
        event = await client.ask(1, QueueDeclare(queue="q"))
        assert isinstance(event, MethodReceived)


async def test_guest_comes_from_this_machine_whoever_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with token_broker() as broker:
        token = broker.token(sub="guest").encode()
        with pytest.raises(Exception, match="only log in from this machine"):
            broker.frontend.logins.known("x", token, "192.0.2.1:99")


async def test_a_far_expiry_is_looked_at_now_and_then() -> None:
    async with token_broker() as broker:
        client = await broker.call(broker.token(seconds=10_000)).open(1)
        await asyncio.sleep(9_999)
        assert not client.session.asker.is_expired
        await asyncio.sleep(2)
        assert client.session.asker.is_expired


async def test_the_management_api_takes_tokens_both_ways() -> None:
    import base64

    async with token_broker() as broker:
        admin = broker.token("mill.tag:administrator mill.read:%2F/*")
        basic = base64.b64encode(f"x:{admin}".encode()).decode()
        for authorization in (f"Bearer {admin}", f"Basic {basic}", f"bearer {admin}"):
            assert await broker.get("whoami", authorization) == (
                200,
                {"name": "ann", "tags": ["administrator"]},
            )
        broker.reader.has_keys = False
        assert (await broker.get("whoami", f"Bearer {admin}"))[0] == 200


async def test_the_management_api_obeys_tags_and_scopes() -> None:
    async with token_broker() as broker:

        async def names(scope: str) -> list[str]:
            token = broker.token(f"mill.tag:management {scope}")
            status, rows = await broker.get("vhosts", f"Bearer {token}")
            assert status == 200
            return [row["name"] for row in rows]

        assert await names("mill.read:%2F/*") == ["/"]
        assert await names("mill.read:shop/*") == []
        for token in (broker.token(), broker.token(seconds=-1), "nonsense"):
            assert (await broker.get("whoami", f"Bearer {token}"))[0] == 401


async def test_a_name_that_cannot_be_written_down_is_refused() -> None:
    async with token_broker() as broker:
        event = await broker.call(broker.token(sub="ann\ud800")).wait()
        assert isinstance(event, ConnectionClosed), event
        assert event.code == 403
