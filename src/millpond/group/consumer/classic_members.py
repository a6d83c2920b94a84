"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup there.

Such a member is one like the others, with targets and epochs; its generation is its epoch. A join is its
way of saying what it wants and owns, a sync gives it its assignment, and a heartbeat tells it to join again
when there is something to give up or to get. No member waits for another.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from millpond.base.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    MalformedData,
    MillpondError,
    RebalanceInProgress,
    UnknownMember,
)
from millpond.group.classic import subscription
from millpond.group.classic.subscription import PROTOCOL_TYPE, Subscription
from millpond.group.consumer.decisions import Decisions, check_instance, held
from millpond.group.consumer.image import ConsumerMember
from millpond.group.consumer.messages import MigrationPolicy
from millpond.group.consumer.migration import by_name
from millpond.group.consumer.records import ClassicMemberInfo, MemberState, MemberStored, Target
from millpond.group.messages import (
    NO_MEMBER_ID,
    ErrorClass,
    Heartbeat,
    Join,
    JoinAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Downgrade:
    """A static member of the classic protocol took the place of the last one of the new protocol."""

    joining: MemberStored
    replaced: str
    rebalance: bool


def check_join(decisions: Decisions, command: Join) -> None:
    """Raise the reason why this member may not join with the classic protocol."""
    group = decisions.group
    if decisions.settings.migration is MigrationPolicy.DISABLED:
        raise InconsistentGroupProtocol(
            f"group {group.group_id!r} is a consumer group and migration is disabled"
        )
    decisions.check_room(command.member_id)
    names = [name for name, _ in command.protocols]
    if command.protocol_type != PROTOCOL_TYPE or not group.supports_classic(names):
        raise InconsistentGroupProtocol(
            f"group {group.group_id!r} has members without any of these protocols: {names}"
        )


def join(
    decisions: Decisions, command: Join, members_max: int
) -> tuple[JoinAnswer, Downgrade | None]:
    """Take in what a member reads and owns. Return its epoch. ``check_join`` has been called."""
    group = decisions.group
    member = _joiner(decisions, command)
    said = _subscription(command)
    metadata = _metadata(member.metadata, command, said)
    # The one with its instance id may be itself, under its own id.
    known = group.static_member(command.instance_id)
    downgrade = None
    epoch, changed = decisions.take_in(member, metadata)
    owned = _owned(decisions, said)
    if known is not None and _is_last(decisions, known, members_max):
        rebalance = group.target_epoch < epoch
        current = member.current
        if not rebalance:
            target = group.targets.get(known.member_id, {})
            current = decisions.bring(
                member, metadata, group.target_epoch, target, owned, changed=changed
            )
        downgrade = Downgrade(joining=metadata, replaced=known.member_id, rebalance=rebalance)
    else:
        target_epoch, target = decisions.target(member, metadata, epoch)
        current = decisions.bring(member, metadata, target_epoch, target, owned, changed=changed)
        _expect_sync(decisions, metadata)
    answer = JoinAnswer(
        member_id=metadata.member_id,
        generation=current.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol=command.protocols[0][0],
    )
    return answer, downgrade


def sync(decisions: Decisions, command: Sync) -> SyncAnswer:
    """Return the member's assignment. Raises the error that it is told instead."""
    member = _existing(decisions, command)
    face = member.metadata.classic
    assert face is not None
    if command.protocol_type is not None and command.protocol_type != PROTOCOL_TYPE:
        raise InconsistentGroupProtocol(f"the group's protocol type is {PROTOCOL_TYPE}")
    if command.protocol is not None and command.protocol != face.protocols[0][0]:
        raise InconsistentGroupProtocol(f"the member joined with {face.protocols[0][0]}")
    group, now_ms = decisions.group, decisions.now.steady_ms
    if (
        group.target_epoch > member.current.epoch
        and member.current.state is not MemberState.UNREVOKED
    ):
        timeout_ms = member.metadata.rebalance_timeout_ms
        group.deadlines.expect_join(member.member_id, now_ms + timeout_ms)
        raise RebalanceInProgress("there are new targets; the member must join again")
    group.deadlines.syncs.pop(member.member_id, None)
    group.deadlines.extend_session(member.member_id, now_ms + face.session_timeout_ms)
    version = subscription.read_subscription(face.protocols[0][1]).version
    assigned = by_name(held(member.current.assigned), decisions.topics)
    return SyncAnswer(
        protocol_type=command.protocol_type,
        protocol=command.protocol,
        assignment=subscription.write_assignment(assigned, version),
    )


def heartbeat(decisions: Decisions, command: Heartbeat) -> ErrorClass | None:
    """Extend the member's session. Return whether it has to join again. Raises if it is not a member."""
    member = _existing(decisions, command)
    face = member.metadata.classic
    assert face is not None
    group, now_ms = decisions.group, decisions.now.steady_ms
    group.deadlines.extend_session(member.member_id, now_ms + face.session_timeout_ms)
    current = member.current
    must_join = (
        current.epoch < group.target_epoch
        or current.state is MemberState.UNREVOKED
        or (current.state is MemberState.UNRELEASED and not group.waits_for_others(member))
    )
    if not must_join:
        return None
    group.deadlines.expect_join(member.member_id, now_ms + member.metadata.rebalance_timeout_ms)
    return RebalanceInProgress


def leavers(
    decisions: Decisions, leaving: Iterable[LeavingMember]
) -> tuple[list[ConsumerMember], tuple[ErrorClass | None, ...]]:
    """Return the members that leave, each once, and the result for each."""
    gone: dict[str, ConsumerMember] = {}
    results: list[ErrorClass | None] = []
    for identity in leaving:
        try:
            member = _leaver(decisions, identity)
        except MillpondError as error:
            results.append(type(error))
        else:
            gone[member.member_id] = member
            results.append(None)
    return list(gone.values()), tuple(results)


def _leaver(decisions: Decisions, identity: LeavingMember) -> ConsumerMember:
    if identity.instance_id is None:
        return decisions.existing(identity.member_id)
    member = decisions.group.static_member(identity.instance_id)
    if member is None:
        raise UnknownMember(f"no member has the instance id {identity.instance_id!r}")
    if identity.member_id != NO_MEMBER_ID:
        check_instance(member, identity.member_id)
    return member


def _joiner(decisions: Decisions, command: Join) -> ConsumerMember:
    group = decisions.group
    is_stranger = command.member_id == NO_MEMBER_ID
    member_id = command.fresh_id if is_stranger else command.member_id
    if command.instance_id is None:
        return group.members.get(member_id) or ConsumerMember.new(group.group_id, member_id)
    known = group.static_member(command.instance_id)
    if is_stranger:
        if known is None:
            return ConsumerMember.new(group.group_id, member_id)
        return decisions.replace_static(known, member_id)
    if known is None:
        raise UnknownMember(f"no member has the instance id {command.instance_id!r}")
    check_instance(known, member_id)
    return known


def _existing(decisions: Decisions, command: Sync | Heartbeat) -> ConsumerMember:
    if command.instance_id is None:
        member = decisions.existing(command.member_id)
    else:
        known = decisions.group.static_member(command.instance_id)
        if known is None:
            raise UnknownMember(f"no member has the instance id {command.instance_id!r}")
        check_instance(known, command.member_id)
        member = known
    if not member.is_classic:
        raise UnknownMember(f"member {member.member_id} does not speak the classic protocol")
    if command.generation != member.current.epoch:
        raise IllegalGeneration(
            f"member {member.member_id} has epoch {member.current.epoch}, not {command.generation}"
        )
    return member


def _is_last(decisions: Decisions, known: ConsumerMember, members_max: int) -> bool:
    """Whether all but this one speak the classic protocol, so that the group may go back to it."""
    group = decisions.group
    return (
        not known.is_classic
        and group.classic_count == len(group.members) - 1
        and decisions.settings.migration.may_downgrade
        and len(group.members) <= members_max
    )


def _subscription(command: Join) -> Subscription:
    try:
        return subscription.read_subscription(command.protocols[0][1])
    except MalformedData as error:
        raise InconsistentGroupProtocol(
            f"what the member says of itself is not a consumer's subscription: {error}"
        ) from None


def _metadata(before: MemberStored, command: Join, said: Subscription) -> MemberStored:
    return MemberStored(
        group_id=before.group_id,
        member_id=before.member_id,
        instance_id=before.instance_id if command.instance_id is None else command.instance_id,
        rack_id=said.rack_id or before.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=said.topics,
        pattern="",
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        assignor=before.assignor,
        classic=ClassicMemberInfo(
            session_timeout_ms=command.session_timeout_ms, protocols=command.protocols
        ),
    )


def _owned(decisions: Decisions, said: Subscription) -> Target:
    owned: dict[UUID, frozenset[int]] = {}
    for name, partitions in said.owned.items():
        shape = decisions.topics.find(name)
        if shape is not None:
            owned[shape.topic_id] = frozenset(partitions)
    return owned


def _expect_sync(decisions: Decisions, metadata: MemberStored) -> None:
    face, now_ms = metadata.classic, decisions.now.steady_ms
    assert face is not None
    deadlines = decisions.group.deadlines
    deadlines.joins.pop(metadata.member_id, None)
    deadlines.extend_session(metadata.member_id, now_ms + face.session_timeout_ms)
    deadlines.expect_sync(metadata.member_id, now_ms + metadata.rebalance_timeout_ms)
