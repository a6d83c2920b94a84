"""What an administrator asks about nodes, the quorum and replicas, answered by a fake cluster."""

import pytest

from millpond.client import Admin, BrokerRefused, ElectionType, Reassignment
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_cluster import FakeCluster
from tests.support.kafka.fake_kafka import DROP, tp
from tests.unit.client.test_cluster import cluster_of, run


def test_nodes_that_are_not_heard_of_are_shown_when_asked_for() -> None:
    async def story() -> None:
        async with FakeCluster() as kafka, cluster_of(kafka) as cluster:
            kafka.board.fenced = {3}
            kafka.board.racks = {1: "a"}
            admin = Admin(cluster)
            heard = await admin.describe_cluster()
            assert [(item.node_id, item.rack) for item in heard.brokers] == [(1, "a"), (2, None)]
            every = await admin.describe_cluster(fenced=True)
            assert [item.node_id for item in every.brokers if item.is_fenced] == [3]

    run(story())


def test_the_quorum_and_how_far_each_is_behind() -> None:
    async def story() -> None:
        async with FakeCluster() as kafka, cluster_of(kafka) as cluster:
            del kafka.board.voters[3]
            kafka.board.ends = {1: 100, 2: 97, 3: 100}
            kafka.trouble(ApiKey.DESCRIBE_QUORUM, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            quorum = await Admin(cluster).describe_quorum()
            assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (1, 7, 99)
            assert {item.node_id: quorum.lag_of(item) for item in quorum.voters} == {1: 0, 2: 3}
            assert [item.node_id for item in quorum.observers] == [3]

    run(story())


def test_voters_come_and_go() -> None:
    async def story() -> None:
        async with FakeCluster() as kafka, cluster_of(kafka) as cluster:
            admin = Admin(cluster)
            directory = kafka.board.voters.pop(3)
            await admin.add_voter(3, directory, {"PLAINTEXT": "there:9093"}, cluster_id="fake")
            assert sorted(kafka.board.voters) == [1, 2, 3]
            _, _, _, asked = kafka.requests[-1]
            [listener] = asked.listeners
            assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "there", 9093)
            await admin.remove_voter(3, directory, cluster_id="fake")
            assert sorted(kafka.board.voters) == [1, 2]
            kafka.trouble(ApiKey.ADD_RAFT_VOTER, ErrorCode.DUPLICATE_VOTER)
            with pytest.raises(BrokerRefused, match="DUPLICATE_VOTER"):
                await admin.add_voter(3, directory, {"PLAINTEXT": "there:9093"})

    run(story())


def test_moves_begin_are_listed_and_are_stopped() -> None:
    async def story() -> None:
        async with FakeCluster() as kafka, cluster_of(kafka) as cluster:
            kafka.board.place("orders", [1, 2], [2, 1])
            kafka.board.stuck = True
            admin = Admin(cluster)
            kafka.trouble(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ErrorCode.NOT_CONTROLLER, DROP)
            outcomes = await admin.alter_reassignments({tp("orders"): [1, 3], tp("nosuch"): [1]})
            assert outcomes[tp("orders")] is None
            refusal = outcomes[tp("nosuch")]
            assert refusal is not None
            assert refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await admin.list_reassignments() == {
                tp("orders"): Reassignment(replicas=(1, 3, 2), adding=(3,), removing=(2,))
            }
            assert await admin.alter_reassignments({tp("orders"): None}) == {tp("orders"): None}
            assert await admin.list_reassignments([tp("orders")]) == {}

    run(story())


def test_elections_say_what_came_of_each() -> None:
    async def story() -> None:
        async with FakeCluster() as kafka, cluster_of(kafka) as cluster:
            kafka.board.place("orders", [1, 2], [2, 1])
            kafka.board.partitions[tp("orders", 1)].leader = 1
            admin = Admin(cluster)
            outcomes = await admin.elect_leaders([tp("orders", 0), tp("orders", 1)])
            assert outcomes[tp("orders", 1)] is None
            idle = outcomes[tp("orders", 0)]
            assert idle is not None
            assert idle.code == ErrorCode.ELECTION_NOT_NEEDED
            assert kafka.board.partitions[tp("orders", 1)].leader == 2
            assert await admin.elect_leaders() == {}
            kafka.board.partitions[tp("orders", 0)].leader = -1
            unclean = await admin.elect_leaders([tp("orders")], kind=ElectionType.UNCLEAN)
            assert unclean == {tp("orders"): None}

    run(story())


def test_a_broker_is_forgotten_once() -> None:
    async def story() -> None:
        async with FakeCluster() as kafka, cluster_of(kafka) as cluster:
            admin = Admin(cluster)
            await admin.unregister_broker(3)
            with pytest.raises(BrokerRefused, match="BROKER_ID_NOT_REGISTERED"):
                await admin.unregister_broker(3)

    run(story())


def test_one_setting_of_many_topics() -> None:
    async def story() -> None:
        async with FakeCluster() as kafka, cluster_of(kafka) as cluster:
            kafka.board.settings = {
                (2, "a"): {"min.insync.replicas": "2", "retention.ms": "5"},
                (2, "b"): {"min.insync.replicas": "1"},
            }
            found = await Admin(cluster).describe_topic_setting(["a", "b"], "min.insync.replicas")
            assert found == {"a": "2", "b": "1"}

    run(story())
