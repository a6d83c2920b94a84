"""The messages of a queue in its logs, and those of them that are kept in memory.

Messages that were just published are kept until they are delivered, and messages that a decision looked at
are kept opened, both as far as there is room: the log has all of them.
"""

from collections.abc import Callable, Sequence

from millpond.base.errors import MessageLost
from millpond.engine.partitions.publish import Appended
from millpond.engine.queues.hosted.queue_log import QueueLog
from millpond.engine.queues.hosted.recent_messages import RecentMessages
from millpond.message.codecs import MessageCodec
from millpond.message.hub import Message
from millpond.queue.log_facts import LogFacts
from millpond.record.builder import build_batch
from millpond.record.records import Record

# Messages that were looked at are kept opened, as many as this and as large together.
_OPENED_MAX = 1_024
_OPENED_BYTES_MAX = 1024 * 1024


class MessageStore:
    """One queue's messages."""

    def __init__(
        self,
        lanes: Sequence[QueueLog],
        codec: MessageCodec,
        read: Callable[[Record], Message],
        on_lost: Callable[[], None],
    ) -> None:
        """``read`` opens any record; ``on_lost`` is called when a message turns out to be lost."""
        self.lanes = lanes
        self._codec = codec
        self._read = read
        self._on_lost = on_lost
        self._recent = RecentMessages(len(lanes))
        # Those that were looked at, until they are delivered.
        self._opened: dict[tuple[int, int], Message] = {}
        self._opened_bytes = 0  # of all that were added since it was empty
        # Whether the log may have messages with a TTL of their own.
        self.has_ttl = False
        # Whether facts are being written: that wakes no queue.
        self.is_writing = False

    # --- messages in ---------------------------------------------------------------------------------

    def append(
        self, lane: int, messages: Sequence[Message], *, synced: bool, kept: bool
    ) -> Appended:
        """Write messages; they are in the queue when ``durable`` is done. Raises what the log does.

        ``kept``: they are kept in memory until they are delivered.
        """
        target = self.lanes[lane]
        has_ttl = any(message.ttl_ms is not None for message in messages)
        if has_ttl and not self.has_ttl:
            target.write(LogFacts((), has_ttl=True))
            self.has_ttl = True
        batch = build_batch(self._codec.to_records(messages))
        sizes = [len(message.body) for message in messages]
        appended = target.append(batch, sizes, has_ttl=has_ttl, synced=synced)
        if kept:
            self._recent.add(lane, appended.info.first_offset, messages)
        return appended

    def append_plain(self, lane: int, messages: Sequence[Message], *, synced: bool) -> Appended:
        """Write messages of a stream, which has no sizes, ages or deliveries to remember."""
        batch = build_batch(self._codec.to_records(messages))
        return self.lanes[lane].append(batch, (), has_ttl=False, synced=synced)

    def coming(self) -> list[int]:
        """Sizes of messages that were appended and are not in the queue yet."""
        return [size for lane in self.lanes for size in lane.coming]

    @property
    def is_taken_in(self) -> bool:
        """Whether every message that was appended here is in the queue."""
        return all(lane.is_taken_in for lane in self.lanes)

    # --- messages out --------------------------------------------------------------------------------

    def message(self, lane: int, offset: int) -> Message:
        """A message that is delivered now; it is not kept any longer."""
        recent = self._recent.take(lane, offset)
        opened = self._opened.pop((lane, offset), None)
        return recent or opened or self.look(lane, offset)

    def look(self, lane: int, offset: int) -> Message:
        """A message in the log. Raises ``MessageLost``, ``StorageFailure``."""
        recent = self._recent.look(lane, offset) or self._opened.get((lane, offset))
        return recent or self._read(self.record(lane, offset))

    def looked_at(self, lane: int, offset: int) -> Message:
        """As ``look``; the message stays opened, since it is likely to be delivered soon."""
        message = self.look(lane, offset)
        if len(self._opened) >= _OPENED_MAX or self._opened_bytes >= _OPENED_BYTES_MAX:
            self._opened.clear()
            self._opened_bytes = 0
        if (lane, offset) not in self._opened:
            self._opened[lane, offset] = message
            self._opened_bytes += len(message.body)
        return message

    def size(self, lane: int, offset: int) -> int:
        """How large a message is, without opening it; 0 if it is lost. Raises ``StorageFailure``."""
        known = self._recent.look(lane, offset) or self._opened.get((lane, offset))
        if known is not None:
            return len(known.body)
        try:
            return len(self.record(lane, offset).value or b"")
        except MessageLost:
            return 0

    def record(self, lane: int, offset: int) -> Record:
        """A record of the log. Raises ``MessageLost``, ``StorageFailure``."""
        try:
            return self.lanes[lane].reader.record(offset)
        except MessageLost:
            self._on_lost()
            raise

    def due_ms(self, lane: int, first: int, next_: int) -> list[int]:
        """When messages of a queue that delays are ready; a lost one at once. Raises ``StorageFailure``."""
        due: list[int] = []
        for offset in range(first, next_):
            try:
                message = self.look(lane, offset)
            except MessageLost:
                due.append(0)
            else:
                due.append(message.received_ms + message.delay_ms)
        return due

    # --- memory --------------------------------------------------------------------------------------

    @property
    def recent_bytes(self) -> int:
        """How much of what was just published is kept in memory."""
        return self._recent.size

    @property
    def kept_bytes(self) -> int:
        """How much is kept in memory, of what was just published and of what was looked at."""
        return self._recent.size + sum(len(message.body) for message in self._opened.values())

    def forget(self) -> None:
        """Memory runs low: messages are read from the log again when they are wanted."""
        self.clear()
        for lane in self.lanes:
            lane.reader.forget_window()

    def clear(self) -> None:
        """Keep no message in memory."""
        self._recent.clear()
        self._opened.clear()
        self._opened_bytes = 0

    # --- facts ---------------------------------------------------------------------------------------

    def write_facts(self) -> None:
        """Write what was decided to the logs."""
        self.is_writing = True
        try:
            for lane in self.lanes:
                lane.write_facts()
        finally:
            self.is_writing = False
