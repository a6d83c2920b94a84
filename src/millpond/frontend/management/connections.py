"""Who is connected to this node: connections, channels, consumers; and how to end a connection."""

from collections.abc import Iterable, Iterator
from typing import Any

from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.session import AmqpSession
from millpond.frontend.management.access import Rank
from millpond.frontend.management.desk import Call
from millpond.frontend.management.http import Response, done, not_authorised, not_found
from millpond.frontend.management.queues import consumer_rows

_CLOSED = "Closed via management plugin"


async def list_connections(call: Call) -> Response:
    return call.list(_row(call, session) for session in seen(call))


async def list_connections_of_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    return call.list(_row(call, one) for one in seen(call) if one.vhost == call.vhost)


async def show_connection(call: Call) -> Response:
    return call.show(_row(call, _found(call)))


async def close_connection(call: Call) -> Response:
    """Everybody may end connections of its own; others' only an administrator."""
    session = _named(call)
    if session.user != call.visitor.name and not call.visitor.has(Rank.ADMINISTRATOR):
        raise not_authorised("User not authorised to access object")
    session.force_close(_CLOSED)
    return done()


async def list_channels(call: Call) -> Response:
    return call.list(_channels(call, seen(call)))


async def list_channels_of_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    return call.list(_channels(call, (one for one in seen(call) if one.vhost == call.vhost)))


async def list_channels_of_connection(call: Call) -> Response:
    return call.list(_channels(call, [_found(call)]))


async def show_channel(call: Call) -> Response:
    for row in _channels(call, seen(call)):
        if row["name"] == call.name:
            return call.show(row)
    raise not_found()


async def list_consumers(call: Call) -> Response:
    names = {session.name for session in seen(call)}
    rows = consumer_rows(call)
    return call.list(row for row in rows if row["channel_details"]["connection_name"] in names)


async def list_consumers_of_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    return call.list(row for row in consumer_rows(call) if row["queue"]["vhost"] == call.vhost)


def seen(call: Call) -> list[AmqpSession]:
    """Everybody sees connections of its own; who may watch sees all."""
    visitor = call.visitor
    is_watcher = visitor.has(Rank.MONITORING)
    return [one for one in call.desk.sessions if is_watcher or one.user == visitor.name]


def _found(call: Call) -> AmqpSession:
    """One that the visitor may look at. Raises ``Refused``."""
    session = _named(call)
    if session.user != call.visitor.name and not call.visitor.has(Rank.MONITORING):
        raise not_authorised("User not authorised to access object")
    return session


def _named(call: Call) -> AmqpSession:
    for session in call.desk.sessions:
        if session.name == call.name:
            return session
    raise not_found()


def _row(call: Call, session: AmqpSession) -> dict[str, Any]:
    host, _colon, port = session.peer.rpartition(":")
    wire = session.wire
    return {
        "auth_mechanism": wire.mechanism,
        "channel_max": wire.channel_max,
        "channels": len(session.channels),
        "client_properties": wire.client_properties,
        "frame_max": wire.frame_max,
        "name": session.name,
        "node": call.desk.node,
        "peer_host": host or session.peer,
        "peer_port": int(port) if port.isdecimal() else 0,
        "protocol": "AMQP 0-9-1",
        "state": "running",
        "timeout": wire.heartbeat_s,
        "type": "network",
        "user": session.user,
        "user_who_performed_action": session.user,
        "vhost": session.vhost,
    }


def _channels(call: Call, sessions: Iterable[AmqpSession]) -> Iterator[dict[str, Any]]:
    for session in sessions:
        for number in sorted(session.channels):
            yield _channel(call, session, session.channels[number])


def _channel(call: Call, session: AmqpSession, channel: Channel) -> dict[str, Any]:
    host, _colon, port = session.peer.rpartition(":")
    return {
        "confirm": channel.confirms is not None,
        "connection_details": {
            "name": session.name,
            "peer_host": host or session.peer,
            "peer_port": int(port) if port.isdecimal() else 0,
        },
        "consumer_count": len(channel.consumers),
        "global_prefetch_count": channel.deliveries.prefetch,
        "messages_unacknowledged": len(channel.deliveries),
        "name": f"{session.name} ({channel.number})",
        "node": call.desk.node,
        "number": channel.number,
        "prefetch_count": channel.prefetch,
        "state": "running",
        "transactional": channel.transaction is not None,
        "user": session.user,
        "vhost": session.vhost,
    }
