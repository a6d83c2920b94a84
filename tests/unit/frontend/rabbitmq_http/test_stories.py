"""Administering a broker that clients use at the same time."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from millpond.base.pressure import MEMORY, Pressure
from millpond.frontend.rabbitmq_http import messages
from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.events import ConnectionClosed, MethodReceived
from millpond.wire.amqp.methods import (
    BasicConsume,
    BasicPublish,
    BasicQos,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.management import ManagedBroker, ManagedNode, managed_broker
from tests.support.amqp.memory_amqp import AmqpMemoryClient

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


async def waiting(client: AmqpMemoryClient, queue: str) -> int:
    event = await client.ask(1, QueueDeclare(queue=queue, passive=True))
    assert isinstance(event, MethodReceived), event
    assert isinstance(event.method, QueueDeclareOk)
    return event.method.message_count


async def published(client: AmqpMemoryClient, queue: str, count: int) -> None:
    await client.ask(1, QueueDeclare(queue=queue, durable=True))
    for number in range(count):
        client.publish(1, BasicPublish(routing_key=queue), b"%d" % number)
    await waiting(client, queue)


def counts(row: dict[str, Any]) -> tuple[int, int, int, int]:
    names = ("messages", "messages_ready", "messages_unacknowledged", "consumers")
    ready = tuple(row[name] for name in names)
    assert len(ready) == 4
    return ready


async def test_what_is_out_and_who_has_it() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await published(client, "work", 5)
        await client.ask(1, BasicQos(prefetch_count=2))
        await client.ask(1, BasicConsume(queue="work", consumer_tag="me"))
        for _delivery in range(2):
            await client.wait()
        (row,) = await broker.get("queues/%2F")
        assert counts(row) == (5, 3, 2, 1)
        total = (await broker.get("overview"))["queue_totals"]
        assert total["messages_unacknowledged"] == 2
        (consumer,) = await broker.get("consumers/%2F")
        assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("me", 2)
        (channel,) = await broker.get("channels")
        assert (channel["number"], channel["messages_unacknowledged"]) == (1, 2)
        shown = await broker.get("queues/%2F/work")
        assert shown["consumer_details"] == [consumer]


async def test_looking_at_a_queue_is_no_use_of_it() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "queues/%2F/brief", {"arguments": {"x-expires": 1000}})
        for _look in range(4):
            await asyncio.sleep(0.4)
            rows = await broker.get("queues/%2F")
        assert rows == []


async def test_a_connection_is_ended_and_its_client_told_why() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        (row,) = await broker.get("connections")
        assert (row["user"], row["vhost"], row["channels"]) == ("guest", "/", 1)
        await broker.do("DELETE", f"connections/{row['name'].replace(' ', '%20')}")
        event = await client.wait()
        assert isinstance(event, ConnectionClosed)
        assert (event.code, event.text) == (
            320,
            "CONNECTION_FORCED - Closed via management plugin",
        )
        assert await broker.get("connections") == []


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (
            "vhost-limits/%2F",
            "access to vhost '/' refused for user 'guest': connection limit (1) is reached",
        ),
        (
            "user-limits/guest",
            "connection refused for user 'guest': user connection limit (1) is reached",
        ),
    ],
)
async def test_connections_are_limited_as_rabbitmq_says_it(place: str, reason: str) -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", f"{place}/max-connections", {"value": 1})
        first = await broker.amqp.client(1)
        event = await AmqpMemoryClient(broker.amqp.frontend).wait()
        assert isinstance(event, ConnectionClosed), event
        assert (event.code, event.text) == (530, f"NOT_ALLOWED - {reason}")
        # Whoever administers is not shut out by it.
        await broker.do("PUT", "queues/%2F/q", {})
        await broker.do("DELETE", "queues/%2F/q/contents")
        first.close()
        await broker.amqp.client(1)


async def test_who_is_deleted_is_sent_away() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "users/ann", {"password": "secret", "tags": ""})
        await broker.do("PUT", "permissions/%2F/ann", EVERYTHING)
        wish = ConnectOptions(user="ann", password="secret")
        ann = await AmqpMemoryClient(broker.amqp.frontend, wish).open(1)
        guest = await broker.amqp.client(1)
        await broker.do("DELETE", "users/ann")
        assert isinstance(await ann.wait(), ConnectionClosed)
        await published(guest, "still", 1)


async def test_a_virtual_host_takes_its_queues_and_their_topics_with_it() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "vhosts/shop")
        await broker.do("PUT", "queues/shop/orders", {"durable": True})
        engine = broker.amqp.broker.engine
        topics = set(engine.metadata.image.topics)
        client = await AmqpMemoryClient(
            broker.amqp.frontend, ConnectOptions(virtual_host="shop")
        ).open(1)
        await broker.do("DELETE", "vhosts/shop")
        assert isinstance(await client.wait(), ConnectionClosed)
        assert len(topics - set(engine.metadata.image.topics)) == 1
        await broker.do("PUT", "vhosts/shop")
        assert await broker.get("queues/shop") == []


@pytest.mark.parametrize(
    ("pattern", "apply_to", "left"),
    [("^work", "queues", 2), ("^work", "exchanges", 6), ("^other", "all", 6)],
)
async def test_a_policy_changes_a_queue_that_is_in_use(
    pattern: str, apply_to: str, left: int
) -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await published(client, "work", 6)
        await broker.do(
            "PUT",
            "policies/%2F/short",
            {"pattern": pattern, "definition": {"max-length": 2}, "apply-to": apply_to},
        )
        assert await waiting(client, "work") == left
        row = await broker.get("queues/%2F/work")
        assert row["policy"] == ("short" if left == 2 else None)
        await broker.do("DELETE", "policies/%2F/short")
        await published(client, "work", 3)
        assert await waiting(client, "work") == left + 3


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_ages_ends_and_letters_by_policy(kind: str) -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await client.ask(1, QueueDeclare(queue="graves", durable=True))
        await client.ask(
            1, QueueDeclare(queue="work", durable=True, arguments={"x-queue-type": kind})
        )
        client.publish(1, BasicPublish(routing_key="work"), b"old")
        assert await waiting(client, "work") == 1
        definition = {
            "message-ttl": 1000,
            "dead-letter-exchange": "",
            "dead-letter-routing-key": "graves",
        }
        wanted = {"pattern": "work", "definition": definition}
        await broker.do("PUT", "policies/%2F/brief", wanted)
        await asyncio.sleep(2)
        assert (await waiting(client, "work"), await waiting(client, "graves")) == (0, 1)
        wanted = {"pattern": "work", "definition": {"expires": 500}}
        await broker.do("PUT", "policies/%2F/brief", wanted)
        await asyncio.sleep(1)
        assert [row["name"] for row in await broker.get("queues")] == ["graves"]


async def test_of_two_policies_the_higher_counts_and_an_operator_bounds_both() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await published(client, "work", 6)

        async def put(kind: str, name: str, most: int, priority: int) -> None:
            definition = {"max-length": most}
            wanted = {"pattern": "work", "definition": definition, "priority": priority}
            await broker.do("PUT", f"{kind}/%2F/{name}", wanted)

        await put("policies", "low", 1, 1)
        await put("policies", "high", 5, 2)
        assert (await broker.get("queues/%2F/work"))["policy"] == "high"
        await put("operator-policies", "lid", 3, 0)
        row = await broker.get("queues/%2F/work")
        assert row["effective_policy_definition"] == {"max-length": 3}
        assert row["operator_policy"] == "lid"
        # The first policy had its moment: what it dropped does not come back.
        assert await waiting(client, "work") == 1


async def test_definitions_make_another_broker_the_same() -> None:
    async with managed_broker() as first:
        await first.do("PUT", "vhosts/shop", {"description": "where orders are"})
        await first.do("PUT", "vhost-limits/shop/max-queues", {"value": 7})
        await first.do("PUT", "users/ann", {"password": "secret", "tags": "monitoring"})
        await first.do("PUT", "permissions/shop/ann", EVERYTHING)
        await first.do("PUT", "exchanges/shop/x", {"type": "headers", "durable": True})
        arguments = {"x-max-priority": 3}
        await first.do("PUT", "queues/shop/q", {"durable": True, "arguments": arguments})
        await first.do("POST", "bindings/shop/e/x/q/q", {"arguments": {"x-match": "any", "n": 7}})
        await first.do("PUT", "policies/shop/p", {"pattern": "", "definition": {"message-ttl": 9}})
        await first.do(
            "PUT", "operator-policies/shop/o", {"pattern": "", "definition": {"expires": 9000}}
        )
        document = await first.get("definitions")
    async with managed_broker() as second:
        for _time in range(2):
            answer = await second.ask("POST", "definitions", document)
            assert answer.status == 204, answer
            again = await second.get("definitions", login="guest:guest")
            assert again == document
        # Whoever could log in there can do so here, with the same password.
        assert (await second.get("whoami", login="ann:secret"))["tags"] == ["monitoring"]
        assert (await second.get("vhost-limits"))[0]["value"] == {"max-queues": 7}


async def test_a_second_import_leaves_messages_where_they_are() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await published(client, "work", 3)
        document = await broker.get("definitions")
        answer = await broker.ask("POST", "definitions", document)
        assert answer.status == 204
        assert await waiting(client, "work") == 3


async def test_a_file_with_a_mistake_changes_nothing() -> None:
    async with managed_broker() as broker:
        before = await broker.get("definitions")
        document = {
            "vhosts": [{"name": "new"}],
            "queues": [{"name": "q", "vhost": "new", "arguments": {"x-max-length": "many"}}],
        }
        answer = await broker.ask("POST", "definitions", document)
        assert answer.status == 400
        assert "Queue q: invalid arg 'x-max-length'" in json.loads(answer.body)["reason"]
        assert await broker.get("definitions") == before


async def test_an_alarm_is_to_be_seen() -> None:
    async with managed_broker() as broker:
        assert (await broker.get("nodes"))[0]["mem_alarm"] is False
        broker.amqp.frontend.on_pressure(Pressure(low_on=(MEMORY,)))
        assert (await broker.get("nodes"))[0]["mem_alarm"] is True
        answer = await broker.ask("GET", "health/checks/alarms")
        assert answer.status == 503
        alarms = json.loads(answer.body)["alarms"]
        assert [alarm["resource"] for alarm in alarms] == ["memory"]


async def test_every_node_of_a_cluster_shows_and_does_the_same() -> None:
    async with amqp_cluster() as cluster:
        one, *others = [ManagedNode(cluster.frontends[node]) for node in cluster.frontends]
        await one.do("PUT", "queues/%2F/work", {"durable": True})
        wanted = {"routing_key": "work", "payload": "x", "payload_encoding": "string"}
        for node in (one, *others):
            await node.do("POST", "exchanges/%2F/amq.default/publish", {**wanted, "properties": {}})
        home = f"millpond@{cluster.host_of('work')}"
        for node in (one, *others):
            row = await node.get("queues/%2F/work")
            assert counts(row) == (3, 3, 0, 0)
            assert (row["node"], row["state"]) == (home, "running")
            assert len(await node.get("nodes")) == 3
        await others[-1].do("DELETE", "queues/%2F/work/contents")
        assert counts(await one.get("queues/%2F/work")) == (0, 0, 0, 0)


async def test_the_guest_is_at_home_only() -> None:
    async with managed_broker() as broker:
        assert (await broker.ask("GET", "whoami", peer="[::1]:9")).status == 401
        assert (await broker.ask("GET", "whoami", peer="::1:9")).status == 200
        assert (await broker.ask("GET", "whoami", peer="::ffff:127.0.0.1:9")).status == 200
        assert (await broker.ask("GET", "whoami", peer="::1:2:3:9")).status == 401
        far = await broker.ask("GET", "whoami", peer="10.0.0.7:9")
        assert json.loads(far.body)["reason"] == "User can only log in via localhost"


async def test_who_may_not_enter_a_virtual_host_sees_and_changes_nothing_of_it() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "users/u", {"tags": "policymaker", "password": "u"})
        place = "parameters/federation-upstream/%2F/up"
        await broker.do("PUT", place, {"value": {"uri": "amqp://user:secret@far"}})
        client = await broker.amqp.client(1)
        name = quote(client.session.shown_name, safe="")
        for method, path in (
            ("GET", place),
            ("DELETE", place),
            ("GET", "vhost-limits/%2F"),
            ("GET", f"connections/{name}"),
            ("GET", f"connections/{name}/channels"),
            ("DELETE", f"connections/{name}"),
        ):
            assert (await broker.ask(method, path, login="u:u")).status == 401, path
        assert await broker.get("parameters", login="u:u") == []
        assert [one["name"] for one in await broker.get("parameters")] == ["up"]
        assert (await broker.get(f"connections/{name}"))["user"] == "guest"


async def test_an_answer_with_messages_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "GET_BYTES_MAX", 3)

    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await published(client, "q", 9)
        wanted = {"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}
        answer = await broker.ask("POST", "queues/%2F/q/get", wanted)
        assert [one["payload"] for one in json.loads(answer.body)] == ["0", "1", "2"]
        assert await waiting(client, "q") == 6


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "queues/%2F/q", b"[]", 400),
        ("PUT", "queues/%2F/q", b"\xff", 400),
        ("PUT", "queues/%2F/q", b"[" * 100_000, 400),
        ("PUT", "queues/%2F/q", b'{"arguments": 7}', 400),
        ("PUT", "users/u", b'{"tags": 7}', 400),
        ("PUT", "users/u", b'{"tags": "", "password": 7}', 400),
        ("PUT", "users/u", b'{"tags": "", "password_hash": "?"}', 400),
        ("PUT", "vhost-limits/%2F/max-queues", b'{"value": "x"}', 400),
        ("PUT", "vhost-limits/%2F/max-everything", b'{"value": 1}', 400),
        ("PUT", "policies/%2F/p", b'{"pattern": 1, "definition": {}}', 400),
        ("POST", "queues/%2F/q/get", b'{"count": 1, "ackmode": "no", "encoding": "auto"}', 400),
        ("PUT", "topic-permissions/%2F/guest", b'{"exchange": "x", "write": "(", "read": ""}', 400),
        ("POST", "definitions", b'{"queues": 7}', 400),
        ("POST", "definitions", b'{"queues": [7]}', 400),
        ("GET", "queues?page=1&page_size=10&name=(&use_regex=true", b"", 400),
        ("GET", "bindings/%2F/e/x/z/q", b"", 404),
        ("GET", "queues/%2F/..%2F..%2Fetc%2Fpasswd", b"", 404),
        ("GET", "../../etc/passwd", b"", 404),
    ],
)
async def test_nonsense_is_answered_in_json(
    method: str, path: str, body: bytes, status: int
) -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "queues/%2F/x", {})
        answer = await broker.ask(method, path, body)
        assert answer.status == status, answer
        assert set(json.loads(answer.body)) == {"error", "reason"}


async def test_a_mistake_of_ours_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: ManagedBroker) -> None:
        def fail(_name: str) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(broker.amqp.frontend.queues.broker, "rooms", fail)
        answer = await broker.ask("PUT", "queues/%2F/q", {})
        assert answer.status == 500
        assert json.loads(answer.body)["error"] == "internal_error"
        monkeypatch.undo()

    async with managed_broker() as broker:
        await story(broker)


async def test_a_node_lists_clients_of_all_nodes_and_leaves_out_what_does_not_answer() -> None:
    async with amqp_cluster() as cluster:
        nodes = {node: ManagedNode(frontend) for node, frontend in cluster.frontends.items()}
        for node in nodes:
            client = await cluster.client(node, 1)
            event = await client.ask(1, QueueDeclare(queue="q", durable=True))
            assert isinstance(event, MethodReceived), event
            await client.ask(1, BasicConsume(queue="q", consumer_tag=f"c{node}"))
        for asked in nodes.values():
            for what in ("connections", "channels"):
                rows = await asked.get(what)
                assert sorted(row["node"] for row in rows) == [f"millpond@{n}" for n in nodes]
            consumers = await asked.get("consumers/%2F")
            assert sorted(row["consumer_tag"] for row in consumers) == ["c1", "c2", "c3"]
            totals = (await asked.get("overview"))["object_totals"]
            assert (totals["connections"], totals["channels"]) == (3, 3)
        # The path to one of them, from another.
        (far,) = [row for row in await nodes[1].get("connections") if row["node"] == "millpond@2"]
        assert await nodes[3].get(f"connections/{quote(far['name'], safe='')}") == far

        cluster.nodes.network.isolate(2)
        rows = await nodes[1].get("connections")
        assert sorted(row["node"] for row in rows) == ["millpond@1", "millpond@3"]
