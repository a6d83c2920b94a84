"""The transaction coordinator alone: two values in, a decision out, a list for a log."""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from millpond.base.errors import (
    ConcurrentTransactions,
    InvalidProducerMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    TransactionAbortable,
    TransactionFenced,
)
from millpond.txn import records
from millpond.txn.coordinator import TransactionCoordinator, commits
from millpond.txn.messages import (
    EPOCH_LAST,
    AbortOverdue,
    AddPartitions,
    Command,
    EndTransaction,
    ForgetIdle,
    Identity,
    InitProducer,
    MarkersWritten,
    NeedsProducerId,
    TransactionSettings,
)
from millpond.txn.records import Place, Status, TransactionStored

AnswerT = TypeVar("AnswerT")

ID = "payments"
HERE: Place = ("orders", 0)
THERE: Place = ("orders", 1)


@dataclass
class Desk:
    """A host in miniature: the log is a list, markers are noted and written at once unless told."""

    settings: TransactionSettings = field(default_factory=TransactionSettings)
    now_ms: int = 1_700_000_000_000
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    markers: list[tuple[Identity, bool, frozenset[Place]]] = field(default_factory=list)
    writes_markers: bool = True
    next_id: int = 4000

    def __post_init__(self) -> None:
        self.coordinator = TransactionCoordinator(self.settings)
        for key, value in self.log:
            self.coordinator.apply(records.decode(key, value))

    def perform(self, command: Command[AnswerT]) -> AnswerT:
        decision = self.coordinator.decide(command, self.now_ms)
        if decision.record is not None:
            self.log.append(records.encode(decision.record))
            self.coordinator.apply(decision.record)
            if self.writes_markers:
                self.finish()
        return decision.answer

    def finish(self) -> None:
        for name in list(self.coordinator.prepared()):
            known = self.coordinator.transactions[name]
            identity = Identity(known.producer_id, known.producer_epoch)
            self.markers.append((identity, commits(known), known.partitions))
            self.perform(MarkersWritten(transactional_id=name))

    def restart(self) -> "Desk":
        return Desk(settings=self.settings, now_ms=self.now_ms, log=self.log, next_id=self.next_id)

    # --- what producers do ------------------------------------------------------------------------

    def init(self, known: Identity | None = None, *, timeout_ms: int = 60_000) -> Identity:
        command = InitProducer(transactional_id=ID, timeout_ms=timeout_ms)
        if known is not None:
            command = replace(command, producer_id=known.producer_id, producer_epoch=known.epoch)
        while True:
            try:
                answer = self.perform(command)
            except NeedsProducerId:
                command = replace(command, fresh_producer_id=self.next_id)
                self.next_id += 1
                continue
            if answer is not None:
                return answer

    def add(self, identity: Identity, *places: Place) -> None:
        self.perform(
            AddPartitions(
                transactional_id=ID,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                partitions=frozenset(places or (HERE,)),
            )
        )

    def end(self, identity: Identity, *, commit: bool, bumps: bool = False) -> Identity:
        command = EndTransaction(
            transactional_id=ID,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
            bumps_epoch=bumps,
        )
        try:
            return self.perform(command)
        except NeedsProducerId:
            self.next_id += 1
            return self.perform(replace(command, fresh_producer_id=self.next_id - 1))

    def at_epoch(self, epoch: int) -> Identity:
        """As if the id had been used that often."""
        identity = self.init()
        known = self.state
        self.coordinator.apply(replace(known, producer_epoch=epoch))
        return Identity(identity.producer_id, epoch)

    @property
    def state(self) -> TransactionStored:
        return self.coordinator.transactions[ID]

    @property
    def status(self) -> Status:
        return self.state.status


# --- identities ------------------------------------------------------------------------------------


def test_each_incarnation_gets_the_next_epoch() -> None:
    desk = Desk()

    assert [desk.init(), desk.init(), desk.init()] == [(4000, 0), (4000, 1), (4000, 2)]


def test_epochs_go_on_after_a_restart() -> None:
    desk = Desk()
    desk.init()

    assert desk.restart().init() == (4000, 1)


def test_used_up_epochs_are_followed_by_a_new_producer_id() -> None:
    desk = Desk()
    desk.at_epoch(EPOCH_LAST)

    assert desk.init() == (4001, 0)
    assert desk.state.previous_producer_id == 4000


def test_a_producer_may_bump_its_own_epoch_and_lose_the_answer() -> None:
    desk = Desk()
    first = desk.init()

    bumped = desk.init(first)

    assert bumped == (4000, 1)
    assert desk.init(first) == bumped  # the retry
    assert desk.init(bumped) == (4000, 2)


def test_a_bump_that_brought_a_new_producer_id_may_be_retried() -> None:
    desk = Desk()
    last = desk.at_epoch(EPOCH_LAST)

    assert desk.init(last) == (4001, 0)
    assert desk.init(last) == (4001, 0)


