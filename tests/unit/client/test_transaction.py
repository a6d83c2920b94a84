"""Transactions: what may be called when, and what both generations say to the coordinator."""

import pytest

from millpond.base.ids import TopicPartition
from millpond.client import ProducerFenced, TransactionBroken, WrongState
from millpond.client._transaction import Transaction, TxnState

A = TopicPartition("t", 0)


def begun(*, second_generation: bool = False) -> Transaction:
    transaction = Transaction("x")
    transaction.initialised()
    transaction.second_generation = second_generation
    transaction.begin()
    return transaction


def test_calls_in_the_wrong_order_say_what_comes_first() -> None:
    transaction = Transaction("x")
    with pytest.raises(WrongState, match="init_transactions"):
        transaction.begin()
    transaction.initialised()
    with pytest.raises(WrongState, match="begin_transaction"):
        transaction.touch(A)
    transaction.begin()
    with pytest.raises(WrongState, match="commit or abort"):
        transaction.begin()


def test_the_first_generation_announces_partitions() -> None:
    transaction = begun()
    transaction.touch(A)
    assert not transaction.may_send(A)
    assert transaction.to_add() == [A]
    transaction.added([A])
    assert transaction.may_send(A)
    assert transaction.to_add() == []


def test_the_second_generation_does_not() -> None:
    transaction = begun(second_generation=True)
    transaction.touch(A)
    assert transaction.may_send(A)
    assert transaction.to_add() == []
    assert transaction.has_work


def test_an_empty_transaction_is_nothing_to_the_coordinator() -> None:
    assert not begun().has_work


def test_a_lost_batch_leaves_only_the_abort() -> None:
    transaction = begun()
    transaction.fail(RuntimeError("the disk is full"))
    with pytest.raises(TransactionBroken, match="the disk is full; abort"):
        transaction.require(TxnState.OPEN, "commit")
    transaction.ended()
    transaction.begin()
    assert not transaction.may_send(A)  # nothing of the old one is left


def test_fenced_is_for_good() -> None:
    transaction = begun()
    transaction.fence(RuntimeError("epoch 4 is old"))
    transaction.ended()
    with pytest.raises(ProducerFenced, match="close this one"):
        transaction.begin()
