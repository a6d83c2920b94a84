"""A way between two nodes is cut if both ends say so; then leaders go on without the followers behind it."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from millpond.metadata.elections import Rules
from millpond.metadata.image import Image, apply
from millpond.metadata.links import LinkReports, decide_cuts
from millpond.metadata.records import PartitionRecord, TopicRecord
from tests.unit.metadata.test_sessions import image_of

TOPIC = UUID(int=7)
FRESH_MS = 1_500


def image_with(leader: int, isr: tuple[int, ...]) -> Image:
    return apply(
        image_of(1, 2, 3),
        [
            TopicRecord(name="t", topic_id=TOPIC),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC,
                replicas=(1, 2, 3),
                isr=isr,
                leader=leader,
                leader_epoch=4,
                partition_epoch=9,
            ),
        ],
    )


def rules(min_isr: int) -> Rules:
    return Rules(allows_unclean=lambda _topic: False, min_isr_of=lambda _topic: min_isr)


def test_a_cut_needs_the_word_of_both_ends() -> None:
    reports = LinkReports(FRESH_MS)
    reports.note(1, 0, [], [2])
    assert reports.cuts(0) == set()
    reports.note(2, 100, [1], [])
    assert reports.cuts(100) == {(1, 2)}


def test_two_slow_nodes_are_no_cut() -> None:
    """Each has ceased to fetch, and none is left without an answer."""
    reports = LinkReports(FRESH_MS)
    reports.note(1, 0, [], [2])
    reports.note(2, 0, [], [1])
    assert reports.cuts(0) == set()


def test_what_a_node_said_long_ago_does_not_count() -> None:
    reports = LinkReports(FRESH_MS)
    reports.note(1, 0, [], [2])
    reports.note(2, FRESH_MS, [1], [])
    assert reports.cuts(FRESH_MS) == set()


def test_a_node_that_misses_nobody_takes_back_what_it_said() -> None:
    reports = LinkReports(FRESH_MS)
    reports.note(1, 0, [], [2])
    reports.note(2, 0, [1], [])
    reports.note(1, 1, [], [])
    assert reports.cuts(1) == set()


def test_the_leader_goes_on_without_the_follower() -> None:
    image = image_with(1, (1, 2, 3))
    (record,) = decide_cuts(image, {(1, 2)}, rules(2))
    after = apply(image, [record]).topics["t"].partitions[0]
    assert (after.leader, after.leader_epoch, after.isr) == (1, 4, (1, 3))


def test_where_too_few_would_be_left_the_follower_stays() -> None:
    assert decide_cuts(image_with(1, (1, 2)), {(1, 2)}, rules(2)) == []
    assert decide_cuts(image_with(1, (1, 2)), {(1, 2)}, rules(1)) != []


def test_other_partitions_are_left_alone() -> None:
    assert decide_cuts(image_with(3, (1, 2, 3)), {(1, 2), (2, 1)}, rules(2)) == []
    assert decide_cuts(image_with(1, (1, 3)), {(1, 2)}, rules(1)) == []


@given(
    st.sets(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=9),
    st.integers(1, 3),
    st.permutations([1, 2, 3]).flatmap(
        lambda nodes: st.integers(1, 3).map(lambda count: tuple(sorted(nodes[:count])))
    ),
    st.integers(1, 3),
)
def test_a_leader_stays_and_never_fewer_are_left_than_a_write_needs(
    cuts: set[tuple[int, int]], min_isr: int, isr: tuple[int, ...], leader_at: int
) -> None:
    leader = isr[leader_at % len(isr)]
    cuts = {(one, other) for one, other in cuts if one != other}
    image = image_with(leader, isr)
    for record in decide_cuts(image, cuts, rules(min_isr)):
        after = apply(image, [record]).topics["t"].partitions[0]
        assert after.leader == leader
        assert leader in after.isr
        assert set(after.isr) < set(isr)
        assert len(after.isr) >= min_isr
