"""How a node starts, joins its cluster, and stops."""

import logging
from collections.abc import Callable, Iterable, Sequence

from millpond.base.errors import MetadataMissing, UnsupportedVersion
from millpond.base.ids import LeaderEpoch, TopicPartition
from millpond.base.uuids import text_id
from millpond.engine.cluster.bootstrap_records import (
    BootstrapParts,
    registration,
    write_first_facts,
)
from millpond.engine.node.services import NodeServices
from millpond.engine.quorum.metadata_log import METADATA_KEY, open_metadata_log
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.engine.quorum.quorum_setup import bootstrap_of, quorum_settings, voters_of
from millpond.engine.quorum.raft_log import DiskRaftLog
from millpond.engine.runtime.worker import Worker
from millpond.metadata.features import beyond, first_levels
from millpond.metadata.image import Image
from millpond.metadata.records import BrokerEndpoint, MetadataRecord
from millpond.raft.messages import ReplicaKey

log = logging.getLogger(__name__)

Progress = Callable[[int, int, TopicPartition], None]


class Lifecycle:
    """The order of a node's start and stop. Used once."""

    def __init__(
        self, services: NodeServices, *, cluster_id: str | None, boot_id: str | None
    ) -> None:
        self._services = services
        self._cluster_id = cluster_id
        self._boot_id = boot_id
        self._snapshots = Worker(services.runtime.threads, "millpond-snapshots")
        # How many records the metadata log held when it was read.
        self._record_count = 0

    # --- starting ----------------------------------------------------------------------------------

    async def start(self, progress: Progress | None) -> None:
        """Recover the logs, replay the metadata, begin the background work."""
        services = self._services
        runtime, log_dirs = services.runtime, services.log_dirs
        assert not runtime.running
        now_ms = runtime.clock.now_ms()
        log_dirs.open(
            services.info.node_id,
            self._cluster_id or text_id(runtime.rng.uuid4()),
            now_ms=now_ms,
            monotonic_ms=runtime.clock.monotonic_ms(),
            new_id=runtime.rng.uuid4,
            boot_id=self._boot_id,
            config_for=services.topics.config_of,
            progress=progress,
            first=METADATA_KEY,
            on_first=lambda: self._read_metadata(now_ms),
        )
        try:
            await self._start_opened()
        except BaseException:
            await runtime.tasks.stop()
            await services.flusher.stop()
            log_dirs.abandon()
            raise

    def _read_metadata(self, now_ms: int) -> None:
        """Load the metadata before the other logs are opened, whose recovery depends on their settings."""
        quorum = self._open_metadata(now_ms)
        self._services.metadata.open(quorum)
        quorum.on_leadership(self._on_leadership)
        self._record_count = quorum.replay()
        _check_levels(quorum.local_image)
        self._services.topics.learn(quorum.local_image)

    def _open_metadata(self, now_ms: int) -> QuorumHost:
        services = self._services
        runtime, broker = services.runtime, services.settings.broker
        metadata_dir = services.log_dirs.metadata
        metadata_log = open_metadata_log(metadata_dir, now_ms)
        key = ReplicaKey(services.info.node_id, metadata_dir.directory_id)
        return QuorumHost(
            DiskRaftLog(metadata_log, runtime.clock, services.families),
            key=key,
            voters=voters_of(broker, key),
            settings=quorum_settings(broker),
            flusher=services.flusher,
            tasks=runtime.tasks,
            worker=self._snapshots,
            clock=runtime.clock,
            rng=runtime.rng,
            peers=services.peers,
            bootstrap=tuple(bootstrap_of(broker)),
            stalls=runtime.stalls,
        )

    def _on_leadership(self, is_active: bool, _epoch: LeaderEpoch) -> None:
        """Write the levels of a new cluster, as its first leader."""
        quorum = self._services.metadata.quorum
        if is_active and not quorum.is_alone and not quorum.image.features:
            levels = first_levels(quorum.image, fresh=True)
            self._services.runtime.tasks.spawn(quorum.propose(levels), name="first facts")

    async def _start_opened(self) -> None:
        """Do the rest of the start, once the log directories are open and locked."""
        services = self._services
        quorum = services.metadata.quorum
        meta = services.log_dirs.metadata.meta
        assert meta is not None
        services.info.cluster_id = meta.cluster_id
        may_found = self._check_metadata(quorum)
        services.flusher.start()
        await services.runtime.tasks.start()
        if not quorum.is_alone:
            services.runtime.loop_watch.start()
        services.controller.attach(quorum)
        quorum.on_disk_failure = services.disk.on_metadata_failure
        quorum.start(may_found=may_found)
        services.disk.start()
        if quorum.is_alone:
            await self.join()

    def _check_metadata(self, quorum: QuorumHost) -> bool:
        """Return whether this node may be one of those that begin a new cluster: not if partitions lie here
        without any metadata. Raises ``MetadataMissing`` if it is alone, unless the settings let it adopt
        them.
        """
        log_dirs = self._services.log_dirs
        found = sorted({*log_dirs.logs, *log_dirs.unreadable} - {METADATA_KEY})
        is_empty = self._record_count == 0 if quorum.is_alone else quorum.end_offset == 0
        if not found or not is_empty:
            return True
        what = f"{METADATA_KEY} is missing or empty, and there are {len(found)} partitions ({found[0]}, …)"
        if not quorum.is_alone:
            log.error(
                "metadata: %s: this node votes for no candidate until it has the metadata from a voter that "
                "has them. If no voter has them any more, restore the directory on one from a copy; to begin "
                "a new cluster without what is there, move the partitions' directories away",
                what,
            )
            return False
        if self._services.settings.get("metadata.log.missing") == "adopt":
            return True
        raise MetadataMissing(
            f"{what}: to begin anew would lose topics' settings, users, rights, and AMQP's queues, exchanges "
            "and bindings. Restore the directory from a copy; or start once with metadata.log.missing=adopt "
            "to begin anew with these topics; or move the partitions' directories away to begin with nothing"
        )

    # --- joining -----------------------------------------------------------------------------------

    async def join(self) -> None:
        """Wait until this node has applied the committed metadata, then begin to serve."""
        services = self._services
        quorum = services.metadata.quorum
        await quorum.caught_up()
        _check_levels(quorum.image)
        if quorum.is_alone:
            await write_first_facts(self._bootstrap(), fresh=self._record_count == 0)
        services.metadata.has_caught_up = True
        if services.membership.is_needed:
            # What an earlier process of this node led is led by others once this one is registered.
            await services.membership.register()
        else:
            services.disk_history.begin_alone()
        services.quotas.learn(quorum.image)
        services.own_min_isr.look(quorum.image)
        services.topics.load(quorum.image, quorum.removed_topics)
        quorum.on_commit(self._on_commit)
        for partition in services.topics:
            if partition.own_end < partition.log.end_offset:
                services.flusher.request(partition)
        await services.flusher.drained()
        services.runtime.running = True
        services.replicas.start()
        services.groups.start()
        services.transactions.start()
        services.share.start()
        services.timers.start()
        services.timer_forwarding.start()
        services.runtime.tasks.spawn(services.maintenance.run(), name="maintenance")
        services.runtime.tasks.spawn(services.repairs.run(), name="repairs")

    def _bootstrap(self) -> BootstrapParts:
        services = self._services
        return BootstrapParts(
            info=services.info,
            log_dirs=services.log_dirs,
            quorum=services.metadata.quorum,
            rules=services.settings.rules,
            new_id=services.runtime.rng.uuid4,
        )

    def _on_commit(self, records: Sequence[MetadataRecord], before: Image, after: Image) -> None:
        self._services.topics.on_commit(records, before, after)
        self._services.replicas.open_waiting()
        self._services.metadata.tell(before, after)

    async def advertise(self, end_points: Iterable[BrokerEndpoint]) -> None:
        """Join the cluster, then publish the addresses of this node."""
        services = self._services
        points = {point.name: point for point in end_points}
        services.membership.reachable_at(tuple(points.values()))
        if not services.runtime.running:
            await self.join()
        services.info.end_points = points
        if services.membership.is_needed:
            await services.membership.begin()
            return
        known = services.metadata.image.brokers.get(services.info.node_id)
        if known is None or known.end_points != tuple(points.values()):
            record = registration(self._bootstrap(), tuple(points.values()))
            await services.metadata.quorum.propose([record])

    # --- stopping ----------------------------------------------------------------------------------

    async def stop(self) -> bool:
        """Stop the background work, flush everything, mark the directories as closed. Return whether that
        was clean. What this node leads is handed over first, if there are others.
        """
        services = self._services
        runtime = services.runtime
        await services.membership.leave()
        services.groups.stop()
        services.transactions.stop()
        services.share.stop()
        services.timer_forwarding.stop()
        services.timers.stop()
        runtime.running = False
        await services.metadata.quorum.stop()
        await runtime.tasks.stop()
        self._snapshots.stop()
        services.disk.stop()
        services.log_dirs.restore_failed()
        runtime.offload.stop()
        await services.flusher.flush_all(services.topics)
        services.replicas.stop()
        await services.flusher.stop()
        return services.log_dirs.close(
            now_ms=runtime.clock.now_ms(),
            registrations=services.disk_history.kept_registrations(),
        )


def _check_levels(image: Image) -> None:
    """Raises ``UnsupportedVersion`` if the metadata need a newer version of this program."""
    reason = beyond(image)
    if reason is not None:
        raise UnsupportedVersion(reason)
