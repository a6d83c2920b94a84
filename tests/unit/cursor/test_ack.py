"""The ack cursor's stories, one verb at a time; the property test has the rest."""

from millpond.cursor.ack import AckCursor, Outcome
from millpond.cursor.dead_letter import DeadLetter, DeadLetterPolicy, GiveUp, Reason
from millpond.cursor.runs import NEVER_MS, Run, State
from millpond.cursor.snapshot import encode_delta, snapshot

NOW = 10_000
LOCK = 30_000


def acquire(cursor: AckCursor, owner: str, credit: int, upto: int, now_ms: int = NOW) -> list[Run]:
    outcome = cursor.acquire(owner=owner, credit=credit, upto=upto, now_ms=now_ms, lock_ms=LOCK)
    cursor.apply(outcome.delta)
    return list(outcome.delta.runs)


def done(cursor: AckCursor, outcome: Outcome) -> Outcome:
    cursor.apply(outcome.delta)
    return outcome


def test_messages_are_handed_out_once_and_lowest_first() -> None:
    cursor = AckCursor()

    assert acquire(cursor, "ann", 3, upto=10) == [Run(0, 3, State.ACQUIRED, 1, "ann", NOW + LOCK)]
    assert acquire(cursor, "bob", 100, upto=10) == [
        Run(3, 10, State.ACQUIRED, 1, "bob", NOW + LOCK)
    ]
    assert acquire(cursor, "ann", 100, upto=10) == []


def test_nothing_has_happened_until_a_decision_is_applied() -> None:
    cursor = AckCursor()
    first = cursor.acquire(owner="ann", credit=5, upto=5, now_ms=NOW)

    again = cursor.acquire(owner="bob", credit=5, upto=5, now_ms=NOW)

    assert [run[:2] for run in again.delta.runs] == [run[:2] for run in first.delta.runs]
    assert cursor.end == 0


def test_the_start_moves_over_what_is_settled_without_holes() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 10, upto=10)

    done(cursor, cursor.settle([(4, 6)], owner="ann", now_ms=NOW))
    assert cursor.start == 0

    done(cursor, cursor.settle([(0, 4)], owner="ann", now_ms=NOW))
    assert cursor.start == 6
    assert cursor.run_count == 1


def test_what_is_given_back_comes_first_and_says_how_often_it_came() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 10, upto=20)
    done(cursor, cursor.release([(2, 4)], owner="ann", now_ms=NOW))

    runs = acquire(cursor, "bob", 5, upto=20)

    assert [(run.first, run.next, run.deliveries) for run in runs] == [(2, 4, 2), (10, 13, 1)]


def test_only_the_owner_may_speak_for_a_message() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 5, upto=5)

    outcome = cursor.settle([(3, 8)], owner="bob", now_ms=NOW)

    assert outcome.delta.is_empty
    assert outcome.refused == ((3, 8),)


def test_an_owner_that_is_late_holds_nothing_even_before_the_clock_was_looked_at() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 5, upto=5)

    outcome = cursor.settle([(0, 5)], owner="ann", now_ms=NOW + LOCK)

    assert outcome.refused == ((0, 5),)


def test_a_deadline_gives_messages_back_and_more_time_moves_it() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 5, upto=5)
    done(cursor, cursor.extend([(3, 5)], owner="ann", now_ms=NOW + 1_000, lock_ms=LOCK))
    assert cursor.wake_ms == NOW + LOCK

    done(cursor, cursor.expire(NOW + LOCK))

    assert cursor.count(State.AVAILABLE) == 3
    assert cursor.held_by("ann") == 2
    assert cursor.wake_ms == NOW + 1_000 + LOCK
    done(cursor, cursor.expire(NOW + 1_000 + LOCK))
    assert cursor.wake_ms == NEVER_MS


def test_an_owner_that_leaves_gives_back_what_it_holds() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 2, upto=9)
    acquire(cursor, "bob", 2, upto=9)
    acquire(cursor, "ann", 2, upto=9)

    done(cursor, cursor.release_owner("ann", counted=False))

    assert cursor.owners == ("bob",)
    runs = acquire(cursor, "cy", 9, upto=9)
    assert [(run.first, run.next, run.deliveries) for run in runs] == [
        (0, 2, 1),
        (4, 6, 1),
        (6, 9, 1),
    ]


