"""Decodes bytes to methods and contents, for either role.

A size is checked against its limit before any byte of the announced data is kept. Methods of other channels
may come between the frames of a content, so each channel assembles its own.

Publishes determine the design of this module. A publisher sends to few destinations, so the bytes of its
method frame repeat: they are looked up instead of decoded. Where method, header and one body frame are
complete in one read, they become a ``Publish`` in one step; everything else goes frame by frame. A large body
comes in several reads: its pieces are kept as they came and copied once, when the last one has arrived.
"""

from collections import deque
from collections.abc import Sequence
from struct import Struct

from millpond.base import limits
from millpond.base.errors import MalformedData
from millpond.wire.amqp.content import (
    BODY_FRAME,
    CONTENT_START,
    FRAME_END,
    FRAME_OVERHEAD,
    FRAME_START,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
)
from millpond.wire.amqp.events import Acks, Content, ContentReceived, Event, Publish, Publishes
from millpond.wire.amqp.fields import MalformedText
from millpond.wire.amqp.gathering import (
    BodyFrame,
    Gathering,
    Piece,
    fault_of,
    not_begun,
    unexpected,
)
from millpond.wire.amqp.methods import METHODS, BasicPublish, Method
from millpond.wire.amqp.violations import ReplyCode, Violation, erlang_bytes, erlang_numbers
from millpond.wire.shape import NEED_DATA, NeedData, Receiving

_START_BYTES = FRAME_START.size
_PUBLISH = b"\x00\x3c\x00\x28"
_ACK = b"\x00\x3c\x00\x50"
_ACK_BODY = Struct(">IQB")
_ACK_BYTES = _ACK_BODY.size
_HEADER_FIXED_BYTES = CONTENT_START.size - _START_BYTES
# How many bytes of an invalid frame are quoted in the error to its sender.
_SHOWN_BYTES = 16
# RabbitMQ tolerates a frame whose size does not count its own start and end.
_FORGIVEN_BYTES = FRAME_OVERHEAD


