"""Delayed records on their way to the host of their timers, as bytes."""

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData, NotCoordinator
from millpond.engine.peers import ScheduleTimers, TimerPosition
from millpond.frontend.kafka.peers.table import CALLS
from millpond.frontend.kafka.peers.timer_calls import (
    ABOUT_TIMERS,
    answer_to_wire,
    from_wire,
    question_of,
    to_wire,
)
from millpond.timer.facts import Target
from millpond.timer.shard import Entry, Schedule
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

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
    message = to_wire(question)
    assert message.request_principal == ABOUT_TIMERS
    assert question_of(message) == question


@given(OFFSETS, st.booleans())
def test_an_answer_comes_back_as_it_was(position: int, is_full: bool) -> None:
    answer = TimerPosition(position, is_full)
    assert from_wire(ONE, answer_to_wire(answer)) == answer


def test_a_request_that_is_cut_is_refused() -> None:
    whole = bytes(to_wire(ONE).request_data)
    for size in range(len(whole)):
        cut = EnvelopeRequest(request_data=whole[:size], request_principal=ABOUT_TIMERS)
        with pytest.raises(MalformedData):
            question_of(cut)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_request_or_malformed(data: bytes) -> None:
    with suppress(MalformedData):
        question_of(EnvelopeRequest(request_data=data, request_principal=ABOUT_TIMERS))


def test_a_refusal_is_raised() -> None:
    with pytest.raises(NotCoordinator):
        from_wire(ONE, EnvelopeResponse(error_code=ErrorCode.NOT_COORDINATOR))
    with pytest.raises(MalformedData):
        from_wire(ONE, EnvelopeResponse(response_data=b"123"))
    assert ScheduleTimers in CALLS
