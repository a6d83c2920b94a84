"""Patterns of policies and permissions: what matches, what is refused, and that none takes long."""

import pytest

from millpond.base.errors import InvalidDefinition
from millpond.queue.patterns import compiled, matches


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("^orders", "orders.new", True),
        ("^orders$", "orders.new", False),
        ("", "anything", True),
        (r"^(?!amq\.).*", "amq.topic", False),
        (r"^(?!amq\.).*", "orders", True),
        (r"^(?!amq\.)(?!.*dead).*$", "orders.dead", False),
        ("^((?!test).)*$", "my-test", False),
        ("^((?!test).)*$", "mine", True),
        (r"^(a|b)\1$", "bb", True),
        (r"^(?=[(*+{|]).[^](+*]+$", "(a", True),
        ("größe", "eine größe", True),
    ],
)
def test_what_matches(pattern: str, name: str, matches: bool) -> None:
    assert (compiled(pattern).search(name) is not None) == matches


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(.*)*x", "a*a*a*a*a*a*a*a*a*a*a*a*b"])
def test_hostile_patterns_end(pattern: str) -> None:
    # By trying one way after the other this takes longer than anybody lives.
    assert compiled(pattern).search("a" * 255 + "!") is None


@pytest.mark.parametrize(
    "pattern",
    [
        "(?!x)(a+)+$",
        "(?!x)(a|a)*$",
        "(?!x)((a*)b)*$",
        "(?!x)(?:a{1,9}){2,}$",
        "(?!x)a*a*a*a*b",
        "(?!x)(?:(a|b)c?)+$",
    ],
)
def test_what_looks_around_and_may_take_long_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidDefinition, match="may take too long to match"):
        compiled(pattern)
    assert not matches(pattern, "a")


@pytest.mark.parametrize("pattern", ["(", "[a", "*"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidDefinition, match="is not a valid regular expression"):
        compiled(pattern)
