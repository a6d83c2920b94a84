"""Keeps the states of share partitions in ``__share_group_state``: writes, loads and prunes them.

A share partition is stored in one partition of the topic: a snapshot, updates after it, now and then a new
snapshot. Records before the oldest snapshot that is still needed are deleted. This node keeps the share
partitions of the partitions that it leads (``coordinators/shard_host.py``).

The leader of a partition hands out its records. If that is this node, too, the cursor that hands them out is
the state itself; leaders on other nodes read the state once and then send their changes.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from millpond.base.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    MillpondError,
    NotCoordinator,
)
from millpond.base.ids import NodeId
from millpond.base.uuids import text_id
from millpond.cursor.ack import Delta
from millpond.cursor.runs import State as CursorState
from millpond.engine.coordinators.durable import Durable, flushed
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.coordinators.shard_host import ShardHost, Written
from millpond.engine.coordinators.shards import Shard
from millpond.engine.partitions.read import delete_records
from millpond.engine.peers import (
    DeleteShareState,
    InitializeShareState,
    ListShareState,
    ReadShareState,
    ShareStateRead,
    SummarizeShareState,
    WriteShareState,
)
from millpond.engine.share.share_state import SharePartition
from millpond.group.share import records as share_records
from millpond.group.share.records import (
    ShareForgotten,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
)
from millpond.metadata.controller import SHARE_STATE_TOPIC
from millpond.metadata.image import Image
from millpond.record.batch import BatchHeader
from millpond.record.builder import build_batch
from millpond.record.records import Record

log = logging.getLogger(__name__)

State: TypeAlias = dict[ShareKey, SharePartition]

# Records in a partition of the topic, beyond one for each share partition, before it is worth pruning.
_PRUNE_RECORDS_MIN = 100


def state_key(key: ShareKey) -> str:
    """Return the key by which clients find the coordinator of a share partition, as Kafka writes it."""
    return f"{key.group_id}:{text_id(key.topic_id)}:{key.partition}"


class ShareCoordinator:
    """The share partitions whose state this node keeps.

    ``kept`` is called with each share partition that this node begins to keep, ``dropped`` with each that it
    does not keep any more.
    """

    def __init__(
        self,
        services: CoordinatorServices,
        *,
        kept: Callable[[SharePartition], None],
        dropped: Callable[[SharePartition], None],
    ) -> None:
        self._services = services
        self._kept = kept
        self._dropped = dropped
        self._host: ShardHost[State, ShareRecord]
        self._host = ShardHost(
            services, SHARE_STATE_TOPIC, self, contents="deliveries of share groups"
        )
        self._services.peer_handlers.serve(InitializeShareState, self.on_initialize)
        self._services.peer_handlers.serve(ReadShareState, self.on_read)
        self._services.peer_handlers.serve(WriteShareState, self.on_write)
        self._services.peer_handlers.serve(DeleteShareState, self.on_delete)
        self._services.peer_handlers.serve(SummarizeShareState, self.on_summarize)
        self._services.peer_handlers.serve(ListShareState, self.on_list)

    def start(self) -> None:
        """Load the share partitions that this node keeps."""
        self._host.start()

    def stop(self) -> None:
        """Drop every share partition."""
        self._host.stop()

    def drop_if_deleted(self, before: Image, after: Image) -> bool:
        """Drop every share partition if the state topic is deleted. Return whether it is."""
        return self._host.drop_if_deleted(before, after)

    @property
    def is_ready(self) -> bool:
        """Whether the state topic exists."""
        return self._host.is_ready

    async def prepare(self) -> None:
        """Create the state topic if it does not exist yet."""
        await self._host.prepare()

    # --- shards ------------------------------------------------------------------------------------

    def new_state(self, index: int) -> State:
        """Return a state without share partitions."""
        del index
        return {}

    def replay(self, state: State, header: BatchHeader, record: Record) -> None:
        """Apply a record of the log."""
        if header.is_control:
            return
        assert record.key is not None
        found = share_records.decode(record.key, record.value)
        if found is not None:
            _fold(state, found, record.offset)

    def batch(self, records: Sequence[ShareRecord], now_ms: int) -> bytearray:
        """Encode records as one batch."""
        return build_batch([(now_ms, *share_records.encode(record), ()) for record in records])

    def refusal(self, records: Sequence[ShareRecord], error: MillpondError) -> MillpondError:
        """Return the error as it is."""
        del records
        return error

    def apply(self, shard: Shard[State], records: Sequence[ShareRecord], written: Written) -> None:
        """Apply appended records, and tell of a share partition that begins or ends with them."""
        for offset, record in enumerate(records, written.first_offset):
            before = shard.state.get(record.key)
            _fold(shard.state, record, offset)
            after = shard.state.get(record.key)
            if after is not None and after is not before:
                self._kept(after)
            elif before is not None and after is None:
                self._dropped(before)

    def shard_loaded(self, index: int, state: State) -> None:
        """Tell of every share partition that is kept here now."""
        del index
        for one in state.values():
            self._kept(one)

    def shard_dropped(self, index: int, state: State) -> None:
        """Tell of every share partition that is kept elsewhere now."""
        del index
        for one in state.values():
            self._dropped(one)

    # --- looking up --------------------------------------------------------------------------------

    def leader(self, key: ShareKey) -> NodeId:
        """Return the node that keeps a share partition; -1 if there is none now."""
        return self._host.leader(state_key(key))

    def leader_of(self, name: str) -> NodeId:
        """As ``leader``, by the share partition's key in text."""
        return self._host.leader(name)

    def leaders(self) -> Sequence[NodeId]:
        """Return the node that keeps each partition of the topic; none before the topic is created."""
        return self._host.leaders()

    def leads(self, key: ShareKey) -> bool:
        """Whether this node keeps it."""
        return self.leader(key) == self._services.info.node_id

    def get(self, key: ShareKey) -> SharePartition | None:
        """Return a share partition that is kept here; None if it has no state yet.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``.
        """
        return self._shard(key).state.get(key)

    def _shard(self, key: ShareKey) -> Shard[State]:
        return self._host.get(state_key(key))

    # --- writing -----------------------------------------------------------------------------------

    def restart(
        self,
        key: ShareKey,
        start: int,
        *,
        leader_epoch: int | None = None,
        state_epoch: int | None = None,
    ) -> Durable:
        """Begin a share partition at an offset, without deliveries; by default at the next state epoch.

        Raises ``FencedStateEpoch`` if the share partition is at a later state epoch already.
        """
        shard = self._shard(key)
        now_ms = self._services.runtime.clock.now_ms()
        one = shard.state.get(key) or SharePartition(key, now_ms)
        record = ShareSnapshot(
            key=key,
            snapshot_epoch=one.snapshot_epoch + 1,
            state_epoch=one.state_epoch + 1 if state_epoch is None else state_epoch,
            leader_epoch=one.leader_epoch if leader_epoch is None else leader_epoch,
            start=start,
            created_ms=one.created_ms,
            written_ms=now_ms,
        )
        if record.state_epoch < one.state_epoch:
            raise FencedStateEpoch(f"the state epoch is {one.state_epoch} already")
        return self._host.write(shard, [record]).durable

    def change(self, one: SharePartition, delta: Delta, *, leader_epoch: int) -> Durable:
        """Write the part of a change that must last, then apply the change."""
        shard = self._shard(one.key)
        if shard.state.get(one.key) is not one:
            raise NotCoordinator("the share partition was loaded again meanwhile")
        update = one.update(delta, leader_epoch=leader_epoch)
        if update is None:
            one.cursor.apply(delta)
            return self._host.settled(shard)
        durable = self._host.append(shard, [update]).durable
        one.leader_epoch = max(one.leader_epoch, leader_epoch)
        one.updates += 1
        one.cursor.apply(delta)
        return self._snapshot_if_due(shard, one) or durable

    def forget(self, one: SharePartition) -> Durable:
        """Delete the state of a share partition."""
        shard = self._shard(one.key)
        return self._host.write(shard, [ShareForgotten(key=one.key)]).durable

    def prune(self) -> None:
        """Delete the records that snapshots replaced."""
        for index, state in self._host.loaded():
            shard = self._host.own(index)
            partition = shard.partition
            length = partition.log.end_offset - partition.log.start_offset
            if length < _PRUNE_RECORDS_MIN + len(state):
                continue
            for one in state.values():
                self._snapshot(shard, one)
            oldest = min(
                (one.snapshot_offset for one in state.values()), default=partition.high_watermark
            )
            delete_records(partition, min(oldest, partition.high_watermark))

    def _snapshot_if_due(self, shard: Shard[State], one: SharePartition) -> Durable:
        limit = self._services.settings.get(
            "share.coordinator.snapshot.update.records.per.snapshot"
        )
        return self._snapshot(shard, one) if one.updates > limit else None

    def _snapshot(self, shard: Shard[State], one: SharePartition) -> Durable:
        now_ms = self._services.runtime.clock.now_ms()
        record = one.snapshot(leader_epoch=one.leader_epoch, now_ms=now_ms)
        written = self._host.append(shard, [record])
        # Not replayed: the cursor also has the locks of consumers, which are not written.
        one.snapshot_offset = written.first_offset
        one.snapshot_epoch = record.snapshot_epoch
        one.updates = 0
        return written.durable

    # --- for leaders on other nodes ----------------------------------------------------------------

    async def on_initialize(self, request: InitializeShareState) -> None:
        """Begin a share partition at an offset, also one that has a state."""
        durable = self.restart(request.key, request.start, state_epoch=request.state_epoch)
        await flushed(durable)

    async def on_read(self, request: ReadShareState) -> ShareStateRead:
        """Return the state of a share partition; leaders of earlier epochs are refused from now on."""
        shard = self._shard(request.key)
        one = shard.state.get(request.key)
        if one is None:
            return ShareStateRead()
        _check_leader(one, request.leader_epoch)
        if request.leader_epoch > one.leader_epoch:
            one.leader_epoch = request.leader_epoch
            durable = self._snapshot(shard, one)
        else:
            durable = self._host.settled(shard)
        found = one.snapshot(leader_epoch=one.leader_epoch, now_ms=0)
        await flushed(durable)
        return ShareStateRead(
            state_epoch=found.state_epoch,
            leader_epoch=found.leader_epoch,
            start=found.start,
            batches=found.batches,
        )

    async def on_write(self, request: WriteShareState) -> None:
        """Apply the changes that a partition's leader on another node has made."""
        shard = self._shard(request.key)
        one = shard.state.get(request.key)
        if one is None:
            raise InvalidRequest("the share partition was not begun; initialize it first")
        _check_leader(one, request.leader_epoch)
        if request.state_epoch != -1 and request.state_epoch < one.state_epoch:
            raise FencedStateEpoch(
                f"the share partition has begun again: {one.state_epoch} > {request.state_epoch}"
            )
        update = ShareUpdate(
            key=request.key,
            snapshot_epoch=one.snapshot_epoch,
            leader_epoch=request.leader_epoch,
            start=request.start,
            batches=request.batches,
        )
        durable = self._host.write(shard, [update]).durable
        await flushed(self._snapshot_if_due(shard, one) or durable)

    async def on_delete(self, request: DeleteShareState) -> None:
        """Delete the state of a share partition."""
        one = self.get(request.key)
        if one is not None:
            await flushed(self.forget(one))

    async def on_summarize(self, request: SummarizeShareState) -> ShareStateRead:
        """Return how far a group is in one partition."""
        shard = self._shard(request.key)
        one = shard.state.get(request.key)
        if one is None:
            return ShareStateRead()
        found = _summary(one)
        await flushed(self._host.settled(shard))
        return found

    async def on_list(self, request: ListShareState) -> Mapping[ShareKey, ShareStateRead]:
        """Return how far a group is in each share partition that is kept here."""
        shards = [self._host.at(index) for index in self._kept_here()]
        found = {
            one.key: _summary(one)
            for shard in shards
            for one in shard.state.values()
            if one.key.group_id == request.group_id
        }
        for shard in shards:
            await flushed(self._host.settled(shard))
        return found

    def _kept_here(self) -> Iterator[int]:
        me = self._services.info.node_id
        return (index for index, leader in enumerate(self.leaders()) if leader == me)


def _summary(one: SharePartition) -> ShareStateRead:
    cursor = one.cursor
    return ShareStateRead(
        state_epoch=one.state_epoch,
        leader_epoch=one.leader_epoch,
        start=cursor.start,
        finished=cursor.count(CursorState.SETTLED) + cursor.count(CursorState.ARCHIVED),
    )


def _check_leader(one: SharePartition, leader_epoch: int) -> None:
    if leader_epoch < one.leader_epoch:
        raise FencedLeaderEpoch(
            f"group {one.key.group_id!r} was served by a leader of epoch {one.leader_epoch}; "
            f"epoch {leader_epoch} is over"
        )


def _fold(state: State, record: ShareRecord, offset: int) -> None:
    one = state.get(record.key)
    if isinstance(record, ShareForgotten):
        state.pop(record.key, None)
        return
    if one is None:
        if not isinstance(record, ShareSnapshot):
            return  # its snapshot was deleted: a later snapshot or a tombstone follows
        one = state[record.key] = SharePartition(record.key)
    one.replay(record, offset)
