"""A follower's fetch on the wire: what is asked comes out as it went in, and only news travel."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MillpondError, NotLeader, OffsetOutOfRange
from millpond.engine.peers import ReplicaFetch, ReplicaPosition, ReplicaRead
from millpond.frontend.kafka.peers.replica_fetch import (
    CALL,
    fetched_of,
    from_wire,
    question_of,
    to_wire,
)
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.fetch import decode_fetch, encode_fetch_response
from millpond.wire.kafka.messages.fetch import FetchResponse

I64 = st.integers(0, 2**62)
EPOCHS = st.integers(-1, 2**31 - 1)
POSITIONS = st.builds(
    ReplicaPosition,
    topic_id=st.sampled_from([UUID(int=7), UUID(int=8)]),
    partition=st.integers(0, 5),
    leader_epoch=EPOCHS,
    fetch_offset=I64,
    last_epoch=EPOCHS,
    log_start=I64,
    bytes_max=st.integers(0, 2**31 - 1),
    high_watermark=st.integers(-1, 2**62),
)


def ask(*positions: ReplicaPosition, notes: dict[str, Any] | None = None) -> ReplicaFetch:
    return ReplicaFetch(
        node_id=2,
        broker_epoch=17,
        wait_ms=500,
        bytes_min=1,
        bytes_max=1 << 20,
        positions=positions,
        notes=notes if notes is not None else {},
    )


def position(index: int = 0, offset: int = 5) -> ReplicaPosition:
    return ReplicaPosition(
        topic_id=UUID(int=7),
        partition=index,
        leader_epoch=3,
        fetch_offset=offset,
        last_epoch=2,
        log_start=0,
        bytes_max=1000,
        high_watermark=4,
    )


def answered(reads: list[ReplicaRead], *, session_id: int = 0, error: int = 0) -> FetchResponse:
    buffers = encode_fetch_response(
        fetched_of(reads), CALL.version, session_id=session_id, error_code=error
    )
    data = memoryview(bytearray(b"".join(buffers)))
    message = APIS[ApiKey.FETCH].decode_response(data, CALL.version)
    assert isinstance(message, FetchResponse)
    return message


@given(st.lists(POSITIONS, unique_by=lambda one: (one.topic_id, one.partition)))
def test_a_question_comes_out_as_it_went_in(positions: list[ReplicaPosition]) -> None:
    question = ask(*sorted(positions, key=lambda one: one.topic_id))
    data = APIS[ApiKey.FETCH].encode_request(to_wire(question), CALL.version)
    fetch = decode_fetch(memoryview(bytearray(data)), CALL.version)
    assert question_of(fetch, fetch.topics) == question


def test_an_answer_comes_out_as_it_went_in() -> None:
    question = ask(position())
    to_wire(question)
    reads = [
        ReplicaRead(
            topic_id=UUID(int=7), partition=0, high_watermark=9, log_start=1, records=b"xyz"
        ),
        ReplicaRead(
            topic_id=UUID(int=7), partition=1, high_watermark=9, log_start=1, diverging=(2, 40)
        ),
    ]
    (first, second) = from_wire(question, answered(reads))
    assert (first.high_watermark, first.log_start, bytes(first.records)) == (9, 1, b"xyz")
    assert (first.diverging, first.error) == (None, None)
    assert second.diverging == (2, 40)


def test_refusals_come_out_as_what_they_were() -> None:
    question = ask(position())
    to_wire(question)
    gone = ReplicaRead(topic_id=UUID(int=7), partition=0, error=NotLeader("elsewhere"))
    behind = ReplicaRead(
        topic_id=UUID(int=7),
        partition=1,
        log_start=100,
        diverging=(-1, 120),
        error=OffsetOutOfRange("too old"),
    )
    (first, second) = from_wire(question, answered([gone, behind]))
    assert isinstance(first.error, NotLeader)
    assert isinstance(second.error, OffsetOutOfRange)
    assert (second.log_start, second.diverging) == (100, (-1, 120))


def test_in_a_session_only_what_changed_is_said() -> None:
    notes: dict[str, Any] = {}
    first = ask(position(0), position(1), notes=notes)
    message = to_wire(first)
    assert (message.session_id, message.session_epoch) == (0, 0)
    assert len(message.topics[0].partitions) == 2
    from_wire(first, answered([], session_id=99))

    second = ask(position(0, offset=6), position(1), notes=notes)
    message = to_wire(second)
    assert (message.session_id, message.session_epoch) == (99, 1)
    assert [one.fetch_offset for one in message.topics[0].partitions] == [6]
    from_wire(second, answered([], session_id=99))

    message = to_wire(ask(position(1), notes=notes))
    assert (message.session_epoch, message.topics) == (2, [])
    assert [one.partitions for one in message.forgotten_topics_data] == [[0]]


def test_a_session_that_the_leader_does_not_know_begins_anew() -> None:
    notes: dict[str, Any] = {}
    question = ask(position(), notes=notes)
    to_wire(question)
    from_wire(question, answered([], session_id=99))
    to_wire(question)
    with pytest.raises(MillpondError):
        from_wire(question, answered([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    message = to_wire(question)
    assert (message.session_id, message.session_epoch, len(message.topics)) == (0, 0, 1)
