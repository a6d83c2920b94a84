"""Patterns of names, as policies and permissions have them: none of them can hold up the broker.

RabbitMQ's are those of PCRE, which stops when a match takes too many steps. Here a pattern is matched by re2,
in time that goes with the length of the name. What re2 does not know (look-ahead, which people write to leave
some names out: ``^(?!amq\\.).*``) is matched by Python's ``re``, whose time is bounded by what a pattern may
have: few repeats, and none within another.
"""

import re
from functools import lru_cache
from typing import Protocol

from millpond.base.errors import InvalidDefinition

# Repeats in one pattern that looks around: a name has 255 characters, and each may end at each of them.
_REPEATS_MAX = 3
# What most permissions are.
_PLAIN = frozenset(("", "^$", ".*", "^.*", "^.*$"))


class Pattern(Protocol):
    """What a name is held against."""

    def search(self, text: str, /) -> object | None: ...


@lru_cache(maxsize=4096)
def matches(pattern: str, name: str) -> bool:
    """Whether a name has what a pattern wants somewhere. One that an earlier release took matches nothing."""
    try:
        return compiled(pattern).search(name) is not None
    except InvalidDefinition:
        return False


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Pattern:
    """A pattern of a policy or a permission. Raises ``InvalidDefinition``."""
    if pattern in _PLAIN:
        return re.compile(pattern)
    # Takes 10 ms to import, and a broker with plain patterns only does not need it.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        linear: Pattern = re2.compile(pattern, options)
    except (re2.error, UnicodeError):
        return _with_look_around(pattern)
    return linear


def _with_look_around(pattern: str) -> Pattern:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise InvalidDefinition(f"'{pattern}' is not a valid regular expression: {error}") from None
    if _may_take_long(pattern):
        raise InvalidDefinition(
            f"'{pattern}' may take too long to match: beside look-ahead or back-references a regular "
            f"expression may have {_REPEATS_MAX} repeats, and none within a group that is repeated"
        )
    return found


def _may_take_long(pattern: str) -> bool:
    """Whether it has many repeats, or repeats a group that has repeats or choices of its own."""
    repeats = 0
    # For each group that is open: whether something in it may be matched in several ways.
    is_ambiguous = [False]
    closed = False  # whether the group that was just closed was ambiguous
    position, is_group_end = 0, False
    while position < len(pattern):
        sign = pattern[position]
        if sign in "*+{":
            repeats += 1
            if is_group_end and closed:
                return True
            is_ambiguous[-1] = True
        is_group_end = False
        match sign:
            case "\\":
                position += 1
            case "[":
                position = _class_end(pattern, position)
            case "(":
                is_ambiguous.append(False)
            case ")":
                closed, is_group_end = is_ambiguous.pop(), True
                is_ambiguous[-1] = is_ambiguous[-1] or closed
            case "|":
                is_ambiguous[-1] = True
            case _:
                pass
        position += 1
    return repeats > _REPEATS_MAX


def _class_end(pattern: str, first: int) -> int:
    """Where a class of characters ends that begins there."""
    position = first + 1
    if pattern.startswith("^", position):
        position += 1
    if pattern.startswith("]", position):
        position += 1
    while pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position
