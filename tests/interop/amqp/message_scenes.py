"""Messages on their way through a broker, so that two brokers can be compared.

A scene is a list of steps on one channel: methods, publishes, waiting, and how many deliveries are then to
come.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from millpond.base.fields import Long, Table
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ConfirmSelect,
    ExchangeBind,
    Method,
    QueueBind,
    QueueDelete,
    QueuePurge,
)
from millpond.wire.amqp.properties import Properties
from tests.interop.amqp.scenes import exchange, queue


@dataclass(frozen=True, slots=True)
class Send:
    """A publish. With ``answers``, so many of returns and confirms are to come."""

    method: BasicPublish
    body: bytes
    properties: Properties = field(default_factory=Properties)
    answers: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes; a real broker is given a little more of it."""

    ms: int


@dataclass(frozen=True, slots=True)
class Collect:
    """So many deliveries come, and no more."""

    count: int


Step: TypeAlias = Method | Send | Wait | Collect

SETTLE = Wait(50)


def send(
    key: str,
    body: str,
    via: str = "",
    answers: int = 0,
    mandatory: bool = False,
    **properties: object,
) -> Send:
    method = BasicPublish(exchange=via, routing_key=key, mandatory=mandatory)
    return Send(method, body.encode(), Properties(**properties), answers)  # type: ignore[arg-type]


def sends(key: str, bodies: str) -> list[Step]:
    return [*(send(key, body) for body in bodies), SETTLE]


def gets(name: str, count: int, *, no_ack: bool = False) -> list[Step]:
    return [BasicGet(queue=name, no_ack=no_ack)] * count


def dead(name: str, **arguments: object) -> Table:
    table: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
    for key, value in arguments.items():
        table["x-" + key.replace("_", "-")] = value  # type: ignore[assignment]
    return table


# As brokers wrote them before they counted: an entry for every death, the latest first.
_HERE, _ELSEWHERE = ({"queue": name, "reason": "rejected"} for name in ("m.40", "elsewhere"))
UNCOUNTED: list[list[Table]] = [
    [{**_HERE}],
    [{**_HERE}, {**_HERE}],
    [{**_ELSEWHERE}, {**_HERE}, {**_ELSEWHERE}, {**_HERE}, {**_ELSEWHERE}],
    [{**_HERE, "count": Long(7)}, {**_HERE}],
    [{**_ELSEWHERE}, {**_ELSEWHERE}],
    [],
]

