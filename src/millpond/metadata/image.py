"""The cluster as the facts so far describe it: an immutable value, and the fold that makes the next
one.

Readers hold an ``Image`` and never see it change. ``apply`` copies the tables that a batch of
records touches, once per batch, so that replaying a whole log costs its length and creating one
topic among thousands costs one shallow copy. Pure; knows nothing of disks, clocks or protocols.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, assert_never
from uuid import UUID

from millpond.base.errors import CorruptLog
from millpond.base.ids import LeaderEpoch, NodeId, ProducerId
from millpond.metadata.client_records import (
    ClientQuotaRecord,
    QuotaEntity,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from millpond.metadata.families import FamilyRecord, RecordFamily
from millpond.metadata.records import (
    LEADER_UNCHANGED,
    LOST_DIRECTORY,
    NO_DIRECTORY,
    RESOURCE_TOPIC,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FeatureLevels,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    is_reserved_directory,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition: where its replicas are and who leads."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    # Replicas on their way out and in, while the partition is being reassigned; both are in ``replicas``.
    removing: tuple[NodeId, ...] = ()
    adding: tuple[NodeId, ...] = ()
    # Its leader was elected without having been in sync, and has not finished making the best of it.
    recovering: bool = False
    eligible_leaders: tuple[NodeId, ...] = ()
    last_known_leaders: tuple[NodeId, ...] = ()
    # The directory that each replica lies in, in the order of ``replicas``; empty where none was ever named.
    directories: tuple[UUID, ...] = ()

    def directory_of(self, node: NodeId) -> UUID:
        """In which of its directories this node keeps its replica; a reserved id if that is not known."""
        if not self.directories or node not in self.replicas:
            return NO_DIRECTORY
        return self.directories[self.replicas.index(node)]

    @property
    def is_reassigning(self) -> bool:
        """Whether its replicas are on their way to other nodes."""
        return bool(self.removing or self.adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic; ``partitions[n]`` is partition n."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """One broker as it last registered. ``log_dirs`` are all of its directories, ``offline_dirs`` those of
    them that take no writes.
    """

    broker_id: NodeId
    broker_epoch: int
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    rack: str | None
    log_dirs: tuple[UUID, ...] = ()
    offline_dirs: tuple[UUID, ...] = ()
    fenced: bool = False
    in_controlled_shutdown: bool = False
    features: tuple[FeatureLevels, ...] = ()

    def has_online(self, directory: UUID) -> bool:
        """Whether a replica in this directory can be served.

        Kafka's rule: one whose directory is not known can, one in a directory that the node is not registered
        with cannot. A node that named none at all is of a release that has only one.
        """
        if is_reserved_directory(directory):
            return directory != LOST_DIRECTORY
        if not self.log_dirs:
            return True
        return directory in self.log_dirs and directory not in self.offline_dirs

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in sync: it serves, and is not about to stop."""
        return not self.fenced and not self.in_controlled_shutdown


_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Everything agreed on. The mappings are never changed after the image is made."""

    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    # Kafka's rule: names that differ only in '.' and '_' collide. The unified name leads to the topic.
    unified_names: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: ProducerId = 0
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    # By user and mechanism.
    scram_credentials: Mapping[tuple[str, int], UserScramCredentialRecord] = field(
        default_factory=dict
    )
    controllers: Mapping[NodeId, RegisterControllerRecord] = field(default_factory=dict)
    # What the facts of other protocols amount to, by family; ``RecordFamily.slice_of`` reads them. An empty
    # slice is left out.
    slices: Mapping[RecordFamily[Any, Any], Any] = field(default_factory=dict)

    def is_active(self, node: NodeId) -> bool:
        """Whether this node may lead partitions and be in sync."""
        broker = self.brokers.get(node)
        return broker is not None and broker.is_active

    def may_lead(self, node: NodeId, partition: PartitionImage) -> bool:
        """Whether this node may lead this partition and be in sync there, as far as it goes by nodes and
        directories."""
        broker = self.brokers.get(node)
        return (
            broker is not None
            and broker.is_active
            and broker.has_online(partition.directory_of(node))
        )

    def offline_replicas(self, partition: PartitionImage, up: AbstractSet[NodeId]) -> list[NodeId]:
        """The replicas of a partition that cannot be served while these nodes are up: those of other nodes,
        and those in log directories that are offline."""
        if not partition.directories:
            return [node for node in partition.replicas if node not in up]
        return [
            node
            for node, directory in zip(partition.replicas, partition.directories, strict=True)
            if node not in up
            or ((broker := self.brokers.get(node)) and not broker.has_online(directory))
        ]

    @property
    def serving_brokers(self) -> list[BrokerImage]:
        """The brokers that clients are told of."""
        return [broker for broker in self.brokers.values() if not broker.fenced]

    def config_of(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What was set on a topic or broker, as text by name; empty if nothing was."""
        return self.configs.get((resource_type, resource_name), _NOTHING)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """What was set on this topic."""
        return self.configs.get((RESOURCE_TOPIC, topic), _NOTHING)


