"""Facts of a cursor as bytes: small, and safe to read when they are damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData
from millpond.cursor.ack import AckCursor, Delta
from millpond.cursor.runs import Run, State
from millpond.cursor.snapshot import decode_delta, encode_delta, restore, snapshot

SOME = Delta(
    runs=(
        Run(1_000_000, 1_000_500, State.ACQUIRED, 3, "ann", 1_700_000_000_000),
        Run(1_000_500, 1_000_501, State.SETTLED),
        Run(1_000_501, 2_000_000, State.AVAILABLE, 2),
        Run(2_000_000, 2_000_010, State.ACQUIRED, 1, "bob"),
    ),
    start=999_990,
)


def test_a_delta_comes_back_as_it_was() -> None:
    assert decode_delta(encode_delta(SOME)) == SOME
    assert decode_delta(encode_delta(Delta())) == Delta()


def test_a_run_costs_a_few_bytes() -> None:
    runs = tuple(Run(first, first + 3, State.SETTLED) for first in range(10**9, 10**9 + 4_000, 4))
    assert len(encode_delta(Delta(runs=runs, start=10**9))) < 6 * len(runs)


def test_a_snapshot_may_leave_owners_behind() -> None:
    cursor = AckCursor()
    cursor.apply(cursor.acquire(owner="ann", credit=5, upto=5, now_ms=0).delta)
    cursor.apply(cursor.settle([(2, 3)], owner="ann", now_ms=0).delta)

    later = restore(encode_delta(snapshot(cursor, keep_acquired=False)))

    assert list(later.runs()) == [
        Run(0, 2, State.AVAILABLE),
        Run(2, 3, State.SETTLED),
        Run(3, 5, State.AVAILABLE),
    ]


def test_a_delta_is_no_snapshot() -> None:
    with pytest.raises(MalformedData):
        restore(encode_delta(SOME))


@given(cut=st.integers(0, len(encode_delta(SOME)) - 1))
def test_half_a_record_is_refused(cut: int) -> None:
    with pytest.raises(MalformedData):
        decode_delta(encode_delta(SOME)[:cut])


@given(data=st.binary(max_size=60).map(lambda tail: b"\x01" + tail))
def test_noise_is_refused_or_is_a_delta_that_can_be_applied(data: bytes) -> None:
    try:
        delta = decode_delta(data)
    except MalformedData:
        return
    AckCursor().apply(delta)
