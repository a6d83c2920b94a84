"""The quorum as its leader sees it: who votes, who follows, and how far each has come."""

from collections.abc import Iterator
from dataclasses import dataclass

from millpond.base.errors import NotLeader
from millpond.base.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from millpond.raft.leading import OBSERVER_SILENT_MS_MAX, latest_progress
from millpond.raft.messages import ReplicaKey
from millpond.raft.replica import Replica
from millpond.raft.roles import Leader, Progress
from millpond.raft.voters import Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """One replica; -1 for what is not known. Times as people see them."""

    key: ReplicaKey
    end_offset: Offset = -1
    fetched_ms: TimestampMs = -1
    caught_up_ms: TimestampMs = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """Who keeps the metadata, and how far."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]
    nodes: tuple[Voter, ...]


def describe_quorum(
    replica: Replica, *, monotonic_ms: TimestampMs, now_ms: TimestampMs
) -> QuorumDescription:
    """The quorum as this replica, which must lead it, sees it. Raises ``NotLeader``."""
    role = replica.role
    if not isinstance(role, Leader):
        raise NotLeader(
            f"node {replica.key} does not lead the quorum; "
            + (f"node {replica.leader} does" if replica.leader is not None else "no node does")
        )
    offset_ms = now_ms - monotonic_ms

    def shown(key: ReplicaKey, progress: Progress) -> ReplicaProgress:
        return ReplicaProgress(
            key=key,
            end_offset=progress.end_offset,
            fetched_ms=_wall(progress.fetched_ms, offset_ms),
            caught_up_ms=_wall(progress.caught_up_ms, offset_ms),
        )

    def voters() -> Iterator[ReplicaProgress]:
        for voter in replica.voters:
            if voter.key.id == replica.key.id:
                end = replica.log.end_offset
                yield ReplicaProgress(
                    key=replica.key, end_offset=end, fetched_ms=now_ms, caught_up_ms=now_ms
                )
            else:
                found = latest_progress(role, replica.voters, voter)
                yield shown(*found) if found is not None else ReplicaProgress(key=voter.key)

    observers = (
        shown(key, progress)
        for key, progress in sorted(role.progress.items(), key=lambda item: item[0].id)
        if not replica.voters.has(key)
        and monotonic_ms - progress.fetched_ms < OBSERVER_SILENT_MS_MAX
    )
    return QuorumDescription(
        leader_id=replica.key.id,
        leader_epoch=replica.epoch,
        high_watermark=replica.high_watermark,
        voters=tuple(voters()),
        observers=tuple(observers),
        nodes=tuple(replica.voters),
    )


def _wall(at_ms: TimestampMs, offset_ms: int) -> TimestampMs:
    return at_ms + offset_ms if at_ms >= 0 else -1
