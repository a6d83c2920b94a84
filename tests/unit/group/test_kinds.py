"""Every kind of group does what the coordinator expects; a new kind needs no change of the coordinator."""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from millpond.base.errors import GroupNotEmpty, InconsistentGroupProtocol, UnknownMember
from millpond.base.kafka_encoding import Reader, string
from millpond.group.coordinator import GroupCoordinator
from millpond.group.kind import Group, GroupContext, GroupKind, Handler
from millpond.group.kinds import KINDS, GroupKinds
from millpond.group.messages import (
    NEVER_MS,
    Command,
    CommitOffsets,
    DeleteGroup,
    ErrorClass,
    Expire,
    GroupSettings,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    Now,
    Outbox,
    PendOffsets,
    Sync,
)
from millpond.group.offset_decisions import forgotten
from millpond.group.records import (
    OFFSET_KEY_VERSIONS,
    CommittedOffset,
    GroupRecord,
    OffsetCommitted,
)
from tests.support.kafka.consumers import Consumer
from tests.support.kafka.group_host import GROUP, Desk
from tests.support.kafka.streamers import SOURCE, Streamer

HOUR_MS = 60 * 60_000


def with_a_classic_member(desk: Desk) -> None:
    desk.gather(1)


def with_a_consumer(desk: Desk) -> None:
    Consumer("ann").join(desk)


def with_a_streamer(desk: Desk) -> None:
    Streamer("ann").join(desk)


POPULATE: Mapping[str, Callable[[Desk], None]] = {
    "classic": with_a_classic_member,
    "consumer": with_a_consumer,
    "streams": with_a_streamer,
}

each_kind = pytest.mark.parametrize("kind", [kind.name for kind in KINDS.kinds])


def populated(kind: str) -> Desk:
    desk = Desk()
    desk.set_topic("t", 2)
    desk.set_topic(SOURCE, 2)
    POPULATE[kind](desk)
    return desk


def the_group(desk: Desk) -> Group:
    return desk.coordinator.groups[GROUP]


# --- the list of kinds ------------------------------------------------------------------------------


def test_no_two_kinds_claim_the_same_record_key_or_command() -> None:
    versions = [version for kind in KINDS.kinds for version in kind.key_versions]
    versions += OFFSET_KEY_VERSIONS
    types = [record for kind in KINDS.kinds for record in kind.record_types]
    commands = [command for kind in KINDS.kinds for command in kind.commands]
    for claimed in (versions, types, commands):
        assert len(set(claimed)) == len(claimed)


@each_kind
def test_a_group_has_the_name_of_its_kind(kind: str) -> None:
    assert the_group(populated(kind)).kind == kind


# --- what every group keeps -------------------------------------------------------------------------


@each_kind
def test_a_group_that_is_read_back_from_the_log_is_the_same(kind: str) -> None:
    desk = populated(kind)
    before, after = the_group(desk), the_group(desk.restart())
    assert (after.kind, after.state, after.protocol_type) == (
        before.kind,
        before.state,
        before.protocol_type,
    )
    assert after.has_members
    assert after.wake_ms < NEVER_MS, "the members' sessions have started"


@each_kind
def test_after_its_tombstones_there_is_no_group(kind: str) -> None:
    desk = populated(kind)
    for record in tuple(the_group(desk).tombstones()):
        key, value = KINDS.encode(record)
        assert value is None
        read = KINDS.decode(key, value)
        assert isinstance(read, GroupRecord)
        desk.coordinator.replay(read)
    assert desk.coordinator.groups == {}


@each_kind
def test_tombstones_of_a_kind_leave_groups_of_other_kinds_alone(kind: str) -> None:
    gone = tuple(the_group(populated(kind)).tombstones())
    for other in POPULATE.keys() - {kind}:
        desk = populated(other)
        for record in gone:
            desk.coordinator.replay(record)
        assert the_group(desk).has_members


@each_kind
def test_a_group_with_members_cannot_be_deleted_and_an_empty_one_can(kind: str) -> None:
    desk = populated(kind)
    with pytest.raises(GroupNotEmpty):
        desk.perform(DeleteGroup(group_id=GROUP))
    desk.pass_time(HOUR_MS)
    assert not the_group(desk).has_members, "silent members are removed"
    assert the_group(desk).is_deserted
    assert the_group(desk).wake_ms == NEVER_MS
    desk.perform(DeleteGroup(group_id=GROUP))
    assert desk.coordinator.groups == {}


@each_kind
def test_a_client_that_is_not_a_member_commits_only_to_an_empty_group(kind: str) -> None:
    desk = populated(kind)
    assert desk.commit(None, 5) is UnknownMember
    desk.pass_time(HOUR_MS)
    assert desk.commit(None, 5) is None


@each_kind
def test_requests_of_unknown_members_of_the_classic_protocol_are_answered(kind: str) -> None:
    desk = populated(kind)
    heartbeat = Heartbeat(group_id=GROUP, member_id="unknown", generation=1)
    assert desk.perform(heartbeat) is UnknownMember
    leave = Leave(group_id=GROUP, members=(LeavingMember(member_id="unknown"),))
    assert desk.perform(leave) == (UnknownMember,)
    outbox = desk.coordinator.decide(
        Sync(group_id=GROUP, ticket=7, member_id="unknown", generation=1), desk.now
    ).outbox
    assert [(ticket, answer.error) for ticket, answer in outbox.syncs] == [(7, UnknownMember)]