def test_a_bump_by_a_replaced_producer_is_fenced() -> None:
    desk = Desk()
    first = desk.init()
    desk.init()

    with pytest.raises(TransactionFenced):
        desk.init(first)
    with pytest.raises(TransactionFenced):
        desk.init(Identity(9, 0))


def test_a_replaced_producer_cannot_abort_the_transaction_of_its_successor() -> None:
    desk = Desk()
    first = desk.init()
    second = desk.init(first)
    desk.add(second)

    with pytest.raises(TransactionFenced):
        desk.init(first)
    assert desk.status is Status.ONGOING


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_beyond_what_the_broker_allows_is_refused(timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeout):
        Desk().init(timeout_ms=timeout_ms)


def test_a_transactional_id_needs_a_name() -> None:
    with pytest.raises(InvalidRequest):
        Desk().perform(InitProducer(transactional_id="", timeout_ms=1))


# --- the first generation of clients ----------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_opened_by_its_first_partition_and_marked_in_all(commit: bool) -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer, HERE)
    desk.add(producer, THERE)
    assert desk.status is Status.ONGOING

    assert desk.end(producer, commit=commit) == producer

    assert desk.markers == [(producer, commit, frozenset({HERE, THERE}))]
    assert desk.status is (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT)
    assert desk.state.partitions == frozenset()


def test_adding_what_is_there_already_writes_nothing() -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer, HERE, THERE)
    written = len(desk.log)

    desk.add(producer, HERE)

    assert len(desk.log) == written


def test_the_end_may_be_asked_for_again_but_not_otherwise() -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer)
    desk.end(producer, commit=True)

    assert desk.end(producer, commit=True) == producer
    with pytest.raises(InvalidTransactionState):
        desk.end(producer, commit=False)
    assert len(desk.markers) == 1


def test_what_was_never_begun_cannot_be_ended() -> None:
    desk = Desk()
    producer = desk.init()

    for commit in (True, False):
        with pytest.raises(InvalidTransactionState):
            desk.end(producer, commit=commit)


def test_while_markers_are_missing_everyone_has_to_wait() -> None:
    desk = Desk(writes_markers=False)
    producer = desk.init()
    desk.add(producer)
    desk.end(producer, commit=True)
    assert list(desk.coordinator.prepared()) == [ID]

    with pytest.raises(ConcurrentTransactions):
        desk.add(producer)
    with pytest.raises(ConcurrentTransactions):
        desk.end(producer, commit=True)
    with pytest.raises(ConcurrentTransactions):
        desk.init()

    desk.finish()
    desk.add(producer)
    assert desk.status is Status.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_crash_between_the_decision_and_the_markers_changes_nothing(commit: bool) -> None:
    desk = Desk(writes_markers=False)
    producer = desk.init()
    desk.add(producer, HERE, THERE)
    desk.end(producer, commit=commit)

    after = desk.restart()
    after.finish()

    assert after.markers == [(producer, commit, frozenset({HERE, THERE}))]
    assert after.end(producer, commit=commit) == producer


def test_strangers_and_the_replaced_are_told_apart() -> None:
    desk = Desk()
    first = desk.init()
    desk.add(first)
    second = desk.init()

    with pytest.raises(TransactionFenced):
        desk.add(first)
    with pytest.raises(TransactionFenced):
        desk.end(first, commit=True)
    with pytest.raises(InvalidProducerMapping):
        desk.add(Identity(99, second.epoch))
    with pytest.raises(InvalidProducerMapping):
        desk.end(Identity(99, 0), commit=True)
    with pytest.raises(InvalidProducerMapping):
        desk.perform(
            AddPartitions(
                transactional_id="other",
                producer_id=4000,
                producer_epoch=0,
                partitions=frozenset({HERE}),
            )
        )


def test_writes_are_checked_against_what_was_added() -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer, HERE)
    check = desk.coordinator.check_writes

    check(ID, *producer, HERE)
    with pytest.raises(TransactionAbortable):
        check(ID, *producer, THERE)
    with pytest.raises(TransactionFenced):
        check(ID, producer.producer_id, producer.epoch + 1, HERE)

    desk.end(producer, commit=True)
    with pytest.raises(TransactionAbortable):
        check(ID, *producer, HERE)


# --- taking over an open transaction ----------------------------------------------------------------


def test_a_new_incarnation_ends_what_the_old_one_left_open() -> None:
    desk = Desk()
    old = desk.init()
    desk.add(old, HERE)

    new = desk.init()

    # The markers already shut the old one out; the epoch they carry is nobody's.
    assert desk.markers == [((4000, 1), False, frozenset({HERE}))]
    assert new == (4000, 2)
    with pytest.raises(TransactionFenced):
        desk.end(old, commit=True)


def test_fencing_with_the_last_epoch_leads_to_a_new_producer_id() -> None:
    desk = Desk()
    desk.add(desk.at_epoch(EPOCH_LAST))

    assert desk.init() == (4001, 0)
    assert desk.markers == [((4000, EPOCH_LAST + 1), False, frozenset({HERE}))]


