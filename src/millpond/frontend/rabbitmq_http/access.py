"""Authenticates users of the API, and checks what their tags let them see and do."""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus

from millpond.frontend.amqp.attempts import HTTP
from millpond.frontend.amqp.handshake import may_enter
from millpond.frontend.amqp.logins import KeysNeeded, LoginRefused, Logins, OnlyLocal
from millpond.frontend.rabbitmq_http.http import Refused, Request, not_authorised
from millpond.rabbit.broker import Broker, VirtualHostState
from millpond.rabbit.records import User

REALM = 'Basic realm="RabbitMQ Management"'


class Rank(IntEnum):
    """The rank of a user by its tags. Policymakers see no more than managers, but set policies."""

    NONE = 0
    MANAGEMENT = 1
    POLICYMAKER = 2
    MONITORING = 3
    ADMINISTRATOR = 4


_REFUSALS = {
    Rank.MANAGEMENT: "Not management user",
    Rank.POLICYMAKER: "User not authorised to access object",
    Rank.MONITORING: "Not monitor user",
    Rank.ADMINISTRATOR: "Not administrator user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A user who has logged in."""

    user: User
    password: str
    # The scopes of its token; None for a user of the broker.
    scopes: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.user.name

    def has(self, rank: Rank) -> bool:
        tags = set(self.user.tags)
        if "administrator" in tags:
            return True
        if rank is Rank.POLICYMAKER:
            return "policymaker" in tags
        if rank is Rank.MONITORING:
            return "monitoring" in tags
        return rank is Rank.MANAGEMENT and bool(tags & {"management", "policymaker", "monitoring"})

    def check(self, rank: Rank) -> None:
        """Raises ``Refused``."""
        for needed in (Rank.MANAGEMENT, rank):
            if needed is not Rank.NONE and not self.has(needed):
                raise not_authorised(_REFUSALS[needed])


# The visitor of a path that needs no login.
STRANGER = Visitor(user=User(name=""), password="")


async def log_in(logins: Logins, request: Request) -> Visitor:
    """Authenticate the user of a request. Raises ``Refused``."""
    try:
        visitor = await _log_in(logins, request)
    except Refused:
        if request.authorization:
            logins.attempts.note(HTTP, succeeded=False)
        raise
    logins.attempts.note(HTTP, succeeded=True)
    return visitor


async def _log_in(logins: Logins, request: Request) -> Visitor:
    try:
        return look_at(logins, request)
    except KeysNeeded:
        await logins.fetch_keys()
    try:
        return look_at(logins, request)
    except KeysNeeded:
        raise _failed() from None


def look_at(logins: Logins, request: Request) -> Visitor:
    """As ``log_in``, without waiting. Raises ``Refused`` and ``KeysNeeded``."""
    name, password = _read(request.authorization)
    try:
        known = logins.known(name, password.encode(), request.peer)
    except OnlyLocal:
        raise Refused(
            HTTPStatus.UNAUTHORIZED, "not_authorised", "User can only log in via localhost"
        ) from None
    except LoginRefused:
        raise _failed() from None
    user = User(name=known.name, tags=known.tags)
    return Visitor(user=user, password=password, scopes=known.scopes)


def _read(authorization: str) -> tuple[str, str]:
    """Return a name and a password, or no name and a token. Raises ``Refused``."""
    scheme, _space, code = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return "", code.strip()
    if scheme.lower() != "basic":
        raise _failed()
    try:
        pair = base64.b64decode(code.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _failed() from None
    name, _colon, password = pair.partition(":")
    return name, password


def _failed() -> Refused:
    return Refused(HTTPStatus.UNAUTHORIZED, "not_authorized", "Login failed")


def visible(broker: Broker, visitor: Visitor) -> Iterator[VirtualHostState]:
    """Yield the virtual hosts that a user may see, by name; a monitoring user sees all of them."""
    for name in sorted(broker.vhosts):
        if visitor.has(Rank.MONITORING) or may_enter(broker, visitor.name, visitor.scopes, name):
            yield broker.vhosts[name]


def enter(
    broker: Broker, visitor: Visitor, vhost: str, *, to_look: bool
) -> VirtualHostState | None:
    """Return a virtual host; None if there is none. Raises ``Refused``."""
    rooms = broker.vhosts.get(vhost)
    if rooms is None:
        return None
    if may_enter(broker, visitor.name, visitor.scopes, vhost):
        return rooms
    if to_look and visitor.has(Rank.MONITORING):
        return rooms
    raise not_authorised("User not authorised to access virtual host")
