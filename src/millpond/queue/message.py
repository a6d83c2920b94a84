"""A message as queues know it, whatever protocol it came by."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from millpond.base.fields import Table
from millpond.queue.known import Meta
from millpond.record.builder import NewRecord
from millpond.record.records import Record


class Message(NamedTuple):
    """``properties`` are a protocol's own block, passed on as it came; the rest is what a broker looks at.

    ``received_ms`` is when the broker took it; ages are counted from there. ``timestamp_ms`` is its
    publisher's word, if it gave one.
    """

    exchange: str
    routing_key: str
    properties: bytes
    headers: Table
    body: bytes
    received_ms: int
    timestamp_ms: int | None = None
    ttl_ms: int | None = None
    priority: int | None = None
    # Whether it is to outlive a loss of power, in a queue that does.
    is_persistent: bool = False

    @property
    def meta(self) -> Meta:
        return Meta(len(self.body), self.received_ms, self.ttl_ms)


class Envelope(Protocol):
    """How a message is a record of a log, and back; and how its headers are changed."""

    def seal(self, message: Message) -> NewRecord: ...

    def seal_all(self, messages: Sequence[Message]) -> list[NewRecord]: ...

    def open(self, record: Record) -> Message: ...

    def delay_ms(self, message: Message) -> int:
        """For how long a queue that delays keeps a message back."""
        ...

    def chosen_by(self, message: Message) -> Table:
        """Properties that exchange types may choose by, besides headers and routing key."""
        ...

    def with_headers(self, message: Message, *, headers: Table, now_ms: int) -> Message:
        """As it was, with other headers; its age counts from now."""
        ...

    def readdressed(
        self, message: Message, *, exchange: str, routing_key: str, headers: Table, now_ms: int
    ) -> Message:
        """As a dead letter: with other headers, for another exchange, without an age of its own."""
        ...