# --- the second generation of clients (KIP-890) -----------------------------------------------------


def test_every_end_bumps_the_epoch_and_the_markers_carry_it() -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer, HERE)

    after = desk.end(producer, commit=True, bumps=True)

    assert after == (4000, 1)
    assert desk.markers == [((4000, 1), True, frozenset({HERE}))]
    desk.add(after)
    with pytest.raises(TransactionFenced):
        desk.add(producer)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_whose_answer_was_lost_is_answered_again(commit: bool, restart: bool) -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer)
    after = desk.end(producer, commit=commit, bumps=True)
    if restart:
        desk = desk.restart()

    assert desk.end(producer, commit=commit, bumps=True) == after
    with pytest.raises(InvalidTransactionState):
        desk.end(producer, commit=not commit, bumps=True)
    assert desk.init(producer) == after  # or it gives up and bumps: the bump was made


def test_a_retry_while_markers_are_missing_has_to_wait() -> None:
    desk = Desk(writes_markers=False)
    producer = desk.init()
    desk.add(producer)
    after = desk.end(producer, commit=True, bumps=True)

    with pytest.raises(ConcurrentTransactions):
        desk.end(producer, commit=True, bumps=True)
    with pytest.raises(InvalidTransactionState):
        desk.end(producer, commit=False, bumps=True)
    with pytest.raises(ConcurrentTransactions):
        desk.end(after, commit=False, bumps=True)


def test_an_abort_of_nothing_still_bumps_the_epoch() -> None:
    desk = Desk()
    producer = desk.init()

    second = desk.end(producer, commit=False, bumps=True)
    third = desk.end(second, commit=False, bumps=True)

    assert (second, third) == ((4000, 1), (4000, 2))
    with pytest.raises(InvalidTransactionState):
        desk.end(third, commit=True, bumps=True)


@pytest.mark.parametrize("restart", [False, True])
def test_ends_go_on_beyond_the_last_epoch(restart: bool) -> None:
    desk = Desk()
    last = desk.at_epoch(EPOCH_LAST)
    desk.add(last)

    after = desk.end(last, commit=True, bumps=True)

    assert after == (4001, 0)
    assert desk.markers == [((4000, EPOCH_LAST + 1), True, frozenset({HERE}))]
    if restart:
        desk = desk.restart()
    assert desk.end(last, commit=True, bumps=True) == after  # the retry
    desk.add(after)


def test_a_transaction_that_took_too_long_can_only_be_aborted() -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer)
    desk.now_ms += 60_000
    desk.perform(AbortOverdue(transactional_id=ID))
    desk.perform(MarkersWritten(transactional_id=ID))

    for commit in (True, False):
        with pytest.raises(TransactionFenced):
            desk.end(producer, commit=commit, bumps=False)
    with pytest.raises(InvalidTransactionState):
        desk.end(producer, commit=True, bumps=True)
    assert desk.end(producer, commit=False, bumps=True) == Identity(
        producer.producer_id, producer.epoch + 1
    )


# --- time -------------------------------------------------------------------------------------------


def test_a_transaction_is_overdue_when_its_producer_says_so() -> None:
    desk = Desk()
    producer = desk.init(timeout_ms=5_000)
    desk.add(producer)
    desk.now_ms += 4_999
    desk.add(producer, THERE)  # more of it does not buy time
    assert not list(desk.coordinator.overdue(desk.now_ms))

    desk.perform(AbortOverdue(transactional_id=ID))
    assert desk.status is Status.ONGOING
    desk.now_ms += 1
    assert list(desk.coordinator.overdue(desk.now_ms)) == [ID]
    desk.perform(AbortOverdue(transactional_id=ID))

    assert desk.markers == [((4000, 1), False, frozenset({HERE, THERE}))]
    with pytest.raises(TransactionFenced):
        desk.add(producer)


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    desk = Desk(settings=TransactionSettings(expiration_ms=1_000))
    desk.init()
    desk.now_ms += 999
    desk.perform(ForgetIdle(transactional_id=ID))
    assert ID in desk.coordinator.transactions

    desk.now_ms += 1
    assert list(desk.coordinator.expired(desk.now_ms)) == [ID]
    desk.perform(ForgetIdle(transactional_id=ID))

    assert not desk.coordinator.transactions
    assert not desk.restart().coordinator.transactions
    assert desk.init(Identity(4000, 0)) == (4001, 0)


def test_an_open_transaction_is_never_forgotten() -> None:
    desk = Desk(settings=TransactionSettings(expiration_ms=1_000))
    desk.add(desk.init())
    desk.now_ms += 10_000

    desk.perform(ForgetIdle(transactional_id=ID))

    assert desk.status is Status.ONGOING


def test_unknown_commands_are_our_own_mistake() -> None:
    class Nonsense(Command[None]):
        transactional_id = ID

    command: Any = Nonsense()
    with pytest.raises(AssertionError):
        Desk().perform(command)
