"""Bindings: list by virtual host, by source and destination; create and delete."""

import base64
import zlib
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from millpond.base.fields import Table, encode_table
from millpond.frontend.rabbitmq_http import exchanges, queues
from millpond.frontend.rabbitmq_http.access import visible
from millpond.frontend.rabbitmq_http.context import Call, shown_queues
from millpond.frontend.rabbitmq_http.http import (
    Response,
    not_found,
    object_of,
    table,
    text,
)
from millpond.rabbit.broker import VirtualHostState
from millpond.rabbit.commands import Bind, Unbind
from millpond.rabbit.names import DEFAULT_EXCHANGE
from millpond.rabbit.records import Binding
from millpond.rabbit.rows import binding_row

_NO_KEY = "~"


async def list_all(call: Call) -> Response:
    every = visible(call.broker, call.visitor)
    return call.list(_row(one) for rooms in every for one in all_bindings(rooms))


async def list_of_vhost(call: Call) -> Response:
    return call.list(_row(one) for one in all_bindings(call.rooms(to_look=True)))


async def list_of_queue(call: Call) -> Response:
    rooms = call.rooms(to_look=True)
    queue = queues.found(call, rooms)
    return call.list(
        _row(one) for one in all_bindings(rooms) if one.to_queue and one.destination == queue.name
    )


async def list_from_exchange(call: Call) -> Response:
    rooms, name = call.rooms(to_look=True), exchanges.real_name(call.name)
    _check_exchange(rooms, name)
    return call.list(_row(one) for one in all_bindings(rooms) if one.source == name)


async def list_to_exchange(call: Call) -> Response:
    rooms, name = call.rooms(to_look=True), exchanges.real_name(call.name)
    _check_exchange(rooms, name)
    return call.list(
        _row(one) for one in all_bindings(rooms) if not one.to_queue and one.destination == name
    )


async def list_between(call: Call) -> Response:
    return call.list(_row(one) for one in _between(call, call.rooms(to_look=True)))


async def show(call: Call) -> Response:
    return call.show(_row(_found(call, call.rooms(to_look=True))))


async def bind(call: Call) -> Response:
    call.rooms()
    wanted = object_of(call.request)
    key, arguments = text(wanted, "routing_key"), table(wanted, "arguments")
    await call.context.ask(
        Bind(
            asker=call.asker,
            source=exchanges.real_name(call.place["source"]),
            destination=call.place["destination"],
            to_queue=call.place["kind"] == "q",
            routing_key=key,
            arguments=arguments,
        )
    )
    place = f"{quote(call.place['destination'], safe='')}/{quote(properties_key(key, arguments))}"
    return Response(status=HTTPStatus.CREATED, headers={"location": place})


async def unbind(call: Call) -> Response:
    found = _found(call, call.rooms())
    await call.context.ask(
        Unbind(
            asker=call.asker,
            source=found.source,
            destination=found.destination,
            to_queue=found.to_queue,
            routing_key=found.routing_key,
            arguments=found.arguments,
        )
    )
    return Response(status=HTTPStatus.NO_CONTENT)


def all_bindings(rooms: VirtualHostState) -> Iterator[Binding]:
    """Yield all bindings, and those of every queue to the default exchange, which are not stored."""
    vhost = rooms.vhost.name
    for queue in shown_queues(rooms):
        name = queue.name
        yield Binding(vhost=vhost, source=DEFAULT_EXCHANGE, destination=name, routing_key=name)
    yield from sorted(rooms.bindings, key=lambda one: one.identity)


def properties_key(routing_key: str, arguments: Table) -> str:
    """Return the key that tells bindings between the same ends apart, as one segment of a path."""
    if not arguments:
        return _NO_KEY if not routing_key else _escaped(routing_key)
    digest = zlib.crc32(encode_table(dict(sorted(arguments.items()))))
    code = base64.urlsafe_b64encode(digest.to_bytes(4, "big")).decode().rstrip("=")
    return f"{_escaped(routing_key)}{_NO_KEY}{code}"


def _escaped(key: str) -> str:
    return quote(key, safe="").replace("~", "%7E")


def _check_exchange(rooms: VirtualHostState, name: str) -> None:
    if name != DEFAULT_EXCHANGE and name not in rooms.exchanges:
        raise not_found()


def _between(call: Call, rooms: VirtualHostState) -> Iterable[Binding]:
    ends = (
        exchanges.real_name(call.place["source"]),
        call.place["destination"],
        call.place["kind"] == "q",
    )
    return (
        one for one in all_bindings(rooms) if (one.source, one.destination, one.to_queue) == ends
    )


def _found(call: Call, rooms: VirtualHostState) -> Binding:
    """Return a binding by its key. Most clients escape keys with odd characters twice."""
    wanted = call.place["properties_key"]
    for one in _between(call, rooms):
        if wanted == properties_key(one.routing_key, one.arguments):
            return one
        if wanted == one.routing_key and not one.arguments:
            return one
    raise not_found()


def _row(binding: Binding) -> dict[str, Any]:
    key = properties_key(binding.routing_key, binding.arguments)
    return {**binding_row(binding), "properties_key": key}
