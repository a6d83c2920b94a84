"""All transactional ids of one coordinator: commands in, records and responses out.

A transaction is opened by its first partition, decided by one record (``PREPARE_COMMIT`` or
``PREPARE_ABORT``) and complete when every partition has its marker. Once the deciding record is in the log
nothing can change the outcome: a coordinator that finds a prepared transaction, also after a crash, writes
its markers from that record alone (producer id, epoch, partitions).

Fencing is by epoch. A new incarnation, a time-out, and, for clients of the second generation (KIP-890), every
end of a transaction raises the epoch; the markers carry the new one, so that partitions refuse the batches of
older ones. When epochs run out, the producer gets a new producer id.

``decide`` changes nothing; the host appends the record and then calls ``apply``.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar, cast

from millpond.base.errors import (
    ConcurrentTransactions,
    InvalidProducerMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    TransactionAbortable,
    TransactionFenced,
)
from millpond.txn.messages import (
    EPOCH_LAST,
    AbortOverdue,
    AddPartitions,
    Command,
    Decision,
    EndTransaction,
    ForgetIdle,
    Identity,
    InitProducer,
    MarkersWritten,
    NeedsProducerId,
    TransactionSettings,
)
from millpond.txn.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Place,
    Status,
    TransactionForgotten,
    TransactionRecord,
    TransactionStored,
)

AnswerT = TypeVar("AnswerT")

_COMPLETE = {
    Status.PREPARE_COMMIT: Status.COMPLETE_COMMIT,
    Status.PREPARE_ABORT: Status.COMPLETE_ABORT,
}
_COMMITS = frozenset({Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT})


class TransactionCoordinator:
    """Transactions by transactional id."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, TransactionStored] = {}

    # --- deciding ---------------------------------------------------------------------------------

    def decide(self, command: Command[AnswerT], now_ms: int) -> Decision[AnswerT]:
        """Decide a command. Raises a ``MillpondError`` to refuse it, or ``NeedsProducerId``."""
        if not command.transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        answer, record = self._dispatch(command, now_ms)
        if isinstance(record, TransactionStored):
            record = _after(self.transactions.get(command.transactional_id), record)
        return Decision(answer=cast("AnswerT", answer), record=record)

    def _dispatch(
        self, command: Command[AnswerT], now_ms: int
    ) -> tuple[object, TransactionRecord | None]:
        match command:
            case InitProducer():
                return self._init(command, now_ms)
            case AddPartitions():
                return None, self._add(command, now_ms)
            case EndTransaction():
                return self._end(command, now_ms)
            case MarkersWritten():
                return None, self._complete(command, now_ms)
            case AbortOverdue():
                return None, self._abort_overdue(command, now_ms)
            case ForgetIdle():
                return None, self._forget_idle(command, now_ms)
            case _:
                raise AssertionError(f"unknown command {type(command).__name__}")

    # --- init producer ------------------------------------------------------------------------------

    def _init(
        self, command: InitProducer, now_ms: int
    ) -> tuple[Identity | None, TransactionStored | None]:
        if not 0 < command.timeout_ms <= self.settings.timeout_ms_max:
            raise InvalidTransactionTimeout(
                f"a transaction time-out of {command.timeout_ms} ms is not within 1 to "
                f"{self.settings.timeout_ms_max} (transaction.max.timeout.ms)"
            )
        known = self.transactions.get(command.transactional_id)
        if known is None:
            # A producer with an identity from before the id expired gets a new one as well.
            taken = _taken_over(command, now_ms, Identity(_fresh(command), 0))
            return _identity(taken), taken
        _check_known_identity(known, command)
        if known.is_prepared:
            raise ConcurrentTransactions(
                f"transaction {known.transactional_id!r} is being ended; try again"
            )
        if known.status == Status.ONGOING:
            if command.producer_epoch not in {NO_PRODUCER_EPOCH, known.producer_epoch}:
                raise _fenced(known, command.producer_epoch)
            # No producer gets this epoch: the producer that takes over gets the one after it.
            return None, _aborted_by_fence(known, now_ms)
        taken = _next_incarnation(known, command, now_ms)
        return _identity(taken), taken

    # --- writing ----------------------------------------------------------------------------------

    def _add(self, command: AddPartitions, now_ms: int) -> TransactionStored | None:
        known = self._owned(command.transactional_id, command.producer_id, command.producer_epoch)
        if known.status == Status.ONGOING:
            if command.partitions <= known.partitions:
                return None
            return replace(
                known, partitions=known.partitions | command.partitions, updated_ms=now_ms
            )
        return replace(
            known,
            status=Status.ONGOING,
            partitions=command.partitions,
            started_ms=now_ms,
            updated_ms=now_ms,
            client_version=command.client_version,
        )

    def check_writes(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: Place
    ) -> None:
        """Check that this producer may write to a partition inside its transaction. Raises why not."""
        known = self._owned(transactional_id, producer_id, producer_epoch)
        if known.status != Status.ONGOING or place not in known.partitions:
            raise TransactionAbortable(
                f"partition {place[0]}-{place[1]} was not added to the transaction "
                f"{transactional_id!r}; abort it"
            )

    def _owned(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> TransactionStored:
        """Return the transaction, if it belongs to this producer and accepts writes."""
        known = self._known(transactional_id)
        if known.producer_id != producer_id:
            raise _not_mapped(known, producer_id)
        if known.producer_epoch != producer_epoch:
            raise _fenced(known, producer_epoch)
        if known.is_prepared:
            raise ConcurrentTransactions(
                f"the previous transaction of {transactional_id!r} is being ended; try again"
            )
        return known

    def _known(self, transactional_id: str) -> TransactionStored:
        known = self.transactions.get(transactional_id)
        if known is None:
            raise InvalidProducerMapping(f"transactional id {transactional_id!r} is not known")
        return known

    # --- ending -----------------------------------------------------------------------------------

    def _end(
        self, command: EndTransaction, now_ms: int
    ) -> tuple[Identity, TransactionStored | None]:
        known = self._known(command.transactional_id)
        is_retry = _ended_before(known, command)
        if known.producer_id != command.producer_id and not is_retry:
            raise _not_mapped(known, command.producer_id)
        if known.producer_epoch != command.producer_epoch and not is_retry:
            raise _fenced(known, command.producer_epoch)
        if known.status == Status.ONGOING:
            prepared = _prepared(known, command, now_ms)
            return _identity_after(prepared), prepared
        same_outcome = command.committed == (known.status in _COMMITS)
        if known.is_prepared:
            if same_outcome or not is_retry:
                raise ConcurrentTransactions(
                    f"transaction {known.transactional_id!r} is being ended; try again"
                )
            raise _wrong_state(known, command)
        answered_before = is_retry or known.client_version < 2
        if known.status != Status.EMPTY and answered_before and same_outcome:
            return _identity(known), None
        if command.bumps_epoch and not command.committed and not is_retry:
            # Nothing was written yet; the producer only makes sure that nothing will be.
            prepared = _prepared(replace(known, started_ms=now_ms), command, now_ms)
            return _identity_after(prepared), prepared
        raise _wrong_state(known, command)

    def _complete(self, command: MarkersWritten, now_ms: int) -> TransactionStored | None:
        known = self.transactions.get(command.transactional_id)
        if known is None or not known.is_prepared:
            return None
        complete = replace(
            known, status=_COMPLETE[known.status], partitions=frozenset(), updated_ms=now_ms
        )
        if known.next_producer_id == NO_PRODUCER_ID:
            return complete
        return replace(
            complete,
            producer_id=known.next_producer_id,
            producer_epoch=0,
            next_producer_id=NO_PRODUCER_ID,
            last_producer_epoch=known.producer_epoch - 1,
        )

    def _abort_overdue(self, command: AbortOverdue, now_ms: int) -> TransactionStored | None:
        known = self.transactions.get(command.transactional_id)
        if known is None or not _is_overdue(known, now_ms):
            return None
        return _aborted_by_fence(known, now_ms)

    def _forget_idle(self, command: ForgetIdle, now_ms: int) -> TransactionForgotten | None:
        known = self.transactions.get(command.transactional_id)
        if known is None or not self._is_expired(known, now_ms):
            return None
        return TransactionForgotten(transactional_id=command.transactional_id)

    def _is_expired(self, known: TransactionStored, now_ms: int) -> bool:
        return known.is_idle and known.updated_ms + self.settings.expiration_ms <= now_ms

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, record: TransactionRecord) -> None:
        """Apply a record that is in the log, just appended or replayed."""
        if isinstance(record, TransactionForgotten):
            self.transactions.pop(record.transactional_id, None)
        else:
            self.transactions[record.transactional_id] = record

    # --- reading ----------------------------------------------------------------------------------

    def prepared(self) -> Iterator[str]:
        """Yield the ids whose outcome is decided but whose markers may not all be written."""
        return (name for name, known in self.transactions.items() if known.is_prepared)

    def overdue(self, now_ms: int) -> Iterator[str]:
        return (name for name, known in self.transactions.items() if _is_overdue(known, now_ms))

    def expired(self, now_ms: int) -> Iterator[str]:
        return (
            name for name, known in self.transactions.items() if self._is_expired(known, now_ms)
        )


