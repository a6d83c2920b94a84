"""The one door to the broker's core: what a front-end may ask, in words of no protocol.

Everything runs on one event loop. Plain methods are complete when they return; what was true when
they started is true at their end. Methods that change metadata are coroutines: they return when the
change is durable and in force. Refusals are the classes of ``base.errors``, raised, or carried in a
result where one call holds many.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTopicName,
    NotLeader,
    ShuttingDown,
    StaleBrokerEpoch,
    StorageFailure,
    TopicExists,
    UnknownTopic,
)
from millpond.base.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset, TopicPartition
from millpond.base.rng import Rng
from millpond.engine.admin import (
    AlterQuotas,
    ClusterAdmin,
    Election,
    ElectionResult,
    QuotaFilter,
    QuotaResult,
    Reassignment,
    RemoveCredential,
    SetCredential,
)
from millpond.engine.controller_host import ControllerHost, ControllerParts
from millpond.engine.controller_link import ControllerLink
from millpond.engine.death_watch import NodeWatch
from millpond.engine.flusher import Flusher
from millpond.engine.groups import Groups
from millpond.engine.maintenance import Maintenance
from millpond.engine.membership import MemberParts, Membership
from millpond.engine.metadata_log import METADATA_LOG_CONFIG
from millpond.engine.news import ImageNews
from millpond.engine.partition_calls import PartitionCalls
from millpond.engine.peers import AllocateProducerIds, MakeTopics, PeerDesk, Peers
from millpond.engine.publish import Appended, Publisher
from millpond.engine.quorum_host import QuorumHost
from millpond.engine.quorum_setup import address_of, bootstrap_of, quorum_settings, voters_of
from millpond.engine.quorum_view import QuorumDescription, ReplicaProgress, describe_quorum
from millpond.engine.quotas import Quotas
from millpond.engine.raft_log import DiskRaftLog
from millpond.engine.read import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    AbortedTransaction,
    FoundOffset,
    PartitionRead,
    delete_records,
    find_offset,
    read,
)
from millpond.engine.replicas import Replicas
from millpond.engine.share import ShareGroups
from millpond.engine.tasks import TaskOwner
from millpond.engine.telemetry import Telemetry
from millpond.engine.threads import RealThreads, Threads
from millpond.engine.topics import Topic, TopicTable
from millpond.engine.transactions import Transactions
from millpond.engine.waiters import ReadWaiter
from millpond.engine.worker import Worker
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir
from millpond.metadata.client_metrics import describe_client_metrics
from millpond.metadata.configs import (
    BrokerConfig,
    ConfigEntry,
    ConfigSource,
    ConfigType,
    describe_broker,
    describe_topic,
)
from millpond.metadata.controller import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    AddPartitions,
    AlterConfigs,
    AlterOp,
    ConfigResult,
    CreateTopic,
    TopicDefaults,
    TopicResult,
    check_topic_name,
    decide_alter_configs,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
    decide_new_epochs,
)
from millpond.metadata.features import SUPPORTED as SUPPORTED_FEATURES
from millpond.metadata.features import Direction, FeatureChange, FeatureRange, first_levels
from millpond.metadata.group_configs import describe_group, group_setting
from millpond.metadata.image import Image, PartitionImage, TopicImage
from millpond.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    BrokerEndpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from millpond.raft.messages import Answer as QuorumAnswer
from millpond.raft.messages import ReplicaKey
from millpond.raft.messages import Request as QuorumRequest
from millpond.raft.voters import VoterSet
from millpond.replication.partition import Partition
from millpond.replication.serving import divergence

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "INTERNAL_TOPICS",
    "LATEST",
    "MAX_TIMESTAMP",
    "METADATA_TOPIC",
    "OFFSETS_TOPIC",
    "RESOURCE_BROKER",
    "RESOURCE_BROKER_LOGGER",
    "RESOURCE_CLIENT_METRICS",
    "RESOURCE_GROUP",
    "RESOURCE_TOPIC",
    "SHARE_STATE_TOPIC",
    "SUPPORTED_FEATURES",
    "TRANSACTIONS_TOPIC",
    "AbortedTransaction",
    "AddPartitions",
    "AlterConfigs",
    "AlterOp",
    "AlterQuotas",
    "Appended",
    "BrokerEndpoint",
    "ConfigEntry",
    "ConfigResult",
    "ConfigSource",
    "ConfigType",
    "CreateTopic",
    "Direction",
    "Election",
    "ElectionResult",
    "Engine",
    "FeatureChange",
    "FeatureRange",
    "FoundOffset",
    "Image",
    "LogDirDescription",
    "Node",
    "Partition",
    "PartitionImage",
    "PartitionRead",
    "PartitionSize",
    "QuorumDescription",
    "QuotaFilter",
    "QuotaResult",
    "ReadWaiter",
    "Reassignment",
    "RemoveCredential",
    "ReplicaProgress",
    "SetCredential",
    "Topic",
    "TopicImage",
    "TopicResult",
    "divergence",
    "text_id",
]

log = logging.getLogger(__name__)

_METADATA_KEY = TopicPartition(METADATA_TOPIC, 0)

# Directories made before others get their turn; a millisecond or a few.
_PARTITIONS_A_TURN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """This node as others see it."""

    node_id: NodeId
    cluster_id: str
    rack: str | None = None
    # Addresses that clients of each listener are told to use.
    end_points: Mapping[str, BrokerEndpoint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """What one partition takes on disk."""

    topic: str
    partition: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """The log directory, its disk, and the partitions asked for. -1 where it is not known."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: tuple[PartitionSize, ...]


