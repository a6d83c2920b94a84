"""Reads the claims of a token whose signature is checked: user name, tags, scopes and expiry.

As RabbitMQ's plug-in ``rabbitmq_auth_backend_oauth2`` reads tokens. Pure: claims, rules and the time in, a
bearer or the reason for a refusal out. A reason contains nothing from the token, only which part is wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from millpond.base import limits
from millpond.base.errors import MillpondError

_TAG = "tag:"
# The claims that may hold the user name by default; a token without any of them has this name.
_NAME_CLAIMS = ("sub", "client_id")
_UNNAMED_USER = "unknown"


class TokenRefused(MillpondError):
    """A token that is refused; the text says why and contains nothing from the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The requirements for tokens; the settings ``auth_oauth2.*``."""

    resource_server_id: str
    scope_prefix: str
    verify_aud: bool = True
    # Dotted paths of claims that hold scopes beside ``scope``.
    additional_scopes: tuple[str, ...] = ()
    # The scopes that an alias stands for.
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name_claims: tuple[str, ...] = ()
    leeway_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """The user that a token authenticates. ``scopes`` have no prefix."""

    name: str
    tags: tuple[str, ...]
    scopes: tuple[str, ...]
    expires_s: int


def read_claims(claims: Mapping[str, Any], rules: TokenRules, now_s: int) -> Bearer:
    """Return the bearer of a token. Raises ``TokenRefused``."""
    expires_s = _check_times(claims, rules, now_s)
    if rules.verify_aud:
        _check_audience(claims.get("aud"), rules.resource_server_id)
    name, scopes = _name(claims, rules), _scopes(claims, rules)
    if not all(map(_is_text, (name, *scopes))):
        raise TokenRefused("the token's name or scopes hold what is no text")
    tags = {scope.removeprefix(_TAG) for scope in scopes if scope.startswith(_TAG)}
    return Bearer(
        name=name,
        tags=tuple(sorted(tags)),
        scopes=tuple(scope for scope in scopes if not scope.startswith(_TAG)),
        expires_s=expires_s,
    )


def _check_times(claims: Mapping[str, Any], rules: TokenRules, now_s: int) -> int:
    """Return when the token expires, including the leeway."""
    expires_s, begins_s = claims.get("exp"), claims.get("nbf")
    if expires_s is None:
        raise TokenRefused("the token does not say when it expires (exp)")
    if not _is_time(expires_s):
        raise TokenRefused("the token's time of expiry (exp) is not a number")
    until_s = int(expires_s) + rules.leeway_s
    if until_s <= now_s:
        raise TokenRefused("the token has expired")
    if begins_s is not None and not _is_time(begins_s):
        raise TokenRefused("the token's beginning (nbf) is not a number")
    if begins_s is not None and int(begins_s) - rules.leeway_s > now_s:
        raise TokenRefused("the token is not valid yet (nbf)")
    return until_s


def _is_text(value: str) -> bool:
    """Return whether a text can be encoded: JSON can contain lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_time(value: object) -> bool:
    """Return whether a value is a finite number; Python's JSON has infinities, and booleans are integers."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < 2**53  # type: ignore[arg-type]


def _check_audience(audience: object, wanted: str) -> None:
    """Check the audience: one text, a list of texts, or several words in one text."""
    named = audience.split() if isinstance(audience, str) else audience
    if not isinstance(named, list) or not named:
        raise TokenRefused("the token does not say whom it is for (aud)")
    if wanted not in named:
        raise TokenRefused("the token is for another audience (aud)")


def _name(claims: Mapping[str, Any], rules: TokenRules) -> str:
    for claim in (*rules.name_claims, *_NAME_CLAIMS):
        value = claims.get(claim)
        if isinstance(value, str) and value:
            return value
    return _UNNAMED_USER


# --- scopes ------------------------------------------------------------------------------------------------


def _scopes(claims: Mapping[str, Any], rules: TokenRules) -> list[str]:
    """Return the scopes for this broker, without their prefix, each once."""
    found = list(_listed(claims.get("scope"), rules))
    for path in rules.additional_scopes:
        for value in _at(claims, path.split(".")):
            found += _listed(value, rules)
    found += [scope for one in found for scope in rules.aliases.get(one, ())]
    prefix = rules.scope_prefix
    kept = dict.fromkeys(one.removeprefix(prefix) for one in found if one.startswith(prefix))
    if len(kept) > limits.OAUTH_SCOPES_MAX:
        raise TokenRefused(f"the token has more than {limits.OAUTH_SCOPES_MAX} scopes")
    return list(kept)


def _listed(value: object, rules: TokenRules) -> Iterable[str]:
    """Return the words of a text or the texts of a list; an object is looked up by the resource
    server's id.
    """
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [one for one in value if isinstance(one, str)]
    if isinstance(value, Mapping):
        own = value.get(rules.resource_server_id)
        if not isinstance(own, Mapping):
            return [f"{rules.resource_server_id}.{one}" for one in _listed(own, rules)]
    return ()


def _at(value: object, path: list[str]) -> Iterable[object]:
    """Yield the values at a path; lists are searched element by element."""
    if not path:
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _at(one, path)
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _at(value[path[0]], path[1:])
