"""What the controller writes for declarations: topics of queues, and what ends with nodes."""

from collections.abc import Iterator
from itertools import count
from uuid import UUID

import pytest

from millpond.base.errors import InvalidQueueArgument, UnknownResource
from millpond.metadata.image import Image, apply
from millpond.metadata.records import (
    FamilyRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from millpond.rabbit.arguments import STREAM_TOPIC
from millpond.rabbit.broker import Broker
from millpond.rabbit.commands import Decision, DeleteQueue, LoseLastConsumer, Principal
from millpond.rabbit.controller import (
    check_led_together,
    decide_command,
    find_misplaced,
    find_orphaned,
    has_priorities,
    incarnation_of,
    incarnations_in,
    records_of,
)
from millpond.rabbit.records import (
    Exchange,
    ExchangeDeleted,
    Fact,
    Policy,
    Queue,
    QueueDeleted,
    VirtualHost,
)


def nodes(*ids: int, fenced: int = -1) -> Image:
    return apply(
        Image(),
        [
            RegisterBrokerRecord(
                broker_id=node,
                incarnation_id=UUID(int=node),
                broker_epoch=node,
                fenced=node == fenced,
            )
            for node in ids
        ],
    )


class World:
    """A broker and the image that it was folded from."""

    def __init__(self, image: Image) -> None:
        self.broker = Broker()
        self.image = image
        self._ids: Iterator[UUID] = (UUID(int=number) for number in count(100))
        self.write(VirtualHost(name="/"))

    def write(self, *facts: Fact, node: int = 1) -> list[MetadataRecord]:
        records = records_of(
            facts,
            self.broker,
            self.image,
            node=node,
            incarnation=incarnation_of(node, UUID(int=node)),
            new_id=lambda: next(self._ids),
        )
        self.image = apply(self.image, records)
        for one in records:
            if isinstance(one, FamilyRecord):
                self.broker.apply(one.fact)
        return records

    def queue(self, name: str) -> Queue:
        return self.broker.rooms("/").queue(name)


def test_a_queues_topic_comes_with_it_and_goes_with_it() -> None:
    world = World(nodes(1, 2, 3))
    made = world.write(Queue(vhost="/", name="q", arguments={"x-max-priority": 2}))
    assert isinstance(made[0], TopicRecord)
    assert isinstance(made[-1], FamilyRecord)
    queue = world.queue("q")
    assert len(world.image.topics[queue.topic].partitions) == 3
    assert has_priorities(queue)
    assert queue.home == ""
    gone = world.write(QueueDeleted(vhost="/", name="q"))
    assert isinstance(gone[-1], RemoveTopicRecord)
    assert not world.image.topics


def test_a_stream_on_a_topic_leaves_it_behind() -> None:
    world = World(nodes(1))
    world.write(Queue(vhost="/", name="q"))
    topic = world.queue("q").topic
    world.write(Queue(vhost="/", name="s", type="stream", arguments={STREAM_TOPIC: topic}))
    assert world.queue("s").topic == topic
    world.write(QueueDeleted(vhost="/", name="s"))
    assert topic in world.image.topics
    with pytest.raises(UnknownResource, match="no topic 'other'"):
        world.write(Queue(vhost="/", name="t", type="stream", arguments={STREAM_TOPIC: "other"}))


def test_what_does_not_last_ends_with_the_nodes_that_hold_it() -> None:
    world = World(nodes(1, 2))
    world.write(Queue(vhost="/", name="here", durable=False), node=1)
    world.write(Queue(vhost="/", name="mine", owner="c"), node=2)
    world.write(Queue(vhost="/", name="kept"), node=1)
    world.write(Exchange(vhost="/", name="e", type="fanout", durable=False), node=1)
    present = set(incarnations_in(world.image))
    assert list(find_orphaned(world.broker, present)) == []
    first, second = (incarnation_of(node, UUID(int=node)) for node in (1, 2))
    assert list(find_orphaned(world.broker, {second})) == [QueueDeleted(vhost="/", name="here")]
    assert list(find_orphaned(world.broker, {first})) == [QueueDeleted(vhost="/", name="mine")]
    assert set(find_orphaned(world.broker, set())) == {
        QueueDeleted(vhost="/", name="here"),
        QueueDeleted(vhost="/", name="mine"),
        ExchangeDeleted(vhost="/", name="e"),
    }
    assert list(incarnations_in(nodes(1, 2, fenced=1))) == [second]


def test_a_command_about_a_queue_that_is_gone_decides_nothing() -> None:
    world = World(nodes(1))
    world.write(Queue(vhost="/", name="q", auto_delete=True))
    key = world.image.topics[world.queue("q").topic].topic_id.hex
    asker = Principal(vhost="/")
    for other in ("0" * 32, "1" * 32):
        command = DeleteQueue(asker=asker, name="q", key=other)
        assert decide_command(world.broker, world.image, command) == Decision()
    lost = LoseLastConsumer(vhost="/", queue="gone", key=key)
    assert decide_command(world.broker, world.image, lost) == Decision()
    decided = decide_command(world.broker, world.image, DeleteQueue(asker=asker, name="q", key=key))
    assert QueueDeleted(vhost="/", name="q") in decided.facts


def test_a_mirror_policy_finds_queues_that_are_elsewhere() -> None:
    world = World(nodes(1, 2, 3))
    world.write(Queue(vhost="/", name="q"))
    assert list(find_misplaced(world.broker, world.image)) == []
    world.write(
        Policy(
            vhost="/",
            name="p",
            pattern="^q$",
            definition={"ha-mode": "exactly", "ha-params": 2},
        )
    )
    ((topic, place),) = find_misplaced(world.broker, world.image)
    assert topic.name == world.queue("q").topic
    assert len(place.replicas) == 2


def test_a_stream_whose_topic_is_led_by_several_nodes_is_refused() -> None:
    topic_id = UUID(int=9)
    image = apply(
        nodes(1, 2),
        [
            TopicRecord(name="t", topic_id=topic_id),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=(leader,),
                    isr=(leader,),
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=(),
                )
                for index, leader in enumerate((1, 2))
            ),
        ],
    )
    with pytest.raises(InvalidQueueArgument, match="led by nodes 1, 2"):
        check_led_together(image, "t", Queue(vhost="/", name="s", type="stream"))
