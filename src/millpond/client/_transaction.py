"""The state of a transactional producer: which calls are allowed, and the partitions. Pure.

    NEW --init--> READY --begin--> OPEN --commit--> COMMITTING --> READY
    OPEN or COMMITTING --a batch is lost--> BROKEN
    OPEN or BROKEN --abort--> READY
    any  --another producer took the id--> FENCED

Nothing may be sent while a commit or an abort is in progress: it would belong to no transaction.
"""

from collections.abc import Iterable
from enum import Enum

from millpond.base.ids import TopicPartition
from millpond.client.errors import ProducerFenced, TransactionBroken, WrongState
from millpond.wire.kafka.api import ErrorCode

FENCING = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class TxnState(Enum):
    """The state of a transactional producer."""

    NEW = "not initialised"
    READY = "without a transaction"
    OPEN = "in a transaction"
    COMMITTING = "in a transaction that is being committed"
    BROKEN = "in a transaction that can only be aborted"
    FENCED = "fenced"


_FIRST = {
    TxnState.NEW: "call init_transactions() first",
    TxnState.READY: "call begin_transaction() first",
    TxnState.OPEN: "commit or abort the transaction first",
    TxnState.COMMITTING: "wait for the end of commit_transaction()",
    TxnState.BROKEN: "call abort_transaction()",
    TxnState.FENCED: "close this producer",
}


class Transaction:
    """One producer's transactions, one after the other."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TxnState.NEW
        self.second_generation = False  # KIP-890: brokers add partitions by themselves
        self.reason: BaseException | None = None
        self._wanted: dict[TopicPartition, None] = {}
        self._added: set[TopicPartition] = set()
        self.has_offsets = False

    @property
    def has_work(self) -> bool:
        """Whether the coordinator may know of this transaction, so that its end must be sent."""
        return bool(self._wanted or self._added or self.has_offsets)

    def initialised(self) -> None:
        """Note that the coordinator has assigned an id and an epoch."""
        self.state = TxnState.READY
        self._clear()

    def begin(self) -> None:
        """Begin a new transaction. Raises ``WrongState``."""
        self.require(TxnState.READY, "begin a transaction")
        self.state = TxnState.OPEN
        self._clear()

    def touch(self, partition: TopicPartition) -> None:
        """Note a write to a partition. Raises if writes are not allowed."""
        if self.state is not TxnState.OPEN:
            self.require(TxnState.OPEN, "send")
        if partition not in self._added:
            self._wanted[partition] = None

    def may_send(self, partition: TopicPartition) -> bool:
        """Return whether the coordinator knows the partition, or need not."""
        return self.second_generation or partition in self._added

    def to_add(self) -> list[TopicPartition]:
        """Return the partitions to add at the coordinator before they are written to."""
        return [] if self.second_generation else list(self._wanted)

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator knows these partitions."""
        for partition in partitions:
            self._wanted.pop(partition, None)
            self._added.add(partition)

    def commit_begins(self) -> None:
        """Begin to commit; nothing may be sent from now on. Raises unless the transaction is intact."""
        self.require(TxnState.OPEN, "commit")
        self.state = TxnState.COMMITTING

    def commit_failed(self) -> None:
        """Note that the result of the commit is unknown; it may be retried."""
        if self.state is TxnState.COMMITTING:
            self.state = TxnState.OPEN

    def ended(self) -> None:
        """Note that the transaction is committed or aborted."""
        if self.state is not TxnState.FENCED:
            self.state = TxnState.READY
        self._clear()

    def fail(self, error: BaseException) -> None:
        """Note a failed batch; the transaction can only be aborted."""
        if self.state in {TxnState.OPEN, TxnState.COMMITTING}:
            self.state = TxnState.BROKEN
            self.reason = error

    def fence(self, error: BaseException) -> None:
        """Note that another producer has taken the transactional id."""
        self.state = TxnState.FENCED
        self.reason = error

    def require(self, state: TxnState, what: str) -> None:
        """Raise why a call that needs ``state`` is not allowed."""
        if self.state is state:
            return
        if self.state is TxnState.FENCED:
            raise ProducerFenced(
                f"{self.transactional_id}: another producer with this transactional id has started;"
                " close this one"
            ) from self.reason
        if self.state is TxnState.BROKEN:
            raise TransactionBroken(
                f"cannot {what}: {self.reason}; abort the transaction and begin again"
            ) from self.reason
        raise WrongState(f"cannot {what} {self.state.value}: {_FIRST[self.state]}")

    def _clear(self) -> None:
        self.reason = None
        self._wanted.clear()
        self._added.clear()
        self.has_offsets = False
