"""A protocol of one's own: publish and subscribe with lines of text, on Millpond's log.

    PUB topic text   append a record to partition 0 of the topic; answered by OK offset when it is kept
    SUB topic        answered by OK offset; from then on each new record comes as MSG topic offset text
    QUIT             answered by BYE; the connection ends

Errors are ERR and a sentence. Records are those of every other protocol: what Kafka's clients write to the
topic comes here, too. Try it with ``nc``, from the directory above this one:

    python -m examples.line_pubsub up --lines        # then: nc 127.0.0.1 7007

docs/ADDING_A_PROTOCOL.md explains this file part by part. It is not for production: no logins, no TLS, one
partition, and a subscriber must ask the node that leads it.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

from millpond.base.errors import LongValidation, MillpondError, RemoteProtocolError, ShuttingDown
from millpond.engine.api import LATEST, Engine, Partition, PartitionRead
from millpond.record.aborted import AbortedTransactions
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import decode_stored
from millpond.server.protocols import Scheme, WireProtocol, register
from millpond.server.services import Services, StreamProtocol
from millpond.server.stream_transport import Origin, StreamTransport
from millpond.wire.shape import NEED_DATA, NeedData, events_of

# Every bound with its reason: a line is held in memory until it ends; commands wait in memory while one
# before them is carried out; each subscription is a task; one read is sent as one piece.
LINE_BYTES_MAX = 64 * 1024
WAITING_COMMANDS_MAX = 100
SUBSCRIPTIONS_MAX = 10
READ_BYTES_MAX = 64 * 1024
# A subscriber looks again after this time whether the node still leads; new records wake it at once.
LOOK_AGAIN_MS = 5_000
# How long a client may take to close after BYE.
CLOSE_S = 5.0


# --- the wire: bytes to commands, without I/O ------------------------------------------------------------


class LineWire:
    """Cuts a stream of bytes into lines, in the shape of every wire (``millpond/wire/shape.py``)."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._unread = bytearray()
        self._searched = 0
        self._error: RemoteProtocolError | None = None

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the client, in any pieces."""
        if self._error is None:
            self._unread += data

    def next_event(self) -> bytes | NeedData:
        """Return the next line. Raises ``RemoteProtocolError``: after a line without an end nothing that
        follows can be understood.
        """
        if self._error is not None:
            raise self._error
        end = self._unread.find(b"\n", self._searched)
        if (end if end >= 0 else len(self._unread)) > self._line_bytes_max:
            self._unread.clear()
            self._error = RemoteProtocolError(f"a line has more than {self._line_bytes_max} bytes")
            raise self._error
        if end < 0:
            self._searched = len(self._unread)
            return NEED_DATA
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        self._searched = 0
        return line.removesuffix(b"\r")


def message_line(topic: str, offset: int, value: bytes | None) -> bytes:
    """Encode a record for subscribers; the ends of lines inside a text are written as ``\\n``."""
    text = (value or b"").replace(b"\n", b"\\n")
    return b"MSG %s %d %s\n" % (topic.encode(), offset, text)


def readable_batches(read: PartitionRead) -> Iterator[int]:
    """Yield where batches with records begin: neither markers nor batches of aborted transactions."""
    transactions = AbortedTransactions(read.aborted)
    for position, header in iter_batches(read.records):
        if not transactions.hides(header):
            yield position


# --- the session: one connection, commands to calls of the engine ------------------------------------------


class LineSession:
    """One connection. Commands are carried out one after the other; answers leave in their order."""

    is_awaited = True

    def __init__(self, engine: Engine, writer: StreamTransport) -> None:
        self._engine = engine
        self._writer = writer
        self._wire = LineWire()
        self._commands: deque[bytes | RemoteProtocolError] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._subscriptions: dict[str, asyncio.Task[None]] = {}
        # The last answer was given: what the client still sends is not read.
        self._is_ending = False
        self._may_write = asyncio.Event()
        self._may_write.set()

    @property
    def is_busy(self) -> bool:
        return self._worker is not None

    def data_received(self, data: bytes) -> int:
        if self._is_ending:
            return 0
        before = len(self._commands)
        self._wire.receive_data(data)
        try:
            self._commands.extend(events_of(self._wire))
        except RemoteProtocolError as error:
            self._commands.append(error)  # what was sent before it is answered first
        self._work()
        return len(self._commands) - before

    def eof_received(self) -> bool:
        if not self._is_ending:
            self._commands.append(b"QUIT")  # what was sent before it is answered first
            self._work()
        return self.is_busy

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def send_close(self) -> None:
        self._say("BYE")

    def connection_lost(self) -> None:
        self._commands.clear()
        for task in (self._worker, *self._subscriptions.values()):
            if task is not None:
                task.cancel()

    # --- commands

    def _work(self) -> None:
        """Carry out commands in a task, if they wait: an append may wait for a disk or for other nodes."""
        if len(self._commands) > WAITING_COMMANDS_MAX:
            self._writer.pause_reading()
        if self._worker is None and self._commands:
            try:
                self._worker = self._engine.runtime.tasks.spawn(self._run(), name="lines")
            except ShuttingDown:
                self._writer.abort()

    async def _run(self) -> None:
        try:
            while self._commands:
                await self._may_write.wait()
                await self._carry_out(self._commands.popleft())
                if len(self._commands) == WAITING_COMMANDS_MAX // 2:
                    self._writer.resume_reading()
        finally:
            self._worker = None

    async def _carry_out(self, line: bytes | RemoteProtocolError) -> None:
        if isinstance(line, RemoteProtocolError):
            self._end(f"ERR {line}")
            return
        verb, _, rest = line.partition(b" ")
        topic, _, text = rest.partition(b" ")
        try:
            match verb.upper():
                case b"PUB" if topic:
                    self._say(f"OK {await self._publish(topic.decode(), text)}")
                case b"SUB" if topic and not text:
                    await self._subscribe(topic.decode())
                case b"QUIT" if not rest:
                    self._end("BYE")
                case _:
                    self._say("ERR the commands are PUB topic text, SUB topic, QUIT")
        except UnicodeDecodeError:
            self._say("ERR the name of a topic is not UTF-8")
        except MillpondError as error:
            self._say(f"ERR {error}")

    def _end(self, line: str) -> None:
        """Say a last line and close. Commands that came behind it are not carried out."""
        self._say(line)
        self._is_ending = True
        self._commands.clear()
        self._writer.finish(CLOSE_S)

    async def _publish(self, topic: str, text: bytes) -> int:
        """Append one record. Return its offset when it is kept as the topic's settings promise."""
        await self._engine.topic_admin.ensure_topic(topic)
        partitions = self._engine.partitions
        partition = partitions.partition(topic, 0)
        batch = build_batch([(self._engine.runtime.clock.now_ms(), None, text, ())])
        try:
            appended = partitions.append_to(partition, batch, acks=-1)
        except LongValidation:
            appended = await partitions.append_in_thread(
                lambda: partitions.partition(topic, 0), partition, batch, acks=-1
            )
        if appended.durable is not None:
            await appended.durable
        return appended.info.first_offset

    async def _subscribe(self, topic: str) -> None:
        if topic in self._subscriptions or len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            self._say(f"ERR at most {SUBSCRIPTIONS_MAX} subscriptions, one for each topic")
            return
        await self._engine.topic_admin.ensure_topic(topic)
        partitions = self._engine.partitions
        end = partitions.find_offset(partitions.partition(topic, 0), LATEST).offset
        self._say(f"OK {end}")
        self._subscriptions[topic] = self._engine.runtime.tasks.spawn(
            self._follow(topic, end), name=f"lines: {topic}"
        )

    async def _follow(self, topic: str, offset: int) -> None:
        """Send every committed record from an offset on, until the connection ends or this node leads no
        more.
        """
        partitions = self._engine.partitions
        try:
            while True:
                await self._may_write.wait()
                partition = partitions.partition(topic, 0)
                read = partitions.read_now(
                    partition, offset, bytes_max=READ_BYTES_MAX, committed=True
                )
                self._writer.writelines(
                    [
                        message_line(topic, record.offset, record.value)
                        for position in readable_batches(read)
                        for record in decode_stored(read.records, position)
                        if record.offset >= offset
                    ]
                )
                for _, header in iter_batches(read.records):
                    offset = header.next_offset
                if not read.records:
                    await self._more(partition)
        except MillpondError as error:
            self._say(f"ERR the subscription to {topic} ends: {error}")
        finally:
            self._subscriptions.pop(topic, None)

    async def _more(self, partition: Partition) -> None:
        """Wait until something was appended, the partition left, or it is time to look again."""
        woken = asyncio.Event()
        waiter = self._engine.partitions.wait_for_data(
            [partition], missing_bytes=1, wait_ms=LOOK_AGAIN_MS, done=woken.set
        )
        try:
            await woken.wait()
        finally:
            waiter.cancel()

    def _say(self, line: str) -> None:
        self._writer.writelines([line.replace("\n", " ").encode() + b"\n"])


# --- the protocol: one value, and how it is opened ---------------------------------------------------------


class OpenLines(StreamProtocol):
    """The protocol on a node that runs."""

    def session(self, writer: StreamTransport, origin: Origin) -> LineSession:
        return LineSession(self._services.engine, writer)


def _open(services: Services) -> OpenLines:
    return OpenLines(services)


LINES = WireProtocol(
    name="lines",
    title="Lines",
    schemes=(Scheme("LINES", "lines"),),
    port=7007,
    option="--lines",
    option_help="Serve lines of text, at 127.0.0.1:7007 or at ADDRESS.",
    other_address="127.0.0.1:7107",
    open=_open,
)


if __name__ == "__main__":
    register(LINES)  # before the command line is imported: its options come from the registry
    from millpond.cli import cli

    cli()
