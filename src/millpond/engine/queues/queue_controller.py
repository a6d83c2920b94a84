"""Where it is decided what is declared: on the active controller, one command after the other.

A command is decided from what is agreed on, and its facts are proposed together with the topics that queues
need. What does not last hangs on *lives*: a queue on that of the node where it was declared, an exchange on
those of all nodes that were there then. A life ends when its node is fenced or comes back in another one;
what no life holds any more is removed, by whoever is the controller then.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from millpond.base.errors import (
    InvalidQueueArgument,
    MillpondError,
    NotController,
    UnknownResource,
)
from millpond.base.ids import NodeId
from millpond.engine.queues.peer_requests import DecideOnQueues, QueueDecision
from millpond.engine.queues.services import QueueServices
from millpond.engine.runtime.backoff import Backoff
from millpond.metadata.controller import (
    INTERNAL_TOPICS,
    CreateTopic,
    TopicDefaults,
    decide_create_topics,
)
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
from millpond.rabbit.placement import Place, decide_together, place
from millpond.rabbit.policies import effective, settings_of
from millpond.rabbit.records import Exchange, ExchangeDeleted, Fact, Policy, Queue, QueueDeleted
from millpond.rabbit.topic_names import topic_names
from millpond.rabbit.topic_settings import topic_configs

log = logging.getLogger(__name__)

_BETWEEN_LIVES = " "
# Before the controller tries again to clean up; longer each time.
_CLEAN_AGAIN_MS_MIN = 200
_CLEAN_AGAIN_MS_MAX = 10_000


class QueueController:
    """The controller's part in queues; on every node, and at work on the active one."""

    def __init__(self, engine: QueueServices, broker: Broker) -> None:
        self._engine = engine
        self._broker = broker
        self._lock = asyncio.Lock()
        self._has_begun = False
        self._has_new_policy = False
        # Whether the broker's furniture is being cleaned up, and whether there is a reason to look again.
        self._is_cleaning = False
        self._is_wanted = False
        # Topics of queues with several priorities: a log each.
        self._laned: dict[str, None] = {}
        engine.peer_handlers.serve(DecideOnQueues, self._on_command)

    @property
    def life(self) -> str:
        """This node, in this life."""
        return f"{self._engine.info.node_id}.{self._engine.info.incarnation_id.hex}"

    # --- a domain of the controller's commands -----------------------------------------------------

    async def decide(self, command: Command) -> Decision:
        """Decide a command of this node. Raises a ``BrokerRefusal``; ``NotController``."""
        return await self._carry_out(command, node=self._engine.info.node_id, life=self.life)

    def request(self, command: Command) -> DecideOnQueues:
        """Ask the controller to decide a command of this node."""
        return DecideOnQueues(node_id=self._engine.info.node_id, life=self.life, command=command)

    async def applied(self, _command: Command, reply: QueueDecision) -> Decision:
        """Wait until this node knows what was decided."""
        await self._engine.metadata.quorum.applied_beyond(reply.offset)
        return Decision(queue=reply.queue)

    async def _carry_out(self, command: Command, *, node: NodeId, life: str) -> Decision:
        """Decide and agree. Raises a ``BrokerRefusal``; ``NotController`` if this node does not decide."""
        if not self._engine.metadata.is_controller or not self._has_begun:
            raise NotController(f"node {self._engine.info.node_id} does not decide on queues now")
        async with self._lock:
            if self._is_over(command):
                return Decision()
            decision = decide(self._broker, command)
            await self.agree(decision.facts, node=node, life=life)
        return decision

    def _is_over(self, command: Command) -> bool:
        """Whether a queue is meant that is gone, whoever has its name now."""
        match command:
            case DeleteQueue():
                vhost, name = command.asker.vhost, command.name
            case LoseLastConsumer():
                vhost, name = command.vhost, command.queue
            case _:
                return False
        if not command.key:
            return False
        rooms = self._broker.vhosts.get(vhost)
        queue = None if rooms is None else rooms.queues.get(name)
        if queue is None:
            return True
        topic = self._engine.metadata.image.topics.get(queue.topic)
        return topic is not None and not command.key.startswith(topic.topic_id.hex)

    async def agree(self, facts: Sequence[Fact], *, node: NodeId, life: str) -> None:
        """Have these facts agreed on, with what belongs to them."""
        if facts:
            await self._engine.topic_admin.agree_on(
                lambda head: self._records(head, facts, node, life)
            )

    async def _on_command(self, request: DecideOnQueues) -> QueueDecision:
        decision = await self._carry_out(request.command, node=request.node_id, life=request.life)
        return QueueDecision(offset=self._engine.metadata.quorum.applied - 1, queue=decision.queue)

    # --- records -----------------------------------------------------------------------------------

    def _records(
        self, head: Image, facts: Sequence[Fact], node: NodeId, life: str
    ) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        policies = [fact for fact in facts if isinstance(fact, Policy)]
        for fact in facts:
            if isinstance(fact, Exchange) and not fact.durable:
                lives = sorted({life, *lives_in(head)})
                records.append(DECLARATIONS.record(replace(fact, home=_BETWEEN_LIVES.join(lives))))
                continue
            if isinstance(fact, Queue) and not fact.topic:
                topic, made = self._topic_for(head, fact, node, policies)
                home = "" if _lasts(fact) else life
                records += made
                records.append(DECLARATIONS.record(replace(fact, topic=topic, home=home)))
                continue
            records.append(DECLARATIONS.record(fact))
            if isinstance(fact, QueueDeleted):
                gone = self._broker.rooms(fact.vhost).queues.get(fact.name)
                # A stream of somebody else's topic leaves it behind.
                is_owner = gone is not None and STREAM_TOPIC not in gone.arguments
                known = head.topics.get(gone.topic) if gone is not None and is_owner else None
                if known is not None:
                    records.append(RemoveTopicRecord(topic_id=known.topic_id))
        return records

    def _topic_for(
        self, head: Image, queue: Queue, node: NodeId, policies: Sequence[Policy]
    ) -> tuple[str, Sequence[MetadataRecord]]:
        """``policies`` are those that come with the queue."""
        rooms = self._broker.vhosts.get(queue.vhost)
        known = rooms.policies.values() if rooms is not None else ()
        policy = effective(queue, (*known, *policies))
        lanes = settings_of(queue, ()).max_priority + 1
        attached = queue.arguments.get(STREAM_TOPIC)
        if isinstance(attached, str):
            if attached not in head.topics or attached in INTERNAL_TOPICS:
                raise UnknownResource(f"no topic '{attached}' for {queue.resource}")
            check_led_together(head, attached, queue)
            return attached, ()
        placed = place(queue, policy, head, node, self._queue_topics())
        configs = dict(topic_configs(queue, policy))
        if len(placed.replicas) > 1:
            configs["min.insync.replicas"] = str(placed.in_sync_min)
        error: MillpondError | None = None
        for name in topic_names(queue.vhost, queue.name):
            command = CreateTopic(
                name=name,
                assignments=dict.fromkeys(range(lanes), placed.replicas),
                configs=configs,
            )
            decision = decide_create_topics(
                head, [command], defaults=TopicDefaults(), new_id=self._engine.runtime.rng.uuid4
            )
            error = decision.results[0].error
            if error is None:
                return name, decision.records
        raise InvalidQueueArgument(f"no topic can be made for {queue.resource}: {error}")

    def _queue_topics(self) -> Iterator[str]:
        for rooms in self._broker.vhosts.values():
            for queue in rooms.queues.values():
                yield queue.topic

    # --- what ends by itself -------------------------------------------------------------------------

    def on_change(self, before: Image, after: Image) -> None:
        """Nodes have come or gone, or leaders have moved: there may be something to clean up."""
        if not self._engine.metadata.is_controller:
            return
        nodes_changed = before.brokers is not after.brokers
        is_changed = DECLARATIONS.slice_of(before) is not DECLARATIONS.slice_of(after)
        policies_changed = is_changed and self._has_new_policy
        if (
            (nodes_changed and any(self._homeless(self._lives())))
            or (before.topics is not after.topics and any(self._apart(after)))
            or ((nodes_changed or policies_changed) and any(self._misplaced(after)))
        ):
            self.clean_up_soon()
        self._has_new_policy = False

    def note(self, fact: Fact) -> None:
        """A fact has come to be known."""
        if isinstance(fact, Queue) and settings_of(fact, ()).max_priority:
            self._laned[fact.topic] = None
        self._has_new_policy = self._has_new_policy or isinstance(fact, Policy)

    def clean_up_soon(self) -> None:
        """Remove what no life holds, and bring queues together whose priorities are led apart."""
        if (
            not self._has_begun
            or not self._engine.runtime.running
            or not self._engine.metadata.is_controller
        ):
            return
        self._is_wanted = True
        if self._is_cleaning:
            return  # what is under way looks once more
        self._is_cleaning = True
        self._engine.runtime.tasks.spawn(self._clean_up(), name="queues that end")

    async def _clean_up(self) -> None:
        """Until nothing is left to do, as long as this node decides: nobody else will say it again."""
        pause = Backoff(_CLEAN_AGAIN_MS_MIN)
        try:
            while (
                self._is_wanted
                and self._engine.runtime.running
                and self._engine.metadata.is_controller
            ):
                self._is_wanted = False
                try:
                    await self.clean_up()
                except MillpondError as error:
                    pause_ms = pause.extend(0, _CLEAN_AGAIN_MS_MAX)
                    log.info("queues are not cleaned up: %s; again in %d ms", error, pause_ms)
                    self._is_wanted = True
                    await asyncio.sleep(pause_ms / 1000)
        finally:
            self._is_cleaning = False

    async def begin(self) -> None:
        """What is declared is known here. A node that is alone removes what its last life left."""
        self._has_begun = True
        if not self._engine.metadata.is_alone:
            self.clean_up_soon()
            return
        async with self._lock:
            await self.agree(list(self._homeless(self._others())), node=-1, life="")

    async def clean_up(self) -> None:
        """As ``clean_up_soon``, now."""
        async with self._lock:
            await self.agree(list(self._homeless(self._lives())), node=-1, life="")
        image = self._engine.metadata.image
        if any(self._apart(image)) or any(self._misplaced(image)):
            await self._engine.topic_admin.agree_on(
                lambda head: [*self._apart(head), *self._moves(head)]
            )

    def _lives(self) -> set[str]:
        return {self.life} | self._others()

    def _others(self) -> set[str]:
        """What a node that is alone has written of itself may be of an earlier life."""
        own = f"{self._engine.info.node_id}."
        return {life for life in lives_in(self._engine.metadata.image) if not life.startswith(own)}

    def _homeless(self, lives: set[str]) -> Iterator[Fact]:
        for rooms in self._broker.vhosts.values():
            vhost = rooms.vhost.name
            for queue in rooms.queues.values():
                if not _lasts(queue) and queue.home not in lives:
                    yield QueueDeleted(vhost=vhost, name=queue.name)
            for exchange in rooms.exchanges.values():
                if not exchange.durable and lives.isdisjoint(exchange.home.split(_BETWEEN_LIVES)):
                    yield ExchangeDeleted(vhost=vhost, name=exchange.name)

    def _apart(self, image: Image) -> Iterator[MetadataRecord]:
        for name in tuple(self._laned):
            topic = image.topics.get(name)
            if topic is None:
                self._laned.pop(name, None)
            else:
                yield from decide_together(image, topic)

    def _misplaced(self, image: Image) -> Iterator[tuple[TopicImage, Place]]:
        """Queues that a mirror policy wants to be on other nodes than they are."""
        for rooms in self._broker.vhosts.values():
            policies = [*rooms.policies.values()]
            if not any("ha-mode" in policy.definition for policy in policies):
                continue
            for queue in rooms.queues.values():
                policy, topic = effective(queue, policies), image.topics.get(queue.topic)
                if "ha-mode" not in policy or topic is None or not _lasts(queue):
                    continue
                if any(one.adding or one.removing for one in topic.partitions):
                    continue
                placed = place(queue, policy, image, topic.partitions[0].leader, ())
                if any(set(one.replicas) != set(placed.replicas) for one in topic.partitions):
                    yield topic, placed

    def _moves(self, image: Image) -> Iterator[MetadataRecord]:
        for topic, placed in self._misplaced(image):
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
            rules = self._engine.settings.rules(apply(image, [minimum]))
            yield from decide_reassign(image, moves, rules=rules).records


def lives_in(image: Image) -> Iterable[str]:
    """The nodes that serve, each in its present life."""
    return [
        f"{node}.{broker.incarnation_id.hex}"
        for node, broker in image.brokers.items()
        if not broker.fenced
    ]


def _lasts(queue: Queue) -> bool:
    return queue.durable and not queue.is_exclusive


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
