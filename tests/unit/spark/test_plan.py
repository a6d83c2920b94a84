"""The arithmetic of a batch: ranges, limits, pieces, losses."""

import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.ids import TopicPartition
from millpond.spark.plan import (
    Bounds,
    Lost,
    Range,
    Reason,
    align_ends,
    limit_rows,
    plan_ranges,
    rows_between,
    shed_ends,
    split_ranges,
    without_shed,
)

A, B, C = (TopicPartition("t", number) for number in range(3))


def bounds(**spans: tuple[int, int]) -> Bounds:
    """Where logs begin and end, as `p0=(earliest, latest)`."""
    places = {TopicPartition("t", int(name[1:])): span for name, span in spans.items()}
    return Bounds(
        earliest={place: span[0] for place, span in places.items()},
        latest={place: span[1] for place, span in places.items()},
    )


def span(first: int, end: int, partition: int = 0) -> Range:
    """A range of topic t."""
    return Range(topic="t", partition=partition, first=first, end=end)


def lost(first: int, end: int | None, reason: Reason, partition: int = 0) -> Lost:
    """A loss of topic t."""
    return Lost(topic="t", partition=partition, first=first, end=end, reason=reason)


def test_what_lies_between_two_positions_is_read() -> None:
    ranges, losses = plan_ranges({A: 5, B: 7}, {A: 9, B: 7}, bounds(p0=(0, 20), p1=(0, 7)))

    assert ranges == [span(5, 9)]
    assert losses == []


def test_a_partition_that_was_added_is_read_from_its_beginning() -> None:
    ranges, losses = plan_ranges({A: 5}, {A: 5, B: 3}, bounds(p0=(0, 5), p1=(0, 3)))

    assert ranges == [span(0, 3, 1)]
    assert losses == []


def test_what_retention_took_before_it_was_read_is_lost_and_the_rest_is_read() -> None:
    ranges, losses = plan_ranges({A: 5}, {A: 20}, bounds(p0=(12, 30)))

    assert ranges == [span(12, 20)]
    assert losses == [lost(5, 12, Reason.DELETED)]


def test_all_of_a_range_can_be_lost() -> None:
    ranges, losses = plan_ranges({A: 5}, {A: 20}, bounds(p0=(25, 30)))

    assert ranges == []
    assert losses == [lost(5, 20, Reason.DELETED)]


def test_an_added_partition_that_does_not_begin_at_zero_has_lost_something() -> None:
    ranges, losses = plan_ranges({}, {A: 9}, bounds(p0=(4, 9)))

    assert ranges == [span(4, 9)]
    assert losses == [lost(0, 4, Reason.DELETED)]


def test_a_topic_that_was_deleted_is_lost_from_the_position_on() -> None:
    ranges, losses = plan_ranges({A: 5, B: 1}, {B: 2}, bounds(p1=(0, 2)))

    assert ranges == [span(1, 2, 1)]
    assert losses == [lost(5, None, Reason.GONE)]


def test_a_partition_that_vanished_between_a_crash_and_its_replay_is_lost() -> None:
    _, losses = plan_ranges({A: 5}, {A: 9}, bounds())

    assert losses == [lost(5, 9, Reason.GONE)]


def test_a_topic_made_anew_is_read_from_its_start() -> None:
    ranges, losses = plan_ranges({A: 100}, {A: 7}, bounds(p0=(0, 7)))

    assert ranges == [span(0, 7)]
    assert losses == [lost(100, None, Reason.WENT_BACK)]


def test_a_log_that_was_cut_before_a_batch_is_replayed_loses_its_end() -> None:
    ranges, losses = plan_ranges({A: 3}, {A: 9}, bounds(p0=(0, 6)))

    assert ranges == [span(3, 6)]
    assert losses == [lost(6, 9, Reason.WENT_BACK)]


