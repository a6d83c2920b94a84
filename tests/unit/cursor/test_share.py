"""Between the cursor and the log: which batches are sent, which records nobody gets, where it starts."""

from hypothesis import given
from hypothesis import strategies as st

from millpond.cursor.ack import AckCursor, Delta
from millpond.cursor.runs import Run, State
from millpond.cursor.share import covering, decide_acquire, skipped, start_after
from millpond.engine.partitions.read import AbortedTransaction
from millpond.record.batch import assign_offset, iter_batches
from millpond.record.builder import build_batch


def batches(*counts: int, producer: int = -1, transactional: bool = False) -> bytes:
    """Batches of so many records, from offset 0 on."""
    data = b""
    offset = 0
    for count in counts:
        one = build_batch(
            [(0, None, b"x", ())] * count, producer_id=producer, transactional=transactional
        )
        assign_offset(one, 0, offset, 0)
        data += bytes(one)
        offset += count
    return data


def moved(data: bytes, offset: int) -> bytes:
    """The same batch elsewhere."""
    copy = bytearray(data)
    assign_offset(copy, 0, offset, 0)
    return bytes(copy)


def test_only_batches_with_something_to_do_are_sent() -> None:
    data = batches(2, 3, 4)
    runs = (Run(1, 2, State.ACQUIRED, 1, "ann"), Run(8, 9, State.ACQUIRED, 1, "ann"))

    sent = covering(data, runs)

    assert [header.base_offset for _position, header in iter_batches(sent)] == [0, 5]


def test_neighbouring_batches_are_sent_without_a_copy() -> None:
    data = batches(2, 3, 4)
    sent = covering(data, (Run(0, 5, State.ACQUIRED, 1, "ann"),))
    assert isinstance(sent, memoryview)
    assert [header.base_offset for _position, header in iter_batches(sent)] == [0, 2]


def test_markers_and_what_was_aborted_are_nobodys() -> None:
    open_one = batches(2, producer=7, transactional=True)
    committed = moved(batches(2, producer=8, transactional=True), 2)
    marker = moved(
        bytes(
            build_batch(
                [(0, b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00", ())],
                producer_id=7,
                transactional=True,
                control=True,
            )
        ),
        4,
    )
    after = moved(batches(1, producer=7, transactional=True), 5)
    data = open_one + committed + marker + after
    runs = (Run(1, 6, State.ACQUIRED, 1, "ann"),)

    assert skipped(data, [AbortedTransaction(7, 0)], runs) == [(1, 2), (4, 5)]
    assert skipped(data, [], runs) == [(4, 5)]


def test_a_limit_ends_with_a_batch() -> None:
    data = batches(2, 3, 4)
    cursor = AckCursor()

    def take(records_max: int, *, exact: bool) -> int:
        outcome = decide_acquire(
            cursor,
            data,
            owner="ann",
            records_max=records_max,
            exact=exact,
            lock_ms=1,
            now_ms=0,
        )
        return outcome.delta.message_count

    assert (take(1, exact=False), take(3, exact=False), take(5, exact=False)) == (2, 5, 5)
    assert (take(1, exact=True), take(100, exact=False)) == (1, 9)
    assert decide_acquire(
        cursor, b"", owner="ann", records_max=1, exact=True, lock_ms=1, now_ms=0
    ).delta.is_empty


@given(
    settled=st.sets(st.integers(0, 20)),
    then=st.sets(st.integers(0, 20)),
    start=st.none() | st.integers(0, 25),
)
def test_the_start_is_known_before_a_change_is_applied(
    settled: set[int], then: set[int], start: int | None
) -> None:
    cursor = AckCursor()
    cursor.apply(cursor.acquire(owner="ann", credit=20, upto=20, now_ms=0).delta)
    for offset in settled:
        cursor.apply(cursor.settle([(offset, offset + 1)], owner="ann", now_ms=0).delta)
    ranges = [(offset, offset + 1) for offset in then]
    delta = Delta(runs=cursor.settle(ranges, owner="ann", now_ms=0).delta.runs, start=start)

    expected = start_after(cursor, delta)

    cursor.apply(delta)
    assert cursor.start == expected
