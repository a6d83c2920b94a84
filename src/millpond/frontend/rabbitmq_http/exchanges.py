"""Exchanges: list, show, declare, delete."""

from collections.abc import Iterator
from typing import Any

from millpond.frontend.rabbitmq_http.access import visible
from millpond.frontend.rabbitmq_http.context import Call
from millpond.frontend.rabbitmq_http.http import (
    Response,
    boolean,
    done,
    not_found,
    object_of,
    table,
    text,
)
from millpond.rabbit.broker import SYSTEM_EXCHANGES, VirtualHostState
from millpond.rabbit.commands import DeclareExchange, DeleteExchange
from millpond.rabbit.names import DEFAULT_EXCHANGE, DEFAULT_EXCHANGE_ALIAS
from millpond.rabbit.policies import matching
from millpond.rabbit.records import Exchange
from millpond.rabbit.rows import exchange_row


async def list_all(call: Call) -> Response:
    every = visible(call.broker, call.visitor)
    return call.list(row for rooms in every for row in rows(rooms))


async def list_of_vhost(call: Call) -> Response:
    return call.list(rows(call.rooms(to_look=True)))


async def show(call: Call) -> Response:
    found = _found(call, call.rooms(to_look=True))
    return call.show({**_row(call.rooms(to_look=True), found), "incoming": [], "outgoing": []})


async def declare(call: Call) -> Response:
    rooms = call.rooms()
    wanted = object_of(call.request)
    is_new = call.name not in rooms.exchanges
    await call.context.ask(
        DeclareExchange(
            asker=call.asker,
            name=real_name(call.name),
            type=text(wanted, "type", "direct"),
            durable=boolean(wanted, "durable"),
            auto_delete=boolean(wanted, "auto_delete"),
            internal=boolean(wanted, "internal"),
            arguments=table(wanted, "arguments"),
        )
    )
    return done(is_new=is_new)


async def delete(call: Call) -> Response:
    found = _found(call, call.rooms())
    if_unused = call.request.query.get("if-unused") == "true"
    await call.context.ask(DeleteExchange(asker=call.asker, name=found.name, if_unused=if_unused))
    return done()


def real_name(name: str) -> str:
    """The default exchange has no name, and no path can hold that."""
    return DEFAULT_EXCHANGE if name == DEFAULT_EXCHANGE_ALIAS else name


def rows(rooms: VirtualHostState) -> Iterator[dict[str, Any]]:
    yield _row(rooms, _default(rooms))
    for name in sorted(rooms.exchanges):
        yield _row(rooms, rooms.exchanges[name])


def _found(call: Call, rooms: VirtualHostState) -> Exchange:
    name = real_name(call.name)
    found = _default(rooms) if name == DEFAULT_EXCHANGE else rooms.exchanges.get(name)
    if found is None:
        raise not_found()
    return found


def _default(rooms: VirtualHostState) -> Exchange:
    return Exchange(vhost=rooms.vhost.name, name=DEFAULT_EXCHANGE, type="direct")


def _row(rooms: VirtualHostState, exchange: Exchange) -> dict[str, Any]:
    is_own = exchange.name == DEFAULT_EXCHANGE or exchange.name in SYSTEM_EXCHANGES
    row = exchange_row(exchange)
    if is_own:
        row["user_who_performed_action"] = "rmq-internal"
    policy = matching(exchange, (one for one in rooms.policies.values() if not one.is_operator))
    if policy is not None:
        row["policy"] = policy.name
    return row
