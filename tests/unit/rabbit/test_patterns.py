"""Patterns of policies and permissions: what matches, what is refused, and that none takes long."""

import pytest

from millpond.base.errors import InvalidDefinition
from millpond.rabbit.patterns import compiled, matches


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
def test_what_looks_around_ends(pattern: str) -> None:
    """Python's own matcher would try one way after the other, and they were refused; RabbitMQ takes them."""
    assert compiled(f"^{pattern}").search("a" * 254 + "!") is None


def test_the_pattern_that_stopped_a_node() -> None:
    pattern = "^(?!z)" + "a?" * 32 + "a" * 32
    assert matches(pattern, "a" * 32)
    assert matches(pattern, "a" * 64)
    assert not matches(pattern, "a" * 31)
    assert not matches(pattern, "z" + "a" * 64)


def test_a_search_that_takes_too_many_steps_matches_nothing_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hostile = r"^(a|aa)+(b)\2$"  # places cannot be remembered where groups are referred to
    for length in (200, 201):
        assert not matches(hostile, "a" * length + "c")
    assert len([one for one in caplog.records if "too many steps" in one.message]) == 1


@pytest.mark.parametrize(
    "pattern",
    [
        "(?!x)" + "(" * 5000 + ")" * 5000,
        "(?!x)" + "((((a{9}){9}){9}){9}){9}",
        "(?!x)a{99999999999999999999}",
        "(?!x)" + "a" * 20_000,
        "(?!x)(a)?(?(1)b|c)",
        "b" * 20_000,
    ],
    ids=["deep", "large", "repeats", "long", "condition", "plain and long"],
)
def test_what_is_too_much_is_refused_and_when_stored_matches_nothing(pattern: str) -> None:
    with pytest.raises(InvalidDefinition):
        compiled(pattern)
    assert not matches(pattern, "a")


@pytest.mark.parametrize("pattern", ["(", "[a", "*"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidDefinition, match="is not a valid regular expression"):
        compiled(pattern)
