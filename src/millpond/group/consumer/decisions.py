"""Decisions of a consumer group when a member sends a heartbeat, leaves or times out (KIP-848).

Each verb reads the group, writes records into the outbox and returns the answer; it changes nothing but
deadlines. The order of the steps is Kafka's: find the member, take in its metadata, raise the group's epoch
if that changes the group, make new targets if it is time, bring the member one step towards its target.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from millpond.base import limits, patterns
from millpond.base.errors import (
    GroupFull,
    InstanceIdInUse,
    InvalidRequest,
    MemberEpochFenced,
    MemberFenced,
    UnknownMember,
    UnsupportedAssignor,
)
from millpond.group.consumer.assignors import ASSIGNORS, Candidate
from millpond.group.consumer.image import ConsumerGroupImage, ConsumerMember
from millpond.group.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerSettings,
    ResolvePatterns,
)
from millpond.group.consumer.reconcile import Goal, is_reconciled, reconcile
from millpond.group.consumer.records import (
    ConsumerGroupStored,
    CurrentStored,
    FactForgotten,
    FactKind,
    Holding,
    MemberState,
    MemberStored,
    PatternStored,
    Target,
    TargetEpochStored,
    TargetStored,
)
from millpond.group.epochs import AWAY_EPOCH, GONE_EPOCH, JOINING
from millpond.group.messages import NO_MEMBER_ID, Now, Outbox
from millpond.group.topics import ResolvedPattern, TopicView


def check_heartbeat(command: ConsumerHeartbeat, settings: ConsumerSettings) -> None:
    """Check what does not depend on the group. Raises ``InvalidRequest``, ``UnsupportedAssignor``."""
    named = command.member_id_required or command.epoch > 0 or command.epoch == GONE_EPOCH
    if named and not command.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    for field, text in (
        ("GroupId", command.group_id),
        ("InstanceId", command.instance_id),
        ("RackId", command.rack_id),
    ):
        if text is not None and not text.strip():
            raise InvalidRequest(f"{field} can't be empty.")
    if command.epoch == JOINING:
        _check_joining(command)
    elif command.epoch == AWAY_EPOCH:
        if command.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif command.epoch < AWAY_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    if command.assignor is not None and command.assignor not in settings.assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {command.assignor} is not supported. Supported assignors: "
            f"{', '.join(settings.assignors)}."
        )


def _check_joining(command: ConsumerHeartbeat) -> None:
    if command.rebalance_timeout_ms is None:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if command.owned is None or command.owned:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if command.topics is None and command.pattern is None:
        raise InvalidRequest("SubscribedTopicNames or SubscribedTopicRegex must be set to join.")


@dataclass(slots=True)
class Decisions:
    """One command to one group: the group, the topics and settings that hold, and the outbox."""

    group: ConsumerGroupImage
    topics: TopicView
    settings: ConsumerSettings
    now: Now
    out: Outbox

    # --- heartbeats ---------------------------------------------------------------------------------

    def heartbeat(self, command: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        """A member joins or is alive."""
        if command.member_id == NO_MEMBER_ID:
            command = replace(command, member_id=command.fresh_id)
        self.check_room(command.member_id)
        member = self._member(command)
        metadata = _metadata(member.metadata, command)
        current = self.advance(member, metadata, command.owned)
        timeout_ms = self.settings.session_timeout_ms
        self.group.deadlines.extend_session(command.member_id, self.now.steady_ms + timeout_ms)
        says_all = (
            command.rebalance_timeout_ms is not None
            and (command.topics is not None or command.pattern is not None)
            and command.owned is not None
        )
        is_news = command.epoch == JOINING or says_all
        is_news = is_news or current.assigned != member.current.assigned
        return ConsumerHeartbeatAnswer(
            member_id=command.member_id,
            epoch=current.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            assignment=held(current.assigned) if is_news else None,
        )

    def advance(
        self, member: ConsumerMember, metadata: MemberStored, owned: Target | None
    ) -> CurrentStored:
        """Take in a member's metadata and bring it one step towards its target. Return its assignment."""
        epoch, changed = self.take_in(member, metadata)
        target_epoch, target = self.target(member, metadata, epoch)
        return self.bring(member, metadata, target_epoch, target, owned, changed=changed)

    def take_in(self, member: ConsumerMember, metadata: MemberStored) -> tuple[int, bool]:
        """Store a member's metadata. Return the group's epoch, and whether the member reads other topics."""
        if metadata != member.metadata:
            self.out.records.append(metadata)
        names_changed = metadata.topics != member.metadata.topics
        pattern_changed, is_resolved = self._patterns(member.metadata, metadata)
        bump = names_changed or is_resolved
        epoch = self.group.epoch
        if bump or self.group.must_look(self.topics.version):
            epoch = self._epoch_after(member.metadata, metadata, bump=bump)
        return epoch, names_changed or pattern_changed

    def bring(
        self,
        member: ConsumerMember,
        metadata: MemberStored,
        target_epoch: int,
        target: Target,
        owned: Target | None,
        *,
        changed: bool,
    ) -> CurrentStored:
        """Bring the member one step towards this target. Return its assignment."""
        before = member.current
        if not changed and is_reconciled(before, target_epoch):
            return before
        goal = Goal(
            target_epoch=target_epoch,
            target=target,
            wanted=self._wanted(metadata),
            metadata_changed=changed,
            owned=owned,
            holder_epoch=self.group.holder_epoch,
        )
        current = reconcile(before, goal)
        if current is not before:
            self.out.records.append(current)
            self._expect(metadata, current)
        return current

    def check_room(self, member_id: str) -> None:
        """Raise ``GroupFull`` if this would be one member too many."""
        if len(self.group.members) >= self.settings.members_max and (
            member_id not in self.group.members
        ):
            raise GroupFull(
                f"group {self.group.group_id!r} has {len(self.group.members)} members, "
                "and may not have more"
            )

    # --- finding the member -------------------------------------------------------------------------

    def _member(self, command: ConsumerHeartbeat) -> ConsumerMember:
        if command.instance_id is not None:
            return self._static_member(command, command.instance_id)
        if command.epoch == JOINING and command.member_id not in self.group.members:
            return ConsumerMember.new(self.group.group_id, command.member_id)
        member = self.existing(command.member_id)
        _check_epoch(member.current, command)
        return member

    def existing(self, member_id: str) -> ConsumerMember:
        """Return the member. Raises ``UnknownMember``."""
        member = self.group.members.get(member_id)
        if member is None:
            raise UnknownMember(
                f"member {member_id} is not a member of group {self.group.group_id!r}"
            )
        return member

    def _static_member(self, command: ConsumerHeartbeat, instance_id: str) -> ConsumerMember:
        known = self.group.static_member(instance_id)
        if command.epoch != JOINING:
            if known is None:
                raise UnknownMember(f"no member has the instance id {instance_id!r}")
            check_instance(known, command.member_id)
            _check_epoch(known.current, command)
            return known
        if known is None:
            member = self.group.members.get(command.member_id)
            return member or ConsumerMember.new(self.group.group_id, command.member_id)
        if not known.is_classic and known.current.epoch != AWAY_EPOCH:
            raise InstanceIdInUse(
                f"member {known.member_id} has the instance id {instance_id!r} and has not left"
            )
        return self.replace_static(known, command.member_id)

    def replace_static(self, known: ConsumerMember, member_id: str) -> ConsumerMember:
        """Return the same static member under another id, with the assignment that it had."""
        successor = ConsumerMember(
            replace(known.metadata, member_id=member_id),
            replace(known.current, member_id=member_id, epoch=0, previous_epoch=0),
        )
        self._remove(known.member_id)
        target = self.group.targets.get(known.member_id, {})
        self.out.records += (
            successor.metadata,
            TargetStored(group_id=self.group.group_id, member_id=member_id, partitions=target),
            successor.current,
        )
        return successor

    # --- the group's epoch --------------------------------------------------------------------------

    def _epoch_after(self, before: MemberStored, after: MemberStored, *, bump: bool) -> int:
        group = self.group
        last = (
            {before.pattern}
            if before.pattern
            and before.pattern != after.pattern
            and group.pattern_readers(before.pattern) == 1
            else ()
        )
        names = group.names_without((before,), last) | after.topics
        fingerprint = self.topics.fingerprint(names)
        epoch = group.epoch
        if bump or fingerprint != group.metadata_hash:
            epoch += 1
            self._store_epoch(epoch, fingerprint)
        group.note_look(self.topics.version, epoch)
        if group.has_partitions_fact:
            self._forget(FactKind.PARTITIONS)
        return epoch

    def _store_epoch(self, epoch: int, fingerprint: int) -> None:
        self.out.records.append(
            ConsumerGroupStored(
                group_id=self.group.group_id, epoch=epoch, metadata_hash=fingerprint
            )
        )

    # --- patterns -----------------------------------------------------------------------------------

    def _patterns(self, before: MemberStored, after: MemberStored) -> tuple[bool, bool]:
        """Return whether the member has another pattern, and whether the topics it matches are known."""
        group = self.group
        changed = before.pattern != after.pattern
        resolved = must_resolve = False
        if changed:
            if before.pattern and group.pattern_readers(before.pattern) == 1:
                self._forget(FactKind.PATTERN, before.pattern)
            if not after.pattern:
                resolved = bool(before.pattern)
            elif not group.pattern_readers(after.pattern):
                patterns.check(after.pattern)
                must_resolve = True
            else:
                resolved = after.pattern in group.patterns
        self._ask_to_resolve(before, after, must_resolve=must_resolve)
        return changed, resolved

    def _ask_to_resolve(
        self, before: MemberStored, after: MemberStored, *, must_resolve: bool
    ) -> None:
        group = self.group
        if group.is_resolving or not (must_resolve or group.has_patterns):
            return
        last = max(group.patterns.values(), key=lambda one: one.resolved_at_ms, default=None)
        last = last or ResolvedPattern(resolved_at_ms=-limits.GROUP_PATTERN_REFRESH_MS_MIN - 1)
        if self.now.wall_ms <= last.resolved_at_ms + limits.GROUP_PATTERN_REFRESH_MS_MIN:
            return
        read = group.read_patterns
        if before.pattern:
            read[before.pattern] -= 1
        if after.pattern:
            read[after.pattern] += 1
        wanted = frozenset(one for one, count in read.items() if count > 0)
        if wanted and (
            must_resolve
            or len(wanted) != len(group.patterns)
            or last.version < self.topics.created_version
            or self.now.wall_ms > last.resolved_at_ms + self.settings.regex_refresh_interval_ms
        ):
            group.is_resolving = True
            self.out.patterns.append((group.group_id, wanted))

    def resolve(self, command: ResolvePatterns) -> None:
        """Take in the topics that patterns match; if they have changed, the group's epoch grows."""
        group = self.group
        group.is_resolving = False
        bump = False
        names = set(group.topic_names)
        for pattern, topics in command.found.items():
            if not group.pattern_readers(pattern):
                continue  # its last reader has gone meanwhile
            known = group.patterns.get(pattern, ResolvedPattern())
            if known.topics != topics:
                bump = True
                names = (names - (known.topics - self._named_otherwise(pattern))) | topics
            self.out.records.append(
                PatternStored(
                    group_id=group.group_id,
                    pattern=pattern,
                    topics=topics,
                    version=command.version,
                    resolved_at_ms=command.resolved_at_ms,
                )
            )
        fingerprint = self.topics.fingerprint(names)
        if bump or fingerprint != group.metadata_hash:
            self._store_epoch(group.epoch + 1, fingerprint)
            group.note_look(self.topics.version, group.epoch + 1)

    def _named_otherwise(self, pattern: str) -> set[str]:
        return self.group.names_without((), (pattern,))

    # --- the targets --------------------------------------------------------------------------------

    def target(
        self, member: ConsumerMember, metadata: MemberStored, epoch: int
    ) -> tuple[int, Target]:
        """Return the epoch and target of a member; new targets are made if the epoch grew and it is time."""
        group = self.group
        if group.target_epoch >= epoch or not self._may_assign():
            return group.target_epoch, self._last_target(metadata)
        name = group.assignor_after(member.metadata, metadata) or self.settings.assignors[0]
        targets = self._assign(metadata, name)
        for member_id, target in targets.items():
            if target != group.targets.get(member_id):
                self.out.records.append(
                    TargetStored(group_id=group.group_id, member_id=member_id, partitions=target)
                )
        self.out.records.append(
            TargetEpochStored(group_id=group.group_id, epoch=epoch, made_at_ms=self.now.wall_ms)
        )
        return epoch, targets[metadata.member_id]

    def _may_assign(self) -> bool:
        made_ms, interval_ms = self.group.target_made_ms, self.settings.assignment_interval_ms
        since_ms = self.now.wall_ms - made_ms
        # A clock that was set back must not keep the group waiting.
        return made_ms == 0 or since_ms >= interval_ms or since_ms < 0

    def _last_target(self, metadata: MemberStored) -> Target:
        member_id = metadata.member_id
        if metadata.instance_id is not None:
            member_id = self.group.static_members.get(metadata.instance_id, member_id)
        return self.group.targets.get(member_id, {})

    def _assign(self, metadata: MemberStored, name: str) -> dict[str, Target]:
        group = self.group
        reading = {one.member_id: one.metadata for one in group.members.values()}
        if metadata.instance_id is not None:
            # The one that is replaced, if it is another.
            reading.pop(group.static_members.get(metadata.instance_id, metadata.member_id), None)
        reading[metadata.member_id] = metadata
        counts: dict[UUID, int] = {}
        known: dict[tuple[frozenset[str], str | None], dict[UUID, int]] = {}
        candidates: dict[str, Candidate] = {}
        for member_id, one in reading.items():
            topics = known.get((one.topics, one.pattern))
            if topics is None:
                topics = known[one.topics, one.pattern] = self._wanted(one)
                counts.update(topics)
            target = group.targets.get(member_id, {})
            if member_id == metadata.member_id:
                target = self._last_target(metadata)
            candidates[member_id] = Candidate(
                topics=topics, target=target, instance_id=one.instance_id
            )
        # What another broker wrote down for a member may be an assignor that is not here.
        assignor = ASSIGNORS.get(name) or ASSIGNORS[self.settings.assignors[0]]
        return assignor(candidates, counts)

    def _wanted(self, metadata: MemberStored) -> dict[UUID, int]:
        """Return the topics that a member reads and that exist, with their partition counts."""
        names = metadata.topics
        if metadata.pattern and metadata.pattern in self.group.patterns:
            names |= self.group.patterns[metadata.pattern].topics
        return self.topics.ids(names)

    def _expect(self, metadata: MemberStored, current: CurrentStored) -> None:
        if metadata.classic is not None:
            return
        deadlines = self.group.deadlines
        if current.state is MemberState.UNREVOKED:
            due_ms = self.now.steady_ms + metadata.rebalance_timeout_ms
            deadlines.expect_revocation(current.member_id, due_ms, current.epoch)
        else:
            deadlines.rebalances.pop(current.member_id, None)

    # --- leaving ------------------------------------------------------------------------------------

    def leaver(self, command: ConsumerHeartbeat) -> ConsumerMember:
        """Return the member that leaves. Raises if it is not a member, or another has its instance id."""
        if command.instance_id is None:
            return self.existing(command.member_id)
        member = self.group.static_member(command.instance_id)
        if member is None:
            raise UnknownMember(f"no member has the instance id {command.instance_id!r}")
        check_instance(member, command.member_id)
        return member

    def go_away(self, member: ConsumerMember) -> None:
        """Keep the assignment of a static member that will come back, while its session lasts."""
        kept = {
            topic_id: dict.fromkeys(partitions, 0)
            for topic_id, partitions in member.current.assigned.items()
        }
        away = replace(member.current, epoch=AWAY_EPOCH, assigned=kept, revoking={})
        self.out.records.append(away)

    def fence(self, members: Iterable[ConsumerMember]) -> None:
        """Remove members; the others get their partitions with the next targets."""
        gone = {one.member_id: one.metadata for one in members}
        if not gone:
            return
        for member_id in gone:
            self._remove(member_id)
        last: list[str] = []
        for pattern in {one.pattern for one in gone.values() if one.pattern}:
            leaving = sum(one.pattern == pattern for one in gone.values())
            if self.group.pattern_readers(pattern) == leaving:
                self._forget(FactKind.PATTERN, pattern)
                last.append(pattern)
        names = self.group.names_without(gone.values(), last)
        self._store_epoch(self.group.epoch + 1, self.topics.fingerprint(names))

    def _remove(self, member_id: str) -> None:
        for kind in (FactKind.CURRENT, FactKind.TARGET, FactKind.MEMBER):
            self._forget(kind, member_id)

    def _forget(self, kind: FactKind, name: str = "") -> None:
        self.out.records.append(FactForgotten(group_id=self.group.group_id, kind=kind, name=name))


