"""One AMQP connection: events of the wire in, calls of the engine, methods and deliveries out.

Events are carried out in order. One that has to wait (for the metadata, or for messages that are on their way
into a queue) holds up those behind it, and when many wait, the socket. Deliveries wait in an outbox as
ranges of a queue, not as bytes: their bodies are read when the socket takes them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from millpond.base import errors, limits
from millpond.engine.api.limits import Gathered
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.handshake import check_channels, log_in, open_vhost
from millpond.frontend.amqp.liveness import Liveness
from millpond.frontend.amqp.message_stats import ACK
from millpond.frontend.amqp.methods import Methods
from millpond.frontend.amqp.outbox import Outbox, Writer
from millpond.frontend.amqp.publishing import Publishing
from millpond.frontend.amqp.refusals import violation_of
from millpond.frontend.amqp.token_expiry import TokenExpiry
from millpond.frontend.amqp.transactions import ChannelTransactions
from millpond.rabbit.arguments import STREAM
from millpond.rabbit.broker import VirtualHostState
from millpond.rabbit.channel import Held, grouped
from millpond.rabbit.commands import LoseConnection, Principal
from millpond.wire.amqp.events import (
    Acks,
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    Event,
    HeaderRefused,
    LoginOffered,
    MethodReceived,
    OpenRequested,
    Publish,
    Publishes,
    Violated,
)
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelCloseOk,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionUnblocked,
    Method,
)
from millpond.wire.amqp.order import State
from millpond.wire.amqp.server import ServerConnection
from millpond.wire.amqp.violations import ReplyCode, Violation
from millpond.wire.shape import received

if TYPE_CHECKING:
    from millpond.frontend.amqp.frontend import AmqpFrontend

log = logging.getLogger(__name__)

# Events that may wait behind a slow one before the socket is not read any more.
_WAITING_MAX = 64


class AmqpSession:
    """The connection of one client."""

    def __init__(
        self,
        frontend: "AmqpFrontend",
        writer: Writer,
        *,
        peer: str,
        local: str = "",
        certified_name: str = "",
        is_encrypted: bool = False,
    ) -> None:
        self.frontend = frontend
        # ``host:port`` of the client, and of the listener that it came to.
        self.peer = peer
        self.local = local
        self.is_encrypted = is_encrypted
        self.connected_ms = frontend.engine.runtime.clock.now_ms()
        self.received_bytes = 0
        # The user that the client's certificate names; empty without one.
        self.certified_name = certified_name
        self.name = f"{peer} {frontend.engine.runtime.rng.uuid4().hex}"
        self.user = ""
        self.vhost = "/"
        self.asker = Principal(connection=self.name)
        # Exchanges that this user may publish to.
        self.writable: set[str] = set()
        self.channels: dict[int, Channel] = {}
        self.wire = ServerConnection(frontend.offer(is_certified=bool(certified_name)))
        self._writer = writer
        self.token_life = TokenExpiry(self)
        self._liveness = Liveness(self, writer.close)
        self.outbox = Outbox(
            self.wire,
            writer,
            on_sent=self._liveness.sent,
            on_error=lambda error: self._fail(error, 0, BasicDeliver),
        )
        self.transactions = ChannelTransactions(self)
        self._methods = Methods(self)
        self._events: deque[Event] = deque()
        self._is_waiting = False
        self._is_lost = False
        self._is_held = False  # the socket is not read from
        self._opened = 0
        self._is_blocked = False  # because memory or disk run low
        self._gathered = Gathered(frontend.memory, self)
        self._is_told = False  # so
        self._late_bytes = 0  # that came after the end
        # Whether something that came last has an outcome that its client waits for, or may.
        self.is_awaited = False

    @property
    def shown_name(self) -> str:
        """The connection's name in RabbitMQ's tools: both of its ends."""
        return f"{self.peer} -> {self.local}" if self.local else self.name

    @property
    def rooms(self) -> VirtualHostState:
        return self.frontend.queues.broker.rooms(self.vhost)

    def set_asker(self, asker: Principal) -> None:
        """Set the principal; cached permissions are checked again."""
        self.asker = asker
        self.writable.clear()
        for channel in self.channels.values():
            channel.way = None

    @property
    def may_impersonate(self) -> bool:
        """Whether its user may publish in the name of others (the property ``user_id``)."""
        return "impersonator" in self.token_life.known.tags

    @property
    def is_lost(self) -> bool:
        """Whether the socket is closed."""
        return self._is_lost

    @property
    def is_open(self) -> bool:
        """Whether the virtual host is open."""
        return self.wire.state is State.RUNNING

    @property
    def is_busy(self) -> bool:
        """Whether a method is being carried out that the client waits for."""
        return self._is_waiting

    # --- what the transport calls ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> int:
        """Handle received bytes. Return how many messages and acknowledgements they held."""
        if self.wire.state >= State.CLOSED and not self._may_be_late(len(data)):
            return 0
        self._liveness.received()
        self.received_bytes += len(data)
        events = received(self.wire, data)
        self._events += events
        self.is_awaited = any(map(self._is_awaited, events))
        self._run()
        self._note_memory()
        return sum(map(_weight, events))

    def _may_be_late(self, size: int) -> bool:
        """Whether a client may send so many bytes after the end of the connection."""
        self._late_bytes += size
        if self._late_bytes <= limits.AMQP_LATE_BYTES_MAX:
            return True
        log.info("peer=%s: does not stop after its connection was closed", self.peer)
        self._writer.close()
        return False

    def _note_memory(self) -> None:
        """Report how much of incomplete messages is held; if there is no memory for more, wait for it."""
        if self._is_lost:
            return
        gathered = self._gathered
        was_short = gathered.is_short
        gathered.note(self.wire.unread_bytes, self.wire.missing_bytes)
        if gathered.is_short != was_short:
            self._hold_if_needed()

    @property
    def progress_bytes(self) -> int | None:
        """How many bytes of incomplete messages have arrived."""
        return self.wire.unread_bytes if self.wire.is_gathering else None

    @property
    def missing_bytes(self) -> int:
        """How many bytes of incomplete messages are missing."""
        return self.wire.missing_bytes

    @property
    def is_read(self) -> bool:
        """Whether the broker reads from the connection, or would if the client read its answers."""
        return not self._is_held_up

    def go_on(self) -> None:
        """Read on: there is memory."""
        self._gathered.is_short = False
        self._hold_if_needed()

    def give_up(self, reason: str) -> None:
        """Close the connection: the client keeps memory that others wait for."""
        self.force_close(reason)
        self._gathered.forget()
        self._hold_if_needed()

    def _is_awaited(self, event: Event) -> bool:
        """Whether the client waits for the outcome of an event: not for publishes without confirms, nor for
        acknowledgements if it gets deliveries without limit."""
        if not isinstance(event, Publishes | Acks):
            return True
        channel = self.channels.get(event.channel)
        if channel is None:
            return False
        if isinstance(event, Publishes):
            return channel.confirms is not None
        return bool(channel.prefetch or channel.deliveries.prefetch)

    def eof_received(self) -> bool:
        """End the connection: a client that sends no more does not wait for deliveries."""
        return False

    def pause_writing(self) -> None:
        self.outbox.is_paused = True

    def resume_writing(self) -> None:
        self.outbox.resume()
        self._hold_if_needed()
        for channel in self.channels.values():
            channel.wake_all()

    def connection_lost(self) -> None:
        """Release what the connection owns: the socket is closed."""
        if self._is_lost:
            return
        self._is_lost = True
        self.token_life.stop()
        self.frontend.sessions.discard(self)
        self._gathered.forget()
        self._events.clear()
        self._let_go()
        self.outbox.close()
        if self.frontend.queues.broker.owned_by(self.name):
            self.frontend.queues.soon(LoseConnection(connection=self.name))

    def send_close(self) -> None:
        """Close the connection because the broker stops."""
        if self.wire.is_over:
            return
        self.wire.fail(
            Violation(
                ReplyCode.CONNECTION_FORCED,
                "broker forced connection closure with reason 'shutdown'",
            )
        )
        self.outbox.flush()

    def force_close(self, reason: str) -> None:
        """Close the connection for an operator."""
        violation = Violation(ReplyCode.CONNECTION_FORCED, reason)
        self.wire.fail(violation)
        self._after_violation(violation)
        self.outbox.flush()

    # --- events ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        is_low = self.frontend.is_low
        while self._events and not (self._is_waiting or self._is_lost or self._is_blocked):
            if is_low and isinstance(self._events[0], Publishes):
                self._block()
                break
            event = self._events.popleft()
            number, method = _about(event)
            try:
                work = self._handle(event)
            except errors.MillpondError as error:
                self._fail(error, number, method)
                continue
            if work is not None:
                self._is_waiting = True
                self.frontend.engine.runtime.tasks.spawn(
                    self._wait_for(work, number, method), name=f"amqp {self.peer}"
                )
        if is_low and self.wire.is_gathering and not (self._events or self._is_blocked):
            self._block()
        self.outbox.flush()
        self._hold_if_needed()

    async def _wait_for(
        self,
        work: Coroutine[Any, Any, None],
        number: int,
        method: Method | type[Method] | None,
    ) -> None:
        try:
            await work
        except errors.MillpondError as error:
            if not self._is_lost:
                self._fail(error, number, method)
        except Exception:
            # A defect of the broker: the client must not wait for an answer that never comes.
            log.exception("peer=%s channel=%d: carrying out a method", self.peer, number)
            if not self._is_lost:
                why = errors.MillpondError("the broker's log says more")
                self._fail(why, number, method)
        finally:
            self._is_waiting = False
        if not self._is_lost:
            self._run()
        elif self.frontend.queues.broker.owned_by(self.name):
            # Its exclusive queues were declared after its end.
            self.frontend.queues.soon(LoseConnection(connection=self.name))

    @property
    def _is_held_up(self) -> bool:
        """Whether an alarm or pending work, not the client, keeps the broker from reading."""
        return self._is_blocked or (self._is_waiting and len(self._events) > _WAITING_MAX)

    def _hold_if_needed(self) -> None:
        """Stop reading while events wait, or answers that the client does not read."""
        is_deaf = self._is_held_up or self._gathered.is_short
        self._liveness.set_deaf(is_deaf=is_deaf)
        is_held = is_deaf or self.outbox.is_overfull
        if is_held != self._is_held:
            self._is_held = is_held
            if is_held:
                self._writer.pause_reading()
            else:
                self._writer.resume_reading()

    def _handle(self, event: Event) -> Coroutine[Any, Any, None] | None:
        match event:
            case Publishes():
                channel = self.channels.get(event.channel)
                if channel is not None:
                    return self._publish(channel, event.messages)
            case Acks():
                channel = self.channels.get(event.channel)
                if channel is not None:
                    self.acknowledge(channel, "settle", event.acks)
            case MethodReceived():
                channel = self.channels.get(event.channel)
                if channel is not None or event.channel == 0:
                    return self._methods.carry_out(channel, event.method)
            case _:
                return self._handle_life(event)
        return None

    def _handle_life(self, event: Event) -> Coroutine[Any, Any, None] | None:
        match event:
            case LoginOffered():
                return log_in(self, event)
            case OpenRequested():
                open_vhost(self, event.virtual_host)
                self.read_on()
                self._liveness.begin(self.wire.heartbeat_s)
            case ChannelOpened():
                check_channels(self)
                self._opened += 1
                name = f"{self.name}/{event.channel}.{self._opened}"
                self.channels[event.channel] = Channel(self, event.channel, name)
                self.wire.send(event.channel, ChannelOpenOk())
            case ChannelClosed(asked=True):
                self._close_channel(event.channel)
                self.wire.send(event.channel, ChannelCloseOk())
            case ConnectionClosed(asked=True):
                return self._close()
            case ConnectionClosed(asked=False):
                self.outbox.end_at_once()
            case Violated():
                log.info("peer=%s: %s", self.peer, event.error)
                self._after_violation(event.error)
            case HeaderRefused():
                log.info("peer=%s: not AMQP 0-9-1: %r", self.peer, event.header)
            case _:
                pass
        return None

    def read_on(self) -> None:
        """Handle bytes that arrived early."""
        self._events += received(self.wire, b"")

    def _fail(
        self, error: errors.MillpondError, number: int, method: Method | type[Method] | None
    ) -> None:
        violation = violation_of(error, number, method)
        level = logging.WARNING if violation.code is ReplyCode.INTERNAL_ERROR else logging.INFO
        # The log must not show what an unauthenticated client sent: it may be a password.
        shown = violation if self.user else violation.code.name
        log.log(level, "peer=%s channel=%d: %s", self.peer, number, shown)
        self.wire.fail(violation)
        self._after_violation(violation)

    def fail_channel(self, channel: Channel, violation: Violation) -> None:
        """Close a channel for a reason other than its present method."""
        self._fail(violation, channel.number, None)
        self.outbox.flush()

    def _after_violation(self, violation: Violation) -> None:
        if violation.is_hard:
            # Of what it has said only the end counts now, and must be heard.
            self._events = deque(one for one in self._events if isinstance(one, ConnectionClosed))
            self._is_blocked = False
            self._let_go()
            self._liveness.leave()
            if not self.user:
                self.outbox.linger()
        else:
            self._close_channel(violation.channel)

    # --- life ----------------------------------------------------------------------------------------------

    def _block(self) -> None:
        """Stop reading from a client that publishes while memory or disk run low."""
        self._is_blocked = True
        if self.wire.has_capability("connection.blocked"):
            self._is_told = True
            self.wire.send(0, ConnectionBlocked(reason=self.frontend.pressure.reason))

    @property
    def is_blocked(self) -> bool:
        """Whether publishes of the client wait because memory or disk run low."""
        return self._is_blocked

    def unblock(self) -> None:
        """Read on: memory and disk suffice again."""
        if not self._is_blocked or self._is_lost:
            return
        self._is_blocked = False
        if self._is_told:
            self._is_told = False
            self.wire.send(0, ConnectionUnblocked())
        self._run()

    def _close_channel(self, number: int) -> None:
        channel = self.channels.pop(number, None)
        if channel is not None:
            self.outbox.drop_channel(channel)
            channel.close()

    def _let_go(self) -> None:
        self.outbox.clear()
        self._liveness.stop()
        for number in tuple(self.channels):
            self._close_channel(number)

    async def _close(self) -> None:
        self._let_go()
        if self.frontend.queues.broker.owned_by(self.name):
            await self.frontend.queues.ask(LoseConnection(connection=self.name))
        self.outbox.expect_end()
        self.wire.send(0, ConnectionCloseOk())

    # --- messages in ---------------------------------------------------------------------------------------

    def _publish(
        self, channel: Channel, messages: list[Publish]
    ) -> Coroutine[Any, Any, None] | None:
        """Publish. Return the coroutine that must end before the next event, if any."""
        if channel.transaction is not None:
            self.transactions.publish(channel, messages)
            return self.frontend.queues.unanswered.relief()
        publishing = Publishing(self, channel)
        try:
            publishing.add(messages)
        except errors.MillpondError as error:
            if publishing.is_wide:
                return self._publish_in_steps(publishing, error)
            publishing.carry_out()
            publishing.confirm()
            raise
        if publishing.is_wide:
            return self._publish_in_steps(publishing)
        publishing.carry_out()
        publishing.confirm()
        return self.frontend.queues.unanswered.relief()

    async def _publish_in_steps(
        self, publishing: Publishing, error: errors.MillpondError | None = None
    ) -> None:
        """Append a message to very many queues, with turns for other connections between."""
        for _step in publishing.steps():
            await asyncio.sleep(0)
        publishing.confirm()
        if error is not None:
            raise error
        relief = self.frontend.queues.unanswered.relief()
        if relief is not None:
            await relief

    def acknowledge(self, channel: Channel, verb: str, acks: list[tuple[int, bool]]) -> None:
        """Settle, requeue or reject messages."""
        if channel.transaction is not None:
            self.transactions.acknowledge(channel, verb, acks)
            return
        held: list[Held] = []
        try:
            for tag, multiple in acks:
                held += channel.deliveries.take(tag, multiple=multiple)
        finally:
            self.finish(channel, verb, held)

    def finish(self, channel: Channel, verb: str, held: list[Held]) -> None:
        """Apply acknowledgements of a channel."""
        for group in grouped(held):
            queue = channel.queues.get(group.queue)
            if queue is not None and not queue.is_gone:
                if verb != "settle" and queue.queue.type == STREAM:
                    raise errors.NotSupported(
                        "basic.nack and basic.reject not supported by stream queues "
                        f"{queue.queue.resource}"
                    )
                getattr(queue, verb)(group.lane, group.ranges, group.owner)
                if verb == "settle":
                    count = sum(next_ - first for first, next_ in group.ranges)
                    self.frontend.stats.count(queue, ACK, count)
        channel.freed()

    # --- messages out --------------------------------------------------------------------------------------

    def send(self, channel: Channel, method: Method) -> None:
        """Send a method, unless the channel is closed."""
        if not channel.is_closed and not self._is_lost:
            self.wire.send(channel.number, method)
            self.outbox.schedule()

    def send_content(self, channel: Channel, method: Method, block: bytes, body: bytes) -> None:
        if not channel.is_closed and not self._is_lost:
            self.wire.send_content(channel.number, method, block, body)
            self.outbox.schedule()

    def tell_cancelled(self, channel: Channel, method: Method) -> None:
        """Cancel a consumer whose queue was deleted, if its client supports that."""
        if self.wire.has_capability("consumer_cancel_notify"):
            self.send(channel, method)


def _weight(event: Event) -> int:
    """Return how many messages or acknowledgements an event holds."""
    if isinstance(event, Publishes):
        return len(event.messages)
    return len(event.acks) if isinstance(event, Acks) else 1


def _about(event: Event) -> tuple[int, Method | type[Method] | None]:
    """Return the channel and the method of an event."""
    match event:
        case Publishes():
            return event.channel, BasicPublish
        case Acks():
            return event.channel, BasicAck
        case MethodReceived():
            return event.channel, event.method
        case OpenRequested():
            return 0, ConnectionOpen
        case _:
            return 0, None
