"""This node as RabbitMQ shows nodes: what it uses of its machine, and what it may use."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millpond import __version__
from millpond.base.pressure import DISK, MEMORY
from millpond.frontend.rabbitmq_http.context import HandlerContext
from millpond.wire.amqp.sasl import AMQPLAIN, EXTERNAL, PLAIN

_FILES = Path("/proc/self/fd")


def node_rows(context: HandlerContext) -> Iterator[dict[str, Any]]:
    """One row, of the node that is asked."""
    yield {"name": context.node, "type": "disc", "running": True, **_uses(context)}


def exchange_types(context: HandlerContext) -> list[dict[str, Any]]:
    return [
        {"name": name, "description": f"exchange type {name}", "enabled": True}
        for name in context.broker.types.names
    ]


def contexts(context: HandlerContext) -> list[dict[str, Any]]:
    """Where HTTP is answered."""
    return [
        {
            "description": "Millpond's management API",
            "path": "/",
            "ip": door.host,
            "port": str(door.port),
        }
        for door in context.doors()
        if door.protocol.startswith("http")
    ]


def memory(context: HandlerContext) -> dict[str, Any]:
    """What RabbitMQ says of memory, as far as one process in Python knows it: how much it is."""
    used = _memory_used(context)
    return {"strategy": "rss", "total": {"rss": used, "allocated": used}}


def _memory_used(context: HandlerContext) -> int:
    watch = context.frontend.watch
    if watch is not None and watch.seen is not None and watch.seen[0].resident_bytes:
        return watch.seen[0].resident_bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _uses(context: HandlerContext) -> dict[str, Any]:
    engine, low_on = context.frontend.engine, context.frontend.cluster_pressure.own.low_on
    free = [one.usable_bytes for one in engine.disk_view.describe(()) if one.failure is None]
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    row: dict[str, Any] = {
        "partitions": [],
        "os_pid": str(os.getpid()),
        "fd_total": files_max,
        "fd_used": _files_open(),
        "sockets_total": files_max,
        "sockets_used": len(context.frontend.sessions),
        "mem_used": _memory_used(context),
        "mem_alarm": MEMORY in low_on,
        "mem_calculation_strategy": "rss",
        "disk_free": min(free, default=-1),
        "disk_free_alarm": DISK in low_on,
        "processors": os.cpu_count() or 1,
        "uptime": engine.runtime.clock.now_ms() - context.started_ms,
        "exchange_types": exchange_types(context),
        "auth_mechanisms": [
            {
                "name": name,
                "description": f"SASL {name}",
                "enabled": name in engine.settings.get("auth_mechanisms"),
            }
            for name in (AMQPLAIN, EXTERNAL, PLAIN)
        ],
        "applications": [
            {"name": "millpond", "description": "Millpond", "version": __version__},
        ],
        "contexts": contexts(context),
        "log_files": [],
        "config_files": [],
        "db_dir": engine.log_dirs.metadata.name,
        "millpond_offline_log_dirs": [
            {"path": path, "reason": reason} for path, reason in engine.disk.offline.items()
        ],
        "enabled_plugins": ["rabbitmq_management"],
        "rates_mode": "basic",
    }
    watch = context.frontend.watch
    if watch is not None and watch.seen is not None:
        _readings, limits = watch.seen
        row["mem_limit"] = limits.memory_bytes_max
        row["disk_free_limit"] = limits.disk_free_bytes_min
    return row


def _files_open() -> int:
    """0 where the system does not say."""
    try:
        return sum(1 for _each in _FILES.iterdir())
    except OSError:
        return 0