MESSAGE_SCENES: dict[str, list[Step]] = {
    "getting in order": [
        queue("m.1"),
        *sends("m.1", "abc"),
        *gets("m.1", 4, no_ack=True),
    ],
    "given back to its place": [
        queue("m.2"),
        *sends("m.2", "abcd"),
        *gets("m.2", 3),
        BasicNack(delivery_tag=2, requeue=True),
        SETTLE,
        *gets("m.2", 3),
        BasicNack(delivery_tag=3, multiple=True, requeue=True),
        SETTLE,
        *gets("m.2", 4),
    ],
    "recovering all": [
        queue("m.3"),
        *sends("m.3", "abc"),
        *gets("m.3", 2),
        BasicRecover(requeue=True),
        SETTLE,
        *gets("m.3", 4),
    ],
    "an unknown tag": [queue("m.4"), BasicAck(delivery_tag=5), Collect(0)],
    "a tag acknowledged twice": [
        queue("m.5"),
        *sends("m.5", "ab"),
        *gets("m.5", 2),
        BasicAck(delivery_tag=2, multiple=True),
        BasicAck(delivery_tag=1),
        Collect(0),
    ],
    "acknowledging all of nothing": [
        queue("m.6"),
        BasicAck(delivery_tag=0, multiple=True),
        queue("m.6", passive=True),
    ],
    "prefetch": [
        queue("m.7"),
        *sends("m.7", "abcde"),
        BasicQos(prefetch_count=2),
        BasicConsume(queue="m.7", consumer_tag="one"),
        Collect(2),
        BasicAck(delivery_tag=1),
        Collect(1),
        BasicAck(delivery_tag=3, multiple=True),
        Collect(2),
        BasicCancel(consumer_tag="one"),
        queue("m.7", passive=True),
    ],
    "two consumers in turn": [
        queue("m.8"),
        BasicConsume(queue="m.8", consumer_tag="one", no_ack=True),
        BasicConsume(queue="m.8", consumer_tag="two", no_ack=True),
        *sends("m.8", "abcd"),
        Collect(4),
    ],
    "consumers with priorities": [
        queue("m.9"),
        BasicQos(prefetch_count=1),
        BasicConsume(queue="m.9", consumer_tag="low"),
        BasicConsume(queue="m.9", consumer_tag="high", arguments={"x-priority": 5}),
        *sends("m.9", "abc"),
        Collect(2),
        BasicAck(delivery_tag=1),
        Collect(1),
    ],
    "a channel's prefetch": [
        queue("m.10"),
        BasicQos(prefetch_count=3, is_global=True),
        BasicConsume(queue="m.10", consumer_tag="one"),
        BasicConsume(queue="m.10", consumer_tag="two"),
        *sends("m.10", "abcde"),
        Collect(3),
        BasicAck(delivery_tag=3, multiple=True),
        Collect(2),
    ],
    "a single active consumer": [
        queue("m.11", {"x-single-active-consumer": True}),
        BasicConsume(queue="m.11", consumer_tag="one", no_ack=True),
        BasicConsume(queue="m.11", consumer_tag="two", no_ack=True),
        *sends("m.11", "ab"),
        Collect(2),
        BasicCancel(consumer_tag="one"),
        *sends("m.11", "cd"),
        Collect(2),
    ],
    "rejected to letters": [
        queue("m.12", dead("m.12.dead")),
        queue("m.12.dead"),
        send("m.12", "a", headers={"h": 1}, delivery_mode=2, content_type="text/plain"),
        SETTLE,
        BasicGet(queue="m.12"),
        BasicReject(delivery_tag=1, requeue=False),
        SETTLE,
        BasicGet(queue="m.12.dead", no_ack=True),
        BasicGet(queue="m.12", no_ack=True),
    ],
    "rejected with deaths that were not counted": [
        queue("m.40", dead("m.40.dead")),
        queue("m.40.dead"),
        *(
            send("m.40", str(number), headers={"x-death": deaths})
            for number, deaths in enumerate(UNCOUNTED)
        ),
        SETTLE,
        *gets("m.40", len(UNCOUNTED)),
        *(BasicReject(delivery_tag=1 + tag, requeue=False) for tag in range(len(UNCOUNTED))),
        SETTLE,
        *gets("m.40.dead", len(UNCOUNTED), no_ack=True),
    ],
    "expired to letters": [
        queue("m.13", dead("m.13.dead", message_ttl=30)),
        queue("m.13.dead"),
        send("m.13", "a"),
        send("m.13", "b", expiration="10"),
        send("m.13", "c", expiration="60000"),
        Wait(200),
        *gets("m.13.dead", 4, no_ack=True),
    ],
    "expired only at the head": [
        queue("m.14", dead("m.14.dead")),
        queue("m.14.dead"),
        send("m.14", "long", expiration="60000"),
        send("m.14", "short", expiration="10"),
        Wait(150),
        queue("m.14", passive=True),
        BasicGet(queue="m.14", no_ack=True),
        Wait(50),
        queue("m.14", passive=True),
        BasicGet(queue="m.14.dead", no_ack=True),
    ],
    "too long: the head goes": [
        queue("m.15", dead("m.15.dead", max_length=2)),
        queue("m.15.dead"),
        *sends("m.15", "abcd"),
        *gets("m.15.dead", 3, no_ack=True),
        *gets("m.15", 3, no_ack=True),
    ],
    "too large: the head goes": [
        queue("m.16", {"x-max-length-bytes": 10}),
        send("m.16", "12345"),
        send("m.16", "1234"),
        send("m.16", "123"),
        SETTLE,
        *gets("m.16", 3, no_ack=True),
    ],
    "too long: publishes are refused": [
        queue("m.17", {"x-max-length": 1, "x-overflow": "reject-publish"}),
        ConfirmSelect(),
        send("m.17", "a", answers=1),
        send("m.17", "b", answers=1),
        *gets("m.17", 2, no_ack=True),
    ],
    "too long: publishes are refused, to letters": [
        queue("m.18", dead("m.18.dead", max_length=1, overflow="reject-publish-dlx")),
        queue("m.18.dead"),
        ConfirmSelect(),
        send("m.18", "a", answers=1),
        send("m.18", "b", answers=1),
        SETTLE,
        *gets("m.18", 2, no_ack=True),
        *gets("m.18.dead", 2, no_ack=True),
    ],
    "a circle that turns by itself": [
        queue("m.19", dead("m.19", message_ttl=20)),
        send("m.19", "a"),
        Wait(200),
        queue("m.19", passive=True),
    ],
    "a circle with a rejection in it": [
        queue("m.20", dead("m.20.wait")),
        queue("m.20.wait", dead("m.20", message_ttl=30)),
        send("m.20", "a", headers={"CC": ["nowhere"]}, expiration="60000"),
        SETTLE,
        BasicGet(queue="m.20"),
        BasicReject(delivery_tag=1, requeue=False),
        Wait(150),
        BasicGet(queue="m.20"),
        BasicReject(delivery_tag=2, requeue=False),
        Wait(150),
        BasicGet(queue="m.20"),
    ],
    "priorities": [
        queue("m.21", {"x-max-priority": 3}),
        *(send("m.21", str(number), priority=number) for number in (0, 3, 1, 9, 2)),
        send("m.21", "none"),
        SETTLE,
        *gets("m.21", 7, no_ack=True),
    ],
    "nobody wants it": [
        ConfirmSelect(),
        send("m.nowhere", "a", mandatory=True, answers=2),
        send("m.nowhere", "b", answers=1),
        exchange("m.22.x", "fanout"),
        send("k", "c", via="m.22.x", mandatory=True, answers=2),
    ],
    "an exchange that is not there": [
        send("k", "a", via="m.no-exchange"),
        Collect(0),
    ],
    "an internal exchange": [
        exchange("m.23.x", "fanout", internal=True),
        send("k", "a", via="m.23.x"),
        Collect(0),
    ],
    "several keys": [
        queue("m.24.a"),
        queue("m.24.b"),
        queue("m.24.c"),
        send("m.24.a", "x", headers={"CC": ["m.24.b", "m.24.a"], "BCC": ["m.24.c"], "h": 1}),
        SETTLE,
        *gets("m.24.a", 2, no_ack=True),
        *gets("m.24.b", 1, no_ack=True),
        *gets("m.24.c", 1, no_ack=True),
    ],
    "an alternate exchange": [
        exchange("m.25.alt", "fanout"),
        exchange("m.25.x", "direct", {"alternate-exchange": "m.25.alt"}),
        queue("m.25.q"),
        queue("m.25.rest"),
        QueueBind(queue="m.25.q", exchange="m.25.x", routing_key="k"),
        QueueBind(queue="m.25.rest", exchange="m.25.alt"),
        send("k", "known", via="m.25.x"),
        send("l", "unknown", via="m.25.x"),
        SETTLE,
        *gets("m.25.q", 2, no_ack=True),
        *gets("m.25.rest", 2, no_ack=True),
    ],
    "exchanges behind exchanges": [
        exchange("m.26.x", "topic"),
        exchange("m.26.y", "fanout"),
        queue("m.26.q"),
        ExchangeBind(destination="m.26.y", source="m.26.x", routing_key="a.#"),
        ExchangeBind(destination="m.26.x", source="m.26.y"),
        QueueBind(queue="m.26.q", exchange="m.26.y"),
        QueueBind(queue="m.26.q", exchange="m.26.x", routing_key="*.b"),
        send("a.b", "once", via="m.26.x"),
        send("c.b", "direct", via="m.26.x"),
        send("c", "lost", via="m.26.x"),
        SETTLE,
        *gets("m.26.q", 3, no_ack=True),
    ],
    "headers": [
        exchange("m.27.x", "headers"),
        queue("m.27.any"),
        queue("m.27.all"),
        queue("m.27.x"),
        QueueBind(
            queue="m.27.any", exchange="m.27.x", arguments={"x-match": "any", "a": 1, "b": "two"}
        ),
        QueueBind(
            queue="m.27.all", exchange="m.27.x", arguments={"x-match": "all", "a": 1, "b": "two"}
        ),
        QueueBind(
            queue="m.27.x", exchange="m.27.x", arguments={"x-match": "any-with-x", "x-a": None}
        ),
        send("", "1", via="m.27.x", headers={"a": 1}),
        send("", "2", via="m.27.x", headers={"a": 1, "b": "two", "c": True}),
        send("", "3", via="m.27.x", headers={"x-a": 5, "a": "1"}),
        SETTLE,
        *gets("m.27.any", 3, no_ack=True),
        *gets("m.27.all", 2, no_ack=True),
        *gets("m.27.x", 2, no_ack=True),
    ],
    "purging and deleting": [
        queue("m.28"),
        *sends("m.28", "abc"),
        BasicGet(queue="m.28"),
        QueuePurge(queue="m.28"),
        BasicNack(delivery_tag=1),
        SETTLE,
        queue("m.28", passive=True),
        QueueDelete(queue="m.28", if_empty=True),
    ],
    "an expiration that is none": [
        queue("m.29"),
        send("m.29", "a", expiration="soon"),
        Collect(0),
    ],
    "delivered too often": [
        queue(
            "m.30",
            {**dead("m.30.dead"), "x-queue-type": "quorum", "x-delivery-limit": 1},
            durable=True,
        ),
        queue("m.30.dead"),
        send("m.30", "a", delivery_mode=2),
        Wait(100),
        BasicGet(queue="m.30"),
        BasicNack(delivery_tag=1),
        Wait(100),
        BasicGet(queue="m.30"),
        BasicNack(delivery_tag=2),
        Wait(200),
        BasicGet(queue="m.30"),
        BasicGet(queue="m.30.dead"),
    ],
}
