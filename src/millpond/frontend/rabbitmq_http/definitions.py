"""Definitions: everything that is declared as one JSON document, out and in."""

from collections.abc import Iterator
from typing import Any

from millpond import __version__
from millpond.base import errors
from millpond.frontend.amqp.identity import PRODUCT
from millpond.frontend.rabbitmq_http.access import Rank
from millpond.frontend.rabbitmq_http.context import API_VERSION, Call
from millpond.frontend.rabbitmq_http.http import (
    Response,
    bad_request,
    done,
    not_found,
    read_json,
    said,
)
from millpond.rabbit.commands import StoreAll
from millpond.rabbit.definitions import export_definitions, read_definitions
from millpond.rabbit.global_parameters import global_parameters
from millpond.rabbit.records import Fact, Permission, VirtualHost

# What a file of one virtual host holds.
_OF_VHOST = ("parameters", "policies", "queues", "exchanges", "bindings")


async def export_all(call: Call) -> Response:
    every = global_parameters(call.broker, call.context.cluster_id)
    return said(
        {
            **export_definitions(call.broker, API_VERSION),
            "product_name": PRODUCT,
            "product_version": API_VERSION,
            "millpond_version": __version__,
            "global_parameters": [{"name": name, "value": one} for name, one in every.items()],
        }
    )


async def export_vhost(call: Call) -> Response:
    call.rooms(to_look=True)
    whole = export_definitions(call.broker, API_VERSION)
    document: dict[str, Any] = {"rabbit_version": API_VERSION}
    for kind in _OF_VHOST:
        mine = [dict(one) for one in whole[kind] if one["vhost"] == call.vhost]
        if kind in {"queues", "exchanges", "bindings"}:
            for one in mine:
                del one["vhost"]
        document[kind] = mine
    return said(document)


async def import_all(call: Call) -> Response:
    return await _import(call, None)


async def import_vhost(call: Call) -> Response:
    if call.vhost not in call.broker.vhosts:
        raise not_found()
    return await _import(call, call.vhost)


async def _import(call: Call, vhost: str | None) -> Response:
    document = read_json(call.request.body, refusal="failed_to_parse_json")
    if not isinstance(document, dict):
        raise bad_request("not_json_object")
    if vhost is not None and not call.visitor.has(Rank.ADMINISTRATOR):
        document = {kind: document.get(kind, []) for kind in _OF_VHOST}
    try:
        facts = read_definitions(document, vhost)
    except errors.InvalidDefinition as error:
        raise bad_request(str(error)) from error
    await call.context.ask(StoreAll(facts=tuple(_with_permissions(call, facts))))
    return done()


def _with_permissions(call: Call, facts: list[Fact]) -> Iterator[Fact]:
    """Give a user all permissions in the virtual hosts that it imports, as RabbitMQ does."""
    for fact in facts:
        yield fact
        if call.visitor.scopes is not None or not isinstance(fact, VirtualHost):
            continue
        if fact.name not in call.broker.vhosts:
            name = call.visitor.name
            yield Permission(user=name, vhost=fact.name, configure=".*", write=".*", read=".*")
