"""Hosts share groups: their members, and handing out the records of the partitions that this node leads.

Membership is ``group.share``, at the group's coordinator. Positions are ack cursors, at the leader of the
partition; their facts live in ``__share_group_state``, at its leader (``share_coordinator.py``), which
may be another node (``share_remote.py``). A verb that changes what must last has the fact written,
applies it and returns, with nothing in between; what it returns as ``durable`` is done when the fact is safe.
Locks are not facts: after a restart or a change of leaders a record that somebody held is available again, at
the delivery it was at before.

Records that are given up go to the group's dead-letter topic, if it has one, before the fact that gives
them up is written: a crash in between makes a second copy.

One heap and one timer of the loop watch all locks and all members' sessions.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from millpond.base.errors import (
    CoordinatorLoadInProgress,
    CorruptLog,
    GroupNotFound,
    InvalidRecordState,
    MillpondError,
    NotCoordinator,
    NotLeader,
    RecordsLost,
)
from millpond.base.ids import LeaderEpoch, NodeId, Offset
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
from millpond.engine.share.share_admin import ShareAdmin
from millpond.engine.share.share_coordinator import ShareCoordinator
from millpond.engine.share.share_dead_letters import bury
from millpond.engine.share.share_remote import RemoteShare, RemoteShares
from millpond.engine.share.share_settings import ShareView, share_view
from millpond.engine.share.share_state import SharePartition, ShareWaiter
from millpond.group.offsets import partition_for
from millpond.group.share.group import (
    LEAVING,
    Assignment,
    ShareGroup,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareMember,
    ShareState,
    check_heartbeat,
)
from millpond.group.share.records import ShareKey
from millpond.group.topics import TopicShape
from millpond.metadata.controller import SHARE_STATE_TOPIC
from millpond.metadata.group_configs import EARLIEST as RESET_EARLIEST
from millpond.metadata.group_configs import reset_age_ms
from millpond.metadata.image import Image
from millpond.replication.partition import Partition

__all__ = [
    "Acknowledgement",
    "Assignment",
    "HandedOut",
    "ShareGroups",
    "ShareHeartbeat",
    "ShareHeartbeatAnswer",
    "ShareMember",
    "ShareState",
    "ShareWaiter",
]

log = logging.getLogger(__name__)


# When the log refuses to take that locks have ended, they are looked at again after this time.
_RETRY_MS = 1_000


class ShareGroups:
    """The share groups this node coordinates, and the share partitions it leads."""

    def __init__(self, services: ShareServices) -> None:
        self._services = services
        self._groups: dict[str, ShareGroup] = {}
        # What is kept here, by group, topic id and partition.
        self._state: dict[str, dict[tuple[UUID, int], SharePartition]] = {}
        self._views: dict[str, ShareView] = {}
        self._keeper = ShareCoordinator(services, kept=self._keep, dropped=self._drop)
        self._remote = RemoteShares(services, self._keeper)
        # What administrators ask of groups, wherever their state is: engine/share/share_admin.py.
        self.admin = ShareAdmin(services, self._keeper, self._remote, self._groups)
        self._alarms = Deadlines(self._services.runtime.clock)
        self._prune_timer: asyncio.TimerHandle | None = None
        self._running = False

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the facts back. The node's topics are loaded."""
        self._running = True
        self._keeper.start()
        if self.is_ready and self._state:
            log.info("share groups: %d read from %s", len(self._state), SHARE_STATE_TOPIC)
        self._services.metadata.observe(self._on_image)
        self._services.partitions.on_leadership(self._on_leadership)
        self._plan_pruning()

    def stop(self) -> None:
        """Stop watching the clock; whoever waits is answered by the session's end."""
        self._running = False
        self._alarms.stop()
        if self._prune_timer is not None:
            self._prune_timer.cancel()
        self._keeper.stop()

    @property
    def is_ready(self) -> bool:
        """Whether ``__share_group_state`` is there; ``prepare`` makes it."""
        return self._keeper.is_ready and self._services.groups.is_ready

    async def prepare(self) -> None:
        """Make the topics for state and for groups if this is the first time that they are needed."""
        await self._keeper.prepare()
        await self._services.groups.prepare()

    def coordinator_of(self, state_key: str) -> NodeId:
        """The node that keeps a share partition's state, by its name; -1 if there is none now."""
        return self._keeper.leader_of(state_key)

    # --- members -----------------------------------------------------------------------------------

    def heartbeat(self, command: ShareHeartbeat) -> ShareHeartbeatAnswer:
        """Hear a member. Raises what it is told instead of an answer."""
        self._check_running()
        check_heartbeat(command)
        self._services.groups.check_coordinates(command.group_id)
        group = self._groups.get(command.group_id)
        if group is None:
            if self._services.groups.has_group(command.group_id):
                raise GroupNotFound(f"group {command.group_id!r} is not a share group")
            group = ShareGroup(command.group_id)
        view = self._view(command.group_id)
        answer = group.heartbeat(command, self._shape, view.members, self._steady_ms())
        self._groups[command.group_id] = group
        if command.epoch != LEAVING:
            # A group that begins with what comes next must not miss what comes before its first fetch.
            self._begin(command.group_id, group.members[command.member_id].assignment)
            self._watch_group(group)
            if view.dead_letters and view.dead_letters not in self._services.metadata.image.topics:
                self._services.runtime.tasks.spawn(
                    self._make_topic(view.dead_letters), name="dead-letter topic"
                )
        return answer

    def list(self) -> Iterator[tuple[str, ShareState]]:
        """All groups with their states."""
        self._check_running()
        for group_id in dict.fromkeys((*self._groups, *self._state)):
            if self._services.groups.coordinator_of(group_id) == self._services.info.node_id:
                group = self._groups.get(group_id)
                yield group_id, ShareState.EMPTY if group is None else group.state

    def has_group(self, group_id: str) -> bool:
        """Whether there is a share group of this name."""
        return group_id in self._groups or group_id in self._state

    # --- records -----------------------------------------------------------------------------------

    def lock_ms(self, group_id: str) -> int:
        """How long a member of this group keeps a record."""
        return self._view(group_id).lock_ms

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
            return None  # what the group did so far is being read
        view = self._view(group_id)
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
        """Records that nobody can be given are over, if the topic's settings let readers pass them.

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
        """A member says what became of records: all of it holds, or nothing.

        Raises ``InvalidRequest``, ``InvalidRecordState``, ``UnknownTopicId``, ``StorageFailure``.
        """
        self._check_running()
        self._services.partitions.topic_by_id(topic_id)
        key = ShareKey(group_id, topic_id, index)
        if (topic_id, index) not in self._state.get(group_id, {}) and not self._remote.find(key):
            raise InvalidRecordState(f"group {group_id!r} was given nothing of this partition")
        one, _partition = self._open(group_id, topic_id, index)
        view = self._view(group_id)
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
        """A member's session is over: what it holds is available again."""
        self._check_running()
        last: Durable = None
        for one in self._handed_out(group_id):
            if one.cursor.held_by(owner):
                last = self._commit(one, one.cursor.release_owner(owner)) or last
            if isinstance(one, RemoteShare):
                self._remote.rest(one)
        return last

    def wait(
        self,
        group_id: str,
        partitions: Iterable[tuple[UUID, int]],
        *,
        wait_ms: int,
        done: Callable[[], None],
    ) -> "ShareWaiter":
        """Call ``done`` once: when something may be available in one of these, or the time is over."""
        shared, watched = [], []
        for topic_id, index in partitions:
            try:
                partition = self._led(topic_id, index)
            except MillpondError:
                continue  # the reader heard of it when it read
            key = ShareKey(group_id, topic_id, index)
            one = self._remote.find(key) or self._state.get(group_id, {}).get((topic_id, index))
            if one is not None:
                shared.append(one)
            watched.append(partition)
        return ShareWaiter(self._services.partitions, shared, watched, wait_ms=wait_ms, done=done)

    # --- leadership --------------------------------------------------------------------------------

    def drop_groups(self, index: int, count: int) -> None:
        """Groups of this partition of ``__consumer_offsets`` have another coordinator: members go there."""
        for group_id in tuple(self._groups):
            if partition_for(group_id, count) == index:
                del self._groups[group_id]

    def _on_leadership(self, partition: Partition, gained: bool, epoch: LeaderEpoch) -> None:
        """Whose records are led elsewhere is handed out there; nobody holds any here then."""
        del epoch
        if gained:
            return
        place = partition.topic_id, partition.index
        for mine in self._state.values():
            if place in mine:
                mine[place].unlock()
        for one in self._remote:
            if one.key[1:] == place:
                self._remote.drop(one)
                one.wake()

    # --- share partitions --------------------------------------------------------------------------

    def _led(self, topic_id: UUID, index: int) -> Partition:
        """A partition whose records are handed out here. Raises ``NotLeader``, ``UnknownTopicId``."""
        topic = self._services.partitions.topic_by_id(topic_id)
        partition = self._services.partitions.partition(topic.name, index)
        image = self._services.metadata.image.topics_by_id[topic_id].partitions[index]
        if image.leader != self._services.info.node_id:
            raise NotLeader(f"{topic.name}-{index} is led by node {image.leader}")
        return partition

    def _open(self, group_id: str, topic_id: UUID, index: int) -> tuple[SharePartition, Partition]:
        """The state of a group in a partition, begun now if this is the first that is heard of it.

        Raises ``CoordinatorLoadInProgress`` while it is being read, here or from another node.
        """
        partition = self._led(topic_id, index)
        key = ShareKey(group_id, topic_id, index)
        one: SharePartition | None = self._remote.find(key)
        if one is None and self._keeper.leads(key):
            one = self._keeper.get(key)
            if one is None:
                start = self._first_offset(partition, self._view(group_id))
                self._keeper.restart(key, start, leader_epoch=partition.leader_epoch)
                one = self._keeper.get(key)
                assert one is not None
        else:
            one = self._open_remote(key, partition)
        one.cursor.policy = self._view(group_id).policy
        return one, partition

    def _open_remote(self, key: ShareKey, partition: Partition) -> RemoteShare:
        def first_offset() -> int:
            return self._first_offset(partition, self._view(key.group_id))

        one = self._remote.open(key, partition.leader_epoch, first_offset)
        if one.is_loading:
            raise CoordinatorLoadInProgress("what the group did is being read from its keeper")
        return one

    def _handed_out(self, group_id: str) -> Sequence[SharePartition]:
        remote = [one for one in self._remote if one.key.group_id == group_id]
        return [*self._state.get(group_id, {}).values(), *remote]

    def _begin(self, group_id: str, assignment: Assignment) -> None:
        if not self.is_ready:
            return
        for topic_id, indexes in assignment.items():
            for index in indexes:
                try:
                    self._open(group_id, topic_id, index)
                except (CoordinatorLoadInProgress, NotCoordinator, NotLeader):
                    continue  # begun where the partition is led, when its records are first asked for
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
        """The log may have lost its oldest records, or be shorter than what was known of it."""
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
            # Nothing of it can be served: its keeper is asked anew, and it begins where the log does.
            self._remote.restart(one, partition.high_watermark)
        else:
            start = partition.high_watermark
            self._keeper.restart(one.key, start, leader_epoch=partition.leader_epoch)

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

    def _forget(self, gone: Iterable[SharePartition]) -> Durable:
        last: Durable = None
        for one in tuple(gone):
            last = self._keeper.forget(one) or last
        return last

    # --- facts -------------------------------------------------------------------------------------

    def _commit(self, one: SharePartition, outcome: Outcome) -> Durable:
        """Write what must last, then make it true."""
        if outcome.delta.is_empty:
            return None
        if outcome.dead_letters:
            self._bury(one, outcome.dead_letters)
        if isinstance(one, RemoteShare):
            durable = self._remote.change(one, outcome.delta)
        else:
            partition = self._partition_of(one)
            leader_epoch = -1 if partition is None else partition.leader_epoch
            durable = self._keeper.change(one, outcome.delta, leader_epoch=leader_epoch)
        self._watch_locks(one)
        one.wake()
        return durable

    def _partition_of(self, one: SharePartition) -> Partition | None:
        try:
            topic = self._services.partitions.topic_by_id(one.key.topic_id)
            return self._services.partitions.partition(topic.name, one.key.partition)
        except MillpondError:
            return None

    def _bury(self, one: SharePartition, letters: Sequence[DeadLetter]) -> None:
        partition = self._partition_of(one)
        topic = self._view(one.key.group_id).dead_letters
        if partition is not None and topic:
            bury(self._services, partition, letters, group_id=one.key.group_id, topic=topic)

    async def _make_topic(self, name: str) -> None:
        try:
            await self._services.topic_admin.ensure_topic(name)
        except MillpondError as error:
            log.warning("topic=%s: dead letters have no place: %s", name, error)

    def _on_image(self, before: Image, after: Image) -> None:
        if before.configs is not after.configs or before.topics is not after.topics:
            self._views.clear()
        if before.topics is after.topics or not self._running:
            return
        if self._keeper.drop_if_deleted(before, after):
            return
        gone = before.topics_by_id.keys() - after.topics_by_id.keys()
        lost = [
            one
            for mine in self._state.values()
            for (topic_id, _index), one in mine.items()
            if topic_id in gone
        ]
        try:
            self._forget(lost)
        except MillpondError as error:
            # They carry the id of the topic that is gone, so nobody will take them for others.
            log.warning("share groups: state of deleted topics remains: %s", error)
        for group in self._groups.values():
            if group.follow(self._shape):
                for member in group.members.values():
                    self._begin(group.group_id, member.assignment)

    # --- pruning -----------------------------------------------------------------------------------

    def _plan_pruning(self) -> None:
        interval_ms = self._services.settings.get("share.coordinator.state.topic.prune.interval.ms")
        loop = asyncio.get_running_loop()
        self._prune_timer = loop.call_later(interval_ms / 1000, self._on_prune_timer)

    def _on_prune_timer(self) -> None:
        try:
            self.prune()
        except MillpondError as error:
            log.warning("%s is not cut (%s); trying later", SHARE_STATE_TOPIC, error)
        self._plan_pruning()

    def prune(self) -> None:
        """Cut what snapshots made unnecessary from the state topic."""
        self._keeper.prune()

    # --- time --------------------------------------------------------------------------------------

    def _watch_locks(self, one: SharePartition) -> None:
        self._alarms.set(one.cursor.wake_ms, one, lambda: self._expire_locks(one))

    def _watch_group(self, group: ShareGroup) -> None:
        self._alarms.set(group.wake_ms, group, lambda: self._expire_members(group))

    def _expire_locks(self, one: SharePartition) -> None:
        group_id, topic_id, index = one.key
        kept = self._state.get(group_id, {}).get((topic_id, index))
        if one not in (kept, self._remote.find(one.key)):
            return
        one.cursor.policy = self._view(group_id).policy
        try:
            self._commit(one, one.cursor.expire(self._steady_ms()))
            self._watch_locks(one)
        except MillpondError as error:
            log.warning("group=%s: ended locks are not written (%s); trying again", group_id, error)
            due_ms = self._steady_ms() + _RETRY_MS
            self._alarms.set(due_ms, one, lambda: self._expire_locks(one))

    def _expire_members(self, group: ShareGroup) -> None:
        if self._groups.get(group.group_id) is not group:
            return
        for member_id in group.expire(self._shape, self._steady_ms()):
            log.info("group=%s: member %s was silent for too long", group.group_id, member_id)
        for member in group.members.values():
            self._begin(group.group_id, member.assignment)
        self._watch_group(group)

    # --- looking things up -------------------------------------------------------------------------

    def _steady_ms(self) -> int:
        return self._services.runtime.clock.monotonic_ms()

    def _wall_ms(self) -> int:
        return self._services.runtime.clock.now_ms()

    def _shape(self, name: str) -> TopicShape | None:
        topic = self._services.metadata.image.topics.get(name)
        return None if topic is None else TopicShape(topic.topic_id, len(topic.partitions))

    def _view(self, group_id: str) -> ShareView:
        view = self._views.get(group_id)
        if view is None:
            view = self._views[group_id] = share_view(self._services, group_id)
        return view

    def _check_running(self) -> None:
        if not self._running:
            raise NotCoordinator("the broker is stopping")