class Engine:
    """One node. Made, started once, stopped once."""

    def __init__(
        self,
        *,
        log_dir: LogDir,
        node_id: NodeId,
        cluster_id: str | None,
        broker: BrokerConfig,
        clock: Clock,
        rng: Rng,
        rack: str | None = None,
        data_path: str = "",
        disk_usage: Callable[[], tuple[int, int]] | None = None,
        peers: Peers | None = None,
        watch: NodeWatch | None = None,
        threads: Threads | None = None,
    ) -> None:
        """``data_path`` is what clients are told of the log directory; ``disk_usage`` gives (total, free).

        ``peers`` are the other nodes; a node that is alone has none; ``watch`` sees their processes end.
        ``threads`` are real ones by default.
        """
        self.log_dir = log_dir
        self.clock = clock
        self.rng = rng
        self.node = Node(node_id=node_id, cluster_id=cluster_id or "", rack=rack)
        self.peers = peers
        # What other nodes may ask this one: engine/peers.py.
        self.desk = PeerDesk()
        self.desk.serve_quorum(self._answer_quorum)
        self.threads = threads if threads is not None else RealThreads()
        self.flusher = Flusher(self.threads)
        self.tasks = TaskOwner()
        self.topics = TopicTable(log_dir, node_id, broker, clock)
        # Partitions written to since maintenance last looked (flush policy "os").
        self.dirty: dict[Partition, None] = {}
        self.running = False
        self._observers: list[Callable[[Image, Image], None]] = []
        self._leadership_observers: list[Callable[[Partition, bool, LeaderEpoch], None]] = []
        self._asked_cluster_id = cluster_id
        self._disk_usage = disk_usage
        self.data_path = data_path
        # Who leads, who follows, who is in sync: engine/replicas.py.
        self.replicas = Replicas(self)
        self._maintenance = Maintenance(self)
        # Consumer groups and their offsets: engine/groups.py.
        self.groups = Groups(self)
        # Transactions of producers: engine/transactions.py.
        self.transactions = Transactions(self)
        self._publisher = Publisher(self.flusher, clock, self.transactions)
        # What this node wants of other leaders: engine/partition_calls.py.
        self.partition_calls = PartitionCalls(self)
        # Share groups and what they did with each record: engine/share.py.
        self.share = ShareGroups(self)
        # Quotas, credentials, features, placement: engine/admin.py.
        self.admin = ClusterAdmin(lambda: self._host, node_id, self.broker_setting)
        # Which life of this node this is; the controller tells them apart by it.
        self.incarnation_id = rng.uuid4()
        # The way to the controller, and the controller itself: engine/controller_link.py, controller_host.py.
        self.link = ControllerLink(
            node_id, self.desk, peers, lambda: self._host.leader_id if self._metadata else None
        )
        self.controller = ControllerHost(
            ControllerParts(
                node_id=node_id,
                host=lambda: self._host,
                setting=self.broker_setting,
                cluster_id=lambda: self.node.cluster_id,
                own_incarnation=lambda: self.incarnation_id,
                make_topics=self.create_topics,
                desk=self.desk,
                tasks=self.tasks,
                clock=clock,
                watch=watch,
            )
        )
        # This node's place in the cluster: engine/membership.py.
        self.membership = Membership(
            MemberParts(
                node_id=node_id,
                rack=rack,
                host=lambda: self._host,
                setting=self.broker_setting,
                cluster_id=lambda: self.node.cluster_id,
                directory_id=self._directory_id,
                incarnation_id=lambda: self.incarnation_id,
                link=self.link,
                tasks=self.tasks,
            )
        )
        self.topics.is_replaced = lambda: self.membership.is_replaced
        self.replicas.ask_controller = self.link.call
        self.news = ImageNews()
        self._observers += [
            self.controller.on_change,
            self.membership.on_change,
            self.news.on_change,
        ]
        # What clients may use: engine/quotas.py.
        self.quotas = Quotas(self.broker_setting)
        self._observers.append(self.quotas.on_change)
        # Metrics of clients: engine/telemetry.py.
        self.telemetry = Telemetry(
            lambda: self.image, bytes_max=lambda: int(self.broker_setting("telemetry.max.bytes"))
        )
        self._metadata: QuorumHost | None = None
        self._snapshots = Worker(self.threads, "millpond-snapshots")
        self._facts = 0  # that the metadata log held when it was read
        self._producer_ids = range(0)
        self._producer_ids_lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- life --------------------------------------------------------------------------------------

    async def start(
        self, progress: Callable[[int, int, TopicPartition], None] | None = None
    ) -> None:
        """Recover the logs, replay the metadata, begin the background work.

        Raises ``DataDirectoryInUse``, ``StorageFailure``, ``CorruptLog``.
        """
        assert not self.running
        self._loop = asyncio.get_running_loop()
        now_ms = self.clock.now_ms()
        self.log_dir.open(
            self.node.node_id,
            self._asked_cluster_id or text_id(self.rng.uuid4()),
            now_ms=now_ms,
            directory_id=self.rng.uuid4(),
            config_for=self.topics.config_of,
            progress=progress,
            first=_METADATA_KEY,
            on_first=lambda: self._read_metadata(now_ms),
        )
        try:
            await self._start_on()
        except BaseException:
            await self.tasks.stop()
            await self.flusher.stop()
            self.log_dir.abandon()
            raise

    async def _start_on(self) -> None:
        """The rest of the start, with the directory in our hands."""
        assert self.log_dir.meta is not None
        self.node = Node(
            node_id=self.node.node_id,
            cluster_id=self.log_dir.meta.cluster_id,
            rack=self.node.rack,
        )
        self.flusher.start()
        await self.tasks.start()
        self.controller.attach(self._host)
        self._host.start()
        if self._host.is_alone:
            await self.join()

    @property
    def is_alone(self) -> bool:
        """Whether this node is its own quorum: it has joined when ``start`` returns."""
        return self._host.is_alone

    @property
    def voters(self) -> VoterSet:
        """Who votes on the metadata, as far as this node knows."""
        return self._host.voters

    async def join(self) -> None:
        """Wait until this node knows what the cluster has agreed on, then begin to serve.

        A node among others can do this only when they can reach it, so ``start`` leaves it to the caller.
        """
        metadata = self._host
        await metadata.caught_up()
        if metadata.is_alone:
            await self._first_facts(metadata, fresh=self._facts == 0)
        if self.membership.is_needed:
            # What an earlier life of this node led is led by others once this one is registered.
            await self.membership.register()
        self.quotas.learn(metadata.image)
        self.topics.load(metadata.image, metadata.removed_topics)
        metadata.on_commit(self._on_commit)
        for partition in self.topics:
            if partition.own_end < partition.log.end_offset:
                self.flusher.request(partition)
        await self.flusher.drained()
        self.running = True
        self.replicas.start()
        self.groups.start()
        self.transactions.start()
        self.share.start()
        self.tasks.spawn(self._maintenance.run(), name="maintenance")

    async def stop(self) -> bool:
        """Stop the background work, flush everything, mark the directory as closed; was that clean?

        What this node leads is handed over first, if there are others.
        """
        await self.membership.leave()
        self.groups.stop()
        self.transactions.stop()
        self.share.stop()
        self.running = False
        await self._host.stop()
        await self.tasks.stop()
        self._snapshots.stop()
        await self.flusher.flush_all(self.topics)
        self.replicas.stop()
        await self.flusher.stop()
        return self.log_dir.close(now_ms=self.clock.now_ms())

    async def advertise(self, end_points: Iterable[BrokerEndpoint]) -> None:
        """Say where clients reach this node, once the listeners are open; join the cluster before that.

        A node that is alone is known when this returns; one among others registers in the background:
        ``membership.joined`` tells when the cluster counts on it.
        """
        points = {point.name: point for point in end_points}
        self.membership.reachable_at(tuple(points.values()))
        if not self.running:
            await self.join()
        node = self.node
        self.node = Node(
            node_id=node.node_id, cluster_id=node.cluster_id, rack=node.rack, end_points=points
        )
        if self.membership.is_needed:
            await self.membership.begin()
            return
        known = self.image.brokers.get(node.node_id)
        if known is None or known.end_points != tuple(points.values()):
            await self._host.propose([self._registration(tuple(points.values()))])

    @property
    def quorum(self) -> QuorumHost:
        """This node's part in the quorum: who leads, and what is agreed."""
        return self._host

    async def _answer_quorum(self, request: QuorumRequest) -> QuorumAnswer:
        return await self._host.answer(request)

    @property
    def image(self) -> Image:
        """The cluster as it is agreed on. Never changes; ask again for news."""
        return self._host.image

    @property
    def is_controller(self) -> bool:
        """Whether this node is the active controller: what changes the metadata is decided here."""
        return self._host.is_active

    @property
    def controller_id(self) -> NodeId | None:
        """The node that leads the quorum, as far as is known here."""
        return self._host.leader_id

    def observe(self, call: Callable[[Image, Image], None]) -> None:
        """Be told (before, after) whenever the image changes, on the loop."""
        self._observers.append(call)

    def on_leadership(self, call: Callable[[Partition, bool, LeaderEpoch], None]) -> None:
        """Be told (partition, gained, leader epoch) when this node begins or ends to lead, on the loop."""
        self._leadership_observers.append(call)

    def tell_leadership(self, partition: Partition, gained: bool) -> None:
        """This node leads a partition now, or does so no more: tell who wanted to know."""
        for call in self._leadership_observers:
            call(partition, gained, partition.leader_epoch)

    @property
    def broker_epoch(self) -> int:
        """Under which epoch this life of the node has registered; -1 if it has not."""
        return self.membership.broker_epoch

    def broker_setting(self, name: str) -> Any:
        """The value in force of a broker setting."""
        return self.topics.broker[name]

    # --- writing -----------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int,
        records: bytearray | memoryview,
        *,
        acks: int = -1,
        produce_version: int = 13,
        internal: bool = False,
    ) -> Appended:
        """Append one record batch. The buffer is changed in place and belongs to the log afterwards.

        ``durable`` of the answer is None when the append may be acknowledged at once; otherwise it is
        done when the flush policy's promise is kept, or fails with why not.
        ``internal``: the batch is ours; a client's rules do not apply.
        """
        return self.append_to(
            self.topics.partition(topic, partition),
            records,
            acks=acks,
            produce_version=produce_version,
            internal=internal,
        )

    def append_to(
        self,
        partition: Partition,
        records: bytearray | memoryview,
        *,
        acks: int,
        produce_version: int,
        internal: bool = False,
        transactional_id: str | None = None,
    ) -> Appended:
        """``append`` for a partition in hand. A transactional batch needs its ``transactional_id``."""
        if not self.running:
            raise ShuttingDown("the broker is stopping")
        appended = self._publisher.append(
            partition,
            records,
            acks=acks,
            produce_version=produce_version,
            internal=internal,
            transactional_id=transactional_id,
        )
        self.dirty[partition] = None
        return appended

    async def init_producer_id(self) -> tuple[int, int]:
        """An identity for an idempotent producer: a fresh id and its first epoch."""
        return await self.new_producer_id(), 0

    async def new_producer_id(self) -> int:
        """A producer id that nobody ever had."""
        if not self._producer_ids:
            async with self._producer_ids_lock:
                if not self._producer_ids:
                    await self._reserve_producer_ids()
        producer_id = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return producer_id

    # --- reading -----------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """A partition this node leads, to be given back to the methods below.

        Raises ``UnknownTopic``, ``NotLeader``, ``StorageFailure``.
        """
        return self.topics.partition(topic, index)

    def replica(self, topic: str, index: int) -> Partition:
        """A partition that this node has a replica of, whoever leads it. Raises as ``partition`` does."""
        return self.topics.replica(topic, index)

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """A topic by its id. Raises ``UnknownTopicId``."""
        return self.topics.topic_by_id(topic_id)

    def read_now(
        self,
        partition: Partition,
        offset: Offset,
        *,
        bytes_max: int,
        committed: bool = False,
        at_least_one: bool = True,
        leader_epoch: LeaderEpoch = NO_EPOCH,
    ) -> PartitionRead:
        """What is there now, without waiting. See ``engine.read.read``."""
        return read(
            partition,
            offset,
            bytes_max=bytes_max,
            committed=committed,
            at_least_one=at_least_one,
            leader_epoch=leader_epoch,
        )

    def wait_for_data(
        self,
        partitions: Sequence[Partition],
        *,
        missing_bytes: int,
        wait_ms: int,
        done: Callable[[], None],
    ) -> ReadWaiter:
        """Call ``done`` once: when that many bytes came, a partition left, or the time is over."""
        assert self._loop is not None
        return ReadWaiter(
            partitions, missing_bytes=missing_bytes, wait_ms=wait_ms, done=done, loop=self._loop
        )

    def find_offset(
        self,
        partition: Partition,
        time_or_place: int,
        *,
        committed: bool = False,
        leader_epoch: LeaderEpoch = NO_EPOCH,
    ) -> FoundOffset:
        """The position for a time in ms, or for a place (``LATEST``, ``EARLIEST``, ``MAX_TIMESTAMP``)."""
        partition.check_epoch(leader_epoch)
        return find_offset(partition, time_or_place, committed=committed)

    def epoch_end_offset(
        self, partition: Partition, epoch: LeaderEpoch, *, leader_epoch: LeaderEpoch = NO_EPOCH
    ) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch not above ``epoch`` that has records, and the offset at which it ends."""
        partition.check_epoch(leader_epoch)
        return partition.epoch_end_offset(epoch)

    def deleting_records(self) -> AbstractContextManager[None]:
        """For many ``delete_records`` in a row: what they did is written down once, at the end."""
        return self.log_dir.saving_together()

    def delete_records(self, topic: str, partition: int, before: Offset) -> Offset:
        """Make everything before this offset (-1: before the high watermark) unreadable; the new start.

        Other replicas follow: ``replicas.deletions`` tells when they have.
        """
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicName(f"records of the internal topic {topic} may not be deleted")
        led = self.topics.partition(topic, partition)
        start = delete_records(led, before)
        self.replicas.deletions.begin(led)
        return start

    # --- topics and settings -----------------------------------------------------------------------

    async def create_topics(
        self, commands: Sequence[CreateTopic], *, validate_only: bool = False
    ) -> Sequence[TopicResult]:
        """Make topics, or only say what would happen."""
        self._check_running()
        decision = decide_create_topics(
            self._host.head, commands, defaults=self._defaults(), new_id=self.rng.uuid4
        )
        if not validate_only:
            await self._host.propose(decision.records)
            await self._open_new_partitions()
        return decision.results

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic of this name, made with the broker's defaults if there is none.

        Raises ``InvalidTopicName``, ``InvalidReplicationFactor``, ``StorageFailure``.
        """
        topic = self.image.topics.get(name)
        if topic is not None:
            return topic
        check_topic_name(name)
        if not self._host.is_active:
            return await self._ask_for_topic(name)
        pending = self._host.head.topics.get(name)
        if pending is None:
            (result,) = await self.create_topics([self._automatic(name)])
            if result.error is not None:
                raise result.error
        else:
            await self._host.settled()
        topic = self.image.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"topic {name} was deleted while it was being made")
        return topic

    async def _ask_for_topic(self, name: str) -> TopicImage:
        """Have the controller make a topic, and wait until it is known here."""
        (result,) = await self.link.call(MakeTopics(commands=(self._automatic(name),)))
        if result.error is not None and not isinstance(result.error, TopicExists):
            raise result.error
        await self.news.until(
            lambda: name in self.image.topics, timeout_ms=limits.CONTROLLER_WAIT_MS_MAX
        )
        topic = self.image.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"topic {name} was made, but is not known here yet; ask again")
        return topic

    async def delete_topics(
        self, targets: Sequence[tuple[str | None, UUID | None]]
    ) -> Sequence[TopicResult]:
        """Remove topics by name or by id, with all of their data."""
        self._check_running()
        decision = decide_delete_topics(self._host.head, targets)
        await self._host.propose(decision.records)
        return decision.results

    async def create_partitions(
        self, commands: Sequence[AddPartitions], *, validate_only: bool = False
    ) -> Sequence[TopicResult]:
        """Give topics more partitions."""
        self._check_running()
        decision = decide_create_partitions(self._host.head, commands)
        if not validate_only:
            await self._host.propose(decision.records)
            await self._open_new_partitions()
        return decision.results

    async def alter_configs(
        self, commands: Sequence[AlterConfigs], *, validate_only: bool = False
    ) -> Sequence[ConfigResult]:
        """Change settings of topics and brokers."""
        self._check_running()
        decision = decide_alter_configs(
            self._host.head,
            commands,
            node_id=self.node.node_id,
            effective=self._effective_setting,
            broker=self.topics.broker,
        )
        if not validate_only:
            await self._host.propose(decision.records)
        return decision.results

    def topic_config(self, topic: str) -> LogConfig:
        """The settings in force for a topic's logs."""
        return self.topics.config_of(topic)

    def describe_topic_config(
        self, topic: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """A topic's settings and where each comes from. Raises ``UnknownTopic``, ``InvalidTopicName``."""
        check_topic_name(topic)
        if topic not in self.image.topics:
            raise UnknownTopic(f"there is no topic {topic}")
        return describe_topic(self.image.topic_config(topic), self.topics.broker, names)

    def preview_topic_config(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """The settings that a topic with these overrides has."""
        return describe_topic(overrides, self.topics.broker)

    def describe_broker_config(
        self, broker: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """A broker's settings ("" for what holds for all brokers, by id otherwise)."""
        if broker not in {"", str(self.node.node_id)}:
            raise InvalidRequest(
                f"Unexpected broker id, expected {self.node.node_id} or empty string, "
                f"but received {broker}"
            )
        entries = describe_broker(self.topics.broker, names)
        if broker:
            return entries
        set_for_all = self.image.config_of(RESOURCE_BROKER, "")
        return [entry for entry in entries if entry.name in set_for_all]

    def describe_group_config(
        self, group_id: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """A group's settings, whether or not there is such a group."""
        if not group_id:
            raise InvalidRequest("a group that has settings has a name")
        overrides = self.image.config_of(RESOURCE_GROUP, group_id)
        return describe_group(overrides, self.topics.broker, names)

    def describe_client_metrics_config(
        self, name: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """The settings of a subscription to clients' metrics, whether or not there is one."""
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return describe_client_metrics(self.image.config_of(RESOURCE_CLIENT_METRICS, name), names)

    @property
    def metadata_offset(self) -> int:
        """Where the cluster's metadata ends: grows with each change, also over restarts."""
        return self._host.end_offset

    def group_setting(self, group_id: str, name: str) -> Any:
        """The value in force of a group's setting."""
        overrides = self.image.config_of(RESOURCE_GROUP, group_id)
        return group_setting(name, overrides, self.topics.broker)

    def describe_log_dir(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> LogDirDescription:
        """The log directory and the partitions in it: all, or those asked for that exist."""
        found = self.topics if partitions is None else filter(None, map(self._if_here, partitions))
        total, usable = (-1, -1)
        if self._disk_usage is not None:
            try:
                total, usable = self._disk_usage()
            except OSError as error:
                raise StorageFailure(f"the log directory cannot be reached: {error}") from error
        return LogDirDescription(
            path=self.data_path,
            total_bytes=total,
            usable_bytes=usable,
            partitions=tuple(
                PartitionSize(topic=one.topic, partition=one.index, size_bytes=one.log.size_bytes)
                for one in found
            ),
        )

    def describe_quorum(self) -> QuorumDescription:
        """The quorum as its leader sees it. Raises ``NotLeader`` on another node."""
        return describe_quorum(
            self._host.replica,
            monotonic_ms=self.clock.monotonic_ms(),
            now_ms=self.clock.now_ms(),
        )

    def address_of(self, node: NodeId, listener: str | None = None) -> tuple[str, int] | None:
        """Where a node is found: as it registered, on this listener if it has it, or as a voter."""
        bootstrap = bootstrap_of(self.topics.broker)
        if node in bootstrap:
            return bootstrap[node]
        return address_of(self.image, self._host.voters, node, listener)

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _host(self) -> QuorumHost:
        if self._metadata is None:
            raise ShuttingDown("the broker has not started")
        return self._metadata

    def _check_running(self) -> None:
        if not self.running:
            raise ShuttingDown("the broker is stopping")

    async def _open_new_partitions(self) -> None:
        for number, _ in enumerate(self.topics.open_waiting(), start=1):
            if number % _PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)

    def _if_here(self, key: tuple[str, int]) -> Partition | None:
        try:
            return self.topics.replica(*key)
        except (UnknownTopic, NotLeader):
            return None

    def _on_commit(self, records: Sequence[MetadataRecord], before: Image, after: Image) -> None:
        self.topics.on_commit(records, before, after)
        self.replicas.open_waiting()
        for observer in self._observers:
            observer(before, after)

    def _read_metadata(self, now_ms: int) -> None:
        """Before the other logs are opened: how they are recovered depends on their settings."""
        self._metadata = metadata = self._open_metadata(now_ms)
        metadata.on_leadership(self._on_leadership)
        self._facts = metadata.replay()
        self.topics.learn(metadata.local_image)

    def _open_metadata(self, now_ms: int) -> QuorumHost:
        metadata_log = self.log_dir.logs.get(_METADATA_KEY)
        if _METADATA_KEY in self.log_dir.unreadable:
            # To begin a new one would forget every topic and give producer ids out again.
            raise StorageFailure(
                f"the metadata cannot be read: {self.log_dir.unreadable[_METADATA_KEY]}"
            )
        if metadata_log is None:
            # Kafka's own id for this topic.
            metadata_log = self.log_dir.create(
                _METADATA_KEY, METADATA_LOG_CONFIG, UUID(int=1), now_ms=now_ms
            )
        assert self.log_dir.meta is not None
        key = ReplicaKey(self.node.node_id, self.log_dir.meta.directory_id)
        return QuorumHost(
            DiskRaftLog(metadata_log, self.clock),
            key=key,
            voters=voters_of(self.topics.broker, key),
            settings=quorum_settings(self.topics.broker),
            flusher=self.flusher,
            tasks=self.tasks,
            worker=self._snapshots,
            clock=self.clock,
            rng=self.rng,
            peers=self.peers,
            bootstrap=tuple(bootstrap_of(self.topics.broker)),
        )

    def _on_leadership(self, is_active: bool, _epoch: LeaderEpoch) -> None:
        """The first leader of a new cluster says which formats hold."""
        host = self._host
        if is_active and not host.is_alone and not host.image.features:
            levels = first_levels(host.image, fresh=True)
            self.tasks.spawn(host.propose(levels), name="first facts")

    async def _first_facts(self, metadata: QuorumHost, *, fresh: bool) -> None:
        """What each start adds: the format at the very first, the node, epochs after an unclean stop."""
        records: list[MetadataRecord] = []
        records += first_levels(metadata.image, fresh=fresh)
        if fresh or self.node.node_id not in metadata.image.brokers:
            records.append(self._registration(()))
        if fresh:
            records += self._adopted_topics()
        if not self.log_dir.was_clean:
            records += decide_new_epochs(metadata.image, self.node.node_id)
        await metadata.propose(records)

    def _directory_id(self) -> UUID:
        assert self.log_dir.meta is not None
        return self.log_dir.meta.directory_id

    def _registration(self, end_points: tuple[BrokerEndpoint, ...]) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.node.node_id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self._host.end_offset,
            end_points=end_points,
            rack=self.node.rack,
            log_dirs=(self._directory_id(),),
        )

    def _adopted_topics(self) -> list[MetadataRecord]:
        """Partitions that lie here without any metadata: data of a broker whose metadata was elsewhere."""
        counts: dict[str, int] = {}
        for key in self.log_dir.logs:
            # A number that no topic has is no partition; such a directory is set aside.
            if key.topic != METADATA_TOPIC and key.partition < limits.PARTITIONS_PER_REQUEST_MAX:
                counts[key.topic] = max(counts.get(key.topic, 0), key.partition + 1)
        records: list[MetadataRecord] = []
        node = (self.node.node_id,)
        for topic, count in sorted(counts.items()):
            log.warning(
                "topic=%s: found %d partitions without metadata; adopting them", topic, count
            )
            logs = [self.log_dir.logs.get(TopicPartition(topic, index)) for index in range(count)]
            ids = [one.topic_id for one in logs if one is not None and one.topic_id is not None]
            topic_id = ids[0] if ids else self.rng.uuid4()
            records.append(TopicRecord(name=topic, topic_id=topic_id))
            records += [
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=node,
                    isr=node,
                    leader=node[0],
                    leader_epoch=max(one.latest_epoch, -1) + 1 if one is not None else 0,
                )
                for index, one in enumerate(logs)
            ]
        return records

    async def _reserve_producer_ids(self) -> None:
        try:
            self._producer_ids = await self.link.call(
                AllocateProducerIds(node_id=self.node.node_id, broker_epoch=self.broker_epoch)
            )
        except StaleBrokerEpoch as error:
            raise CoordinatorNotAvailable(f"this node is about to register: {error}") from error

    def _defaults(self) -> TopicDefaults:
        return TopicDefaults(
            partitions=self.broker_setting("num.partitions"),
            replication_factor=self.broker_setting("default.replication.factor"),
        )

    def _automatic(self, name: str) -> CreateTopic:
        """A topic nobody described: the broker's defaults, or what an internal topic needs."""
        if name not in INTERNAL_TOPICS:
            return CreateTopic(name=name)
        prefix = {
            OFFSETS_TOPIC: "offsets.topic",
            TRANSACTIONS_TOPIC: "transaction.state.log",
            SHARE_STATE_TOPIC: "share.coordinator.state.topic",
        }[name]
        wanted = self.broker_setting(f"{prefix}.replication.factor")
        # As many as the cluster was made for; one node is enough for one that stands alone.
        factor = min(wanted, max(len(self.image.brokers), len(self._host.voters), 1))
        in_sync = {}
        if factor > 1 and name != OFFSETS_TOPIC:
            in_sync["min.insync.replicas"] = str(
                min(factor, self.broker_setting(f"{prefix}.min.isr"))
            )
        return CreateTopic(
            name=name,
            partitions=self.broker_setting(f"{prefix}.num.partitions"),
            replication_factor=factor,
            configs={
                **in_sync,
                # Updates of share state share one key and add up: their log is cut, never compacted.
                **(
                    {"cleanup.policy": "delete", "retention.ms": "-1"}
                    if name == SHARE_STATE_TOPIC
                    else {"cleanup.policy": "compact"}
                ),
                "compression.type": "producer",
                "segment.bytes": str(self.broker_setting(f"{prefix}.segment.bytes")),
            },
        )

    def _effective_setting(self, resource_type: int, resource_name: str, name: str) -> str | None:
        if resource_type == RESOURCE_TOPIC:
            overrides = self._host.head.topic_config(resource_name)
            entries = describe_topic(overrides, self.topics.broker, [name])
        elif resource_type == RESOURCE_GROUP:
            overrides = self._host.head.config_of(RESOURCE_GROUP, resource_name)
            entries = describe_group(overrides, self.topics.broker, [name])
        elif resource_type == RESOURCE_CLIENT_METRICS:
            overrides = self._host.head.config_of(RESOURCE_CLIENT_METRICS, resource_name)
            entries = describe_client_metrics(overrides, [name])
        else:
            entries = describe_broker(self.topics.broker, [name])
        return entries[0].value if entries else None


def text_id(value: UUID) -> str:
    """An id as Kafka writes it: 22 characters of base64 for use in URLs."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
