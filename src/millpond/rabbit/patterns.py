"""Patterns of names, as policies and permissions have them: none of them can hold up the broker.

RabbitMQ's are those of PCRE, which stops when a match takes too many steps. Here a pattern is matched by re2,
in time that goes with the length of the name. What re2 does not know (look-ahead, which people write to leave
some names out: ``^(?!amq\\.).*``) is matched by a matcher that counts its steps (``bounded_regex``); a name
that takes too many does not match, which is said once.
"""

import logging
import re
from functools import lru_cache
from typing import Protocol

from millpond.base.errors import InvalidDefinition
from millpond.base.limits import NAME_PATTERN_CHARS_MAX
from millpond.rabbit.bounded_regex import BoundedPattern, TooLarge, TooManySteps

log = logging.getLogger(__name__)

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
    if len(pattern) > NAME_PATTERN_CHARS_MAX:
        raise InvalidDefinition(
            f"a regular expression of {len(pattern)} characters; it may have {NAME_PATTERN_CHARS_MAX}"
        )
    # Takes 10 ms to import, and a broker with plain patterns only does not need it.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        linear: Pattern = re2.compile(pattern, options)
    except (re2.error, UnicodeError):
        return _with_look_around(pattern)
    return linear


class _LookingAround:
    """A pattern that re2 does not know."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._pattern = BoundedPattern(pattern)
        self._is_told = False

    def search(self, text: str, /) -> object | None:
        try:
            return True if self._pattern.search(text) else None
        except (TooManySteps, RecursionError):
            if not self._is_told:
                self._is_told = True
                log.warning(
                    "the regular expression '%s' takes too many steps for names like '%s'; "
                    "they count as not matching. Write it with fewer repeats",
                    self._text[:200],
                    text[:100],
                )
            return None


def _with_look_around(pattern: str) -> Pattern:
    try:
        return _LookingAround(pattern)
    except (re.error, OverflowError) as error:
        raise InvalidDefinition(f"'{pattern}' is not a valid regular expression: {error}") from None
    except (TooLarge, RecursionError) as error:
        raise InvalidDefinition(
            f"'{pattern[:200]}' is too large or too deep for a regular expression: {error}"
        ) from None
