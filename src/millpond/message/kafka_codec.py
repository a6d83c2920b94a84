"""Kafka's records as messages. A record is the form in which everything is stored, so little is converted."""

from collections.abc import Iterable, Sequence
from typing import Final

from millpond.base.fields import Table
from millpond.message.hub import KAFKA, Message
from millpond.message.text import header_bytes, header_value, raw, text_of
from millpond.record.builder import NewRecord
from millpond.record.records import Record


class KafkaCodec:
    """``reserved`` are the prefixes of headers that are other codecs' own."""

    protocol: Final = KAFKA

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._reserved = tuple(reserved)

    def to_record(self, message: Message) -> NewRecord:
        time_ms = message.received_ms if message.timestamp_ms is None else message.timestamp_ms
        headers = [(name, header_bytes(value)) for name, value in message.headers.items()]
        return time_ms, raw(message.key), message.body, headers

    def to_records(self, messages: Sequence[Message]) -> list[NewRecord]:
        return [self.to_record(message) for message in messages]

    def from_record(self, record: Record) -> Message | None:
        """None if the record has a header that another codec writes."""
        if any(name.startswith(self._reserved) for name, _value in record.headers):
            return None
        return self.message_of(record)

    def message_of(self, record: Record) -> Message:
        """Any record, without the headers of other codecs. Of headers with one name the last counts."""
        reserved = self._reserved
        headers: Table = {}
        for name, value in record.headers:
            if not name.startswith(reserved):
                headers[name] = None if value is None else header_value(value)
        time_ms, key = record.timestamp, record.key
        return Message(
            "",
            "" if key is None else text_of(key),
            b"",
            headers,
            record.value or b"",
            time_ms,
            time_ms,
            None,
            None,
            True,
        )

    def convert(self, message: Message) -> Message:
        """What Kafka can say of a message is what a record has: key, headers, body and time."""
        time_ms = message.received_ms if message.timestamp_ms is None else message.timestamp_ms
        headers: Table = {
            name: None if (shown := header_bytes(value)) is None else header_value(shown)
            for name, value in message.headers.items()
        }
        return Message(
            "", message.key, b"", headers, message.body, time_ms, time_ms, is_persistent=True
        )
