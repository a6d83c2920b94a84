"""Patterns: regular expressions that the broker evaluates for its clients.

A client can send any expression, so it must not be able to keep the broker busy. RE2 matches in time that
grows with the text alone and compiles into memory that has a bound (ADR 0007). It is also what Kafka uses, so
the same expressions mean the same topics.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from millpond.base import limits
from millpond.base.errors import InvalidPattern


def check(pattern: str) -> None:
    """Raises ``InvalidPattern``."""
    _compiled(pattern)


def matcher(pattern: str) -> Callable[[str], object | None]:
    """Return a function that returns None unless the pattern matches a whole text.

    Raises ``InvalidPattern``.
    """
    match: Callable[[str], object | None] = _compiled(pattern).fullmatch
    return match


def resolve(patterns: Iterable[str], names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the names that each pattern matches as a whole; none for an invalid pattern."""
    found: dict[str, frozenset[str]] = {}
    known = list(names)
    for pattern in patterns:
        try:
            matches = _compiled(pattern).fullmatch
        except InvalidPattern:
            found[pattern] = frozenset()
        else:
            found[pattern] = frozenset(name for name in known if matches(name) is not None)
    return found


@lru_cache(maxsize=limits.GROUP_PATTERNS_CACHED_MAX)
def _compiled(pattern: str) -> Any:
    # Imported when the first client sends a pattern: most brokers never need it.
    import re2  # type: ignore[import-untyped]

    if len(pattern) > limits.GROUP_PATTERN_CHARS_MAX:
        raise InvalidPattern(
            f"a pattern may have {limits.GROUP_PATTERN_CHARS_MAX} characters, not {len(pattern)}"
        )
    options = re2.Options()
    options.max_mem = limits.GROUP_PATTERN_MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"{pattern!r} is not a valid pattern for topics: {text}") from None
