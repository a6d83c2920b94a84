"""Packed gaps against a list of pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.cursor.ack import Range
from millpond.queue import gaps as module
from millpond.queue.gaps import Gaps

# Distances and sizes of one byte, and of more.
numbers = st.one_of(st.integers(1, 4), st.integers(1, 300), st.integers(2**20, 2**40))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_GAPS_MAX", 3)


def laid_out(steps: list[tuple[int, int]]) -> list[Range]:
    found, end = [], 0
    for distance, size in steps:
        found.append((end + distance, end + distance + size))
        end = found[-1][1]
    return found


def agree(gaps: Gaps, expected: list[Range]) -> None:
    assert list(gaps) == expected
    assert gaps.count == len(expected)
    assert gaps.offsets == sum(next_ - first for first, next_ in expected)
    if expected:
        assert (gaps.first, gaps.next) == expected[0]


def reached(expected: list[Range], start: int, count: int) -> int:
    for first, next_ in expected:
        if start + count <= first:
            break
        count -= first - start
        start = next_
    return start + count


@given(steps=st.lists(st.tuples(numbers, numbers), max_size=12), data=st.data())
def test_gaps_are_what_was_added_less_what_was_passed(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    gaps, expected = Gaps(), laid_out(steps)
    for first, next_ in expected:
        gaps.append(first, next_)
    offset = data.draw(st.integers(0, (expected[-1][1] if expected else 0) + 1))
    assert list(gaps.from_(offset)) == [gap for gap in expected if gap[1] > offset]
    for _popped in range(data.draw(st.integers(0, min(4, len(expected))))):
        assert gaps.pop() == expected.pop(0)
        agree(gaps, expected)
    gaps.drop(offset)
    expected = [gap for gap in expected if gap[1] > offset]
    agree(gaps, expected)
    start = data.draw(st.integers(0, expected[0][0])) if expected else 0
    count = data.draw(numbers)
    assert gaps.reach(start, count) == reached(expected, start, count)
    packed, rest = gaps.packed(start, 100)
    assert rest is None
    agree(Gaps.unpacked(packed, start), expected)
    more = (expected[-1][1] if expected else 0) + 5
    again = Gaps.unpacked(packed, start)
    again.append(more, more + 1)
    agree(again, [*expected, (more, more + 1)])


@given(
    steps=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12), most=st.integers(1, 12)
)
def test_a_part_of_them_says_where_the_rest_begins(steps: list[tuple[int, int]], most: int) -> None:
    gaps, expected = Gaps(), laid_out(steps)
    for first, next_ in expected:
        gaps.append(first, next_)
    packed, rest = gaps.packed(0, most)
    part = list(Gaps.unpacked(packed, 0))
    assert len(part) <= max(most, 1)
    assert part == expected[: len(part)]
    assert rest == (expected[len(part)][0] if len(part) < len(expected) else None)


def test_what_was_passed_goes_though_there_is_always_one_more() -> None:
    gaps, end = Gaps(), 0
    for number in range(1_000):
        gaps.append(end + 1, end + 2)
        end += 2
        if number >= 2:
            gaps.pop()
    agree(gaps, [(end - 3, end - 2), (end - 1, end)])
    assert sum(len(block.data) for block in gaps._blocks) < 20
