"""What replicas of the quorum say to each other is the same on both ends of the wire."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from millpond.peer.quorum import APIS_OF, NodeAddress, Sender
from millpond.peer.quorum_answering import answer_to_wire, request_of
from millpond.peer.quorum_asking import addresses_in, answer_of, to_wire
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Refusal,
    ReplicaKey,
    Request,
    SnapshotAnswer,
    SnapshotId,
    Vote,
    VoteAnswer,
)
from millpond.raft.voters import Endpoint
from millpond.wire.kafka.api import APIS

nodes = st.integers(0, 2**31 - 1)
epochs = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**62)
directories = st.none() | st.uuids().filter(lambda one: one.int != 0)
keys = st.builds(ReplicaKey, nodes, directories)
snapshots = st.builds(SnapshotId, offsets, epochs)
hosts = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
endpoints = st.builds(Endpoint, hosts, hosts, st.integers(0, 65_535))


@st.composite
def votes(draw: st.DrawFn) -> Vote:
    epoch = draw(st.integers(1, 2**31 - 1))
    return Vote(
        epoch=epoch,
        candidate=draw(keys),
        last_epoch=draw(st.integers(0, epoch - 1)),
        end_offset=draw(offsets),
        pre_vote=draw(st.booleans()),
    )


@st.composite
def fetches(draw: st.DrawFn) -> Fetch:
    epoch = draw(epochs)
    return Fetch(
        epoch=epoch,
        replica=draw(keys),
        offset=draw(offsets),
        last_epoch=draw(st.integers(0, epoch)),
        high_watermark=draw(st.integers(-1, 2**62)),
    )


requests = st.one_of(
    votes(),
    fetches(),
    st.builds(BeginEpoch, epoch=epochs, leader=nodes),
    st.builds(
        EndEpoch, epoch=epochs, leader=nodes, successors=st.lists(keys, max_size=4).map(tuple)
    ),
    st.builds(
        FetchSnapshot,
        epoch=epochs,
        replica=keys,
        snapshot=snapshots,
        position=st.integers(0, 2**62),
    ),
)


@given(requests, keys, st.lists(endpoints, max_size=3).map(tuple))
def test_a_request_comes_out_as_it_went_in(
    request: Request, to: ReplicaKey, points: tuple[Endpoint, ...]
) -> None:
    message = _through(request, to_wire(request, Sender("cluster", to, points)), is_request=True)
    asked = request_of(message, APIS_OF[type(request)].newest)
    assert asked.request == request
    assert asked.cluster_id == "cluster"
    if isinstance(request, Vote | BeginEpoch):
        assert asked.to == to


@st.composite
def answers(draw: st.DrawFn) -> tuple[Request, Answer]:
    request = draw(requests)
    about: dict[str, Any] = {"epoch": draw(epochs), "leader": draw(st.none() | nodes)}
    refusal = draw(st.none() | st.sampled_from(Refusal))
    match request:
        case Vote():
            return request, VoteAnswer(**about, refusal=refusal, granted=draw(st.booleans()))
        case Fetch():
            found = FetchAnswer(
                **about, refusal=refusal, high_watermark=draw(st.integers(-1, 2**62))
            )
            if refusal is not None:
                return request, found
            match draw(st.integers(0, 2)):
                case 0:
                    return request, replace(found, diverging=draw(st.tuples(epochs, offsets)))
                case 1:
                    return request, replace(found, snapshot=draw(snapshots))
                case _:
                    return request, replace(found, read=True, records=draw(st.binary()))
        case FetchSnapshot():
            if refusal is not None:
                return request, SnapshotAnswer(**about, refusal=refusal)
            return request, SnapshotAnswer(
                **about,
                snapshot=draw(snapshots),
                position=draw(offsets),
                size=draw(offsets),
                data=draw(st.binary()),
            )
        case _:
            return request, Answer(**about, refusal=refusal)


@given(answers(), st.none() | st.builds(NodeAddress, nodes, hosts, st.integers(0, 65_535)))
def test_an_answer_comes_out_as_it_went_in(
    exchange: tuple[Request, Answer], leader: NodeAddress | None
) -> None:
    request, answer = exchange
    message = _through(request, answer_to_wire(request, answer, leader), is_request=False)
    assert answer_of(request, message) == answer
    assert addresses_in(message) == ([leader] if leader is not None else [])


def _through(request: Request, message: object, *, is_request: bool) -> object:
    api_key, _, version = APIS_OF[type(request)]
    spec = APIS[api_key]
    if is_request:
        return spec.decode_request(
            memoryview(bytearray(spec.encode_request(message, version))), version
        )
    return spec.decode_response(
        memoryview(bytearray(spec.encode_response(message, version))), version
    )


def test_the_metadata_have_the_id_that_kafka_gives_them() -> None:
    message = to_wire(
        Fetch(epoch=1, replica=ReplicaKey(1), offset=0, last_epoch=0), Sender("c", ReplicaKey(2))
    )
    assert message.topics[0].topic_id == UUID("00000000-0000-0000-0000-000000000001")  # type: ignore[attr-defined]
