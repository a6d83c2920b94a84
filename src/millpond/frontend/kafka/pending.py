"""What a session keeps of requests under way, and the side of a transport that it needs."""

from collections.abc import Sequence
from typing import Any, Protocol

from millpond.frontend.kafka.handler import Payload
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.primitives import BytesLike


class Writer(Protocol):
    """The side of a transport that a session needs."""

    def writelines(self, buffers: Sequence[BytesLike]) -> None:
        """Send, in order."""
        ...

    def pause_reading(self) -> None:
        """Deliver no more bytes for now."""
        ...

    def resume_reading(self) -> None:
        """Deliver bytes again."""
        ...

    def close(self) -> None:
        """Send what is left, then end the connection."""
        ...


class Slot:
    """A request whose answer has not left yet."""

    __slots__ = ("cancel", "is_idle", "payload", "request", "silent", "size")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.payload: Payload | None = None
        self.size = 0
        self.silent = False
        self.is_idle = False
        self.cancel: Any = None
