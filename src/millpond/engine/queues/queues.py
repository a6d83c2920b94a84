"""Exchanges and queues on this node: what is declared, where messages go, and which node hosts a queue.

Declarations are a part of the metadata: a command is decided by the controller (``queue_controller.py``), and
exchanges, queues and bindings change here when the image does. A queue is hosted by the node that leads its
topic: its log is read there, and its state is dropped when another node leads. A front-end uses a queue
through a handle, whichever node hosts it (``queue_handle.py``). Requests for queues that other nodes host go
over links (``remote/queue_link.py``); requests of other nodes for queues hosted here come to
``hosted/remote_clients.py``.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from millpond.base.errors import (
    BrokerRefusal,
    MillpondError,
    NotLeader,
    ShuttingDown,
    StorageFailure,
    UnknownTopic,
    UnsupportedVersion,
)
from millpond.base.ids import LeaderEpoch, NodeId
from millpond.engine.queues.deletions import Deletions
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.hosted.remote_clients import RemoteClients
from millpond.engine.queues.hosted.retries import Retries
from millpond.engine.queues.hosted.stream_queue import StreamQueue
from millpond.engine.queues.queue_controller import QueueController
from millpond.engine.queues.queue_handle import QueueHandle
from millpond.engine.queues.remote.message_batches import MessageBatches
from millpond.engine.queues.remote.queue_link import QueueLink
from millpond.engine.queues.remote.remote_queue import RemoteQueue
from millpond.engine.queues.remote.reply_link import ReplyLink
from millpond.engine.queues.remote.unanswered import UnansweredBytes
from millpond.engine.queues.services import QueueServices
from millpond.message.codecs import Codecs, QueueCodec
from millpond.message.hub import Message
from millpond.metadata.image import Image
from millpond.queue.settings import QueueSettings
from millpond.rabbit.arguments import STREAM, STREAM_TOPIC
from millpond.rabbit.bootstrap import bootstrap_records
from millpond.rabbit.broker import Broker
from millpond.rabbit.commands import (
    Command,
    Decision,
    LoseConnection,
    StoreAll,
)
from millpond.rabbit.controller import check_led_together, incarnations_in
from millpond.rabbit.family import DECLARATIONS
from millpond.rabbit.records import (
    Fact,
    Permission,
    PermissionDeleted,
    Policy,
    PolicyDeleted,
    Queue,
    QueueDeleted,
    UserDeleted,
    VirtualHostDeleted,
)
from millpond.record.records import Record
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

_LOADED_A_TURN = 16
# Before the controller is told again that a connection is lost.
_RETRY_PAUSE_S = 1.0


class Queues:
    """All of this node's. Made and started once, after the engine has been."""

    def __init__(
        self, engine: QueueServices, codec: QueueCodec, codecs: Codecs | None = None
    ) -> None:
        """``codec`` is that of the protocol whose queues these are; ``codecs`` are those of all protocols
        whose clients may write to a queue's log.
        """
        self.engine = engine
        self.codec = codec
        # The message that a record keeps, as clients of these queues see it.
        self.read: Callable[[Record], Message] = (codecs or Codecs([codec])).reader(codec.protocol)
        self.batches = MessageBatches(codec, self.read)
        self.broker = Broker()
        self._controller = QueueController(engine, self.broker)
        self.remote_clients = RemoteClients(self)
        self._handles: dict[tuple[str, str], LocalQueue | RemoteQueue] = {}
        self._hosted: dict[str, LocalQueue] = {}  # by their keys
        self._elsewhere: dict[str, RemoteQueue] = {}  # by their keys
        # Queues by their topics: one each, but for streams of topics that are there anyway.
        self._places: dict[str, dict[tuple[str, str], None]] = {}
        self._taking_over: set[tuple[str, str]] = set()
        # Queues that are led here and cannot be hosted now: their logs cannot be read, the controller is
        # not heard of, or what an earlier leader wrote could not be agreed on.
        self._unhosted: Retries[tuple[str, str]] = Retries(
            self._try_again_to_host,
            fails="it is led here and cannot be hosted",
            works="it can be hosted",
        )
        self._links: dict[NodeId, QueueLink] = {}
        self._numbers = 0
        self.unanswered = UnansweredBytes()
        self.replies = ReplyLink(engine, self.batches)
        self.deletions = Deletions(self)
        self._serves_clients = False
        # Is told when the permissions of a user change, or a user or virtual host is deleted.
        self.on_rights: Callable[[Fact], None] | None = None
        # Whether messages that were just published may be kept in memory.
        self.is_recent_kept = True
        self._is_stopped = False

    @property
    def node_id(self) -> NodeId:
        return self.engine.info.node_id

    @property
    def is_running(self) -> bool:
        """Whether neither the queues nor their node are being stopped."""
        return not self._is_stopped and self.engine.runtime.running

    # --- life --------------------------------------------------------------------------------------

    async def start(self, *, serves_clients: bool = True) -> None:
        """Learn what is declared, forget what was not to last, load the queues that are led here.

        A node whose clients are not served here hosts queues for those of others.
        """
        for fact in DECLARATIONS.slice_of(self.engine.metadata.image):
            self._apply(fact)
        self.engine.metadata.observe(self._on_change)
        self.engine.partitions.on_leadership(self._on_leadership)
        self.engine.membership.on_lease_end(self._on_lease_end)
        self.engine.metadata.quorum.on_leadership(
            lambda _active, _epoch: self._controller.clean_up_soon()
        )
        self._serves_clients = serves_clients
        await self._controller.begin()
        await self._ensure_bootstrap_records()
        places = [place for found in self._places.values() for place in found]
        for number, (vhost, name) in enumerate(places, start=1):
            self._host_if_led(vhost, name)
            if number % _LOADED_A_TURN == 0:
                await asyncio.sleep(0)

    async def _ensure_bootstrap_records(self) -> None:
        if self.broker.vhosts or not self._serves_clients:
            return
        facts = bootstrap_records(self.engine.runtime.rng.uuid4().bytes[:4])
        try:
            await self.ask(StoreAll(facts=tuple(facts)))
        except UnsupportedVersion as error:
            log.warning("AMQP's clients cannot log in: %s", error)

    def stop(self) -> None:
        """Before the engine stops."""
        self._is_stopped = True
        self._unhosted.close()
        self.unanswered.close()
        self.remote_clients.stop()
        handles, self._handles = self._handles, {}
        for handle in handles.values():
            handle.close()
        for link in self._links.values():
            link.close()

    # --- what is declared ----------------------------------------------------------------------------

    async def ask(self, command: Command) -> Decision:
        """Carry out a command. Returns when it is agreed and known here; raises a ``BrokerRefusal``."""
        decision = await self.engine.commands.submit(self._controller, command)
        queue = decision.queue
        if queue is None:
            return decision
        known = self.broker.rooms(queue.vhost).queues.get(queue.name, queue)
        return replace(decision, queue=known)

    def _apply(self, fact: Fact) -> None:
        if isinstance(fact, QueueDeleted):
            rooms = self.broker.vhosts.get(fact.vhost)
            gone = rooms.queues.get(fact.name) if rooms is not None else None
            if gone is not None:
                self._places.get(gone.topic, {}).pop((gone.vhost, gone.name), None)
                if not self._places.get(gone.topic):
                    self._places.pop(gone.topic, None)
        self.broker.apply(fact)
        if isinstance(fact, Queue):
            self._places.setdefault(fact.topic, {})[fact.vhost, fact.name] = None
        self._controller.note(fact)

    def _on_change(self, before: Image, after: Image) -> None:
        if self._is_stopped:
            return
        declared, declared_now = DECLARATIONS.slice_of(before), DECLARATIONS.slice_of(after)
        if declared is not declared_now:
            for fact in declared.between(declared_now):
                self._on_fact(fact)
        if before.features is not after.features and not self.broker.vhosts:
            self.spawn(self._ensure_bootstrap_records(), "bootstrap records of queues")
        if before.topics is not after.topics:
            for far in tuple(self._elsewhere.values()):
                far.look_for_host()
        if before.brokers is not after.brokers:
            lives = set(incarnations_in(after))
            self.remote_clients.on_change(after, lives.__contains__)
        self._controller.on_change(before, after)

    def _on_fact(self, fact: Fact) -> None:
        self._apply(fact)
        match fact:
            case Policy() | PolicyDeleted():
                for queue in self._hosted.values():
                    rooms = self.broker.rooms(queue.queue.vhost)
                    queue.configure(rooms.settings(queue.queue.name))
            case UserDeleted() | VirtualHostDeleted() | Permission() | PermissionDeleted():
                if self.on_rights is not None:
                    self.on_rights(fact)
            case Queue():
                self._host_if_led(fact.vhost, fact.name)
            case QueueDeleted():
                gone = self._handles.pop((fact.vhost, fact.name), None)
                if gone is not None:
                    self._hosted.pop(gone.key, None)
                    self._elsewhere.pop(gone.key, None)
                    gone.close()
            case _:
                pass

    def settings(self, queue: Queue) -> QueueSettings:
        """What holds for a queue."""
        return self.broker.rooms(queue.vhost).settings(queue.name)

    # --- hosts -----------------------------------------------------------------------------------------

    def find(self, vhost: str, name: str) -> QueueHandle:
        """Return a queue, as front-ends see it. Raises ``UnknownResource``."""
        handle = self._handles.get((vhost, name))
        if handle is None:
            queue = self.broker.rooms(vhost).queue(name)
            self._host_if_led(vhost, name)
            handle = self._handles.get((vhost, name))
            if handle is None:
                handle = self._far(queue)
        return handle

    def hosted(self, vhost: str, name: str) -> LocalQueue:
        """A queue that is hosted here. Raises ``UnknownResource``, ``NotLeader``."""
        handle = self.find(vhost, name)
        if not isinstance(handle, LocalQueue):
            raise NotLeader(f"{handle.queue.resource} is not hosted here")
        return handle

    def hosted_by_key(self, key: str) -> LocalQueue | None:
        """A queue that is hosted here, by its topic; hosted from now on, if it is led here and was not."""
        hosted = self._hosted.get(key)
        if hosted is None and not self._is_stopped:
            for place in self._places_of(key):
                self._host_if_led(*place)
            hosted = self._hosted.get(key)
        return hosted

    def _places_of(self, key: str) -> list[tuple[str, str]]:
        """The queues of a topic, by the key of one of them."""
        try:
            topic_id = UUID(hex=key.partition(" ")[0])
        except ValueError:
            return []
        topic = self.engine.metadata.image.topics_by_id.get(topic_id)
        return list(self._places.get(topic.name, ())) if topic is not None else []

    @property
    def hosts_some(self) -> bool:
        """Whether any queue is hosted here."""
        return bool(self._hosted)

    def check_led_together(self, queue: Queue) -> None:
        """Raises ``InvalidQueueArgument`` if the topic of a stream is led by several nodes."""
        if STREAM_TOPIC in queue.arguments:
            check_led_together(self.engine.metadata.image, queue.topic, queue)

    def host_of(self, queue: Queue) -> NodeId:
        """The node that leads all of a queue's partitions; below 0 if there is none."""
        topic = self.engine.metadata.image.topics.get(queue.topic)
        leaders = {one.leader for one in topic.partitions} if topic is not None else set()
        return leaders.pop() if len(leaders) == 1 else -1

    def key_of(self, queue: Queue) -> str:
        """What no other queue ever has, unlike its name. Raises ``UnknownTopic``."""
        topic = self.engine.metadata.image.topics.get(queue.topic)
        if topic is None:
            raise UnknownTopic(f"{queue.resource} has lost its topic {queue.topic}")
        key = topic.topic_id.hex
        return f"{key} {queue.vhost} {queue.name}" if STREAM_TOPIC in queue.arguments else key

    def link_to(self, node: NodeId) -> QueueLink:
        """The way to another node's queues."""
        link = self._links.get(node)
        if link is None:
            link = self._links[node] = QueueLink(self.engine, node, self._controller.life)
        return link

    def try_to_host(self, queue: Queue) -> bool:
        """Host a queue that is led here, if that has not begun; whether it has."""
        place = queue.vhost, queue.name
        self._host_if_led(*place)
        return place in self._taking_over or isinstance(self._handles.get(place), LocalQueue)

    def next_number(self) -> int:
        """For a question to a host."""
        self._numbers += 1
        return self._numbers

    def _far(self, queue: Queue) -> RemoteQueue:
        handle = RemoteQueue(self, queue, self.key_of(queue))
        self._handles[queue.vhost, queue.name] = self._elsewhere[handle.key] = handle
        return handle

    def _on_leadership(self, partition: Partition, gained: bool, _epoch: LeaderEpoch) -> None:
        if self._is_stopped:
            return
        for place in tuple(self._places.get(partition.topic, ())):
            handle = self._handles.get(place)
            if gained:
                # Another epoch: what kept it from being hosted may be over.
                self._unhosted.forget(place)
                self._host_if_led(*place)
            elif isinstance(handle, LocalQueue):
                self.on_gone(handle.key)

    def _on_lease_end(self) -> None:
        """The controller does not answer, so other nodes may host what is hosted here."""
        for hosted in tuple(self._hosted.values()):
            hosted.send_away()

    def on_gone(self, key: str) -> None:
        """A queue that was hosted here has lost its topic, or another node leads that now."""
        hosted = self._hosted.pop(key, None)
        if hosted is None or self._is_stopped:
            return
        queue = hosted.queue
        self.remote_clients.detach(hosted)
        if queue.topic not in self.engine.metadata.image.topics:
            self._handles.pop((queue.vhost, queue.name), None)
            hosted.close()
            # A queue that is deleted goes with its topic: what is agreed on says so in a moment.
            asyncio.get_running_loop().call_soon(self.deletions.lose_without_topic, hosted)
            return
        far = self._far(queue)
        for consumer, sink in hosted.leave():
            if sink.follows:
                far.adopt(consumer, sink, position=hosted.position_of(consumer, sink))
        log.info("%s is hosted elsewhere now", queue.resource)
        far.look_for_host()

    def _host_if_led(self, vhost: str, name: str) -> None:
        """Begin to host a queue if all of its partitions are led here, as soon as all in them is agreed."""
        queue = self.broker.rooms(vhost).queues.get(name)
        place = vhost, name
        if queue is None or place in self._taking_over or place in self._unhosted.waiting:
            return
        if isinstance(self._handles.get(place), LocalQueue):
            return
        # A partition that is opened here says that it is led, which leads here again.
        self._taking_over.add(place)
        partitions = self._led(queue)
        self._taking_over.discard(place)
        if partitions is None:
            return
        if all(one.high_watermark >= one.log.end_offset for one in partitions):
            self._host(queue, partitions)
            return
        self._taking_over.add(place)
        self.spawn(self._take_over(queue, partitions), f"{queue.resource}")

    def _led(self, queue: Queue) -> list[Partition] | None:
        if self.host_of(queue) != self.node_id:
            return None
        try:
            lanes = self.settings(queue).max_priority + 1
            if STREAM_TOPIC in queue.arguments:
                lanes = len(self.engine.metadata.image.topics[queue.topic].partitions)
            return [self.engine.partitions.partition(queue.topic, lane) for lane in range(lanes)]
        except MillpondError as error:
            # The metadata say that it is led here. If that stays so no other node will host it.
            self._unhosted.failed((queue.vhost, queue.name), str(queue.resource), error)
            return None

    async def _take_over(self, queue: Queue, partitions: Sequence[Partition]) -> None:
        """What an earlier leader wrote counts when all in-sync replicas have it."""
        place = queue.vhost, queue.name
        failure: MillpondError | None = None
        try:
            for partition in partitions:
                await self.confirmed(partition, partition.log.end_offset)
        except MillpondError as error:
            failure = error
        finally:
            self._taking_over.discard(place)
        if failure is None:
            self._host_if_led(*place)
        elif self.host_of(queue) == self.node_id:
            # It may have been led elsewhere meanwhile, and be led here again.
            self._unhosted.failed(place, str(queue.resource), failure)

    def _host(self, queue: Queue, partitions: Sequence[Partition]) -> None:
        place = queue.vhost, queue.name
        kind = StreamQueue if queue.type == STREAM else LocalQueue
        hosted = kind(self, queue, self.settings(queue), partitions)
        try:
            hosted.load()
        except StorageFailure as error:
            hosted.abandon()
            self._unhosted.failed(place, str(queue.resource), error)
            return
        except Exception as error:
            # One log that cannot be read is no reason for others not to be served.
            log.exception("%s cannot be hosted: its log cannot be read", queue.resource)
            hosted.abandon()
            self._unhosted.failed(place, str(queue.resource), StorageFailure(repr(error)))
            return
        self._unhosted.worked(place)
        far = self._handles.get(place)
        self._handles[place] = self._hosted[hosted.key] = hosted
        if isinstance(far, RemoteQueue):
            self._elsewhere.pop(far.key, None)
            far.hand_over(hosted)

    def _try_again_to_host(self, place: tuple[str, str]) -> None:
        """A queue that could not be hosted, if it is there and led here still."""
        vhost, name = place
        rooms = self.broker.vhosts.get(vhost)
        queue = rooms.queues.get(name) if rooms is not None else None
        if queue is None or self.host_of(queue) != self.node_id:
            self._unhosted.forget(place)
        else:
            self._host_if_led(vhost, name)

    # --- commands of the broker's own --------------------------------------------------------------------

    def soon(self, command: Command) -> None:
        """Carry out a command of the broker's own, which no client waits for."""
        if self.is_running:
            self.spawn(self.carry_out(command), type(command).__name__)

    async def carry_out(self, command: Command) -> None:
        """Carry out a command that no client waits for; a refusal is logged."""
        try:
            await self.ask(command)
        except BrokerRefusal as error:
            log.info("%s: %s", type(command).__name__, error)
        except MillpondError as error:
            log.warning("%s: %s", type(command).__name__, error)
            if isinstance(command, LoseConnection):
                # No other node will report it, and the name is never used again: what the connection had
                # would stay for ever.
                await asyncio.sleep(_RETRY_PAUSE_S)
                self.soon(command)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Do something that others need not wait for; nothing if the broker stops."""
        try:
            self.engine.runtime.tasks.spawn(coroutine, name=name)
        except ShuttingDown:
            return

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

    def keep_recent(self, *, is_kept: bool) -> None:
        """Whether there is memory for messages that can be read from their logs again."""
        self.is_recent_kept = is_kept
        if not is_kept:
            for queue in self._hosted.values():
                queue.forget_recent()
