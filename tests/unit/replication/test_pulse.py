"""One number for all partitions of a node says the same as walking over all of them with each fetch."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millpond.replication.leadership import Follower, Pulse

PARTITIONS = 3
LAG_MS_MAX = 50


@dataclass(slots=True)
class Walked:
    """A follower as a leader knows it that notes every fetch in every partition."""

    end: int = -1
    caught_up_ms: int = 0
    fetched_ms: int = 0
    end_when_fetched: int = -1

    def on_fetch(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif 0 <= self.end_when_fetched <= offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end, self.fetched_ms, self.end_when_fetched = offset, now_ms, leader_end


ACTS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, PARTITIONS - 1), st.integers(1, 3)),
    # What the follower has got since its last fetch, in each partition: nothing, one record, all.
    st.tuples(
        st.just("fetch"), st.lists(st.integers(0, 2), min_size=PARTITIONS, max_size=PARTITIONS)
    ),
    st.tuples(st.just("leave out"), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("come back"), st.integers(0, PARTITIONS - 1)),
)


@given(st.lists(st.tuples(st.integers(0, 30), ACTS), max_size=60))
def test_a_pulse_says_what_fetches_of_everything_would(acts: list[tuple[int, Any]]) -> None:
    ends = [0] * PARTITIONS
    positions = [0] * PARTITIONS
    pulse = Pulse()
    walked = [Walked() for _ in ends]
    followers = [Follower(2, caught_up_ms=0) for _ in ends]
    # What the session would look at: what the follower speaks of, and where there may be more for it.
    due = set(range(PARTITIONS))
    asked_for = set(range(PARTITIONS))
    now_ms = 0
    for pause_ms, act in acts:
        now_ms += pause_ms
        match act:
            case ("append", index, count):
                ends[index] += count
                due.add(index)
            case ("leave out", index):
                asked_for.discard(index)
                due.discard(index)
                followers[index].detach()
            case ("come back", index):
                asked_for.add(index)
                due.add(index)
            case _:
                takes = act[1]
                for index in sorted(asked_for):
                    behind = ends[index] - positions[index]
                    moved = min(behind, (0, 1, behind)[takes[index]])
                    positions[index] += moved
                    walked[index].on_fetch(positions[index], ends[index], now_ms)
                    if moved or index in due:
                        due.add(index)
                for index in sorted(due & asked_for):
                    followers[index].on_fetch(
                        positions[index],
                        log_start=0,
                        leader_end=ends[index],
                        broker_epoch=1,
                        now_ms=now_ms,
                        pulse=pulse,
                    )
                    if positions[index] == ends[index]:
                        due.discard(index)
                pulse.last_ms = now_ms
        for one, other, end in zip(followers, walked, ends, strict=True):
            assert one.end_offset == other.end
            assert one.caught_up_ms == other.caught_up_ms
            assert one.fetched_ms == other.fetched_ms
            expected = other.end == end or now_ms - other.caught_up_ms <= LAG_MS_MAX
            assert one.is_caught_up(end, now_ms, LAG_MS_MAX) == expected
