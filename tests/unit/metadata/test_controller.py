"""Decisions: an image and commands in, facts and answers out. No loop, no disk, no clock."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import (
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicName,
    MillpondError,
    PolicyViolation,
    UnsupportedVersion,
)
from millpond.metadata.controller import (
    AddPartitions,
    AlterConfigs,
    AlterOp,
    CreateTopic,
    TopicDefaults,
    check_topic_name,
    decide_alter_configs,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
    decide_new_epochs,
    decide_producer_ids,
)
from millpond.metadata.image import Image, apply
from millpond.metadata.levels import DELAYS, MILLPOND_VERSION
from millpond.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    RegisterBrokerRecord,
)

DEFAULTS = TopicDefaults(partitions=2, replication_factor=1)


def ids(start: int = 1000) -> Callable[[], UUID]:
    numbers = iter(range(start, start + 100_000))
    return lambda: UUID(int=next(numbers))


def cluster(*nodes: int) -> Image:
    return apply(
        Image(),
        [
            RegisterBrokerRecord(broker_id=node, incarnation_id=UUID(int=node), broker_epoch=node)
            for node in nodes
        ],
    )


def create(image: Image, *commands: CreateTopic) -> Image:
    decision = decide_create_topics(image, commands, defaults=DEFAULTS, new_id=ids())
    for result in decision.results:
        assert result.error is None, result.error
    return apply(image, decision.records)


def refusals(image: Image, *commands: CreateTopic) -> list[type[MillpondError] | None]:
    decision = decide_create_topics(image, commands, defaults=DEFAULTS, new_id=ids())
    return [type(one.error) if one.error is not None else None for one in decision.results]


def test_replicas_are_spread_over_the_nodes() -> None:
    image = create(cluster(1, 2, 3), CreateTopic(name="t", partitions=4, replication_factor=2))
    replicas = [one.replicas for one in image.topics["t"].partitions]
    assert replicas == [(2, 1), (3, 2), (1, 2), (2, 3)]
    assert [one.leader for one in image.topics["t"].partitions] == [2, 3, 1, 2]


def test_not_all_topics_begin_at_one_node() -> None:
    names = [f"t{number}" for number in range(30)]
    image = create(cluster(1, 2, 3), *(CreateTopic(name=name, partitions=1) for name in names))
    leaders = [image.topics[name].partitions[0].leader for name in names]
    assert {node: leaders.count(node) for node in (1, 2, 3)} == {1: 10, 2: 10, 3: 10}


def test_replicas_stand_in_different_racks_and_lead_only_where_they_are_up() -> None:
    nodes = [(1, "a", False), (2, "a", False), (3, "b", False), (4, "c", True)]
    image = apply(
        Image(),
        [
            RegisterBrokerRecord(
                broker_id=node,
                incarnation_id=UUID(int=node),
                broker_epoch=node,
                rack=rack,
                fenced=fenced,
            )
            for node, rack, fenced in nodes
        ],
    )
    racks = {node: rack for node, rack, _ in nodes}
    made = create(image, CreateTopic(name="t", partitions=6, replication_factor=3))
    for partition in made.topics["t"].partitions:
        assert {racks[node] for node in partition.replicas} == {"a", "b", "c"}
        assert partition.isr == tuple(node for node in partition.replicas if node != 4)
        assert partition.leader == partition.isr[0]


def test_a_topic_whose_replicas_are_all_down_cannot_be_made() -> None:
    image = apply(
        cluster(1), [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=True)]
    )
    assert refusals(image, CreateTopic(name="t")) == [InvalidReplicationFactor]
    assert refusals(image, CreateTopic(name="t", assignments={0: [1]})) == [
        InvalidReplicaAssignment
    ]


def test_a_request_cannot_collide_with_itself() -> None:
    assert refusals(cluster(1), CreateTopic(name="a.b"), CreateTopic(name="a_b")) == [
        None,
        InvalidTopicName,
    ]


def test_partitions_of_one_request_are_bounded_together() -> None:
    commands = [CreateTopic(name=f"t{n}", partitions=6000) for n in range(2)]
    assert refusals(cluster(1), *commands) == [None, PolicyViolation]


@pytest.mark.parametrize(
    "assignments",
    [
        {0: [1], 2: [1]},  # a gap
        {0: []},
        {0: [1, 1]},
        {0: [1], 1: [1, 2]},  # unequal
        {0: [9]},  # unknown
    ],
)
def test_assignments_by_hand_must_be_whole(assignments: dict[int, list[int]]) -> None:
    command = CreateTopic(name="t", assignments=assignments)
    assert refusals(cluster(1, 2), command) == [InvalidReplicaAssignment]


def test_ids_that_kafka_keeps_for_itself_are_not_given() -> None:
    reserved = [UUID(int=0), UUID(int=1), UUID(int=99), UUID(bytes=b"\xf8" + bytes(15))]
    given = iter([*reserved, UUID(int=5000)])
    decision = decide_create_topics(
        cluster(1), [CreateTopic(name="t")], defaults=DEFAULTS, new_id=lambda: next(given)
    )
    assert decision.results[0].topic_id == UUID(int=5000)


def test_a_topic_is_deleted_once() -> None:
    image = create(cluster(1), CreateTopic(name="t"))
    topic_id = image.topics["t"].topic_id
    decision = decide_delete_topics(image, [("t", None), (None, topic_id)])
    assert [type(one.error) for one in decision.results] == [type(None), InvalidRequest]
    assert apply(image, decision.records).topics == {}


def test_added_partitions_continue_the_spreading() -> None:
    image = create(cluster(1, 2, 3), CreateTopic(name="t", partitions=1))
    decision = decide_create_partitions(image, [AddPartitions(name="t", count=3)])
    after = apply(image, decision.records)
    assert [one.leader for one in after.topics["t"].partitions] == [2, 3, 1]


def test_new_epochs_are_started_for_what_this_node_leads() -> None:
    image = create(cluster(1, 2), CreateTopic(name="t", partitions=4))
    after = apply(image, decide_new_epochs(image, 1))
    assert [one.leader_epoch for one in after.topics["t"].partitions] == [1, 0, 1, 0]


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    image = cluster(1)
    seen: list[int] = []
    for _ in range(3):
        record, block = decide_producer_ids(image, 1, 1)
        image = apply(image, [record])
        seen += block
    assert seen == list(range(3000))


def alter(image: Image, *operations: tuple[str, AlterOp, str | None], **fields: object) -> Image:
    command = AlterConfigs(
        resource_type=RESOURCE_TOPIC,
        resource_name="t",
        operations=operations,
        **fields,  # type: ignore[arg-type]
    )
    decision = decide_alter_configs(
        image, [command], node_id=1, effective=lambda _kind, _name, _setting: "delete"
    )
    if decision.results[0].error is not None:
        raise decision.results[0].error
    return apply(image, decision.records)


def test_only_changes_become_facts() -> None:
    image = create(cluster(1), CreateTopic(name="t", configs={"retention.ms": "5"}))
    command = AlterConfigs(
        resource_type=RESOURCE_TOPIC,
        resource_name="t",
        operations=[("retention.ms", AlterOp.SET, "5"), ("segment.ms", AlterOp.SET, "6")],
    )
    decision = decide_alter_configs(
        image, [command], node_id=1, effective=lambda _kind, _name, _setting: None
    )
    assert decision.records == (
        ConfigRecord(resource_type=2, resource_name="t", name="segment.ms", value="6"),
    )


def test_appending_starts_from_what_is_in_force() -> None:
    image = create(cluster(1), CreateTopic(name="t"))
    image = alter(image, ("cleanup.policy", AlterOp.APPEND, "compact"))
    assert image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    image = alter(image, ("cleanup.policy", AlterOp.APPEND, "compact"))
    assert image.topic_config("t") == {"cleanup.policy": "delete,compact"}


def test_replacing_forgets_what_is_not_named() -> None:
    image = create(cluster(1), CreateTopic(name="t", configs={"retention.ms": "5"}))
    image = alter(image, ("segment.ms", AlterOp.SET, "6"), replace=True)
    assert image.topic_config("t") == {"segment.ms": "6"}


def test_one_setting_cannot_be_changed_twice_at_once() -> None:
    image = create(cluster(1), CreateTopic(name="t"))
    with pytest.raises(InvalidRequest):
        alter(image, ("segment.ms", AlterOp.SET, "6"), ("segment.ms", AlterOp.DELETE, None))


def test_settings_that_contradict_each_other_are_refused() -> None:
    image = create(cluster(1), CreateTopic(name="t"))
    with pytest.raises(InvalidConfig):
        alter(
            image,
            ("min.compaction.lag.ms", AlterOp.SET, "10"),
            ("max.compaction.lag.ms", AlterOp.SET, "5"),
        )


def test_a_resource_named_twice_is_changed_once() -> None:
    image = cluster(1)
    command = AlterConfigs(
        resource_type=RESOURCE_BROKER,
        resource_name="",
        operations=[("log.retention.ms", AlterOp.SET, "1")],
    )
    decision = decide_alter_configs(
        image, [command, command], node_id=1, effective=lambda _kind, _name, _setting: None
    )
    assert [type(one.error) for one in decision.results] == [type(None), InvalidRequest]
    assert len(decision.records) == 1


@given(st.text(max_size=260))
def test_a_name_is_allowed_exactly_when_kafka_allows_it(name: str) -> None:
    allowed = (
        0 < len(name) <= 249
        and name not in {".", "..", "__cluster_metadata"}
        and all(c.isascii() and (c.isalnum() or c in "._-") for c in name)
    )
    if allowed:
        check_topic_name(name)
    else:
        with pytest.raises(InvalidTopicName):
            check_topic_name(name)


def test_delays_are_refused_below_their_level_when_a_topic_is_made_and_when_it_is_altered() -> None:
    old = cluster(1)
    wanted = CreateTopic(name="t", partitions=1, configs={"millpond.delay.enable": "true"})
    assert refusals(old, wanted) == [UnsupportedVersion]
    plain = create(old, CreateTopic(name="t", partitions=1))
    with pytest.raises(UnsupportedVersion):
        alter(plain, ("millpond.delay.enable", AlterOp.SET, "true"))
    new = replace(plain, features={MILLPOND_VERSION: DELAYS})
    altered = alter(new, ("millpond.delay.enable", AlterOp.SET, "true"))
    assert altered.topic_config("t") == {"millpond.delay.enable": "true"}
    with pytest.raises(InvalidConfig):
        alter(altered, ("cleanup.policy", AlterOp.SET, "compact"))
