"""What waits to be sent to one client: deliveries as ranges of a queue, and bytes of the wire.

Deliveries are not bytes until the socket takes them: only then are their bodies read and their tags given.
A client that does not read holds up its own deliveries, and beyond a bound the broker stops reading from it.
A message that cannot be read now holds up the deliveries of its consumer, in order, until it can be.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from millpond.base import errors
from millpond.engine.api.queues import NEVER_READ, QueueHandle, Retries
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.delivering import Written, deliveries
from millpond.queue.steps import Handout
from millpond.wire.amqp.server import ServerConnection

# Deliveries that are written at once, before other connections get their turn.
_DELIVERIES_A_TURN = 1_000
_DELIVERY_BYTES_A_TURN = 512 * 1024
# How long RabbitMQ delays the end of an unauthenticated or malformed connection.
_LINGER_S = 3.0
# How long a client may take to end the connection that it has closed. RabbitMQ waits as long.
_LEAVING_S = 30.0
# Bytes of answers that a client may leave unread before the broker stops reading from it.
_UNREAD_BYTES_MAX = 4 * 1024 * 1024


class Writer(Protocol):
    """Where a session's bytes go."""

    def writelines(self, buffers: Sequence[bytes]) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def finish(self, seconds: float) -> None:
        """Send what is left, and nothing afterwards. Go on reading until the client ends the connection, or
        for so long: a socket that is closed with bytes unread takes what was sent with it."""
        ...

    def close(self) -> None: ...


class _Posted(NamedTuple):
    """Deliveries that are not written to the socket yet."""

    channel: Channel
    queue: QueueHandle
    handout: Handout


