"""Sequence numbers: what is renumbered, and what never is."""

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import Batch
from millpond.client._sequences import EPOCH_MAX, Identity, Sequences, Verdict

A = TopicPartition("t", 0)


def batch(count: int = 10, place: TopicPartition = A) -> Batch:
    made = Batch(place, 0.0)  # only the number of its records matters here
    made.records = range(count)  # type: ignore[assignment]
    return made


def sent(sequences: Sequences, made: Batch) -> Batch:
    assert sequences.may_send(made)
    sequences.number(made)
    made.on_wire = True
    return made


def begun(*, transactional: bool = False) -> Sequences:
    """A producer whose first batch has arrived; it held nothing, to make the numbers easy to read."""
    sequences = Sequences(transactional=transactional)
    sequences.adopt(Identity(1, 0))
    sequences.taken(sent(sequences, batch(0)))
    return sequences


def test_nothing_goes_without_an_id() -> None:
    assert not Sequences().may_send(batch())


def test_numbers_follow_one_another_and_wrap() -> None:
    sequences = begun()
    first = sent(sequences, batch(2**31 - 5))
    second = sent(sequences, batch(10))
    third = sent(sequences, batch(1))
    assert (first.sequence, second.sequence, third.sequence) == (0, 2**31 - 5, 5)


def test_what_comes_back_goes_alone_and_oldest_first() -> None:
    sequences = begun()
    first, second = sent(sequences, batch()), sent(sequences, batch())
    first.on_wire = second.on_wire = False
    assert not sequences.may_send(second)
    assert sequences.may_send(first)
    sequences.taken(first)
    assert sequences.may_send(second)


def test_too_early_is_sent_again_unchanged() -> None:
    sequences = begun()
    first, second = sent(sequences, batch()), sent(sequences, batch())
    second.on_wire = False
    assert sequences.refused(second) is Verdict.SEND_AGAIN
    sequences.taken(first)
    assert sequences.may_send(second)
    assert (second.sequence, second.identity) == (10, (1, 0))


def test_a_refusal_of_the_oldest_begins_a_new_epoch_once_the_wire_is_quiet() -> None:
    sequences = begun()
    first, second = sent(sequences, batch()), sent(sequences, batch())
    first.on_wire = False
    assert sequences.refused(first) is Verdict.SEND_AGAIN
    assert not sequences.may_send(first)
    second.on_wire = False
    assert sequences.refused(second) is Verdict.SEND_AGAIN
    assert sequences.may_send(first)
    assert (first.sequence, first.identity) == (0, (1, 1))
    assert (second.sequence, second.identity) == (10, (1, 1))


def test_what_was_given_up_blocks_new_batches_until_those_behind_it_have_told() -> None:
    sequences = begun()
    first, second = sent(sequences, batch()), sent(sequences, batch())
    sequences.given_up(first)
    assert not sequences.may_send(batch())
    sequences.taken(second)  # the leader took it, so there was no hole
    third = sent(sequences, batch())
    assert (third.sequence, third.identity) == (20, (1, 0))


def test_a_gap_at_the_end_begins_a_new_epoch() -> None:
    sequences = begun()
    sequences.given_up(sent(sequences, batch()))
    assert sequences.has_gap
    after = sent(sequences, batch())
    assert (after.sequence, after.identity) == (0, (1, 1))


def test_other_partitions_finish_in_the_old_epoch() -> None:
    sequences = begun()
    other = TopicPartition("t", 1)
    slow = sent(sequences, batch(place=other))
    sequences.given_up(sent(sequences, batch()))
    sent(sequences, batch())
    assert not sequences.may_send(batch(place=other))
    sequences.taken(slow)
    following = sent(sequences, batch(place=other))
    assert (following.sequence, following.identity) == (0, (1, 1))


def test_after_the_last_epoch_a_new_id_is_needed() -> None:
    sequences = Sequences()
    sequences.adopt(Identity(1, EPOCH_MAX))
    sequences.given_up(sent(sequences, batch()))
    following = batch()
    assert not sequences.may_send(following)
    assert sequences.identity is None
    sequences.adopt(Identity(2, 0))
    assert sent(sequences, following).identity == (2, 0)


def test_in_a_transaction_a_refusal_is_final() -> None:
    sequences = begun(transactional=True)
    assert sequences.refused(sent(sequences, batch())) is Verdict.GIVE_UP


def test_the_first_batch_goes_alone() -> None:
    """A leader that does not know us takes any sequence: a second batch could shut the first one out."""
    sequences = Sequences()
    sequences.adopt(Identity(1, 0))
    first = sent(sequences, batch())
    assert not sequences.may_send(batch())
    sequences.taken(first)
    assert sequences.may_send(batch())
