"""The replicas on this node: their roles by the metadata, fetches of followers, in-sync replicas.

A role changes in one step on the loop (``Partition.assume``); this module then fetches from the new leader,
or tells the parts of the node that it leads or does so no more. A leader answers fetches of followers, which
is how it learns how far they are, and asks the controller to add followers that have caught up to the in-sync
replicas and to remove those that lag for too long. It asks for many partitions at once, with one request in
flight; a request whose answer was lost is sent again, because it may or may not have been granted.

High watermarks of partitions with other replicas are written down every few seconds and at the stop.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from millpond.base.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    MillpondError,
    NewLeaderElected,
    NotLeader,
    ShuttingDown,
    UnknownTopic,
    UnknownTopicId,
)
from millpond.base.ids import NodeId, Offset, TopicPartition
from millpond.engine.cluster.controller_link import ControllerLink
from millpond.engine.cluster.membership import Membership
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.partitions.deletions import Deletions
from millpond.engine.partitions.directory_assignments import DirectoryAssignments
from millpond.engine.partitions.disk_health import DiskHealth
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.partitions.waiters import ReadWaiter
from millpond.engine.peers import (
    AlterInSync,
    InSyncChange,
    InSyncResult,
    PeerHandlers,
    Peers,
    ReplicaFetch,
    ReplicaReads,
)
from millpond.engine.replication.fetchers import FetcherParts, Fetchers, silent_link_ms
from millpond.engine.replication.follower_reads import FollowerReads
from millpond.engine.replication.replication_quotas import ReplicationQuota
from millpond.engine.runtime.backoff import Backoff
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.runtime import Runtime
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.replication.leadership import InSyncRequest
from millpond.replication.partition import Change, Partition

log = logging.getLogger(__name__)

AskController = Callable[[AlterInSync], Awaitable[Sequence[InSyncResult]]]

# The one replica selector of Kafka that is supported; without one consumers read from the leader.
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

_TICK_MS_MAX = 1_000
_RETRY_MS = 200
# Directories that are created before other tasks get their turn: a few milliseconds.
_PARTITIONS_A_TURN = 8
# The delay before partitions that could not be opened are tried again; longer each time.
_OPEN_AGAIN_MS_MIN = 5_000
_OPEN_AGAIN_MS_MAX = 60_000
# Partitions whose followers are checked before other tasks get their turn: a millisecond or two.
_LOOKED_AT_A_TURN = 200
# Changes in one request; Kafka's own controllers take thousands.
_CHANGES_MAX = 1_000


# The controller knows a newer state of the partition: the change waits until this node has read it.
_OVERTAKEN = (
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotLeader,
    UnknownTopic,
    UnknownTopicId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """Counts of the partitions of this node by their health."""

    leaders: int
    followers: int
    under_replicated: tuple[TopicPartition, ...]
    under_min_isr: tuple[TopicPartition, ...]
    at_min_isr: tuple[TopicPartition, ...]
    # Partitions with a replica here and without a leader.
    leaderless: tuple[TopicPartition, ...]
    # Replicas whose disk failed (nothing is written to them until it takes writes), or that could not be
    # opened.
    failed: tuple[TopicPartition, ...]


class Replicas:
    """The replicas of this node. Made before the start; begins its work at the end of the start."""

    def __init__(
        self,
        *,
        info: NodeInfo,
        runtime: Runtime,
        settings: NodeSettings,
        log_dirs: LogDirs,
        topics: TopicTable,
        flusher: Flusher,
        metadata: MetadataView,
        membership: Membership,
        peer_handlers: PeerHandlers,
        peers: Peers | None,
        partitions: Partitions,
        deletions: Deletions,
        directory_assignments: DirectoryAssignments,
        disk: DiskHealth,
        controller_link: ControllerLink,
    ) -> None:
        self._info = info
        self._runtime = runtime
        self._settings = settings
        self._log_dirs = log_dirs
        self._topics = topics
        self._flusher = flusher
        self._metadata = metadata
        self._membership = membership
        self._peer_handlers = peer_handlers
        self._peers = peers
        self._partitions = partitions
        self._deletions = deletions
        self._directory_assignments = directory_assignments
        self._disk = disk
        self._controller_link = controller_link
        self.fetchers = Fetchers(
            FetcherParts(
                info=info,
                runtime=runtime,
                settings=settings,
                membership=membership,
                flusher=flusher,
                peers=peers,
                mark_dirty=partitions.mark_dirty,
            ),
            ReplicationQuota("follower", runtime=runtime, metadata=metadata, settings=settings),
        )
        self._reads = FollowerReads(
            self._on_follower,
            runtime=runtime,
            topics=topics,
            quota=ReplicationQuota("leader", runtime=runtime, metadata=metadata, settings=settings),
        )
        # Asks the controller for other in-sync replicas.
        self.ask_controller: AskController = controller_link.call
        # Partitions led here that have other replicas.
        self._led: dict[Partition, None] = {}
        self._changes: dict[Partition, InSyncRequest] = {}
        self._is_asking = False
        self._is_opening = False
        self._written_ms = 0
        self._open_again = Backoff(_OPEN_AGAIN_MS_MIN)
        # When each in-sync follower of this node last fetched, and when that was computed.
        self._fetched_ms: dict[NodeId, int] = {}
        self._peer_handlers.serve(ReplicaFetch, self.serve)

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow, and to look after who is in sync."""
        self.fetchers.start()
        self._runtime.tasks.keep(self._look_after, name="replicas")

    def stop(self) -> None:
        """Write down what only this node knows."""
        self.write_high_watermarks()

    async def _look_after(self) -> None:
        while True:
            lag_ms = self._settings.get("replica.lag.time.max.ms")
            await asyncio.sleep(max(min(lag_ms // 2, _TICK_MS_MAX), 1) / 1000)
            try:
                await self._tick()
            except MillpondError as error:
                log.error("replicas: %s; trying again later", error)

    async def _tick(self) -> None:
        """Do the work that is due."""
        fetched: dict[NodeId, int] = {}
        for number, partition in enumerate(tuple(self._led), start=1):
            if partition in self._led:
                self._want(partition)
                _note_fetches(partition, fetched)
            if number % _LOOKED_AT_A_TURN == 0:
                await asyncio.sleep(0)
        self._fetched_ms = fetched
        now_ms = self._runtime.clock.monotonic_ms()
        self._deletions.look_at_all()
        every_ms = self._settings.get("replica.high.watermark.checkpoint.interval.ms")
        if now_ms - self._written_ms >= every_ms:
            self._written_ms = now_ms
            self.write_high_watermarks()
        if not self._topics.failed_to_open:
            self._open_again = Backoff(_OPEN_AGAIN_MS_MIN)
        elif self._open_again.failures == 0:
            self._open_again.extend(now_ms, _OPEN_AGAIN_MS_MAX)
        elif now_ms >= self._open_again.until_ms:
            self._open_again.extend(now_ms, _OPEN_AGAIN_MS_MAX)
            self.retry_unopened()

    def write_high_watermarks(self) -> None:
        """Write the high watermarks of partitions with other replicas.

        A single replica has it from its log.
        """
        offsets: dict[TopicPartition, Offset] = {
            TopicPartition(one.topic, one.index): one.high_watermark
            for one in self._topics
            if len(one.replicas) > 1
        }
        self._log_dirs.write_high_watermarks(offsets)

    # --- roles -------------------------------------------------------------------------------------

    def on_change(self, partition: Partition, change: Change) -> None:
        """Apply a replica's new role: leader, follower or removed."""
        if partition.leadership is not None and not partition.is_retired:
            self._led[partition] = None
        else:
            self._led.pop(partition, None)
            self._changes.pop(partition, None)
        self._deletions.look(partition)
        if change in {Change.LEADS, Change.FOLLOWS}:
            self._directory_assignments.note(TopicPartition(partition.topic, partition.index))
        match change:
            case Change.LEADS:
                self.fetchers.leave(partition)
                self._reads.wake(partition)
                self._partitions.tell_leadership(partition, True)
            case Change.FOLLOWS:
                self._follow(partition)
            case Change.HANDED_OVER:
                self._partitions.tell_leadership(partition, False)
                self._follow(partition)
            case Change.GONE:
                self.fetchers.leave(partition)
                self._partitions.tell_leadership(partition, False)
            case Change.ADJUSTED | Change.NOTHING:
                pass

    def _follow(self, partition: Partition) -> None:
        if self._disk.is_shut(partition):
            self.fetchers.leave(partition)  # until its directory is back
        else:
            self.fetchers.follow(partition)

    def on_directory_offline(self, log_dir: LogDir) -> None:
        """A log directory takes no writes: its replicas do not follow. What they lead, others will when the
        controller has heard of it.
        """
        for partition in self._lying_in(log_dir):
            self.fetchers.leave(partition)

    def on_directory_online(self, log_dir: LogDir) -> None:
        """Let the replicas of a log directory follow again: it takes writes."""
        for partition in self._lying_in(log_dir):
            if not partition.is_leader and not partition.is_retired:
                self.fetchers.follow(partition)
        self.retry_unopened()

    def _lying_in(self, log_dir: LogDir) -> list[Partition]:
        return [one for one in self._topics if TopicPartition(one.topic, one.index) in log_dir.logs]

    def retry_unopened(self) -> None:
        """Begin to open the partitions that could not be opened before."""
        self._topics.try_again()
        self.open_waiting()

    def open_waiting(self) -> None:
        """Begin to create the directories of new replicas."""
        if self._is_opening or not self._topics.has_waiting or not self._runtime.running:
            return
        self._is_opening = True
        try:
            self._runtime.tasks.spawn(self._open_waiting(), name="open partitions")
        except ShuttingDown:
            self._is_opening = False

    async def _open_waiting(self) -> None:
        try:
            for number, opened in enumerate(self._topics.open_waiting(), start=1):
                if opened is not None and opened.own_end < opened.log.end_offset:
                    # A log that was recovered: what is in it counts when it is known to be on the disk.
                    self._flusher.request(opened)
                if number % _PARTITIONS_A_TURN == 0:
                    await asyncio.sleep(0)
        finally:
            self._is_opening = False

    # --- followers -----------------------------------------------------------------------------------

    async def serve(self, request: ReplicaFetch) -> ReplicaReads:
        """Answer a follower: at once if there are records for it, else when there are or its time is over."""
        return await self._reads.serve(request)

    def on_start_moved(self, partition: Partition) -> None:
        """Note a new log start after retention; followers get it with their next fetch."""
        if partition.is_leader:
            self._deletions.begin(partition)
        else:
            self.fetchers.on_start_moved(partition)

    def _on_follower(self, partition: Partition, node: NodeId) -> None:
        self._deletions.look(partition)
        if node not in partition.isr:
            self._want(partition)

    def send_clients_away(self) -> None:
        """This node may lead no longer: fail the appends that wait for replicas, and wake the readers that
        wait for records, so that both ask again. Queues and coordinators stay as they are until the metadata
        say that others lead.
        """
        self._partitions.send_writers_away()
        for partition in tuple(self._led):
            for watcher in tuple(partition.watchers):
                if isinstance(watcher, ReadWaiter):
                    watcher.on_gone()

    def nearest(self, partition: Partition, rack: str, offset: Offset) -> NodeId:
        """Return the replica for a consumer in this rack: the leader, unless an in-sync replica is nearer."""
        selector = self._settings.get("replica.selector.class")
        me = partition.node_id
        if selector != RACK_AWARE_SELECTOR or partition.leadership is None:
            return me
        brokers = self._metadata.image.brokers
        near = [
            one
            for one in partition.leadership.followers.values()
            if one.node_id in partition.isr
            and one.log_start <= offset <= one.end_offset
            and (broker := brokers.get(one.node_id)) is not None
            and broker.rack == rack
            and not broker.fenced
        ]
        if not near or self._info.rack == rack:
            return me
        return max(near, key=lambda one: (one.end_offset, one.caught_up_ms)).node_id

    def silent_followers(self) -> tuple[NodeId, ...]:
        """Return the in-sync followers of this node that have not fetched for too long."""
        now_ms = self._runtime.clock.monotonic_ms()
        stalls = self._runtime.stalls
        limit_ms = silent_link_ms(self._settings)
        return tuple(
            sorted(
                node
                for node, fetched_ms in self._fetched_ms.items()
                if stalls.silent_ms(max(fetched_ms, self._reads.fetched_ms(node)), now_ms)
                >= limit_ms
            )
        )

    # --- who is in sync ------------------------------------------------------------------------------

    def _want(self, partition: Partition) -> None:
        wanted = partition.wanted_in_sync(self._runtime.clock.monotonic_ms())
        if wanted is None:
            return
        log.debug(
            "partition=%s-%d epoch=%d: in sync are %s, should be %s",
            partition.topic,
            partition.index,
            wanted.leader_epoch,
            list(partition.isr),
            list(wanted.isr),
        )
        self._changes[partition] = wanted
        if not self._is_asking:
            self._is_asking = True
            try:
                self._runtime.tasks.keep(self._ask, name="in-sync replicas")
            except ShuttingDown:
                self._is_asking = False

    async def _ask(self) -> None:
        while self._changes:
            changes = dict(list(self._changes.items())[:_CHANGES_MAX])
            if not await self._ask_for(changes):
                await asyncio.sleep(_RETRY_MS / 1000)
        self._is_asking = False

    async def _ask_for(self, changes: dict[Partition, InSyncRequest]) -> bool:
        """Whether the controller answered, for all of them."""
        request = AlterInSync(
            node_id=self._info.node_id,
            broker_epoch=self._membership.broker_epoch,
            changes=tuple(_change(partition, wanted) for partition, wanted in changes.items()),
        )
        try:
            results = await self.ask_controller(request)
        except MillpondError as error:
            log.info("in-sync replicas of %d partitions wait: %s", len(changes), error)
            self._forget_overtaken()
            return False
        answers = {(result.topic_id, result.partition): result for result in results}
        were = {partition: partition.isr for partition in changes}
        for partition, wanted in changes.items():
            result = answers.get((partition.topic_id, partition.index))
            if result is not None:
                self._on_result(partition, wanted, result)
        _say_in_sync(were)
        self._forget_overtaken()
        return not any(self._changes.get(one) is wanted for one, wanted in changes.items())

    def _on_result(self, partition: Partition, wanted: InSyncRequest, result: InSyncResult) -> None:
        error = result.error
        if error is None:
            if result.leader_epoch == wanted.leader_epoch:
                partition.on_in_sync_granted(
                    wanted, partition_epoch=result.partition_epoch, isr=result.isr
                )
        else:
            log.info(
                "partition=%s-%d epoch=%d: %s are not taken for in sync: %s",
                partition.topic,
                partition.index,
                wanted.leader_epoch,
                list(wanted.isr),
                error,
            )
            if isinstance(error, IneligibleReplica):
                partition.on_in_sync_refused(wanted)
            elif not isinstance(error, _OVERTAKEN):
                return  # asked again
        if self._changes.get(partition) is wanted:
            del self._changes[partition]

    def _forget_overtaken(self) -> None:
        """Drop the changes that newer metadata have settled."""
        for partition, wanted in list(self._changes.items()):
            leadership = partition.leadership
            if leadership is None or leadership.request is not wanted:
                del self._changes[partition]

    # --- for people ----------------------------------------------------------------------------------

    def report(self) -> ReplicaReport:
        """Return the counts of replicas by their health."""
        here = list(self._topics)
        led = [one for one in here if one.is_leader]
        return ReplicaReport(
            leaders=len(led),
            followers=len(here) - len(led),
            under_replicated=_names(one for one in led if len(one.isr) < len(one.replicas)),
            under_min_isr=_names(one for one in led if one.is_under_min_isr),
            at_min_isr=_names(
                one for one in led if len(one.replicas) > 1 and len(one.isr) == one.min_isr
            ),
            leaderless=_names(one for one in here if one.leader < 0),
            failed=(
                *_names(one for one in here if one.log.failure is not None),
                *self._topics.failed_to_open,
            ),
        )


def _note_fetches(partition: Partition, fetched: dict[NodeId, int]) -> None:
    """Note when the in-sync followers of a partition last fetched; of all partitions the latest counts."""
    leadership = partition.leadership
    if leadership is not None:
        for node, follower in leadership.followers.items():
            if node in partition.isr:
                fetched[node] = max(follower.fetched_ms, fetched.get(node, follower.fetched_ms))


def _names(partitions: Iterable[Partition]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(one.topic, one.index) for one in partitions)


def _say_in_sync(were: dict[Partition, tuple[NodeId, ...]]) -> None:
    """Log changes of in-sync replicas, one line for each node."""
    came: Counter[NodeId] = Counter()
    went: Counter[NodeId] = Counter()
    for partition, before in were.items():
        came.update(set(partition.isr) - set(before))
        went.update(set(before) - set(partition.isr))
    for node, count in sorted(came.items()):
        log.info("node %d is in sync in %d more partitions that are led here", node, count)
    for node, count in sorted(went.items()):
        log.warning(
            "node %d is not in sync any more in %d partitions that are led here", node, count
        )


def _change(partition: Partition, wanted: InSyncRequest) -> InSyncChange:
    return InSyncChange(
        topic_id=partition.topic_id,
        partition=partition.index,
        leader_epoch=wanted.leader_epoch,
        partition_epoch=wanted.partition_epoch,
        isr=wanted.isr,
        broker_epochs=wanted.broker_epochs,
    )
