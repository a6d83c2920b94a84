"""Plans for moving partitions: who takes over, and what cannot be done."""

from uuid import UUID

import pytest

from millpond.cli.moves import (
    NoPlan,
    changes_only,
    drain_plan,
    parse_places,
    read_plan,
    spread_plan,
    unlead_plan,
    write_plan,
)
from millpond.client import BrokerInfo, PartitionInfo, TopicInfo
from tests.support.kafka.fake_kafka import tp


def topic(name: str, *replicas: tuple[int, ...]) -> TopicInfo:
    return TopicInfo(
        name=name,
        topic_id=UUID(int=1),
        is_internal=False,
        partitions=tuple(
            PartitionInfo(
                partition=number, leader=nodes[0], leader_epoch=0, replicas=nodes, in_sync=nodes
            )
            for number, nodes in enumerate(replicas)
        ),
    )


def nodes(*numbers: int, racks: str = "", fenced: int = 0) -> list[BrokerInfo]:
    return [
        BrokerInfo(
            node_id=number,
            host="h",
            port=1,
            rack=racks[place] if racks else None,
            is_fenced=number == fenced,
        )
        for place, number in enumerate(numbers)
    ]


def test_whoever_holds_least_takes_over_in_the_same_place() -> None:
    orders = topic("orders", (1, 2), (2, 3), (3, 1), (1, 2))
    plan = drain_plan([orders], nodes(1, 2, 3, 4), 1, shrink=False)
    assert plan == {tp("orders", 0): (4, 2), tp("orders", 2): (3, 4), tp("orders", 3): (3, 2)}


def test_another_rack_is_better_than_an_emptier_node() -> None:
    orders = topic("orders", (1, 2))
    plan = drain_plan([orders], nodes(1, 2, 3, 4, racks="abba"), 1, shrink=False)
    assert plan == {tp("orders"): (4, 2)}


def test_a_node_that_is_not_heard_of_takes_nothing() -> None:
    orders = topic("orders", (1, 2))
    with pytest.raises(NoPlan, match="only 1 other nodes"):
        drain_plan([orders], nodes(1, 2, 3, fenced=3), 1, shrink=False)


def test_one_replica_less_is_only_for_those_who_say_so() -> None:
    orders = topic("orders", (1, 2, 3))
    with pytest.raises(NoPlan, match="--shrink"):
        drain_plan([orders], nodes(1, 2, 3), 2, shrink=False)
    assert drain_plan([orders], nodes(1, 2, 3), 2, shrink=True) == {tp("orders"): (1, 3)}


def test_the_last_replica_is_never_given_up() -> None:
    with pytest.raises(NoPlan):
        drain_plan([topic("alone", (1,))], nodes(1), 1, shrink=True)


def test_leaders_alone_move_by_standing_last() -> None:
    orders = topic("orders", (1, 2), (2, 1), (1,))
    assert unlead_plan([orders], 1) == {tp("orders", 0): (2, 1)}


def test_partitions_are_dealt_in_turn() -> None:
    orders = topic("orders", (1,), (1,), (1,))
    plan = spread_plan([orders], nodes(1, 2, 3), [3, 1, 2], replication_factor=2)
    assert list(plan.values()) == [(3, 1), (1, 2), (2, 3)]
    assert changes_only(plan, [topic("orders", (3, 1), (1,), (2, 3))]) == {tp("orders", 1): (1, 2)}


@pytest.mark.parametrize(
    ("wanted", "factor", "why"),
    [([1, 9], None, "no node 9"), ([1, 1], None, "twice"), ([1], 2, "name more nodes")],
)
def test_what_cannot_be_dealt(wanted: list[int], factor: int | None, why: str) -> None:
    with pytest.raises(NoPlan, match=why):
        spread_plan([topic("orders", (1,))], nodes(1, 2), wanted, replication_factor=factor)


def test_plans_are_those_of_kafkas_tool() -> None:
    plan = {tp("orders", 1): (2, 3)}
    assert (
        read_plan('{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,3]}]}')
        == plan
    )
    assert write_plan(plan)["partitions"] == [
        {"topic": "orders", "partition": 1, "replicas": [2, 3]}
    ]
    with pytest.raises(NoPlan, match="a plan is"):
        read_plan('{"partitions": [{"topic": "orders"}]}')


def test_partitions_by_name() -> None:
    assert parse_places(["a", "b:0,2", "b:3"]) == {"a": None, "b": {0, 2, 3}}
    assert parse_places(["a", "a:1"]) == {"a": None}
    assert parse_places(["a:0,4-6"]) == {"a": {0, 4, 5, 6}}
    for wrong in ("a:x", "a:", "a:3-1", "a:-1", "a:0-", "a:0-99999999999"):
        with pytest.raises(NoPlan, match="TOPIC:0"):
            parse_places([wrong])
