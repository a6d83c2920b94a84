"""Connections, channels and consumers of the cluster: list, show, close."""

from millpond.frontend.rabbitmq_http.access import Rank
from millpond.frontend.rabbitmq_http.clients import Row, close, everywhere
from millpond.frontend.rabbitmq_http.context import Call
from millpond.frontend.rabbitmq_http.http import Response, done, not_authorised, not_found

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
    """Close a connection. A user may close its own connections, an administrator all."""
    rows = await everywhere(call.context, "connections")
    found = [row for row in rows if row["name"] == call.name]
    if not found:
        raise not_found()
    _check_user(call, found[0]["user"], Rank.ADMINISTRATOR)
    await close(call.context, found, call.request.reason or _CLOSED)
    return done()


async def list_connections_of_user(call: Call) -> Response:
    """Which they are; more of each is said where it is asked for by name."""
    _check_user(call, call.name, Rank.MONITORING)
    rows = await everywhere(call.context, "connections")
    shown = ("name", "vhost", "user", "node")
    return call.list(
        {name: row[name] for name in shown} for row in rows if row["user"] == call.name
    )


async def close_connections_of_user(call: Call) -> Response:
    _check_user(call, call.name, Rank.ADMINISTRATOR)
    rows = await everywhere(call.context, "connections")
    mine = [row for row in rows if row["user"] == call.name]
    await close(call.context, mine, call.request.reason or _CLOSED)
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
            consumers = [
                one
                for one in await everywhere(call.context, "consumers")
                if one["channel_details"]["name"] == call.name
            ]
            extra = {"consumer_details": consumers, "deliveries": [], "publishes": []}
            return call.show({**row, **extra})
    raise not_found()


async def list_consumers(call: Call) -> Response:
    return call.list(await visible(call, "consumers"))


async def list_consumers_of_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    rows = await everywhere(call.context, "consumers")
    return call.list(row for row in rows if row["queue"]["vhost"] == call.vhost)


async def visible(call: Call, what: str) -> list[Row]:
    """Return the rows that a user may see: its own clients, or all for a monitoring user."""
    rows = await everywhere(call.context, what)
    if call.visitor.has(Rank.MONITORING):
        return rows
    return [row for row in rows if row.get("channel_details", row)["user"] == call.visitor.name]


async def _found(call: Call) -> Row:
    """Return a connection that the visitor may see. Raises ``Refused``."""
    for row in await everywhere(call.context, "connections"):
        if row["name"] == call.name:
            _check_user(call, row["user"], Rank.MONITORING)
            return row
    raise not_found()


def _check_user(call: Call, user: str, rank: Rank) -> None:
    """Check the rank that connections of other users need. Raises ``Refused``."""
    if user != call.visitor.name and not call.visitor.has(rank):
        raise not_authorised("User not authorised to access object")
