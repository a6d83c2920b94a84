"""The smallest protocol there can be: each line comes back in upper case. One value and one front-end."""

from millpond.server.protocols import Scheme, WireProtocol
from millpond.server.services import Services, StreamProtocol
from millpond.server.stream_transport import Origin, StreamTransport


class LineSession:
    """Answers lines."""

    is_awaited = True
    is_busy = False

    def __init__(self, writer: StreamTransport) -> None:
        self._writer = writer
        self._begun = b""

    def data_received(self, data: bytes) -> int:
        *lines, self._begun = (self._begun + data).split(b"\n")
        self._writer.writelines([line.upper() + b"\n" for line in lines])
        return len(lines)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writer.pause_reading()

    def resume_writing(self) -> None:
        self._writer.resume_reading()

    def say_goodbye(self) -> None:
        self._writer.writelines([b"BYE\n"])

    def connection_lost(self) -> None:
        self._begun = b""


class OpenLines(StreamProtocol):
    """Opened from a node's services, none of which it needs."""

    def session(self, writer: StreamTransport, origin: Origin) -> LineSession:
        return LineSession(writer)


def _open(services: Services) -> OpenLines:
    return OpenLines(services)


LINES = WireProtocol(
    name="lines",
    title="Lines",
    schemes=(Scheme("LINES", "lines"),),
    port=7007,
    option="--lines",
    other_address="127.0.0.1:7107",
    open=_open,
)
