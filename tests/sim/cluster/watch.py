"""Looks into the nodes, where clients cannot: whenever metadata or a high watermark change, and at the end.

* A leader epoch of a partition has one leader; so has an epoch of the quorum.
* In-sync replicas are replicas, and in no log directory that is offline; a leader neither.
* Below the high watermark all replicas hold the same batches, for ever.
* A node's high watermark does not go back while the node lives, and is never beyond the end of its log.
* What was below a high watermark anywhere is in the log of whoever leads then and later, over all restarts.
* Nodes that have applied the same facts have the same image.
* A node whose disk can be read has applied what it knows to be agreed, a few seconds later at most.
"""

from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from millpond.base.errors import CorruptLog
from millpond.engine.api import Image, Partition
from millpond.engine.node.node import Node as Engine
from millpond.metadata.records import NO_LEADER
from millpond.record.batch import check_crc, iter_batches
from tests.sim.cluster.history import Place
from tests.sim.cluster.trace import Broken

if TYPE_CHECKING:
    from tests.sim.cluster.node import Node
    from tests.sim.cluster.world import World

# What replicas hold is compared so often; whatever differs once differs for good.
_EVERY = 10.0
_READ_BYTES = 1 << 20

# What is agreed is applied so many seconds after the disk could be read again; the pause before another
# attempt is one second at most.
_APPLIED_WITHIN = 5.0
_LOOK_AT_APPLIED_EVERY = 1.0

Key: TypeAlias = tuple[UUID, int]
# Where a batch ends, its checksum, the epoch it was written in.
Print: TypeAlias = tuple[int, int, int]


