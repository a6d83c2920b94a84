"""Virtual hosts and their limits."""

from dataclasses import replace
from typing import Any

from millpond.frontend.rabbitmq_http.access import enter, visible
from millpond.frontend.rabbitmq_http.context import Call, shown_queues
from millpond.frontend.rabbitmq_http.http import (
    Response,
    bad_request,
    done,
    integer,
    not_found,
    object_of,
    text,
)
from millpond.frontend.rabbitmq_http.users import tags_of
from millpond.rabbit.broker import VirtualHostState
from millpond.rabbit.records import Permission, VirtualHost, VirtualHostDeleted
from millpond.rabbit.rows import limits_of

_LIMITS = {"max-connections": "connections_max", "max-queues": "queues_max"}


async def list_vhosts(call: Call) -> Response:
    return call.list([await _row(call, rooms) for rooms in visible(call.broker, call.visitor)])


async def show(call: Call) -> Response:
    return call.show(await _row(call, _rooms(call)))


async def put(call: Call) -> Response:
    """Create or change a virtual host; as in RabbitMQ its creator gets all permissions in it."""
    wanted = object_of(call.request)
    known = call.broker.vhosts.get(call.name)
    vhost = VirtualHost(name=call.name) if known is None else known.vhost
    if "description" in wanted:
        vhost = replace(vhost, description=text(wanted, "description"))
    if "tags" in wanted:
        vhost = replace(vhost, tags=tags_of(wanted["tags"]))
    kind = text(wanted, "default_queue_type", "undefined")
    if kind != "undefined":
        if kind not in {"classic", "quorum", "stream"}:
            raise bad_request(f"Unsupported queue type: {kind}")
        vhost = replace(vhost, default_queue_type=kind)
    await call.context.store(vhost)
    if known is None and call.visitor.scopes is None:
        name = call.visitor.name
        await call.context.store(
            Permission(user=name, vhost=vhost.name, configure=".*", write=".*", read=".*")
        )
    return done(is_new=known is None)


async def delete(call: Call) -> Response:
    _rooms(call)
    await call.context.store(VirtualHostDeleted(name=call.name))
    return done()


async def start(call: Call) -> Response:
    """A virtual host runs at every node as soon as it is there."""
    if call.vhost not in call.broker.vhosts:
        raise not_found()
    if call.name not in map(
        call.context.node_name, call.context.frontend.engine.metadata.image.brokers
    ):
        raise bad_request(f"there is no node {call.name}")
    return done()


async def list_limits(call: Call) -> Response:
    rows = (_limits(rooms) for rooms in visible(call.broker, call.visitor))
    return call.list(row for row in rows if row["value"])


async def list_limits_of_vhost(call: Call) -> Response:
    rooms = enter(call.broker, call.visitor, call.name, to_look=True)
    if rooms is None:
        raise not_found()
    row = _limits(rooms)
    return call.list([row] if row["value"] else [])


async def put_limit(call: Call) -> Response:
    value = integer(object_of(call.request, required=("value",)), "value")
    return await _set_limit(call, value if value >= 0 else None)


async def delete_limit(call: Call) -> Response:
    return await _set_limit(call, None)


async def _set_limit(call: Call, value: int | None) -> Response:
    field = _LIMITS.get(call.place["limit"])
    if field is None:
        raise bad_request(f"Unrecognised vhost limit: {call.place['limit']}")
    changes: dict[str, Any] = {field: value}
    await call.context.store(replace(_rooms(call).vhost, **changes))
    return done()


def _rooms(call: Call) -> VirtualHostState:
    found = call.broker.vhosts.get(call.name)
    if found is None:
        raise not_found()
    return found


def _limits(rooms: VirtualHostState) -> dict[str, Any]:
    return {"vhost": rooms.vhost.name, "value": limits_of(rooms.vhost)}


async def _row(call: Call, rooms: VirtualHostState) -> dict[str, Any]:
    vhost = rooms.vhost
    counted = await call.context.counts(shown_queues(rooms))
    ready, held = sum(one.ready for one in counted), sum(one.held for one in counted)
    return {
        "cluster_state": {call.context.node: "running"},
        "default_queue_type": vhost.default_queue_type,
        "description": vhost.description,
        "messages": ready + held,
        "messages_details": call.details(ready + held),
        "messages_ready": ready,
        "messages_ready_details": call.details(ready),
        "messages_unacknowledged": held,
        "messages_unacknowledged_details": call.details(held),
        "metadata": {"description": vhost.description, "tags": list(vhost.tags)},
        "name": vhost.name,
        "tags": list(vhost.tags),
        "tracing": False,
    }
