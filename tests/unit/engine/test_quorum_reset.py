"""A quorum that was led to the end of its epochs: it says so, and begins again with what was agreed."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from millpond.base.errors import StorageFailure
from millpond.cli.node_quorum import reset_quorum
from millpond.engine.api import CreateTopic
from millpond.engine.quorum.quorum_reset import DIRECTORY, quorum_state, reset_epochs
from millpond.raft.epochs import EPOCH_MAX
from millpond.raft.messages import ReplicaKey, Vote
from millpond.server.embedded import Broker
from millpond.server.protocols import record_families
from tests.support.cluster.memory_broker import memory_broker
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, virtual_loop


async def make_topic(cluster: MemoryCluster, name: str) -> None:
    controller = await cluster.controller()
    (result,) = await controller.topic_admin.create_topics(
        [CreateTopic(name=name, replication_factor=3)]
    )
    assert result.error is None, result.error


def to_the_end(storage: FaultyStorage, epoch: int) -> None:
    """As a release before this one could be sent there."""
    path = f"data/{DIRECTORY}/quorum-state"
    state = json.loads(storage.read_all(path) or b"{}")
    state |= {"leaderEpoch": epoch, "leaderId": -1, "votedId": -1}
    state.pop("votedDirectoryId", None)
    storage.replace(path, json.dumps(state).encode())


async def test_one_forged_vote_does_not_stop_the_quorum_for_ever() -> None:
    async with memory_cluster() as cluster:
        leader = await cluster.controller()
        forged = Vote(
            epoch=EPOCH_MAX - 1,
            candidate=ReplicaKey(2),
            last_epoch=EPOCH_MAX - 2,
            end_offset=2**40,
            pre_vote=False,
        )
        for engine in cluster.engines.values():
            answer = await engine.peer_handlers.answer_quorum(forged)
            assert not answer.granted  # type: ignore[attr-defined]
            assert engine.metadata.quorum.leader_epoch < 100
        await cluster.kill(leader.info.node_id)
        await cluster.until(
            lambda: any(one.metadata.is_controller for one in cluster.engines.values())
        )
        await cluster.start(leader.info.node_id)
        await cluster.up(leader.info.node_id)
        await make_topic(cluster, "after")


@pytest.mark.parametrize("was_led", [False, True])
async def test_a_quorum_at_the_end_begins_again_with_what_was_agreed(
    was_led: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory_cluster() as cluster:
        await make_topic(cluster, "before")
        nodes = tuple(cluster.storages)
        for node in nodes:
            await cluster.stop(node)
        # One more election, or none, is left.
        for node in nodes:
            to_the_end(cluster.storages[node], EPOCH_MAX - 1 if was_led else EPOCH_MAX)
        for node in nodes:
            await cluster.start(node)
        if was_led:
            await cluster.up(*nodes)
            await make_topic(cluster, "at the end".replace(" ", "-"))
        else:
            await asyncio.sleep(30)
            assert not any(engine.metadata.is_controller for engine in cluster.engines.values())
        assert "the quorum has used up its epochs" in caplog.text
        for node in nodes:
            await cluster.stop(node) if was_led else await cluster.kill(node, power=False)

        clock = LoopClock(virtual_loop())
        found = {
            node: quorum_state(cluster.storages[node], clock, record_families(), "data")
            for node in nodes
        }
        assert {one.epoch for one in found.values()} == {EPOCH_MAX}
        last = max(nodes, key=lambda node: (found[node].last_epoch, found[node].end_offset))
        copy = cluster.storages[last]
        reset_epochs(copy, clock, record_families(), "data")
        for node in nodes:
            if node != last:
                replace_metadata(copy, cluster.storages[node])
        for node in nodes:
            await cluster.start(node)
        await cluster.up(*nodes)
        leader = await cluster.controller()
        assert leader.metadata.quorum.leader_epoch < 100
        assert "before" in leader.metadata.image.topics
        assert ("at-the-end" in leader.metadata.image.topics) is was_led
        await make_topic(cluster, "after")


async def test_a_node_that_was_left_out_stays_out_and_takes_no_other_with_it() -> None:
    async with memory_cluster() as cluster:
        await make_topic(cluster, "before")
        for node in (1, 2, 3):
            await cluster.stop(node)
            to_the_end(cluster.storages[node], EPOCH_MAX)
        clock = LoopClock(virtual_loop())
        reset_epochs(cluster.storages[3], clock, record_families(), "data")
        replace_metadata(cluster.storages[3], cluster.storages[2])
        for node in (1, 2, 3):
            await cluster.start(node)
        await cluster.until(
            lambda: any(one.metadata.is_controller for one in cluster.engines.values())
        )
        await asyncio.sleep(30)
        leader = await cluster.controller()
        assert leader.metadata.quorum.leader_epoch < 100
        assert cluster.node(1).metadata.quorum.leader_epoch == EPOCH_MAX
        # Without its metadata it pulls those of the others.
        await cluster.kill(1, power=False)
        cluster.storages[1].delete_tree(f"data/{DIRECTORY}")
        await cluster.start(1)
        await cluster.up(1, 2, 3)
        await make_topic(cluster, "after")


def replace_metadata(source: FaultyStorage, target: FaultyStorage) -> None:
    """Put a copy of one node's metadata into the place of another's."""
    path = f"data/{DIRECTORY}"
    target.delete_tree(path)
    target.make_dir(path)
    for name in tuple(source.list(path)):
        data = source.read_all(f"{path}/{name}")
        assert data is not None
        target.replace(f"{path}/{name}", data)


async def test_a_node_that_is_alone_at_the_end_says_what_to_do() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("kept")
    to_the_end(storage, EPOCH_MAX)
    with pytest.raises(StorageFailure, match="millpond node reset-quorum"):
        async with memory_broker(storage):
            pass
    reset_epochs(storage, LoopClock(virtual_loop()), record_families(), "data")
    async with memory_broker(storage) as broker:
        assert "kept" in broker.engine.metadata.image.topics
        await broker.create("more")


def test_the_command_keeps_what_was_there(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("kept")
        refused = CliRunner().invoke(reset_quorum, ["--data", str(tmp_path), "--yes"])
        assert refused.exit_code != 0
    shown = CliRunner().invoke(reset_quorum, ["--data", str(tmp_path), "--dry-run"])
    assert shown.exit_code == 0
    assert "last epoch 1, offset " in shown.output
    refused = CliRunner().invoke(reset_quorum, ["--data", str(tmp_path), "--yes"])
    assert refused.exit_code != 0
    assert "far from the end" in refused.output
    assert not list(tmp_path.glob("*before-reset*"))
    done = CliRunner().invoke(reset_quorum, ["--data", str(tmp_path), "--yes", "--force"])
    assert done.exit_code == 0, done.output
    assert "delete it when" in done.output
    assert (tmp_path / f"{DIRECTORY}.before-reset-0-stray").is_dir()
    with Broker(data=tmp_path) as broker:
        broker.create_topic("more")
