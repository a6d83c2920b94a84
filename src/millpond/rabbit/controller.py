"""What the active controller decides about declarations, beside the command itself: pure functions.

A declaration's facts are written together with the topics that its queues need. What does not last belongs to
*incarnations* of nodes: a queue to that of the node where it was declared, an exchange to those of all nodes
that served then. An incarnation ends when its node is fenced or comes back as another one; what belongs to no
incarnation any more is deleted.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from millpond.base.errors import InvalidQueueArgument, MillpondError, UnknownResource
from millpond.base.ids import NodeId
from millpond.metadata.controller import (
    INTERNAL_TOPICS,
    CreateTopic,
    TopicDefaults,
    decide_create_topics,
)
from millpond.metadata.elections import Rules
from millpond.metadata.image import Image, TopicImage, apply
from millpond.metadata.reassignments import Reassignment, decide_reassign
from millpond.metadata.records import (
    RESOURCE_TOPIC,
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
)
from millpond.rabbit.arguments import STREAM_TOPIC
from millpond.rabbit.broker import Broker
from millpond.rabbit.commands import Command, Decision, DeleteQueue, LoseLastConsumer
from millpond.rabbit.declare import decide
from millpond.rabbit.family import DECLARATIONS
from millpond.rabbit.placement import Place, place
from millpond.rabbit.policies import effective, settings_of
from millpond.rabbit.records import Exchange, ExchangeDeleted, Fact, Policy, Queue, QueueDeleted
from millpond.rabbit.topic_names import topic_names
from millpond.rabbit.topic_settings import topic_configs

_SEPARATOR: Final = " "


def decide_command(broker: Broker, image: Image, command: Command) -> Decision:
    """Decide a command. Raises a ``BrokerRefusal``. Nothing is left to do for a queue that is gone."""
    return Decision() if _is_over(broker, image, command) else decide(broker, command)


def _is_over(broker: Broker, image: Image, command: Command) -> bool:
    """Whether the queue that is meant is gone, even if another one has its name now."""
    match command:
        case DeleteQueue():
            vhost, name = command.asker.vhost, command.name
        case LoseLastConsumer():
            vhost, name = command.vhost, command.queue
        case _:
            return False
    if not command.key:
        return False
    known = broker.vhosts.get(vhost)
    queue = None if known is None else known.queues.get(name)
    if queue is None:
        return True
    topic = image.topics.get(queue.topic)
    return topic is not None and not command.key.startswith(topic.topic_id.hex)


# --- facts as records -------------------------------------------------------------------------------


def records_of(
    facts: Sequence[Fact],
    broker: Broker,
    head: Image,
    *,
    node: NodeId,
    incarnation: str,
    new_id: Callable[[], UUID],
) -> list[MetadataRecord]:
    """Return the records of facts that a node's client has caused, with the topics that come and go.

    Raises a ``BrokerRefusal`` if a queue's topic cannot be made.
    """
    records: list[MetadataRecord] = []
    policies = [fact for fact in facts if isinstance(fact, Policy)]
    for fact in facts:
        if isinstance(fact, Exchange) and not fact.durable:
            homes = sorted({incarnation, *incarnations_in(head)})
            records.append(DECLARATIONS.record(replace(fact, home=_SEPARATOR.join(homes))))
            continue
        if isinstance(fact, Queue) and not fact.topic:
            topic, made = _topic_for(fact, broker, head, node, policies, new_id)
            home = "" if is_lasting(fact) else incarnation
            records += made
            records.append(DECLARATIONS.record(replace(fact, topic=topic, home=home)))
            continue
        records.append(DECLARATIONS.record(fact))
        if isinstance(fact, QueueDeleted):
            gone = broker.rooms(fact.vhost).queues.get(fact.name)
            # A stream that was declared on a topic leaves it behind.
            is_owner = gone is not None and STREAM_TOPIC not in gone.arguments
            known = head.topics.get(gone.topic) if gone is not None and is_owner else None
            if known is not None:
                records.append(RemoveTopicRecord(topic_id=known.topic_id))
    return records


def _topic_for(
    queue: Queue,
    broker: Broker,
    head: Image,
    node: NodeId,
    policies: Sequence[Policy],
    new_id: Callable[[], UUID],
) -> tuple[str, Sequence[MetadataRecord]]:
    """Return the topic of a new queue and the records that make it; ``policies`` come with the queue."""
    virtual_host = broker.vhosts.get(queue.vhost)
    known = virtual_host.policies.values() if virtual_host is not None else ()
    policy = effective(queue, (*known, *policies))
    attached = queue.arguments.get(STREAM_TOPIC)
    if isinstance(attached, str):
        if attached not in head.topics or attached in INTERNAL_TOPICS:
            raise UnknownResource(f"no topic '{attached}' for {queue.resource}")
        check_led_together(head, attached, queue)
        return attached, ()
    placed = place(queue, policy, head, node, _queue_topics(broker))
    configs = dict(topic_configs(queue, policy))
    if len(placed.replicas) > 1:
        configs["min.insync.replicas"] = str(placed.in_sync_min)
    priorities = settings_of(queue, ()).max_priority + 1
    error: MillpondError | None = None
    for name in topic_names(queue.vhost, queue.name):
        command = CreateTopic(
            name=name,
            assignments=dict.fromkeys(range(priorities), placed.replicas),
            configs=configs,
        )
        decision = decide_create_topics(head, [command], defaults=TopicDefaults(), new_id=new_id)
        error = decision.results[0].error
        if error is None:
            return name, decision.records
    raise InvalidQueueArgument(f"no topic can be made for {queue.resource}: {error}")


def _queue_topics(broker: Broker) -> Iterator[str]:
    for virtual_host in broker.vhosts.values():
        for queue in virtual_host.queues.values():
            yield queue.topic


# --- what ends with a node --------------------------------------------------------------------------


def incarnation_of(node: NodeId, incarnation_id: UUID) -> str:
    """Return how an incarnation of a node is named in facts."""
    return f"{node}.{incarnation_id.hex}"


def incarnations_in(image: Image) -> Iterable[str]:
    """Return the present incarnations of the nodes that serve."""
    return [
        incarnation_of(node, broker.incarnation_id)
        for node, broker in image.brokers.items()
        if not broker.fenced
    ]


def is_lasting(queue: Queue) -> bool:
    """Whether a queue outlasts the node where it was declared."""
    return queue.durable and not queue.is_exclusive


def find_orphaned(broker: Broker, incarnations: Collection[str]) -> Iterator[Fact]:
    """Yield the deletions of what belongs to none of these incarnations any more."""
    present = frozenset(incarnations)
    for virtual_host in broker.vhosts.values():
        vhost = virtual_host.vhost.name
        for queue in virtual_host.queues.values():
            if not is_lasting(queue) and queue.home not in present:
                yield QueueDeleted(vhost=vhost, name=queue.name)
        for exchange in virtual_host.exchanges.values():
            if not exchange.durable and present.isdisjoint(exchange.home.split(_SEPARATOR)):
                yield ExchangeDeleted(vhost=vhost, name=exchange.name)


# --- where queues are -------------------------------------------------------------------------------


def has_priorities(queue: Queue) -> bool:
    """Whether a queue has a log for each of several priorities."""
    return bool(settings_of(queue, ()).max_priority)


def find_misplaced(broker: Broker, image: Image) -> Iterator[tuple[TopicImage, Place]]:
    """Yield the topics of queues that a mirror policy wants on other nodes, and on which."""
    for virtual_host in broker.vhosts.values():
        policies = [*virtual_host.policies.values()]
        if not any("ha-mode" in policy.definition for policy in policies):
            continue
        for queue in virtual_host.queues.values():
            policy, topic = effective(queue, policies), image.topics.get(queue.topic)
            if "ha-mode" not in policy or topic is None or not is_lasting(queue):
                continue
            if any(one.adding or one.removing for one in topic.partitions):
                continue
            placed = place(queue, policy, image, topic.partitions[0].leader, ())
            if any(set(one.replicas) != set(placed.replicas) for one in topic.partitions):
                yield topic, placed


def decide_moves(
    broker: Broker, image: Image, rules: Callable[[Image], Rules]
) -> Iterator[MetadataRecord]:
    """Yield records that set misplaced queues on their way."""
    for topic, placed in find_misplaced(broker, image):
        minimum = ConfigRecord(
            resource_type=RESOURCE_TOPIC,
            resource_name=topic.name,
            name="min.insync.replicas",
            value=str(placed.in_sync_min),
        )
        yield minimum
        moves = [
            Reassignment(topic=topic.name, partition=index, replicas=placed.replicas)
            for index in range(len(topic.partitions))
        ]
        yield from decide_reassign(image, moves, rules=rules(apply(image, [minimum]))).records


def check_led_together(image: Image, topic: str, queue: Queue) -> None:
    """Raises ``InvalidQueueArgument`` if a stream cannot be read: several nodes lead parts of its topic."""
    known = image.topics.get(topic)
    leaders = sorted({one.leader for one in known.partitions}) if known is not None else []
    if len(leaders) > 1 and leaders[0] >= 0:
        nodes = ", ".join(map(str, leaders))
        raise InvalidQueueArgument(
            f"{queue.resource} cannot be read: the partitions of topic '{topic}' are led by nodes {nodes}, "
            "and one node must lead them all"
        )
