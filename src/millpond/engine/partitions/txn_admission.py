"""Whether a write belongs to an open transaction: asked of the transaction's coordinator before the append.

A leader that took a write of a transaction that has ended, or that its coordinator never heard of, would hold
readers of committed data back for ever (KIP-890). So the first write of a producer to a partition waits until
the coordinator has the partition in the transaction, for good. Later writes need no question: the partition
itself knows that the transaction is open.

Between the question and the append a marker may come and end the transaction. It takes the *pass* away that
the question was to give, and the write is refused.

A node that is alone asks itself and needs none of this: see ``Transactions.admit``.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from millpond.base.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidTransactionState,
    MillpondError,
    NotCoordinator,
    NotEnoughReplicas,
    OutOfOrderSequence,
    PeerUnreachable,
    ProducerFenced,
    TransactionAbortable,
    TransactionFenced,
)
from millpond.base.ids import NodeId, TopicPartition
from millpond.engine.peers import JoinTransaction, Peers
from millpond.record.batch import BatchHeader
from millpond.record.producer_abilities import ProducerAbilities
from millpond.replication.partition import Partition
from millpond.txn.records import Place

_ASK_TIMEOUT_MS = 10_000

# Errors when the coordinator cannot be reached; the producer retries the write.
_UNASKED = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator, PeerUnreachable)


class Write(NamedTuple):
    """A producer is about to write to a partition that this node leads."""

    partition: Partition
    producer_id: int
    producer_epoch: int

    @property
    def place(self) -> Place:
        return self.partition.topic, self.partition.index

    @property
    def is_open(self) -> bool:
        """Whether the producer's transaction is open in this partition already."""
        producer = self.partition.log.producers.producers.get(self.producer_id)
        return (
            producer is not None
            and producer.txn_first_offset >= 0
            and producer.epoch == self.producer_epoch
        )


class Passes:
    """Which producers may begin to write in a transaction, and where; each counts for one write."""

    def __init__(self) -> None:
        # By place and producer: the epochs that asked, and whether they may.
        self._asked: dict[tuple[Place, int], dict[int, bool]] = {}

    def ask(self, write: Write) -> None:
        """Note a request to the coordinator."""
        epochs = self._asked.setdefault((write.place, write.producer_id), {})
        epochs[write.producer_epoch] = False

    def grant(self, write: Write) -> None:
        """The coordinator agrees, unless the transaction has ended meanwhile."""
        epochs = self._asked.get((write.place, write.producer_id), {})
        if write.producer_epoch in epochs:
            epochs[write.producer_epoch] = True

    def take(self, write: Write) -> bool:
        """Use up a pass. Return whether there was one."""
        key = write.place, write.producer_id
        epochs = self._asked.get(key, {})
        granted = epochs.pop(write.producer_epoch, False)
        if not epochs:
            self._asked.pop(key, None)
        return granted

    def revoke(self, place: Place, producer_id: int) -> None:
        """Revoke the passes of a transaction that has ended here."""
        self._asked.pop((place, producer_id), None)


class Admission:
    """The question for one request: all its writes are of one transactional id. ``close`` it at the end."""

    def __init__(
        self,
        passes: Passes,
        transactional_id: str,
        writes: Sequence[Write],
        *,
        joins: bool,
        node_id: NodeId,
        peers: Peers | None,
        coordinator_of: Callable[[str], NodeId],
        ask_here: Callable[
            [JoinTransaction], Awaitable[dict[TopicPartition, MillpondError | None]]
        ],
    ) -> None:
        self._node_id = node_id
        self._peers = peers
        self._coordinator_of = coordinator_of
        self._passes = passes
        self._transactional_id = transactional_id
        self._writes = writes
        self._joins = joins
        self._ask_here = ask_here

    async def ask(self) -> dict[Place, MillpondError]:
        """Why not, for each write that must not be made; the others have their passes."""
        refused: dict[Place, MillpondError] = {}
        for write in self._writes:
            self._passes.ask(write)
        # One question for each identity: a request that holds several is refused for all but one of them.
        identities = {(write.producer_id, write.producer_epoch) for write in self._writes}
        for producer_id, producer_epoch in sorted(identities):
            mine = [one for one in self._writes if one[1:] == (producer_id, producer_epoch)]
            request = JoinTransaction(
                transactional_id=self._transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=not self._joins,
                partitions=tuple(TopicPartition(*write.place) for write in mine),
            )
            try:
                results = await self._ask(request)
            except MillpondError as error:
                results = dict.fromkeys(request.partitions, error)
            unsaid = CoordinatorNotAvailable("the coordinator says nothing of this partition")
            for write in mine:
                refusal = results.get(TopicPartition(*write.place), unsaid)
                if refusal is None:
                    self._passes.grant(write)
                else:
                    refused[write.place] = refusal
        return refused

    def close(self) -> None:
        """Drop unused passes: the writes are made, or will not be."""
        for write in self._writes:
            self._passes.take(write)

    async def _ask(self, request: JoinTransaction) -> dict[TopicPartition, MillpondError | None]:
        leader = self._coordinator_of(request.transactional_id)
        if leader < 0:
            raise CoordinatorNotAvailable(
                f"nobody coordinates transactional id {request.transactional_id!r} now"
            )
        if leader == self._node_id or self._peers is None:
            return await self._ask_here(request)
        return await self._peers.call(leader, request, timeout_ms=_ASK_TIMEOUT_MS)


def without_pass(write: Write) -> MillpondError:
    """Return the retriable error for a write without admission, or whose transaction has just ended."""
    return NotEnoughReplicas(
        f"producer {write.producer_id} epoch {write.producer_epoch}: partition {write.place[0]}-"
        f"{write.place[1]} is not known to be part of its transaction now; try again"
    )


def refusal_of_write(error: MillpondError, producer: ProducerAbilities) -> MillpondError:
    """What a producer with these abilities is told of what its coordinator says."""
    match error:
        case TransactionFenced():
            # For writes fencing is an error that a producer can abort on (KIP-588).
            return ProducerFenced(str(error))
        case TransactionAbortable() if not producer.knows_abortable:
            return InvalidTransactionState(str(error))
        case ConcurrentTransactions() if not producer.joins_transactions:
            # Older producers retry this one without asking for the metadata again.
            return NotEnoughReplicas(str(error))
        case _ if isinstance(error, _UNASKED):
            return NotEnoughReplicas(str(error))
        case _:
            return error


def refusal_of_commit(error: MillpondError, producer: ProducerAbilities) -> MillpondError:
    """What a producer that commits offsets in a transaction is told of what its coordinator says."""
    match error:
        case TransactionFenced():
            return ProducerFenced(str(error))
        case TransactionAbortable() if not producer.knows_abortable:
            return InvalidTransactionState(str(error))
        case PeerUnreachable():
            # The client asks the same group coordinator again instead of looking for another one.
            return CoordinatorLoadInProgress(str(error))
        case _:
            return error


def check_beginning(partition: Partition, header: BatchHeader) -> None:
    """A partition that knows nothing of a producer must see its first batch first (KIP-890)."""
    producer = partition.log.producers.producers.get(header.producer_id)
    if producer is None or not producer.batches:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} epoch {header.producer_epoch} begins with sequence "
            f"{header.base_sequence}, expected 0"
        )
