"""The shape that the receiving half of every wire has: bytes in, events out, no socket, no clock, no task.

Feed bytes with ``receive_data``, in any pieces; then take events with ``next_event`` until it returns
``NEED_DATA``. The events do not depend on how the bytes were cut. Bytes that break the protocol give one kind
of error: ``next_event`` raises ``RemoteProtocolError``, or, where the protocol has an answer to them (AMQP's
close), returns an event that says so. After that there are no events but the end. What a peer can make a
connection keep is bounded by limits that its owner gives.

``tests/unit/wire/test_conformance.py`` holds every wire to this; a new protocol adds one entry there.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol, TypeVar

EventT_co = TypeVar("EventT_co", covariant=True)


class NeedData(Enum):
    """The result of ``next_event`` when the bytes so far hold no further event."""

    NEED_DATA = "need data"


NEED_DATA: Final = NeedData.NEED_DATA


class Receiving(Protocol[EventT_co]):
    """The receiving half of a connection."""

    __slots__ = ()

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer, in any pieces; no bytes change nothing."""
        ...

    def next_event(self) -> EventT_co | NeedData:
        """Return the next event in the order of the bytes, or ``NEED_DATA``."""
        ...


def events_of(connection: Receiving[EventT_co]) -> Iterator[EventT_co]:
    """Yield the events that are complete."""
    while not isinstance(event := connection.next_event(), NeedData):
        yield event


def received(connection: Receiving[EventT_co], data: bytes) -> list[EventT_co]:
    """Give bytes to a connection. Return the events that are complete then."""
    connection.receive_data(data)
    return list(events_of(connection))
