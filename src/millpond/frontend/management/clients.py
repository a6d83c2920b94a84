"""Who uses the cluster: rows of connections, channels and consumers, of this node and of all others.

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
from millpond.engine.peers import ListClients, Peers
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.session import AmqpSession
from millpond.frontend.management.desk import Desk
from millpond.frontend.management.http import as_json

log = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]


async def everywhere(desk: Desk, what: str) -> list[Row]:
    """The rows of all nodes."""
    engine = desk.frontend.engine
    rows = list(_ROWS[what](desk))
    peers = engine.peers
    others = [node for node in engine.image.brokers if node != engine.node.node_id]
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
        log.info("node %d does not say its %s: %s", node, what, error)
        return []
    rows: list[Row] = json.loads(answer)
    return rows


def tell(desk: Desk, request: ListClients) -> bytes:
    """The rows of this node, for another one."""
    rows = _ROWS.get(request.what)
    if rows is None:
        raise InvalidRequest(f"nobody lists {request.what!r}")
    return as_json(list(rows(desk)))


def connection_rows(desk: Desk) -> Iterator[Row]:
    """Every connection to this node."""
    for session in desk.sessions:
        yield connection_row(desk, session)


def connection_row(desk: Desk, session: AmqpSession) -> Row:
    host, _colon, port = session.peer.rpartition(":")
    wire = session.wire
    return {
        "auth_mechanism": wire.mechanism,
        "channel_max": wire.channel_max,
        "channels": len(session.channels),
        "client_properties": wire.client_properties,
        "frame_max": wire.frame_max,
        "name": session.name,
        "node": desk.node,
        "peer_host": host or session.peer,
        "peer_port": int(port) if port.isdecimal() else 0,
        "protocol": "AMQP 0-9-1",
        "state": "running",
        "timeout": wire.heartbeat_s,
        "type": "network",
        "user": session.user,
        "user_who_performed_action": session.user,
        "vhost": session.vhost,
    }


def channel_rows(desk: Desk) -> Iterator[Row]:
    """Every channel of this node's connections."""
    for session in desk.sessions:
        for number in sorted(session.channels):
            yield _channel(desk, session, session.channels[number])


def _channel(desk: Desk, session: AmqpSession, channel: Channel) -> Row:
    host, _colon, port = session.peer.rpartition(":")
    return {
        "confirm": channel.confirms is not None,
        "connection_details": {
            "name": session.name,
            "peer_host": host or session.peer,
            "peer_port": int(port) if port.isdecimal() else 0,
        },
        "consumer_count": len(channel.consumers),
        "global_prefetch_count": channel.deliveries.prefetch,
        "messages_unacknowledged": len(channel.deliveries),
        "name": f"{session.name} ({channel.number})",
        "node": desk.node,
        "number": channel.number,
        "prefetch_count": channel.prefetch,
        "state": "running",
        "transactional": channel.transaction is not None,
        "user": session.user,
        "vhost": session.vhost,
    }


def consumer_rows(desk: Desk) -> Iterator[Row]:
    """Every consumer of this node's connections."""
    for session in desk.sessions:
        for channel in session.channels.values():
            for queue, consumer in channel.consumers.values():
                place = queue.queue
                yield {
                    "ack_required": not consumer.no_ack,
                    "active": True,
                    "activity_status": "up",
                    "arguments": consumer.arguments,
                    "channel_details": {
                        "connection_name": session.name,
                        "name": f"{session.name} ({channel.number})",
                        "node": desk.node,
                        "number": channel.number,
                        "user": session.user,
                    },
                    "consumer_tag": consumer.tag,
                    "exclusive": consumer.exclusive,
                    "prefetch_count": consumer.prefetch,
                    "queue": {"name": place.name, "vhost": place.vhost},
                }


_ROWS: dict[str, Callable[[Desk], Iterator[Row]]] = {
    "connections": connection_rows,
    "channels": channel_rows,
    "consumers": consumer_rows,
}
