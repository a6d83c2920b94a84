"""What the controller decides: a command and the image in, new facts and an answer for each part out.

Every function is pure. Nothing is changed here: the host appends the records, makes them durable,
applies them to the image and only then gives the answers. A refusal is a value (``error``), not an
exception, since one request carries many commands and each succeeds or fails alone. Chance comes in
as ``new_id``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

from millpond.base import limits
from millpond.base.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicName,
    MillpondError,
    PolicyViolation,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from millpond.base.ids import NodeId, ProducerId
from millpond.metadata.assignments import chosen, named, new_partition
from millpond.metadata.client_metrics import check_client_metrics, client_metrics_config_def
from millpond.metadata.config_def import ConfigDef, ConfigType
from millpond.metadata.configs import (
    broker_config_def,
    check_broker_overrides,
    check_topic_overrides,
    topic_config_def,
)
from millpond.metadata.features import MIN_ISR_SETTING, keeps_eligible_leaders
from millpond.metadata.group_configs import (
    check_group_bounds,
    check_group_overrides,
    group_config_def,
)
from millpond.metadata.image import Image, TopicImage, apply, unify_name
from millpond.metadata.levels import check_topic_settings
from millpond.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)

METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
TIMERS_TOPIC = "__timers"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, TIMERS_TOPIC})

# Producer ids are promised in blocks, so that one durable record covers many producers.
PRODUCER_ID_BLOCK = 1000

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


# --- topics -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What a topic gets where its creator says -1."""

    partitions: int = 1
    replication_factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A topic to make. ``assignments``, when given, lists the replicas of each partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[NodeId]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """The answer for one topic: the topic as it will be (or was), or why not."""

    name: str | None
    topic_id: UUID | None = None
    topic: TopicImage | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    error: MillpondError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision:
    """Facts to write and one answer a command, in the order asked."""

    records: tuple[MetadataRecord, ...]
    results: tuple[TopicResult, ...]


