"""Who uses the cluster: rows of connections, channels and consumers, of this node and of all others; how to
end connections, wherever they are.

Each node makes the rows of its own clients; who is asked for a list asks the others for theirs. One that does
not answer in time is left out, as RabbitMQ leaves out what a node does not tell.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from millpond.base import limits
from millpond.base.errors import InvalidRequest, MillpondError
from millpond.base.ids import NodeId
from millpond.engine.api import Peers
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.session import AmqpSession
from millpond.frontend.rabbitmq_http.context import HandlerContext
from millpond.frontend.rabbitmq_http.http import as_json
from millpond.frontend.rabbitmq_http.node import node_rows
from millpond.peer.close_connections import CloseConnections
from millpond.peer.list_clients import ListClients

log = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]


async def everywhere(context: HandlerContext, what: str) -> list[Row]:
    """Return the rows of all nodes."""
    engine = context.frontend.engine
    rows = list(_ROWS[what](context))
    peers = engine.peers
    others = [node for node in engine.metadata.image.brokers if node != engine.info.node_id]
    if peers is not None and others:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_of_node(peers, node, what)) for node in sorted(others)]
        for one in asked:
            rows += one.result()
    return rows


async def _of_node(peers: Peers, node: NodeId, what: str) -> list[Row]:
    try:
        answer = await peers.call(
            node, ListClients(what=what), timeout_ms=limits.MANAGEMENT_PEER_ANSWER_MS_MAX
        )
    except MillpondError as error:
        log.info("node %d did not return its %s: %s", node, what, error)
        return []
    rows: list[Row] = json.loads(answer)
    return rows


def tell(context: HandlerContext, request: ListClients) -> bytes:
    """Return the rows of this node, for another one."""
    rows = _ROWS.get(request.what)
    if rows is None:
        raise InvalidRequest(f"{request.what!r} cannot be listed")
    return as_json(list(rows(context)))


def connection_rows(context: HandlerContext) -> Iterator[Row]:
    """Yield every connection to this node."""
    for session in context.sessions:
        yield connection_row(context, session)


def connection_row(context: HandlerContext, session: AmqpSession) -> Row:
    host, port = _end(session.local)
    peer_host, peer_port = _end(session.peer)
    wire = session.wire
    return {
        "auth_mechanism": wire.mechanism,
        "channel_max": wire.channel_max,
        "channels": len(session.channels),
        "client_properties": wire.client_properties,
        "connected_at": session.connected_ms,
        "frame_max": wire.frame_max,
        "host": host,
        "name": session.shown_name,
        "node": context.node,
        # Certificates are checked when a connection is made, and not kept.
        "peer_cert_issuer": None,
        "peer_cert_subject": None,
        "peer_cert_validity": None,
        "peer_host": peer_host,
        "peer_port": peer_port,
        "port": port,
        "protocol": "AMQP 0-9-1",
        "recv_oct": session.received_bytes,
        "send_oct": session.outbox.sent_bytes,
        "ssl": session.is_encrypted,
        "ssl_cipher": None,
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "ssl_protocol": None,
        "state": "running",
        "timeout": wire.heartbeat_s,
        "type": "network",
        "user": session.user,
        "user_who_performed_action": session.user,
        "vhost": session.vhost,
    }


def channel_rows(context: HandlerContext) -> Iterator[Row]:
    """Yield every channel of this node's connections."""
    for session in context.sessions:
        for number in sorted(session.channels):
            yield _channel(context, session, session.channels[number])


def _end(place: str) -> tuple[str, int]:
    """Return host and port of one end of a connection."""
    host, _colon, port = place.rpartition(":")
    return host or place, int(port) if port.isdecimal() else 0


def _channel(context: HandlerContext, session: AmqpSession, channel: Channel) -> Row:
    return {
        "confirm": channel.confirms is not None,
        "connection_details": _connection_details(session),
        "consumer_count": len(channel.consumers),
        "global_prefetch_count": channel.deliveries.prefetch,
        "messages_unacknowledged": len(channel.deliveries),
        "name": f"{session.shown_name} ({channel.number})",
        "node": context.node,
        "number": channel.number,
        "prefetch_count": channel.prefetch,
        "state": "running",
        "transactional": channel.transaction is not None,
        "user": session.user,
        "user_who_performed_action": session.user,
        "vhost": session.vhost,
    }


def _connection_details(session: AmqpSession) -> Row:
    host, port = _end(session.peer)
    return {"name": session.shown_name, "peer_host": host, "peer_port": port}


def consumer_rows(context: HandlerContext) -> Iterator[Row]:
    """Yield every consumer of this node's connections."""
    for session in context.sessions:
        for channel in session.channels.values():
            for queue, consumer in channel.consumers.values():
                place = queue.queue
                yield {
                    "ack_required": not consumer.no_ack,
                    "active": True,
                    "activity_status": "up",
                    "arguments": consumer.arguments,
                    "channel_details": {
                        "connection_name": session.shown_name,
                        "name": f"{session.shown_name} ({channel.number})",
                        "node": context.node,
                        "number": channel.number,
                        "peer_host": _end(session.peer)[0],
                        "peer_port": _end(session.peer)[1],
                        "user": session.user,
                    },
                    "consumer_tag": consumer.tag,
                    "exclusive": consumer.exclusive,
                    "prefetch_count": consumer.prefetch,
                    "queue": {"name": place.name, "vhost": place.vhost},
                }


def attempt_rows(context: HandlerContext) -> Iterator[Row]:
    """Yield the login attempts at this node."""
    for row in context.frontend.logins.attempts.rows():
        yield {**row, "node": context.node}


_ROWS: dict[str, Callable[[HandlerContext], Iterator[Row]]] = {
    "connections": connection_rows,
    "channels": channel_rows,
    "consumers": consumer_rows,
    "auth_attempts": attempt_rows,
    "nodes": node_rows,
}


async def close(context: HandlerContext, rows: list[Row], reason: str) -> None:
    """Close connections, each at the node that has it. Raises a ``MillpondError``."""
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(row["node"], []).append(row["name"])
    engine = context.frontend.engine
    for node in engine.metadata.image.brokers:
        here = names.get(context.node_name(node), ())
        if here and node == engine.info.node_id:
            close_here(context, CloseConnections(names=tuple(here), reason=reason))
        elif here and engine.peers is not None:
            await engine.peers.call(
                node,
                CloseConnections(names=tuple(here), reason=reason),
                timeout_ms=limits.MANAGEMENT_PEER_ANSWER_MS_MAX,
            )


def close_here(context: HandlerContext, request: CloseConnections) -> int:
    """Close connections to this node. Return how many there were."""
    found = [session for session in context.sessions if session.shown_name in request.names]
    for session in found:
        session.force_close(request.reason)
    return len(found)
