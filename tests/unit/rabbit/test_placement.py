"""Where queues go: copies, who hosts first, how many must be in sync, and one host for all priorities."""

from dataclasses import replace
from uuid import UUID

import pytest

from millpond.base.fields import Table
from millpond.metadata.image import BrokerImage, Image, PartitionImage, TopicImage
from millpond.metadata.led_together import decide_together
from millpond.metadata.records import BrokerEndpoint
from millpond.rabbit.placement import Place, place
from millpond.rabbit.records import Queue


def brokers(*nodes: int, fenced: tuple[int, ...] = (), racks: str = "") -> Image:
    """Nodes that are registered; ``racks`` has a letter for each."""
    return Image(
        brokers={
            node: BrokerImage(
                broker_id=node,
                broker_epoch=node,
                incarnation_id=UUID(int=node),
                end_points=(BrokerEndpoint(name="PLAINTEXT", host=f"mill-{node}", port=9092),),
                rack=racks[number] if racks else None,
                fenced=node in fenced,
            )
            for number, node in enumerate(nodes)
        }
    )


def partition(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int) -> PartitionImage:
    return PartitionImage(
        replicas=replicas, isr=isr, leader=leader, leader_epoch=0, partition_epoch=0
    )


def led(image: Image, **leaders: int) -> Image:
    topics = {
        name: TopicImage(
            name=name,
            topic_id=UUID(int=number),
            partitions=(partition((leader,), (leader,), leader),),
        )
        for number, (name, leader) in enumerate(leaders.items(), start=1)
    }
    return replace(image, topics=topics)


def placed(
    image: Image, policy: Table | None = None, client: int = 2, **queue: object
) -> tuple[int, ...]:
    made = Queue(vhost="/", name="q", **queue)  # type: ignore[arg-type]
    return place(made, policy or {}, image, client, image.topics).replicas


FIVE = brokers(1, 2, 3, 4, 5)


def test_what_lasts_has_three_copies_and_begins_at_its_client() -> None:
    found = place(Queue(vhost="/", name="q"), {}, FIVE, 4, ())
    assert found == Place(replicas=(4, 5, 1), in_sync_min=2)
    assert placed(brokers(1, 2)) == (2, 1)
    assert placed(brokers(7), client=7) == (7,)


def test_what_does_not_last_is_on_its_clients_node_alone() -> None:
    assert placed(FIVE, durable=False) == (2,)
    assert placed(FIVE, owner="a connection") == (2,)
    # A policy for mirrors cannot make it outlive its client.
    assert placed(FIVE, {"ha-mode": "all"}, durable=False) == (2,)


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        ({"ha-mode": "all"}, (2, 3, 4, 5, 1)),
        ({"ha-mode": "exactly", "ha-params": 2}, (2, 3)),
        ({"ha-mode": "exactly", "ha-params": 9}, (2, 3, 4, 5, 1)),
        ({"ha-mode": "nodes", "ha-params": ["5", "2"]}, (2, 5)),
        ({"ha-mode": "nodes", "ha-params": ["rabbit@mill-4", "rabbit@mill-1"]}, (1, 4)),
        # Nobody knows these: as if nothing had been said.
        ({"ha-mode": "nodes", "ha-params": ["rabbit@nowhere"]}, (2, 3, 4)),
    ],
)
def test_mirror_policies_choose_the_replicas(policy: Table, nodes: tuple[int, ...]) -> None:
    assert placed(FIVE, policy) == nodes


def test_a_quorum_queue_says_how_many_it_begins_with() -> None:
    arguments: Table = {"x-quorum-initial-group-size": 5}
    assert len(placed(FIVE, type="quorum", arguments=arguments)) == 5
    assert len(placed(FIVE, {"target-group-size": 1}, type="quorum")) == 1
    # It means nothing to a classic queue.
    assert len(placed(FIVE, arguments=arguments)) == 3


def test_the_balanced_locator_takes_the_node_that_hosts_the_fewest() -> None:
    image = led(brokers(1, 2, 3), a=1, b=2, c=2, d=3, e=3)
    assert placed(image, arguments={"x-queue-leader-locator": "balanced"})[0] == 1
    assert placed(image, {"queue-leader-locator": "balanced"})[0] == 1
    assert placed(image, arguments={"x-queue-leader-locator": "client-local"})[0] == 2
    assert placed(image, arguments={"x-queue-master-locator": "min-masters"})[0] == 1


def test_other_racks_come_first_and_nodes_that_are_down_last() -> None:
    assert placed(brokers(1, 2, 3, 4, racks="aabb"), client=1) == (1, 3, 4)
    assert placed(brokers(1, 2, 3, 4, fenced=(3,)), client=2) == (2, 4, 1)
    # A client's node that is down, or stops, hosts nothing new.
    assert placed(brokers(1, 2, 3, fenced=(2,)), client=2) == (1, 3, 2)


def lanes(*states: tuple[int, tuple[int, ...]]) -> TopicImage:
    """Partitions by their leaders and in-sync replicas."""
    return TopicImage(
        name="q",
        topic_id=UUID(int=1),
        partitions=tuple(partition((1, 2, 3), isr, leader) for leader, isr in states),
    )


def test_priorities_that_are_led_apart_get_one_leader() -> None:
    image = brokers(1, 2, 3, fenced=(1,))

    def elected(topic: TopicImage) -> list[tuple[int, int]]:
        return [(one.partition_id, one.leader) for one in decide_together(image, topic)]

    assert elected(lanes((2, (2, 3)), (2, (2, 3)))) == []
    # The first one's leader is in sync with the other.
    assert elected(lanes((2, (2, 3)), (3, (2, 3)))) == [(1, 2)]
    # It is not, but the other's leader is in sync with it.
    assert elected(lanes((2, (2, 3)), (3, (3,)))) == [(0, 3)]
    # Nobody has everything: they wait.
    assert elected(lanes((2, (2,)), (3, (3,)))) == []
    assert elected(lanes((2, (1, 2)), (3, (1, 3)))) == []
