"""Queues: list with their counts, show, declare, delete."""

from typing import Any

from millpond.base.errors import MillpondError
from millpond.engine.api.queues import Counts
from millpond.frontend.rabbitmq_http.access import visible
from millpond.frontend.rabbitmq_http.clients import everywhere
from millpond.frontend.rabbitmq_http.context import COUNTED_AT_ONCE, Call, shown_queues
from millpond.frontend.rabbitmq_http.http import (
    Response,
    boolean,
    done,
    not_found,
    object_of,
    table,
)
from millpond.frontend.rabbitmq_http.loopback import inner
from millpond.rabbit.broker import VirtualHostState
from millpond.rabbit.commands import DeclareQueue
from millpond.rabbit.names import is_hidden
from millpond.rabbit.policies import effective, matching
from millpond.rabbit.records import Queue
from millpond.wire.amqp.methods import QueueDelete, QueuePurge


async def list_all(call: Call) -> Response:
    every = visible(call.broker, call.visitor)
    return call.list([row for rooms in every for row in await _rows(call, rooms)])


async def list_of_vhost(call: Call) -> Response:
    return call.list(await _rows(call, call.rooms(to_look=True)))


async def show(call: Call) -> Response:
    rooms = call.rooms(to_look=True)
    queue = found(call, rooms)
    details = [
        row
        for row in await everywhere(call.context, "consumers")
        if (row["queue"]["vhost"], row["queue"]["name"]) == (queue.vhost, queue.name)
    ]
    extra = {"consumer_details": details, "deliveries": [], "incoming": []}
    (counts,) = await call.context.counts([queue])
    return call.show({**_row(call, rooms, queue, counts), **extra})


async def declare(call: Call) -> Response:
    rooms = call.rooms()
    wanted = object_of(call.request)
    is_new = call.name not in rooms.queues
    await call.context.ask(
        DeclareQueue(
            asker=call.asker,
            name=call.name,
            durable=boolean(wanted, "durable"),
            auto_delete=boolean(wanted, "auto_delete"),
            arguments=table(wanted, "arguments"),
        )
    )
    return done(is_new=is_new)


async def delete(call: Call) -> Response:
    queue = found(call, call.rooms())
    query = call.request.query
    async with inner(call) as channel:
        await channel.call(
            QueueDelete(
                queue=queue.name,
                if_unused=query.get("if-unused") == "true",
                if_empty=query.get("if-empty") == "true",
            )
        )
    return done()


async def purge(call: Call) -> Response:
    queue = found(call, call.rooms())
    async with inner(call) as channel:
        await channel.call(QueuePurge(queue=queue.name))
    return done()


async def act(call: Call) -> Response:
    """Mirrors are kept in step by the log: there is nothing to start or stop."""
    found(call, call.rooms())
    return done()


def found(call: Call, rooms: VirtualHostState) -> Queue:
    queue = rooms.queues.get(call.name)
    if queue is None or is_hidden(queue.name):
        raise not_found()
    return queue


async def _rows(call: Call, rooms: VirtualHostState) -> list[dict[str, Any]]:
    """Return the rows of all queues, some at a time, so that a long list does not hold up other requests."""
    queues = shown_queues(rooms)
    rows: list[dict[str, Any]] = []
    for first in range(0, len(queues), COUNTED_AT_ONCE):
        some = queues[first : first + COUNTED_AT_ONCE]
        counted = zip(some, await call.context.counts(some), strict=True)
        rows += [_row(call, rooms, queue, counts) for queue, counts in counted]
    return rows


def _row(call: Call, rooms: VirtualHostState, queue: Queue, counts: Counts) -> dict[str, Any]:
    home = call.context.home(queue)
    policies = list(rooms.policies.values())
    of_users = matching(queue, (one for one in policies if not one.is_operator))
    of_operators = matching(queue, (one for one in policies if one.is_operator))
    return {
        "arguments": queue.arguments,
        "auto_delete": queue.auto_delete,
        "consumers": counts.consumers,
        "durable": queue.durable,
        "effective_policy_definition": effective(queue, policies),
        "exclusive": queue.is_exclusive,
        "messages": counts.ready + counts.held,
        "messages_details": call.details(counts.ready + counts.held),
        "messages_lost": counts.lost,
        "messages_ready": counts.ready,
        "messages_ready_details": call.details(counts.ready),
        "messages_unacknowledged": counts.held,
        "messages_unacknowledged_details": call.details(counts.held),
        "name": queue.name,
        "node": home,
        "operator_policy": None if of_operators is None else of_operators.name,
        "policy": None if of_users is None else of_users.name,
        "state": "down" if home is None else "running",
        "topic": queue.topic,
        "type": queue.type,
        "vhost": queue.vhost,
        **_stats(call, queue),
    }


def _stats(call: Call, queue: Queue) -> dict[str, Any]:
    """What went through it; nothing is said of a queue that nothing went through, as in RabbitMQ."""
    frontend = call.context.frontend
    try:
        face = frontend.queues.find(queue.vhost, queue.name)
    except MillpondError:
        return {}
    row = frontend.stats.of(face).row()
    return {"message_stats": row} if row else {}
