"""Authenticates clients by password, token or certificate: the chain of ``auth_backends``.

The backends are asked in turn; the first that knows the client decides. A user of the broker has permissions,
the bearer of a token has its scopes. A ``Verifier`` checks signatures, for which it may have to fetch keys;
``auth/claims.py`` decides what the rest of a token means.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any, Protocol

from millpond.auth.claims import Bearer, TokenRefused, TokenRules, read_claims
from millpond.auth.permissions import is_password
from millpond.base import errors
from millpond.base.clock import Clock
from millpond.frontend.amqp.attempts import Attempts
from millpond.rabbit.bootstrap import DEFAULT_USER
from millpond.rabbit.broker import Broker

INTERNAL, OAUTH = "internal", "oauth2"
# RabbitMQ's other names of the backends.
BACKENDS = {
    INTERNAL: INTERNAL,
    "rabbit_auth_backend_internal": INTERNAL,
    OAUTH: OAUTH,
    "rabbit_auth_backend_oauth2": OAUTH,
}


class LoginRefused(errors.MillpondError):
    """The client is not authenticated; the text says why, for the log only."""


class KeysNeeded(errors.MillpondError):
    """A token was signed with a key that is missing or may be outdated: fetch keys and check again."""


class Verifier(Protocol):
    """Knows the keys that tokens are signed with."""

    rules: TokenRules

    def claims(self, token: bytes) -> Mapping[str, Any]:
        """Return the claims of a token. Raises ``TokenRefused``, and ``KeysNeeded`` if ``fetch`` may help."""
        ...

    async def fetch(self) -> None:
        """Fetch the present keys; raises nothing if that fails."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An authenticated client. ``scopes`` and ``expires_s`` are a token's; None for users of the broker."""

    name: str
    tags: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    expires_s: int | None = None


class Logins:
    """The logins of one node."""

    def __init__(
        self,
        backends: tuple[str, ...],
        broker: Callable[[], Broker],
        clock: Clock,
        verifier: Verifier | None,
    ) -> None:
        self._backends = tuple(dict.fromkeys(BACKENDS[name] for name in backends))
        self._broker = broker
        self._clock = clock
        self._verifier = verifier
        self.attempts = Attempts()
        assert OAUTH not in self._backends or verifier is not None

    def known(self, user: str, password: bytes, peer: str) -> Known:
        """Authenticate by password or token. Raises ``LoginRefused`` and ``KeysNeeded``."""
        reasons: list[str] = []
        for backend in self._backends:
            try:
                found = (
                    self._by_password(user, password)
                    if backend == INTERNAL
                    else self._by_token(password)
                )
            except (LoginRefused, TokenRefused) as error:
                reasons.append(str(error))
                continue
            return _checked(found, peer)
        raise LoginRefused("; ".join(reasons) or "there are no auth_backends")

    def certified(self, user: str, peer: str) -> Known:
        """Authenticate by certificate. Raises ``LoginRefused``."""
        if INTERNAL not in self._backends:
            raise LoginRefused(
                "certificates name users of the backend internal, which is not there"
            )
        return _checked(self._user(user), peer)

    def renewed(self, known: Known, secret: bytes) -> Known:
        """Return the client with another token. Raises ``LoginRefused`` and ``KeysNeeded``."""
        if known.scopes is None:
            # Passwords are not checked again.
            return known
        try:
            found = self._by_token(secret)
        except TokenRefused as error:
            raise LoginRefused(str(error)) from None
        if found.name != known.name:
            raise LoginRefused("the token is of another user")
        return found

    async def fetch_keys(self) -> None:
        assert self._verifier is not None
        await self._verifier.fetch()

    def _by_password(self, user: str, password: bytes) -> Known:
        known = self._user(user)
        if not is_password(self._broker().users[user], password):
            raise LoginRefused("wrong password")
        return known

    def _user(self, name: str) -> Known:
        user = self._broker().users.get(name)
        if user is None:
            raise LoginRefused("no such user")
        return Known(name=name, tags=user.tags)

    def _by_token(self, token: bytes) -> Known:
        assert self._verifier is not None
        claims = self._verifier.claims(token)
        bearer: Bearer = read_claims(claims, self._verifier.rules, self._clock.now_ms() // 1000)
        return Known(
            name=bearer.name, tags=bearer.tags, scopes=bearer.scopes, expires_s=bearer.expires_s
        )


def _checked(known: Known, peer: str) -> Known:
    if known.name == DEFAULT_USER and not is_local(peer):
        raise OnlyLocal("this user can only log in from this machine")
    return known


class OnlyLocal(LoginRefused):
    """Whether a user that may only connect from this machine connects from another one."""


def is_local(peer: str) -> bool:
    """Whether ``host:port`` is on this machine; sockets without addresses are, and clients in memory."""
    host = peer.rpartition(":")[0] or peer
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host in {"local", "memory"}
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
