"""Delayed records on their way to the host of their timers, as bytes."""

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData, TimerPositionGap
from millpond.engine.peers import ScheduleTimers, TimerPosition
from millpond.peer.schedule_timers import decode, encode
from millpond.peer.table import CALLS, OWN_CALLS
from millpond.timer.facts import Target
from millpond.timer.shard import Entry, Schedule
from millpond.wire.kafka.messages.envelope import EnvelopeResponse

OFFSETS = st.integers(0, 2**62)
COMMANDS = st.builds(
    Schedule,
    target=st.builds(Target, st.uuids(), st.integers(0, 2**31 - 1)),
    first=OFFSETS,
    upto=OFFSETS,
    entries=st.lists(st.builds(Entry, OFFSETS, st.binary(max_size=40)), max_size=5),
    is_reset=st.booleans(),
    begins=st.booleans(),
)
ONE = ScheduleTimers(
    command=Schedule(
        target=Target(UUID(int=1), 0), first=3, upto=5, entries=[Entry(3, b"abc"), Entry(4, b"")]
    )
)


@given(COMMANDS)
def test_a_request_comes_back_as_it_was(command: Schedule) -> None:
    question = ScheduleTimers(command=command)
    assert OWN_CALLS.question_of(OWN_CALLS.to_wire(question)) == question
    assert ScheduleTimers in CALLS


@given(OFFSETS, st.booleans())
def test_an_answer_comes_back_as_it_was(position: int, is_full: bool) -> None:
    answer = TimerPosition(position, is_full)
    assert OWN_CALLS.from_wire(ONE, OWN_CALLS.answer_to_wire(ONE, answer)) == answer


def test_a_request_that_is_cut_is_refused() -> None:
    whole = encode(ONE.command)
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="cut"):
            decode(whole[:size])
    with pytest.raises(ValueError, match="follows"):
        decode(whole + b"x")


@given(st.binary(max_size=100))
def test_any_bytes_are_a_command_or_none(data: bytes) -> None:
    with suppress(ValueError):
        decode(data)


def test_a_refusal_is_raised_as_it_was() -> None:
    gap = OWN_CALLS.answer_to_wire(ONE, None, TimerPositionGap("known below 3"))
    with pytest.raises(TimerPositionGap, match="known below 3"):
        OWN_CALLS.from_wire(ONE, gap)
    with pytest.raises(MalformedData):
        OWN_CALLS.from_wire(ONE, EnvelopeResponse(response_data=b""))
