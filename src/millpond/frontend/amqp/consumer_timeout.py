"""Closes channels whose consumers do not acknowledge messages in time, as RabbitMQ does.

The time-out is that of the consumer, of its queue (argument or policy) or of the broker
(``consumer_timeout``), in this order. All channels are checked at an interval, so deliveries cost nothing and
a time-out is noticed up to one interval late.
"""

import asyncio
from typing import TYPE_CHECKING

from millpond.frontend.amqp.channel import Channel
from millpond.rabbit.arguments import CONSUMER_TIMEOUT
from millpond.rabbit.channel import Held
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.frontend import AmqpFrontend

_TURN_S = 10.0


class ConsumerTimeouts:
    """The time-outs of all sessions of a node."""

    def __init__(self, frontend: "AmqpFrontend") -> None:
        self._frontend = frontend
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TURN_S, self._turn)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        # The next check comes also if this one fails.
        self.start()
        now_ms = self._frontend.engine.runtime.clock.monotonic_ms()
        for session in tuple(self._frontend.sessions):
            for channel in tuple(session.channels.values()):
                channel.deliveries.mark(now_ms)
                oldest = channel.deliveries.oldest
                if oldest is None:
                    continue
                timeout_ms = self._timeout_ms(channel, oldest)
                if timeout_ms and channel.deliveries.is_overdue(now_ms, timeout_ms):
                    session.fail_channel(channel, _timed_out(channel, timeout_ms))

    def _timeout_ms(self, channel: Channel, held: Held) -> int:
        """Return how long a message may be unacknowledged; 0 is for ever."""
        for _queue, consumer in channel.consumers.values():
            said = consumer.arguments.get(CONSUMER_TIMEOUT)
            if consumer.owner == held.owner and isinstance(said, int):
                return said
        queue = channel.queues.get(held.queue)
        is_there = queue is not None and not queue.is_gone
        of_queue = queue.settings.consumer_timeout_ms if queue is not None and is_there else None
        if of_queue is not None:
            return of_queue
        of_broker: int = self._frontend.engine.settings.get("consumer_timeout")
        return of_broker


def _timed_out(channel: Channel, timeout_ms: int) -> Violation:
    return Violation(
        ReplyCode.PRECONDITION_FAILED,
        f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: "
        f"{timeout_ms} ms. This timeout value can be configured, see consumers doc guide to learn "
        "more",
        channel=channel.number,
    )
