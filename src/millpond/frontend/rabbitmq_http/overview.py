"""The broker as a whole: overview, nodes, logins, the cluster's name, what is healthy."""

from collections.abc import Sequence
from typing import Any

from millpond import __version__
from millpond.base.ids import NodeId
from millpond.base.pressure import DISK
from millpond.frontend.amqp.identity import PRODUCT
from millpond.frontend.rabbitmq_http import connections, exchanges
from millpond.frontend.rabbitmq_http.access import visible
from millpond.frontend.rabbitmq_http.clients import everywhere
from millpond.frontend.rabbitmq_http.context import API_VERSION, Call, shown_queues
from millpond.frontend.rabbitmq_http.http import (
    Response,
    bad_request,
    done,
    not_found,
    object_of,
    said,
    text,
)
from millpond.frontend.rabbitmq_http.node import contexts, exchange_types, memory
from millpond.rabbit.global_parameters import CLUSTER_NAME, cluster_name, global_parameter

# What RabbitMQ's clients call a protocol, and what the overview calls it.
_PROTOCOLS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp": "amqp", "http": "http"}

# What RabbitMQ's health checks call a resource, where that is not the name of the alarm.
_RESOURCES = {DISK: "disk space"}


async def overview(call: Call) -> Response:
    context = call.context
    rooms = list(visible(call.broker, call.visitor))
    counts = await context.counts([queue for one in rooms for queue in shown_queues(one)])
    ready = sum(one.ready for one in counts)
    held = sum(one.held for one in counts)
    channels = await connections.visible(call, "channels")
    sessions = await connections.visible(call, "connections")
    return call.show(
        {
            "management_version": API_VERSION,
            "rates_mode": "basic",
            # There are no histories.
            "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
            "exchange_types": exchange_types(context),
            # As AMQP's clients are told; what really answers is beside it, in both.
            "product_name": PRODUCT,
            "product_version": API_VERSION,
            "rabbitmq_version": API_VERSION,
            "millpond_version": __version__,
            "cluster_name": cluster_name(call.broker, context.cluster_id),
            "disable_stats": False,
            "enable_queue_totals": True,
            "message_stats": context.frontend.stats.all.row(),
            "queue_totals": {
                "messages": ready + held,
                "messages_details": call.details(ready + held),
                "messages_lost": sum(one.lost for one in counts),
                "messages_ready": ready,
                "messages_ready_details": call.details(ready),
                "messages_unacknowledged": held,
                "messages_unacknowledged_details": call.details(held),
            },
            "object_totals": {
                "channels": len(channels),
                "connections": len(sessions),
                "consumers": sum(one.consumers for one in counts),
                "exchanges": sum(1 for one in rooms for _row in exchanges.rows(one)),
                "queues": len(counts),
            },
            "node": context.node,
            "listeners": _listeners(call),
            "contexts": [{"node": context.node, **one} for one in contexts(context)],
        }
    )


def _listeners(call: Call) -> list[dict[str, Any]]:
    return [
        {
            "node": call.context.node,
            "protocol": door.protocol,
            "ip_address": door.host,
            "port": door.port,
        }
        for door in call.context.doors()
    ]


# --- nodes ------------------------------------------------------------------------------------------------


async def list_nodes(call: Call) -> Response:
    return call.list(await _nodes(call))


async def show_node(call: Call) -> Response:
    row = await _node(call)
    if call.request.query.get("memory") == "true":
        row = {**row, "memory": await _memory(call)}
    return call.show(row)


async def _nodes(call: Call) -> list[dict[str, Any]]:
    """List every node of the cluster; of a node that does not answer, only the name."""
    context = call.context
    told = {row["name"]: row for row in await everywhere(context, "nodes")}
    rows = []
    for broker in sorted(
        context.frontend.engine.metadata.image.brokers.values(), key=lambda one: one.broker_id
    ):
        name = context.node_name(broker.broker_id)
        row = told.get(name, {"name": name, "type": "disc"})
        rows.append({**row, "running": name == context.node or not broker.fenced})
    return rows


async def show_memory(call: Call) -> Response:
    return call.show({"memory": await _memory(call)})


async def show_relative_memory(call: Call) -> Response:
    """Return memory in percent of the total; its parts are unknown."""
    await _memory(call)
    return call.show({"memory": {"total": 100}})


