"""Which partitions of an internal topic this node coordinates, and whether it has loaded them.

The state of a coordinator is what the log of a partition says: a *shard*. It is loaded when this node becomes
the partition's leader, in slices, so that other connections get their turn; a client that asks meanwhile is
told to retry. It is dropped when another node becomes leader. Nothing is carried over from one load to the
next: a shard that was lost and regained while it was being loaded is a new one.

Records are applied when they are in this node's log, and answers wait until the high watermark has passed
them. So a record that is lost with the leadership was never acknowledged to a client, and the state that it
had made is dropped with the shard. If waiting fails the shard is loaded again (``resign``), because the log
may not hold what the state says. A shard that could not be loaded to the end serves no request: incomplete
offsets and transactions are worse than none. The load is retried a little later.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from millpond.base.errors import (
    CoordinatorLoadInProgress,
    MillpondError,
    NotCoordinator,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    ShuttingDown,
)
from millpond.base.ids import LeaderEpoch, NodeId
from millpond.engine.coordinators.durable import Durable
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.group.offsets import partition_for
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

StateT = TypeVar("StateT")

# Records that are applied before other tasks get their turn: some milliseconds.
_RECORDS_A_TURN = 500

# The delay before a log that could not be read is read again.
_READ_AGAIN_S = 5.0


class ShardKeeper(Protocol[StateT]):
    """The owner of the shards: makes, loads and ends their states."""

    def new_state(self, index: int) -> StateT:
        """Return the state before the first record."""
        ...

    def read_shard(self, state: StateT, partition: Partition) -> Iterator[int]:
        """Apply the log to the state; yield how many records each step took."""
        ...

    def shard_loaded(self, index: int, state: StateT) -> None:
        """Begin to serve a shard whose log has been read to its end."""
        ...

    def shard_dropped(self, index: int, state: StateT) -> None:
        """Answer the clients that wait for a shard that is not served here now. It may not be loaded."""
        ...


class Shard(Generic[StateT]):
    """One partition of the topic while this node leads it."""

    __slots__ = ("epoch", "is_loaded", "partition", "settling", "state")

    def __init__(self, partition: Partition, epoch: LeaderEpoch, state: StateT) -> None:
        self.partition = partition
        self.epoch = epoch
        self.state = state
        self.is_loaded = False
        # All that wait until the log is committed up to one end share this future.
        self.settling: tuple[int, asyncio.Future[None]] | None = None


class Shards(Generic[StateT]):
    """The shards of one internal topic on this node."""

    def __init__(
        self, services: CoordinatorServices, topic: str, keeper: ShardKeeper[StateT]
    ) -> None:
        self._services = services
        self._topic = topic
        self._keeper = keeper
        self._shards: dict[int, Shard[StateT]] = {}
        self._running = False

    # --- start and stop ----------------------------------------------------------------------------

    def start(self) -> None:
        """Load every partition that this node leads, to the end: no client is served yet."""
        self._running = True
        for index in range(self.count):
            partition = self._led(index)
            if partition is not None:
                shard = self._begin(partition, partition.leader_epoch)
                for _ in self._steps(shard):
                    pass
        self._services.partitions.on_leadership(self.on_leadership)

    def stop(self) -> None:
        """Drop every shard."""
        self._running = False
        self.drop_all()

    @property
    def count(self) -> int:
        """How many partitions the topic has; 0 before it is created."""
        topic = self._services.metadata.image.topics.get(self._topic)
        return 0 if topic is None else len(topic.partitions)

    # --- looking up --------------------------------------------------------------------------------

    def leader(self, key: str) -> NodeId:
        """Return the node that leads the shard of a key; -1 if there is none now."""
        topic = self._services.metadata.image.topics.get(self._topic)
        if topic is None:
            return -1
        return topic.partitions[partition_for(key, len(topic.partitions))].leader

    def __iter__(self) -> Iterator[tuple[int, StateT]]:
        """Yield the index and the state of each shard that is loaded."""
        for index, shard in tuple(self._shards.items()):
            if shard.is_loaded:
                yield index, shard.state

    def find(self, index: int) -> StateT | None:
        """Return the state of a shard, if it is loaded here."""
        shard = self._shards.get(index)
        return shard.state if shard is not None and shard.is_loaded else None

    def get(self, index: int) -> Shard[StateT]:
        """Return a loaded shard for a client's request.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``.
        """
        if self._services.membership.is_cut_off:
            raise NotCoordinator(
                f"{self._topic}-{index} may be led by another node now; this one hears of no controller"
            )
        return self.own(index)

    def own(self, index: int) -> Shard[StateT]:
        """As ``get``, for the node's own work, whose records count only if it still leads."""
        shard = self._shards.get(index)
        if shard is None:
            shard = self._late(index)
        if not shard.is_loaded:
            raise CoordinatorLoadInProgress(
                f"{self._topic}-{index} is being read since this node leads it; ask again"
            )
        return shard

    def settled(self, shard: Shard[StateT]) -> Durable:
        """Return when all records of the shard until now are committed; None if they are."""
        partition = shard.partition
        end = partition.log.end_offset
        if partition.high_watermark >= end:
            return None
        if shard.settling is not None and shard.settling[0] == end:
            return shard.settling[1]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        shard.settling = end, future
        self.guard(shard, future)
        partition.confirm_at(end, _resolver(future))
        return future

    def guard(self, shard: Shard[StateT], durable: Durable) -> Durable:
        """Return the same future; if it fails the shard is loaded again."""
        if durable is not None:
            durable.add_done_callback(lambda done: self._on_done(shard, done))
        return durable

    # --- leadership --------------------------------------------------------------------------------

    def on_leadership(self, partition: Partition, gained: bool, epoch: LeaderEpoch) -> None:
        """Load or drop a shard: this node leads its partition from an epoch on, or does so no more."""
        if partition.topic != self._topic or not self._running:
            return
        known = self._shards.get(partition.index)
        if known is not None and known.epoch > epoch:
            return  # a change older than the one that was handled
        if not gained:
            if known is not None:
                self._drop(known, f"it is led elsewhere since epoch {epoch}", level=logging.DEBUG)
        elif known is None:
            self._load(partition, epoch)
        elif known.partition is not partition:
            self._drop(known, "its topic was made anew")
            self._load(partition, epoch)
        else:
            known.epoch = epoch  # led without a break: the log is what it was

    def resign(self, shard: Shard[StateT], reason: str) -> None:
        """Drop a state that the log may not hold, and load the shard again."""
        index = shard.partition.index
        if self._shards.get(index) is not shard:
            return
        self._drop(shard, reason)
        if self._running and self._led(index) is shard.partition:
            self._load(shard.partition, shard.epoch)

    def drop_all(self) -> None:
        """Drop every shard: the topic was deleted, or the node stops."""
        for shard in tuple(self._shards.values()):
            self._drop(shard, "")

    # --- loading and dropping ----------------------------------------------------------------------

    def _led(self, index: int) -> Partition | None:
        """Return the partition if this node leads it."""
        topic = self._services.metadata.image.topics[self._topic]
        if topic.partitions[index].leader != self._services.info.node_id:
            return None
        try:
            partition = self._services.partitions.partition(self._topic, index)
        except NotLeader:
            return None
        except MillpondError as error:
            log.error("partition=%s-%d: cannot be read: %s", self._topic, index, error)
            return None
        return partition if partition.is_leader else None

    def _late(self, index: int) -> Shard[StateT]:
        """Load a shard that a client asks for before this node has heard that it leads the partition."""
        partition = self._led(index) if self._running and 0 <= index < self.count else None
        if partition is None:
            raise NotCoordinator(
                f"{self._topic}-{index} is not led by this node; find its coordinator again"
            )
        return self._load(partition, partition.leader_epoch)

    def _begin(self, partition: Partition, epoch: LeaderEpoch) -> Shard[StateT]:
        state = self._keeper.new_state(partition.index)
        shard = self._shards[partition.index] = Shard(partition, epoch, state)
        return shard

    def _load(self, partition: Partition, epoch: LeaderEpoch) -> Shard[StateT]:
        shard = self._begin(partition, epoch)
        if partition.log.end_offset == partition.log.start_offset:
            for _ in self._steps(shard):
                pass
            return shard
        try:
            self._services.runtime.tasks.spawn(
                self._read_in_turns(shard), name=f"load {self._topic}"
            )
        except ShuttingDown:
            self._drop(shard, "")
        return shard

    async def _read_in_turns(self, shard: Shard[StateT]) -> None:
        read = 0
        for count in self._steps(shard):
            read += count
            if read >= _RECORDS_A_TURN:
                read = 0
                await asyncio.sleep(0)
                if self._shards.get(shard.partition.index) is not shard:
                    return

    def _steps(self, shard: Shard[StateT]) -> Iterator[int]:
        partition = shard.partition
        try:
            yield from self._keeper.read_shard(shard.state, partition)
        except MillpondError as error:
            log.error(
                "partition=%s-%d: could not be read to the end: %s; requests for it are refused "
                "until it can be, and it is read again in %d s",
                partition.topic,
                partition.index,
                error,
                _READ_AGAIN_S,
            )
            asyncio.get_running_loop().call_later(
                _READ_AGAIN_S, self.resign, shard, "it is read again"
            )
            return
        if self._shards.get(partition.index) is not shard:
            return  # it was dropped before, or while, it was loaded
        shard.is_loaded = True
        self._keeper.shard_loaded(partition.index, shard.state)

    def _drop(self, shard: Shard[StateT], reason: str, *, level: int = logging.INFO) -> None:
        partition = shard.partition
        del self._shards[partition.index]
        if reason:
            log.log(
                level,
                "partition=%s-%d epoch=%d: not coordinated here any more: %s",
                partition.topic,
                partition.index,
                shard.epoch,
                reason,
            )
        self._keeper.shard_dropped(partition.index, shard.state)

    def _on_done(self, shard: Shard[StateT], done: "asyncio.Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        # With too few replicas the records are in the log all the same.
        if error is not None and not isinstance(error, NotEnoughReplicasAfterAppend):
            self.resign(shard, f"its records could not be made durable ({error})")


def _resolver(future: "asyncio.Future[None]") -> Callable[[MillpondError | None], None]:
    def resolve(error: MillpondError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return resolve
