"""Groups with members that change from the classic protocol to the consumer protocol and back.

Upgrade: the first member of the new protocol comes to a group of consumers. The generation becomes the epoch,
what the leader had planned becomes both the target and what members have. Downgrade: the last member of the
new protocol goes, the others speak the old one: the targets become the plan, and a rebalance follows.

No partition may be assigned twice, so both directions carry over all assignments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from millpond.base.errors import GroupNotFound, MalformedData
from millpond.group.classic import subscription
from millpond.group.classic.group import ClassicGroup
from millpond.group.classic.roster import Member
from millpond.group.consumer.image import ConsumerGroupImage, ConsumerMember
from millpond.group.consumer.messages import ConsumerSettings
from millpond.group.consumer.records import (
    ClassicMemberInfo,
    ConsumerGroupStored,
    ConsumerRecord,
    CurrentStored,
    FactForgotten,
    MemberStored,
    Target,
    TargetEpochStored,
    TargetStored,
)
from millpond.group.messages import GroupSettings
from millpond.group.topics import TopicView


def check_upgrade(group: ClassicGroup, settings: ConsumerSettings) -> None:
    """Raise ``GroupNotFound`` if this classic group must stay one."""
    reason = None
    if not settings.migration.may_upgrade:
        reason = "online upgrade is disabled"
    elif not group.is_consumer_group:
        reason = "its members are not consumers"
    elif len(group.members) > settings.members_max:
        reason = "it has more members than a consumer group may have"
    if reason is not None:
        raise GroupNotFound(
            f"classic group {group.group_id!r} cannot become a consumer group: {reason}"
        )


def upgraded(group: ClassicGroup, topics: TopicView) -> list[ConsumerRecord]:
    """Return the records of the consumer group that a classic one becomes. Raises ``GroupNotFound``."""
    try:
        members = [_as_consumer(group, member, topics) for member in group.roster]
    except MalformedData as error:
        raise GroupNotFound(
            f"classic group {group.group_id!r} cannot become a consumer group: what its members "
            f"say cannot be read: {error}"
        ) from None
    epoch = group.generation
    names = {name for member in members for name in member.metadata.topics}
    fingerprint = topics.fingerprint(names)
    group_id = group.group_id
    facts: list[ConsumerRecord] = [member.metadata for member in members]
    facts.append(ConsumerGroupStored(group_id=group_id, epoch=epoch, metadata_hash=fingerprint))
    facts += [_target_of(member) for member in members]
    facts.append(TargetEpochStored(group_id=group_id, epoch=epoch))
    facts += [member.current for member in members]
    return facts


def _as_consumer(group: ClassicGroup, member: Member, topics: TopicView) -> ConsumerMember:
    said = subscription.read_subscription(member.metadata(group.protocol))
    planned, user_data = subscription.read_assignment(member.assignment)
    if user_data:
        raise MalformedData("an assignor of the clients' own has added to the assignment")
    assigned: dict[UUID, dict[int, int]] = {}
    for name, partitions in planned.items():
        shape = topics.find(name)
        if shape is not None and partitions:
            assigned[shape.topic_id] = dict.fromkeys(partitions, group.generation)
    metadata = MemberStored(
        group_id=group.group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=said.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=said.topics,
        pattern="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberInfo(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )
    current = CurrentStored(
        group_id=group.group_id,
        member_id=member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=assigned,
    )
    return ConsumerMember(metadata, current)


def _target_of(member: ConsumerMember) -> TargetStored:
    assigned = member.current.assigned.items()
    return TargetStored(
        group_id=member.metadata.group_id,
        member_id=member.member_id,
        partitions={topic_id: frozenset(partitions) for topic_id, partitions in assigned},
    )


def may_downgrade(
    group: ConsumerGroupImage,
    leaving: Iterable[ConsumerMember],
    settings: ConsumerSettings,
    members_max: int,
) -> bool:
    """Whether only members of the classic protocol are left, and the group may go back to it."""
    gone = list(leaving)
    staying = len(group.members) - len(gone)
    classic = group.classic_count - sum(member.is_classic for member in gone)
    return 0 < staying == classic and settings.migration.may_downgrade and staying <= members_max


def downgraded(
    group: ConsumerGroupImage,
    topics: TopicView,
    settings: GroupSettings,
    *,
    leaving: Iterable[str] = (),
    joining: MemberStored | None = None,
    since_ms: int,
) -> ClassicGroup:
    """Return the classic group that is left. ``joining`` takes the place of the member with its instance id.

    Raises ``GroupNotFound`` if members' messages cannot be read.
    """
    gone = set(leaving)
    # Whose target each member gets: its own, or that of the one it replaces.
    heirs = {member_id: member_id for member_id in group.members if member_id not in gone}
    metadata = {member_id: group.members[member_id].metadata for member_id in heirs}
    if joining is not None:
        assert joining.instance_id is not None
        replaced = group.static_members[joining.instance_id]
        del heirs[replaced], metadata[replaced]
        heirs[joining.member_id] = replaced
        metadata[joining.member_id] = joining
    classic = ClassicGroup(group.group_id, settings, since_ms=since_ms)
    for one in metadata.values():
        classic.roster.add(_as_classic(one))
    try:
        classic.adopt(group.epoch)
        for member in classic.roster:
            version = subscription.read_subscription(member.metadata(classic.protocol)).version
            target = group.targets.get(heirs[member.member_id], {})
            member.assignment = subscription.write_assignment(by_name(target, topics), version)
    except MalformedData as error:
        raise GroupNotFound(
            f"consumer group {group.group_id!r} cannot become a classic one: {error}"
        ) from None
    return classic


def _as_classic(metadata: MemberStored) -> Member:
    assert metadata.classic is not None
    return Member(
        member_id=metadata.member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=metadata.classic.session_timeout_ms,
        protocols=metadata.classic.protocols,
    )


def by_name(target: Target, topics: TopicView) -> Mapping[str, frozenset[int]]:
    """Return the same partitions, of topics that still exist, by the names of their topics."""
    named = ((topics.name_of(topic_id), partitions) for topic_id, partitions in target.items())
    return {name: partitions for name, partitions in named if name is not None}


def tombstones(
    group: ConsumerGroupImage, replaced: str | None = None, joining: str = ""
) -> list[ConsumerRecord]:
    """Return the records that end the consumer group; ``joining`` is there for ``replaced``."""
    facts = list(group.tombstones())
    if replaced is None:
        return facts
    return [
        replace(fact, name=joining)
        if isinstance(fact, FactForgotten) and fact.name == replaced
        else fact
        for fact in facts
    ]
