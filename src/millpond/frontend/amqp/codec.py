"""An AMQP message as a Kafka record, and any message as an AMQP one (docs/envelope.md).

The property block is kept as it came in one reserved header and is what AMQP's consumers get again; the
user's headers are there a second time, one for one and readable, for all other readers.
"""

from collections.abc import Sequence
from typing import Final

from millpond.base.errors import MalformedData
from millpond.base.fields import Table
from millpond.frontend.amqp.expirations import expiration_ms
from millpond.message.codecs import RESERVED_PREFIX
from millpond.message.hub import Message
from millpond.message.text import header_bytes, raw, text_of
from millpond.rabbit.exchange_types import DELAY_HEADER, delay_ms_of
from millpond.record.builder import NewRecord
from millpond.record.records import Record
from millpond.wire.amqp.properties import KINDS, Properties, decode_properties, encode_properties

AMQP: Final = "amqp"
RESERVED: Final = f"{RESERVED_PREFIX}{AMQP}."
PROPERTIES: Final = f"{RESERVED}properties"
EXCHANGE: Final = f"{RESERVED}exchange"
RECEIVED: Final = f"{RESERVED}received"

_SHORT_BYTES_MAX = 255
# Characters that are short in any case: one has at most four bytes.
_SURELY_SHORT = _SHORT_BYTES_MAX // 4
_PERSISTENT = 2


class AmqpCodec:
    """AMQP's messages. Keeps nothing."""

    protocol: Final = AMQP

    def to_record(self, message: Message) -> NewRecord:
        """The record that keeps a message."""
        headers: list[tuple[str, bytes | None]] = []
        for name, value in message.headers.items():
            if not name.startswith(RESERVED):
                headers.append((name, header_bytes(value)))
        headers.append((PROPERTIES, message.properties))
        headers.append((EXCHANGE, raw(message.address)))
        time_ms = message.timestamp_ms
        if time_ms is None:
            time_ms = message.received_ms
        else:
            headers.append((RECEIVED, b"%d" % message.received_ms))
        return time_ms, raw(message.key), message.body, headers

    def to_records(self, messages: Sequence[Message]) -> list[NewRecord]:
        """The records of messages that came together; most differ in their bodies only."""
        records: list[NewRecord] = []
        exchange: str | None = None
        key: str | None = None
        block: bytes | None = None
        raw_key = b""
        pairs: tuple[tuple[str, bytes], ...] = ()
        for message in messages:
            if message.headers or message.timestamp_ms is not None:
                records.append(self.to_record(message))
                continue
            if message.properties != block or message.address != exchange:
                block, exchange = message.properties, message.address
                pairs = (PROPERTIES, block), (EXCHANGE, raw(exchange))
            if message.key != key:
                key = message.key
                raw_key = raw(key)
            records.append((message.received_ms, raw_key, message.body, pairs))
        return records

    def from_record(self, record: Record) -> Message | None:
        """The message that an AMQP publisher sent; None if the record is another protocol's."""
        pairs = record.headers
        if len(pairs) == 2 and pairs[0][0] == PROPERTIES and pairs[1][0] == EXCHANGE:
            # What most messages of AMQP's publishers have.
            reserved, block, exchange = {}, pairs[0][1], pairs[1][1] or b""
        else:
            for name, _value in pairs:
                if name == PROPERTIES:
                    break
            else:
                return None
            reserved = {name: value for name, value in pairs if name.startswith(RESERVED)}
            block, exchange = reserved.get(PROPERTIES), reserved.get(EXCHANGE) or b""
        key = record.key or b""
        if block is None or max(len(key), len(exchange)) > _SHORT_BYTES_MAX:
            return None
        received = reserved.get(RECEIVED)
        try:
            properties = decode_properties(block)
            received_ms = record.timestamp if received is None else int(received)
        except (MalformedData, ValueError):
            # Not what an AMQP publisher's message looks like, whatever its headers are called.
            return None
        body = record.value or b""
        return message_of(
            text_of(exchange), text_of(key), block, properties, body, received_ms=received_ms
        )

    def convert(self, message: Message) -> Message:
        """A message of another protocol: names that are too long for AMQP are cut or left out."""
        (address, key, _block, headers, body, received, time_ms, ttl, priority, lasts, delay, _) = (
            message
        )
        for name in headers:
            if len(name) > _SURELY_SHORT or name.startswith(RESERVED):
                headers = _allowed(headers)
                break
        if len(address) > _SURELY_SHORT and len(raw(address)) > _SHORT_BYTES_MAX:
            address = ""
        if len(key) > _SURELY_SHORT:
            key = text_of(raw(key)[:_SHORT_BYTES_MAX])
        properties = Properties(
            headers=headers or None,
            delivery_mode=_PERSISTENT if lasts else None,
            timestamp=None if time_ms is None else max(0, time_ms) // 1000,
        )
        if ttl is not None or priority is not None:
            expiration = None if ttl is None else str(ttl)
            properties = changed(properties, priority=priority, expiration=expiration)
        block = encode_properties(properties)
        return Message(
            address,
            key,
            block,
            headers,
            body,
            received,
            time_ms,
            ttl,
            priority,
            lasts,
            delay,
            AMQP,
        )

    def chosen_by(self, message: Message) -> Table:
        return chosen_by(decode_properties(message.properties))

    def with_headers(self, message: Message, *, headers: Table, now_ms: int) -> Message:
        properties = changed(decode_properties(message.properties), headers=headers)
        return message_of(
            message.address,
            message.key,
            encode_properties(properties),
            properties,
            message.body,
            received_ms=now_ms,
        )

    def readdressed(
        self, message: Message, *, address: str, key: str, headers: Table, now_ms: int
    ) -> Message:
        properties = changed(
            decode_properties(message.properties), headers=headers, expiration=None
        )
        block = encode_properties(properties)
        return message_of(address, key, block, properties, message.body, received_ms=now_ms)


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
    timestamp, headers = properties.timestamp, properties.headers
    return Message(
        exchange,
        routing_key,
        block,
        headers or {},
        body,
        received_ms,
        None if timestamp is None else _time_ms(timestamp),
        expiration_ms(properties.expiration),
        properties.priority,
        properties.delivery_mode == _PERSISTENT,
        delay_ms_of(headers) if headers and DELAY_HEADER in headers else 0,
        AMQP,
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


def _allowed(headers: Table) -> Table:
    """Headers whose names AMQP can carry and does not use itself."""
    return {
        name: value
        for name, value in headers.items()
        if not name.startswith(RESERVED) and len(raw(name)) <= _SHORT_BYTES_MAX
    }


def _time_ms(seconds: int) -> int:
    """AMQP's times are seconds in 64 bits, and a record's are milliseconds in 63."""
    return min(seconds, (2**63 - 1) // 1000) * 1000
