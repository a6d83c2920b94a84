"""What RabbitMQ's own clients of the management API do beside queues: rights, connections, the cluster."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.events import ConnectionClosed
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.management import ManagedNode, managed_broker
from tests.support.amqp.memory_amqp import AmqpMemoryClient


async def test_a_single_right_of_a_topic_exchange_is_revoked() -> None:
    async with managed_broker() as broker:
        place = "topic-permissions/%2F/guest"
        for exchange in ("amq.topic", "other"):
            await broker.do("PUT", place, {"exchange": exchange, "write": "a", "read": "b"})
        await broker.do("DELETE", f"{place}/amq.topic")
        assert [one["exchange"] for one in await broker.get(place)] == ["other"]
        await broker.do("DELETE", f"{place}/amq.topic")
        await broker.do("DELETE", f"{place}/other")
        assert (await broker.ask("DELETE", f"{place}/other")).status == 404


async def test_a_connection_is_named_by_its_ends() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        client.session.peer, client.session.local = "10.0.0.2:40000", "10.0.0.1:5671"
        client.session.is_encrypted = True
        name = "10.0.0.2:40000 -> 10.0.0.1:5671"
        row = await broker.get(f"connections/{quote(name, safe='')}")
        ends = (row["peer_host"], row["peer_port"], row["host"], row["port"], row["ssl"])
        assert ends == ("10.0.0.2", 40000, "10.0.0.1", 5671, True)
        assert row["recv_oct"] > 8
        assert row["send_oct"] > 8
        (channel,) = await broker.get("channels")
        assert channel["name"] == f"{name} (1)"
        assert (await broker.get(f"channels/{quote(channel['name'], safe='')}"))["number"] == 1


async def test_connections_of_a_user_end_on_every_node() -> None:
    async with amqp_cluster() as cluster:
        nodes = {node: ManagedNode(one) for node, one in cluster.frontends.items()}
        clients = [await cluster.client(node, 1) for node in sorted(nodes)]
        asked = nodes[min(nodes)]
        rows = await asked.get("connections/username/guest")
        assert [set(row) for row in rows] == [{"name", "vhost", "user", "node"}] * 3
        assert await asked.get("connections/username/nobody") == []
        one = next(row["name"] for row in rows if row["node"] != f"millpond@{min(nodes)}")
        await asked.do("DELETE", f"connections/{quote(one, safe='')}")
        assert len(await asked.get("connections")) == 2
        await asked.do("DELETE", "connections/username/guest")
        assert await asked.get("connections") == []
        for client in clients:
            assert isinstance(await client.wait(), ConnectionClosed)


async def test_why_a_connection_ends_is_what_its_operator_says() -> None:
    async with managed_broker() as broker:
        client = await broker.amqp.client(1)
        await broker.ask("DELETE", "connections/username/guest", reason="for repairs")
        event = await client.wait()
        assert isinstance(event, ConnectionClosed)
        assert event.text == "CONNECTION_FORCED - for repairs"


async def test_connections_of_others_are_not_for_everybody() -> None:
    async with managed_broker() as broker:
        for name, tag in (("ann", "management"), ("bob", "monitoring")):
            await broker.do("PUT", f"users/{name}", {"password": "p", "tags": tag})
        place = "connections/username/guest"
        asked = [("GET", "ann"), ("DELETE", "ann"), ("GET", "bob"), ("DELETE", "bob")]
        answers = [(await broker.ask(how, place, login=f"{who}:p")).status for how, who in asked]
        assert answers == [401, 401, 200, 401]
        assert await broker.get("connections/username/ann", login="ann:p") == []


async def test_a_cluster_is_called_by_its_name() -> None:
    async with managed_broker() as broker:
        before = (await broker.get("cluster-name"))["name"]
        assert before == broker.amqp.frontend.engine.info.cluster_id
        await broker.do("PUT", "cluster-name", {"name": "mill"})
        assert await broker.get("cluster-name") == {"name": "mill"}
        assert (await broker.get("overview"))["cluster_name"] == "mill"
        exported = (await broker.get("definitions"))["global_parameters"]
        assert {"name": "cluster_name", "value": "mill"} in exported
        client = await AmqpMemoryClient(broker.amqp.frontend).open()
        assert client.session.wire.offer.server_properties["cluster_name"] == "mill"
        await broker.do("DELETE", "global-parameters/cluster_name")
        assert await broker.get("cluster-name") == {"name": before}
        assert (await broker.ask("PUT", "cluster-name", {"name": 7})).status == 400


@pytest.mark.parametrize("value", [1, "text", True, None, [1, "a"], {}, {"a": 1}, {"value": 2}])
async def test_parameters_are_shown_as_they_were_given(value: Any) -> None:
    async with managed_broker() as broker:
        for place in ("global-parameters/p", "parameters/federation/%2F/p"):
            assert (await broker.ask("GET", place)).status == 404
            await broker.do("PUT", place, {"value": value})
            assert (await broker.get(place))["value"] == value
        whole = await broker.get("definitions")
        await broker.do("POST", "definitions", whole)
        for place in ("global-parameters/p", "parameters/federation/%2F/p"):
            assert (await broker.get(place))["value"] == value
            await broker.do("DELETE", place)
            assert (await broker.ask("DELETE", place)).status == 404


async def test_limits_and_operators_policies_are_parameters_too() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "vhost-limits/%2F/max-queues", {"value": 3})
        await broker.do("PUT", "operator-policies/%2F/o", POLICY)
        for row in await broker.get("parameters"):
            place = f"parameters/{row['component']}/%2F/{row['name']}"
            assert await broker.get(place) == row
            await broker.do("DELETE", place)
        assert await broker.get("vhost-limits/%2F") == []
        assert await broker.get("operator-policies/%2F") == []
        await broker.do("PUT", "parameters/vhost-limits/%2F/limits", {"value": {"max-queues": 1}})
        await broker.do("PUT", "parameters/operator_policy/%2F/o", {"value": POLICY})
        assert (await broker.get("vhost-limits/%2F"))[0]["value"] == {"max-queues": 1}
        assert [one["name"] for one in await broker.get("operator-policies/%2F")] == ["o"]
        bad = await broker.ask("PUT", "parameters/operator_policy/%2F/o", {"value": 7})
        assert bad.status == 400


POLICY: dict[str, Any] = {"pattern": ".*", "definition": {"max-length": 1}, "apply-to": "queues"}


async def test_logins_are_counted() -> None:
    async with managed_broker() as broker:
        node = (await broker.get("overview"))["node"]
        await broker.ask("DELETE", f"auth/attempts/{quote(node)}")
        await broker.amqp.client(1)
        await broker.ask("GET", "whoami", login="guest:wrong")
        refused = AmqpMemoryClient(
            broker.amqp.frontend, ConnectOptions(user="guest", password="no")
        )
        assert isinstance(await refused.wait(), ConnectionClosed)
        counted = {
            row["protocol"]: (row["auth_attempts_succeeded"], row["auth_attempts_failed"])
            for row in await broker.get(f"auth/attempts/{quote(node)}")
        }
        assert counted == {"amqp091": (1, 1), "http": (1, 1)}
        assert await broker.get(f"auth/attempts/{quote(node)}/source") == []
        assert (await broker.ask("GET", "auth/attempts/nobody")).status == 404


async def test_how_to_log_in_is_told_to_everybody() -> None:
    async with managed_broker() as broker:
        assert (await broker.get("auth", login=None))["enable_uaa"] is False


async def test_nodes_tell_of_themselves_wherever_they_are_asked() -> None:
    async with amqp_cluster() as cluster:
        nodes = {node: ManagedNode(one) for node, one in cluster.frontends.items()}
        asked = nodes[min(nodes)]
        for row in await asked.get("nodes"):
            assert row["running"]
            assert row["mem_used"] > 0
            name = quote(row["name"], safe="")
            assert (await asked.get(f"nodes/{name}/memory"))["memory"]["total"]["rss"] > 0
            assert (await asked.get(f"nodes/{name}?memory=true"))["memory"]["strategy"] == "rss"
            assert (await asked.get(f"nodes/{name}/memory/relative"))["memory"]["total"] == 100
        assert (await asked.ask("GET", "nodes/nobody/memory")).status == 404


async def test_deprecated_features_are_listed_and_those_that_queues_use() -> None:
    async with managed_broker() as broker:
        names = {one["name"] for one in await broker.get("deprecated-features")}
        assert names == {"global_qos", "transient_nonexcl_queues"}
        await broker.do("PUT", "queues/%2F/kept", {"durable": True})
        assert await broker.get("deprecated-features/used") == []
        await broker.do("PUT", "queues/%2F/passing", {"durable": False})
        (used,) = await broker.get("deprecated-features/used")
        assert used["name"] == "transient_nonexcl_queues"
        assert used["deprecation_phase"] == "permitted_by_default"


async def test_what_asks_for_what_is_always_so_is_answered() -> None:
    async with managed_broker() as broker:
        flags = await broker.get("feature-flags")
        assert {one["state"] for one in flags} == {"enabled"}
        for one in flags:
            await broker.do("PUT", f"feature-flags/{one['name']}/enable")
        assert (await broker.ask("PUT", "feature-flags/nothing/enable")).status == 400
        node = quote((await broker.get("overview"))["node"])
        for method, path, status in (
            ("POST", "rebalance/queues", 204),
            ("DELETE", "reset", 204),
            ("DELETE", f"reset/{node}", 204),
            ("DELETE", "reset/nobody", 404),
            ("POST", f"vhosts/%2F/start/{node}", 204),
            ("POST", f"vhosts/nowhere/start/{node}", 404),
            ("POST", "vhosts/%2F/start/nobody", 400),
        ):
            assert (await broker.ask(method, path)).status == status, path


async def test_a_history_has_the_count_of_now() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "queues/%2F/q", {})
        (row,) = await broker.get("queues?lengths_age=60&lengths_incr=5")
        (sample,) = row["messages_details"]["samples"]
        assert sample["sample"] == 0
        for query in ("lengths_age=60", "lengths_age=x&lengths_incr=5"):
            answer = await broker.ask("GET", f"queues?{query}")
            assert answer.status == 400, query
            assert "lengths_age" in json.loads(answer.body)["reason"]


async def test_both_protocols_say_who_answers_in_the_same_words() -> None:
    async with managed_broker() as broker:
        client = await AmqpMemoryClient(broker.amqp.frontend).open()
        told = client.session.wire.offer.server_properties
        for path in ("overview", "definitions"):
            row = await broker.get(path)
            said = row["product_name"], row["rabbitmq_version"], row["millpond_version"]
            assert said == (told["product"], told["version"], told["millpond_version"])


@pytest.mark.parametrize("target", ["/cli/rabbitmqadmin", "/cli", "/cli/"])
async def test_where_rabbitmq_has_its_script_it_says_where_to_get_it(target: str) -> None:
    async with managed_broker() as broker:
        answer = await broker.ask_at(target)
        assert (answer.status, answer.content_type) == (404, "text/plain")
        assert b"v3.10.8/deps/rabbitmq_management/bin/rabbitmqadmin" in answer.body


async def test_a_log_directory_that_is_offline_is_named() -> None:
    async with managed_broker() as broker:
        (row,) = await broker.get("nodes")
        assert row["millpond_offline_log_dirs"] == []
        (log_dir,) = broker.amqp.frontend.engine.log_dirs
        log_dir.on_failure("it broke")
        (row,) = await broker.get("nodes")
        assert row["millpond_offline_log_dirs"] == [{"path": log_dir.name, "reason": "it broke"}]
