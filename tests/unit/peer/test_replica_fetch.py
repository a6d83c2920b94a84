"""A follower's fetch on the wire: what is asked comes out as it went in, and only news travel."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import (
    FetchSessionEpochInvalid,
    FetchSessionNotFound,
    MillpondError,
    NotLeader,
    OffsetOutOfRange,
)
from millpond.engine.peers import ReplicaFetch, ReplicaRead
from millpond.peer.replica_fetch import (
    CALL,
    fetched_of,
    from_wire,
    question_of,
    to_wire,
)
from millpond.replication.fetch_session import ReplicaPosition
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.error_codes import code_of
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


def ask(*positions: ReplicaPosition, **named: Any) -> ReplicaFetch:
    return ReplicaFetch(
        node_id=2,
        broker_epoch=17,
        wait_ms=500,
        bytes_min=1,
        bytes_max=1 << 20,
        positions=positions,
        **named,
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


@given(
    st.lists(POSITIONS, unique_by=lambda one: (one.topic_id, one.partition)),
    st.lists(st.tuples(st.sampled_from([UUID(int=7), UUID(int=8)]), st.integers(0, 9))),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
)
def test_a_question_comes_out_as_it_went_in(
    positions: list[ReplicaPosition], forgotten: list[tuple[UUID, int]], session: int, epoch: int
) -> None:
    question = ask(
        *sorted(positions, key=lambda one: one.topic_id),
        forgotten=tuple(sorted(forgotten, key=lambda one: one[0])),
        session_id=session,
        session_epoch=epoch,
    )
    data = APIS[ApiKey.FETCH].encode_request(to_wire(question), CALL.version)
    fetch = decode_fetch(memoryview(bytearray(data)), CALL.version)
    assert question_of(fetch) == question


def test_an_answer_comes_out_as_it_went_in() -> None:
    question = ask(position())
    reads = [
        ReplicaRead(
            topic_id=UUID(int=7), partition=0, high_watermark=9, log_start=1, records=b"xyz"
        ),
        ReplicaRead(
            topic_id=UUID(int=7), partition=1, high_watermark=9, log_start=1, diverging=(2, 40)
        ),
    ]
    answer = from_wire(question, answered(reads, session_id=99))
    assert answer.session_id == 99
    (first, second) = answer.reads
    assert (first.high_watermark, first.log_start, bytes(first.records)) == (9, 1, b"xyz")
    assert (first.diverging, first.error) == (None, None)
    assert second.diverging == (2, 40)


def test_refusals_come_out_as_what_they_were() -> None:
    question = ask(position())
    gone = ReplicaRead(topic_id=UUID(int=7), partition=0, error=NotLeader("elsewhere"))
    behind = ReplicaRead(
        topic_id=UUID(int=7),
        partition=1,
        log_start=100,
        diverging=(-1, 120),
        error=OffsetOutOfRange("too old"),
    )
    (first, second) = from_wire(question, answered([gone, behind])).reads
    assert isinstance(first.error, NotLeader)
    assert isinstance(second.error, OffsetOutOfRange)
    assert (second.log_start, second.diverging) == (100, (-1, 120))


@pytest.mark.parametrize("kind", [FetchSessionNotFound, FetchSessionEpochInvalid])
def test_a_session_that_the_leader_does_not_know_is_refused_as_such(
    kind: type[MillpondError],
) -> None:
    with pytest.raises(kind):
        from_wire(ask(position()), answered([], error=code_of(kind("gone"))))
