"""What a front-end sees of a queue, whichever node hosts it.

``LocalQueue`` is a queue whose log this node leads: its verbs are complete when they return. ``RemoteQueue``
is one that another node leads; what the host has to answer comes back as a future, or is awaited. A
front-end that is given None instead of a future goes on at once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from millpond.cursor.ack import Range
from millpond.engine.forwarding.kept import Taken
from millpond.message.hub import Message
from millpond.queue.consumers import Consumer
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import Handout
from millpond.rabbit.commands import DeleteQueue
from millpond.rabbit.records import Queue

# Above every offset.
NEVER_READ = 2**63 - 1


class Counts(NamedTuple):
    """How many messages are ready, how many consumers there are, how many messages are held and not settled,
    and how many were lost since this node hosts the queue: cut off by others, or damaged by the disk."""

    ready: int
    consumers: int
    held: int = 0
    lost: int = 0


class Got(NamedTuple):
    """One message for a client that polls, and how many are ready behind it."""

    handout: Handout
    message: Message
    ready: int


class QueueHandle(Protocol):
    """One queue."""

    queue: Queue
    # Unlike its name, no other queue ever has this.
    key: str
    # The queue was deleted, or is hosted elsewhere now: its consumers were told which (``Sink``).
    is_gone: bool

    @property
    def settings(self) -> QueueSettings:
        """What its arguments and policies come to."""
        ...

    def wake(self) -> None:
        """A consumer may take more: look at everything once more, soon."""
        ...

    # --- messages in -------------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message]) -> Taken:
        """Publish messages, in order. Those not admitted become dead letters if the queue wants that.

        Raises what its log does: then nothing of them is kept.
        """
        ...

    # --- messages out ------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, sink: "Sink") -> "asyncio.Future[None] | None":
        """A consumer comes. Raises ``QueueInUse``, or the future does."""
        ...

    def cancel(self, owner: str) -> "asyncio.Future[None] | None":
        """A consumer goes; what it holds stays its channel's. Nothing is handed out to it afterwards."""
        ...

    def lose_channel(self, channel: str) -> None:
        """A channel is gone with all its consumers and all that they hold."""
        ...

    def message(self, lane: int, offset: int) -> Message:
        """A message that was handed out and has not been asked for."""
        ...

    def settle(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        """These are done."""
        ...

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        """These go back to their places."""
        ...

    def reject(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        """No consumer gets these again."""
        ...

    def lose(self, lane: int, offset: int, consumer: Consumer) -> None:
        """A message that was handed out could not be had: the consumer has room for another one."""
        ...

    # --- questions ---------------------------------------------------------------------------------

    async def counted(self) -> Counts:
        """Return how full the queue is, with all that was published before. Asking counts as a use of it."""
        ...

    async def glance(self) -> Counts:
        """How full it is now; a look is no use of it."""
        ...

    async def got(self, consumer: Consumer) -> Got | None:
        """Return one message for a client's basic.get; None if there is none."""
        ...

    async def purged(self) -> int:
        """Everything that is ready is over. How much it was."""
        ...

    async def delete_if(self, command: DeleteQueue) -> int:
        """Delete the queue if it is as the command wants it, and nothing comes into it meanwhile.

        How many messages it had. Raises ``ResourceInUse``; ``UnknownResource`` if it is gone.
        """
        ...


class Sink(Protocol):
    """Where a consumer's messages go."""

    # Whether it goes with its queue when another node hosts that.
    follows: bool

    def room(self, consumer: Consumer) -> int:
        """How many more it takes now."""
        ...

    def hand_out(self, queue: QueueHandle, handout: Handout) -> None:
        """These are the consumer's; ``queue.message`` gives them one by one."""
        ...

    def send_out(self) -> None:
        """A queue has handed out all that it can now: no need to wait for more before sending it."""
        ...

    def cancelled(self, consumer: Consumer) -> None:
        """The queue is gone."""
        ...

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None:
        """The queue is hosted by another node: this is its handle from now on.

        What was handed out and not settled will come again.
        """
        ...

    def unread(self, queue: QueueHandle, lane: int) -> int:
        """The lowest offset that was handed out and not asked for yet; ``NEVER_READ`` if there is none."""
        ...