def commits(known: TransactionStored) -> bool:
    """Return whether a prepared transaction commits."""
    assert known.is_prepared
    return known.status in _COMMITS


def _is_overdue(known: TransactionStored, now_ms: int) -> bool:
    return known.status == Status.ONGOING and known.started_ms + known.timeout_ms <= now_ms


# --- identities -----------------------------------------------------------------------------------


def _identity(known: TransactionStored) -> Identity:
    return Identity(known.producer_id, known.producer_epoch)


def _identity_after(prepared: TransactionStored) -> Identity:
    """Return the producer's identity once a prepared transaction is complete."""
    if prepared.next_producer_id != NO_PRODUCER_ID:
        return Identity(prepared.next_producer_id, 0)
    return _identity(prepared)


def _fresh(command: InitProducer | EndTransaction) -> int:
    if command.fresh_producer_id is None:
        raise NeedsProducerId(command.transactional_id)
    return command.fresh_producer_id


def _check_known_identity(known: TransactionStored, command: InitProducer) -> None:
    """Check the identity that a producer claims to have (KIP-360): it must be the last one, or the one before
    a bump that is retried.
    """
    if command.producer_id == NO_PRODUCER_ID:
        return
    is_current = command.producer_id == known.producer_id
    is_previous = (
        command.producer_id == known.previous_producer_id and command.producer_epoch >= EPOCH_LAST
    )
    if not is_current and not is_previous:
        raise _fenced(known, command.producer_epoch)
    if is_current and command.producer_epoch == known.producer_epoch:
        return
    if command.producer_epoch != known.last_producer_epoch:
        raise _fenced(known, command.producer_epoch)


