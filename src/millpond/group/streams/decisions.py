"""Decisions of a streams group when a member sends a heartbeat, leaves or times out (KIP-1071).

As in consumer groups, each verb reads the group, writes records into the outbox and returns the answer; it
changes nothing but deadlines and lookups. The order of the steps is Kafka's: find the member, take in its
metadata and topology, check the topics, raise the group's epoch if something changed, make new targets if it
is time, bring the member one step towards its target.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from millpond.base.errors import (
    GroupError,
    GroupFull,
    InvalidRequest,
    InvalidTopology,
    MemberEpochFenced,
    UnknownMember,
)
from millpond.group.epochs import AWAY_EPOCH, JOINING
from millpond.group.messages import Now, Outbox
from millpond.group.streams import task_assignor
from millpond.group.streams.image import StreamsGroupImage, StreamsMember
from millpond.group.streams.messages import (
    EndpointPartitions,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
    StreamsSettings,
)
from millpond.group.streams.records import (
    StreamsCurrentStored,
    StreamsForgotten,
    StreamsGroupStored,
    StreamsKind,
    StreamsMemberStored,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    Tasks,
    TaskSet,
    TaskState,
    TopologyStored,
)
from millpond.group.streams.task_assignor import Worker
from millpond.group.streams.task_reconcile import TaskGoal, is_reconciled, reconcile
from millpond.group.streams.topology import (
    ConfiguredTopology,
    StreamsStatus,
    Topology,
    configure,
)
from millpond.group.topics import TopicView

SaidT = TypeVar("SaidT")

STANDBYS = "num.standby.replicas"


def check_heartbeat(command: StreamsHeartbeat) -> None:
    """Check what does not depend on the group. Raises ``InvalidRequest``, ``InvalidTopology``."""
    _check_supported(command)
    for name, text in (
        ("MemberId", command.member_id),
        ("GroupId", command.group_id),
        ("RackId", command.rack_id),
    ):
        if text is not None and not text.strip():
            raise InvalidRequest(f"{name} can't be empty.")
    if command.epoch == JOINING:
        _check_joining(command)
    elif command.epoch == AWAY_EPOCH:
        raise InvalidRequest("InstanceId can't be null.")
    elif command.epoch < AWAY_EPOCH:
        raise InvalidRequest(
            f"MemberEpoch is {command.epoch}, but must be greater than or equal to -2."
        )
    said = (command.active, command.standby, command.warmup)
    if any(tasks is not None for tasks in said) and any(tasks is None for tasks in said):
        raise InvalidRequest("If one task-type is non-null, all must be non-null.")
    if command.epoch != JOINING and command.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")


def _check_supported(command: StreamsHeartbeat) -> None:
    if command.instance_id is not None:
        raise InvalidRequest("Static membership is not yet supported.")
    if command.warmup:
        raise InvalidRequest("WarmupTasks are not supported yet.")
    if command.topology is not None:
        for part in command.topology.subtopologies.values():
            if part.source_patterns:
                raise InvalidRequest("Regular expressions for source topics are not supported yet.")


def _check_joining(command: StreamsHeartbeat) -> None:
    if command.rebalance_timeout_ms is None:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", command.active),
        ("StandbyTasks", command.standby),
        ("WarmupTasks", command.warmup),
    ):
        if tasks is None or tasks:
            raise InvalidRequest(f"{name} must be empty when (re-)joining.")
    if command.topology is None:
        raise InvalidRequest("Topology must be non-null when (re-)joining.")
    for part in command.topology.subtopologies.values():
        for topic in part.changelogs:
            if topic.partitions:
                raise InvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}."
                )


@dataclass(slots=True)
class StreamsDecisions:
    """One command to one group: the group, the topics and settings that hold, and the outbox."""

    group: StreamsGroupImage
    topics: TopicView
    settings: StreamsSettings
    now: Now
    out: Outbox
    # A group that is being made has nothing but its deadlines to remember of this.
    is_new: bool = False
    _statuses: list[tuple[StreamsStatus, str]] = field(default_factory=list)

    # --- heartbeats ---------------------------------------------------------------------------------

    def heartbeat(self, command: StreamsHeartbeat) -> StreamsHeartbeatAnswer:
        """A member joins or is alive."""
        group = self.group
        if command.epoch == JOINING and len(group.members) >= self.settings.members_max:
            raise GroupFull(
                "The streams group has reached its maximum capacity of "
                f"{self.settings.members_max} members."
            )
        member = self._member(command)
        about = _about(member.about, command)
        if about != member.about:
            self.out.records.append(about)
        topology = self._topology(command.topology)
        self._note_stale(about)
        epoch, configured = self._take_in(command, topology, bump=about != member.about)
        self._wait_for_more()
        target_epoch, target = self._target(about, epoch, configured)
        current = self._bring(member, about, target_epoch, target, command)
        due_ms = self.now.steady_ms + self.settings.session_timeout_ms
        group.deadlines.extend_session(command.member_id, due_ms)
        if command.shutdown:
            group.shutdown_by = group.shutdown_by or command.member_id
        return self._answer(command, member, StreamsMember(about, current), configured)

    def _answer(
        self,
        command: StreamsHeartbeat,
        before: StreamsMember,
        after: StreamsMember,
        configured: ConfiguredTopology,
    ) -> StreamsHeartbeatAnswer:
        group = self.group
        is_news = command.epoch == JOINING or before.current.assigned != after.current.assigned
        if is_news and after.about.endpoint is not None:
            group.endpoint_epoch += 1
        endpoints = None
        if group.endpoint_epoch != command.endpoint_epoch:
            endpoints = self._endpoints(after, configured)
        if configured.problem is not None:
            self._statuses.append(configured.problem)
        if group.shutdown_by is not None:
            detail = (
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested "
                "a shutdown for the entire application."
            )
            self._statuses.append((StreamsStatus.SHUTDOWN_APPLICATION, detail))
        return StreamsHeartbeatAnswer(
            member_id=command.member_id,
            epoch=after.current.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            statuses=tuple(self._statuses),
            tasks=after.current.assigned.undated() if is_news else None,
            endpoint_epoch=0 if self.is_new else group.endpoint_epoch,
            endpoints=endpoints,
            missing_topics=configured.missing,
        )

    # --- finding the member -------------------------------------------------------------------------

    def _member(self, command: StreamsHeartbeat) -> StreamsMember:
        if command.epoch == JOINING:
            known = self.group.members.get(command.member_id)
            return known or StreamsMember.new(self.group.group_id, command.member_id)
        member = self.existing(command.member_id)
        current = member.current
        if command.epoch == current.epoch:
            return member
        missed_one = command.epoch < current.epoch and command.epoch == current.previous_epoch
        if not (missed_one and _is_within(command.owned, current.assigned.undated())):
            raise MemberEpochFenced(
                f"member {command.member_id} has epoch {current.epoch}, not {command.epoch}; it "
                "must give up all its tasks and join again"
            )
        return member

    def existing(self, member_id: str) -> StreamsMember:
        """Return the member. Raises ``UnknownMember``."""
        member = self.group.members.get(member_id)
        if member is None:
            raise UnknownMember(
                f"Member {member_id} is not a member of group {self.group.group_id}."
            )
        return member

    # --- the application and its topics -------------------------------------------------------------

    def _topology(self, said: Topology | None) -> Topology:
        known = self.group.topology
        if known is None:
            if said is None:
                raise GroupError(f"group {self.group.group_id!r} has no topology")
            self.out.records.append(TopologyStored(group_id=self.group.group_id, topology=said))
            return said
        if said is not None and said.epoch >= known.epoch and said != known:
            raise InvalidRequest("Topology updates are not supported yet.")
        return known

    def _note_stale(self, about: StreamsMemberStored) -> None:
        known = self.group.topology
        if known is not None and about.topology_epoch < known.epoch:
            detail = (
                f"The member's topology epoch {about.topology_epoch} is behind the group's "
                f"topology epoch {known.epoch}."
            )
            self._statuses.append((StreamsStatus.STALE_TOPOLOGY, detail))

    def _take_in(
        self, command: StreamsHeartbeat, topology: Topology, *, bump: bool
    ) -> tuple[int, ConfiguredTopology]:
        """Check the topics. Return the group's epoch after this heartbeat, and the configured topology."""
        group = self.group
        fingerprint, configured = group.metadata_hash, group.configured
        looked = configured is None or group.must_look(self.topics.version)
        if looked:
            fingerprint = self.topics.fingerprint(topology.required_topics)
            changed = fingerprint != group.metadata_hash
            bump = bump or changed
            if configured is None or changed or group.topology is None:
                configured = group.configured = configure(topology, self.topics)
        assert configured is not None
        validated = -1
        if configured.is_ready:
            validated = topology.epoch
            _check_tasks(command, configured)
        configs = ((STANDBYS, str(self.settings.standby_replicas)),)
        epoch = group.epoch
        if bump or validated != group.validated_epoch or configs != group.assignment_configs:
            epoch += 1
            self._store_epoch(epoch, fingerprint, validated, configs)
        if looked:
            group.note_look(self.topics.version, epoch)
        return epoch, configured

    def _store_epoch(
        self, epoch: int, fingerprint: int, validated: int, configs: tuple[tuple[str, str], ...]
    ) -> None:
        self.out.records.append(
            StreamsGroupStored(
                group_id=self.group.group_id,
                epoch=epoch,
                metadata_hash=fingerprint,
                validated_epoch=validated,
                assignment_configs=configs,
            )
        )

    # --- the targets --------------------------------------------------------------------------------

    def _wait_for_more(self) -> None:
        """Delay the first targets of a new group, so that more members can join."""
        group, delay_ms = self.group, self.settings.initial_rebalance_delay_ms
        if not group.members and delay_ms > 0 and group.first_targets_ms is None:
            group.first_targets_ms = self.now.steady_ms + delay_ms

    def _target(
        self, about: StreamsMemberStored, epoch: int, configured: ConfiguredTopology
    ) -> tuple[int, TaskSet]:
        """Return the epoch and target of a member; new targets are made if the epoch grew and it is time."""
        group = self.group
        if group.first_targets_ms is not None:
            self._delayed("initial rebalance delay")
            return group.target_epoch, TaskSet()
        last = group.target_epoch, group.targets.get(about.member_id, TaskSet())
        if group.target_epoch >= epoch:
            return last
        if not self._may_assign():
            self._delayed("assignment interval")
            return last
        targets = self._assign({about.member_id: about}, epoch, configured)
        return epoch, targets[about.member_id]

    def _delayed(self, why: str) -> None:
        detail = f"Assignment delayed due to the configured {why}."
        self._statuses.append((StreamsStatus.ASSIGNMENT_DELAYED, detail))

    def _may_assign(self) -> bool:
        made_ms, interval_ms = self.group.target_made_ms, self.settings.assignment_interval_ms
        since_ms = self.now.wall_ms - made_ms
        # A clock that was set back must not keep the group waiting.
        return made_ms == 0 or since_ms >= interval_ms or since_ms < 0

    def _assign(
        self,
        changed: dict[str, StreamsMemberStored],
        epoch: int,
        configured: ConfiguredTopology,
    ) -> dict[str, TaskSet]:
        group = self.group
        everyone = {one.member_id: one.about for one in group.members.values()} | changed
        if configured.is_ready and configured.subtopologies is not None:
            targets = task_assignor.assign(
                (Worker(one.process_id, member_id) for member_id, one in everyone.items()),
                group.targets,
                configured.subtopologies,
                standbys=self.settings.standby_replicas,
            )
        else:
            targets = dict.fromkeys(everyone, TaskSet())
        for member_id, tasks in targets.items():
            if tasks != group.targets.get(member_id):
                self.out.records.append(
                    StreamsTargetStored(group_id=group.group_id, member_id=member_id, tasks=tasks)
                )
        self.out.records.append(
            StreamsTargetEpochStored(
                group_id=group.group_id, epoch=epoch, made_at_ms=self.now.wall_ms
            )
        )
        return targets

    def _bring(
        self,
        member: StreamsMember,
        about: StreamsMemberStored,
        target_epoch: int,
        target: TaskSet,
        command: StreamsHeartbeat,
    ) -> StreamsCurrentStored:
        """Bring the member one step towards this target. Return its tasks."""
        group, before, process_id = self.group, member.current, about.process_id
        if is_reconciled(before, target_epoch):
            return before
        goal = TaskGoal(
            target_epoch=target_epoch,
            target=target,
            owned=command.owned,
            is_run=lambda part, number: group.runner(part, number) is not None,
            is_run_here=lambda part, number: group.runner(part, number) == process_id,
            is_followed_here=lambda part, number: group.is_followed_by(part, number, process_id),
        )
        current = reconcile(before, goal)
        if current is not before:
            self.out.records.append(current)
            if current.state is TaskState.UNREVOKED:
                due_ms = self.now.steady_ms + about.rebalance_timeout_ms
                group.deadlines.expect_revocation(current.member_id, due_ms, current.epoch)
            else:
                group.deadlines.rebalances.pop(current.member_id, None)
        return current

    # --- endpoints ----------------------------------------------------------------------------------

    def _endpoints(
        self, speaker: StreamsMember, configured: ConfiguredTopology
    ) -> tuple[EndpointPartitions, ...]:
        others = [one for one in self.group.members.values() if one.member_id != speaker.member_id]
        return tuple(
            EndpointPartitions(
                host=one.about.endpoint[0],
                port=one.about.endpoint[1],
                active=self._partitions(one.current.assigned.undated().active, configured),
                standby=self._partitions(one.current.assigned.standby, configured),
            )
            for one in (*others, speaker)
            if one.about.endpoint is not None
        )

    def _partitions(
        self, tasks: Tasks, configured: ConfiguredTopology
    ) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return the partitions of source topics that tasks read."""
        found = []
        for part, numbers in tasks.items():
            known = (configured.subtopologies or {}).get(part)
            for topic in sorted(known.inputs if known is not None else ()):
                shape = self.topics.find(topic)
                if shape is not None:
                    # Of a topic with fewer partitions than tasks only the first.
                    count = min(len(numbers), shape.partitions)
                    found.append((topic, tuple(sorted(numbers)[:count])))
        return tuple(found)

    # --- leaving, and time --------------------------------------------------------------------------

    def leave(self, command: StreamsHeartbeat) -> StreamsHeartbeatAnswer:
        """Remove a member, which may ask the whole application to stop."""
        if command.shutdown:
            self.group.shutdown_by = self.group.shutdown_by or command.member_id
        self.fence([self.existing(command.member_id)])
        return StreamsHeartbeatAnswer(member_id=command.member_id, epoch=command.epoch)

    def fence(self, members: Iterable[StreamsMember]) -> None:
        """Remove members; the others get their tasks with the next targets."""
        group = self.group
        epoch = group.epoch
        for member in members:
            for kind in (StreamsKind.CURRENT, StreamsKind.TARGET, StreamsKind.MEMBER):
                self.out.records.append(
                    StreamsForgotten(group_id=group.group_id, kind=kind, name=member.member_id)
                )
            epoch += 1
        if epoch != group.epoch:
            self._store_epoch(
                epoch, group.metadata_hash, group.validated_epoch, group.assignment_configs
            )

    def expire(self) -> None:
        """Remove late members, and make the first targets of a new group when its delay is over."""
        self.fence(self.group.take_late(self.now))
        group = self.group
        if group.first_targets_ms is None or group.first_targets_ms > self.now.steady_ms:
            return
        group.first_targets_ms = None
        if self.out.records or not group.members or group.configured is None:
            return  # the next heartbeat makes them
        if group.epoch > group.target_epoch and self._may_assign():
            standbys = dict(group.assignment_configs).get(STANDBYS, "0")
            self.settings = replace(self.settings, standby_replicas=int(standbys))
            self._assign({}, group.epoch, group.configured)


def _about(before: StreamsMemberStored, command: StreamsHeartbeat) -> StreamsMemberStored:
    epoch = None if command.topology is None else command.topology.epoch
    return replace(
        before,
        rack_id=_or(command.rack_id, before.rack_id),
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=_or(command.rebalance_timeout_ms, before.rebalance_timeout_ms),
        topology_epoch=_or(epoch, before.topology_epoch),
        process_id=_or(command.process_id, before.process_id),
        endpoint=_or(command.endpoint, before.endpoint),
        client_tags=_or(command.client_tags, before.client_tags),
    )


def _or(said: SaidT | None, before: SaidT) -> SaidT:
    return before if said is None else said


def _check_tasks(command: StreamsHeartbeat, configured: ConfiguredTopology) -> None:
    """Raise ``InvalidRequest`` for tasks that do not exist."""
    assert configured.subtopologies is not None
    for tasks in (command.active, command.standby, command.warmup):
        for part, numbers in (tasks or {}).items():
            known = configured.subtopologies.get(part)
            if known is None:
                raise InvalidRequest(f"Subtopology {part} does not exist in the topology.")
            for number in numbers:
                if not 0 <= number < known.tasks:
                    raise InvalidRequest(
                        f"Task {number} for subtopology {part} is invalid. Number of tasks for "
                        f"this subtopology: {known.tasks}"
                    )


def _is_within(owned: TaskSet | None, assigned: TaskSet) -> bool:
    if owned is None:
        return False
    return all(
        part in has and numbers <= has[part]
        for said, has in zip(owned, assigned, strict=True)
        for part, numbers in said.items()
    )
