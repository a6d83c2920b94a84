"""What the coordinator reads of a consumer's own metadata: the topics it subscribes to.

The metadata belongs to the clients ("consumer" protocol type); its later versions only add fields at
the end, so the oldest layout is a prefix of all of them.
"""

from millpond.base.errors import MalformedData

PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topic names in a subscription. MalformedData if it is not one."""
    position = 2  # the subscription's version
    count, position = _integer(metadata, position, 4)
    topics: set[str] = set()
    for _ in range(count):
        size, position = _integer(metadata, position, 2)
        if size < 0 or position + size > len(metadata):
            raise MalformedData("a subscription ends inside a topic name")
        try:
            topics.add(metadata[position : position + size].decode())
        except UnicodeDecodeError:
            raise MalformedData("a subscription names a topic that is not UTF-8") from None
        position += size
    return frozenset(topics)


def _integer(data: bytes, position: int, size: int) -> tuple[int, int]:
    end = position + size
    if end > len(data):
        raise MalformedData("a subscription ends early")
    return int.from_bytes(data[position:end], "big", signed=True), end