def check_instance(known: ConsumerMember, member_id: str) -> None:
    """Raise ``MemberFenced`` unless it is this member that has the instance id."""
    if known.member_id != member_id:
        raise MemberFenced(
            f"member {member_id} was replaced by {known.member_id}, which has its instance id"
        )


def held(holding: Holding) -> Target:
    """Return the partitions of a holding, without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in holding.items()}


def _check_epoch(current: CurrentStored, command: ConsumerHeartbeat) -> None:
    """Raise ``MemberEpochFenced`` unless the member names its epoch, or missed just one answer."""
    if command.epoch in {JOINING, current.epoch}:
        return
    missed_one = command.epoch < current.epoch and command.epoch == current.previous_epoch
    if missed_one and _is_within(command.owned, current.assigned):
        return
    raise MemberEpochFenced(
        f"member {command.member_id} has epoch {current.epoch}, not {command.epoch}; it must give "
        "up all its partitions and join again"
    )


def _is_within(owned: Target | None, assigned: Holding) -> bool:
    return owned is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items()
    )


def _metadata(before: MemberStored, command: ConsumerHeartbeat) -> MemberStored:
    after = MemberStored(
        group_id=before.group_id,
        member_id=before.member_id,
        instance_id=_or(command.instance_id, before.instance_id),
        rack_id=_or(command.rack_id, before.rack_id),
        client_id=command.client_id,
        client_host=command.client_host,
        topics=before.topics if command.topics is None else frozenset(command.topics),
        pattern=_or(command.pattern, before.pattern),
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms
            if command.rebalance_timeout_ms is None
            else command.rebalance_timeout_ms
        ),
        assignor=_or(command.assignor, before.assignor),
    )
    return before if after == before else after


def _or(said: str | None, before: str | None) -> str | None:
    return before if said is None else said
