"""Who reads what: known answers, and properties that every plan has."""

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.ids import TopicPartition
from millpond.client.assignors import (
    Members,
    MemberSubscription,
    Plan,
    assign_cooperative,
    assign_range,
    assign_round_robin,
    assign_sticky,
)


def members(count: int, *topics: str) -> dict[str, MemberSubscription]:
    return {f"m{number}": MemberSubscription(topics=topics) for number in range(count)}


def numbers(plan: Plan) -> dict[str, list[str]]:
    return {name: [str(place) for place in given] for name, given in plan.items()}


def holding(plan: Plan, wanted: Members) -> dict[str, MemberSubscription]:
    """The same members a round later, with what they were given."""
    return {
        name: MemberSubscription(topics=member.topics, owned=tuple(plan[name]), generation=1)
        for name, member in wanted.items()
    }


def test_range_gives_neighbours_and_the_rest_to_the_first() -> None:
    assert numbers(assign_range(members(3, "t"), {"t": 10})) == {
        "m0": ["t-0", "t-1", "t-2", "t-3"],
        "m1": ["t-4", "t-5", "t-6"],
        "m2": ["t-7", "t-8", "t-9"],
    }


def test_range_counts_every_topic_for_itself() -> None:
    plan = assign_range(members(2, "a", "b"), {"a": 3, "b": 3})
    assert numbers(plan) == {"m0": ["a-0", "a-1", "b-0", "b-1"], "m1": ["a-2", "b-2"]}


def test_static_members_come_first_and_by_their_own_names() -> None:
    found = assign_range(
        {
            "x": MemberSubscription(topics=("t",)),
            "z": MemberSubscription(topics=("t",), instance_id="a"),
        },
        {"t": 1},
    )
    assert numbers(found) == {"x": [], "z": ["t-0"]}


def test_round_robin_deals_and_passes_over() -> None:
    wanted = members(2, "a", "b") | {"m2": MemberSubscription(topics=("b",))}
    assert numbers(assign_round_robin(wanted, {"a": 3, "b": 3})) == {
        "m0": ["a-0", "a-2", "b-2"],
        "m1": ["a-1", "b-0"],
        "m2": ["b-1"],
    }


def test_sticky_moves_only_what_a_newcomer_needs() -> None:
    first = assign_sticky(members(2, "t"), {"t": 6})
    wanted = holding(first, members(2, "t")) | {"m2": MemberSubscription(topics=("t",))}
    second = assign_sticky(wanted, {"t": 6})
    assert [len(given) for given in second.values()] == [2, 2, 2]
    for name in ("m0", "m1"):
        assert set(second[name]) < set(first[name])


def test_cooperative_takes_nothing_before_it_is_let_go() -> None:
    first = assign_cooperative(members(2, "t"), {"t": 6})
    wanted = holding(first, members(2, "t")) | {"m2": MemberSubscription(topics=("t",))}
    second = assign_cooperative(wanted, {"t": 6})
    assert second["m2"] == []  # the others let go of two first
    third = assign_cooperative(holding(second, wanted), {"t": 6})
    assert [len(given) for given in third.values()] == [2, 2, 2]


def test_of_two_who_claim_the_same_the_later_generation_is_right() -> None:
    place = TopicPartition("t", 0)
    wanted = {
        "a": MemberSubscription(topics=("t",), owned=(place,), generation=4),
        "b": MemberSubscription(topics=("t",), owned=(place,), generation=5),
    }
    assert assign_sticky(wanted, {"t": 1})["b"] == [place]


TOPICS = st.sampled_from(["a", "b", "c"])
GROUPS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(6)]),
    st.sets(TOPICS).map(lambda topics: MemberSubscription(topics=tuple(sorted(topics)))),
    min_size=1,
)
COUNTS = st.dictionaries(TOPICS, st.integers(0, 7))


@given(GROUPS, COUNTS, st.sampled_from([assign_range, assign_round_robin, assign_sticky]))
def test_every_partition_goes_to_one_who_wants_it(
    wanted: Members, counts: dict[str, int], assign: object
) -> None:
    assert callable(assign)
    plan = assign(wanted, counts)
    given_out = [place for places in plan.values() for place in places]
    expected = {
        TopicPartition(topic, number)
        for topic, count in counts.items()
        for number in range(count)
        if any(topic in member.topics for member in wanted.values())
    }
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == expected
    assert all(place.topic in wanted[name].topics for name in plan for place in plan[name])


@given(GROUPS, COUNTS)
def test_a_sticky_plan_is_even_and_stays(wanted: Members, counts: dict[str, int]) -> None:
    plan = assign_sticky(wanted, counts)
    for name, places in plan.items():
        for place in places:
            others = [len(plan[other]) for other in wanted if place.topic in wanted[other].topics]
            assert len(plan[name]) - min(others) <= 1
    assert assign_sticky(holding(plan, wanted), counts) == plan
