"""Messages by HTTP: publish one, get some, and the old test whether a broker is alive."""

import base64
import binascii
from typing import Any

from millpond.base import errors
from millpond.base.fields import Table
from millpond.frontend.rabbitmq_http import exchanges
from millpond.frontend.rabbitmq_http.context import Call
from millpond.frontend.rabbitmq_http.http import (
    Response,
    bad_request,
    integer,
    object_of,
    said,
    table,
    text,
)
from millpond.frontend.rabbitmq_http.loopback import Closed, InnerChannel, inner
from millpond.wire.amqp.events import Acks, Content, ContentReceived, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    QueueDeclare,
)
from millpond.wire.amqp.properties import KINDS, Properties, decode_properties, encode_properties

# Messages of one request. RabbitMQ has no bound, and its page asks for one.
GET_COUNT_MAX = 10_000
# An answer with so much in it is not made longer.
GET_BYTES_MAX = 64 * 1024 * 1024
_REQUEUED = {"ack_requeue_true": True, "reject_requeue_true": True, "reject_requeue_false": False}
_ACK_MODES = (*_REQUEUED, "ack_requeue_false")
_ALIVE = "aliveness-test"


async def publish(call: Call) -> Response:
    call.rooms()
    wanted = object_of(call.request)
    missing = [
        name
        for name in ("routing_key", "properties", "payload", "payload_encoding")
        if name not in wanted
    ]
    if missing:
        separator = ",\n " if len(missing) > 2 else ","
        raise bad_request(f"[{separator.join(f'{{key_missing,{name}}}' for name in missing)}]")
    method = BasicPublish(
        exchange=exchanges.real_name(call.name),
        routing_key=text(wanted, "routing_key"),
        mandatory=True,
    )
    block, body = _properties(wanted), _payload(wanted)
    async with inner(call) as channel:
        try:
            is_routed = await _publish(channel, method, block, body)
        except Closed as error:
            raise bad_request(str(error)) from None
    return said({"routed": is_routed})


async def _publish(channel: InnerChannel, method: BasicPublish, block: bytes, body: bytes) -> bool:
    """Whether it went anywhere. Raises ``Closed``; ``Refused`` if an alarm blocks it for too long."""
    await channel.call(ConfirmSelect())
    channel.send_content(method, block, body)
    is_routed = True
    while True:
        match await channel.wait_published():
            case ContentReceived(content=Content(method=BasicReturn())):
                is_routed = False
            case Acks() | MethodReceived(method=BasicAck()):
                return is_routed
            case MethodReceived(method=BasicNack()):
                return False
            case _:
                pass


async def get(call: Call) -> Response:
    call.rooms()
    wanted = object_of(call.request, required=("ackmode", "count", "encoding"))
    mode, encoding = text(wanted, "ackmode"), text(wanted, "encoding")
    if mode not in _ACK_MODES:
        raise bad_request(["unsupported_ackmode", mode])
    if encoding not in {"auto", "base64"}:
        raise bad_request(["unsupported_encoding", encoding])
    count = min(integer(wanted, "count"), GET_COUNT_MAX)
    most = integer(wanted, "truncate") if "truncate" in wanted else None
    rows: list[dict[str, Any]] = []
    last_tag = size = 0
    async with inner(call) as channel:
        while len(rows) < count and size < GET_BYTES_MAX:
            answer = await channel.call(BasicGet(queue=call.name, no_ack=mode not in _REQUEUED))
            if not isinstance(answer, ContentReceived):
                break
            method = answer.content.method
            assert isinstance(method, BasicGetOk)
            last_tag = method.delivery_tag
            rows.append(_row(answer.content, method, encoding, most))
            size += len(rows[-1]["payload"])
        if last_tag and mode in _REQUEUED:
            channel.send(BasicNack(delivery_tag=last_tag, multiple=True, requeue=_REQUEUED[mode]))
    return said(rows)


async def test_aliveness(call: Call) -> Response:
    """A queue is declared, a message published and taken."""
    call.rooms()
    async with inner(call) as channel:
        await channel.call(QueueDeclare(queue=_ALIVE))
        await _publish(
            channel, BasicPublish(routing_key=_ALIVE), encode_properties(Properties()), b"test"
        )
        answer = await channel.call(BasicGet(queue=_ALIVE, no_ack=True))
    is_alive = isinstance(answer, ContentReceived)
    return said({"status": "ok" if is_alive else "failed"}, status=200 if is_alive else 503)


# --- values -----------------------------------------------------------------------------------------------


def _payload(wanted: dict[str, Any]) -> bytes:
    payload, encoding = text(wanted, "payload"), wanted["payload_encoding"]
    if encoding == "string":
        return payload.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload[:100]]) from None


def _properties(wanted: dict[str, Any]) -> bytes:
    given = table(wanted, "properties")
    values: dict[str, Any] = {}
    for name, kind in KINDS:
        if name not in given:
            continue
        if kind == "table":
            values[name] = table(given, name)
        elif kind == "shortstr":
            values[name] = text(given, name)
        else:
            values[name] = integer(given, name)
    try:
        return encode_properties(Properties(**values))
    except (errors.MillpondError, ValueError, OverflowError) as error:
        raise bad_request(str(error)) from None


def _row(content: Content, method: BasicGetOk, encoding: str, most: int | None) -> dict[str, Any]:
    body = content.body
    payload, used = _encoded(body if most is None else body[:most], encoding)
    return {
        "payload_bytes": len(body),
        "redelivered": method.redelivered,
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "message_count": method.message_count,
        "properties": _shown(content.properties),
        "payload": payload,
        "payload_encoding": used,
    }


def _encoded(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"


def _shown(block: bytes) -> Table | list[Any]:
    properties = decode_properties(block)
    values = {name: getattr(properties, name) for name, _kind in KINDS}
    return {name: value for name, value in values.items() if value is not None} or []
