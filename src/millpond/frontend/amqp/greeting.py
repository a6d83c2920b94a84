"""Who a client is, and which virtual host it may have."""

import logging
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from millpond.base import errors
from millpond.engine.queues import GUEST
from millpond.queue.commands import Asker
from millpond.queue.permissions import is_password
from millpond.wire.amqp.events import LoginOffered
from millpond.wire.amqp.sasl import EXTERNAL, Login, read_login
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession

log = logging.getLogger(__name__)


def log_in(session: "AmqpSession", event: LoginOffered) -> None:
    """The client says who it is. Raises ``Violation``."""
    login = read_login(event.mechanism, event.response)
    if login.mechanism == EXTERNAL:
        # What a client says of itself does not count; what its certificate says does.
        login = Login(EXTERNAL, session.certified_name, b"")
    reason = _refusal(session, login)
    if reason is not None:
        log.warning(
            "peer=%s: %s login of user %r refused: %s",
            session.peer,
            login.mechanism,
            login.user,
            reason,
        )
        session.wire.refuse_login()
        session.outbox.linger()
        return
    session.user = login.user
    session.wire.accept_login()


def _refusal(session: "AmqpSession", login: Login) -> str | None:
    user = session.frontend.queues.broker.users.get(login.user)
    if user is None:
        return "no such user"
    if login.mechanism != EXTERNAL and not is_password(user, login.password):
        return "wrong password"
    if login.user == GUEST and not is_local(session.peer):
        return "this user can only log in from this machine"
    return None


def open_vhost(session: "AmqpSession", vhost: str) -> None:
    """The client wants a virtual host. Raises ``UnknownVirtualHost``, ``VirtualHostRefused``."""
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
    if (session.user, vhost) not in broker.permissions:
        raise errors.VirtualHostRefused(
            f"access to vhost '{vhost}' refused for user '{session.user}'"
        )
    session.vhost = vhost
    session.asker = Asker(vhost=vhost, connection=session.name, user=session.user)
    session.wire.accept_open()


def check_channels(session: "AmqpSession") -> None:
    """The client opens another channel. Raises ``Violation``."""
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
    """How many others of this node have the virtual host open."""
    return sum(one.is_open and one.vhost == vhost for one in _counted(session))


def _counted(session: "AmqpSession") -> Iterable["AmqpSession"]:
    """Whom limits look at. Who administers the broker by HTTP is not shut out by them."""
    sessions = session.frontend.sessions
    return sessions if session in sessions else ()


def is_local(peer: str) -> bool:
    """Whether ``host:port`` is on this machine; sockets without addresses are, and clients in memory."""
    host = peer.rpartition(":")[0] or peer
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host in {"local", "memory"}
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
