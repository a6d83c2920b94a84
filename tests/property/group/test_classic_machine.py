"""Random lives of a group, checked after every step against what must always hold.

Readers join, plan, sync, fall silent, leave and come back; strangers and the fenced speak up; the log
refuses for a while; the coordinator restarts. A small model knows the plans and the offsets.
"""

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from millpond.base.errors import MillpondError
from millpond.group.classic.group import ClassicGroup
from millpond.group.classic.phases import GroupState
from millpond.group.classic.records import GroupStored
from millpond.group.coordinator import GroupCoordinator
from millpond.group.kinds import decode
from millpond.group.messages import NEVER_MS, DeleteGroup, ForgetOffsets, GroupSettings
from millpond.group.records import ForeignRecord
from tests.support.kafka.group_host import GROUP, Desk, Reader, RefusedByLog, Waiting

PROTOCOLS = {
    "range": (("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t"),),
    "both": (("robin", b"?"), ("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t")),
    "robin first": (("robin", b"?"), ("range", b"changed")),
    "other": (("sticky", b""),),
}
OTHERS = "others"


def identity(group: ClassicGroup, member_id: str) -> str:
    """Who a member is; a static one is the same whatever id it has."""
    member = group.members.get(member_id)
    if member is None or member.instance_id is None:
        return member_id
    return f"static {member.instance_id}"


