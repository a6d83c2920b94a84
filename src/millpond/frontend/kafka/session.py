"""One client connection: bytes in, requests carried out in order, answers out in order.

The wire parses, the handlers do the work; this module keeps the order. A request is carried out as soon as
it is complete, and its answer leaves at once unless an earlier one still waits.
Reading stops, and with it everything else on this connection, while

* the client does not take what was written (``pause_writing``),
* too many requests, or too many bytes of them or of finished answers, wait behind an unfinished one,
* a coroutine handler is at work (until it ends, or gives a ``Deferred``),
* the client has used more than its quota and is mute for a while,
* this connection has used its share of the event loop and others come first (``engine/runtime/turns.py``),
* all connections together hold ``queued.max.request.bytes`` (``engine/limits/request_memory.py``).

Requests that were received and not begun are dropped when the connection is lost. So a slow or hostile
client costs a bounded amount of memory and delays no other client. Bytes that are no Kafka request end the
connection, with one line in the log. Never awaits; owns no task that outlives it.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from millpond.base import limits
from millpond.base.errors import (
    ShuttingDown,
)
from millpond.engine.api.runtime import LITTLE_COUNT, LITTLE_TIMES, SHORT_NS, Timed
from millpond.frontend.kafka.access import NODES_ONLY
from millpond.frontend.kafka.convert import ANONYMOUS
from millpond.frontend.kafka.handler import Context, Deferred, Handler, Payload
from millpond.frontend.kafka.pending import Slot, Writer
from millpond.frontend.kafka.refusals import NO_REQUEST, refusal_of
from millpond.frontend.kafka.throttling import charge, with_throttle
from millpond.peer.versions import UNKNOWN_VERSION
from millpond.wire.kafka.api import APIS
from millpond.wire.kafka.connection import Request, ServerConnection
from millpond.wire.kafka.primitives import BytesLike
from millpond.wire.shape import NEED_DATA

if TYPE_CHECKING:
    from millpond.frontend.kafka.frontend import KafkaFrontend

log = logging.getLogger(__name__)

# Answers are collected up to this size before they are written, so that pipelined small requests share one
# system call and large answers do not pile up.
_WRITE_BYTES = 256 * 1024
_JOINED_BYTES_MAX = 16 * 1024


class KafkaSession:
    """One connection's order of things."""

    __slots__ = (
        "_closed",
        "_connection",
        "_context",
        "_executing",
        "_frontend",
        "_handlers",
        "_held_bytes",
        "_is_costly",
        "_is_noted",
        "_is_on_trial",
        "_is_resting",
        "_is_short",
        "_line_held",
        "_little",
        "_lost_calls",
        "_memory",
        "_mute",
        "_on_node",
        "_out",
        "_out_bytes",
        "_quotas",
        "_reading_paused",
        "_ready_bytes",
        "_round",
        "_slots",
        "_stalled_bytes",
        "_turn_ns",
        "_turns",
        "_writer",
        "_writing_paused",
    )

    def __init__(
        self,
        frontend: "KafkaFrontend",
        writer: Writer,
        *,
        listener: str,
        peer: str = "?",
        local: str = "",
        is_on_trial: bool = False,
        on_node: Callable[[], None] = lambda: None,
    ) -> None:
        self._frontend = frontend
        # One on trial has those only that prove that it is a node's.
        self._is_on_trial = is_on_trial
        self._handlers = frontend.trial_handlers if is_on_trial else frontend.handlers
        self._on_node = on_node
        self._quotas = frontend.engine.quotas
        self._memory = frontend.memory
        self._turns = frontend.turns
        self._writer = writer
        self._connection = ServerConnection(frontend.request_bytes_max, scratch=frontend.scratch)
        self._context = Context(
            engine=frontend.engine,
            frontend=frontend,
            session=self,
            listener=listener,
            peer=peer,
            local=local,
        )
        self._slots: deque[Slot] = deque()
        self._out: list[BytesLike] = []
        self._out_bytes = 0
        self._ready_bytes = 0
        self._held_bytes = 0
        self._stalled_bytes = 0
        self._lost_calls: dict[str, Callable[[], None]] = {}
        # Runs while the client is mute.
        self._mute: asyncio.TimerHandle | None = None
        self._closed = False
        self._executing = False
        self._line_held = False
        self._writing_paused = False
        self._reading_paused = False
        # Waits for its turn on the loop, with whole requests or without.
        self._is_resting = False
        # What it has used of the loop in which round; whether its last requests took long; how often in a row
        # it sent little.
        self._round = 0
        self._turn_ns = 0
        self._is_costly = False
        self._little = 0
        # Whether memory is asked for it that it does not need any more, or waits for.
        self._is_noted = False
        self._is_short = False

    # --- what the transport calls ----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes from the client, in whatever pieces they come."""
        if not self._closed:
            self._connection.is_tight = self._memory.is_full
            self._connection.receive_data(data)
            self._pump()

    def get_buffer(self, size_hint: int) -> memoryview:
        """Where the next bytes from the client go: into the large request that they belong to, or into what
        all sessions of this loop share. Valid until ``buffer_updated``, which must come before any other
        session's ``get_buffer``.
        """
        connection = self._connection
        connection.is_tight = self._memory.is_full
        return connection.get_buffer(size_hint)

    def buffer_updated(self, count: int) -> None:
        """So many bytes were read into the buffer."""
        if not self._closed:
            self._connection.buffer_updated(count)
            self._pump()

    def pause_writing(self, stalled_bytes: int = 0) -> None:
        """The client leaves so much lying; carry out nothing more for it until it takes it."""
        self._writing_paused = True
        self._frontend.stalled_bytes += stalled_bytes - self._stalled_bytes
        self._stalled_bytes = stalled_bytes

    def resume_writing(self) -> None:
        """The client took what was waiting."""
        self._writing_paused = False
        self._unstall()
        self._pump()

    def connection_lost(self) -> None:
        """The client is gone: nothing that still works for it is wanted, and nothing it sent is kept."""
        self._closed = True
        self._connection.let_go()
        self._unstall()
        if self._mute is not None:
            self._mute.cancel()
        if self._is_noted:
            self._memory.forget(self)
        slots, self._slots = self._slots, deque()
        self._out.clear()
        for slot in slots:
            if slot.cancel is not None:
                slot.cancel()
        lost_calls, self._lost_calls = self._lost_calls, {}
        for call in lost_calls.values():
            call()

    def when_lost(self, name: str, call: Callable[[], None]) -> None:
        """Be told once when the client is gone; the last call of a name counts."""
        self._lost_calls[name] = call

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being executed whose response the client waits for."""
        return any(not slot.is_idle for slot in self._slots)

    def _unstall(self) -> None:
        self._frontend.stalled_bytes -= self._stalled_bytes
        self._stalled_bytes = 0

    def become_node(self) -> None:
        """The other side has proved that it is a node of this cluster."""
        self._is_on_trial = False
        self._handlers = self._frontend.handlers
        self._on_node()

    # --- carrying out ----------------------------------------------------------------------------

    def _pump(self) -> None:
        """Carry out what has arrived as far as this connection may now, and send what is answered."""
        if self._executing:
            return
        if not self._is_resting:
            if self._is_costly and self._connection.frames and self._turns.is_full(self):
                self._rest()
            else:
                self._carry_out()
        self._flush()
        if not self._closed:
            connection = self._connection
            if (
                self._is_noted
                or self._held_bytes
                or connection.frames
                or connection.partial is not None
            ):
                self._note_memory(connection)
            self._read_if_wanted()

    def _carry_out(self) -> None:
        """One request after the other, until there is none, something holds the line, or time is over."""
        connection, now_ns = self._connection, self._turns.now_ns
        frames = connection.frames
        began_ns = now_ns()
        piece_ns = count = 0
        is_over = False
        self._executing = True
        try:
            while not (self._closed or self._must_wait()):
                request = connection.next_event()
                if request is NEED_DATA:
                    break
                self._execute(request)
                count += 1
                if frames:
                    piece_ns = piece_ns or self._turns.piece_ns(self)
                    if now_ns() - began_ns >= piece_ns:
                        is_over = True
                        break
        except NO_REQUEST as error:
            self._hang_up(error)
        finally:
            self._executing = False
        spent_ns = now_ns() - began_ns
        if spent_ns >= SHORT_NS:
            self._spend(spent_ns)
            if is_over:
                self._rest()
        elif 0 < count <= LITTLE_COUNT:
            self._is_costly = False
            self._little += 1
            if self._little >= LITTLE_TIMES:
                self._turns.said_little(self)
        elif count:
            self._little = 0

    def _spend(self, ns: int) -> None:
        """Requests took so long; the connection rests if that was its share of this round."""
        turns = self._turns
        turns.said(self, ns)
        self._is_costly = True
        self._little = 0
        if self._round != turns.round:
            self._round, self._turn_ns = turns.round, 0
        self._turn_ns += ns
        if self._turn_ns >= turns.piece_ns(self):
            self._rest()

    def _rest(self) -> None:
        """Carry out nothing, and read nothing, until other connections had their turn."""
        if not (self._is_resting or self._closed):
            self._is_resting = True
            self._turns.wait(self)

    def speak(self) -> None:
        """It is this connection's turn again."""
        if self._closed:
            return
        self._is_resting = self._is_costly = False
        self._turn_ns = 0
        try:
            self._pump()
        except Exception:
            # A mistake of ours; the client must not wait for an answer that never comes.
            log.exception("peer=%s: carrying out requests", self._context.peer)
            self._hang_up("the request was given up")

    def _note_memory(self, connection: ServerConnection) -> None:
        """Say what this connection holds, and ask for what the next read takes."""
        held = self._held_bytes + connection.memory_bytes
        if held:
            more = connection.growth_bytes
            is_little = held <= limits.REQUEST_LITTLE_BYTES - limits.REQUEST_READ_BYTES
            if not (is_little or connection.is_within_frame):
                more = limits.REQUEST_READ_BYTES
            self._is_short = not self._memory.ask(self, held, more)
            self._is_noted = True
        elif self._is_noted:
            self._memory.ask(self, 0, 0)
            self._is_short = self._is_noted = False

    @property
    def progress_bytes(self) -> int | None:
        """How much has come of a request that is not whole; None if none has begun."""
        return self._connection.progress_bytes

    @property
    def missing_bytes(self) -> int:
        """How much more memory the request that has begun takes in the end."""
        return self._connection.missing_bytes

    @property
    def is_read(self) -> bool:
        """Return whether the client could send more if it read its responses."""
        return not (self._is_resting or self._is_held_up())

    def go_on(self) -> None:
        """There is memory for what comes next."""
        self._is_short = False
        self._read_if_wanted()

    def give_up(self, reason: str) -> None:
        """The client keeps memory that others wait for."""
        self._hang_up(reason)

    def _read_if_wanted(self) -> None:
        """Read on, or stop reading, as things stand."""
        if not self._closed:
            self._set_reading(paused=self._is_resting or self._is_short or self._must_wait())

    def _must_wait(self) -> bool:
        return self._writing_paused or self._is_held_up()

    def _is_held_up(self) -> bool:
        """Return whether earlier requests or the quota delay the next one, and not the client."""
        return (
            self._line_held
            or self._mute is not None
            or len(self._slots) >= limits.IN_FLIGHT_REQUESTS_MAX
            or self._held_bytes > limits.IN_FLIGHT_BYTES_MAX
            or self._ready_bytes > limits.SEND_BUFFER_BYTES_MAX
        )

    def _execute(self, request: Request) -> None:
        handler = self._handlers.get(request.api_key)
        if handler is None or not handler.min_version <= request.api_version <= handler.max_version:
            self._unsupported(request)
            return
        started_ns = self._frontend.counter_ns() if self._quotas.active else 0
        try:
            if request.api_key in NODES_ONLY and not self._context.is_node:
                self._context.check_node(APIS[request.api_key].name)
            result = handler.handle(self._context, request)
        except Exception as error:  # noqa: BLE001 - the outermost line of a request
            result = self._refusal(handler, request, error)
        if self._closed:
            return
        if started_ns:
            self._count_time(request, started_ns)
        if type(result) is list or type(result) is tuple:
            if self._slots:
                self._finish(self._open(request), result)
            else:
                self._write(request, result)
        elif result is None:
            if self._quotas.active:
                self._charge(request, ())
            if self._slots:
                slot = self._open(request)
                slot.silent = True
                self._finish(slot, ())
        elif isinstance(result, Deferred):
            self._defer(handler, request, result)
        else:
            self._await(handler, request, result)

    def _defer(self, handler: Handler, request: Request, deferred: Deferred) -> None:
        self._deliver(handler, self._open(request), deferred)

    def _deliver(self, handler: Handler, slot: Slot, deferred: Deferred) -> None:
        slot.cancel = deferred.cancel
        slot.is_idle = deferred.is_idle

        def receive(answer: Payload | BaseException) -> None:
            if isinstance(answer, BaseException):
                answer = self._refusal(handler, slot.request, answer)
            self._finish(slot, answer)

        deferred.deliver_to(receive)

    def _await(self, handler: Handler, request: Request, awaitable: Any) -> None:
        slot = self._open(request)
        if inspect.iscoroutine(awaitable):
            try:
                task = self._frontend.engine.runtime.tasks.spawn(
                    self._run(handler, slot, awaitable), name=f"kafka {APIS[request.api_key].name}"
                )
            except ShuttingDown as error:
                awaitable.close()
                self._finish(slot, self._refusal(handler, request, error))
                return
            self._line_held = True
            # A task that is cancelled before its first step never begins the coroutine.
            task.add_done_callback(lambda _done: awaitable.close())
            slot.cancel = task.cancel
            return
        future: asyncio.Future[Payload] = asyncio.ensure_future(awaitable)

        def receive(done: asyncio.Future[Payload]) -> None:
            if done.cancelled():
                return
            error = done.exception()
            if error is not None:
                self._finish(slot, self._refusal(handler, request, error))
            else:
                self._finish(slot, done.result())

        future.add_done_callback(receive)
        slot.cancel = future.cancel
        slot.is_idle = True

    async def _run(
        self,
        handler: Handler,
        slot: Slot,
        coroutine: Coroutine[Any, Any, Payload | Deferred | None],
    ) -> None:
        work = Timed(coroutine, self._turns.now_ns)
        try:
            payload = await work
        except asyncio.CancelledError:
            # The request gets no answer; a client that is still connected must not wait for ever.
            self._hang_up("the request was given up")
            raise
        except Exception as error:  # noqa: BLE001 - the outermost line of a request
            payload = self._refusal(handler, slot.request, error)
        self._line_held = False
        if work.ns >= SHORT_NS and not self._closed:
            self._spend(work.ns)
        if isinstance(payload, Deferred):
            if not self._closed:
                self._deliver(handler, slot, payload)
                self._pump()
            else:
                payload.cancel()
            return
        if payload is None:
            slot.silent = True
        self._finish(slot, payload or ())

    def _unsupported(self, request: Request) -> None:
        """ApiVersions is answered in version 0 with what there is; anything else ends the connection."""
        if self._is_on_trial and request.api_version != UNKNOWN_VERSION:
            # A client, for which there is no room.
            self._end()
            return
        answer = self._frontend.unsupported_answer(request)
        if answer is None:
            spec = APIS.get(request.api_key)
            name = spec.name if spec is not None else "unknown"
            self._hang_up(
                f"api {request.api_key} ({name}) version {request.api_version} is not supported"
            )
        elif self._slots:
            self._finish(self._open(request), answer)
        else:
            self._write(request, answer)

    def _refusal(self, handler: Handler, request: Request, error: BaseException) -> Payload:
        """Return the response to a request that failed. Close the connection if there is none."""
        refused = refusal_of(handler, request, error, self._context.peer)
        if isinstance(refused, BaseException):
            self._hang_up(refused)
            return ()
        return refused

    # --- answering -------------------------------------------------------------------------------

    def _open(self, request: Request) -> Slot:
        slot = Slot(request)
        self._slots.append(slot)
        self._held_bytes += request.size
        return slot

    def _finish(self, slot: Slot, payload: Payload) -> None:
        """An answer is there; it and those behind it leave if it is their turn."""
        if self._closed:
            return
        slot.payload = payload
        slot.cancel = None
        slot.size = sum(map(len, payload))
        self._ready_bytes += slot.size
        slots = self._slots
        while slots and (ready := slots[0].payload) is not None:
            first = slots.popleft()
            self._ready_bytes -= first.size
            self._held_bytes -= first.request.size
            if not first.silent:
                self._write(first.request, ready)
        if not self._executing:
            self._pump()

    def _write(self, request: Request, payload: Payload) -> None:
        if self._quotas.active:
            payload = self._charge(request, payload)
        frame = self._connection.frame_response(request, *payload)
        out = self._out
        out += frame
        for buffer in payload:
            self._out_bytes += len(buffer)
        if self._out_bytes >= _WRITE_BYTES:
            self._flush()

    # --- quotas ----------------------------------------------------------------------------------

    def _count_time(self, request: Request, started_ns: int) -> None:
        """Charge the time that a handler took of the event loop; the next response throttles the client."""
        elapsed_ns = self._frontend.counter_ns() - started_ns
        now_ms = self._context.engine.runtime.clock.monotonic_ms()
        self._quotas.use_time(ANONYMOUS, request.client_id or "", elapsed_ns, now_ms)

    def _charge(self, request: Request, payload: Payload) -> Payload:
        """Charge a response to the client's quota; a client over it is told, and not read for a while."""
        now_ms = self._context.engine.runtime.clock.monotonic_ms()
        wait_ms = charge(self._quotas, request, payload, now_ms)
        if wait_ms <= 0:
            return payload
        if self._mute is not None:
            self._mute.cancel()
        loop = asyncio.get_running_loop()
        self._mute = loop.call_later(wait_ms / 1000, self._speak_again)
        return with_throttle(request, payload, wait_ms) if payload else payload

    def _speak_again(self) -> None:
        self._mute = None
        self._pump()

    def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, []
            size, self._out_bytes = self._out_bytes, 0
            if not self._closed:
                # Many small pieces cost the transport more than a copy of all of them.
                self._writer.writelines([b"".join(out)] if size <= _JOINED_BYTES_MAX else out)

    def _set_reading(self, *, paused: bool) -> None:
        if paused and not self._reading_paused:
            self._reading_paused = True
            self._writer.pause_reading()
        elif not paused and self._reading_paused:
            self._reading_paused = False
            self._writer.resume_reading()

    def _hang_up(self, error: BaseException | str) -> None:
        """End the connection; said once, and not more often than the log can bear."""
        if self._closed:
            return
        self._frontend.complaints.say(
            "peer=%s listener=%s: closing the connection: %s",
            self._context.peer,
            self._context.listener,
            error,
        )
        self._end()

    def _end(self) -> None:
        self._flush()
        self.connection_lost()
        self._writer.close()

    def hang_up(self, reason: str) -> None:
        """For handlers whose only answer is to end the connection (a failed write with acks=0)."""
        self._hang_up(reason)
