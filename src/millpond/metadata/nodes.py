"""Nodes join, are heard of, fall silent, stop and are forgotten: the facts of each.

A node that registers is fenced: known, but serving no client, until it has read the metadata up to its own
registration. Its epoch is the offset of that registration, so a later one is always higher, and what an
earlier life of the node still says is refused. A node that is fenced leads nothing and is in sync nowhere.
Whether its disk has kept what it had is its own word, and is believed only if it names the registration that
is in force: its epoch, or the incarnation that asked for it and may have ended before it heard the epoch.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from millpond.base.errors import (
    DuplicateRegistration,
    InvalidRegistration,
    NodeNotRegistered,
    StaleBrokerEpoch,
    UnsupportedVersion,
    WrongCluster,
)
from millpond.base.ids import NodeId, Offset
from millpond.metadata.directories import (
    decide_directories,
    decide_replaced_directories,
    decide_without_directories,
)
from millpond.metadata.elections import (
    Rules,
    decide_emptied,
    decide_started,
    decide_stopped,
    decide_unsure,
)
from millpond.metadata.features import knows_directories
from millpond.metadata.image import BrokerImage, Image, apply
from millpond.metadata.records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FeatureLevels,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    is_reserved_directory,
)
from millpond.metadata.sessions import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A node that wants to take part."""

    node_id: NodeId
    cluster_id: str
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    rack: str | None
    log_dirs: tuple[UUID, ...]
    features: tuple[FeatureLevels, ...] = ()
    # The epoch of an earlier registration since which its disk has lost nothing, -1 if there is none; and the
    # incarnations that asked for later ones.
    previous_epoch: int = -1
    previous_incarnations: tuple[UUID, ...] = ()
    # Replicas (topic and partition) whose committed records are not on its disk any more.
    lost_replicas: tuple[tuple[UUID, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Facts to write, and the node's epoch."""

    records: tuple[MetadataRecord, ...]
    broker_epoch: int


def decide_register(
    image: Image,
    command: Registration,
    sessions: Sessions,
    *,
    cluster_id: str,
    next_offset: Offset,
    now_ms: int,
    rules: Rules,
    is_own: bool = False,
) -> Registered:
    """Register a node. ``is_own``: it is the controller's own process, so no other one of the node runs.

    Raises ``WrongCluster``, ``DuplicateRegistration``, ``InvalidRegistration``, ``UnsupportedVersion``.
    """
    if command.cluster_id != cluster_id:
        raise WrongCluster(
            f"Expected cluster ID {cluster_id}, but got cluster ID {command.cluster_id}"
        )
    known = image.brokers.get(command.node_id)
    if known is not None and not is_own:
        _check_duplicate(known, command, sessions, now_ms)
    _check_directories(image, command)
    _check_features(image, command)
    is_same = known is not None and known.incarnation_id == command.incarnation_id
    changes: list[MetadataRecord] = []
    kept = known is not None and (
        command.previous_epoch == known.broker_epoch
        or known.incarnation_id in command.previous_incarnations
    )
    if not (is_same or kept) and rules.keeps_eligible:
        # What its earlier life had in sync may not be on its disk any more.
        changes += decide_unsure(image, command.node_id, rules)
    elif known is not None and not is_same and not known.fenced:
        # Its earlier life ended without a word.
        changes += decide_stopped(image, command.node_id, rules, is_silent=True)
    replaced = known is None or not set(known.log_dirs) & set(command.log_dirs)
    if known is not None and known.log_dirs and replaced:
        changes += decide_emptied(apply(image, changes), command.node_id, rules)
    elif command.lost_replicas:
        lost = frozenset(command.lost_replicas)
        changes += decide_emptied(apply(image, changes), command.node_id, rules, only=lost)
    epoch = known.broker_epoch if known is not None and is_same else next_offset + len(changes)
    record = RegisterBrokerRecord(
        broker_id=command.node_id,
        incarnation_id=command.incarnation_id,
        broker_epoch=epoch,
        end_points=command.end_points,
        rack=command.rack,
        fenced=known.fenced if known is not None and is_same else True,
        log_dirs=command.log_dirs,
        features=command.features,
        in_controlled_shutdown=known is not None and is_same and known.in_controlled_shutdown,
    )
    records: list[MetadataRecord] = [*changes, record]
    if knows_directories(image):
        offline = known.offline_dirs if known is not None and is_same else ()
        if still := tuple(one for one in command.log_dirs if one in offline):
            # The same life: what it last called offline is so until its next heartbeat.
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=command.node_id,
                    broker_epoch=epoch,
                    log_dirs=tuple(one for one in command.log_dirs if one not in still),
                )
            )
        after = apply(image, records)
        if replaced:
            records += decide_replaced_directories(after, command.node_id, rules)
        else:
            records += decide_without_directories(after, command.node_id, rules)
    return Registered(records=tuple(records), broker_epoch=epoch)


