"""An image as facts: all of it for a snapshot, or only what leads from one image to another.

``image_delta`` is for a node that had a snapshot put in the place of what it knew: those who follow the
metadata fact by fact (the partitions of this node, its coordinators) get facts, as if nothing had been
skipped.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from millpond.metadata.client_records import (
    ClientQuotaRecord,
    QuotaEntity,
    RemoveUserScramCredentialRecord,
)
from millpond.metadata.families import slices_diff
from millpond.metadata.image import BrokerImage, Image, PartitionImage, TopicImage
from millpond.metadata.records import (
    LEADER_UNCHANGED,
    NO_DIRECTORY,
    RESOURCE_TOPIC,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

_K = TypeVar("_K")


def image_records(image: Image) -> list[MetadataRecord]:
    """The shortest list of facts that folds into this image."""
    return image_delta(Image(), image)


def image_delta(before: Image, after: Image) -> list[MetadataRecord]:
    """Facts that, applied to ``before``, give ``after``.

    A partition of a topic that is in both goes there by as many changes as its epochs moved on; if its
    epochs cannot be reached by changes, the topic is removed and made again under its id.
    """
    records: list[MetadataRecord] = []
    records += _features(before, after)
    records += _brokers(before, after)
    records += [one for key, one in after.controllers.items() if before.controllers.get(key) != one]
    records += _topics(before, after)
    records += _configs(before, after)
    records += _quotas(before, after)
    records += [
        RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
        for user, mechanism in before.scram_credentials.keys() - after.scram_credentials.keys()
    ]
    records += [
        one
        for key, one in after.scram_credentials.items()
        if before.scram_credentials.get(key) != one
    ]
    records += slices_diff(before, after)
    if before.next_producer_id != after.next_producer_id:
        records.append(
            ProducerIdsRecord(
                broker_id=-1, broker_epoch=-1, next_producer_id=after.next_producer_id
            )
        )
    return records


def _features(before: Image, after: Image) -> Iterable[MetadataRecord]:
    for name in [*(before.features.keys() - after.features.keys()), *after.features]:
        level = after.features.get(name, 0)
        if before.features.get(name, 0) != level:
            yield FeatureLevelRecord(name=name, feature_level=level)


def _brokers(before: Image, after: Image) -> Iterable[MetadataRecord]:
    for node, broker in before.brokers.items():
        if node not in after.brokers:
            yield UnregisterBrokerRecord(broker_id=node, broker_epoch=broker.broker_epoch)
    for node, broker in after.brokers.items():
        if before.brokers.get(node) != broker:
            yield _registered(broker)
            if broker.offline_dirs:
                yield BrokerRegistrationChangeRecord(
                    broker_id=node,
                    broker_epoch=broker.broker_epoch,
                    log_dirs=tuple(
                        one for one in broker.log_dirs if one not in broker.offline_dirs
                    ),
                )


def _registered(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=broker.end_points,
        rack=broker.rack,
        fenced=broker.fenced,
        log_dirs=broker.log_dirs,
        features=broker.features,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def _topics(before: Image, after: Image) -> Iterable[MetadataRecord]:
    kept: dict[str, list[MetadataRecord]] = {}
    for topic in before.topics.values():
        same = after.topics_by_id.get(topic.topic_id)
        changes = _changes(topic, same) if same is not None else None
        if changes is None:
            yield RemoveTopicRecord(topic_id=topic.topic_id)
        else:
            kept[topic.name] = changes
    for topic in after.topics.values():
        if topic.name in kept:
            yield from kept[topic.name]
        else:
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            yield from _partitions(topic, 0)


def _changes(before: TopicImage, after: TopicImage) -> list[MetadataRecord] | None:
    """Facts that lead from one state of a topic to another; None if there is no such way."""
    records: list[MetadataRecord] = []
    for index, (old, new) in enumerate(zip(before.partitions, after.partitions, strict=False)):
        if old == new:
            continue
        steps = new.partition_epoch - old.partition_epoch
        led = new.leader_epoch - old.leader_epoch
        if not 1 <= max(steps, led) == steps or led < 0 or (led == 0 and old.leader != new.leader):
            return None
        bump = PartitionChangeRecord(partition_id=index, topic_id=after.topic_id, leader=new.leader)
        still = PartitionChangeRecord(partition_id=index, topic_id=after.topic_id)
        last = _whole_change(after, index, leader=new.leader if led else LEADER_UNCHANGED)
        first = [bump] * (led - 1) + [still] * (steps - max(led, 1))
        records += [*first, last]
    if len(after.partitions) < len(before.partitions):
        return None
    return [*records, *_partitions(after, len(before.partitions))]


def _whole_change(topic: TopicImage, index: int, *, leader: int) -> PartitionChangeRecord:
    one = topic.partitions[index]
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        isr=one.isr,
        leader=leader,
        replicas=one.replicas,
        removing=one.removing,
        adding=one.adding,
        recovering=one.recovering,
        directories=one.directories or (NO_DIRECTORY,) * len(one.replicas),
        eligible_leaders=one.eligible_leaders,
        last_known_leaders=one.last_known_leaders,
    )


def _partitions(topic: TopicImage, first: int) -> Iterable[MetadataRecord]:
    for index, one in enumerate(topic.partitions[first:], start=first):
        yield _partition(topic, index, one)


def _partition(topic: TopicImage, index: int, one: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=one.replicas,
        isr=one.isr,
        leader=one.leader,
        leader_epoch=one.leader_epoch,
        partition_epoch=one.partition_epoch,
        directories=one.directories or (NO_DIRECTORY,) * len(one.replicas),
        removing=one.removing,
        adding=one.adding,
        recovering=one.recovering,
        eligible_leaders=one.eligible_leaders,
        last_known_leaders=one.last_known_leaders,
    )


def _configs(before: Image, after: Image) -> Iterable[MetadataRecord]:
    for key in _keys(before.configs, after.configs):
        kind, resource = key
        new = after.configs.get(key, {})
        old = before.configs.get(key, {})
        if kind == RESOURCE_TOPIC and _made_anew(before, after, resource):
            old = {}  # they went with the topic
        for name in _keys(old, new):
            if old.get(name) != new.get(name):
                yield ConfigRecord(
                    resource_type=kind, resource_name=resource, name=name, value=new.get(name)
                )


def _made_anew(before: Image, after: Image, name: str) -> bool:
    old, new = before.topics.get(name), after.topics.get(name)
    if old is None or new is None:
        return old is not new
    return old.topic_id != new.topic_id or _changes(old, new) is None


def _quotas(before: Image, after: Image) -> Iterable[MetadataRecord]:
    entity: QuotaEntity
    for entity in _keys(before.client_quotas, after.client_quotas):
        old, new = before.client_quotas.get(entity, {}), after.client_quotas.get(entity, {})
        for key in _keys(old, new):
            if old.get(key) != new.get(key):
                yield ClientQuotaRecord(entity=entity, key=key, value=new.get(key))


def _keys(before: Mapping[_K, object], after: Mapping[_K, object]) -> list[_K]:
    """The keys of both; those of ``after`` in their order."""
    return [*(key for key in before if key not in after), *after]