def test_a_message_that_was_tried_too_often_becomes_a_dead_letter() -> None:
    policy = DeadLetterPolicy(deliveries_max=2, on_deliveries=GiveUp.DEAD_LETTER)
    cursor = AckCursor(policy=policy)
    acquire(cursor, "ann", 1, upto=1)
    assert done(cursor, cursor.expire(NOW + LOCK)).dead_letters == ()
    acquire(cursor, "ann", 1, upto=1, now_ms=NOW + LOCK)

    outcome = done(cursor, cursor.release([(0, 1)], owner="ann", now_ms=NOW + LOCK))

    assert outcome.dead_letters == (
        DeadLetter(first=0, next=1, deliveries=2, reason=Reason.DELIVERIES),
    )
    assert cursor.start == 1


def test_a_rejected_message_is_dropped_or_kept_elsewhere_as_the_policy_says() -> None:
    for action, letters in ((GiveUp.DROP, 0), (GiveUp.DEAD_LETTER, 1)):
        cursor = AckCursor(policy=DeadLetterPolicy(on_rejected=action))
        acquire(cursor, "ann", 2, upto=2)

        outcome = done(cursor, cursor.reject([(0, 2)], owner="ann", now_ms=NOW))

        assert len(outcome.dead_letters) == letters
        assert cursor.start == 2


def test_what_the_log_lost_is_over_whoever_holds_it() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 10, upto=10)

    done(cursor, cursor.move_start(4))

    assert cursor.start == 4
    assert cursor.held_by("ann") == 6
    late = cursor.settle([(0, 6)], owner="ann", now_ms=NOW)
    assert late.refused == ()
    assert late.delta.runs == (Run(4, 6, State.SETTLED),)


def test_starting_over_forgets_everything() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 10, upto=10)
    done(cursor, cursor.settle([(0, 10)], owner="ann", now_ms=NOW))

    done(cursor, cursor.restart(3))

    assert (cursor.start, cursor.end, cursor.owners) == (3, 3, ())
    assert acquire(cursor, "bob", 1, upto=10)[0].deliveries == 1


# --- ten million ------------------------------------------------------------------------------------

MANY = 10_000_000
BATCH = 500


def test_ten_million_in_flight_cost_a_run_for_each_hand_out() -> None:
    cursor = AckCursor()
    for turn in range(MANY // BATCH):
        acquire(cursor, f"reader {turn % 8}", BATCH, upto=MANY, now_ms=NOW + turn)

    assert cursor.count(State.ACQUIRED) == MANY
    assert cursor.run_count == MANY // BATCH
    assert len(encode_delta(snapshot(cursor))) < 12 * cursor.run_count

    # All but one are settled, last first: what is left is the one and the rest.
    for turn in reversed(range(MANY // BATCH)):
        first = max(turn * BATCH, 1)
        ranges = [(first, (turn + 1) * BATCH)]
        done(cursor, cursor.settle(ranges, owner=f"reader {turn % 8}", now_ms=NOW + turn))
    assert cursor.run_count == 2
    assert cursor.count(State.SETTLED) == MANY - 1


def test_one_release_of_ten_million_is_handed_out_again_piece_by_piece() -> None:
    cursor = AckCursor()
    outcome = cursor.acquire(owner="ann", credit=MANY, upto=MANY, now_ms=NOW)
    cursor.apply(outcome.delta)
    done(cursor, cursor.release_owner("ann"))

    for turn in range(2_000):
        runs = acquire(cursor, "bob" if turn % 2 else "cy", BATCH, upto=MANY)
        assert [(run.first, run.deliveries) for run in runs] == [(turn * BATCH, 2)]
    assert cursor.run_count == 2_001


def test_an_owner_that_never_rests_leaves_no_trail() -> None:
    cursor = AckCursor()
    acquire(cursor, "ann", 1, upto=1)
    for offset in range(1, 5_000):
        # Always one in hand, so the owner is never forgotten.
        acquire(cursor, "ann", 1, upto=offset + 1)
        done(cursor, cursor.settle([(offset - 1, offset)], owner="ann", now_ms=NOW))

    assert cursor.held_by("ann") == 1
    assert len(cursor._holdings["ann"].ranges) < 50
