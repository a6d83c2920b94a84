"""Hands out the records of the partitions that this node leads to the members of share groups.

Positions are ack cursors, at the leader of the partition; their records are in ``__share_group_state``, at
the leader of its partition (``share_coordinator.py``), which may be another node (``share_remote.py``). A
call that changes what must last has the record written, applies it and returns, with nothing in between; the
``Durable`` that it returns is done when the record is committed. Locks are not written: after a restart or a
change of leaders a record that a member had acquired is available again, with its former delivery count.

Records that are given up go to the group's dead-letter topic, if it has one, before the record that gives
them up is written: a crash in between makes a second copy.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from millpond.base.errors import (
    CoordinatorLoadInProgress,
    CorruptLog,
    InvalidRecordState,
    MillpondError,
    NotCoordinator,
    NotLeader,
    RecordsLost,
)
from millpond.base.ids import LeaderEpoch, Offset
from millpond.cursor.ack import Outcome
from millpond.cursor.dead_letter import DeadLetter
from millpond.cursor.runs import Run, State
from millpond.cursor.share import (
    Acknowledgement,
    HandedOut,
    covering,
    decide_acknowledge,
    decide_acquire,
    skipped,
)
from millpond.engine.coordinators.durable import Durable
from millpond.engine.partitions.read import EARLIEST, LATEST
from millpond.engine.runtime.deadlines import Deadlines
from millpond.engine.share.services import ShareServices
from millpond.engine.share.share_coordinator import ShareCoordinator
from millpond.engine.share.share_dead_letters import forward_dead_letters
from millpond.engine.share.share_remote import RemoteShare, RemoteShares
from millpond.engine.share.share_settings import ShareView, share_view
from millpond.engine.share.share_state import SharePartition, ShareWaiter
from millpond.group.share.group import (
    Assignment,
)
from millpond.group.share.records import ShareKey
from millpond.metadata.controller import SHARE_STATE_TOPIC
from millpond.metadata.group_configs import EARLIEST as RESET_EARLIEST
from millpond.metadata.group_configs import reset_age_ms
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

# The delay before expired locks are ended again after the log did not take their end.
_RETRY_MS = 1_000


class ShareDelivery:
    """The share partitions whose records this node hands out."""

    def __init__(self, services: ShareServices) -> None:
        self._services = services
        # The share partitions whose state is kept here, by group, then by topic id and partition.
        self._state: dict[str, dict[tuple[UUID, int], SharePartition]] = {}
        self._views: dict[str, ShareView] = {}
        self.keeper = ShareCoordinator(services, kept=self._keep, dropped=self._drop)
        self.remote = RemoteShares(services, self.keeper)
        self._deadlines = Deadlines(services.runtime.clock)
        self._running = False

    def start(self) -> None:
        """Load the state of share partitions. The node's topics are loaded."""
        self._running = True
        self.keeper.start()
        if self.keeper.is_ready and self._state:
            log.info("share groups: %d read from %s", len(self._state), SHARE_STATE_TOPIC)
        self._services.partitions.on_leadership(self._on_leadership)

    def stop(self) -> None:
        """Hand out nothing more; sessions answer the fetches that wait when they end."""
        self._running = False
        self._deadlines.stop()
        self.keeper.stop()

    def group_ids(self) -> Iterable[str]:
        """The groups of which state is kept here."""
        return self._state.keys()

    def has_state(self, group_id: str) -> bool:
        """Whether state of this group is kept here."""
        return group_id in self._state

    def settings_of(self, group_id: str) -> ShareView:
        """Return the settings of a group."""
        view = self._views.get(group_id)
        if view is None:
            view = self._views[group_id] = share_view(self._services, group_id)
        return view

    def settings_changed(self) -> None:
        """Read the settings of groups again."""
        self._views.clear()

    # --- records ----------------------------------------------------------------------------------

    def lock_ms(self, group_id: str) -> int:
        """Return for how long a member of this group locks a record."""
        return self.settings_of(group_id).lock_ms

    def acquire(
        self,
        group_id: str,
        topic_id: UUID,
        index: int,
        *,
        owner: str,
        records_max: int,
        bytes_max: int,
        exact: bool,
    ) -> HandedOut | None:
        """Hand out records of a partition, or None if none is available now.

        Raises ``UnknownTopicId``, ``UnknownTopic``, ``StorageFailure``.
        """
        self._check_running()
        try:
            one, partition = self._open(group_id, topic_id, index)
        except (CoordinatorLoadInProgress, NotCoordinator):
            return None  # the state of the share partition is being loaded
        view = self.settings_of(group_id)
        cursor = one.cursor
        self._follow_log(one, partition)
        while True:
            room = view.locks_max - cursor.count(State.ACQUIRED)
            if room <= 0:
                return None
            offset = cursor.next_available()
            try:
                read = self._services.partitions.read_now(
                    partition, offset, bytes_max=bytes_max, committed=view.committed
                )
            except CorruptLog as damage:
                self._give_up_lost(one, partition, offset, damage)
                continue
            outcome = decide_acquire(
                cursor,
                read.records,
                owner=owner,
                records_max=min(records_max, room),
                exact=exact,
                lock_ms=view.lock_ms,
                now_ms=self._steady_ms(),
            )
            if not outcome.delta.runs:
                return None
            cursor.apply(outcome.delta)
            self._watch_locks(one)
            runs: Sequence[Run] = outcome.delta.runs
            unread = skipped(read.records, read.aborted, runs)
            if unread:
                self._commit(one, cursor.archive(unread))
                runs = [run for got in runs for run in cursor.runs_within(got.first, got.next)]
                runs = [run for run in runs if run.state is State.ACQUIRED]
            if runs:
                return HandedOut(covering(read.records, runs), tuple(runs))

    def _give_up_lost(
        self, one: SharePartition, partition: Partition, offset: Offset, damage: CorruptLog
    ) -> None:
        """Archive records that cannot be read, if the topic's settings let consumers skip them.

        Raises ``CorruptLog`` while other replicas may have them, and ``RecordsLost``.
        """
        if self._services.repairs.may_come_back(partition, offset):
            raise damage
        if partition.log.config.unreadable_records == "skip" and damage.next_offset > offset:
            self._commit(one, one.cursor.lose(offset, damage.next_offset))
        if one.cursor.next_available() <= offset:
            raise RecordsLost(str(damage), next_offset=damage.next_offset) from damage

    def acknowledge(
        self,
        group_id: str,
        topic_id: UUID,
        index: int,
        words: Sequence[Acknowledgement],
        *,
        owner: str,
    ) -> Durable:
        """Apply a member's acknowledgements: all of them or none.

        Raises ``InvalidRequest``, ``InvalidRecordState``, ``UnknownTopicId``, ``StorageFailure``.
        """
        self._check_running()
        self._services.partitions.topic_by_id(topic_id)
        key = ShareKey(group_id, topic_id, index)
        if (topic_id, index) not in self._state.get(group_id, {}) and not self.remote.find(key):
            raise InvalidRecordState(f"group {group_id!r} was given nothing of this partition")
        one, _partition = self._open(group_id, topic_id, index)
        view = self.settings_of(group_id)
        outcome = decide_acknowledge(
            one.cursor,
            words,
            owner=owner,
            now_ms=self._steady_ms(),
            lock_ms=view.lock_ms,
            may_renew=view.may_renew,
        )
        return self._commit(one, outcome)

    def release_member(self, group_id: str, owner: str) -> Durable:
        """Release the records that a member holds whose session has ended."""
        self._check_running()
        last: Durable = None
        for one in self._handed_out(group_id):
            if one.cursor.held_by(owner):
                last = self._commit(one, one.cursor.release_owner(owner)) or last
            if isinstance(one, RemoteShare):
                self.remote.rest(one)
        return last

    def wait(
        self,
        group_id: str,
        partitions: Iterable[tuple[UUID, int]],
        *,
        wait_ms: int,
        done: Callable[[], None],
    ) -> "ShareWaiter":
        """Call ``done`` once: when records may be available in one of these, or the time is over."""
        shared, watched = [], []
        for topic_id, index in partitions:
            try:
                partition = self._led(topic_id, index)
            except MillpondError:
                continue  # the fetch has reported it
            key = ShareKey(group_id, topic_id, index)
            one = self.remote.find(key) or self._state.get(group_id, {}).get((topic_id, index))
            if one is not None:
                shared.append(one)
            watched.append(partition)
        return ShareWaiter(self._services.partitions, shared, watched, wait_ms=wait_ms, done=done)

    # --- share partitions -------------------------------------------------------------------------

    def _on_leadership(self, partition: Partition, gained: bool, epoch: LeaderEpoch) -> None:
        """Release all records of a partition that another node leads now and hands out."""
        del epoch
        if gained:
            return
        place = partition.topic_id, partition.index
        for mine in self._state.values():
            if place in mine:
                mine[place].unlock()
        for one in self.remote:
            if one.key[1:] == place:
                self.remote.drop(one)
                one.wake()

    def _led(self, topic_id: UUID, index: int) -> Partition:
        """Return a partition that this node leads. Raises ``NotLeader``, ``UnknownTopicId``."""
        topic = self._services.partitions.topic_by_id(topic_id)
        partition = self._services.partitions.partition(topic.name, index)
        image = self._services.metadata.image.topics_by_id[topic_id].partitions[index]
        if image.leader != self._services.info.node_id:
            raise NotLeader(f"{topic.name}-{index} is led by node {image.leader}")
        return partition

    def _open(self, group_id: str, topic_id: UUID, index: int) -> tuple[SharePartition, Partition]:
        """Return the state of a group in a partition, which begins now if there is none.

        Raises ``CoordinatorLoadInProgress`` while it is being loaded, here or from another node.
        """
        partition = self._led(topic_id, index)
        key = ShareKey(group_id, topic_id, index)
        one: SharePartition | None = self.remote.find(key)
        if one is None and self.keeper.leads(key):
            one = self.keeper.get(key)
            if one is None:
                start = self._first_offset(partition, self.settings_of(group_id))
                self.keeper.restart(key, start, leader_epoch=partition.leader_epoch)
                one = self.keeper.get(key)
                assert one is not None
        else:
            one = self._open_remote(key, partition)
        one.cursor.policy = self.settings_of(group_id).policy
        return one, partition

    def _open_remote(self, key: ShareKey, partition: Partition) -> RemoteShare:
        def first_offset() -> int:
            return self._first_offset(partition, self.settings_of(key.group_id))

        one = self.remote.open(key, partition.leader_epoch, first_offset)
        if one.is_loading:
            raise CoordinatorLoadInProgress(
                "the state of the share partition is being read from the node that keeps it"
            )
        return one

    def _handed_out(self, group_id: str) -> Sequence[SharePartition]:
        remote = [one for one in self.remote if one.key.group_id == group_id]
        return [*self._state.get(group_id, {}).values(), *remote]

    def begin(self, group_id: str, assignment: Assignment) -> None:
        if not (self.keeper.is_ready and self._services.groups.is_ready):
            return
        for topic_id, indexes in assignment.items():
            for index in indexes:
                try:
                    self._open(group_id, topic_id, index)
                except (CoordinatorLoadInProgress, NotCoordinator, NotLeader):
                    continue  # it begins at the partition's leader with the first fetch
                except MillpondError as error:
                    log.warning("group=%s: partition %d not begun: %s", group_id, index, error)

    def _first_offset(self, partition: Partition, view: ShareView) -> int:
        age_ms = reset_age_ms(view.reset)
        if age_ms is None:
            place = EARLIEST if view.reset == RESET_EARLIEST else LATEST
            return self._services.partitions.find_offset(
                partition, place, committed=view.committed
            ).offset
        found = self._services.partitions.find_offset(
            partition, max(self._wall_ms() - age_ms, 0)
        ).offset
        return (
            found if found >= 0 else self._services.partitions.find_offset(partition, LATEST).offset
        )

    def _follow_log(self, one: SharePartition, partition: Partition) -> None:
        """Move the cursor if the log has lost its oldest records, or ends before the cursor's start."""
        if partition.log.start_offset > one.cursor.start:
            self._commit(one, one.cursor.move_start(partition.log.start_offset))
        if one.cursor.start > partition.log.end_offset:
            log.warning(
                "group=%s partition=%s-%d: starts at %d, beyond the end %d; beginning there",
                one.key.group_id,
                partition.topic,
                partition.index,
                one.cursor.start,
                partition.log.end_offset,
            )
            self._restart(one, partition)

    def _restart(self, one: SharePartition, partition: Partition) -> None:
        if isinstance(one, RemoteShare):
            # No record of it can be served: the node that keeps it begins it again at the high watermark.
            self.remote.restart(one, partition.high_watermark)
        else:
            start = partition.high_watermark
            self.keeper.restart(one.key, start, leader_epoch=partition.leader_epoch)

    def _keep(self, one: SharePartition) -> None:
        group_id, topic_id, index = one.key
        self._state.setdefault(group_id, {})[topic_id, index] = one

    def _drop(self, one: SharePartition) -> None:
        group_id, topic_id, index = one.key
        mine = self._state.get(group_id, {})
        mine.pop((topic_id, index), None)
        if not mine:
            self._state.pop(group_id, None)
        one.wake()

    def topics_deleted(self, topic_ids: Collection[UUID]) -> None:
        """Forget the share partitions of deleted topics."""
        lost = [
            one
            for mine in self._state.values()
            for (topic_id, _index), one in mine.items()
            if topic_id in topic_ids
        ]
        try:
            for one in lost:
                self.keeper.forget(one)
        except MillpondError as error:
            # They carry the id of the deleted topic, so a new topic of that name does not get them.
            log.warning("share groups: state of deleted topics remains: %s", error)

    # --- changes ----------------------------------------------------------------------------------

    def _commit(self, one: SharePartition, outcome: Outcome) -> Durable:
        """Write the part of a change that must last, then apply the change."""
        if outcome.delta.is_empty:
            return None
        if outcome.dead_letters:
            self._dead_letter(one, outcome.dead_letters)
        if isinstance(one, RemoteShare):
            durable = self.remote.change(one, outcome.delta)
        else:
            partition = self._partition_of(one)
            leader_epoch = -1 if partition is None else partition.leader_epoch
            durable = self.keeper.change(one, outcome.delta, leader_epoch=leader_epoch)
        self._watch_locks(one)
        one.wake()
        return durable

    def _partition_of(self, one: SharePartition) -> Partition | None:
        try:
            topic = self._services.partitions.topic_by_id(one.key.topic_id)
            return self._services.partitions.partition(topic.name, one.key.partition)
        except MillpondError:
            return None

    def _dead_letter(self, one: SharePartition, dead_letters: Sequence[DeadLetter]) -> None:
        partition = self._partition_of(one)
        topic = self.settings_of(one.key.group_id).dead_letters
        if partition is not None and topic:
            forward_dead_letters(
                self._services, partition, dead_letters, group_id=one.key.group_id, topic=topic
            )

    # --- time -------------------------------------------------------------------------------------

    def _watch_locks(self, one: SharePartition) -> None:
        self._deadlines.set(one.cursor.wake_ms, one, lambda: self._expire_locks(one))

    def _expire_locks(self, one: SharePartition) -> None:
        group_id, topic_id, index = one.key
        kept = self._state.get(group_id, {}).get((topic_id, index))
        if one not in (kept, self.remote.find(one.key)):
            return
        one.cursor.policy = self.settings_of(group_id).policy
        try:
            self._commit(one, one.cursor.expire(self._steady_ms()))
            self._watch_locks(one)
        except MillpondError as error:
            log.warning("group=%s: ended locks are not written (%s); trying again", group_id, error)
            due_ms = self._steady_ms() + _RETRY_MS
            self._deadlines.set(due_ms, one, lambda: self._expire_locks(one))

    def _steady_ms(self) -> int:
        return self._services.runtime.clock.monotonic_ms()

    def _wall_ms(self) -> int:
        return self._services.runtime.clock.now_ms()

    def _check_running(self) -> None:
        if not self._running:
            raise NotCoordinator("the broker is stopping")