def _next_incarnation(
    known: TransactionStored, command: InitProducer, now_ms: int
) -> TransactionStored:
    continues = command.producer_id != NO_PRODUCER_ID
    is_current = command.producer_epoch == known.producer_epoch
    if continues and not (is_current and command.producer_id == known.producer_id):
        # The requested bump was made; only the response was lost.
        return replace(
            _taken_over(command, now_ms, _identity(known)),
            last_producer_epoch=known.last_producer_epoch,
        )
    last_epoch = known.producer_epoch if continues else NO_PRODUCER_EPOCH
    next_identity = (
        Identity(_fresh(command), 0)
        if known.producer_epoch >= EPOCH_LAST
        else Identity(known.producer_id, known.producer_epoch + 1)
    )
    return replace(_taken_over(command, now_ms, next_identity), last_producer_epoch=last_epoch)


def _after(known: TransactionStored | None, record: TransactionStored) -> TransactionStored:
    """Return the record with the fields that Kafka copies from the one before it."""
    if known is None:
        return replace(record, previous_producer_id=record.producer_id)
    is_init = record.status == Status.EMPTY
    is_repeated = is_init and _identity(record) == _identity(known)
    return replace(
        record,
        # A retried response changes nothing, so that it can be retried once more.
        previous_producer_id=known.previous_producer_id if is_repeated else known.producer_id,
        client_version=known.client_version if is_init else record.client_version,
    )


def _taken_over(command: InitProducer, now_ms: int, identity: Identity) -> TransactionStored:
    return TransactionStored(
        transactional_id=command.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        timeout_ms=command.timeout_ms,
        status=Status.EMPTY,
        updated_ms=now_ms,
    )


# --- outcomes -------------------------------------------------------------------------------------


def _ended_before(known: TransactionStored, command: EndTransaction) -> bool:
    """Return whether the request retries the end that made the present epoch."""
    if not command.bumps_epoch or known.client_version < 2:
        return False
    if known.status in {Status.EMPTY, Status.ONGOING}:
        return False
    if known.producer_id == command.producer_id:
        return known.producer_epoch == command.producer_epoch + 1
    return (
        known.previous_producer_id == command.producer_id
        and known.producer_epoch == 0
        and command.producer_epoch == EPOCH_LAST
    )


def _prepared(known: TransactionStored, command: EndTransaction, now_ms: int) -> TransactionStored:
    status = Status.PREPARE_COMMIT if command.committed else Status.PREPARE_ABORT
    if not command.bumps_epoch:
        return replace(known, status=status, updated_ms=now_ms, client_version=0)
    is_last = known.producer_epoch >= EPOCH_LAST
    return replace(
        known,
        status=status,
        updated_ms=now_ms,
        producer_epoch=known.producer_epoch + 1,
        last_producer_epoch=known.producer_epoch,
        next_producer_id=_fresh(command) if is_last else NO_PRODUCER_ID,
        client_version=2,
    )


def _aborted_by_fence(known: TransactionStored, now_ms: int) -> TransactionStored:
    """Return an abort that the producer did not ask for: with the epoch raised, it is fenced everywhere.

    It may continue from there, as after an abort of its own, unless another producer took over the id: its
    epoch is remembered.
    """
    return replace(
        known,
        status=Status.PREPARE_ABORT,
        producer_epoch=known.producer_epoch + 1,
        last_producer_epoch=known.producer_epoch,
        updated_ms=now_ms,
        client_version=2,
    )


# --- refusals -------------------------------------------------------------------------------------


def _not_mapped(known: TransactionStored, producer_id: int) -> InvalidProducerMapping:
    return InvalidProducerMapping(
        f"transactional id {known.transactional_id!r} belongs to producer {known.producer_id}, "
        f"not to {producer_id}"
    )


def _fenced(known: TransactionStored, producer_epoch: int) -> TransactionFenced:
    return TransactionFenced(
        f"transactional id {known.transactional_id!r} is at epoch {known.producer_epoch}; a producer "
        f"with epoch {producer_epoch} has been replaced"
    )


def _wrong_state(known: TransactionStored, command: EndTransaction) -> InvalidTransactionState:
    outcome = "committed" if command.committed else "aborted"
    return InvalidTransactionState(
        f"transaction {known.transactional_id!r} is {known.status.title} and cannot be {outcome}"
    )