class Frames(Receiving[Event]):
    """The receiving half of a connection. A subclass for each role interprets the methods."""

    def __init__(self, *, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._rest = bytearray()
        self._wanted = _START_BYTES
        self._payload_max = 0
        self.limit_frames(limits.AMQP_FRAME_BYTES_MIN)
        self._gathering: dict[int, Gathering] = {}
        self._body_frame: BodyFrame | None = None
        self._is_lost = False  # where the next frame begins is not known
        self._begun_bytes = 0
        # The bytes of method frames that are publishes on open channels, and the decoded methods.
        self._routes: dict[bytes, BasicPublish] = {}
        self._events: deque[Event] = deque()

    def limit_frames(self, frame_max: int) -> None:
        """Set the largest frame that may be received from now on; 0 means no limit."""
        unbounded = 2**32 - 1
        largest = frame_max - FRAME_OVERHEAD + _FORGIVEN_BYTES if frame_max else unbounded
        self._payload_max = largest

    def next_event(self) -> Event | NeedData:
        """Return the next event, or ``NEED_DATA``. Never raises: a violation is an event."""
        return self._events.popleft() if self._events else NEED_DATA

    @property
    def is_gathering(self) -> bool:
        """Whether a message has begun and is incomplete."""
        return bool(self._gathering)

    @property
    def missing_bytes(self) -> int:
        """The number of bytes that incomplete messages still lack."""
        return sum(begun.missing for begun in self._gathering.values())

    @property
    def unread_bytes(self) -> int:
        """The number of received bytes that are not decoded yet."""
        partial = self._body_frame
        came = partial.size - partial.missing if partial is not None else 0
        return len(self._rest) + came + self._begun_bytes

    # --- for subclasses -----------------------------------------------------------------------------

    def _admit(self, kind: int, channel: int, payload: bytes) -> bool:
        """Return whether to process a frame of a channel; False: drop it. Raises ``Violation``."""
        raise NotImplementedError

    def _on_method(self, channel: int, method: Method) -> None:
        """Handle a method without content."""
        raise NotImplementedError

    def _check_begin(self, channel: int, method: Method) -> None:
        """Check a method whose content follows. Raises ``Violation``."""

    def _may_publish(self, channel: int) -> bool:
        """Return whether a publish may come on a channel; a client receives none and does not override
        this.
        """
        return False

    def _on_violation(self, error: Violation, *, is_fatal: bool = False) -> None:
        """Handle a protocol violation; ``is_fatal``: the start of the next frame is not known."""
        raise NotImplementedError

    # --- splitting ------------------------------------------------------------------------------------

    def _cut(self, data: bytes) -> None:
        """Decode all complete frames into events."""
        rest = self._rest
        position, end = 0, len(data)
        while position < end and not self._is_lost:
            if self._body_frame is not None:
                position = self._go_on_with_body(self._body_frame, data, position)
            elif rest:
                # Append only the missing bytes of the incomplete frame: the others need not be copied for it.
                wanted = min(end, position + self._wanted - len(rest))
                rest += memoryview(data)[position:wanted]
                position = wanted
                if len(rest) >= self._wanted:
                    frame = bytes(rest)
                    rest.clear()
                    rest += frame[self._cut_all(frame, 0) :]
            else:
                position = self._cut_all(data, position)
                if self._body_frame is None:
                    rest += memoryview(data)[position:]
                    return

    def _cut_all(self, data: bytes, position: int) -> int:
        """Decode complete frames. Return the position after the last one."""
        end = len(data)
        routes, gathering, events = self._routes, self._gathering, self._events
        largest = self._payload_max
        batch: list[Publish] = []
        batch_channel = -1
        if events and isinstance(last := events[-1], Publishes):
            batch, batch_channel = last.messages, last.channel
        while end - position >= _START_BYTES:
            kind, channel, size = FRAME_START.unpack_from(data, position)
            if size > largest:
                return self._lose_track(self._too_large(kind, size), data)
            stop = position + size + FRAME_OVERHEAD
            if stop > end:
                if kind == BODY_FRAME and self._begin_body_frame(channel, size):
                    return position + _START_BYTES
                self._wanted = stop - position
                return position
            if kind == METHOD_FRAME and not gathering:
                route = routes.get(data[position:stop]) or self._route(data[position:stop], channel)
                if route is not None and end - stop >= CONTENT_START.size:
                    # Everything unusual is found again, and named, one frame at a time.
                    next_kind, owner, size, class_id, weight, body_bytes = (
                        CONTENT_START.unpack_from(data, stop)
                    )
                    body = stop + size + FRAME_OVERHEAD + _START_BYTES
                    after = body + body_bytes + 1
                    if (
                        next_kind == HEADER_FRAME
                        and owner == channel
                        and class_id == 60
                        and weight == 0
                        and 14 <= size <= largest
                        and 0 < body_bytes <= largest
                        and after <= end
                        and data[body - 8] == FRAME_END
                        and data[after - 1] == FRAME_END
                        and FRAME_START.unpack_from(data, body - 7)
                        == (BODY_FRAME, channel, body_bytes)
                        and body_bytes <= self._body_bytes_max
                    ):
                        if channel != batch_channel:
                            batch = []
                            batch_channel = channel
                            events.append(Publishes(channel, batch))
                        properties = data[stop + CONTENT_START.size : body - 8]
                        batch.append(Publish(route, properties, data[body : after - 1]))
                        position = after
                        continue
                if route is not None:
                    gathering[channel] = Gathering(route)
                    position = stop
                    continue
                if size == _ACK_BYTES and self._is_ack(data[position:stop], channel):
                    position = stop
                    batch_channel = -1
                    continue
            if data[stop - 1] != FRAME_END:
                error = self._bad_end(kind, data[position + _START_BYTES : stop])
                return self._lose_track(error, data)
            try:
                self._on_frame(kind, channel, data[position + _START_BYTES : stop - 1])
            except Violation as error:
                self._on_violation(error)
            if events and isinstance(last := events[-1], Publishes):
                batch, batch_channel = last.messages, last.channel
            else:
                batch_channel = -1
            largest = self._payload_max
            position = stop
        self._wanted = _START_BYTES
        return position

    def _route(self, frame: bytes, channel: int) -> BasicPublish | None:
        """Decode a publish that is not cached. Return None if it is no publish, or not an ordinary one."""
        if frame[7:11] != _PUBLISH or frame[-1] != FRAME_END or not self._may_publish(channel):
            return None
        # After the method's numbers and the ticket: exchange, routing key, bits.
        key = 14 + frame[13]
        if key + 3 > len(frame):
            return None
        bits = key + 1 + frame[key]
        if bits + 2 != len(frame) or frame[bits] > 1:
            return None
        method = BasicPublish.__new__(BasicPublish)
        method.ticket = frame[11] << 8 | frame[12]
        method.exchange = frame[14:key].decode("utf-8", "surrogateescape")
        method.routing_key = frame[key + 1 : bits].decode("utf-8", "surrogateescape")
        method.mandatory = frame[bits] == 1
        if len(self._routes) >= limits.AMQP_ROUTES_CACHED:
            self._routes.clear()
        self._routes[frame] = method
        return method

    def _is_ack(self, frame: bytes, channel: int) -> bool:
        """Handle an ordinary acknowledgement. Return False if the frame is none."""
        if frame[7:11] != _ACK or frame[-1] != FRAME_END or not self._may_publish(channel):
            return False
        _kind, tag, bits = _ACK_BODY.unpack_from(frame, _START_BYTES)
        ack = tag, bits & 1 == 1
        last = self._events[-1] if self._events else None
        if isinstance(last, Acks) and last.channel == channel:
            last.acks.append(ack)
        else:
            self._events.append(Acks(channel, [ack]))
        return True

    def _lose_track(self, error: Violation, data: bytes) -> int:
        """Stop decoding: nothing after an invalid frame can be read."""
        self._is_lost = True
        self._on_violation(error, is_fatal=True)
        return len(data)

    def _begin_body_frame(self, channel: int, size: int) -> bool:
        """Take a body's frame piece by piece. Return False if it is invalid; the complete frame is then
        refused.
        """
        begun = self._gathering.get(channel)
        if begun is None or begun.properties is None or not 0 < size <= begun.missing:
            return False
        self._body_frame = BodyFrame(channel, begun, size)
        return True

    def _go_on_with_body(self, frame: BodyFrame, data: bytes, position: int) -> int:
        """Take the bytes that belong to a body's frame. Return the position after them."""
        stop = frame.take(data, position)
        if frame.missing or stop == len(data):
            return stop
        self._body_frame = None
        if data[stop] != FRAME_END:
            whole = b"".join(frame.pieces) + data[stop : stop + 1]
            return self._lose_track(self._bad_end(BODY_FRAME, whole), data)
        # The owner may have closed the channel meanwhile.
        if self._gathering.get(frame.channel) is frame.begun:
            try:
                self._add_to_body(frame.channel, frame.begun, frame.pieces, frame.size)
            except Violation as error:
                self._on_violation(error)
        return stop + 1

    def _on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if channel == 0:
            self._on_connection_frame(kind, payload)
            return
        if not self._admit(kind, channel, payload):
            return
        if kind == METHOD_FRAME:
            self._on_method_frame(channel, payload)
        elif kind == HEADER_FRAME and len(payload) >= _HEADER_FIXED_BYTES:
            self._on_header_frame(channel, payload)
        elif kind == BODY_FRAME:
            self._on_body_frame(channel, payload)
        elif kind == HEARTBEAT_FRAME and not payload:
            raise unexpected_frame(kind, channel, payload)
        else:
            raise unknown_frame(kind, channel, payload)

    def _on_connection_frame(self, kind: int, payload: bytes) -> None:
        if kind == METHOD_FRAME:
            self._on_method(0, self._read_method(0, payload))
        elif kind in {HEADER_FRAME, BODY_FRAME}:
            raise unexpected_frame(kind, 0, payload)
        elif kind != HEARTBEAT_FRAME or payload:
            raise unknown_frame(kind, 0, payload)

    # --- contents ------------------------------------------------------------------------------------

    def _on_method_frame(self, channel: int, payload: bytes) -> None:
        begun = self._gathering.get(channel)
        if begun is not None:
            raise unexpected(begun, channel)
        method = self._read_method(channel, payload)
        if not method.has_content:
            self._on_method(channel, method)
            return
        self._check_begin(channel, method)
        self._gathering[channel] = Gathering(method)

    def _on_header_frame(self, channel: int, payload: bytes) -> None:
        begun = self._gathering.get(channel)
        if begun is None:
            raise not_begun(channel)
        if begun.properties is not None:
            raise unexpected(begun, channel)
        class_id = int.from_bytes(payload[:2], "big")
        weight = int.from_bytes(payload[2:4], "big")
        size = int.from_bytes(payload[4:12], "big")
        if weight:
            raise unexpected(begun, channel)
        if class_id != begun.method.class_id:
            raise fault_of(
                begun,
                channel,
                ReplyCode.UNEXPECTED_FRAME,
                f"expected content header for class {begun.method.class_id}, "
                f"got one for class {class_id} instead",
            )
        if size > self._body_bytes_max:
            self._forget_content(channel)
            raise fault_of(
                begun,
                channel,
                ReplyCode.PRECONDITION_FAILED,
                f"message size {size} is larger than configured max size {self._body_bytes_max}",
            )
        begun.properties = payload[_HEADER_FIXED_BYTES:]
        begun.missing = size
        if not size:
            self._finish(channel, begun)

    def _on_body_frame(self, channel: int, payload: bytes) -> None:
        begun = self._gathering.get(channel)
        if begun is None:
            raise not_begun(channel)
        if begun.properties is None:
            raise unexpected(begun, channel)
        if len(payload) > begun.missing:
            raise fault_of(
                begun,
                channel,
                ReplyCode.FRAME_ERROR,
                "content body frame exceeds remaining content size",
            )
        self._add_to_body(channel, begun, [payload] if payload else [], len(payload))

    def _add_to_body(
        self, channel: int, begun: Gathering, pieces: Sequence[Piece], size: int
    ) -> None:
        begun.body += pieces
        begun.body_bytes += size
        self._begun_bytes += size
        begun.missing -= size
        if not begun.missing:
            self._finish(channel, begun)
        elif self._begun_bytes > max(limits.AMQP_BEGUN_BYTES_MAX, self._body_bytes_max):
            raise Violation(
                ReplyCode.RESOURCE_ERROR,
                f"messages of {self._begun_bytes} bytes were begun on this connection and not finished; "
                f"{limits.AMQP_BEGUN_BYTES_MAX} are allowed",
            )

    def _finish(self, channel: int, begun: Gathering) -> None:
        self._forget_content(channel)
        assert begun.properties is not None
        body = begun.joined()
        if not isinstance(begun.method, BasicPublish):
            content = Content(begun.method, begun.properties, body)
            self._events.append(ContentReceived(channel, content))
            return
        message = Publish(begun.method, begun.properties, body)
        if self._events:
            last = self._events[-1]
            if isinstance(last, Publishes) and last.channel == channel:
                last.messages.append(message)
                return
        self._events.append(Publishes(channel, [message]))

    def _forget_channel(self, channel: int) -> None:
        """Drop the state of a channel."""
        self._forget_content(channel)
        self._routes.clear()

    def _forget_content(self, channel: int) -> None:
        begun = self._gathering.pop(channel, None)
        if begun is not None:
            self._begun_bytes -= begun.body_bytes

    def _forget_all(self) -> None:
        self._gathering.clear()
        self._begun_bytes = 0
        self._routes.clear()

    # --- methods -------------------------------------------------------------------------------------

    def _read_method(self, channel: int, payload: bytes) -> Method:
        if len(payload) < 4:
            raise unknown_frame(METHOD_FRAME, channel, payload)
        number = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        kind = METHODS.get(number)
        if kind is None:
            # RabbitMQ's connection process ends here without an error to the client; an error is better.
            raise Violation(
                ReplyCode.COMMAND_INVALID,
                f"unknown method {number[0]}.{number[1]}",
                channel=channel,
                class_id=number[0],
                method_id=number[1],
            )
        try:
            return kind.decode(payload, 4)
        except MalformedText as error:
            text = str(error)
        except (MalformedData, IndexError):
            text = f"cannot decode {erlang_numbers(payload[4:])}"
        raise Violation(
            ReplyCode.FRAME_ERROR, text, channel=channel, class_id=number[0], method_id=number[1]
        )

    def _too_large(self, kind: int, size: int) -> Violation:
        allowed = self._payload_max - _FORGIVEN_BYTES
        return _frame_error(kind, b"", f"{{frame_too_large,{size},{allowed}}}")

    def _bad_end(self, kind: int, payload_and_end: bytes) -> Violation:
        payload, marker = payload_and_end[:-1], payload_and_end[-1]
        return _frame_error(kind, payload, f"{{invalid_frame_end_marker,{marker}}}")


def _shown(payload: bytes) -> str:
    if len(payload) <= _SHOWN_BYTES:
        return f"all octets = {erlang_bytes(payload)}"
    return f"first 16 octets = {erlang_bytes(payload[:_SHOWN_BYTES])}"


def _frame_error(kind: int, payload: bytes, reason: str) -> Violation:
    return Violation(ReplyCode.FRAME_ERROR, f"type {kind}, {_shown(payload)}: {reason}")


def unknown_frame(kind: int, channel: int, payload: bytes) -> Violation:
    """Return the error for a frame of an unknown type."""
    del channel  # the whole connection is closed in any case
    return _frame_error(kind, payload, "unknown_frame")


def unexpected_frame(kind: int, channel: int, payload: bytes) -> Violation:
    """Return the error for a frame that is not allowed here."""
    return Violation(ReplyCode.UNEXPECTED_FRAME, f"type {kind}, {_shown(payload)}", channel=channel)
