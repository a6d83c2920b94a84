"""Codecs: how messages of a protocol are records, and what a message of one protocol is in another.

A record in a log is found by the protocol that wrote it: each codec but Kafka's marks its records with a
header of its own, which holds the protocol's property block. A record without such a mark is a Kafka
producer's. So a client gets a record back exactly as it was if it reads by the protocol that wrote
it, and otherwise as far as its own protocol can describe it. Reading never fails: a record whose mark does
not hold what it should is taken for a Kafka producer's.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from millpond.base.fields import Table
from millpond.message.hub import Message
from millpond.message.kafka_codec import KafkaCodec
from millpond.record.builder import NewRecord
from millpond.record.records import Record

# Headers with such names belong to a codec; ``millpond.<protocol>.`` is what they begin with.
RESERVED_PREFIX: Final = "millpond."


class MessageCodec(Protocol):
    """One protocol's messages: as records, and from messages of other protocols."""

    @property
    def protocol(self) -> str:
        """Its name, which its own messages have as their ``protocol``."""
        ...

    def to_record(self, message: Message) -> NewRecord:
        """The record that keeps a message of this protocol."""
        ...

    def to_records(self, messages: Sequence[Message]) -> list[NewRecord]:
        """The records of messages of this protocol that came together."""
        ...

    def from_record(self, record: Record) -> Message | None:
        """The message that a record of this protocol keeps; None if another protocol wrote the record."""
        ...

    def convert(self, message: Message) -> Message:
        """A message of any protocol as one of this protocol. Never fails: what cannot be said is left out."""
        ...


class QueueCodec(MessageCodec, Protocol):
    """The codec of a protocol that has queues: what a queue changes in a message when it passes it on."""

    def chosen_by(self, message: Message) -> Table:
        """Properties that exchange types may choose by, besides headers and routing key."""
        ...

    def with_headers(self, message: Message, *, headers: Table, now_ms: int) -> Message:
        """The message with other headers; its age counts from now."""
        ...

    def readdressed(
        self, message: Message, *, address: str, key: str, headers: Table, now_ms: int
    ) -> Message:
        """The message as a dead letter: with other headers, for another address, without a TTL."""
        ...


class Codecs:
    """The codecs of a node's protocols; Kafka's is always among them."""

    def __init__(self, codecs: Iterable[MessageCodec]) -> None:
        marked = tuple(codecs)
        self._marked = marked
        self._kafka = KafkaCodec(f"{RESERVED_PREFIX}{one.protocol}." for one in marked)
        self._codecs: dict[str, MessageCodec] = {self._kafka.protocol: self._kafka}
        self._codecs.update((one.protocol, one) for one in marked)

    def of(self, message: Message) -> MessageCodec:
        """The codec of the protocol that a message came by."""
        return self._codecs[message.protocol]

    def convert(self, message: Message, protocol: str) -> Message:
        """A message as a client of a protocol sees it."""
        return message if message.protocol == protocol else self._codecs[protocol].convert(message)

    def read(self, record: Record) -> Message:
        """The message that a record keeps, in the protocol that wrote it."""
        return _first(self._marked, record) or self._kafka.message_of(record)

    def reader(self, protocol: str) -> Callable[[Record], Message]:
        """Return what reads any record as a client of a protocol sees it."""
        codec = self._codecs[protocol]
        others = tuple(one for one in self._marked if one is not codec)
        from_record, convert, plain = codec.from_record, codec.convert, self._kafka.message_of

        def read(record: Record) -> Message:
            message = from_record(record)
            if message is None:
                found = _first(others, record) if others else None
                message = convert(plain(record) if found is None else found)
            return message

        return read


def _first(codecs: Sequence[MessageCodec], record: Record) -> Message | None:
    for codec in codecs:
        message = codec.from_record(record)
        if message is not None:
            return message
    return None