def _check_duplicate(
    known: BrokerImage, command: Registration, sessions: Sessions, now_ms: int
) -> None:
    if known.incarnation_id == command.incarnation_id or not sessions.is_live(
        command.node_id, now_ms
    ):
        return
    # Heard of by a predecessor only: a directory of its means the same node, which has started again.
    if not sessions.is_first_hand(command.node_id) and (
        known.log_dirs == command.log_dirs or set(known.log_dirs) & set(command.log_dirs)
    ):
        return
    raise DuplicateRegistration(
        f"Another broker is registered with that broker id: node {command.node_id} is running, or was until "
        "a moment ago; if it was, this registration will succeed when its session ends"
    )


def _check_directories(image: Image, command: Registration) -> None:
    if len(set(command.log_dirs)) != len(command.log_dirs):
        raise InvalidRegistration("Duplicate directory ID in request")
    if knows_directories(image) and any(map(is_reserved_directory, command.log_dirs)):
        raise InvalidRegistration("Reserved directory ID in request")
    for node, broker in image.brokers.items():
        shared = set(broker.log_dirs) & set(command.log_dirs)
        if node != command.node_id and shared:
            raise InvalidRegistration(
                f"Broker {node} is already registered with directory {min(shared)}: node "
                f"{command.node_id} runs on a copy of its data"
            )


def _check_features(image: Image, command: Registration) -> None:
    if not command.features:
        return
    understood = {one.name: one for one in command.features}
    for name, level in image.features.items():
        one = understood.get(name)
        lowest, highest = (one.lowest, one.highest) if one is not None else (0, 0)
        if level and not lowest <= level <= highest:
            raise UnsupportedVersion(
                f"Unable to register because the broker does not support finalized version {level} of "
                f"{name}. The broker wants a version between {lowest} and {highest}, inclusive."
            )


# --- heartbeats -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A node is alive, has read the metadata up to this offset, and wants this."""

    node_id: NodeId
    broker_epoch: int
    metadata_offset: Offset
    wants_fence: bool = False
    wants_stop: bool = False
    # Directories of its that take no writes.
    offline_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatDecision:
    """Facts to write, and what the node is told."""

    records: tuple[MetadataRecord, ...]
    is_caught_up: bool
    is_fenced: bool
    may_stop: bool = False
    # It has begun to stop: the session remembers where the metadata stood.
    begins_to_stop: bool = False
    # Some of its directories went offline or came back.
    moves_directories: bool = False


def decide_heartbeat(
    image: Image, command: Heartbeat, sessions: Sessions, *, rules: Rules
) -> HeartbeatDecision:
    """What a heartbeat changes. Raises ``StaleBrokerEpoch``."""
    broker = check_epoch(image, command.node_id, command.broker_epoch)
    offline = frozenset(command.offline_dirs)
    records: list[MetadataRecord] = []
    if offline and (offline.issuperset(broker.log_dirs) or not knows_directories(image)):
        # It can neither take a write as a leader nor follow: others lead, and no leader waits for it. The
        # same holds for one directory of several while the metadata cannot name directories.
        command = replace(command, wants_fence=True)
    elif knows_directories(image):
        if command.wants_stop or broker.in_controlled_shutdown:
            # Nothing of a node that stops comes back before it has started again.
            offline = offline.union(broker.offline_dirs)
        records = decide_directories(image, broker, offline.intersection(broker.log_dirs), rules)
        image = apply(image, records)
        broker = image.brokers[command.node_id]
    decision = _decide_heartbeat(image, command, broker, sessions, rules)
    if not records:
        return decision
    return replace(decision, records=(*records, *decision.records), moves_directories=True)