class Outbox:
    """The outbox of a session. ``on_sent`` is called for each write, ``on_error`` with a failed delivery."""

    def __init__(
        self,
        wire: ServerConnection,
        writer: Writer,
        *,
        on_sent: Callable[[], None],
        on_error: Callable[[errors.MillpondError], None],
    ) -> None:
        self._wire = wire
        self._writer = writer
        self._on_sent = on_sent
        self._on_error = on_error
        self._posted: deque[_Posted] = deque()
        self._unreadable: Retries[str] = Retries(self._read_again)
        # Consumers whose next message cannot be read now, by owner.
        self.held_up = self._unreadable.waiting
        self._is_scheduled = False
        self._is_closed = False
        self._is_leaving = False
        self._linger_s = 0.0
        self._leaving_s = _LINGER_S
        self.sent_bytes = 0
        self._unread_bytes = 0  # written since the socket takes no more
        self.is_paused = False  # the socket takes no more

    @property
    def is_stalled(self) -> bool:
        """Whether the client does not read."""
        return self.is_paused or self._is_closed

    @property
    def is_overfull(self) -> bool:
        """Whether the client leaves more unread than it may."""
        return self._unread_bytes > _UNREAD_BYTES_MAX

    def resume(self) -> None:
        """Go on writing: the socket takes more."""
        self.is_paused = False
        self._unread_bytes = 0
        self.schedule()

    def clear(self) -> None:
        """Drop all deliveries."""
        self._posted.clear()

    def close(self) -> None:
        """Drop everything: the socket is closed."""
        self._is_closed = True
        self._posted.clear()
        self._unreadable.close()

    def linger(self) -> None:
        """Delay closing an unauthenticated connection, so that the client does not reconnect at once."""
        self._linger_s = _LINGER_S

    def expect_end(self) -> None:
        """Give the client time to end the connection that it has closed."""
        self._leaving_s = _LEAVING_S

    def end_at_once(self) -> None:
        """End the connection: the client knows that it is closed."""
        self._leaving_s = 0.0

    # --- deliveries ----------------------------------------------------------------------------------

    def post(self, channel: Channel, queue: QueueHandle, handout: Handout) -> None:
        """Queue deliveries for the socket."""
        self._posted.append(_Posted(channel, queue, handout))
        self.schedule()

    def count_held_up(self, channel: Channel, *, no_ack: bool) -> int:
        """Return how many messages of a channel wait behind one that cannot be read now."""
        return sum(
            handout.next - handout.first
            for of, _queue, handout in self._posted
            if of is channel
            and handout.consumer.no_ack == no_ack
            and handout.consumer.owner in self.held_up
        )

    def _read_again(self, owner: str) -> None:
        if any(posted.handout.consumer.owner == owner for posted in self._posted):
            self.schedule()
        else:
            self._unreadable.forget(owner)

    def unread(self, channel: Channel, queue: QueueHandle, lane: int) -> int:
        """Return the first offset of a queue's deliveries that wait for the socket."""
        return min(
            (
                posted.handout.first
                for posted in self._posted
                if posted.channel is channel
                and posted.queue is queue
                and posted.handout.lane == lane
            ),
            default=NEVER_READ,
        )

    def drop_channel(self, channel: Channel) -> None:
        self._posted = deque(one for one in self._posted if one.channel is not channel)

    def forget(self, channel: Channel, queue: QueueHandle, owner: str) -> None:
        """Drop the unsent deliveries of a consumer whose queue has moved: they will come again."""
        kept: deque[_Posted] = deque()
        for posted in self._posted:
            is_meant = posted.channel is channel and posted.handout.consumer.owner == owner
            if is_meant and posted.queue is queue:
                channel.dropped(posted.handout)
            else:
                kept.append(posted)
        self._posted = kept
        self._unreadable.forget(owner)

    def take_back(self, channel: Channel, owner: str) -> None:
        """Requeue the unsent deliveries of a consumer that stops.

        What it need not acknowledge is over already, so that is sent, whether the socket takes it or not. If
        it cannot be read now it is sent when it can be.
        """
        kept: deque[_Posted] = deque()
        for posted in self._posted:
            handout = posted.handout
            if posted.channel is not channel or handout.consumer.owner != owner:
                kept.append(posted)
            elif handout.consumer.no_ack:
                kept += self._write_all(posted)
            else:
                channel.dropped(handout)
                posted.queue.requeue(handout.lane, [(handout.first, handout.next)], owner)
        self._posted = kept

    def _write_all(self, posted: _Posted) -> list[_Posted]:
        """Write a whole handout, however large. Return the part that cannot be read now."""
        handout = posted.handout
        if handout.consumer.owner in self.held_up:
            return [posted]
        everything = deliveries(
            *(posted.channel, posted.queue, handout, self._wire.frame_max),
            count_max=handout.next - handout.first,
            bytes_max=NEVER_READ,
        )
        self._wire.send_raw(b"".join(everything.data))
        self._note(posted, everything)
        return _rest(posted, everything)

    # --- the socket ----------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Write in the next turn of the loop."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_out)

    def write_now(self) -> None:
        """Write in this turn of the loop."""
        if self._posted and not self._is_closed:
            self._write_posted()

    def flush(self) -> None:
        """Write the bytes of the wire."""
        if self._is_closed:
            return
        data = self._wire.data_to_send()
        if data:
            self._on_sent()
            size = sum(map(len, data))
            self.sent_bytes += size
            if self.is_paused:
                self._unread_bytes += size
            self._writer.writelines(data)
        if self._wire.is_over and not self._is_leaving:
            self._is_leaving = True
            if self._linger_s:
                asyncio.get_running_loop().call_later(self._linger_s, self._writer.close)
            elif self._leaving_s:
                self._writer.finish(self._leaving_s)
            else:
                self._writer.close()

    def _write_out(self) -> None:
        self._is_scheduled = False
        self._write_posted()

    def _write_posted(self) -> None:
        try:
            self._write_deliveries()
        except errors.MillpondError as error:
            self._on_error(error)
        self.flush()

    def _write_deliveries(self) -> None:
        count = size = 0
        held_up: list[_Posted] = []
        try:
            while self._posted and not self.is_stalled:
                posted = self._posted.popleft()
                channel, queue, handout = posted
                if channel.is_closed or queue.is_gone:
                    # Other consumers of the channel get the credit of these.
                    channel.left(handout, handout.next - handout.first)
                    continue
                if self.held_up and handout.consumer.owner in self.held_up:
                    held_up.append(posted)
                    continue
                if count >= _DELIVERIES_A_TURN or size >= _DELIVERY_BYTES_A_TURN:
                    self._posted.appendleft(posted)
                    self.schedule()
                    return
                written = deliveries(
                    *(channel, queue, handout, self._wire.frame_max),
                    count_max=_DELIVERIES_A_TURN - count,
                    bytes_max=_DELIVERY_BYTES_A_TURN - size,
                )
                for data in written.data:
                    self._wire.send_raw(data)
                count, size = count + written.messages, size + written.size
                if written.failure is not None or self._unreadable.is_needed:
                    self._note(posted, written)
                if handout.first + written.messages < handout.next:
                    self._posted.extendleft(_rest(posted, written))
        finally:
            self._posted.extendleft(reversed(held_up))

    def _note(self, posted: _Posted, written: Written) -> None:
        """Whether the messages of a consumer can be read."""
        owner = posted.handout.consumer.owner
        if written.failure is not None:
            name = f"channel {posted.channel.name}, {posted.queue.queue.resource}"
            self._unreadable.failed(owner, name, written.failure)
        else:
            self._unreadable.worked(owner)
            # Its messages can be read again.
            posted.queue.wake()


def _rest(posted: _Posted, written: Written) -> list[_Posted]:
    """Return the part of a handout that is not written."""
    handout = posted.handout
    first = handout.first + written.messages
    return [posted._replace(handout=handout._replace(first=first))] if first < handout.next else []
