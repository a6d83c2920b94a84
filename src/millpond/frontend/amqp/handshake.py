"""Authenticates clients and opens virtual hosts and channels for them."""

import logging
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millpond.auth.scopes import allows_vhost
from millpond.base import errors
from millpond.frontend.amqp.attempts import AMQP
from millpond.frontend.amqp.logins import KeysNeeded, LoginRefused
from millpond.rabbit.broker import Broker
from millpond.wire.amqp.events import LoginOffered
from millpond.wire.amqp.methods import ConnectionUpdateSecret, ConnectionUpdateSecretOk
from millpond.wire.amqp.sasl import EXTERNAL, Login, read_login
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession

log = logging.getLogger(__name__)


def log_in(session: "AmqpSession", event: LoginOffered) -> Coroutine[Any, Any, None] | None:
    """Authenticate the client. Raises ``Violation``; the coroutine waits until keys are fetched."""
    login = read_login(event.mechanism, event.response)
    if login.mechanism == EXTERNAL:
        # The certificate names the user; the user name in the response does not count.
        login = Login(EXTERNAL, session.certified_name, b"")
    try:
        _try(session, login)
    except KeysNeeded:
        return _log_in_later(session, login)
    return None


async def _log_in_later(session: "AmqpSession", login: Login) -> None:
    await session.frontend.logins.fetch_keys()
    if session.is_lost:
        return
    try:
        _try(session, login)
    except KeysNeeded as error:
        _refuse(session, login, str(error))


def _try(session: "AmqpSession", login: Login) -> None:
    """Raises ``KeysNeeded``."""
    logins = session.frontend.logins
    try:
        if login.mechanism == EXTERNAL:
            known = logins.certified(login.user, session.peer)
        else:
            known = logins.known(login.user, login.password, session.peer)
    except LoginRefused as error:
        _refuse(session, login, str(error))
        return
    logins.attempts.note(AMQP, succeeded=True)
    session.token_life.begin(known)
    session.wire.accept_login()
    session.read_on()


def _refuse(session: "AmqpSession", login: Login, reason: str) -> None:
    session.frontend.logins.attempts.note(AMQP, succeeded=False)
    log.warning(
        "peer=%s: %s login of user %r refused: %s",
        session.peer,
        login.mechanism,
        login.user,
        reason,
    )
    session.wire.refuse_login()
    session.outbox.linger()
    session.read_on()


def renew(
    session: "AmqpSession", method: ConnectionUpdateSecret
) -> Coroutine[Any, Any, None] | None:
    """Take another token of the client. Raises ``Violation``; the coroutine does, too."""
    try:
        _renew(session, method)
    except KeysNeeded:
        return _renew_later(session, method)
    return None


async def _renew_later(session: "AmqpSession", method: ConnectionUpdateSecret) -> None:
    await session.frontend.logins.fetch_keys()
    if session.is_lost:
        return
    try:
        _renew(session, method)
    except KeysNeeded as error:
        raise _secret_refused(session, str(error)) from None


def _renew(session: "AmqpSession", method: ConnectionUpdateSecret) -> None:
    life = session.token_life
    try:
        known = session.frontend.logins.renewed(life.known, method.new_secret)
    except LoginRefused as error:
        raise _secret_refused(session, str(error)) from None
    life.begin(known)
    session.wire.send(0, ConnectionUpdateSecretOk())


def _secret_refused(session: "AmqpSession", reason: str) -> Violation:
    log.warning("peer=%s: new secret of user %r refused: %s", session.peer, session.user, reason)
    return Violation(
        ReplyCode.NOT_ALLOWED,
        "New secret was refused by one of the backends",
        class_id=ConnectionUpdateSecret.class_id,
        method_id=ConnectionUpdateSecret.method_id,
    )


def open_vhost(session: "AmqpSession", vhost: str) -> None:
    """Open a virtual host. Raises ``UnknownVirtualHost``, ``VirtualHostRefused``; ``Violation``
    if this node serves no clients now.
    """
    session.frontend.minority.check()
    broker = session.frontend.queues.broker
    rooms = broker.vhosts.get(vhost)
    if rooms is None:
        raise errors.UnknownVirtualHost(f"vhost {vhost} not found")
    limit = rooms.vhost.connections_max
    if limit is not None and 0 <= limit <= _connections_of(session, vhost):
        raise errors.VirtualHostRefused(
            f"access to vhost '{vhost}' refused for user '{session.user}': "
            f"connection limit ({limit}) is reached"
        )
    limit = _user_limit(session, "max-connections")
    if limit is not None and limit <= sum(one.is_open for one in _of_user(session)):
        raise errors.VirtualHostRefused(
            f"connection refused for user '{session.user}': user connection limit ({limit}) is reached"
        )
    if not may_enter(broker, session.user, session.asker.scopes, vhost):
        raise errors.VirtualHostRefused(
            f"access to vhost '{vhost}' refused for user '{session.user}'"
        )
    session.vhost = vhost
    session.set_asker(replace(session.asker, vhost=vhost, user=session.user))
    session.wire.accept_open()


def may_enter(broker: Broker, user: str, scopes: tuple[str, ...] | None, vhost: str) -> bool:
    """Whether a user may open a virtual host."""
    if scopes is not None:
        return allows_vhost(scopes, vhost)
    return (user, vhost) in broker.permissions


def check_channels(session: "AmqpSession") -> None:
    """Open another channel. Raises ``Violation``."""
    limit = _user_limit(session, "max-channels")
    if limit is not None and limit <= sum(len(one.channels) for one in _of_user(session)):
        raise Violation(
            ReplyCode.NOT_ALLOWED,
            f"number of channels opened for user '{session.user}' has reached the maximum allowed "
            f"user limit of ({limit})",
        )


def _user_limit(session: "AmqpSession", name: str) -> int | None:
    user = session.frontend.queues.broker.users.get(session.user)
    limit = None if user is None else user.limits.get(name)
    return limit if isinstance(limit, int) and limit >= 0 else None


def _of_user(session: "AmqpSession") -> Iterator["AmqpSession"]:
    return (one for one in _counted(session) if one.user == session.user)


def _connections_of(session: "AmqpSession", vhost: str) -> int:
    """Return how many other connections of this node have the virtual host open."""
    return sum(one.is_open and one.vhost == vhost for one in _counted(session))


def _counted(session: "AmqpSession") -> Iterable["AmqpSession"]:
    """Return the connections that count for limits. Sessions of the management API do not."""
    sessions = session.frontend.sessions
    return sessions if session in sessions else ()
