"""One change of one partition: who leads, who is in sync and where its replicas are, decided together.

The rules are Apache Kafka's. A leader that can go on does, unless the preferred one is asked for. A new one
comes from the in-sync replicas in the order of the replica list: whoever is not in sync may lack what was
acknowledged. If none of them is up the partition has no leader and waits, unless an old copy is allowed to
lead (unclean). The last in-sync replica is not struck off, because it is the one that has everything; unless
its disk was replaced: then nobody has, and old copies must not be cut after a leader that has nothing. A new
leader epoch begins when the leader changes or a replica goes; who is in sync changes without one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from millpond.base.ids import NodeId
from millpond.metadata.image import Image, PartitionImage
from millpond.metadata.records import (
    LEADER_UNCHANGED,
    NO_DIRECTORY,
    NO_LEADER,
    PartitionChangeRecord,
)

MayLead: TypeAlias = Callable[[NodeId], bool]
Nodes: TypeAlias = tuple[NodeId, ...]


class Election(Enum):
    """Whom to prefer."""

    ONLINE = "online"  # any in-sync replica
    PREFERRED = "preferred"  # the first replica, if it is in sync
    UNCLEAN = "unclean"  # any in-sync replica, or else any that is up


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a partition is to become; None leaves a part as it is."""

    isr: Nodes | None = None
    replicas: Nodes | None = None
    removing: Nodes | None = None
    adding: Nodes | None = None
    recovering: bool | None = None
    # Nobody needs to be left in sync.
    even_the_last: bool = False
    election: Election = Election.ONLINE


@dataclass(slots=True)
class _Target:
    isr: Nodes
    replicas: Nodes
    removing: Nodes
    adding: Nodes


def partition_change(
    topic_id: UUID, index: int, before: PartitionImage, wish: Wish, may_lead: MayLead
) -> PartitionChangeRecord | None:
    """The fact that fulfils the wish, and ends a move whose time has come; None if nothing changes."""
    target = _Target(
        isr=before.isr if wish.isr is None else wish.isr,
        replicas=before.replicas if wish.replicas is None else wish.replicas,
        removing=before.removing if wish.removing is None else wish.removing,
        adding=before.adding if wish.adding is None else wish.adding,
    )
    _end_reassignment(target)
    leader, is_unclean = _elect(before, target, wish.election, may_lead)
    isr = target.isr if target.isr or wish.even_the_last else before.isr
    recovering = before.recovering if wish.recovering is None else wish.recovering
    if is_unclean:
        isr, recovering = (leader,), True
    is_new_epoch = (
        leader != before.leader or is_unclean or not set(before.replicas) <= set(target.replicas)
    )
    moved = target.replicas != before.replicas
    change = PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=None if set(isr) == set(before.isr) else isr,
        leader=leader if is_new_epoch else LEADER_UNCHANGED,
        replicas=target.replicas if moved else None,
        removing=None if target.removing == before.removing else target.removing,
        adding=None if target.adding == before.adding else target.adding,
        recovering=None if recovering == before.recovering else recovering,
        directories=(NO_DIRECTORY,) * len(target.replicas) if moved else None,
    )
    return (
        None if change == PartitionChangeRecord(partition_id=index, topic_id=topic_id) else change
    )


def active_in(
    image: Image, *, added: Iterable[NodeId] = (), removed: Iterable[NodeId] = ()
) -> MayLead:
    """Who may lead, with these nodes taken as up or as down whatever the image says."""
    up, down = frozenset(added), frozenset(removed)
    return lambda node: node not in down and (node in up or image.is_active(node))


def _end_reassignment(target: _Target) -> None:
    """When every replica that stays is in sync, those that are to go do."""
    if not (target.removing or target.adding):
        return
    isr = tuple(node for node in target.isr if node not in target.removing)
    replicas = tuple(node for node in target.replicas if node not in target.removing)
    if isr and replicas and set(replicas) <= set(isr):
        target.isr, target.replicas = isr, replicas
        target.removing = target.adding = ()


def _elect(
    before: PartitionImage, target: _Target, election: Election, may_lead: MayLead
) -> tuple[NodeId, bool]:
    """The leader, and whether it was not in sync."""
    in_sync = [node for node in target.replicas if node in target.isr and may_lead(node)]
    if election is Election.PREFERRED and in_sync and in_sync[0] == target.replicas[0]:
        return in_sync[0], False
    if before.leader in in_sync:
        return before.leader, False
    if in_sync:
        return in_sync[0], False
    if election is Election.UNCLEAN:
        standing = next((node for node in target.replicas if may_lead(node)), None)
        if standing is not None:
            return standing, True
    return NO_LEADER, False
