"""Exchanges and queues on this node: what is declared, where messages go, and the queues that are led here.

What is declared is a part of the metadata: a command is decided from what is agreed on, its facts are
proposed together with the topics that queues need, and the furniture changes when they are agreed. Commands
are decided one after the other. A node that is alone leads every queue; what does not survive a restart is
removed when it starts.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from millpond.base.errors import BrokerRefusal, InvalidQueueArgument, MillpondError
from millpond.engine.hosted_queue import HostedQueue
from millpond.engine.queue_face import QueueFace
from millpond.metadata.controller import CreateTopic, TopicDefaults, decide_create_topics
from millpond.metadata.image import Image
from millpond.metadata.queue_facts import facts_between
from millpond.metadata.records import MetadataRecord, QueueFactRecord, RemoveTopicRecord
from millpond.queue.broker import Broker
from millpond.queue.commands import Asker, Command, Decision, DeleteQueue, LoseLastConsumer
from millpond.queue.deaths import DeathReason, is_cycle, with_death
from millpond.queue.decisions import decide
from millpond.queue.exchange_types import Routed
from millpond.queue.facts import (
    ExchangeDeleted,
    Fact,
    Permission,
    Policy,
    PolicyDeleted,
    Queue,
    QueueDeleted,
    User,
    VirtualHost,
)
from millpond.queue.message import Envelope, Message
from millpond.queue.permissions import hash_password
from millpond.queue.policies import settings_of
from millpond.queue.topic_names import DEFAULT_VHOST, topic_names
from millpond.queue.topic_settings import topic_configs
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.api import Engine

log = logging.getLogger(__name__)

GUEST = "guest"
_LOADED_A_TURN = 16


class Queues:
    """All of this node's. Made and started once, after the engine has been."""

    def __init__(self, engine: "Engine", envelope: Envelope) -> None:
        self.engine = engine
        self.envelope = envelope
        self.broker = Broker()
        self._hosted: dict[tuple[str, str], HostedQueue] = {}
        self._lock = asyncio.Lock()
        # Takes answers for channels of this node, by the keys of their addresses.
        self.on_reply: Callable[[str, Message], None] | None = None
        self._is_stopped = False

    # --- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Learn what is declared, forget what was not to last, load the queues."""
        for fact in self.engine.image.queue_facts:
            self.broker.apply(fact)
        self.engine.observe(self._on_change)
        if not self.broker.vhosts:
            await self._agree(_first_facts(self.engine.rng.uuid4().bytes[:4]))
        await self._agree(list(self._transient()))
        places = [
            (rooms.vhost.name, name)
            for rooms in self.broker.vhosts.values()
            for name in rooms.queues
        ]
        for number, (vhost, name) in enumerate(places, start=1):
            self.hosted(vhost, name)
            if number % _LOADED_A_TURN == 0:
                await asyncio.sleep(0)

    def stop(self) -> None:
        """Before the engine stops."""
        self._is_stopped = True
        hosted, self._hosted = self._hosted, {}
        for queue in hosted.values():
            queue.close()

    def _transient(self) -> Iterable[Fact]:
        for rooms in self.broker.vhosts.values():
            vhost = rooms.vhost.name
            for queue in rooms.queues.values():
                if not queue.durable or queue.is_exclusive:
                    yield QueueDeleted(vhost=vhost, name=queue.name)
            for exchange in rooms.exchanges.values():
                if not exchange.durable:
                    yield ExchangeDeleted(vhost=vhost, name=exchange.name)

    # --- what is declared ----------------------------------------------------------------------------

    async def ask(self, command: Command) -> Decision:
        """Carry out a command. Returns when it is agreed; raises a ``BrokerRefusal``."""
        async with self._lock:
            decision = decide(self.broker, command)
            await self._agree(decision.facts)
        queue = decision.queue
        if queue is None:
            return decision
        known = self.broker.rooms(queue.vhost).queues.get(queue.name, queue)
        return replace(decision, queue=known)

    def find(self, vhost: str, name: str) -> QueueFace:
        """A queue, as front-ends see it. Raises ``UnknownResource``."""
        return self._hosted.get((vhost, name)) or self.hosted(vhost, name)

    def hosted(self, vhost: str, name: str) -> HostedQueue:
        """A queue that is hosted here. Raises ``UnknownResource``, and what its topic is refused with."""
        found = self._hosted.get((vhost, name))
        if found is None:
            rooms = self.broker.rooms(vhost)
            queue = rooms.queue(name)
            settings = rooms.settings(name)
            partitions = [
                self.engine.partition(queue.topic, lane)
                for lane in range(settings.max_priority + 1)
            ]
            found = HostedQueue(self, queue, settings, partitions)
            found.load()
            self._hosted[vhost, name] = found
        return found

    async def _agree(self, facts: Sequence[Fact]) -> None:
        if facts:
            await self.engine.agree_on(lambda head: self._records(head, facts))

    def _records(self, head: Image, facts: Sequence[Fact]) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        for fact in facts:
            if isinstance(fact, Queue) and not fact.topic:
                topic, made = self._topic_for(head, fact)
                records += made
                records.append(QueueFactRecord(fact=replace(fact, topic=topic)))
                continue
            records.append(QueueFactRecord(fact=fact))
            if isinstance(fact, QueueDeleted):
                gone = self.broker.rooms(fact.vhost).queues.get(fact.name)
                known = head.topics.get(gone.topic) if gone is not None else None
                if known is not None:
                    records.append(RemoveTopicRecord(topic_id=known.topic_id))
        return records

    def _topic_for(self, head: Image, queue: Queue) -> tuple[str, Sequence[MetadataRecord]]:
        lanes = settings_of(queue, ()).max_priority + 1
        configs = topic_configs(queue)
        error: MillpondError | None = None
        for name in topic_names(queue.vhost, queue.name):
            command = CreateTopic(name=name, partitions=lanes, configs=configs)
            decision = decide_create_topics(
                head, [command], defaults=TopicDefaults(), new_id=self.engine.rng.uuid4
            )
            error = decision.results[0].error
            if error is None:
                return name, decision.records
        raise InvalidQueueArgument(f"no topic can be made for {queue.resource}: {error}")

    def _on_change(self, before: Image, after: Image) -> None:
        if self._is_stopped or before.queue_facts is after.queue_facts:
            return
        for fact in facts_between(before.queue_facts, after.queue_facts):
            self.broker.apply(fact)
            if isinstance(fact, (Policy, PolicyDeleted)):
                for (vhost, name), queue in self._hosted.items():
                    queue.configure(self.broker.rooms(vhost).settings(name))
            elif isinstance(fact, QueueDeleted):
                gone = self._hosted.pop((fact.vhost, fact.name), None)
                if gone is not None:
                    gone.close()

    # --- queues that come to an end --------------------------------------------------------------------

    def lose(self, queue: HostedQueue) -> None:
        """Nobody used a queue for too long, or its topic is gone."""
        if self._is_stopped or not self.engine.running:
            return
        asker = Asker(vhost=queue.queue.vhost, connection=queue.queue.owner)
        self.soon(DeleteQueue(asker=asker, name=queue.queue.name))

    def lost_last_consumer(self, queue: HostedQueue) -> None:
        if queue.queue.auto_delete:
            self.soon(LoseLastConsumer(vhost=queue.queue.vhost, queue=queue.queue.name))

    def soon(self, command: Command) -> None:
        """Carry out a command of the broker's own; nobody waits for it."""
        if not self._is_stopped and self.engine.running:
            self.engine.tasks.spawn(self._quietly(command), name=type(command).__name__)

    async def _quietly(self, command: Command) -> None:
        try:
            await self.ask(command)
        except BrokerRefusal as error:
            log.info("%s: %s", type(command).__name__, error)

    # --- messages --------------------------------------------------------------------------------------

    async def confirmed(self, partition: Partition, offset: int) -> None:
        """Wait until the high watermark has reached an offset. Raises why it never will."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def confirm(error: MillpondError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        partition.confirm_at(offset, confirm)
        self.engine.flusher.request(partition)
        await future

    def send_reply(self, node: int, key: str, message: Message) -> None:
        """An answer for a channel of another node; nobody hears whether it came."""
        log.info("an answer for node %d is lost: this node is alone", node)

    def bury(self, queue: HostedQueue, messages: Sequence[Message], reason: DeathReason) -> None:
        """Send dead letters to where the queue wants them. What cannot be kept is reported and left out."""
        settings = queue.line.settings
        vhost = queue.queue.vhost
        target = settings.dead_letter_exchange
        rooms = self.broker.rooms(vhost)
        if target is None or (target and target not in rooms.exchanges):
            return
        now_ms = self.engine.clock.now_ms()
        for dead in messages:
            keys = (dead.routing_key, *copies(dead.headers.get("CC")))
            new_key = settings.dead_letter_routing_key
            headers = with_death(
                dead.headers,
                reason=reason,
                queue=queue.queue.name,
                exchange=dead.exchange,
                routing_keys=keys,
                time_s=now_ms // 1000,
                expiration=None if dead.ttl_ms is None else str(dead.ttl_ms),
                new_key=new_key is not None,
            )
            routed = keys if new_key is None else (new_key,)
            letter = self.envelope.readdressed(
                dead, exchange=target, routing_key=routed[0], headers=headers, now_ms=now_ms
            )
            for found in rooms.router.route(target, Routed(routed, headers)):
                if not is_cycle(headers, found, reason):
                    self._put_letter(self.hosted(vhost, found), letter)

    def _put_letter(self, queue: HostedQueue, letter: Message) -> None:
        admitted, to_letters = queue.admit([letter])
        if admitted:
            try:
                queue.append(queue.line.lane_of(letter.priority), [letter])
            except MillpondError as error:
                log.warning("a letter for %s is lost: %s", queue.queue.resource, error)
        elif to_letters:
            queue.refuse([letter])


def copies(value: object) -> list[str]:
    """The further routing keys in a ``CC`` or ``BCC`` header."""
    return [str(key) for key in value] if isinstance(value, list) else []


def _first_facts(salt: bytes) -> list[Fact]:
    """What RabbitMQ starts with: one virtual host, and a guest who may do everything from this machine."""
    return [
        VirtualHost(name=DEFAULT_VHOST),
        User(
            name=GUEST,
            password_hash=hash_password(GUEST.encode(), salt),
            tags=("administrator",),
        ),
        Permission(user=GUEST, vhost=DEFAULT_VHOST, configure=".*", write=".*", read=".*"),
    ]