def test_a_loss_names_topic_partition_and_offsets() -> None:
    assert str(lost(5, 12, Reason.DELETED)).startswith("t-0, offsets 5 to 11: deleted before")
    assert str(lost(5, None, Reason.GONE)).startswith("t-0, offsets 5 on: the partition is gone")


def test_a_limit_is_shared_out_by_what_partitions_have() -> None:
    ends = limit_rows({A: 0, B: 0}, {A: 900, B: 100}, bounds(p0=(0, 900), p1=(0, 100)), 100)

    assert ends == {A: 90, B: 10}


def test_a_small_partition_is_not_starved_by_a_large_one() -> None:
    ends = limit_rows({A: 0, B: 5}, {A: 10_000, B: 6}, bounds(p0=(0, 10_000), p1=(0, 6)), 10)

    assert ends[B] == 6


def test_what_is_not_there_any_more_does_not_count_against_the_limit() -> None:
    ends = limit_rows({A: 0}, {A: 1000}, bounds(p0=(990, 1000)), 100)

    assert ends == {A: 1000}
    assert rows_between({A: 0}, {A: 1000}, bounds(p0=(990, 1000))) == 10


@given(
    st.dictionaries(
        st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 10_000)), min_size=1
    ),
    st.integers(1, 500),
)
def test_a_limit_is_kept_and_something_is_always_read(
    logs: dict[int, tuple[int, int]], rows_max: int
) -> None:
    start = {TopicPartition("t", at): first for at, (first, _) in logs.items()}
    until = {TopicPartition("t", at): first + size for at, (first, size) in logs.items()}
    there = Bounds(earliest=dict.fromkeys(until, 0), latest=until)

    ends = limit_rows(start, until, there, rows_max)

    assert all(start[place] <= ends[place] <= until[place] for place in until)
    moved = rows_between(start, ends, there)
    assert moved <= rows_max + len(until), "rounding gives a partition one offset too many at most"
    assert (moved > 0) == any(size for _, size in logs.values())


def test_without_a_wish_each_range_is_one_task() -> None:
    assert split_ranges([span(0, 9), span(3, 3, 1)], partitions_min=None, records_max=None) == [
        span(0, 9)
    ]


def test_long_ranges_are_cut_when_more_tasks_are_wanted() -> None:
    pieces = split_ranges([span(0, 100), span(0, 10, 1)], partitions_min=5, records_max=None)

    assert pieces == [
        span(0, 25),
        span(25, 50),
        span(50, 75),
        span(75, 100),
        span(0, 10, 1),
    ]


def test_halves_are_rounded_up_as_java_does() -> None:
    pieces = split_ranges([span(0, 50), span(0, 50, 1)], partitions_min=3, records_max=None)

    assert [piece.size for piece in pieces] == [25, 25, 25, 25]


def test_no_task_reads_more_than_it_may() -> None:
    pieces = split_ranges([span(0, 10)], partitions_min=None, records_max=4)

    assert [piece.size for piece in pieces] == [3, 3, 4]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 300),
)
def test_pieces_are_the_ranges_again(
    sizes: list[int], partitions_min: int | None, records_max: int | None
) -> None:
    ranges = [span(7, 7 + size, number) for number, size in enumerate(sizes)]

    pieces = split_ranges(ranges, partitions_min=partitions_min, records_max=records_max)

    for whole in ranges:
        parts = [piece for piece in pieces if piece.partition == whole.partition]
        offsets = [offset for part in parts for offset in range(part.first, part.end)]
        assert offsets == list(range(whole.first, whole.end))
    assert all(piece.size > 0 for piece in pieces)
    if records_max is not None:
        assert all(piece.size <= records_max for piece in pieces)


# --- priority and shedding ---------------------------------------------------------------------

VIP, USUAL = TopicPartition("vip", 0), TopicPartition("usual", 0)


def two(vip: int, usual: int) -> Bounds:
    """Two topics of one partition, from 0 to these ends."""
    return Bounds(earliest={VIP: 0, USUAL: 0}, latest={VIP: vip, USUAL: usual})


