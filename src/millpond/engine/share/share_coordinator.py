"""Keeps what share groups did with each record: ``__share_group_state``, written, read back and cut.

Each share partition has its place in one partition of the topic: a snapshot, updates after it, now and then
a new snapshot. What lies before the oldest snapshot that is still needed is cut. This node keeps the share
partitions of the partitions that it leads (``engine.shards``).

The records are handed out where their own partition is led. If that is here, too, the cursor that hands them
out is the state itself; leaders on other nodes read it once and then send what changes.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from millpond.base.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    MalformedData,
    NotCoordinator,
)
from millpond.base.ids import NodeId
from millpond.base.uuids import text_id
from millpond.cursor.ack import Delta
from millpond.cursor.runs import State as CursorState
from millpond.engine.coordinators.record_replay import stored_batches
from millpond.engine.coordinators.shards import Durable, Shard, Shards
from millpond.engine.coordinators.transaction_handlers import flushed
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
from millpond.group.offsets import partition_for
from millpond.group.share import records as share_records
from millpond.group.share.records import (
    ShareForgotten,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
)
from millpond.metadata.controller import SHARE_STATE_TOPIC
from millpond.record.builder import build_batch
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)

State: TypeAlias = dict[ShareKey, SharePartition]

# Facts in a partition of the topic, beyond one for each share partition, before it is worth cutting.
_PRUNE_RECORDS_MIN = 100


def state_key(key: ShareKey) -> str:
    """The name under which a share partition's keeper is looked for, as Kafka writes it."""
    return f"{key.group_id}:{text_id(key.topic_id)}:{key.partition}"


