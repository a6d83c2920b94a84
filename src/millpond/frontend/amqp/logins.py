"""Who somebody is, by a password or by a token: the chain of ``auth_backends``.

Each is asked in turn, and the first that knows the client says what it may: a user of the broker's own has
permissions, the bearer of a token has its scopes. Signatures are looked at by a ``Verifier``, which may have
to fetch keys; what the rest of a token means is decided in ``auth/claims.py``.
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
# RabbitMQ's other names of them.
BACKENDS = {
    INTERNAL: INTERNAL,
    "rabbit_auth_backend_internal": INTERNAL,
    OAUTH: OAUTH,
    "rabbit_auth_backend_oauth2": OAUTH,
}


class LoginRefused(errors.MillpondError):
    """Somebody who is not let in; the text says why, for the log only."""


class KeysNeeded(errors.MillpondError):
    """A token of a key that is not here, or not surely valid any more: have keys fetched, and look again."""


class Verifier(Protocol):
    """Who knows the keys that tokens are signed with."""

    rules: TokenRules

    def claims(self, token: bytes) -> Mapping[str, Any]:
        """What a token says. Raises ``TokenRefused``, and ``KeysNeeded`` if ``fetch`` may help."""
        ...

    async def fetch(self) -> None:
        """Have the keys of today; raises nothing if they cannot be had."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Somebody who is let in. ``scopes`` and ``expires_s`` are a token's; None for the broker's own users."""

    name: str
    tags: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    expires_s: int | None = None


class Logins:
    """One node's."""

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
        """Whom a password or a token lets in. Raises ``LoginRefused`` and ``KeysNeeded``."""
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
        """Whom a certificate names. Raises ``LoginRefused``."""
        if INTERNAL not in self._backends:
            raise LoginRefused(
                "certificates name users of the backend internal, which is not there"
            )
        return _checked(self._user(user), peer)

    def renewed(self, known: Known, secret: bytes) -> Known:
        """Somebody with another token. Raises ``LoginRefused`` and ``KeysNeeded``."""
        if known.scopes is None:
            # Passwords are not looked at again.
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
    """A user who may come from this machine only, from another one."""


def is_local(peer: str) -> bool:
    """Whether ``host:port`` is on this machine; sockets without addresses are, and clients in memory."""
    host = peer.rpartition(":")[0] or peer
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host in {"local", "memory"}
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
