"""Made-up epochs: what a replica believes, and what becomes of a quorum near the end of its epochs."""

import pytest

from millpond.raft.epochs import (
    EPOCH_MAX,
    JUMP_MAX,
    is_credible,
    is_near_end,
    is_used_up,
    may_learn,
)


@pytest.mark.parametrize("own", [0, 5, 1_000_000])
def test_an_epoch_far_away_is_not_believed(own: int) -> None:
    assert is_credible(own, own)
    assert is_credible(own, own + 1)
    assert is_credible(own, own + JUMP_MAX)
    assert not is_credible(own, own + JUMP_MAX + 1)
    assert not is_credible(own, EPOCH_MAX - 1)


def test_near_the_end_steps_are_small_and_the_next_one_is_always_believed() -> None:
    for own in (EPOCH_MAX - 5000, EPOCH_MAX - 1024, EPOCH_MAX - 2, EPOCH_MAX - 1):
        assert is_credible(own, own + 1)
        assert not is_credible(own, own + 6)
    assert not is_credible(EPOCH_MAX, EPOCH_MAX + 1)


def test_the_end_takes_more_than_a_handful_of_messages() -> None:
    epoch, messages = 0, 0
    while not is_near_end(epoch):
        step = max(range(21), key=lambda power: (2**power) * is_credible(epoch, epoch + 2**power))
        epoch += 2**step
        messages += 1
    assert messages > 1_000


def test_answers_may_lead_far_but_not_to_the_end() -> None:
    assert may_learn(3, 2**30)
    assert not may_learn(3, EPOCH_MAX - 1)
    assert may_learn(EPOCH_MAX - 5, EPOCH_MAX - 4)


def test_after_the_last_epoch_there_is_no_election() -> None:
    assert is_used_up(EPOCH_MAX)
    assert not is_used_up(EPOCH_MAX - 1)