def test_a_batch_is_for_those_who_go_first_and_what_is_left_of_it_for_the_others() -> None:
    facts = two(30, 1000)
    ends = limit_rows({VIP: 0, USUAL: 0}, facts.latest, facts, 100, priority=("vip",))
    assert ends == {VIP: 30, USUAL: 70}


def test_those_who_come_last_get_on_even_when_nothing_is_left() -> None:
    facts = two(1000, 1000)
    ends = limit_rows({VIP: 0, USUAL: 0}, facts.latest, facts, 100, priority=("vip", "usual"))
    assert ends == {VIP: 100, USUAL: 1}


def test_without_a_backlog_nobody_goes_first() -> None:
    facts = two(30, 40)
    assert limit_rows({VIP: 0, USUAL: 0}, facts.latest, facts, 100, ("vip",)) == facts.latest


def test_who_is_too_far_behind_jumps_to_half_of_what_is_allowed() -> None:
    facts = bounds(p0=(0, 1000), p1=(0, 90))
    jumps, steps = shed_ends({A: 0, B: 0}, facts.latest, facts, 100)
    assert (jumps, steps) == ({A: 950}, {B: 50})

    ranges, _ = plan_ranges({A: 0, B: 0}, jumps | steps, facts)
    kept, shed = without_shed(ranges, 100)
    assert kept == [span(0, 50, 1)]
    assert shed == [lost(0, 950, Reason.SHED)]


@given(start=st.integers(0, 50), end=st.integers(0, 5000), beyond=st.integers(2, 300))
def test_shedding_ends_and_leaves_out_only_what_was_too_far_behind(
    start: int, end: int, beyond: int
) -> None:
    """Batch after batch to the end: every offset is read once or shed, and the last are always read."""
    facts = bounds(p0=(0, end))
    at, read, left_out = start, 0, 0
    while at < end:
        jumps, steps = shed_ends({A: at}, facts.latest, facts, beyond)
        upto = (jumps | steps)[A]
        kept, shed = without_shed(plan_ranges({A: at}, {A: upto}, facts)[0], beyond)
        assert bool(shed) == (end - at > beyond)
        read += sum(item.size for item in kept)
        left_out += sum((item.end or 0) - item.first for item in shed)
        assert upto > at
        at = upto
    assert read + left_out == max(0, end - start)
    assert not left_out or read == beyond // 2


# --- partitions in step ---

NOW_MS = 10_000_000
WRONG_MS = 4_000_000_000_000  # a clock that stands in 2096


def batches_in_step(times: dict[TopicPartition, list[int]], rows_max: int) -> Iterator[list[int]]:
    """Read logs with these times to their ends: the times of each batch, without those of wrong clocks."""
    logs = Bounds(earliest=dict.fromkeys(times, 0), latest={p: len(t) for p, t in times.items()})

    def offsets_at(time_ms: int) -> dict[TopicPartition, int | None]:
        return {
            place: next((n for n, time in enumerate(log) if time >= time_ms), None)
            for place, log in times.items()
        }

    start = dict(logs.earliest)
    while start != logs.latest:
        ends = align_ends(start, logs.latest, logs, rows_max, offsets_at, NOW_MS)
        size = sum(ends.values()) - sum(start.values())
        assert 0 < size <= rows_max + len(times), "every batch gets on, and has its bound"
        yield [
            time
            for place, log in times.items()
            for time in log[start[place] : ends[place]]
            if time != WRONG_MS
        ]
        start = ends


def read_in_step(times: dict[TopicPartition, list[int]], rows_max: int) -> tuple[int, int]:
    """How many batches it took, and how late a record was at most: older than one of an earlier batch."""
    batches = latest_ms = late_ms = 0
    for read in batches_in_step(times, rows_max):
        late_ms = max(late_ms, latest_ms - min(read, default=latest_ms))
        latest_ms = max(latest_ms, *read, 0)
        batches += 1
    return batches, late_ms