def check_topic_name(name: str) -> None:
    """Raise ``InvalidTopicName`` unless Kafka would allow the name."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > limits.TOPIC_NAME_CHARS_MAX:
        reason = (
            f"the length of '{name}' is longer than the max allowed length "
            f"{limits.TOPIC_NAME_CHARS_MAX}"
        )
    elif not _NAME_CHARACTERS.issuperset(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    elif name == METADATA_TOPIC:
        reason = f"'{name}' is the cluster's own log"
    if reason is not None:
        raise InvalidTopicName(f"Topic name is invalid: {reason}")


def decide_create_topics(
    image: Image,
    commands: Sequence[CreateTopic],
    *,
    defaults: TopicDefaults,
    new_id: Callable[[], UUID],
) -> TopicDecision:
    """Make topics; each alone succeeds or fails. A name asked for twice fails twice."""
    records: list[MetadataRecord] = []
    results = []
    repeated = _repeated(command.name for command in commands)
    unified: set[str] = set()  # names made by this very request
    asked = 0
    for command in commands:
        try:
            if command.name in repeated:
                raise InvalidRequest("Duplicate topic name.")
            _check_new_name(image, unified, command.name)
            topic_id = _usable_id(new_id)
            assignments = _assignments_of(image, topic_id, command, defaults)
            asked += len(assignments)
            if asked > limits.PARTITIONS_PER_REQUEST_MAX:
                raise PolicyViolation(
                    f"Excessively large number of partitions per request: more than "
                    f"{limits.PARTITIONS_PER_REQUEST_MAX}"
                )
            configs = _checked_settings(command.configs)
            check_topic_settings(configs, image.features)
        except MillpondError as error:
            results.append(TopicResult(name=command.name, error=error))
            continue
        unified.add(unify_name(command.name))
        made = _create_records(image, command.name, topic_id, assignments, configs)
        records += made
        topic = apply(Image(), made).topics[command.name]
        results.append(
            TopicResult(name=topic.name, topic_id=topic.topic_id, topic=topic, configs=configs)
        )
    return TopicDecision(records=tuple(records), results=tuple(results))


def decide_delete_topics(
    image: Image, targets: Sequence[tuple[str | None, UUID | None]]
) -> TopicDecision:
    """Remove topics named by name or by id."""
    records: list[MetadataRecord] = []
    results = []
    removed: set[UUID] = set()
    for name, topic_id in targets:
        topic: TopicImage | None
        error: MillpondError | None = None
        if name is not None:
            topic = image.topics.get(name)
            if topic is None:
                error = UnknownTopic("This server does not host this topic-partition.")
        else:
            topic = image.topics_by_id.get(topic_id) if topic_id is not None else None
            if topic is None:
                error = UnknownTopicId("This server does not host this topic ID.")
        if topic is not None and topic.topic_id in removed:
            error = InvalidRequest("Duplicate topic name.")
        if topic is None or error is not None:
            results.append(TopicResult(name=name, topic_id=topic_id, error=error))
            continue
        removed.add(topic.topic_id)
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        results.append(TopicResult(name=topic.name, topic_id=topic.topic_id, topic=topic))
    return TopicDecision(records=tuple(records), results=tuple(results))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """A topic to grow to ``count`` partitions; ``assignments`` are those of the new ones."""

    name: str
    count: int
    assignments: Sequence[Sequence[NodeId]] | None = None


def decide_create_partitions(image: Image, commands: Sequence[AddPartitions]) -> TopicDecision:
    """Grow topics. Partitions are never taken away."""
    records: list[MetadataRecord] = []
    results = []
    repeated = _repeated(command.name for command in commands)
    for command in commands:
        try:
            if command.name in repeated:
                raise InvalidRequest("Duplicate topic name.")
            topic = image.topics.get(command.name)
            if topic is None:
                raise UnknownTopic("This server does not host this topic-partition.")
            assignments = _added_assignments(image, topic, command)
        except MillpondError as error:
            results.append(TopicResult(name=command.name, error=error))
            continue
        first = len(topic.partitions)
        records += [
            new_partition(image, topic.topic_id, first + index, replicas)
            for index, replicas in enumerate(assignments)
        ]
        results.append(TopicResult(name=topic.name, topic_id=topic.topic_id, topic=topic))
    return TopicDecision(records=tuple(records), results=tuple(results))


def decide_new_epochs(image: Image, node_id: NodeId) -> tuple[MetadataRecord, ...]:
    """Start a new leader epoch of every partition this node leads.

    After an unclean stop the tail that clients saw may be gone; the new epoch lets them find that out
    (OffsetForLeaderEpoch) instead of reading on from a position that now means another record.
    """
    return tuple(
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=node_id)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == node_id
    )


def _check_new_name(image: Image, unified: Collection[str], name: str) -> None:
    check_topic_name(name)
    if name in image.topics:
        raise TopicExists(f"Topic '{name}' already exists.")
    key = unify_name(name)
    other = image.unified_names.get(key)
    if other is not None:
        raise InvalidTopicName(f"Topic '{name}' collides with existing topic: {other}")
    if key in unified:
        raise InvalidTopicName(f"Topic '{name}' collides with another topic of this request")


def _assignments_of(
    image: Image, topic_id: UUID, command: CreateTopic, defaults: TopicDefaults
) -> list[tuple[NodeId, ...]]:
    if command.assignments:
        return _manual_assignments(image, command)
    if command.replication_factor < -1 or command.replication_factor == 0:
        raise InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if command.partitions < -1 or command.partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = defaults.partitions if command.partitions == -1 else command.partitions
    if count > limits.PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"Excessively large number of partitions per request: {count}, more than "
            f"{limits.PARTITIONS_PER_REQUEST_MAX}"
        )
    factor = command.replication_factor
    if factor == -1:
        factor = defaults.replication_factor
    return chosen(image, topic_id, range(count), factor)


def _manual_assignments(image: Image, command: CreateTopic) -> list[tuple[NodeId, ...]]:
    if command.replication_factor != -1:
        raise InvalidRequest(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if command.partitions != -1:
        raise InvalidRequest(
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
    if sorted(command.assignments) != list(range(len(command.assignments))):
        raise InvalidReplicaAssignment(
            "partitions should be a consecutive 0-based integer sequence"
        )
    ordered = [command.assignments[index] for index in range(len(command.assignments))]
    return named(image, ordered, len(ordered[0]))


def _added_assignments(
    image: Image, topic: TopicImage, command: AddPartitions
) -> list[tuple[NodeId, ...]]:
    have = len(topic.partitions)
    if command.count == have:
        raise InvalidPartitions(f"Topic already has {have} partition(s).")
    if command.count < have:
        raise InvalidPartitions(
            f"The topic {topic.name} currently has {have} partition(s); {command.count} would not be "
            "an increase."
        )
    added = command.count - have
    if added > limits.PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"Excessively large number of partitions per request: {added}, more than "
            f"{limits.PARTITIONS_PER_REQUEST_MAX}"
        )
    factor = len(topic.partitions[0].replicas)
    if command.assignments is None:
        return chosen(image, topic.topic_id, range(have, command.count), factor)
    if len(command.assignments) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but {len(command.assignments)} "
            "assignment(s) were specified."
        )
    return named(image, command.assignments, factor, first=have)


def _create_records(
    image: Image,
    name: str,
    topic_id: UUID,
    assignments: list[tuple[NodeId, ...]],
    configs: Mapping[str, str],
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=name, name=key, value=value)
        for key, value in configs.items()
    ]
    records += [
        new_partition(image, topic_id, index, replicas)
        for index, replicas in enumerate(assignments)
    ]
    return records


def _usable_id(new_id: Callable[[], UUID]) -> UUID:
    """Kafka keeps ids below 100 for itself, and avoids those whose text form looks like an option ("-…")."""
    while True:
        topic_id = new_id()
        # The text form is base64: its first six bits 62 are the '-' of the URL alphabet.
        if topic_id.int >= 100 and topic_id.bytes[0] >> 2 != 62:
            return topic_id


def _repeated(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    twice: set[str] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return twice


# --- settings -----------------------------------------------------------------------------------


class AlterOp(IntEnum):
    """What to do with one setting; the numbers are those of the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """Settings of one topic (by name) or broker ("" = all brokers) to change.

    ``replace``: what is not named goes back to its default (the old AlterConfigs).
    """

    resource_type: int
    resource_name: str
    operations: Sequence[tuple[str, AlterOp, str | None]]
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResult:
    """The answer for one resource."""

    resource_type: int
    resource_name: str
    error: MillpondError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDecision:
    """Facts to write and one answer a resource, in the order asked."""

    records: tuple[MetadataRecord, ...]
    results: tuple[ConfigResult, ...]


