"""Our matcher beside Python's: the same answers, and never more steps than it may take."""

import re
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millpond.rabbit.bounded_regex import BoundedPattern, TooLarge, TooManySteps, _Run

atoms = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\d", r"\.", "^", "$", r"\b", "[a-c]", "(?i:A)"]
)


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}"])
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map("(?:%s|%s)".__mod__),
        st.tuples(inner, repeats).map("(?:%s)%s".__mod__),
        inner.map("(%s)".__mod__),
        inner.map("(?=%s)".__mod__),
        inner.map("(?!%s)".__mod__),
        st.sampled_from(["(?<=a)", "(?<!b)", "(?<=ab)", "(?<!ba)"]),
        inner.map("(?>%s)".__mod__),
    )


patterns = st.recursive(atoms, _joined, max_leaves=8)
texts = st.text(alphabet="abcA1._", max_size=10)


@settings(max_examples=500)
@given(patterns, texts)
@example("(a|ab)(c|bcd)(d*)$", "abcd")
def test_the_same_answers_as_python(pattern: str, text: str) -> None:
    assert BoundedPattern(pattern).search(text) == (re.search(pattern, text) is not None)


@settings(max_examples=300)
@given(patterns, st.sampled_from(["a", "b", "."]), texts)
def test_the_same_answers_with_back_references(pattern: str, atom: str, text: str) -> None:
    whole = rf"({atom})(?:{pattern})\1"
    try:
        found = BoundedPattern(whole).search(text)
    except TooManySteps:
        return
    assert found == (re.search(whole, text) is not None)


@settings(max_examples=300, deadline=None)
@given(st.one_of(patterns, st.text(alphabet=r"ab.*+?(|)[]{}1,2^$\!=<:", max_size=60)), texts)
def test_no_pattern_takes_more_than_its_steps(pattern: str, text: str) -> None:
    """The longest names, for patterns of all kinds, most of which are none."""
    try:
        compiled = BoundedPattern(pattern)
    except (re.error, TooLarge, OverflowError, RecursionError):
        return
    name = (text * 255)[:255] if text else "a" * 255
    run = _Run(compiled._program, name, remembers=not compiled._has_references)
    with suppress(TooManySteps):
        any(run.match(0, start) >= 0 for start in range(len(name) + 1))
    assert run._left >= -1


def test_a_matcher_that_remembers_nothing_is_found() -> None:
    """The planted bug: what stopped a node takes few steps, and too many where places are not remembered."""
    compiled = BoundedPattern("^(?!z)" + "a?" * 32 + "a" * 32)
    name = "a" * 31
    assert _Run(compiled._program, name, remembers=True).match(0, 0) < 0
    with pytest.raises(TooManySteps):
        _Run(compiled._program, name, remembers=False).match(0, 0)