async def _memory(call: Call) -> dict[str, Any]:
    row = await _node(call)
    if row["name"] == call.context.node:
        return memory(call.context)
    used = row.get("mem_used", 0)
    return {"strategy": "rss", "total": {"rss": used, "allocated": used}}


async def _node(call: Call) -> dict[str, Any]:
    """Return the node of the path. Raises ``Refused``."""
    for row in await _nodes(call):
        if row["name"] == call.name:
            return row
    raise not_found()


# --- logins -------------------------------------------------------------------------------------------------


async def auth(call: Call) -> Response:
    """Answer that users log in by password."""
    return call.show({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


async def auth_attempts(call: Call) -> Response:
    """List login attempts at a node by protocol, since its start or their last reset."""
    await _node(call)
    rows = [
        row for row in await everywhere(call.context, "auth_attempts") if row["node"] == call.name
    ]
    return said([{name: one for name, one in row.items() if name != "node"} for row in rows])


async def auth_attempts_by_source(call: Call) -> Response:
    """Answer with no sources of login attempts: they are not kept, as in RabbitMQ by default."""
    await _node(call)
    return said([])


async def reset_auth_attempts(call: Call) -> Response:
    if (await _node(call))["name"] != call.context.node:
        raise bad_request(f"ask {call.name} itself: a node resets its own counts only")
    call.context.frontend.logins.attempts.reset()
    return done()


# --- the cluster --------------------------------------------------------------------------------------------


async def show_cluster_name(call: Call) -> Response:
    return call.show({"name": cluster_name(call.broker, call.context.cluster_id)})


async def put_cluster_name(call: Call) -> Response:
    name = text(object_of(call.request, required=("name",)), "name")
    await call.context.store(global_parameter(CLUSTER_NAME, name))
    return done()


async def reset(call: Call) -> Response:
    """RabbitMQ forgets its histories of counts; here there are none."""
    if "name" in call.place:
        await _node(call)
    return done()


async def rebalance(call: Call) -> Response:
    """Leaders go back to the nodes that are to have them by themselves (``auto.leader.rebalance.enable``)."""
    del call
    return done()


async def extensions(call: Call) -> Response:
    del call
    return said([])


# --- health -------------------------------------------------------------------------------------------------


async def healthy(call: Call) -> Response:
    """Answer that the node is healthy: it answers, and RabbitMQ's other checks cannot fail here."""
    del call
    return said({"status": "ok"})


async def critical(call: Call) -> Response:
    """Whether queues would stop without this node; with one node RabbitMQ says that it does not matter."""
    if len(call.context.frontend.engine.metadata.image.brokers) == 1:
        return said({"status": "ok", "reason": "single node cluster"})
    return said({"status": "ok"})


async def alarms(call: Call) -> Response:
    """Whether any node has an alarm, which blocks publishers at every node."""
    return _alarms(call, "in the cluster", call.context.frontend.cluster_pressure.alarms)


async def local_alarms(call: Call) -> Response:
    """Whether this node has an alarm; that of another node is not its own."""
    own = call.context.frontend.engine.info.node_id
    found = [alarm for alarm in call.context.frontend.cluster_pressure.alarms if alarm[0] == own]
    return _alarms(call, "on the node", found)


def _alarms(call: Call, where: str, found: Sequence[tuple[NodeId, str]]) -> Response:
    if not found:
        return said({"status": "ok"})
    return said(
        {
            "status": "failed",
            "reason": f"There are alarms in effect {where}",
            "alarms": [
                {"node": call.context.node_name(node), "resource": _RESOURCES.get(name, name)}
                for node, name in found
            ],
        },
        status=503,
    )


async def port_listener(call: Call) -> Response:
    ports = [door.port for door in call.context.doors()]
    wanted = call.place["port"]
    if wanted.isdecimal() and int(wanted) in ports:
        return said({"status": "ok", "port": int(wanted)})
    missing = int(wanted) if wanted.isdecimal() else wanted
    return _no_listener("ports", ports, missing)


async def protocol_listener(call: Call) -> Response:
    spoken = sorted({door.protocol for door in call.context.doors()})
    wanted = call.place["protocol"]
    protocol = _PROTOCOLS.get(wanted, wanted)
    if protocol in spoken:
        return said({"status": "ok", "protocol": protocol})
    return _no_listener("protocols", spoken, wanted)


def _no_listener(kind: str, there: list[Any], missing: object) -> Response:
    return said(
        {"status": "failed", "reason": "No active listener", "missing": missing, kind: there},
        status=503,
    )
