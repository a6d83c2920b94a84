"""A channel in transaction mode: publishes and acknowledgements that count when they are committed.

Both are checked when they are said: a publish is addressed then, and a tag is known or is not. What was
acknowledged counts for the channel's limit until it is committed. As in RabbitMQ a commit is not one step:
messages are kept in each queue for itself, and a commit is answered when all are.
"""

from typing import TYPE_CHECKING

from millpond.base import errors, limits
from millpond.frontend.amqp.channel import Channel, Transaction
from millpond.frontend.amqp.publishing import Publishing
from millpond.wire.amqp.events import Publish
from millpond.wire.amqp.methods import TxCommitOk, TxRollbackOk, TxSelectOk
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession


# The memory that a publish costs beside its content, so that empty ones are bounded, too.
_OVERHEAD = 256


class ChannelTransactions:
    """The transactions of one session."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session = session

    def select(self, channel: Channel) -> None:
        if channel.confirms is not None:
            raise errors.ResourceInUse("cannot switch from confirm to tx mode")
        if channel.transaction is None:
            self._begin(channel)
        channel.say(TxSelectOk())

    def publish(self, channel: Channel, messages: list[Publish]) -> None:
        """Add publishes to the transaction."""
        transaction = _transaction(channel)
        transaction.size += sum(
            len(publish.body) + len(publish.properties) + _OVERHEAD for publish in messages
        )
        if transaction.size > limits.AMQP_TRANSACTION_BYTES_MAX:
            raise Violation(
                ReplyCode.RESOURCE_ERROR,
                f"a transaction holds at most {limits.AMQP_TRANSACTION_BYTES_MAX} bytes",
                class_id=60,
                method_id=40,
            )
        transaction.publishing.add(messages)

    def acknowledge(self, channel: Channel, verb: str, acks: list[tuple[int, bool]]) -> None:
        """Add acknowledgements to the transaction."""
        transaction = _transaction(channel)
        for tag, multiple in acks:
            held = channel.deliveries.set_aside(tag, multiple=multiple)
            transaction.acks.append((verb, held))

    async def commit(self, channel: Channel) -> None:
        done = _transaction(channel)
        self._begin(channel)
        done.publishing.carry_out()
        for verb, held in done.acks:
            channel.deliveries.settle_aside(held)
            self._session.finish(channel, verb, list(held.values()))
        if not await done.publishing.settled():
            raise errors.ResourceInUse("partial tx completion")
        channel.say(TxCommitOk())

    def roll_back(self, channel: Channel) -> None:
        """Drop publishes and acknowledgements: acknowledged messages are unacknowledged again."""
        for _verb, held in _transaction(channel).acks:
            channel.deliveries.restore(held)
        self._begin(channel)
        channel.say(TxRollbackOk())

    def _begin(self, channel: Channel) -> None:
        channel.transaction = Transaction(Publishing(self._session, channel, in_transaction=True))


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise errors.ResourceInUse("channel is not transactional")
    return channel.transaction
