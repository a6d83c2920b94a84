"""Policies, operators' policies, and the parameters that are kept for plug-ins that this broker has not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from millpond.base import errors
from millpond.frontend.rabbitmq_http.access import visible
from millpond.frontend.rabbitmq_http.context import API_VERSION, Call
from millpond.frontend.rabbitmq_http.http import (
    Response,
    bad_request,
    done,
    integer,
    not_found,
    object_of,
    table,
    text,
)
from millpond.rabbit.broker import VirtualHostState
from millpond.rabbit.commands import StoreAll
from millpond.rabbit.definitions import export_definitions, read_definitions
from millpond.rabbit.global_parameters import (
    global_parameter,
    global_parameters,
    without_global_parameter,
)
from millpond.rabbit.policies import check_policy
from millpond.rabbit.records import Parameter, ParameterDeleted, Policy, PolicyDeleted
from millpond.rabbit.rows import kept, policy_row
from millpond.rabbit.storing import VHOST_LIMITS

# Components that this broker has itself; what is kept for others does nothing.
_OWN_COMPONENTS = ("operator_policy", VHOST_LIMITS)


def _is_operator(call: Call) -> bool:
    return call.request.segments[1] == "operator-policies"


async def list_all(call: Call) -> Response:
    is_operator = _is_operator(call)
    return call.list(
        row
        for rooms in visible(call.broker, call.visitor)
        for row in _rows(rooms, is_operator=is_operator)
    )


async def list_of_vhost(call: Call) -> Response:
    return call.list(_rows(call.rooms(to_look=True), is_operator=_is_operator(call)))


async def show(call: Call) -> Response:
    return call.show(policy_row(_found(call, call.rooms(to_look=True))))


async def put(call: Call) -> Response:
    rooms = call.rooms()
    wanted = object_of(call.request, required=("pattern", "definition"))
    is_operator = _is_operator(call)
    policy = Policy(
        vhost=call.vhost,
        name=call.name,
        pattern=text(wanted, "pattern"),
        definition=table(wanted, "definition"),
        priority=integer(wanted, "priority", 0),
        apply_to=text(wanted, "apply-to", "all"),
        is_operator=is_operator,
    )
    try:
        check_policy(policy)
    except errors.InvalidDefinition as error:
        raise bad_request(f"Validation failed\n\n{error}\n") from None
    is_new = (is_operator, call.name) not in rooms.policies
    await call.context.store(policy)
    return done(is_new=is_new)


async def delete(call: Call) -> Response:
    found = _found(call, call.rooms())
    await call.context.store(
        PolicyDeleted(vhost=found.vhost, name=found.name, is_operator=found.is_operator)
    )
    return done()


def _found(call: Call, rooms: VirtualHostState) -> Policy:
    found = rooms.policies.get((_is_operator(call), call.name))
    if found is None:
        raise not_found()
    return found


def _rows(rooms: VirtualHostState, *, is_operator: bool) -> Iterator[dict[str, Any]]:
    for (of_operator, _name), policy in sorted(rooms.policies.items()):
        if of_operator == is_operator:
            yield policy_row(policy)


# --- parameters ---------------------------------------------------------------------------------------------


async def list_parameters(call: Call) -> Response:
    seen = {rooms.vhost.name for rooms in visible(call.broker, call.visitor)}
    every = export_definitions(call.broker, API_VERSION)["parameters"]
    # What plug-ins keep here may have passwords in it.
    rows = [row for row in every if row["vhost"] in seen]
    wanted = {key: call.place[key] for key in ("component", "vhost") if key in call.place}
    return call.list(row for row in rows if all(row[key] == value for key, value in wanted.items()))


async def show_parameter(call: Call) -> Response:
    return call.show(_parameter_found(call, to_look=True))


async def put_parameter(call: Call) -> Response:
    call.rooms()
    component = call.place["component"]
    value = object_of(call.request, required=("value",))["value"]
    every = export_definitions(call.broker, API_VERSION)["parameters"]
    place = component, call.vhost, call.name
    is_new = all((row["component"], row["vhost"], row["name"]) != place for row in every)
    if component in _OWN_COMPONENTS:
        row = {"component": component, "vhost": call.vhost, "name": call.name, "value": value}
        try:
            facts = read_definitions({"parameters": [row]})
        except errors.InvalidDefinition as error:
            raise bad_request(f"Validation failed\n\n{error}\n") from None
        await call.context.ask(StoreAll(facts=tuple(facts)))
    else:
        await call.context.store(
            Parameter(component=component, vhost=call.vhost, name=call.name, value=kept(value))
        )
    return done(is_new=is_new)


async def delete_parameter(call: Call) -> Response:
    row = _parameter_found(call)
    component, name = row["component"], row["name"]
    match component:
        case "operator_policy":
            await call.context.store(PolicyDeleted(vhost=call.vhost, name=name, is_operator=True))
        case "vhost-limits":
            vhost = call.rooms().vhost
            await call.context.store(replace(vhost, connections_max=None, queues_max=None))
        case _:
            await call.context.store(
                ParameterDeleted(component=component, name=name, vhost=call.vhost)
            )
    return done()


def _parameter_found(call: Call, *, to_look: bool = False) -> dict[str, Any]:
    call.rooms(to_look=to_look)
    wanted = {"component": call.place["component"], "vhost": call.vhost, "name": call.name}
    for row in export_definitions(call.broker, API_VERSION)["parameters"]:
        if all(row[key] == value for key, value in wanted.items()):
            return dict(row)
    raise not_found()


# --- of the whole cluster -----------------------------------------------------------------------------------


async def list_global_parameters(call: Call) -> Response:
    every = global_parameters(call.broker, call.context.cluster_id)
    return call.list({"name": name, "value": value} for name, value in every.items())


async def show_global_parameter(call: Call) -> Response:
    every = global_parameters(call.broker, call.context.cluster_id)
    if call.name not in every:
        raise not_found()
    return call.show({"name": call.name, "value": every[call.name]})


async def put_global_parameter(call: Call) -> Response:
    value = object_of(call.request, required=("value",))["value"]
    is_new = call.name not in global_parameters(call.broker, call.context.cluster_id)
    await call.context.store(global_parameter(call.name, value))
    return done(is_new=is_new)


async def delete_global_parameter(call: Call) -> Response:
    """What RabbitMQ always has is then again what it was in the beginning."""
    if call.name not in global_parameters(call.broker, call.context.cluster_id):
        raise not_found()
    await call.context.store(without_global_parameter(call.name))
    return done()