def late_by(than_ms: int, times: dict[TopicPartition, list[int]], rows_max: int) -> int:
    """How many records are later than this."""
    latest_ms = late = 0
    for read in batches_in_step(times, rows_max):
        late += sum(time < latest_ms - than_ms for time in read)
        latest_ms = max(latest_ms, *read, 0)
    return late


def each_second(count: int, *wrong: int) -> list[int]:
    """A log with a record each second, some of them by a clock that is wrong."""
    return [WRONG_MS if number in wrong else number * 1000 for number in range(count)]


def test_a_record_ahead_of_the_present_does_not_hold_up_what_comes_after_it() -> None:
    batches, late_ms = read_in_step({A: each_second(1000, 300), B: each_second(1000)}, 200)
    assert (batches, late_ms) == (11, 0), "one more than without it"


def test_a_partition_is_read_by_time_up_to_a_record_ahead_of_the_present() -> None:
    """The second partition is sparse: by shares alone it would be read minutes ahead of the first."""
    sparse = [number * 60_000 for number in range(10)]
    _, late_ms = read_in_step({A: [*each_second(590), WRONG_MS], B: sparse}, 40)
    assert late_ms == 0


def test_a_batch_has_its_bound_though_all_partitions_begin_ahead_of_the_present() -> None:
    assert read_in_step({A: each_second(1000, 0)}, 200) == (5, 0)
    batches, late_ms = read_in_step({A: each_second(1000, 0), B: each_second(1000, 0)}, 200)
    assert (batches, late_ms) == (10, 0)


def test_only_the_partition_whose_record_is_ahead_and_near_is_read_by_its_share() -> None:
    """The sparse one has such a record, too, but weeks later: till there its times are in sight."""
    sparse = [number * 60_000 for number in range(150)]
    dense = each_second(3000)
    _, alone = read_in_step({A: each_second(3000, 105), B: dense, C: sparse}, 200)
    _, late_ms = read_in_step(
        {A: each_second(3000, 105), B: dense, C: [*sparse[:-1], WRONG_MS]}, 200
    )
    assert late_ms == alone <= 60_000


def test_a_sparse_partition_that_goes_on_for_days_does_not_slow_the_share_down() -> None:
    days = [number * 30_000 for number in range(300)]
    times = {A: each_second(3000, 105), B: each_second(3000), C: days}
    assert late_by(60_000, times, 200) <= 30, "the last few, when nobody else is left to go by"


def test_times_before_1970_keep_the_bound() -> None:
    read_in_step({A: [-1] * 44, B: each_second(3)}, 10)


def test_many_records_ahead_of_the_present_do_not_make_many_batches() -> None:
    every_tenth = range(0, 1000, 10)
    batches, late_ms = read_in_step({A: each_second(1000, *every_tenth), B: each_second(1000)}, 200)
    assert batches <= 12
    assert late_ms <= 2000
    batches, late_ms = read_in_step(
        {place: each_second(1000, *every_tenth) for place in (A, B)}, 200
    )
    assert batches <= 12
    assert late_ms <= 2000


@given(
    st.lists(
        st.lists(st.sampled_from((0, 1000, 60_000, WRONG_MS)), max_size=40), min_size=1, max_size=3
    ),
    st.integers(1, 30),
)
def test_whatever_clocks_say_everything_is_read(gaps: list[list[int]], rows_max: int) -> None:
    times: dict[TopicPartition, list[int]] = {}
    for number, log in enumerate(gaps):
        ordinary = itertools.accumulate(0 if gap == WRONG_MS else gap for gap in log)
        pairs = zip(ordinary, log, strict=True)
        times[TopicPartition("t", number)] = [
            WRONG_MS if gap == WRONG_MS else time for time, gap in pairs
        ]
    read_in_step(times, rows_max)
