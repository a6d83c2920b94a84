"""The image: a fold over facts, and nothing a reader holds ever changes."""

from uuid import UUID

import pytest

from millpond.base.errors import CorruptLog
from millpond.metadata.image import Image, apply
from millpond.metadata.records import (
    LOST_DIRECTORY,
    NO_DIRECTORY,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    UNASSIGNED_DIRECTORY,
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
)

A, B = UUID(int=1000), UUID(int=2000)


def partition(topic_id: UUID, index: int) -> PartitionRecord:
    return PartitionRecord(partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1)


def setting(name: str, value: str | None, *, topic: str = "a") -> ConfigRecord:
    return ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic, name=name, value=value)


FACTS: list[MetadataRecord] = [
    FeatureLevelRecord(name="metadata.version", feature_level=25),
    RegisterBrokerRecord(broker_id=1, incarnation_id=B, broker_epoch=1),
    TopicRecord(name="a", topic_id=A),
    partition(A, 0),
    partition(A, 1),
    setting("retention.ms", "5"),
    TopicRecord(name="b.c", topic_id=B),
    partition(B, 0),
    ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000),
    PartitionChangeRecord(partition_id=1, topic_id=A, leader=1),
    setting("segment.ms", "6"),
    setting("retention.ms", None),
    RemoveTopicRecord(topic_id=B),
]


def test_directories_are_known_where_a_fact_named_them() -> None:
    image = apply(Image(), [TopicRecord(name="a", topic_id=A), partition(A, 0)])
    assert image.topics["a"].partitions[0].directory_of(1) == NO_DIRECTORY
    named = PartitionChangeRecord(partition_id=0, topic_id=A, directories=(B,))
    image = apply(image, [named])
    assert image.topics["a"].partitions[0].directory_of(1) == B
    assert image.topics["a"].partitions[0].directory_of(2) == NO_DIRECTORY
    # A fact that moves replicas without a word on directories leaves those of the replicas that stay.
    moved = PartitionChangeRecord(partition_id=0, topic_id=A, replicas=(2, 1))
    assert apply(image, [moved]).topics["a"].partitions[0].directories == (NO_DIRECTORY, B)


def test_a_directory_is_offline_from_the_fact_that_leaves_it_out_until_one_that_names_it() -> None:
    node = RegisterBrokerRecord(broker_id=1, incarnation_id=B, broker_epoch=1, log_dirs=(A, B))
    image = apply(Image(), [node])
    assert image.brokers[1].offline_dirs == ()
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, log_dirs=(B,))
    broker = apply(image, [change]).brokers[1]
    assert (broker.log_dirs, broker.offline_dirs) == ((A, B), (A,))
    assert not broker.has_online(A)
    assert broker.has_online(B)
    assert broker.has_online(NO_DIRECTORY)
    assert broker.has_online(UNASSIGNED_DIRECTORY)
    assert not broker.has_online(LOST_DIRECTORY)
    assert not broker.has_online(UUID(int=3000))
    back = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, log_dirs=(A, B))
    assert apply(image, [change, back]).brokers[1].offline_dirs == ()
    assert apply(image, [change, node]).brokers[1].offline_dirs == ()


def test_facts_fold_into_an_image() -> None:
    image = apply(Image(), FACTS)
    assert set(image.topics) == {"a"}
    assert image.topics_by_id == {A: image.topics["a"]}
    assert [one.leader_epoch for one in image.topics["a"].partitions] == [0, 1]
    assert [one.partition_epoch for one in image.topics["a"].partitions] == [0, 1]
    assert image.topic_config("a") == {"segment.ms": "6"}
    assert image.next_producer_id == 1000
    assert image.features == {"metadata.version": 25}
    assert set(image.brokers) == {1}
    assert image.unified_names == {"a": "a"}


def test_one_at_a_time_or_all_at_once_is_the_same() -> None:
    image = Image()
    for fact in FACTS:
        image = apply(image, [fact])
    assert image == apply(Image(), FACTS)


def test_an_image_never_changes() -> None:
    before = apply(Image(), FACTS[:6])
    copy = apply(Image(), FACTS[:6])
    apply(before, FACTS[6:])
    assert before == copy


def test_tables_that_are_not_touched_are_shared() -> None:
    before = apply(Image(), FACTS)
    after = apply(before, [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=9)])
    assert after.topics is before.topics
    assert after.configs is before.configs


def test_a_removed_topic_takes_its_settings_along() -> None:
    image = apply(Image(), [*FACTS, RemoveTopicRecord(topic_id=A)])
    assert image.configs == {}
    image = apply(image, [TopicRecord(name="a", topic_id=B)])
    assert image.topic_config("a") == {}


def test_settings_of_brokers_are_kept_apart() -> None:
    facts = [
        ConfigRecord(resource_type=RESOURCE_BROKER, resource_name=name, name="x", value=value)
        for name, value in (("", "all"), ("1", "one"))
    ]
    image = apply(Image(), facts)
    assert image.config_of(RESOURCE_BROKER, "") == {"x": "all"}
    assert image.config_of(RESOURCE_BROKER, "1") == {"x": "one"}
    assert image.config_of(RESOURCE_BROKER, "2") == {}


@pytest.mark.parametrize(
    "fact",
    [
        TopicRecord(name="a", topic_id=B),
        partition(A, 5),
        partition(UUID(int=9), 0),
        PartitionChangeRecord(partition_id=2, topic_id=A, leader=1),
        RemoveTopicRecord(topic_id=UUID(int=9)),
    ],
)
def test_a_fact_that_contradicts_the_image_is_a_corrupt_log(fact: MetadataRecord) -> None:
    with pytest.raises(CorruptLog):
        apply(apply(Image(), FACTS), [fact])
