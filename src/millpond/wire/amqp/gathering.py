"""Contents that are being received."""

from typing import TypeAlias

from millpond.wire.amqp.methods import Method
from millpond.wire.amqp.violations import ReplyCode, Violation

Piece: TypeAlias = bytes | bytearray | memoryview

# Smaller pieces are joined as they come: an object for each would cost more than it holds.
_PIECE_BYTES_MIN = 4_096


class Gathering:
    """The incomplete content of a channel."""

    __slots__ = ("body", "body_bytes", "method", "missing", "properties")

    def __init__(self, method: Method) -> None:
        self.method = method
        self.properties: bytes | None = None
        self.body: list[Piece] = []
        self.body_bytes = 0
        self.missing = 0

    def joined(self) -> bytes:
        """Return the whole body; a body that came in one piece is not copied."""
        first = self.body[0] if len(self.body) == 1 else None
        return first if isinstance(first, bytes) else b"".join(self.body)


class BodyFrame:
    """A body's frame that is being received: its payload so far, and the number of missing bytes."""

    __slots__ = ("begun", "channel", "missing", "pieces", "size")

    def __init__(self, channel: int, begun: Gathering, size: int) -> None:
        self.channel = channel
        self.begun = begun
        self.size = self.missing = size
        self.pieces: list[Piece] = []

    def take(self, data: bytes, position: int) -> int:
        """Take the bytes that belong to the frame. Return the position after them."""
        stop = min(len(data), position + self.missing)
        piece, size = memoryview(data)[position:stop], stop - position
        self.missing -= size
        pieces = self.pieces
        if size < _PIECE_BYTES_MIN:
            if pieces and isinstance(last := pieces[-1], bytearray):
                last += piece
            else:
                pieces.append(bytearray(piece))
        else:
            # A view keeps the whole read alive: use one only if the read is not much larger.
            pieces.append(piece if 2 * size >= len(data) else bytes(piece))
        return stop


def fault_of(begun: Gathering, channel: int, code: ReplyCode, text: str) -> Violation:
    method = begun.method
    return Violation(
        code, text, channel=channel, class_id=method.class_id, method_id=method.method_id
    )


def not_begun(channel: int) -> Violation:
    return Violation(
        ReplyCode.UNEXPECTED_FRAME,
        "expected method frame, got non method frame instead",
        channel=channel,
    )


def unexpected(begun: Gathering, channel: int) -> Violation:
    wanted = (
        f"expected content header for class {begun.method.class_id}, "
        "got non content header frame instead"
        if begun.properties is None
        else "expected content body, got non content body frame instead"
    )
    return fault_of(begun, channel, ReplyCode.UNEXPECTED_FRAME, wanted)
