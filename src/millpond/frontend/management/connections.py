"""Who is connected to the cluster: connections, channels, consumers; how to end a connection to this node."""

from millpond.frontend.amqp.session import AmqpSession
from millpond.frontend.management.access import Rank
from millpond.frontend.management.clients import Row, everywhere
from millpond.frontend.management.desk import Call
from millpond.frontend.management.http import Response, done, not_authorised, not_found

_CLOSED = "Closed via management plugin"


async def list_connections(call: Call) -> Response:
    return call.list(await visible(call, "connections"))


async def list_connections_of_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    rows = await visible(call, "connections")
    return call.list(row for row in rows if row["vhost"] == call.vhost)


async def show_connection(call: Call) -> Response:
    return call.show(await _found(call))


async def close_connection(call: Call) -> Response:
    """Everybody may end connections of its own; others' only an administrator."""
    session = _named(call)
    if session.user != call.visitor.name and not call.visitor.has(Rank.ADMINISTRATOR):
        raise not_authorised("User not authorised to access object")
    session.force_close(_CLOSED)
    return done()


async def list_channels(call: Call) -> Response:
    return call.list(await visible(call, "channels"))


async def list_channels_of_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    rows = await visible(call, "channels")
    return call.list(row for row in rows if row["vhost"] == call.vhost)


async def list_channels_of_connection(call: Call) -> Response:
    name = (await _found(call))["name"]
    rows = await visible(call, "channels")
    return call.list(row for row in rows if row["connection_details"]["name"] == name)


async def show_channel(call: Call) -> Response:
    for row in await visible(call, "channels"):
        if row["name"] == call.name:
            return call.show(row)
    raise not_found()


async def list_consumers(call: Call) -> Response:
    return call.list(await visible(call, "consumers"))


async def list_consumers_of_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    rows = await everywhere(call.desk, "consumers")
    return call.list(row for row in rows if row["queue"]["vhost"] == call.vhost)


async def visible(call: Call, what: str) -> list[Row]:
    """Everybody sees clients of its own; who may watch sees all."""
    rows = await everywhere(call.desk, what)
    if call.visitor.has(Rank.MONITORING):
        return rows
    return [row for row in rows if row.get("channel_details", row)["user"] == call.visitor.name]


async def _found(call: Call) -> Row:
    """A connection that the visitor may look at. Raises ``Refused``."""
    for row in await everywhere(call.desk, "connections"):
        if row["name"] == call.name:
            if row["user"] != call.visitor.name and not call.visitor.has(Rank.MONITORING):
                raise not_authorised("User not authorised to access object")
            return row
    raise not_found()


def _named(call: Call) -> AmqpSession:
    for session in call.desk.sessions:
        if session.name == call.name:
            return session
    raise not_found()