class GroupLife(RuleBasedStateMachine):
    """One group, many readers."""

    readers = Bundle("readers")

    @initialize(delay_ms=st.sampled_from([0, 3_000]), members_max=st.sampled_from([2, 100]))
    def open(self, delay_ms: int, members_max: int) -> None:
        self.desk = Desk(
            settings=GroupSettings(initial_rebalance_delay_ms=delay_ms, members_max=members_max)
        )
        # What leaders planned, by generation and identity, and what was acknowledged to committers.
        self.plans: dict[int, dict[str, bytes]] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.known: list[Reader] = []
        # Joins whose answer has not come yet.
        self.joins: list[tuple[Reader, Waiting]] = []
        self.generation = 0
        self.plan_number = 0

    @property
    def group(self) -> ClassicGroup | None:
        group = self.desk.coordinator.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def groups(self, coordinator: GroupCoordinator) -> dict[str, ClassicGroup]:
        """All groups; there are only classic ones here."""
        found = coordinator.groups.items()
        return {group_id: one for group_id, one in found if isinstance(one, ClassicGroup)}

    # --- readers ----------------------------------------------------------------------------------

    @rule(
        target=readers,
        protocols=st.sampled_from(sorted(PROTOCOLS)),
        instance_id=st.sampled_from([None, None, "one", "two"]),
        member_id_required=st.booleans(),
    )
    def arrive(self, protocols: str, instance_id: str | None, member_id_required: bool) -> Reader:
        reader = Reader(instance_id=instance_id)
        waiting = self.desk.join(
            reader, protocols=PROTOCOLS[protocols], member_id_required=member_id_required
        )
        self.joins.append((reader, waiting))
        self.known.append(reader)
        self.hear()
        return reader

    @rule(reader=readers, protocols=st.sampled_from(sorted(PROTOCOLS)))
    def join_again(self, reader: Reader, protocols: str) -> None:
        self.joins.append((reader, self.desk.join(reader, protocols=PROTOCOLS[protocols])))
        self.hear()

    def hear(self) -> None:
        """Readers take note of the answers that have come."""
        for reader, waiting in self.joins:
            if waiting.is_parked:
                continue
            answer = waiting.answer
            if answer.member_id:
                reader.member_id = answer.member_id
            if answer.error is None:
                assert answer.generation > 0
                reader.generation = answer.generation
                reader.is_leader = answer.leader == answer.member_id and not answer.skip_assignment
                reader.member_ids = tuple(member.member_id for member in answer.members)
        self.joins = [(reader, waiting) for reader, waiting in self.joins if waiting.is_parked]

    @rule(count=st.integers(1, 4), forgets=st.booleans())
    def cooperate(self, count: int, forgets: bool) -> None:
        """Several readers do what well-behaved clients do: join, wait, sync."""
        while len(self.known) < count:
            self.known.append(Reader())
        parts = self.known[-count:]
        for reader in parts:
            for _ in range(2):  # the second time with the id it was given
                if all(reader is not waiting_reader for waiting_reader, _ in self.joins):
                    self.join_again(reader, "both")
        self.desk.pass_time(3_000)
        self.hear()
        for reader in parts:
            self.sync(reader, forgets)

    @rule(reader=readers, forgets=st.booleans())
    def sync(self, reader: Reader, forgets: bool) -> None:
        self.plan_number += 1
        names = reader.member_ids[1:] if forgets else reader.member_ids
        plan = {name: f"{self.plan_number}:{name}".encode() for name in names}
        stored_before = len(self.desk.log)
        waiting = self.desk.sync(reader, plan)
        if len(self.desk.log) > stored_before:
            assert self.group is not None
            self.plans[reader.generation] = {
                identity(self.group, name): part for name, part in plan.items()
            }
        if not waiting.is_parked and waiting.answer.error is None:
            assert self.group is not None
            name = identity(self.group, reader.member_id)
            assert waiting.answer.assignment == self.plans[reader.generation].get(name, b"")

    @rule(reader=readers)
    def heartbeat(self, reader: Reader) -> None:
        error = self.desk.heartbeat(reader)
        group = self.group
        known = group is not None and reader.member_id in group.members
        if error is None:
            assert known
            assert group is not None
            assert group.generation == reader.generation

    @rule(reader=consumes(readers))
    def leave(self, reader: Reader) -> None:
        member_id = reader.member_id  # answers to other joins may give it another
        (error,) = self.desk.leave(reader)
        self.hear()
        if error is None:
            group = self.group
            assert group is not None
            assert member_id not in group.members

    @rule(milliseconds=st.sampled_from([1, 2_500, 9_999, 10_000, 60_000, 400_000]))
    def wait(self, milliseconds: int) -> None:
        self.desk.pass_time(milliseconds)
        self.hear()

    # --- offsets ----------------------------------------------------------------------------------

    @rule(
        reader=readers,
        offset=st.integers(0, 9),
        topic=st.sampled_from("tu"),
        part=st.integers(0, 1),
    )
    def commit(self, reader: Reader, offset: int, topic: str, part: int) -> None:
        self._commit(reader, offset, GROUP, topic, part)

    @rule(offset=st.integers(0, 9), group_id=st.sampled_from([GROUP, OTHERS]))
    def commit_as_stranger(self, offset: int, group_id: str) -> None:
        group = self.desk.coordinator.groups.get(group_id)
        allowed = group is None or group.state is GroupState.EMPTY
        accepted = self._commit(Reader(), offset, group_id, "t", 0)
        assert accepted == (allowed and not self.desk.broken)

    def _commit(self, reader: Reader, offset: int, group_id: str, topic: str, part: int) -> bool:
        error = self.desk.commit(reader, offset, group_id=group_id, topic=topic, partition=part)
        if error is None:
            self.offsets[group_id, topic, part] = offset
        return error is None

    @rule(topic=st.sampled_from("tu"))
    def forget_offset(self, topic: str) -> None:
        try:
            command = ForgetOffsets(group_id=GROUP, partitions=((topic, 0),))
            (error,) = self.desk.perform(command)
        except MillpondError:
            return
        if error is None:
            self.offsets.pop((GROUP, topic, 0), None)

    @rule()
    def delete(self) -> None:
        empty = self.group is not None and self.group.state is GroupState.EMPTY
        try:
            self.desk.perform(DeleteGroup(group_id=GROUP))
        except RefusedByLog:
            return
        except MillpondError:
            refused = True
        else:
            refused = False
        assert refused is not empty
        if refused:
            return
        self.generation = 0
        self.plans.clear()
        self.offsets = {key: value for key, value in self.offsets.items() if key[0] != GROUP}

    # --- the world --------------------------------------------------------------------------------

    @rule(broken=st.sampled_from([False, False, True]))
    def log_breaks_or_heals(self, broken: bool) -> None:
        self.desk.broken = broken

    @precondition(lambda self: not self.desk.broken)
    @rule()
    def restart(self) -> None:
        self.desk = self.desk.restart()
        self.joins.clear()
        group = self.group
        self.generation = 0 if group is None else group.generation

    # --- what always holds ------------------------------------------------------------------------

    @invariant()
    def every_parked_request_has_one_owner(self) -> None:
        tickets: list[int] = []
        for group in self.groups(self.desk.coordinator).values():
            assert group._parked.joins.keys() <= group.members.keys()
            assert group._parked.syncs.keys() <= group.members.keys()
            assert not group._pending_joins.keys() & group.members.keys()
            assert group._pending_syncs <= group.members.keys()
            tickets += [*group._parked.joins.values(), *group._parked.syncs.values()]
        assert sorted(tickets) == sorted(self.desk._waiting)

    @invariant()
    def the_state_says_what_is_so(self) -> None:
        group = self.group
        if group is None:
            return
        match group.state:
            case GroupState.EMPTY:
                assert not group.members
            case GroupState.PREPARING_REBALANCE:
                assert not group._parked.syncs
                assert group.join_due_ms < NEVER_MS
            case GroupState.COMPLETING_REBALANCE:
                assert not group._parked.joins
                assert group.sync_due_ms < NEVER_MS or not group._pending_syncs
            case GroupState.STABLE:
                assert not group._parked.joins
                assert not group._parked.syncs
                self._everyone_has_what_was_planned(group)
            case GroupState.DEAD:
                raise AssertionError("a group that is there is not dead")
        event(f"state {group.state}")
        if group.members:
            assert (
                group.state is GroupState.PREPARING_REBALANCE
                or group.roster.leader in group.members
            )
        assert group.roster.static_members == {
            member.instance_id: member.member_id
            for member in group.members.values()
            if member.instance_id is not None
        }
        assert group._replacement is None
        assert group.generation >= self.generation
        self.generation = group.generation

    def _everyone_has_what_was_planned(self, group: ClassicGroup) -> None:
        plan = self.plans[group.generation]
        for member in group.members.values():
            name = identity(group, member.member_id)
            assert member.assignment == plan.get(name, b"")

    @invariant()
    def nobody_is_woken_too_late(self) -> None:
        for group in self.groups(self.desk.coordinator).values():
            due = group._earliest_due()
            assert group.wake_ms <= (NEVER_MS if due is None else due[0])

    @invariant()
    def offsets_are_what_was_acknowledged(self) -> None:
        table = self.desk.coordinator.offsets
        live = {
            (group_id, topic, partition): committed.offset
            for group_id in (GROUP, OTHERS)
            for topic, partitions in table.of_group(group_id).items()
            for partition, committed in partitions.items()
        }
        assert live == self.offsets

    @invariant()
    def the_log_says_the_same(self) -> None:
        desk = self.desk
        again = GroupCoordinator(desk.settings)
        for key, value in desk.log:
            record = decode(key, value)
            assert not isinstance(record, ForeignRecord)
            again.replay(record)
        assert again.groups.keys() == desk.coordinator.groups.keys()
        read = self.groups(again)
        for group_id, group in self.groups(desk.coordinator).items():
            assert again.offsets.of_group(group_id) == desk.coordinator.offsets.of_group(group_id)
            if group.state in {GroupState.EMPTY, GroupState.STABLE}:
                self._same_record(group.record(), read[group_id].record())

    def _same_record(self, live: GroupStored, read: GroupStored) -> None:
        if live != read:
            # The only fact that may be missing: that a group became empty while the log refused.
            assert not live.members
            assert read.generation < live.generation
            assert self.desk.refused_records


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(stateful_step_count=60)