def decide_alter_configs(
    image: Image,
    commands: Sequence[AlterConfigs],
    *,
    node_id: NodeId,
    effective: Callable[[int, str, str], str | None],
    broker: Mapping[str, Any] = MappingProxyType({}),
) -> ConfigDecision:
    """Change settings; a resource changes as a whole or not at all.

    ``effective(resource_type, resource_name, setting)`` is the text now in force, which APPEND and SUBTRACT
    start from. ``broker`` are the broker's settings, which bound those of groups.
    """
    records: list[MetadataRecord] = []
    results = []
    seen: set[tuple[int, str]] = set()
    for command in commands:
        key = (command.resource_type, command.resource_name)
        error: MillpondError | None = None
        try:
            if key in seen:
                raise InvalidRequest("Each resource must appear at most once.")
            seen.add(key)
            changed = _alter_resource(image, command, node_id, effective)
            if command.resource_type == RESOURCE_GROUP and broker:
                given = {one.name: one.value for one in changed if one.value is not None}
                check_group_bounds(given, broker)
            records += changed
        except OneForTheCluster as refused:
            error = refused
        except InvalidConfig as refused:
            # Kafka's brokers check their own settings, and call what is wrong with them by another name.
            is_broker = command.resource_type == RESOURCE_BROKER
            error = InvalidRequest(str(refused)) if is_broker else refused
        except MillpondError as refused:
            error = refused
        results.append(ConfigResult(resource_type=key[0], resource_name=key[1], error=error))
    return ConfigDecision(records=tuple(records), results=tuple(results))


def decide_producer_ids(
    image: Image, node_id: NodeId, broker_epoch: int
) -> tuple[ProducerIdsRecord, range]:
    """Promise the next block of producer ids to a node: the fact, and the ids it covers."""
    first: ProducerId = image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK
    )
    return record, range(first, first + PRODUCER_ID_BLOCK)


