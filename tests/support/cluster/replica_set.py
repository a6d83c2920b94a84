"""One partition on several nodes in one process, without a broker: messages are calls that a test makes.

The controller is a list of the partition's agreed states; each node has heard of it up to some place. Nothing
happens by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from millpond.base.errors import MillpondError, OffsetOutOfRange
from millpond.base.ids import NodeId, Offset, TopicPartition
from millpond.log.config import LogConfig
from millpond.log.partition_log import PartitionLog
from millpond.metadata.image import PartitionImage
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import decode_batch
from millpond.replication.following import FollowStep, cut_back, start_over, take
from millpond.replication.leadership import InSyncRequest
from millpond.replication.partition import Partition
from millpond.replication.serving import admit
from tests.support.storage.faulty_storage import FaultyStorage

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=7)
LAG_MS = 30_000
FETCH_BYTES = 4096


@dataclass
class Node:
    """One node's replica; none while it is down."""

    node_id: NodeId
    storage: FaultyStorage = field(default_factory=FaultyStorage)
    partition: Partition | None = None
    # How many of the controller's states it has heard.
    heard: int = 1
    # The high watermark as it was last written down.
    checkpoint: Offset = 0


class ReplicaSet:
    """The nodes, and what is agreed on."""

    def __init__(self, nodes: int = 3, config: LogConfig | None = None) -> None:
        self.config = config or LogConfig()
        self.now_ms = 1_000
        ids = tuple(range(1, nodes + 1))
        self.states = [
            PartitionImage(replicas=ids, isr=ids, leader=1, leader_epoch=0, partition_epoch=0)
        ]
        self.nodes = {node_id: Node(node_id) for node_id in ids}
        for node_id in ids:
            self.start(node_id)

    @property
    def agreed(self) -> PartitionImage:
        """The newest state of the partition."""
        return self.states[-1]

    def __getitem__(self, node: NodeId) -> Partition:
        partition = self.nodes[node].partition
        assert partition is not None
        return partition

    def up(self) -> Iterator[Partition]:
        """The replicas of nodes that are up."""
        return (node.partition for node in self.nodes.values() if node.partition is not None)

    # --- nodes ----------------------------------------------------------------------------------------

    def start(self, node_id: NodeId) -> None:
        """A node starts with what it had."""
        node = self.nodes[node_id]
        tp = TopicPartition("t", 0)
        log = PartitionLog.open(
            node.storage, "t-0", tp, self.config, now_ms=NOW_MS, clean=False, topic_id=TOPIC_ID
        )
        state = self.states[node.heard - 1]
        node.partition = Partition(
            topic="t",
            index=0,
            topic_id=TOPIC_ID,
            log=log,
            node_id=node_id,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            high_watermark=node.checkpoint,
            now_ms=self.now_ms,
            lag_ms_max=lambda: LAG_MS,
            is_eligible=lambda other, _epoch: self.nodes[other].partition is not None,
        )

    def crash(self, node_id: NodeId) -> None:
        """The process dies; the page cache stays."""
        node = self.nodes[node_id]
        assert node.partition is not None
        node.partition.log.abandon()
        node.partition = None

    def hear(self, node_id: NodeId, upto: int | None = None) -> None:
        """A node hears of what was agreed."""
        node = self.nodes[node_id]
        node.heard = len(self.states) if upto is None else upto
        if node.partition is not None:
            node.partition.assume(self.states[node.heard - 1], now_ms=self.now_ms)

    def tell_all(self) -> None:
        """Everybody who is up hears of what was agreed."""
        for partition in list(self.up()):
            self.hear(partition.node_id)

    # --- the controller ---------------------------------------------------------------------------------

    def elect(self, leader: NodeId, isr: tuple[NodeId, ...] | None = None) -> None:
        """Another leader, in a new epoch."""
        before = self.agreed
        self.states.append(
            replace(
                before,
                leader=leader,
                isr=before.isr if isr is None else isr,
                leader_epoch=before.leader_epoch + 1,
                partition_epoch=before.partition_epoch + 1,
            )
        )

    def decide(self, sender: NodeId, wish: InSyncRequest) -> bool | None:
        """Grant a wish (True), refuse it for certain (False), or say that it came too late (None)."""
        state = self.agreed
        if sender != state.leader or wish.leader_epoch != state.leader_epoch:
            return None
        if wish.partition_epoch != state.partition_epoch:
            return None
        if any(self.nodes[node].partition is None for node in wish.isr if node not in state.isr):
            return False
        self.states.append(replace(state, isr=wish.isr, partition_epoch=state.partition_epoch + 1))
        return True

    def align(self, leader: NodeId) -> None:
        """Let a leader's present wish come true, if it has one."""
        wish = self[leader].wanted_in_sync(self.now_ms)
        if wish is not None and self.decide(leader, wish):
            self[leader].on_in_sync_granted(
                wish, partition_epoch=self.agreed.partition_epoch, isr=self.agreed.isr
            )

    # --- records ------------------------------------------------------------------------------------------

    def write(self, node: NodeId, value: bytes) -> Offset:
        """Append one record where the node believes to lead; its offset."""
        data = build_batch([(NOW_MS, None, value, ())])
        return self[node].append(data, now_ms=NOW_MS).first_offset

    def flush(self, node: NodeId) -> None:
        """An fsync of the node's log."""
        self[node].log.flush()
        self[node].on_flushed()

    def fetch(self, node: NodeId) -> FollowStep | None:
        """A follower asks whom it believes to lead and takes the answer; None if it got none."""
        follower = self[node]
        leader_node = self.nodes.get(follower.leader)
        leader = leader_node.partition if leader_node is not None else None
        if leader is None or leader is follower:
            return None
        log = follower.log
        offset = follower.own_end
        try:
            admitted = admit(
                leader,
                node=node,
                broker_epoch=-1,
                leader_epoch=follower.leader_epoch,
                fetch_offset=offset,
                last_epoch=log.latest_epoch,
                log_start=log.start_offset,
                now_ms=self.now_ms,
            )
        except OffsetOutOfRange as error:
            return start_over(
                follower, leader_start=error.start_offset, leader_end=error.end_offset
            )
        except MillpondError:
            return None
        if isinstance(admitted, tuple):
            return cut_back(follower, *admitted)
        end = leader.log.end_offset
        data = leader.log.read(offset, FETCH_BYTES, upto=end, at_least_one=True).data
        return take(
            follower,
            data,
            high_watermark=leader.high_watermark,
            log_start=leader.log.start_offset,
            now_ms=NOW_MS,
        )

    def stored(self, node: NodeId) -> dict[Offset, tuple[int, bytes]]:
        """Offset → (epoch, value) of everything in a node's log, up or down."""
        held = self.nodes[node]
        log = held.partition.log if held.partition is not None else self._opened(held)
        found: dict[Offset, tuple[int, bytes]] = {}
        offset = log.start_offset
        while offset < log.end_offset:
            data = log.read(offset, 1 << 20, upto=log.end_offset, at_least_one=True).data
            for position, header in iter_batches(data):
                for record in decode_batch(data, position):
                    found[record.offset] = header.leader_epoch, bytes(record.value or b"")
                offset = header.next_offset
        return found

    def _opened(self, node: Node) -> PartitionLog:
        tp = TopicPartition("t", 0)
        return PartitionLog.open(
            node.storage, "t-0", tp, self.config, now_ms=NOW_MS, clean=False, topic_id=TOPIC_ID
        )
