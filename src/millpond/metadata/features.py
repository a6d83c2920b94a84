"""The features of the cluster: which levels this program can work at, and the change from one to another.

A feature at level 0 is off. Which levels there are is Kafka's, but for ``millpond.version`` (``levels.py``),
which says what nodes of different releases may write for each other to read; what Kafka's levels of
``metadata.version`` bring is read by every release, so that going up there needs nothing but the word.
A level is raised when every node that is registered can work at it, and a node that cannot is not let in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from millpond.base.errors import InvalidUpdateVersion
from millpond.base.ids import NodeId
from millpond.metadata.image import BrokerImage, Image
from millpond.metadata.levels import (
    DIRECTORIES,
    ELIGIBLE_LEADERS,
    MILLPOND_VERSION,
    RELAYED_QUEUES,
    SEVERAL_LAST_KNOWN_LEADERS,
    SHORT_LEASES,
)
from millpond.metadata.levels import NEWEST as NEWEST_LEVEL
from millpond.metadata.records import FeatureLevelRecord, FeatureLevels

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"

MIN_ISR_SETTING: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """The levels that this program can work at, and the one that a new cluster begins at."""

    lowest: int
    highest: int
    initial: int


# Level 7 of the metadata is Kafka 3.3's, 25 is 4.0's and 30 is 4.3's.
SUPPORTED: Final[Mapping[str, FeatureRange]] = {
    GROUP_VERSION: FeatureRange(lowest=0, highest=1, initial=1),
    # Voters come from the settings until the first change writes them into the log, at either level.
    KRAFT_VERSION: FeatureRange(lowest=0, highest=1, initial=0),
    METADATA_VERSION: FeatureRange(lowest=7, highest=30, initial=30),
    MILLPOND_VERSION: FeatureRange(lowest=0, highest=NEWEST_LEVEL, initial=NEWEST_LEVEL),
    SHARE_VERSION: FeatureRange(lowest=0, highest=1, initial=1),
    STREAMS_VERSION: FeatureRange(lowest=0, highest=1, initial=1),
    # From level 2 on producers leave it to us to add partitions to transactions (KIP-890).
    TRANSACTION_VERSION: FeatureRange(lowest=0, highest=2, initial=2),
    # KIP-966; in force together with our own level, since older releases say 1 and do nothing for it.
    ELIGIBLE_LEADER_REPLICAS: FeatureRange(lowest=0, highest=1, initial=1),
}


def own_features() -> tuple[FeatureLevels, ...]:
    """What this program says of itself when it registers."""
    return tuple(
        FeatureLevels(name=name, lowest=one.lowest, highest=one.highest)
        for name, one in SUPPORTED.items()
    )


def keeps_eligible_leaders(image: Image) -> bool:
    """Whether every controller that there may be keeps eligible leaders."""
    return (
        image.features.get(MILLPOND_VERSION, 0) >= ELIGIBLE_LEADERS
        and image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0
    )


def knows_directories(image: Image) -> bool:
    """Whether every controller that there may be goes by the directories that replicas lie in."""
    return image.features.get(MILLPOND_VERSION, 0) >= DIRECTORIES


def keeps_several_last_known_leaders(image: Image) -> bool:
    """Whether every controller that there may be elects one of several last known leaders."""
    return image.features.get(MILLPOND_VERSION, 0) >= SEVERAL_LAST_KNOWN_LEADERS


def has_short_lease(broker: BrokerImage) -> bool:
    """Whether a node stops leading after ``broker.silence.timeout.ms`` without an answer of the controller,
    so that others may lead in its place from then on. Its registration says so, whatever level is in force.
    """
    understood = _understood(broker, MILLPOND_VERSION)
    return understood is not None and understood[1] >= SHORT_LEASES


def knows_relayed_queues(broker: BrokerImage) -> bool:
    """Whether a node understands requests about queues that are passed on, as the third or as the host."""
    understood = _understood(broker, MILLPOND_VERSION)
    return understood is not None and understood[1] >= RELAYED_QUEUES


class Direction(IntEnum):
    """Which way a change may go; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChange:
    """A feature that is to be at another level. A ``direction`` of None: an unknown feature."""

    name: str
    level: int
    direction: Direction | None


def first_levels(image: Image, *, fresh: bool, is_alone: bool = False) -> list[FeatureLevelRecord]:
    """The facts that a start must add: all levels of a new cluster, new features of an old one.

    A node that is alone waits for no other node and goes to its newest level at once.
    """
    levels = {
        name: one.initial
        for name, one in SUPPORTED.items()
        if one.initial and (fresh or (name not in image.features and name in _ADDED_LATER))
    }
    if is_alone and image.features.get(MILLPOND_VERSION, 0) < NEWEST_LEVEL:
        levels[MILLPOND_VERSION] = NEWEST_LEVEL
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def beyond(image: Image) -> str | None:
    """A level in force that this program cannot work at, in words; nothing if there is none."""
    for name, level in image.features.items():
        known = SUPPORTED.get(name)
        if known is None or level > known.highest:
            most = f"only up to {known.highest}" if known is not None else "not at all"
            return (
                f"the metadata are at level {level} of {name}, which this version of Millpond knows {most}: "
                "a newer one wrote them; use that"
            )
    return None


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


# What was written at a level cannot be unwritten.
_ONE_WAY = frozenset({METADATA_VERSION, MILLPOND_VERSION})


def _reason_of_nodes(image: Image, change: FeatureChange, own: NodeId) -> str | None:
    """Why a node cannot work at this level; one that is away is meant to come back."""
    for node, broker in sorted(image.brokers.items()):
        if node == own:
            continue
        understood = _understood(broker, change.name)
        if understood is None:
            return f"Broker {node} does not support this feature."
        lowest, highest = understood
        if not lowest <= change.level <= highest:
            return f"Broker {node} only supports versions {lowest}-{highest}"
    return None


def _understood(broker: BrokerImage, name: str) -> tuple[int, int] | None:
    for one in broker.features:
        if one.name == name:
            return one.lowest, one.highest
    return None


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
    elif change.name in _ONE_WAY and change.level < now:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    else:
        reason = _reason_of_nodes(image, change, node_id)
    if reason is not None:
        raise InvalidUpdateVersion(
            f"Invalid update version {change.level} for feature {change.name}. {reason}"
        )