def unify_name(name: str) -> str:
    """The form in which colliding topic names are equal."""
    return name.replace(".", "_")


def changed(before: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    """The partition after this fact. A leader named, even the same one, begins a new leader epoch."""
    leads = change.leader != LEADER_UNCHANGED
    replicas = before.replicas if change.replicas is None else change.replicas
    if change.directories is not None:
        directories = _known_directories(change.directories, replicas)
    elif change.replicas is None:
        directories = before.directories
    else:
        directories = _known_directories(tuple(map(before.directory_of, replicas)), replicas)
    return PartitionImage(
        replicas=replicas,
        isr=before.isr if change.isr is None else change.isr,
        leader=change.leader if leads else before.leader,
        leader_epoch=before.leader_epoch + leads,
        partition_epoch=before.partition_epoch + 1,
        removing=before.removing if change.removing is None else change.removing,
        adding=before.adding if change.adding is None else change.adding,
        recovering=before.recovering if change.recovering is None else change.recovering,
        eligible_leaders=before.eligible_leaders
        if change.eligible_leaders is None
        else change.eligible_leaders,
        last_known_leaders=before.last_known_leaders
        if change.last_known_leaders is None
        else change.last_known_leaders,
        directories=directories,
    )


def _known_directories(
    directories: tuple[UUID, ...], replicas: tuple[NodeId, ...]
) -> tuple[UUID, ...]:
    """Nothing where all are unknown: most partitions of a cluster that has never been told of any."""
    if len(directories) != len(replicas) or all(one == NO_DIRECTORY for one in directories):
        return ()
    return directories


def apply(image: Image, records: Iterable[MetadataRecord]) -> Image:
    """The image after these facts, in their order. ``CorruptLog`` if they contradict the image."""
    fold = _Fold(image)
    for record in records:
        fold.add(record)
    return fold.image()


class _Fold:
    """The tables under construction. A table is copied when it is first touched."""

    def __init__(self, image: Image) -> None:
        self._before = image
        self._topics: dict[str, TopicImage] | None = None
        self._topics_by_id: dict[UUID, TopicImage] = {}
        self._unified_names: dict[str, str] = {}
        # Partitions of the topics touched in this batch, by topic id.
        self._partitions: dict[UUID, list[PartitionImage]] = {}
        self._configs: dict[tuple[int, str], Mapping[str, str]] | None = None
        self._brokers: dict[NodeId, BrokerImage] | None = None
        self._features: dict[str, int] | None = None
        self._next_producer_id = image.next_producer_id
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._scram: dict[tuple[str, int], UserScramCredentialRecord] | None = None
        self._controllers = image.controllers
        self._slices: dict[RecordFamily[Any, Any], Any] = {}

    def add(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self._add_topic(record)
            case PartitionRecord():
                self._add_partition(record)
            case PartitionChangeRecord():
                self._add_partition_change(record)
            case RemoveTopicRecord():
                self._add_remove_topic(record)
            case ConfigRecord():
                self._add_config(record)
            case RegisterBrokerRecord():
                self._add_broker(record)
            case FeatureLevelRecord():
                self._add_feature_level(record)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case ClientQuotaRecord():
                self._add_client_quota(record)
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self._add_scram(record)
            case UnregisterBrokerRecord():
                self._writable_brokers().pop(record.broker_id, None)
            case BrokerRegistrationChangeRecord():
                self._add_registration_change(record)
            case RegisterControllerRecord():
                self._controllers = {**self._controllers, record.controller_id: record}
            case FamilyRecord(family=family, fact=fact):
                if family not in self._slices:
                    self._slices[family] = family.slice_of(self._before)
                self._slices[family] = family.apply(self._slices[family], fact)
            case NoOpRecord():
                pass
            case _:
                assert_never(record)

    def image(self) -> Image:
        before = self._before
        topics = self._topics
        if topics is None:
            topics_now, by_id, unified = before.topics, before.topics_by_id, before.unified_names
        else:
            for topic_id, partitions in self._partitions.items():
                topic = replace(self._topics_by_id[topic_id], partitions=tuple(partitions))
                topics[topic.name] = self._topics_by_id[topic_id] = topic
            topics_now, by_id, unified = topics, self._topics_by_id, self._unified_names
        return Image(
            topics=topics_now,
            topics_by_id=by_id,
            unified_names=unified,
            configs=before.configs if self._configs is None else self._configs,
            brokers=before.brokers if self._brokers is None else self._brokers,
            features=before.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
            client_quotas=before.client_quotas if self._quotas is None else self._quotas,
            scram_credentials=before.scram_credentials if self._scram is None else self._scram,
            controllers=self._controllers,
            slices=self._slices_now(),
        )

    def _slices_now(self) -> Mapping[RecordFamily[Any, Any], Any]:
        if not self._slices:
            return self._before.slices
        slices = {**self._before.slices, **self._slices}
        return {family: one for family, one in slices.items() if one != family.empty}

    def _writable_topics(self) -> dict[str, TopicImage]:
        if self._topics is None:
            self._topics = dict(self._before.topics)
            self._topics_by_id = dict(self._before.topics_by_id)
            self._unified_names = dict(self._before.unified_names)
        return self._topics

    def _partitions_of(self, topic_id: UUID) -> list[PartitionImage]:
        self._writable_topics()
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = self._topics_by_id.get(topic_id)
            if topic is None:
                raise CorruptLog(f"metadata names topic id {topic_id}, which does not exist")
            partitions = self._partitions[topic_id] = list(topic.partitions)
        return partitions

    def _add_topic(self, record: TopicRecord) -> None:
        topics = self._writable_topics()
        if record.name in topics:
            raise CorruptLog(f"metadata creates topic {record.name} twice")
        topic = TopicImage(name=record.name, topic_id=record.topic_id)
        topics[record.name] = self._topics_by_id[record.topic_id] = topic
        self._unified_names[unify_name(record.name)] = record.name

    def _add_partition(self, record: PartitionRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        if record.partition_id != len(partitions):
            raise CorruptLog(
                f"metadata adds partition {record.partition_id} to topic id {record.topic_id}, "
                f"which has {len(partitions)}"
            )
        partitions.append(
            PartitionImage(
                replicas=record.replicas,
                isr=record.isr,
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                removing=record.removing,
                adding=record.adding,
                recovering=record.recovering,
                eligible_leaders=record.eligible_leaders,
                last_known_leaders=record.last_known_leaders,
                directories=_known_directories(record.directories, record.replicas),
            )
        )

    def _add_partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        if not 0 <= record.partition_id < len(partitions):
            raise CorruptLog(
                f"metadata changes partition {record.partition_id} of topic id {record.topic_id}, "
                f"which has {len(partitions)}"
            )
        partitions[record.partition_id] = changed(partitions[record.partition_id], record)

    def _add_remove_topic(self, record: RemoveTopicRecord) -> None:
        topics = self._writable_topics()
        topic = self._topics_by_id.pop(record.topic_id, None)
        if topic is None:
            raise CorruptLog(f"metadata removes topic id {record.topic_id}, which does not exist")
        del topics[topic.name]
        self._unified_names.pop(unify_name(topic.name), None)
        self._partitions.pop(record.topic_id, None)
        # The topic's settings go with it; a new topic of that name starts with none.
        if (RESOURCE_TOPIC, topic.name) in self._writable_configs():
            del self._writable_configs()[(RESOURCE_TOPIC, topic.name)]

    def _writable_configs(self) -> dict[tuple[int, str], Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self._before.configs)
        return self._configs

    def _add_config(self, record: ConfigRecord) -> None:
        configs = self._writable_configs()
        key = (record.resource_type, record.resource_name)
        settings = dict(configs.get(key, _NOTHING))
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if settings:
            configs[key] = settings
        else:
            configs.pop(key, None)

    def _writable_brokers(self) -> dict[NodeId, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self._before.brokers)
        return self._brokers

    def _add_broker(self, record: RegisterBrokerRecord) -> None:
        self._writable_brokers()[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            end_points=record.end_points,
            rack=record.rack,
            log_dirs=record.log_dirs,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            features=record.features,
        )

    def _add_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        brokers = self._writable_brokers()
        before = brokers.get(record.broker_id)
        if before is None or before.broker_epoch != record.broker_epoch:
            raise CorruptLog(
                f"metadata changes broker {record.broker_id} of epoch {record.broker_epoch}, which is "
                "not registered"
            )
        brokers[record.broker_id] = replace(
            before,
            fenced=before.fenced if record.fenced is None else record.fenced,
            in_controlled_shutdown=before.in_controlled_shutdown or record.in_controlled_shutdown,
            offline_dirs=before.offline_dirs
            if record.log_dirs is None
            else tuple(one for one in before.log_dirs if one not in record.log_dirs),
        )

    def _add_feature_level(self, record: FeatureLevelRecord) -> None:
        if self._features is None:
            self._features = dict(self._before.features)
        if record.feature_level:
            self._features[record.name] = record.feature_level
        else:
            self._features.pop(record.name, None)

    def _add_client_quota(self, record: ClientQuotaRecord) -> None:
        if self._quotas is None:
            self._quotas = dict(self._before.client_quotas)
        quotas = dict(self._quotas.get(record.entity, {}))
        if record.value is None:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            self._quotas[record.entity] = quotas
        else:
            self._quotas.pop(record.entity, None)

    def _add_scram(
        self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord
    ) -> None:
        if self._scram is None:
            self._scram = dict(self._before.scram_credentials)
        key = (record.name, record.mechanism)
        if isinstance(record, UserScramCredentialRecord):
            self._scram[key] = record
        else:
            self._scram.pop(key, None)