class Watch:
    """What was true once, to be held against what is true now."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._leaders: dict[tuple[UUID, int, int], int] = {}
        # Of each partition, by its topic's name: the newest epoch that each node led.
        self._last_led: dict[Place, dict[int, int]] = {}
        self._agreed: dict[Key, dict[int, Print]] = {}
        # Of one replica in one life: how far it was held against the others, and its high watermark.
        self._held: dict[Partition, int] = {}
        # The highest watermark of each partition at any node, and the newest epoch that had one so high.
        self._highest: dict[Key, tuple[int, int]] = {}
        # Who led an epoch of the quorum, and what everyone knows who has applied so many facts.
        self._quorum_leaders: dict[int, int] = {}
        self._images: dict[int, Image] = {}
        # Of a life of a node that has not applied all that it knows to be agreed: since when it could have.
        self._behind: dict[Engine, float] = {}

    def begin(self) -> None:
        """Look now and ever after."""
        for node in self._world.nodes:
            node.on_made = self._on_made
        self._world.on_high_watermark = self._on_high_watermark
        if len(self._world.nodes) > 1:
            self._world.history.leads_since = self._leads_since
        self._world.after(_EVERY, self._repeat)
        self._world.after(_LOOK_AT_APPLIED_EVERY, self._look_at_applied)

    def _look_at_applied(self) -> None:
        self._behind = {
            engine: self._behind.get(engine, self._world.now)
            for node in self._world.nodes
            if (engine := node.engine) is not None and is_behind(node, engine)
        }
        for engine, since in self._behind.items():
            if self._world.now - since > _APPLIED_WITHIN:
                host = engine.metadata.quorum
                self._world.fail(
                    Broken(
                        f"node {host.key.id} knows that all below {host.high_watermark} is agreed, and "
                        f"has applied what is below {host.applied} for {_APPLIED_WITHIN} s"
                    )
                )
                return
        self._world.after(_LOOK_AT_APPLIED_EVERY, self._look_at_applied)

    def _repeat(self) -> None:
        try:
            self.look()
        except Broken as broken:
            self._world.fail(broken)
            return
        self._world.after(_EVERY, self._repeat)

    def _on_made(self, node: "Node", engine: Engine) -> None:
        def on_change(_before: Image, after: Image) -> None:
            try:
                self._check_image(node, after)
            except Broken as broken:
                self._world.fail(broken)

        engine.metadata.observe(on_change)

    def look(self) -> None:
        """At every partition of every node that runs."""
        for node in self._world.nodes:
            engine = node.engine
            if engine is None or not node.has_started:
                continue
            self._check_quorum(node, engine)
            if engine.runtime.running and not any(disk.fail_reads for disk in node.disks):
                for partition in engine.topics:
                    self._check_partition(node, partition)

    def _check_quorum(self, node: "Node", engine: Engine) -> None:
        host = engine.metadata.quorum
        if host.replica.is_leader:
            leader = self._quorum_leaders.setdefault(host.leader_epoch, node.id)
            if leader != node.id:
                raise Broken(f"epoch {host.leader_epoch} is led by {leader} and by {node.id}")
        known = self._images.setdefault(host.applied, host.image)
        if known is not host.image and known != host.image:
            raise Broken(f"node {node.id}: another image than others at offset {host.applied}")

    def _check_image(self, node: "Node", image: Image) -> None:
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                where = f"node {node.id}, {topic.name}-{index} in epoch {state.leader_epoch}"
                if not set(state.isr) <= set(state.replicas):
                    raise Broken(f"{where}: {state.isr} are in sync, {state.replicas} are replicas")
                for one in {state.leader, *(state.isr if state.leader >= 0 else ())} - {NO_LEADER}:
                    broker = image.brokers.get(one)
                    if broker is not None and not broker.has_online(state.directory_of(one)):
                        raise Broken(
                            f"{where}: node {one} leads, or is in sync, from an offline directory"
                        )
                if state.leader < 0:
                    continue
                key = topic.topic_id, index, state.leader_epoch
                leader = self._leaders.setdefault(key, state.leader)
                if leader != state.leader:
                    raise Broken(f"{where}: {leader} leads, and {state.leader} leads")
                led = self._last_led.setdefault((topic.name, index), {})
                led[leader] = max(led.get(leader, -1), state.leader_epoch)

    def _leads_since(self, place: Place, node: int, epoch: int) -> bool:
        return self._last_led.get(place, {}).get(node, -1) >= epoch

    def _on_high_watermark(self, partition: Partition, before: int, high: int) -> None:
        """In the moment in which it changes."""
        end = partition.log.end_offset
        if high < before or high > end:
            self._world.fail(
                Broken(f"the high watermark goes from {before} to {high} in {partition!r}")
            )
        key = partition.topic_id, partition.index
        highest, epoch = self._highest.get(key, (0, -1))
        if high >= highest:
            self._highest[key] = high, max(epoch, partition.leader_epoch)
        elif partition.is_leader and partition.leader_epoch >= epoch and end < highest:
            self._world.fail(
                Broken(f"{partition!r} leads with a log that ends before {highest}, which was read")
            )

    def _check_partition(self, node: "Node", partition: Partition) -> None:
        high = partition.high_watermark
        where = f"node {node.id}, {partition.topic}-{partition.index}"
        if high > partition.log.end_offset:
            raise Broken(f"{where}: the high watermark {high} is beyond the end of {partition!r}")
        if self._world.shape.compacts and partition.log.config.compacts:
            return  # replicas are compacted each in its own time
        agreed = self._agreed.setdefault((partition.topic_id, partition.index), {})
        offset = max(self._held.get(partition, 0), partition.log.start_offset)
        while offset < high:
            try:
                data = partition.log.read(offset, _READ_BYTES, upto=high, at_least_one=True).data
            except CorruptLog:
                if node.is_rotten:
                    return
                raise
            if not data:
                raise Broken(f"{where}: nothing at {offset} below the high watermark {high}")
            for position, header in iter_batches(data):
                if node.is_rotten and not check_crc(data, position, header):
                    return
                found = header.next_offset, header.crc, header.leader_epoch
                known = agreed.setdefault(header.base_offset, found)
                if known != found:
                    raise Broken(f"{where}: at {header.base_offset} stands {found}, not {known}")
                offset = header.next_offset
        self._held[partition] = offset


def is_behind(node: "Node", engine: Engine) -> bool:
    """Whether a node that runs and can read its disk has not applied all that it knows to be agreed."""
    if not node.has_started or node.loop is None or node.loop.is_paused or node.storage.fail_reads:
        return False
    host = engine.metadata.quorum
    return host.failure is None and host.applied < host.high_watermark
