"""A session is answered as a fetch that says everything would be, and looks only at what has changed."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from millpond.base.errors import (
    FencedLeaderEpoch,
    FetchSessionEpochInvalid,
    FetchSessionNotFound,
    MillpondError,
)
from millpond.engine.peers import ReplicaFetch, ReplicaRead, ReplicaReads
from millpond.engine.replication import follower_reads
from millpond.replication.fetch_session import OUT_OF_SESSION, SESSION_BEGINS, ReplicaPosition
from millpond.replication.serving import admit
from tests.support.cluster.replica_nodes import ReplicaNodes, replica_nodes
from tests.support.time.virtual_loop import run, virtual_loop

Key = tuple[Any, int]


class Asker:
    """Node 2 as its leader hears it: each partition's position, and what was last said of it."""

    def __init__(self, nodes: ReplicaNodes, partitions: int) -> None:
        self._nodes = nodes
        self.leader = nodes.engines[1].replicas
        self.positions = {index: self._position(index) for index in range(partitions)}
        self._said: dict[int, ReplicaPosition] = {}
        self.session_id = 0
        self.epoch = SESSION_BEGINS

    def _position(self, index: int) -> ReplicaPosition:
        partition = self._nodes.replica(1, index)
        return ReplicaPosition(
            topic_id=partition.topic_id,
            partition=index,
            leader_epoch=partition.leader_epoch,
            fetch_offset=0,
            last_epoch=-1,
            log_start=0,
            bytes_max=1 << 20,
            high_watermark=0,
        )

    def take(self, index: int) -> None:
        """Have everything that the leader has, and know what of it is committed."""
        partition = self._nodes.replica(1, index)
        self.positions[index] = replace(
            self.positions.get(index) or self._position(index),
            leader_epoch=partition.leader_epoch,
            fetch_offset=partition.log.end_offset,
            last_epoch=partition.log.latest_epoch,
            high_watermark=partition.high_watermark,
        )

    async def ask(self, **named: Any) -> ReplicaReads:
        """The next fetch of the session."""
        if self.epoch == SESSION_BEGINS:
            self._said = {}
        said = {index: one for index, one in self.positions.items() if self._said.get(index) != one}
        gone = [one for index, one in self._said.items() if index not in self.positions]
        self._said = dict(self.positions)
        request = {
            "positions": tuple(said.values()),
            "forgotten": tuple((one.topic_id, one.partition) for one in gone),
            "session_id": self.session_id,
            "session_epoch": self.epoch,
        }
        answer = await self.leader.serve(_fetch(**{**request, **named}))
        self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return answer

    async def ask_for_everything(self) -> ReplicaReads:
        """Out of any session."""
        return await self.leader.serve(
            _fetch(positions=tuple(self.positions.values()), session_epoch=OUT_OF_SESSION)
        )


def _fetch(**named: Any) -> ReplicaFetch:
    common = {"wait_ms": 0, "bytes_min": 1, "bytes_max": 1 << 20}
    return ReplicaFetch(node_id=2, broker_epoch=2, **{**common, **named})


def told(answer: ReplicaReads) -> dict[Key, Any]:
    def what(read: ReplicaRead) -> Any:
        return (
            bytes(read.records),
            read.high_watermark,
            read.log_start,
            read.diverging,
            type(read.error),
        )

    return {(one.topic_id, one.partition): what(one) for one in answer.reads}


@pytest.mark.parametrize("seed", range(6))
def test_a_session_is_answered_as_a_fetch_of_everything_is(seed: int) -> None:
    partitions = 5
    chance = Random(seed)

    async def story() -> None:
        async with replica_nodes(2) as nodes:
            await nodes.make_topic(partitions)
            await nodes.kill(2)
            asker = Asker(nodes, partitions)
            for _ in range(150):
                index = chance.randrange(partitions)
                match chance.randrange(8):
                    case 0 | 1 | 2:
                        nodes.append(1, b"v", index=index, acks=1)
                    case 3 | 4:
                        asker.take(index)
                    case 5:
                        asker.positions.pop(index, None)
                    case 6:
                        partition = nodes.replica(1, index)
                        partition.log.delete_records(partition.high_watermark)
                        nodes.engines[1].replicas.on_start_moved(partition)
                    case 7 if chance.random() < 0.3:
                        await nodes.change(leader=1)
                answer = await asker.ask()
                assert told(answer) == told(await asker.ask_for_everything())
            assert len(asker.leader._reads.sessions) == 1

    run(story())


async def test_only_what_has_changed_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    async with replica_nodes(2) as nodes:
        await nodes.make_topic(20)
        await nodes.kill(2)
        asker = Asker(nodes, 20)
        await asker.ask()
        looked: list[int] = []

        def noting(partition: Any, **named: Any) -> Any:
            looked.append(partition.index)
            return admit(partition, **named)

        monkeypatch.setattr(follower_reads, "admit", noting)
        await asker.ask()
        assert looked == []
        nodes.append(1, b"v", index=7, acks=1)
        answer = await asker.ask()
        assert [one.partition for one in answer.reads] == looked == [7]
        # Until the follower says that it has it, there is something to say.
        await asker.ask()
        assert looked == [7, 7]
        asker.take(7)
        await asker.ask()  # now it is committed, which the follower does not know
        asker.take(7)
        await asker.ask()
        looked.clear()
        await asker.ask()
        assert looked == []


async def test_a_fetch_that_is_not_the_next_of_its_session_is_refused() -> None:
    async with replica_nodes(2) as nodes:
        await nodes.make_topic(2)
        await nodes.kill(2)
        asker = Asker(nodes, 2)
        await asker.ask()
        refused: list[tuple[type[MillpondError], dict[str, int]]] = [
            (FetchSessionEpochInvalid, {"session_epoch": 2}),
            (FetchSessionNotFound, {"session_id": asker.session_id + 1}),
            (FetchSessionNotFound, {"session_id": 0}),
        ]
        for kind, named in refused:
            with pytest.raises(kind):
                await asker.ask(**named)
        await asker.ask()
        # The session that a node begins is its only one.
        other = Asker(nodes, 2)
        await other.ask()
        with pytest.raises(FetchSessionNotFound):
            await asker.ask()
        await other.ask()


async def test_a_position_that_is_refused_shows_nothing_until_it_is_right() -> None:
    async with replica_nodes(2) as nodes:
        await nodes.make_topic(1)
        await nodes.kill(2)
        asker = Asker(nodes, 1)
        await asker.ask()
        partition = nodes.replica(1)
        assert partition.leadership is not None
        await nodes.change(leader=1)
        follower = partition.leadership.followers[2]
        before = follower.fetched_ms
        virtual_loop().now += 5
        (read,) = (await asker.ask()).reads
        assert isinstance(read.error, FencedLeaderEpoch)
        assert follower.fetched_ms == before
        asker.take(0)
        await asker.ask()
        assert follower.fetched_ms > before
