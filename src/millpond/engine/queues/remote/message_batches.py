"""Messages on their way between nodes: a batch of records, as a log keeps them."""

from collections.abc import Callable, Sequence

from millpond.message.codecs import MessageCodec
from millpond.message.hub import Message
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import Record, decode_batch


class MessageBatches:
    """Packs messages of one protocol. ``read`` opens any record as that protocol's clients see it."""

    def __init__(self, codec: MessageCodec, read: Callable[[Record], Message]) -> None:
        self._codec = codec
        self._read = read

    def pack(self, messages: Sequence[Message]) -> bytes:
        """Messages as they are kept."""
        return bytes(build_batch(self._codec.to_records(messages)))

    def unpack(self, batch: bytes) -> list[Message]:
        """Messages that another node has packed."""
        return [
            self._read(record)
            for position, _header in iter_batches(batch)
            for record in decode_batch(batch, position)
        ]
