"""The broker as a whole: overview, nodes, what is healthy."""

import os
import resource
from typing import Any

from millpond import __version__
from millpond.engine.pressure import DISK, MEMORY
from millpond.frontend.management import connections, exchanges
from millpond.frontend.management.access import visible
from millpond.frontend.management.desk import API_VERSION, Call, shown_queues
from millpond.frontend.management.http import Response, not_found, said

_NO_RATE = {"rate": 0.0}
# What RabbitMQ's clients call a protocol, and what the overview calls it.
_PROTOCOLS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp": "amqp", "http": "http"}


async def overview(call: Call) -> Response:
    desk = call.desk
    rooms = list(visible(call.broker, call.visitor))
    counts = await desk.counts([queue for one in rooms for queue in shown_queues(one)])
    ready = sum(one.ready for one in counts)
    held = sum(one.held for one in counts)
    channels = await connections.visible(call, "channels")
    sessions = await connections.visible(call, "connections")
    return call.show(
        {
            "management_version": API_VERSION,
            "rates_mode": "basic",
            "exchange_types": _exchange_types(call),
            "product_name": "Millpond",
            "product_version": __version__,
            "rabbitmq_version": API_VERSION,
            "cluster_name": desk.frontend.engine.node.cluster_id,
            "disable_stats": False,
            "enable_queue_totals": True,
            "message_stats": desk.frontend.tally.all.row(),
            "queue_totals": {
                "messages": ready + held,
                "messages_details": _NO_RATE,
                "messages_lost": sum(one.lost for one in counts),
                "messages_ready": ready,
                "messages_ready_details": _NO_RATE,
                "messages_unacknowledged": held,
                "messages_unacknowledged_details": _NO_RATE,
            },
            "object_totals": {
                "channels": len(channels),
                "connections": len(sessions),
                "consumers": sum(one.consumers for one in counts),
                "exchanges": sum(1 for one in rooms for _row in exchanges.rows(one)),
                "queues": len(counts),
            },
            "node": desk.node,
            "listeners": _listeners(call),
            "contexts": [],
        }
    )


def _exchange_types(call: Call) -> list[dict[str, Any]]:
    return [
        {"name": name, "description": f"exchange type {name}", "enabled": True}
        for name in call.broker.types.names
    ]


def _listeners(call: Call) -> list[dict[str, Any]]:
    return [
        {
            "node": call.desk.node,
            "protocol": door.protocol,
            "ip_address": door.host,
            "port": door.port,
        }
        for door in call.desk.doors()
    ]


# --- nodes ------------------------------------------------------------------------------------------------


async def list_nodes(call: Call) -> Response:
    return call.list(_nodes(call))


async def show_node(call: Call) -> Response:
    for row in _nodes(call):
        if row["name"] == call.name:
            return call.show(row)
    raise not_found()


def _nodes(call: Call) -> list[dict[str, Any]]:
    """Every node of the cluster; of the others no more is known than that they are there."""
    desk, engine = call.desk, call.desk.frontend.engine
    rows = []
    for broker in sorted(engine.image.brokers.values(), key=lambda one: one.broker_id):
        name = desk.node_name(broker.broker_id)
        is_me = name == desk.node
        row = {"name": name, "type": "disc", "running": is_me or not broker.fenced}
        rows.append({**row, **_this_node(call)} if is_me else row)
    return rows


def _this_node(call: Call) -> dict[str, Any]:
    desk, engine = call.desk, call.desk.frontend.engine
    disk = engine.describe_log_dir(())
    return {
        "partitions": [],
        "os_pid": str(os.getpid()),
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "mem_used": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "mem_alarm": MEMORY in desk.frontend.pressure.low_on,
        "disk_free": disk.usable_bytes,
        "disk_free_alarm": DISK in desk.frontend.pressure.low_on,
        "processors": os.cpu_count() or 1,
        "uptime": engine.clock.now_ms() - desk.started_ms,
        "exchange_types": _exchange_types(call),
        "enabled_plugins": ["rabbitmq_management"],
        "rates_mode": "basic",
    }


async def cluster_name(call: Call) -> Response:
    return call.show({"name": call.desk.frontend.engine.node.cluster_id})


async def extensions(call: Call) -> Response:
    del call
    return said([])


# --- health -------------------------------------------------------------------------------------------------


async def healthy(call: Call) -> Response:
    """It answers, so it is up; nothing else of what RabbitMQ checks here can be wrong."""
    del call
    return said({"status": "ok"})


async def alarms(call: Call) -> Response:
    """Whether publishers of this node are blocked."""
    low_on = call.desk.frontend.pressure.low_on
    if not low_on:
        return said({"status": "ok"})
    return said(
        {
            "status": "failed",
            "reason": "There are alarms in effect in the cluster",
            "alarms": [{"node": call.desk.node, "resource": resource} for resource in low_on],
        },
        status=503,
    )


async def port_listener(call: Call) -> Response:
    ports = [door.port for door in call.desk.doors()]
    wanted = call.place["port"]
    if wanted.isdecimal() and int(wanted) in ports:
        return said({"status": "ok", "port": int(wanted)})
    missing = int(wanted) if wanted.isdecimal() else wanted
    return _no_listener("ports", ports, missing)


async def protocol_listener(call: Call) -> Response:
    spoken = sorted({door.protocol for door in call.desk.doors()})
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
