"""The features of the cluster: which levels this program can work at, and the change from one to another.

A feature at level 0 is off. Which levels there are is Kafka's; the facts are written in a form that every
level of ``metadata.version`` can read, so that going up needs nothing but the word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from millpond.base.errors import InvalidUpdateVersion
from millpond.base.ids import NodeId
from millpond.metadata.image import Image
from millpond.metadata.records import FeatureLevelRecord

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """The levels that this program can work at, and the one that a new cluster begins at."""

    lowest: int
    highest: int
    initial: int


# Level 7 of the metadata is Kafka 3.3's, 25 is 4.0's and 30 is 4.3's.
SUPPORTED: Final[Mapping[str, FeatureRange]] = {
    GROUP_VERSION: FeatureRange(lowest=0, highest=1, initial=1),
    # The set of voters is one node: nothing changes it yet.
    KRAFT_VERSION: FeatureRange(lowest=0, highest=0, initial=0),
    METADATA_VERSION: FeatureRange(lowest=7, highest=30, initial=30),
    SHARE_VERSION: FeatureRange(lowest=0, highest=1, initial=1),
    STREAMS_VERSION: FeatureRange(lowest=0, highest=1, initial=1),
    # From level 2 on producers leave it to us to add partitions to transactions (KIP-890).
    TRANSACTION_VERSION: FeatureRange(lowest=0, highest=2, initial=2),
    # The last in-sync replica is never struck off, so there is never another to elect (KIP-966).
    ELIGIBLE_LEADER_REPLICAS: FeatureRange(lowest=0, highest=1, initial=1),
}


class Direction(IntEnum):
    """Which way a change may go; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChange:
    """A feature that is to be at another level. ``direction`` of None: one that nobody knows."""

    name: str
    level: int
    direction: Direction | None


def first_levels(image: Image, *, fresh: bool) -> list[FeatureLevelRecord]:
    """The facts that a start must add: all levels of a new cluster, new features of an old one."""
    return [
        FeatureLevelRecord(name=name, feature_level=one.initial)
        for name, one in SUPPORTED.items()
        if one.initial and (fresh or (name not in image.features and name in _ADDED_LATER))
    ]


# Features that directories of older versions of this program lack, and that were in force all the same.
_ADDED_LATER = frozenset({TRANSACTION_VERSION, SHARE_VERSION, GROUP_VERSION})


def decide_update_features(
    image: Image, changes: Sequence[FeatureChange], *, node_id: NodeId
) -> tuple[FeatureLevelRecord, ...]:
    """The facts of these changes; all of them or none. Raises ``InvalidUpdateVersion``."""
    # Of two changes of one feature the last counts.
    wanted = {change.name: change for change in changes}
    for change in wanted.values():
        _check(image, change, node_id)
    return tuple(
        FeatureLevelRecord(name=change.name, feature_level=change.level)
        for change in wanted.values()
        if image.features.get(change.name, 0) != change.level
    )


def _check(image: Image, change: FeatureChange, node_id: NodeId) -> None:
    known = SUPPORTED.get(change.name)
    now = image.features.get(change.name, 0)
    reason = None
    if change.direction is None:
        reason = "The controller does not support the given upgrade type."
    elif change.level < 0:
        reason = "A feature version cannot be less than 0."
    elif known is None:
        reason = f"Local controller {node_id} does not support this feature."
    elif not known.lowest <= change.level <= known.highest:
        reason = f"Local controller {node_id} only supports versions {known.lowest}-{known.highest}"
    elif change.level < now and change.direction is Direction.UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either "
            "safe or unsafe downgrade."
        )
    elif change.level > now and change.direction is not Direction.UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif change.name == METADATA_VERSION and change.level < now:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if reason is not None:
        raise InvalidUpdateVersion(
            f"Invalid update version {change.level} for feature {change.name}. {reason}"
        )
