"""One node: its parts, its life from start to stop, and what it can be asked.

Everything runs on one event loop. Plain methods are complete when they return; what was true when
they started is true at their end. Methods that change metadata are coroutines: they return when the
change is durable and in force. Refusals are the classes of ``base.errors``, raised, or carried in a
result where one call holds many.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.errors import (
    CorruptLog,
    InvalidTopicName,
    MetadataMissing,
    NotLeader,
    ShuttingDown,
    UnsupportedVersion,
)
from millpond.base.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset, TopicPartition
from millpond.base.rng import Rng
from millpond.base.uuids import text_id
from millpond.engine.cluster.admin import ClusterAdmin
from millpond.engine.cluster.controller_host import ControllerHost, ControllerParts
from millpond.engine.cluster.controller_link import ControllerLink
from millpond.engine.cluster.image_waiters import ImageWaiters
from millpond.engine.cluster.membership import MemberParts, Membership
from millpond.engine.cluster.min_isr import OwnMinIsr
from millpond.engine.cluster.process_watch import NodeWatch
from millpond.engine.cluster.producer_ids import ProducerIds
from millpond.engine.cluster.settings_admin import SettingsAdmin
from millpond.engine.cluster.topic_admin import TopicAdmin
from millpond.engine.coordinators.groups import Groups
from millpond.engine.coordinators.transactions import Transactions
from millpond.engine.limits.quotas import Quotas
from millpond.engine.limits.telemetry import Telemetry
from millpond.engine.partitions.directory_assignments import DirectoryAssignments
from millpond.engine.partitions.disk_health import DiskHealth
from millpond.engine.partitions.disk_view import DiskView
from millpond.engine.partitions.flusher import Flusher
from millpond.engine.partitions.maintenance import Maintenance
from millpond.engine.partitions.partition_calls import PartitionCalls
from millpond.engine.partitions.publish import Appended, Publisher
from millpond.engine.partitions.read import (
    FoundOffset,
    PartitionRead,
    delete_records,
    find_offset,
    read,
    read_behind,
)
from millpond.engine.partitions.repairs import Repairs
from millpond.engine.partitions.topic_table import Topic, TopicTable
from millpond.engine.partitions.waiters import ReadWaiter
from millpond.engine.peers import PeerHandlers, PeerProof, Peers
from millpond.engine.quorum.bootstrap_records import registration, write_first_facts
from millpond.engine.quorum.metadata_log import METADATA_KEY, open_metadata_log
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.engine.quorum.quorum_setup import address_of, bootstrap_of, quorum_settings, voters_of
from millpond.engine.quorum.quorum_view import QuorumDescription, describe_quorum
from millpond.engine.quorum.raft_log import DiskRaftLog
from millpond.engine.replication.lost_replicas import lost_replicas
from millpond.engine.replication.replicas import Replicas
from millpond.engine.runtime.loop_watch import LoopWatch
from millpond.engine.runtime.offload import OffloadPool
from millpond.engine.runtime.tasks import TaskOwner
from millpond.engine.runtime.threads import RealThreads, Threads
from millpond.engine.runtime.worker import Worker
from millpond.engine.share.share_groups import ShareGroups
from millpond.engine.timers.timers import Timers
from millpond.log.checkpoint import NO_REGISTRATIONS, Registrations
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.controller import INTERNAL_TOPICS
from millpond.metadata.elections import Rules, rules_of
from millpond.metadata.features import beyond, first_levels
from millpond.metadata.image import BrokerImage, Image
from millpond.metadata.levels import MILLPOND_VERSION, PEER_PROOF
from millpond.metadata.records import BrokerEndpoint, MetadataRecord
from millpond.raft.messages import Answer as QuorumAnswer
from millpond.raft.messages import ReplicaKey
from millpond.raft.messages import Request as QuorumRequest
from millpond.raft.voters import VoterSet
from millpond.record.validate import Validated
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """This node as others see it."""

    node_id: NodeId
    cluster_id: str
    rack: str | None = None
    # Addresses that clients of each listener are told to use.
    end_points: Mapping[str, BrokerEndpoint] = field(default_factory=dict)


class Engine:
    """One node. Made, started once, stopped once."""

    def __init__(
        self,
        *,
        log_dirs: LogDirs,
        node_id: NodeId,
        cluster_id: str | None,
        broker: BrokerConfig,
        clock: Clock,
        rng: Rng,
        rack: str | None = None,
        peers: Peers | None = None,
        watch: NodeWatch | None = None,
        proof: PeerProof | None = None,
        threads: Threads | None = None,
        boot_id: str | None = None,
    ) -> None:
        """``boot_id`` names the time for which the machine has been up, if it can tell: what was written
        since is still there, whatever became of the process that wrote it.

        ``peers`` are the other nodes; a node that is alone has none; ``watch`` sees their processes end,
        ``proof`` whether they have the cluster's secret.
        ``threads`` are real ones by default.
        """
        self.log_dirs = log_dirs
        self._boot_id = boot_id
        # Whether this life began without others: nobody could take its place.
        self._began_alone = False
        self.clock = clock
        self.rng = rng
        self.node = Node(node_id=node_id, cluster_id=cluster_id or "", rack=rack)
        self.peers = peers
        # What other nodes may ask this one: engine/peers.py.
        self.desk = PeerHandlers()
        self.desk.serve_quorum(self._answer_quorum)
        self.threads = threads if threads is not None else RealThreads()
        self.flusher = Flusher(self.threads)
        self.flusher.on_failure = log_dirs.doubt
        self.tasks = TaskOwner()
        self.topics = TopicTable(log_dirs, node_id, broker, clock)
        # Making, growing and removing topics: engine/cluster/topic_admin.py.
        topic_admin = TopicAdmin(self)
        self.agree_on = topic_admin.agree_on
        self.create_topics = topic_admin.create_topics
        self.ensure_topic = topic_admin.ensure_topic
        self.delete_topics = topic_admin.delete_topics
        self.create_partitions = topic_admin.create_partitions
        # Settings and where each comes from: engine/cluster/settings_admin.py.
        settings = SettingsAdmin(self)
        self.alter_configs = settings.alter_configs
        self.topic_config = settings.topic_config
        self.group_setting = settings.group_setting
        self.describe_topic_config = settings.describe_topic_config
        self.preview_topic_config = settings.preview_topic_config
        self.describe_broker_config = settings.describe_broker_config
        self.describe_group_config = settings.describe_group_config
        self.describe_client_metrics_config = settings.describe_client_metrics_config
        # Identities of producers: engine/cluster/producer_ids.py.
        self.new_producer_id = ProducerIds(self).next
        # What the log directories hold: engine/partitions/disk_view.py.
        disks = DiskView(self.topics, log_dirs)
        self.describe_log_dirs = disks.describe
        self.move_replica = disks.move
        # Partitions written to since maintenance last looked (flush policy "os").
        self.dirty: dict[Partition, None] = {}
        self.running = False
        self._observers: list[Callable[[Image, Image], None]] = []
        self._leadership_observers: list[Callable[[Partition, bool, LeaderEpoch], None]] = []
        self._asked_cluster_id = cluster_id
        # Who leads, who follows, who is in sync: engine/replication/replicas.py.
        self.replicas = Replicas(self)
        self._maintenance = Maintenance(self)
        # Consumer groups and their offsets: engine/coordinators/groups.py.
        self.groups = Groups(self)
        # Transactions of producers: engine/coordinators/transactions.py.
        self.transactions = Transactions(self)
        # Work for clients that would hold up the loop: engine/runtime/offload.py.
        self.beside = OffloadPool(self.threads, "millpond-beside", limits.CHECKING_THREADS_MAX)
        self._publisher = Publisher(self.flusher, clock, self.transactions, self.beside)
        # What happens when a disk fails: engine/partitions/disk_health.py.
        self.disk = DiskHealth(self)
        # Tells the controller in which directory each replica lies: partitions/directory_assignments.py.
        self.placements = DirectoryAssignments(self)
        # What this node wants of other leaders: engine/partitions/partition_calls.py.
        self.partition_calls = PartitionCalls(self)
        # What disks have damaged, and other replicas still have: engine/partitions/repairs.py.
        self.repairs = Repairs(self)
        # Share groups and what they did with each record: engine/share/share_groups.py.
        self.share = ShareGroups(self)
        # Records that are delivered when they are due: engine/timers/timers.py.
        self.timers = Timers(self)
        # Quotas, credentials, features, placement: engine/cluster/admin.py.
        self.admin = ClusterAdmin(lambda: self._host, node_id, self.rules, proof)
        # Which life of this node this is; the controller tells them apart by it.
        self.incarnation_id = rng.uuid4()
        # The connection to the controller, and the controller itself: cluster/controller_link.py,
        # cluster/controller_host.py.
        self.link = ControllerLink(
            node_id,
            self.desk,
            peers,
            lambda: self._host.leader_id if self._metadata else None,
            self._leader_changed,
        )
        # What this process slept through: engine/runtime/loop_watch.py.
        self.loop_watch = LoopWatch(clock, self.tasks)
        self.controller = ControllerHost(
            ControllerParts(
                node_id=node_id,
                host=lambda: self._host,
                setting=self.broker_setting,
                rules=self.rules,
                cluster_id=lambda: self.node.cluster_id,
                own_incarnation=lambda: self.incarnation_id,
                make_topics=self.create_topics,
                desk=self.desk,
                tasks=self.tasks,
                clock=clock,
                stalls=self.loop_watch.stalls,
                watch=watch,
            )
        )
        # This node's place in the cluster: engine/cluster/membership.py.
        self.membership = Membership(
            MemberParts(
                node_id=node_id,
                rack=rack,
                host=lambda: self._host,
                setting=self.broker_setting,
                cluster_id=lambda: self.node.cluster_id,
                directory_ids=lambda: self.log_dirs.ids,
                incarnation_id=lambda: self.incarnation_id,
                kept_registrations=self.kept_registrations,
                note_registrations=log_dirs.record_incarnation,
                lost_replicas=self._lost_replicas,
                on_registered=log_dirs.forget_shortened,
                link=self.link,
                tasks=self.tasks,
                clock=clock,
                loop_watch=self.loop_watch,
                silent_leaders=self.replicas.fetchers.silent_leaders,
                silent_followers=self.replicas.silent_followers,
                on_cut_off=self._on_cut_off,
                watch=watch,
                is_offline=lambda: self.disk.is_offline,
                offline_dirs=lambda: self.disk.offline_dirs,
            )
        )
        self.topics.is_replaced = lambda: self.membership.is_replaced
        self.replicas.ask_controller = self.link.call
        self.news = ImageWaiters()
        self._observers += [
            self.controller.on_change,
            self.membership.on_change,
            self.placements.on_change,
            self.news.on_change,
        ]
        # What clients may use: engine/limits/quotas.py.
        self.quotas = Quotas(self.broker_setting)
        self._observers.append(self.quotas.on_change)
        self._own_min_isr = OwnMinIsr(node_id, lambda: self.topics.broker)
        self._observers.append(self._own_min_isr.on_change)
        # Metrics of clients: engine/limits/telemetry.py.
        self.telemetry = Telemetry(
            lambda: self.image, bytes_max=lambda: int(self.broker_setting("telemetry.max.bytes"))
        )
        self._metadata: QuorumHost | None = None
        self._snapshots = Worker(self.threads, "millpond-snapshots")
        self._has_caught_up = False
        self._has_said_missing = False
        self._facts = 0  # that the metadata log held when it was read
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- life --------------------------------------------------------------------------------------

    async def start(
        self, progress: Callable[[int, int, TopicPartition], None] | None = None
    ) -> None:
        """Recover the logs, replay the metadata, begin the background work.

        Raises ``DataDirectoryInUse``, ``StorageFailure``, ``CorruptLog``, ``UnsupportedVersion``.
        """
        assert not self.running
        self._loop = asyncio.get_running_loop()
        now_ms = self.clock.now_ms()
        self.log_dirs.open(
            self.node.node_id,
            self._asked_cluster_id or text_id(self.rng.uuid4()),
            now_ms=now_ms,
            monotonic_ms=self.clock.monotonic_ms(),
            new_id=self.rng.uuid4,
            boot_id=self._boot_id,
            config_for=self.topics.config_of,
            progress=progress,
            first=METADATA_KEY,
            on_first=lambda: self._read_metadata(now_ms),
        )
        try:
            await self._start_on()
        except BaseException:
            await self.tasks.stop()
            await self.flusher.stop()
            self.log_dirs.abandon()
            raise

    async def _start_on(self) -> None:
        """The rest of the start, with the directories in our hands."""
        meta = self.log_dirs.metadata.meta
        assert meta is not None
        self.node = Node(
            node_id=self.node.node_id,
            cluster_id=meta.cluster_id,
            rack=self.node.rack,
        )
        may_found = self._check_metadata(self._host)
        self.flusher.start()
        await self.tasks.start()
        if not self._host.is_alone:
            self.loop_watch.start()
        self.controller.attach(self._host)
        self._host.on_disk_failure = self.disk.on_metadata_failure
        self._host.start(may_found=may_found)
        self.disk.start()
        if self._host.is_alone:
            await self.join()

    def _check_metadata(self, metadata: QuorumHost) -> bool:
        """Whether this node may be one of those who begin a new cluster; not if partitions lie here without
        any metadata. Raises ``MetadataMissing`` if it is alone, unless the settings let it adopt them.
        """
        found = sorted({*self.log_dirs.logs, *self.log_dirs.unreadable} - {METADATA_KEY})
        is_empty = self._facts == 0 if metadata.is_alone else metadata.end_offset == 0
        if not found or not is_empty:
            return True
        what = f"{METADATA_KEY} is missing or empty, and there are {len(found)} partitions ({found[0]}, …)"
        if not metadata.is_alone:
            log.error(
                "metadata: %s: this node votes for nobody until it has got the metadata from a voter that "
                "has them. If no voter has them any more, restore the directory on one from a copy; to begin "
                "a new cluster without what is there, move the partitions' directories away",
                what,
            )
            return False
        if self.broker_setting("metadata.log.missing") == "adopt":
            return True
        raise MetadataMissing(
            f"{what}: to begin anew would lose topics' settings, users, rights, and AMQP's queues, exchanges "
            "and bindings. Restore the directory from a copy; or start once with metadata.log.missing=adopt "
            "to begin anew with these topics; or move the partitions' directories away to begin with nothing"
        )

    @property
    def requires_proof(self) -> bool:
        """Whether those who ask as nodes must have proved that they belong to this cluster.

        That is so from level 3 of ``millpond.version`` on: nodes of releases before it cannot prove anything.
        Until this node knows what is agreed its own copy of the metadata says which level holds; a node that
        has no metadata yet believes nobody without proof.
        """
        if self._metadata is None:
            return True
        agreed = self._metadata.image.features
        if agreed.get(MILLPOND_VERSION, 0) >= PEER_PROOF:
            return True
        if self._has_caught_up and agreed:
            return False
        local = self._metadata.local_image.features
        return not local or local.get(MILLPOND_VERSION, 0) >= PEER_PROOF

    @property
    def requires_proof_of_answers(self) -> bool:
        """Whether those whom this node asks must have proved it, too.

        A node that has no metadata yet takes answers from the addresses in its settings, also of nodes of
        earlier releases: it may join a cluster that is being upgraded.
        """
        has_metadata = self._metadata is not None and bool(
            self._metadata.image.features or self._metadata.local_image.features
        )
        return has_metadata and self.requires_proof

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
        _check_levels(metadata.image)
        if metadata.is_alone:
            await write_first_facts(self, fresh=self._facts == 0)
        self._has_caught_up = True
        if self.membership.is_needed:
            # What an earlier life of this node led is led by others once this one is registered.
            await self.membership.register()
        else:
            self._began_alone = True
            self.log_dirs.forget_shortened()
        self.quotas.learn(metadata.image)
        self._own_min_isr.look(metadata.image)
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
        self.timers.start()
        self.tasks.spawn(self._maintenance.run(), name="maintenance")
        self.tasks.spawn(self.repairs.run(), name="repairs")

    async def stop(self) -> bool:
        """Stop the background work, flush everything, mark the directory as closed; was that clean?

        What this node leads is handed over first, if there are others.
        """
        await self.membership.leave()
        self.groups.stop()
        self.transactions.stop()
        self.share.stop()
        self.timers.stop()
        self.running = False
        await self._host.stop()
        await self.tasks.stop()
        self._snapshots.stop()
        self.disk.stop()
        self.log_dirs.restore_failed()
        self.beside.stop()
        await self.flusher.flush_all(self.topics)
        self.replicas.stop()
        await self.flusher.stop()
        return self.log_dirs.close(
            now_ms=self.clock.now_ms(), registrations=self.kept_registrations()
        )

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
            await self._host.propose([registration(self, tuple(points.values()))])

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
        """This node leads a partition now, or does so no more: tell who wanted to know.

        What one of them makes of it does not keep the others, nor other partitions, from hearing theirs.
        """
        for call in self._leadership_observers:
            try:
                call(partition, gained, partition.leader_epoch)
            except Exception:
                log.exception(
                    "partition=%s-%d epoch=%d: a change of its leader could not be acted upon",
                    partition.topic,
                    partition.index,
                    partition.leader_epoch,
                )

    @property
    def broker_epoch(self) -> int:
        """Under which epoch this life of the node has registered; -1 if it has not."""
        return self.membership.broker_epoch

    def kept_registrations(self) -> Registrations:
        """The registrations since which this node's disk has lost nothing, this process's among them.

        Before this process has registered, those of earlier processes count.
        """
        if self.membership.has_registered or self._began_alone:
            # A node that is alone has written its registration itself, so it is known by the incarnation.
            return Registrations(
                broker_epoch=self.broker_epoch, incarnation_ids=(self.incarnation_id,)
            )
        kept = self.log_dirs.previous_registrations
        known = self.image.brokers.get(self.node.node_id)
        if known is not None and not set(known.log_dirs) <= set(self.log_dirs.ids):
            # A directory that was registered is not here: another disk may be in its place.
            kept = NO_REGISTRATIONS
            self._say_missing(known)
        elif known is not None and known.incarnation_id in kept.incarnation_ids:
            # An earlier process was registered, and ended before it heard of it.
            kept = Registrations(broker_epoch=known.broker_epoch)
        return kept.asked_by(self.incarnation_id)

    def _say_missing(self, known: BrokerImage) -> None:
        """Which directories are gone that were registered, and which are new: a disk that is not mounted
        looks like a new one.
        """
        if self._has_said_missing:
            return
        self._has_said_missing = True
        missing = sorted(str(one) for one in set(known.log_dirs) - set(self.log_dirs.ids))
        fresh = [one.name for one in self.log_dirs.opened if one.is_new]
        log.error(
            "the registered log directories with the ids %s are not here%s. Replicas that lay there are "
            "copied from other nodes; a partition without another replica begins empty. If a disk is not "
            "mounted, stop the node, mount it and start again",
            ", ".join(missing),
            f", and these are new and empty: {', '.join(fresh)}" if fresh else "",
        )

    def _lost_replicas(self) -> tuple[tuple[UUID, int], ...]:
        """The replicas that may be elected and whose committed records are not on the disk any more."""
        lost = lost_replicas(self.image, self.node.node_id, self.log_dirs.has_lost)
        if lost:
            log.error(
                "%d replicas are not whole on this disk any more, of which the metadata say that they may be "
                "elected; others lead them if they can",
                len(lost),
            )
        return lost

    def rules(self, image: Image) -> Rules:
        """What holds for elections with these metadata, as far as this node's settings count."""
        return rules_of(image, self.topics.broker)

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
        validated: Validated | None = None,
    ) -> Appended:
        """``append`` for a partition in hand. A transactional batch needs its ``transactional_id``.

        Raises ``LongValidation`` for a batch that must be checked beside the loop: give it to
        ``append_beside``. ``validated`` is what the check gave.
        """
        if not self.running:
            raise ShuttingDown("the broker is stopping")
        appended = self._publisher.append(
            partition,
            records,
            acks=acks,
            produce_version=produce_version,
            internal=internal,
            transactional_id=transactional_id,
            validated=validated,
        )
        self.dirty[partition] = None
        return appended

    async def append_beside(
        self,
        find: Callable[[], Partition],
        partition: Partition,
        records: bytearray | memoryview,
        *,
        acks: int,
        produce_version: int,
        transactional_id: str | None = None,
    ) -> Appended:
        """``append_to`` for a batch that it refused with ``LongValidation``, after a check on a thread.

        ``find`` is what found the partition. It is called again after the check, because meanwhile another
        node may lead the partition, or its topic may be gone. Raises what ``find`` does, and ``NotLeader`` if
        that gives another partition (of a new topic with the same name).
        """
        validated = await self._publisher.validate_beside(
            partition, records, produce_version=produce_version
        )
        if find() is not partition:
            raise NotLeader(
                f"partition {partition.topic}-{partition.index} was made anew while a batch for it was "
                "checked; ask for the metadata again"
            )
        return self.append_to(
            partition,
            records,
            acks=acks,
            produce_version=produce_version,
            transactional_id=transactional_id,
            validated=validated,
        )

    async def init_producer_id(self) -> tuple[int, int]:
        """An identity for an idempotent producer: a fresh id and its first epoch."""
        return await self.new_producer_id(), 0

    # --- reading -----------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """A partition this node leads, to be given back to the methods below.

        Raises ``UnknownTopic``, ``NotLeader``, ``StorageFailure``.
        """
        partition = self.topics.partition(topic, index)
        if self.membership.is_cut_off:
            raise self._cut_off(partition)
        return partition

    def replica(self, topic: str, index: int) -> Partition:
        """A partition that this node has a replica of, whoever leads it. Raises as ``partition`` does."""
        partition = self.topics.replica(topic, index)
        if partition.is_leader and self.membership.is_cut_off:
            raise self._cut_off(partition)
        return partition

    def serving_nodes(self) -> frozenset[NodeId]:
        """Nodes that serve, as far as this one can tell. It does not itself while it is cut off: a client
        that was told so and asks for the leader must not be sent back to it.
        """
        nodes = frozenset(broker.broker_id for broker in self.image.serving_brokers)
        return nodes - {self.node.node_id} if self.membership.is_cut_off else nodes

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

    def read_behind(
        self,
        partition: Partition,
        offset: Offset,
        error: CorruptLog,
        *,
        bytes_max: int,
        committed: bool = False,
        at_least_one: bool = True,
    ) -> PartitionRead:
        """What a client gets that met damage with ``read_now``: the records behind it, if no other replica
        may have them and the topic's settings say so.

        Raises ``CorruptLog`` while other replicas may have them, and ``RecordsLost``.
        """
        if self.repairs.may_come_back(partition, offset):
            raise error
        return read_behind(
            partition,
            offset,
            error,
            bytes_max=bytes_max,
            committed=committed,
            at_least_one=at_least_one,
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
        return self.log_dirs.saving_together()

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

    # --- the quorum --------------------------------------------------------------------------------

    @property
    def metadata_offset(self) -> int:
        """Where the cluster's metadata ends: grows with each change, also over restarts."""
        return self._host.end_offset

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

    def _cut_off(self, partition: Partition) -> NotLeader:
        return NotLeader(
            f"node {self.node.node_id} has had no answer of the controller for too long to lead "
            f"{partition.topic}-{partition.index}; ask for the metadata again"
        )

    async def _leader_changed(self, leader: NodeId | None) -> None:
        await self._host.leader_changed(leader)

    def _on_cut_off(self) -> None:
        """Clients that wait here for replicas would wait in vain: they are sent to the next leader."""
        self._publisher.send_away(self._cut_off)
        self.replicas.send_readers_away()

    def check_running(self) -> None:
        """Raises ``ShuttingDown`` unless this node serves."""
        if not self.running:
            raise ShuttingDown("the broker is stopping")

    def _on_commit(self, records: Sequence[MetadataRecord], before: Image, after: Image) -> None:
        self.topics.on_commit(records, before, after)
        self.replicas.open_waiting()
        for observer in self._observers:
            try:
                observer(before, after)
            except Exception:
                log.exception("metadata: a change could not be acted upon")

    def _read_metadata(self, now_ms: int) -> None:
        """Before the other logs are opened: how they are recovered depends on their settings."""
        self._metadata = metadata = self._open_metadata(now_ms)
        metadata.on_leadership(self._on_leadership)
        self._facts = metadata.replay()
        _check_levels(metadata.local_image)
        self.topics.learn(metadata.local_image)

    def _open_metadata(self, now_ms: int) -> QuorumHost:
        metadata_dir = self.log_dirs.metadata
        metadata_log = open_metadata_log(metadata_dir, now_ms)
        key = ReplicaKey(self.node.node_id, metadata_dir.directory_id)
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
            stalls=self.loop_watch.stalls,
        )

    def _on_leadership(self, is_active: bool, _epoch: LeaderEpoch) -> None:
        """The first leader of a new cluster says which formats hold."""
        host = self._host
        if is_active and not host.is_alone and not host.image.features:
            levels = first_levels(host.image, fresh=True)
            self.tasks.spawn(host.propose(levels), name="first facts")


def _check_levels(image: Image) -> None:
    """Raises ``UnsupportedVersion`` if a newer version of this program has made the metadata its own."""
    reason = beyond(image)
    if reason is not None:
        raise UnsupportedVersion(reason)
