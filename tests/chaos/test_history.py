"""The judge of histories finds what it is there to find."""

from tests.chaos.history import differing, judge, longest_gap_s, misread

GOOD = [(0, "w 0"), (1, "w 1"), (2, "w 2")]


def test_a_good_history() -> None:
    verdict = judge({0: "w 0", 2: "w 2"}, GOOD, writer="w")
    assert verdict.is_good
    assert (verdict.acknowledged, verdict.read) == (2, 3)


def test_lost() -> None:
    assert judge({0: "w 0", 3: "w 3"}, GOOD, writer="w").lost == ("w 3",)


def test_twice() -> None:
    assert judge({0: "w 0"}, [*GOOD, (3, "w 2")], writer="w").duplicated == ("w 2",)


def test_moved() -> None:
    assert judge({1: "w 2"}, GOOD, writer="w").misplaced == ("w 2 was promised at 1",)


def test_out_of_order() -> None:
    verdict = judge({}, [(0, "w 1"), (1, "w 0")], writer="w")
    assert verdict.out_of_order == ("1 before 0",)


def test_what_nobody_wrote() -> None:
    assert judge({}, [(0, "x 0")], writer="w").strangers == ("x 0",)


def test_the_longest_gap_counts_the_ends() -> None:
    assert longest_gap_s([1.0, 2.0, 7.0], began=0.5, ended=8.0) == 5.0
    assert longest_gap_s([], began=0.0, ended=4.0) == 4.0


def test_replicas_that_part() -> None:
    assert differing({1: [(0, 11), (5, 12)], 2: [(0, 11)]}) == ""
    assert "node 2" in differing({1: [(0, 11), (5, 12), (9, 1)], 2: [(0, 11), (5, 13)]})


def test_what_a_poll_gave_is_held_against_the_log() -> None:
    stored = {0: [(0, "w 0"), (1, "w 1"), (3, "w 2")]}
    assert misread([[(0, 0, "w 0"), (0, 1, "w 1")], [(0, 1, "w 1"), (0, 3, "w 2")]], stored) == []
    (wrong,) = misread([[(0, 1, "w 2")]], stored)
    assert "where w 1 stands" in wrong
    for skipping in ([(0, 0, "w 0"), (0, 3, "w 2")], [(0, 1, "w 1"), (0, 0, "w 0")]):
        (wrong,) = misread([skipping], stored)
        assert "in one poll" in wrong