def _alter_resource(
    image: Image,
    command: AlterConfigs,
    node_id: NodeId,
    effective: Callable[[int, str, str], str | None],
) -> list[ConfigRecord]:
    _check_resource(image, command, node_id)
    repeated = _repeated(name for name, _op, _value in command.operations)
    if repeated:
        raise InvalidRequest(f"Error due to duplicate config keys: {', '.join(sorted(repeated))}")
    before = image.config_of(command.resource_type, command.resource_name)
    after = {} if command.replace else dict(before)
    stays = _settled_for_the_cluster(image, command)
    for name, op, value in command.operations:
        definition = _DEFINITIONS[command.resource_type](name)
        if op is AlterOp.DELETE:
            after.pop(name, None)
            continue
        if value is None:
            raise InvalidRequest(f"Null value not supported for {name}")
        if op is AlterOp.SET:
            after[name] = value
        else:
            now = after.get(name)
            if now is None:
                now = effective(command.resource_type, command.resource_name, name)
            after[name] = _changed_list(definition, op, now, value)
    gone = stays & (before.keys() - after.keys())
    if gone:
        raise OneForTheCluster(
            f"Cluster-level {', '.join(gone)} cannot be removed while ELR is enabled."
        )
    _CHECKS[command.resource_type](after)
    if command.resource_type == RESOURCE_TOPIC and after.items() - before.items():
        check_topic_settings(after, image.features)
    return [
        ConfigRecord(
            resource_type=command.resource_type,
            resource_name=command.resource_name,
            name=name,
            value=after.get(name),
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _settled_for_the_cluster(image: Image, command: AlterConfigs) -> Set[str]:
    """Names that stay set for the whole cluster while eligible leaders are kept.

    Raises ``OneForTheCluster`` if one of them is to be altered for a single node.
    """
    if command.resource_type != RESOURCE_BROKER or not keeps_eligible_leaders(image):
        return frozenset()
    if not command.resource_name:
        return frozenset({MIN_ISR_SETTING})
    if any(name == MIN_ISR_SETTING for name, _op, _value in command.operations):
        raise OneForTheCluster(
            f"Broker-level {MIN_ISR_SETTING} cannot be altered while ELR is enabled."
        )
    return frozenset()


class OneForTheCluster(InvalidConfig):
    """A setting that must not differ from node to node. Kafka's controllers have this code for it."""


def _check_resource(image: Image, command: AlterConfigs, node_id: NodeId) -> None:
    name = command.resource_name
    if command.resource_type == RESOURCE_TOPIC:
        check_topic_name(name)
        if name not in image.topics:
            raise UnknownTopic(f"The topic '{name}' does not exist.")
    elif command.resource_type == RESOURCE_BROKER:
        known = {"", str(node_id), *map(str, image.brokers)}
        if name not in known:
            raise InvalidRequest(
                f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
            )
    elif command.resource_type == RESOURCE_GROUP:
        if not name:
            raise InvalidRequest("Default group resources are not allowed.")
    elif command.resource_type == RESOURCE_CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Subscription name can't be empty")
    else:
        raise InvalidRequest(f"Unsupported resource type {command.resource_type}")


_DEFINITIONS: Mapping[int, Callable[[str], ConfigDef]] = {
    RESOURCE_TOPIC: topic_config_def,
    RESOURCE_BROKER: broker_config_def,
    RESOURCE_GROUP: group_config_def,
    RESOURCE_CLIENT_METRICS: client_metrics_config_def,
}
_CHECKS: Mapping[int, Callable[[Mapping[str, str]], object]] = {
    RESOURCE_TOPIC: check_topic_overrides,
    RESOURCE_BROKER: check_broker_overrides,
    RESOURCE_GROUP: check_group_overrides,
    RESOURCE_CLIENT_METRICS: check_client_metrics,
}


def _changed_list(definition: ConfigDef, op: AlterOp, now: str | None, change: str) -> str:
    if definition.type is not ConfigType.LIST:
        raise InvalidConfig(
            f"Can't {op.name} to key {definition.name} because its type is not LIST."
        )
    items = [item.strip() for item in (now or "").split(",") if item.strip()]
    changed = [item.strip() for item in change.split(",") if item.strip()]
    if op is AlterOp.APPEND:
        return ",".join(dict.fromkeys(items + changed))
    return ",".join(item for item in items if item not in changed)


def _checked_settings(settings: Mapping[str, str | None]) -> dict[str, str]:
    given = {}
    for name, value in settings.items():
        if value is None:
            raise InvalidConfig(f"Null value not supported for {name}")
        given[name] = value
    check_topic_overrides(given)
    return given
