"""Decides what the scopes of a token allow: patterns of virtual hosts, names and routing keys.

A scope is ``read:VHOST/NAME``, ``write:VHOST/NAME`` or ``configure:VHOST/NAME``, with ``/KEY`` after it for
routing keys of topic exchanges; any key if it is left out. In each part ``*`` stands for any characters,
``{vhost}`` for the client's virtual host, and other special characters are percent-encoded. A scope of
another form allows nothing. Pure.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_plus

from millpond.auth.permissions import Right, by_known_name
from millpond.base import limits
from millpond.base.errors import AccessRefused
from millpond.rabbit.names import Resource

_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VHOST = "{vhost}"
# Stands for the virtual host in a pattern; no text contains it.
_ITS_VHOST = "\ud800"


class Grant(NamedTuple):
    """One scope. Each part is split at its asterisks."""

    right: Right
    vhost: tuple[str, ...]
    name: tuple[str, ...]
    key: tuple[str, ...]


@lru_cache(maxsize=limits.OAUTH_SCOPES_CACHED)
def parsed(scope: str) -> Grant | None:
    """Return the parsed scope; None if it has another form."""
    word, _colon, rest = scope.partition(":")
    parts = rest.split("/")
    if word not in set(Right) or len(parts) not in {2, 3}:
        return None
    patterns = [_pattern(part) for part in parts]
    vhost, name = patterns[0], patterns[1]
    key = patterns[2] if len(patterns) == 3 else ("", "")
    if vhost is None or name is None or key is None:
        return None
    return Grant(Right(word), vhost, name, key)


def allows_vhost(scopes: Iterable[str], vhost: str) -> bool:
    """Return whether any scope allows something in the virtual host."""
    return any(
        grant is not None and _suits(grant.vhost, vhost, vhost) for grant in map(parsed, scopes)
    )


def check_grants(
    scopes: Iterable[str], user: str, resource: Resource, right: Right, *, is_expired: bool
) -> None:
    """Raise ``AccessRefused`` if no scope allows the operation on the resource."""
    resource = by_known_name(resource)
    for grant in map(parsed, () if is_expired else scopes):
        if (
            grant is not None
            and grant.right is right
            and _suits(grant.vhost, resource.vhost, resource.vhost)
            and _suits(grant.name, resource.name, resource.vhost)
        ):
            return
    raise AccessRefused(
        f"{right} access to {resource} refused for user '{user}'{_why(is_expired=is_expired)}"
    )


def check_topic_grants(
    scopes: Iterable[str],
    user: str,
    exchange: Resource,
    right: Right,
    routing_key: str,
    *,
    is_expired: bool,
) -> None:
    """Raise ``AccessRefused`` for a routing key that no scope for the exchange allows."""
    for grant in map(parsed, () if is_expired else scopes):
        if (
            grant is not None
            and grant.right is right
            and _suits(grant.vhost, exchange.vhost, exchange.vhost)
            and _suits(grant.name, exchange.name, exchange.vhost)
            and _suits(grant.key, routing_key, exchange.vhost)
        ):
            return
    raise AccessRefused(
        f"{right} access to topic '{routing_key}' in {exchange} refused for user '{user}'"
        f"{_why(is_expired=is_expired)}"
    )


def _why(*, is_expired: bool) -> str:
    return ": the token has expired" if is_expired else ""


def _pattern(text: str) -> tuple[str, ...] | None:
    """Split a pattern, then decode it, so that an asterisk or a brace can be percent-encoded."""
    if _BROKEN_PERCENT.search(text):
        return None
    try:
        return tuple(_unquoted(part) for part in text.split("*"))
    except UnicodeDecodeError:
        return None


def _unquoted(text: str) -> str:
    return _ITS_VHOST.join(unquote_plus(part, errors="strict") for part in text.split(_VHOST))


def _suits(pattern: tuple[str, ...], text: str, vhost: str) -> bool:
    """Return whether the text matches the pattern for a client in this virtual host."""
    return _agrees(tuple(part.replace(_ITS_VHOST, vhost) for part in pattern), text)


def _agrees(pattern: tuple[str, ...], text: str) -> bool:
    """Return whether the text matches, in linear time: the earliest match of each part is as good as any."""
    first, last = pattern[0], pattern[-1]
    if len(pattern) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    place, end = len(first), len(text) - len(last)
    for part in pattern[1:-1]:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
