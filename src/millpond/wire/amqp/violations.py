"""Protocol violations as AMQP reports them: a reply code, a text, the method, and what must be closed.

The codes and texts are RabbitMQ's, down to Erlang's way of printing bytes, because clients and users who read
their logs know them.
"""

from enum import IntEnum

from millpond.base.errors import RemoteProtocolError

# A reply text is a short string.
_TEXT_BYTES_MAX = 255


class ReplyCode(IntEnum):
    """Why a channel or a connection was closed, or a message returned."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541

    @property
    def is_hard(self) -> bool:
        """Whether the whole connection is closed and not only a channel."""
        return self not in _SOFT


_SOFT = frozenset(
    (
        ReplyCode.CONTENT_TOO_LARGE,
        ReplyCode.NO_ROUTE,
        ReplyCode.NO_CONSUMERS,
        ReplyCode.ACCESS_REFUSED,
        ReplyCode.NOT_FOUND,
        ReplyCode.RESOURCE_LOCKED,
        ReplyCode.PRECONDITION_FAILED,
    )
)


class Violation(RemoteProtocolError):
    """The peer broke the protocol or asked for something that is refused.

    ``channel`` 0, or a hard code, closes the connection; anything else closes the channel. ``class_id`` and
    ``method_id`` name the method that failed, 0 if there is none.
    """

    def __init__(
        self,
        code: ReplyCode,
        explanation: str,
        *,
        channel: int = 0,
        class_id: int = 0,
        method_id: int = 0,
    ) -> None:
        super().__init__(f"{code.name} - {explanation}")
        self.code = code
        self.channel = channel
        self.class_id = class_id
        self.method_id = method_id

    @property
    def is_hard(self) -> bool:
        """Whether the whole connection is closed and not only a channel."""
        return self.channel == 0 or self.code.is_hard

    @property
    def reply_text(self) -> str:
        """Return the text for the peer: the code's name and the explanation, cut to a short string."""
        # Names are what clients sent, which need not be UTF-8.
        raw = str(self).encode("utf-8", "surrogateescape")
        if len(raw) <= _TEXT_BYTES_MAX:
            return str(self)
        return raw[: _TEXT_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."


def erlang_bytes(data: bytes) -> str:
    """Return bytes as Erlang prints them: a string if all are printable, numbers otherwise."""
    if not data:
        return "<<>>"
    if all(_is_printable(byte) for byte in data):
        text = data.decode("latin-1")
        for raw, escaped in _ESCAPES:
            text = text.replace(raw, escaped)
        return f'<<"{text}">>'
    return "<<" + ",".join(map(str, data)) + ">>"


def erlang_numbers(data: bytes) -> str:
    """Return bytes as Erlang prints them without looking for text."""
    return "<<" + ",".join(map(str, data)) + ">>"


_ESCAPES = (
    ("\\", "\\\\"),
    ('"', '\\"'),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("\v", "\\v"),
    ("\b", "\\b"),
    ("\f", "\\f"),
    ("\x1b", "\\e"),
)


def _is_printable(byte: int) -> bool:
    return 32 <= byte <= 126 or byte >= 160 or byte in b"\n\r\t\v\b\f\x1b"
