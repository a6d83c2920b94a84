"""Placement: even, over racks, never twice on one node."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import InvalidReplicationFactor
from millpond.metadata.placement import Site, place


def test_three_nodes_lead_in_turn_and_stand_in_for_each_other() -> None:
    placed = place([Site(node=n) for n in (1, 2, 3)], range(6), 2)
    assert placed == [(1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2)]


def test_replicas_are_on_different_racks() -> None:
    sites = [Site(node=n, rack="ab"[n % 2]) for n in range(4)]
    for replicas in place(sites, range(8), 2):
        assert {node % 2 for node in replicas} == {0, 1}


def test_a_node_that_is_down_gets_replicas_only_when_the_others_do_not_suffice() -> None:
    sites = [Site(node=1), Site(node=2), Site(node=3, is_up=False)]
    assert all(3 not in replicas for replicas in place(sites, range(4), 2))
    assert all(replicas[-1] == 3 for replicas in place(sites, range(4), 3))


def test_more_replicas_than_nodes_are_refused() -> None:
    with pytest.raises(InvalidReplicationFactor, match=r"only 2 broker\(s\) are registered"):
        place([Site(node=1), Site(node=2)], [0], 3)


def test_nobody_up_is_refused() -> None:
    with pytest.raises(InvalidReplicationFactor, match="fenced"):
        place([Site(node=1, is_up=False)], [0], 1)


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9),
    count=st.integers(1, 60),
    data=st.data(),
)
def test_whatever_the_cluster_the_rules_hold(
    racks: list[str | None], count: int, data: st.DataObject
) -> None:
    sites = [Site(node=node, rack=rack) for node, rack in enumerate(racks)]
    factor = data.draw(st.integers(1, len(sites)))
    placed = place(sites, range(count), factor)
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({racks[node] for node in replicas}) == min(factor, len(set(racks)))
    leaders = Counter(replicas[0] for replicas in placed)
    led = [leaders[node] for node in range(len(sites))]
    assert max(led) - min(led) <= 1