@each_kind
def test_an_empty_group_of_any_kind_gives_way_to_classic_members(kind: str) -> None:
    desk = populated(kind)
    desk.pass_time(HOUR_MS)
    assert not desk.join(member_id_required=False).answer.error
    assert the_group(desk).kind == "classic"
    assert the_group(desk.restart()).kind == "classic"


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_an_empty_group_is_put_back_if_the_classic_one_cannot_be_written(kind: str) -> None:
    desk = populated(kind)
    desk.pass_time(HOUR_MS)
    before = the_group(desk)
    desk.broken = True
    assert desk.join(member_id_required=False).answer.error is not None
    assert the_group(desk) is before


# --- a kind that the coordinator has never heard of -------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit(Command[int]):
    """A visitor signs the visitors' book; the answer is how many have."""

    group_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited(GroupRecord):
    """A visitor has signed; without a name, the book is thrown away."""

    group_id: str
    name: str | None


class VisitorsBook(Group):
    """A group of those who were here within the last minute."""

    kind: ClassVar[str] = "visitors"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.names: list[str] = []
        self.closes_ms = NEVER_MS

    @property
    def state(self) -> str:
        return "Open" if self.names else "Empty"

    @property
    def protocol_type(self) -> str:
        return self.kind

    @property
    def has_members(self) -> bool:
        return bool(self.names)

    @property
    def wake_ms(self) -> int:
        return self.closes_ms

    def reads_topic(self, topic: str) -> bool:
        return False

    def check_commit(self, command: CommitOffsets | PendOffsets) -> ErrorClass | None:
        return None if command.member_id in self.names else UnknownMember

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorClass | None:
        return None

    def tombstones(self) -> Iterable[Visited]:
        return (Visited(group_id=self.group_id, name=None),)

    def resume(self, context: GroupContext) -> None:
        self.closes_ms = context.now.steady_ms + 60_000

    def expire(self, context: GroupContext) -> None:
        self.closes_ms = NEVER_MS
        context.out.records += self.tombstones()


class VisitorsKind(GroupKind[Visited]):
    name: ClassVar[str] = "visitors"
    record_types: ClassVar[tuple[type[GroupRecord], ...]] = (Visited,)
    key_versions: ClassVar[frozenset[int]] = frozenset({900})

    def __init__(self) -> None:
        self.commands: Mapping[type[Command[Any]], Handler] = {Visit: self.visit}

    def visit(self, command: Visit, group: Group | None, context: GroupContext) -> int:
        context.out.records.append(Visited(group_id=command.group_id, name=command.name))
        return 1 + (len(group.names) if isinstance(group, VisitorsBook) else 0)

    def encode(self, record: Visited) -> tuple[bytes, bytes | None]:
        key = struct.pack(">h", 900) + string(record.group_id)
        return key, None if record.name is None else record.name.encode()

    def decode(self, version: int, key: Reader, value: bytes | None) -> Visited:
        name = None if value is None else value.decode()
        return Visited(group_id=key.string(), name=name)

    def replay(self, record: Visited, group: Group | None, settings: GroupSettings) -> Group | None:
        if record.name is None:
            return None
        book = group if isinstance(group, VisitorsBook) else VisitorsBook(record.group_id)
        book.names.append(record.name)
        return book


def test_a_new_kind_is_one_more_in_the_list() -> None:
    kinds = GroupKinds(*KINDS.kinds, VisitorsKind())
    coordinator = GroupCoordinator(GroupSettings(), kinds=kinds)
    now = Now(wall_ms=0, steady_ms=0)
    log: list[tuple[bytes, bytes | None]] = []

    def perform(command: Command[Any]) -> tuple[Any, Outbox]:
        decision = coordinator.decide(command, now)
        log.extend(map(kinds.encode, decision.outbox.records))
        coordinator.apply(decision.outbox.records, now)
        return decision.answer, decision.outbox

    assert perform(Visit(group_id="book", name="ann"))[0] == 1
    assert perform(Visit(group_id="book", name="bob"))[0] == 2
    offset = ("t", 0, CommittedOffset(offset=3))
    commit = CommitOffsets(group_id="book", member_id="ann", offsets=(offset,))
    assert perform(commit)[0] == (None,)
    join = Join(group_id="book", ticket=1, protocols=(("range", b""),))
    assert [answer.error for _, answer in perform(join)[1].joins] == [InconsistentGroupProtocol]
    with pytest.raises(GroupNotEmpty):
        perform(DeleteGroup(group_id="book"))

    again = GroupCoordinator(GroupSettings(), kinds=kinds)
    for key, value in log:
        record = kinds.decode(key, value)
        assert isinstance(record, GroupRecord)
        again.replay(record)
    again.resume(now)
    book = again.groups["book"]
    assert isinstance(book, VisitorsBook)
    assert (book.names, book.wake_ms) == (["ann", "bob"], 60_000)
    assert again.committed("book")["t"][0].offset == 3

    perform(Expire(group_id="book"))
    assert "book" not in coordinator.groups
    perform(Visit(group_id="book", name="eve"))
    assert coordinator.groups["book"].has_members


def test_offsets_alone_make_a_classic_group() -> None:
    coordinator = GroupCoordinator(GroupSettings())
    value = CommittedOffset(offset=1, committed_at_ms=5)
    coordinator.replay(OffsetCommitted(group_id="g", topic="t", partition=0, value=value))
    assert coordinator.groups["g"].kind == "classic"
    assert coordinator.groups["g"].protocol_type is None
    coordinator.replay(forgotten("g", "t", 0))
    assert coordinator.committed("g") == {}
