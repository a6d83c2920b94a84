"""A message as the broker knows it, whichever protocol it came by.

Every protocol's codec turns its own messages into this and this into its own, so that n protocols need 2n
conversions and not n². What the broker looks at is a field; everything else stays in the property block of
the protocol that the message came by, byte for byte.
"""

from typing import Final, NamedTuple

from millpond.base.fields import Table

# The protocol of records that no other protocol wrote.
KAFKA: Final = "kafka"


class Origin(NamedTuple):
    """The protocol that a message came by, and its properties as that protocol encoded them."""

    protocol: str
    properties: bytes


class Message(NamedTuple):
    """One message. ``protocol`` and ``properties`` are its origin; the rest is what a broker looks at.

    ``address`` is where it was published to: AMQP's exchange, a topic. ``key`` is AMQP's routing key, or a
    record's key. ``received_ms`` is when the broker took it; ages are counted from there. ``timestamp_ms`` is
    its publisher's time, if it gave one.
    """

    address: str
    key: str
    properties: bytes
    headers: Table
    body: bytes
    received_ms: int
    timestamp_ms: int | None = None
    ttl_ms: int | None = None
    priority: int | None = None
    # Whether it is to outlive a loss of power, in a queue that does.
    is_persistent: bool = False
    # For how long it is kept back, where its address is one that delays.
    delay_ms: int = 0
    protocol: str = KAFKA

    @property
    def origin(self) -> Origin:
        return Origin(self.protocol, self.properties)