def _decide_heartbeat(
    image: Image, command: Heartbeat, broker: BrokerImage, sessions: Sessions, rules: Rules
) -> HeartbeatDecision:
    # Who was given up may not know yet that others lead what it led.
    is_caught_up = command.metadata_offset >= max(
        broker.broker_epoch, sessions.must_know(command.node_id)
    )
    if broker.fenced:
        return _heartbeat_of_fenced(image, command, broker, is_caught_up, rules)
    if broker.in_controlled_shutdown:
        may_stop = not _leads(image, command.node_id) and _others_know(
            image, command.node_id, sessions
        )
    else:
        may_stop = command.wants_stop and (
            command.wants_fence or not _leads(image, command.node_id)
        )
    if may_stop or (command.wants_fence and not broker.in_controlled_shutdown):
        return HeartbeatDecision(
            records=decide_fence(image, broker, rules, is_silent=False),
            is_caught_up=is_caught_up,
            is_fenced=True,
            may_stop=may_stop,
        )
    records: list[MetadataRecord] = []
    begins = command.wants_stop and not broker.in_controlled_shutdown
    if begins:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                in_controlled_shutdown=True,
            )
        )
        records += decide_stopped(image, broker.broker_id, rules)
    return HeartbeatDecision(
        records=tuple(records), is_caught_up=is_caught_up, is_fenced=False, begins_to_stop=begins
    )


def _heartbeat_of_fenced(
    image: Image,
    command: Heartbeat,
    broker: BrokerImage,
    is_caught_up: bool,
    rules: Rules,
) -> HeartbeatDecision:
    # A node that has begun to stop comes back only by registering again.
    may_stop = command.wants_stop or broker.in_controlled_shutdown
    if may_stop or command.wants_fence or not is_caught_up:
        return HeartbeatDecision(
            records=(), is_caught_up=is_caught_up, is_fenced=True, may_stop=may_stop
        )
    return HeartbeatDecision(
        records=(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=False
            ),
            *decide_started(image, broker.broker_id, rules),
        ),
        is_caught_up=True,
        is_fenced=False,
    )


def _leads(image: Image, node: NodeId) -> bool:
    return any(
        partition.leader == node
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def _others_know(image: Image, node: NodeId, sessions: Sessions) -> bool:
    """Whether all that take over have read that they do."""
    stopping_at = sessions.stopping_at(node)
    active = [one for one, broker in image.brokers.items() if broker.is_active and one != node]
    lowest = sessions.lowest_offset(active)
    return stopping_at is None or lowest is None or lowest >= stopping_at


def decide_fence(
    image: Image, broker: BrokerImage, rules: Rules, *, is_silent: bool = True
) -> tuple[MetadataRecord, ...]:
    """A node may not serve any more: what it leads goes to others. See ``decide_stopped``."""
    return (
        *decide_stopped(image, broker.broker_id, rules, is_silent=is_silent),
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=True
        ),
    )


def decide_unregister(image: Image, node: NodeId, rules: Rules) -> tuple[MetadataRecord, ...]:
    """Forget a node that is not coming back, and with it which disk it had: it is in sync nowhere, not even
    where it was the last, because a node that registers under its id later may have another disk.

    Raises ``NodeNotRegistered``.
    """
    broker = image.brokers.get(node)
    if broker is None:
        raise NodeNotRegistered(f"Broker ID {node} is not currently registered")
    emptied = decide_emptied(image, node, rules)
    struck = {(record.topic_id, record.partition_id) for record in emptied}
    stopped = decide_stopped(image, node, rules)
    return (
        *emptied,
        *(one for one in stopped if (one.topic_id, one.partition_id) not in struck),
        UnregisterBrokerRecord(broker_id=node, broker_epoch=broker.broker_epoch),
    )


def check_epoch(image: Image, node: NodeId, broker_epoch: int) -> BrokerImage:
    """The node, if it speaks under its present registration. Raises ``StaleBrokerEpoch``."""
    broker = image.brokers.get(node)
    if broker is None:
        raise StaleBrokerEpoch(f"node {node} is not registered; it must register first")
    if broker.broker_epoch != broker_epoch:
        raise StaleBrokerEpoch(
            f"node {node} is registered under epoch {broker.broker_epoch}, not {broker_epoch}"
        )
    return broker
