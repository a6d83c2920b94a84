"""Kafka's Java consumer in groups of both protocols: classic, eager and cooperative, and KIP-848.

The stories are in ``java/driver/Consumers.java``; here stands what a member of a group must see.
"""

import pytest

from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.processes.java_host import JavaHost

EAGER = (("classic", "range"), ("classic", "roundrobin"))
COOPERATIVE = (("classic", "cooperative-sticky"),)
SERVER_SIDE = (("consumer", "uniform"), ("consumer", "range"))
PROTOCOLS = (*EAGER, *COOPERATIVE, *SERVER_SIDE)
ONE_OF_EACH = (EAGER[0], COOPERATIVE[0], SERVER_SIDE[0])


@pytest.mark.parametrize(("protocol", "assignor"), PROTOCOLS)
def test_members_join_share_read_leave_and_go_on(
    broker: Peer, java_host: JavaHost, topic: str, protocol: str, assignor: str
) -> None:
    create_topic(broker, topic, partitions=4)
    # An eager member gives up everything before each rebalance, a cooperative one what it must.
    given_up = 4 if (protocol, assignor) in EAGER else 2
    assert java_host.run("Consumers.life", broker.bootstrap, topic, protocol, assignor) == [
        "ann alone: 4",
        "shared: 2 and 2, disjoint true",
        f"ann gave up {given_up}, lost 0",
        "read: 100, distinct 100, each 50",
        "ann alone again: 4, read again 0",
        "eve goes on with [100, 101, 102, 103]",
        "committed: [25, 25, 25, 25]",
    ]


@pytest.mark.parametrize(("protocol", "assignor"), ONE_OF_EACH)
def test_a_static_member_comes_back_to_what_it_had(
    broker: Peer, java_host: JavaHost, topic: str, protocol: str, assignor: str
) -> None:
    create_topic(broker, topic, partitions=4)
    assert java_host.run("Consumers.still", broker.bootstrap, topic, protocol, assignor) == [
        "bob has what he had: true",
        "ann noticed: 0 revoked, 0 assigned",
        "bob has left: ann has 4",
    ]


@pytest.mark.parametrize(("protocol", "assignor"), ONE_OF_EACH)
def test_new_partitions_and_topics_reach_the_group(
    broker: Peer, java_host: JavaHost, topic: str, protocol: str, assignor: str
) -> None:
    create_topic(broker, topic, partitions=2)
    assert java_host.run("Consumers.growth", broker.bootstrap, topic, protocol, assignor) == [
        "by pattern: 2",
        "grown: 3",
        "another topic: 5",
        "and gone: 3",
        "unsubscribed: 0",
    ]


@pytest.mark.parametrize(("protocol", "assignor"), [EAGER[0], SERVER_SIDE[0]])
def test_a_member_that_does_not_poll_loses_its_partitions_and_its_commit(
    broker: Peer, java_host: JavaHost, topic: str, protocol: str, assignor: str
) -> None:
    create_topic(broker, topic)
    assert java_host.run("Consumers.sleeper", broker.bootstrap, topic, protocol, assignor) == [
        "bob reads 10",
        "ann: CommitFailedException",
        "ann lost 1",
    ]


@pytest.mark.parametrize(("protocol", "assignor"), [COOPERATIVE[0], SERVER_SIDE[0]])
def test_everything_that_a_consumer_can_ask(
    broker: Peer, java_host: JavaHost, topic: str, protocol: str, assignor: str
) -> None:
    create_topic(broker, topic, partitions=2)
    even = ", ".join(str(number) for number in range(0, 20, 2))
    assert java_host.run("Consumers.questions", broker.bootstrap, topic, protocol, assignor) == [
        "positions 10 10, ends {0=10, 1=10}, beginnings {0=0, 1=0}",
        "committed 7 seven",
        f"paused: [{even}]",
        "at the end 10",
        "sought: [18]",
        "at time 0: 0",
        "ever after: null",
        "partitions 2, listed true",
        "group true, static false",
        "async done",
        "committed [4, 8]",
        "no position: NoOffsetForPartitionException",
    ]


def test_a_group_moves_to_the_newer_protocol_and_back(
    broker: Peer, java_host: JavaHost, topic: str
) -> None:
    create_topic(broker, topic, partitions=4)
    assert java_host.run("Consumers.upgrade", broker.bootstrap, topic) == [
        "both protocols: 2 and 2, disjoint true",
        "bob alone: 4, read again 0",
        "eve alone: 4, read 0",
    ]