class ShareCoordinator:
    """The share partitions whose state this node keeps.

    ``kept`` and ``dropped`` are told of each that begins to be here, and ends to.
    """

    def __init__(
        self,
        engine: "Engine",
        *,
        kept: Callable[[SharePartition], None],
        dropped: Callable[[SharePartition], None],
    ) -> None:
        self._engine = engine
        self._kept = kept
        self._dropped = dropped
        self._shards: Shards[State] = Shards(engine, SHARE_STATE_TOPIC, self)
        engine.desk.serve(InitializeShareState, self.on_initialize)
        engine.desk.serve(ReadShareState, self.on_read)
        engine.desk.serve(WriteShareState, self.on_write)
        engine.desk.serve(DeleteShareState, self.on_delete)
        engine.desk.serve(SummarizeShareState, self.on_summarize)
        engine.desk.serve(ListShareState, self.on_list)

    def start(self) -> None:
        """Read the facts back."""
        self._shards.start()

    def stop(self) -> None:
        """Keep nothing any more."""
        self._shards.stop()

    def drop_all(self) -> None:
        """The topic was deleted."""
        self._shards.drop_all()

    @property
    def is_ready(self) -> bool:
        """Whether the topic is there."""
        return SHARE_STATE_TOPIC in self._engine.image.topics

    # --- shards ------------------------------------------------------------------------------------

    def new_state(self, index: int) -> State:
        """Nothing is known yet."""
        del index
        return {}

    def read_shard(self, state: State, partition: Partition) -> Iterator[int]:
        """Fold what the log says."""
        for header, stored in stored_batches(partition, self._engine.repairs.may_come_back):
            for record in stored if not header.is_control else ():
                if record.key is None or record.offset < partition.log.start_offset:
                    continue
                try:
                    fact = share_records.decode(record.key, record.value)
                except MalformedData as error:
                    place = f"{partition.topic}-{partition.index}"
                    log.error("partition=%s offset=%d: left out: %s", place, record.offset, error)
                    continue
                if fact is not None:
                    _fold(state, fact, record.offset)
            yield len(stored)

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
        """The node that keeps a share partition; -1 if there is none now."""
        return self._shards.leader(state_key(key))

    def leader_of(self, name: str) -> NodeId:
        """The same by the share partition's name."""
        return self._shards.leader(name)

    def leaders(self) -> Sequence[NodeId]:
        """Who keeps what, by partition of the topic; none before it is made."""
        topic = self._engine.image.topics.get(SHARE_STATE_TOPIC)
        return () if topic is None else [one.leader for one in topic.partitions]

    def leads(self, key: ShareKey) -> bool:
        """Whether this node keeps it."""
        return self.leader(key) == self._engine.node.node_id

    def get(self, key: ShareKey) -> SharePartition | None:
        """A share partition that is kept here; None if it was never begun.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``.
        """
        return self._shard(key).state.get(key)

    def _shard(self, key: ShareKey) -> Shard[State]:
        count = self._shards.count
        if not count:
            raise NotCoordinator(f"{SHARE_STATE_TOPIC} has not been made yet")
        return self._shards.get(partition_for(state_key(key), count))

    # --- writing -----------------------------------------------------------------------------------

    def restart(self, one: SharePartition, start: int, *, leader_epoch: int) -> Durable:
        """Begin at an offset, with nothing known of any record."""
        shard = self._shard(one.key)
        record = ShareSnapshot(
            key=one.key,
            snapshot_epoch=one.snapshot_epoch + 1,
            state_epoch=one.state_epoch + 1,
            leader_epoch=leader_epoch,
            start=start,
            created_ms=one.created_ms,
            written_ms=self._engine.clock.now_ms(),
        )
        durable = self._note_snapshot(shard, one, record)
        one.state_epoch = record.state_epoch
        one.cursor.apply(Delta(start=start, restarts=True))
        if shard.state.get(one.key) is not one:
            shard.state[one.key] = one
            self._kept(one)
        return durable

    def change(self, one: SharePartition, delta: Delta, *, leader_epoch: int) -> Durable:
        """Write what must last of a change, then make it true."""
        shard = self._shard(one.key)
        if shard.state.get(one.key) is not one:
            raise NotCoordinator("the share partition was read anew meanwhile")
        update = one.update(delta, leader_epoch=leader_epoch)
        if update is None:
            one.cursor.apply(delta)
            return self._shards.settled(shard)
        _offset, durable = self._append(shard, update)
        one.leader_epoch = max(one.leader_epoch, leader_epoch)
        one.updates += 1
        one.cursor.apply(delta)
        return self._snapshot_if_due(shard, one) or durable

    def forget(self, one: SharePartition) -> Durable:
        """The group gives the partition up."""
        shard = self._shard(one.key)
        _offset, durable = self._append(shard, ShareForgotten(key=one.key))
        if shard.state.pop(one.key, None) is not None:
            self._dropped(one)
        return durable

    def prune(self) -> None:
        """Cut what snapshots made unnecessary."""
        for index, state in self._shards:
            shard = self._shards.own(index)
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

    def _append(self, shard: Shard[State], record: ShareRecord) -> tuple[int, Durable]:
        key, value = share_records.encode(record)
        batch = build_batch([(self._engine.clock.now_ms(), key, value, ())])
        appended = self._engine.append_to(
            shard.partition, batch, acks=-1, produce_version=13, internal=True
        )
        return appended.info.first_offset, self._shards.guard(shard, appended.durable)

    def _snapshot_if_due(self, shard: Shard[State], one: SharePartition) -> Durable:
        limit = self._engine.broker_setting(
            "share.coordinator.snapshot.update.records.per.snapshot"
        )
        return self._snapshot(shard, one) if one.updates > limit else None

    def _snapshot(self, shard: Shard[State], one: SharePartition) -> Durable:
        now_ms = self._engine.clock.now_ms()
        record = one.snapshot(leader_epoch=one.leader_epoch, now_ms=now_ms)
        return self._note_snapshot(shard, one, record)

    def _note_snapshot(
        self, shard: Shard[State], one: SharePartition, record: ShareSnapshot
    ) -> Durable:
        one.snapshot_offset, durable = self._append(shard, record)
        one.snapshot_epoch = record.snapshot_epoch
        one.leader_epoch = max(one.leader_epoch, record.leader_epoch)
        one.updates = 0
        return durable

    # --- for leaders on other nodes ----------------------------------------------------------------

    async def on_initialize(self, request: InitializeShareState) -> None:
        """Begin a share partition (anew)."""
        one = self.get(request.key) or SharePartition(request.key, self._engine.clock.now_ms())
        if request.state_epoch < one.state_epoch:
            raise FencedStateEpoch(f"the state epoch is {one.state_epoch} already")
        one.state_epoch = request.state_epoch - 1
        await flushed(self.restart(one, request.start, leader_epoch=one.leader_epoch))

    async def on_read(self, request: ReadShareState) -> ShareStateRead:
        """All that is kept; leaders of earlier epochs are refused from now on."""
        shard = self._shard(request.key)
        one = shard.state.get(request.key)
        if one is None:
            return ShareStateRead()
        _check_leader(one, request.leader_epoch)
        if request.leader_epoch > one.leader_epoch:
            one.leader_epoch = request.leader_epoch
            durable = self._snapshot(shard, one)
        else:
            durable = self._shards.settled(shard)
        found = one.snapshot(leader_epoch=one.leader_epoch, now_ms=0)
        await flushed(durable)
        return ShareStateRead(
            state_epoch=found.state_epoch,
            leader_epoch=found.leader_epoch,
            start=found.start,
            batches=found.batches,
        )

    async def on_write(self, request: WriteShareState) -> None:
        """What became of records at a leader elsewhere."""
        shard = self._shard(request.key)
        one = shard.state.get(request.key)
        if one is None:
            raise InvalidRequest("the share partition was not begun; initialize it first")
        _check_leader(one, request.leader_epoch)
        if request.state_epoch != -1 and request.state_epoch < one.state_epoch:
            raise FencedStateEpoch(
                f"the share partition was begun anew: {one.state_epoch} > {request.state_epoch}"
            )
        update = ShareUpdate(
            key=request.key,
            snapshot_epoch=one.snapshot_epoch,
            leader_epoch=request.leader_epoch,
            start=request.start,
            batches=request.batches,
        )
        offset, durable = self._append(shard, update)
        one.replay(update, offset)
        durable = self._snapshot_if_due(shard, one) or durable
        await flushed(durable)

    async def on_delete(self, request: DeleteShareState) -> None:
        """The group gives the partition up."""
        one = self.get(request.key)
        if one is not None:
            await flushed(self.forget(one))

    async def on_summarize(self, request: SummarizeShareState) -> ShareStateRead:
        """How far the group is."""
        shard = self._shard(request.key)
        one = shard.state.get(request.key)
        if one is None:
            return ShareStateRead()
        found = _summary(one)
        await flushed(self._shards.settled(shard))
        return found

    async def on_list(self, request: ListShareState) -> Mapping[ShareKey, ShareStateRead]:
        """How far a group is in everything that is kept here."""
        shards = [self._shards.get(index) for index in self._kept_here()]
        found = {
            one.key: _summary(one)
            for shard in shards
            for one in shard.state.values()
            if one.key.group_id == request.group_id
        }
        for shard in shards:
            await flushed(self._shards.settled(shard))
        return found

    def _kept_here(self) -> Iterator[int]:
        me = self._engine.node.node_id
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


def _fold(state: State, fact: ShareRecord, offset: int) -> None:
    one = state.get(fact.key)
    if isinstance(fact, ShareForgotten):
        state.pop(fact.key, None)
        return
    if one is None:
        if not isinstance(fact, ShareSnapshot):
            return  # what it belongs to was cut, and a later snapshot follows or an end did
        one = state[fact.key] = SharePartition(fact.key)
    one.replay(fact, offset)
