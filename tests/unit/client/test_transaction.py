"""Transactions: what may be called when, and what both generations say to the coordinator."""

import asyncio
from typing import Any

import pytest

import millpond
from millpond.base.ids import TopicPartition
from millpond.client import ClientError, Producer, ProducerFenced, TransactionBroken, WrongState
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


def test_while_it_is_committed_nothing_is_sent() -> None:
    transaction = begun()
    transaction.touch(A)
    transaction.commit_begins()
    with pytest.raises(WrongState, match="wait for the end"):
        transaction.touch(A)
    with pytest.raises(WrongState, match="wait for the end"):
        transaction.commit_begins()
    transaction.commit_failed()  # nobody answered; it may be tried again
    transaction.commit_begins()
    transaction.fail(RuntimeError("a batch was lost"))
    transaction.commit_failed()
    assert transaction.state is TxnState.BROKEN


@pytest.mark.parametrize("commit", [True, False])
def test_what_another_task_sends_while_the_end_is_under_way_is_refused(commit: bool) -> None:
    """It would be in no transaction: the broker would open one that nobody ends."""

    async def story(broker: millpond.Broker) -> None:
        async with Producer(broker.bootstrap, transactional_id="two tasks") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("t", b"in"))
            calls = producer._calls
            assert calls is not None
            end, refusals = calls.end, []

            async def end_slowly(*args: Any, **options: Any) -> Any:
                with pytest.raises(ClientError) as refusal:
                    await producer.send("t", b"between")
                refusals.append(refusal.value)
                return await end(*args, **options)

            calls.end = end_slowly  # type: ignore[method-assign]
            await (producer.commit_transaction() if commit else producer.abort_transaction())
            assert [type(one) for one in refusals] == [WrongState if commit else TransactionBroken]
            await producer.begin_transaction()
            await producer.send("t", b"next")
            await producer.commit_transaction()

    with millpond.Broker() as broker:
        asyncio.run(asyncio.wait_for(story(broker), 90))
