"""One change of one partition: who leads, who is in sync and where its replicas are, decided together.

The rules are Apache Kafka's. A leader that can go on does, unless the preferred one is asked for. A new one
comes from the in-sync replicas in the order of the replica list: a replica that is not in sync may lack
acknowledged records. A new leader epoch begins when the leader changes or a replica goes; who is in sync
changes without one.

Below ``min.insync.replicas`` nothing more is committed, so the replicas that were in sync then have all
committed records: they are kept as eligible leaders (KIP-966) and one of them leads when no replica is in
sync any more. A replica whose disk may have lost something is neither in sync nor eligible. Such a replica,
and one whose node fell silent or started again, is kept as a last known leader: where no replica is in sync
or eligible, the first of these leads when it is up, and is said to be recovering. The replica that lost its
place last comes first, since it was in sync for the longest time. One that has named what it lost is a last
known leader only when no other replica is one, so that the next of the list takes its place. One whose disk
was replaced has nothing and is none; the copies that are left then wait for an unclean election. The list
ends when a leader that is known to run goes on without these replicas (``PartitionTarget.is_led``); until
then it may be that all nodes lost their power at once, and that the leader of the metadata has never led.

A replica in a log directory that is offline is as one of a node that is down: it does not lead, whatever it
has. Replicas that stay keep their directories; a new one lies in the only directory of its node, or is
unassigned until its node has said where (KIP-858).

Where eligible leaders are not kept (nodes of an older release are about), the last in-sync replica is not
struck off, whatever became of it, unless its disk was replaced.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from millpond.base.ids import NodeId
from millpond.metadata.features import keeps_several_last_known_leaders, knows_directories
from millpond.metadata.image import Image, PartitionImage
from millpond.metadata.records import (
    LEADER_UNCHANGED,
    NO_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    PartitionChangeRecord,
)

Nodes: TypeAlias = tuple[NodeId, ...]


class Election(Enum):
    """Whom to prefer."""

    ONLINE = "online"  # any in-sync replica
    PREFERRED = "preferred"  # the first replica, if it is in sync
    UNCLEAN = "unclean"  # any in-sync replica, or else any that is up


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """What a partition is to become; None leaves a part as it is."""

    isr: Nodes | None = None
    replicas: Nodes | None = None
    removing: Nodes | None = None
    adding: Nodes | None = None
    recovering: bool | None = None
    # Whose disk may lack what it had, and whose has nothing of it. Neither may be left in ``isr``.
    lost: Nodes = ()
    emptied: Nodes = ()
    # Whose process ended or fell silent. What it had it still has.
    silent: Nodes = ()
    # Nodes whose replica lies in another directory than the metadata say.
    placed: tuple[tuple[NodeId, UUID], ...] = ()
    # The leader is known to run: replicas that lost their place before have less than it has.
    is_led: bool = False
    election: Election = Election.ONLINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """Which nodes are up, and which of their directories are online."""

    image: Image
    # Taken as up or as down whatever the image says.
    added: frozenset[NodeId]
    removed: frozenset[NodeId]

    def may_lead(self, node: NodeId, directory: UUID) -> bool:
        """Whether a replica of this node in this directory may lead."""
        if node in self.removed or not (node in self.added or self.image.is_active(node)):
            return False
        broker = self.image.brokers.get(node)
        return broker is None or broker.has_online(directory)


@dataclass(slots=True)
class _Target:
    isr: Nodes
    replicas: Nodes
    removing: Nodes
    adding: Nodes
    eligible: Nodes = ()
    last_known: Nodes = ()
    # By node.
    directories: dict[NodeId, UUID] = field(default_factory=dict)


class _How(Enum):
    """How a leader came to it."""

    IN_SYNC = "in sync"
    ELIGIBLE = "eligible"
    BEHIND = "behind"
    NONE = "none"


def partition_change(
    topic_id: UUID,
    index: int,
    before: PartitionImage,
    wanted: PartitionTarget,
    available: Available,
    *,
    min_isr: int | None = None,
) -> PartitionChangeRecord | None:
    """Return the record that makes the change and ends a completed reassignment; None if nothing changes.

    ``min_isr`` are so many as the topic wants to be in sync; None where no eligible leaders are kept.
    """
    target = _Target(
        isr=before.isr if wanted.isr is None else wanted.isr,
        replicas=before.replicas if wanted.replicas is None else wanted.replicas,
        removing=before.removing if wanted.removing is None else wanted.removing,
        adding=before.adding if wanted.adding is None else wanted.adding,
    )
    _end_reassignment(target)
    target.eligible = _eligible(before, target, wanted, min_isr)
    gone = (*wanted.lost, *(node for node in wanted.silent if node not in target.eligible))
    keeps_several = min_isr is not None and keeps_several_last_known_leaders(available.image)
    target.last_known = tuple(
        node
        for node in dict.fromkeys((*(gone if keeps_several else ()), *before.last_known_leaders))
        if node in target.replicas and node not in wanted.emptied
    )
    target.directories = _directories(before, target, wanted, available.image)
    leader, how = _elect(before, target, wanted.election, available)
    recovering = before.recovering if wanted.recovering is None else wanted.recovering
    if how is _How.BEHIND:
        target.isr, target.eligible, recovering = (leader,), (), True
    elif how is _How.ELIGIBLE:
        target.isr = (leader,)
        target.eligible = tuple(node for node in target.eligible if node != leader)
    elif not target.isr and min_isr is None and not wanted.emptied:
        target.isr = tuple(node for node in before.isr if node in target.replicas)
    if leader == NO_LEADER:
        target.last_known = _last_known(before, target, wanted, keeps_several=keeps_several)
    elif how is _How.BEHIND or wanted.is_led or not keeps_several:
        target.last_known = ()
    else:
        # The metadata may have a leader that is down as well: a loss of power takes all nodes at once.
        target.last_known = tuple(node for node in target.last_known if node not in target.isr)
    is_new_epoch = (
        leader != before.leader
        or how is _How.BEHIND
        or not set(before.replicas) <= set(target.replicas)
    )
    moved = target.replicas != before.replicas
    placed = any(before.directory_of(node) != one for node, one in target.directories.items())
    change = PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=None if set(target.isr) == set(before.isr) else target.isr,
        leader=leader if is_new_epoch else LEADER_UNCHANGED,
        replicas=target.replicas if moved else None,
        removing=None if target.removing == before.removing else target.removing,
        adding=None if target.adding == before.adding else target.adding,
        recovering=None if recovering == before.recovering else recovering,
        directories=tuple(target.directories.values()) if moved or placed else None,
        eligible_leaders=None
        if set(target.eligible) == set(before.eligible_leaders)
        else target.eligible,
        last_known_leaders=None
        if target.last_known == before.last_known_leaders
        else target.last_known,
    )
    return (
        None if change == PartitionChangeRecord(partition_id=index, topic_id=topic_id) else change
    )


def active_in(
    image: Image, *, added: Iterable[NodeId] = (), removed: Iterable[NodeId] = ()
) -> Available:
    """Who may lead, with these nodes taken as up or as down whatever the image says."""
    return Available(image=image, added=frozenset(added), removed=frozenset(removed))


def new_directory(image: Image, node: NodeId) -> UUID:
    """Where this node keeps a replica that it is given: in its only directory, or it says so itself."""
    if not knows_directories(image):
        return NO_DIRECTORY
    broker = image.brokers.get(node)
    if broker is None or len(broker.log_dirs) > 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0] if broker.log_dirs else NO_DIRECTORY


def _directories(
    before: PartitionImage, target: _Target, wanted: PartitionTarget, image: Image
) -> dict[NodeId, UUID]:
    """The directory of each replica, in the order of the replicas."""
    placed = dict(wanted.placed)
    return {
        node: placed[node]
        if node in placed
        else before.directory_of(node)
        if node in before.replicas
        else new_directory(image, node)
        for node in target.replicas
    }


def _end_reassignment(target: _Target) -> None:
    """When every replica that stays is in sync, those that are to go do."""
    if not (target.removing or target.adding):
        return
    isr = tuple(node for node in target.isr if node not in target.removing)
    replicas = tuple(node for node in target.replicas if node not in target.removing)
    if isr and replicas and set(replicas) <= set(isr):
        target.isr, target.replicas = isr, replicas
        target.removing = target.adding = ()


def _eligible(
    before: PartitionImage, target: _Target, wanted: PartitionTarget, min_isr: int | None
) -> Nodes:
    """Who has all that is committed without being in sync."""
    if min_isr is None:
        # No replica is added; those that were eligible when none was in sync any more still are.
        were = () if target.isr else before.eligible_leaders
    elif len(target.isr) >= min(min_isr, len(target.replicas)):
        were = ()
    else:
        were = (*before.eligible_leaders, *before.isr)
    gone = {*target.isr, *wanted.lost, *wanted.emptied}
    return tuple(node for node in target.replicas if node in were and node not in gone)


def _elect(
    before: PartitionImage, target: _Target, election: Election, available: Available
) -> tuple[NodeId, _How]:
    """The leader, and what speaks for it."""

    def may_lead(node: NodeId) -> bool:
        return available.may_lead(node, target.directories[node])

    how = _How.IN_SYNC if target.isr else _How.ELIGIBLE
    worthy = target.isr or target.eligible
    standing = [node for node in target.replicas if node in worthy and may_lead(node)]
    if election is Election.PREFERRED and standing and standing[0] == target.replicas[0]:
        return standing[0], how
    if before.leader in standing:
        return before.leader, how
    if standing:
        return standing[0], how
    # Only the first: the others may lack what it has committed since they lost their place.
    last = target.last_known[:1]
    if not worthy and last and may_lead(last[0]):
        return last[0], _How.BEHIND
    if election is Election.UNCLEAN:
        behind = next((node for node in target.replicas if may_lead(node)), None)
        if behind is not None:
            return behind, _How.BEHIND
    return NO_LEADER, _How.NONE


def _last_known(
    before: PartitionImage, target: _Target, wanted: PartitionTarget, *, keeps_several: bool
) -> Nodes:
    """The last known leaders of a partition that has no leader: the one that led last is the first."""
    if target.isr or (target.last_known and not keeps_several):
        return target.last_known
    last: Nodes = (before.leader,) if before.leader != NO_LEADER else ()
    if not last and not target.last_known:
        # Metadata of an older release have partitions that wait for the one that is in sync. Where only one
        # is kept and it has named its loss, the next that is struck off takes its place.
        last = before.isr[:1] or (() if target.eligible else wanted.lost)
    return tuple(
        node
        for node in dict.fromkeys((*last, *target.last_known))
        if node in target.replicas and node not in wanted.emptied
    )
