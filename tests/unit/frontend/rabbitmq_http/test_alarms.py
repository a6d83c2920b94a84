"""The management API while memory or disk run low: which node has the alarm, and what a publish waits for."""

import asyncio
import json
from typing import Any

import pytest

from millpond.base.ids import NodeId
from millpond.base.pressure import DISK, MEMORY, NONE, Pressure
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.management import ManagedNode, managed_broker
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

LOW_DISK = Pressure(low_on=(DISK,))
MESSAGE = {"routing_key": "work", "payload": "x", "payload_encoding": "string", "properties": {}}
PUBLISH = "exchanges/%2F/amq.default/publish"


async def alarms_at(node: ManagedNode, check: str) -> list[dict[str, Any]]:
    """What a health check names; nothing if it passes."""
    answer = await node.ask("GET", f"health/checks/{check}")
    said = json.loads(answer.body)
    if answer.status == 200:
        assert said == {"status": "ok"}
        return []
    assert (answer.status, said["status"]) == (503, "failed")
    alarms: list[dict[str, Any]] = said["alarms"]
    return alarms


async def test_a_node_whose_directory_is_offline_still_has_a_row() -> None:
    storage = FaultyStorage()
    async with managed_broker(storage) as broker:
        storage.fail_writes = True
        broker.amqp.broker.engine.disk.on_metadata_failure("cannot append (I/O error)")
        assert broker.amqp.broker.engine.disk.is_offline
        (row,) = await broker.get("nodes")
        assert (row["running"], row["disk_free"]) == (True, -1)


def test_an_alarm_is_that_of_the_node_that_has_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with amqp_cluster() as cluster:
            nodes = {
                number: ManagedNode(frontend) for number, frontend in cluster.frontends.items()
            }
            low = NodeId(3)
            cluster.frontends[low].on_pressure(LOW_DISK)
            # It is told again and again while it lasts, and logged once.
            await asyncio.sleep(20)
            alarm = {"node": "millpond@3", "resource": "disk space"}
            for number, node in nodes.items():
                rows = await node.get("nodes")
                assert [row["disk_free_alarm"] for row in rows] == [False, False, True]
                assert [row["mem_alarm"] for row in rows] == [False, False, False]
                assert await alarms_at(node, "alarms") == [alarm]
                assert await alarms_at(node, "local-alarms") == ([alarm] if number == low else [])
            cluster.frontends[NodeId(1)].on_pressure(Pressure(low_on=(MEMORY,)))
            await asyncio.sleep(1)
            at_1 = {"node": "millpond@1", "resource": "memory"}
            assert await alarms_at(nodes[NodeId(2)], "alarms") == [at_1, alarm]
            cluster.frontends[low].on_pressure(NONE)
            await asyncio.sleep(1)
            assert await alarms_at(nodes[NodeId(2)], "alarms") == [at_1]
            assert await alarms_at(nodes[low], "local-alarms") == []

    run(story())
    said = [record.getMessage() for record in caplog.records if "node 3" in record.getMessage()]
    told = [text for text in said if text == "publishers are blocked: low on disk on node 3"]
    assert len(told) == 2  # at nodes 1 and 2
    over = [text for text in said if text == "node 3 is not low on disk any more"]
    assert len(over) == 2


def test_a_silent_node_takes_its_alarm_with_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with amqp_cluster() as cluster:
            node = ManagedNode(cluster.frontends[NodeId(1)])
            cluster.frontends[NodeId(3)].on_pressure(LOW_DISK)
            await asyncio.sleep(1)
            assert await alarms_at(node, "alarms")
            await cluster.kill(NodeId(3))
            await asyncio.sleep(30)
            assert await alarms_at(node, "alarms") == []

    run(story())
    assert "node 3 is silent: its alarm (low on disk) does not count any more" in caplog.messages


async def test_a_publish_that_waits_for_an_alarm_goes_on_when_it_is_over() -> None:
    async with managed_broker() as broker:
        await broker.do("PUT", "queues/%2F/work")
        broker.amqp.frontend.on_pressure(LOW_DISK)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(broker.ask("POST", PUBLISH, MESSAGE))
            await asyncio.sleep(10)
            assert not waiting.done()
            broker.amqp.frontend.on_pressure(NONE)
            await asyncio.sleep(0.1)
            assert waiting.done()
        assert json.loads(waiting.result().body) == {"routed": True}
        assert not broker.amqp.frontend.inner_sessions


@pytest.mark.parametrize("path", [PUBLISH, "aliveness-test/%2F"])
async def test_a_publish_that_waited_in_vain_is_told_what_for(path: str) -> None:
    async with amqp_cluster() as cluster:
        node = ManagedNode(cluster.frontends[NodeId(1)])
        cluster.frontends[NodeId(3)].on_pressure(LOW_DISK)
        await asyncio.sleep(1)
        method = "POST" if path == PUBLISH else "GET"
        answer = await node.ask(method, path, MESSAGE if path == PUBLISH else None)
        assert answer.status == 503
        reason = json.loads(answer.body)["reason"]
        assert reason.startswith("publishers are blocked: low on disk on node 3")
        # What it wanted to publish is not published after it was refused.
        cluster.frontends[NodeId(3)].on_pressure(NONE)
        await asyncio.sleep(1)
        rows = await node.get("queues/%2F")
        assert [row["messages"] for row in rows] == [0] * len(rows)
