"""An AMQP message as a Kafka record, and any record as an AMQP message (docs/envelope.md).

The property block is kept as it came in one reserved header and is what AMQP's consumers get again; the
user's headers are there a second time, one for one and readable, for everybody else.
"""

import json
from collections.abc import Sequence
from decimal import Decimal

from millpond.base.errors import MalformedData
from millpond.base.fields import LongString, Table, Value
from millpond.frontend.amqp.expirations import expiration_ms
from millpond.queue.message import Message
from millpond.rabbit.exchange_types import delay_ms_of
from millpond.record.builder import NewRecord
from millpond.record.records import Record
from millpond.wire.amqp.properties import KINDS, Properties, decode_properties, encode_properties

RESERVED = "millpond.amqp."
PROPERTIES = f"{RESERVED}properties"
EXCHANGE = f"{RESERVED}exchange"
RECEIVED = f"{RESERVED}received"

_SHORT_BYTES_MAX = 255
_PERSISTENT = 2


class AmqpEnvelope:
    """Seals and opens. Keeps nothing."""

    def seal(self, message: Message) -> NewRecord:
        """The record that keeps a message."""
        headers: list[tuple[str, bytes | None]] = []
        for name, value in message.headers.items():
            if not name.startswith(RESERVED):
                headers.append((name, readable(value)))
        headers.append((PROPERTIES, message.properties))
        headers.append((EXCHANGE, _raw(message.exchange)))
        time_ms = message.timestamp_ms
        if time_ms is None:
            time_ms = message.received_ms
        else:
            headers.append((RECEIVED, b"%d" % message.received_ms))
        return time_ms, _raw(message.routing_key), message.body, headers

    def seal_all(self, messages: Sequence[Message]) -> list[NewRecord]:
        """The records of messages that came together; most differ in their bodies only."""
        records: list[NewRecord] = []
        exchange: str | None = None
        key: str | None = None
        block: bytes | None = None
        raw_key = b""
        pairs: tuple[tuple[str, bytes], ...] = ()
        for message in messages:
            if message.headers or message.timestamp_ms is not None:
                records.append(self.seal(message))
                continue
            if message.properties != block or message.exchange != exchange:
                block, exchange = message.properties, message.exchange
                pairs = (PROPERTIES, block), (EXCHANGE, _raw(exchange))
            if message.routing_key != key:
                key = message.routing_key
                raw_key = _raw(key)
            records.append((message.received_ms, raw_key, message.body, pairs))
        return records

    def open(self, record: Record) -> Message:
        """The message that a record is, whoever wrote it."""
        pairs = record.headers
        if len(pairs) == 2 and pairs[0][0] == PROPERTIES and pairs[1][0] == EXCHANGE:
            # What most messages of AMQP's publishers have.
            reserved, block, exchange = {}, pairs[0][1], pairs[1][1] or b""
        else:
            reserved = {name: value for name, value in pairs if name.startswith(RESERVED)}
            block, exchange = reserved.get(PROPERTIES), reserved.get(EXCHANGE) or b""
        key = record.key or b""
        if block is None or max(len(key), len(exchange)) > _SHORT_BYTES_MAX:
            return _foreign(record)
        received = reserved.get(RECEIVED)
        try:
            properties = decode_properties(block)
            received_ms = record.timestamp if received is None else int(received)
        except (MalformedData, ValueError):
            # Not what an AMQP publisher's message looks like, whatever its headers are called.
            return _foreign(record)
        body = record.value or b""
        return message_of(
            _text(exchange), _text(key), block, properties, body, received_ms=received_ms
        )

    def delay_ms(self, message: Message) -> int:
        """For how long a delayed exchange keeps a message back."""
        return delay_ms_of(message.headers)

    def chosen_by(self, message: Message) -> Table:
        return chosen_by(decode_properties(message.properties))

    def with_headers(self, message: Message, *, headers: Table, now_ms: int) -> Message:
        properties = changed(decode_properties(message.properties), headers=headers)
        return message_of(
            message.exchange,
            message.routing_key,
            encode_properties(properties),
            properties,
            message.body,
            received_ms=now_ms,
        )

    def readdressed(
        self, message: Message, *, exchange: str, routing_key: str, headers: Table, now_ms: int
    ) -> Message:
        properties = changed(
            decode_properties(message.properties), headers=headers, expiration=None
        )
        block = encode_properties(properties)
        return message_of(
            exchange, routing_key, block, properties, message.body, received_ms=now_ms
        )


def message_of(
    exchange: str,
    routing_key: str,
    block: bytes,
    properties: Properties,
    body: bytes,
    *,
    received_ms: int,
) -> Message:
    """A message with what queues must know of its properties."""
    timestamp = properties.timestamp
    return Message(
        exchange,
        routing_key,
        block,
        properties.headers or {},
        body,
        received_ms,
        None if timestamp is None else _time_ms(timestamp),
        expiration_ms(properties.expiration),
        properties.priority,
        properties.delivery_mode == _PERSISTENT,
    )


def chosen_by(properties: Properties) -> Table:
    """What an exchange may hash besides headers and routing key."""
    return {
        "correlation_id": properties.correlation_id,
        "message_id": properties.message_id,
        "timestamp": properties.timestamp,
    }


def changed(properties: Properties, **changes: object) -> Properties:
    """A copy with some fields replaced."""
    values = {name: getattr(properties, name) for name, _kind in KINDS} | changes
    return Properties(**values)


def readable(value: Value) -> bytes | None:
    """A header's value as Kafka's clients see it: text as it is, anything with structure as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return _raw(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (int, float, Decimal)):
        return str(value).encode()
    return json.dumps(value, default=_shown, ensure_ascii=False, sort_keys=True).encode(
        "utf-8", "surrogateescape"
    )


def _shown(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _foreign(record: Record) -> Message:
    """A record that no AMQP publisher wrote: headers are strings, and it is persistent, as records are."""
    headers: Table = {}
    for name, value in record.headers:
        if not name.startswith(RESERVED) and len(_raw(name)) <= _SHORT_BYTES_MAX:
            headers[name] = None if value is None else _string(value)
    properties = Properties(
        headers=headers or None,
        delivery_mode=2,
        timestamp=max(0, record.timestamp) // 1000,
    )
    key = (record.key or b"")[:_SHORT_BYTES_MAX]
    return Message(
        "",
        _text(key),
        encode_properties(properties),
        headers,
        record.value or b"",
        record.timestamp,
        record.timestamp,
    )


def _string(value: bytes) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return LongString(value)


def _time_ms(seconds: int) -> int:
    """AMQP's times are seconds in 64 bits, and a record's are milliseconds in 63."""
    return min(seconds, (2**63 - 1) // 1000) * 1000


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
