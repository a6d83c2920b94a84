"""A channel in transaction mode: publishes and acknowledgements that count when they are committed."""

from typing import TYPE_CHECKING

from millpond.base import errors
from millpond.frontend.amqp.channel import Channel, Transaction
from millpond.frontend.amqp.publishing import Publishing
from millpond.wire.amqp.methods import TxCommitOk, TxRollbackOk, TxSelectOk

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession


class Transactions:
    """One session's."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session = session

    def select(self, channel: Channel) -> None:
        if channel.confirms is not None:
            raise errors.ResourceInUse("cannot switch from confirm to tx mode")
        channel.transaction = channel.transaction or Transaction()
        channel.say(TxSelectOk())

    async def commit(self, channel: Channel) -> None:
        session, done = self._session, _transaction(channel)
        channel.transaction = None
        try:
            publishing = Publishing(session, channel)
            publishing.add(done.publishes)
            publishing.carry_out()
            for verb, tag, multiple in done.acks:
                session.acknowledge(channel, verb, [(tag, multiple)])
            is_kept = await publishing.settled()
        finally:
            channel.transaction = Transaction()
        if not is_kept:
            raise errors.ResourceInUse("a message of the transaction was not taken by its queue")
        channel.say(TxCommitOk())

    def roll_back(self, channel: Channel) -> None:
        """Publishes and acks are forgotten: what was acknowledged is still held."""
        _transaction(channel)
        channel.transaction = Transaction()
        channel.say(TxRollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise errors.ResourceInUse("channel is not transactional")
    return channel.transaction
