"""Who gets what: even, complete, and with as few moves as can be."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.group.consumer.assignors import (
    ASSIGNORS,
    Candidate,
    Targets,
    assign_range,
    assign_uniform,
)

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def sizes(targets: Targets) -> list[int]:
    return sorted(sum(map(len, target.values())) for target in targets.values())


def places(targets: Targets) -> list[tuple[UUID, int]]:
    return sorted(
        (topic, partition)
        for target in targets.values()
        for topic, partitions in target.items()
        for partition in partitions
    )


def test_uniform_gives_everyone_the_same_number() -> None:
    targets = assign_uniform({name: Candidate(topics=(A, B)) for name in "xyz"}, {A: 4, B: 4})
    assert sizes(targets) == [2, 3, 3]
    assert places(targets) == [(topic, number) for topic in (A, B) for number in range(4)]


def test_uniform_moves_no_more_than_it_must() -> None:
    before = {
        "x": Candidate(topics=(A,), target={A: frozenset({0, 2, 4, 6})}),
        "y": Candidate(topics=(A,), target={A: frozenset({1, 3, 5, 7})}),
    }
    targets = assign_uniform(before | {"z": Candidate(topics=(A,))}, {A: 8})
    assert sizes(targets) == [2, 3, 3]
    for name in "xy":
        assert targets[name][A] <= before[name].target[A]
    again = {name: Candidate(topics=(A,), target=targets[name]) for name in "xyz"}
    assert assign_uniform(again, {A: 8}) == targets


def test_the_odd_partition_stays_where_it_is() -> None:
    members = {
        "x": Candidate(topics=(A,), target={A: frozenset({0})}),
        "y": Candidate(topics=(A,), target={A: frozenset({1, 2})}),
    }
    assert assign_uniform(members, {A: 3}) == {name: one.target for name, one in members.items()}


def test_members_that_read_less_leave_more_to_others() -> None:
    members = {
        "x": Candidate(topics=(A, B)),
        "y": Candidate(topics=(B,)),
        "z": Candidate(topics=(B,)),
    }
    targets = assign_uniform(members, {A: 3, B: 6})
    assert sizes(targets) == [3, 3, 3]
    assert targets["x"][A] == frozenset({0, 1, 2})


def test_range_gives_neighbours_static_members_first() -> None:
    members = {
        "a": Candidate(topics=(A, B)),
        "b": Candidate(topics=(A, B), instance_id="z"),
    }
    targets = assign_range(members, {A: 3, B: 2})
    assert targets["b"] == {A: frozenset({0, 1}), B: frozenset({0})}
    assert targets["a"] == {A: frozenset({2}), B: frozenset({1})}


def test_more_members_than_partitions() -> None:
    for assign in ASSIGNORS.values():
        targets = assign({name: Candidate(topics=(A,)) for name in "wxyz"}, {A: 2})
        assert sizes(targets) == [0, 0, 1, 1]


MEMBERS = st.dictionaries(
    st.sampled_from("pqrstu"),
    st.tuples(
        st.sets(st.sampled_from([A, B, C]), max_size=3),
        st.dictionaries(
            st.sampled_from([A, B, C]), st.frozensets(st.integers(0, 9), min_size=1), max_size=3
        ),
    ),
    min_size=1,
)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(members=MEMBERS, count=st.integers(1, 7))
def test_every_partition_that_is_read_has_one_reader(
    name: str,
    members: dict[str, tuple[set[UUID], dict[UUID, frozenset[int]]]],
    count: int,
) -> None:
    taken: set[tuple[UUID, int]] = set()
    candidates: dict[str, Candidate] = {}
    for member, (topics, had) in members.items():
        # Nobody had what another had before.
        target = {
            topic: frozenset(one for one in numbers if (topic, one) not in taken)
            for topic, numbers in had.items()
        }
        taken |= {(topic, one) for topic, numbers in target.items() for one in numbers}
        target = {topic: numbers for topic, numbers in target.items() if numbers}
        candidates[member] = Candidate(topics=sorted(topics), target=target)
    counts = {topic: count for topics, _ in members.values() for topic in topics}
    targets = ASSIGNORS[name](candidates, counts)
    assert places(targets) == [(topic, one) for topic in sorted(counts) for one in range(count)]
    for member, given_now in targets.items():
        assert given_now.keys() <= members[member][0]
    if name == "uniform" and len({frozenset(topics) for topics, _ in members.values()}) == 1:
        assert sizes(targets)[-1] - sizes(targets)[0] <= 1
