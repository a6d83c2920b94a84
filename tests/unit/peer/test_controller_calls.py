"""What nodes ask the controller comes out of the wire as it went in, both ways."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import (
    DuplicateRegistration,
    FencedLeaderEpoch,
    IneligibleReplica,
    LogDirNotFound,
    MillpondError,
    NotController,
    NotLeader,
    StaleBrokerEpoch,
    TopicExists,
    UnknownTopicId,
    WrongCluster,
)
from millpond.engine.api import BrokerEndpoint, CreateTopic, TopicResult
from millpond.engine.peers import (
    AllocateProducerIds,
    AlterInSync,
    AssignDirectories,
    HeartbeatAnswer,
    InSyncChange,
    InSyncResult,
    MakeTopics,
    NodeHeartbeat,
    RegisterNode,
    ReplicaPlace,
)
from millpond.peer import (
    alter_in_sync,
    assign_directories,
    forwarded_request,
    make_topics,
    node_heartbeat,
    producer_ids,
    register_node,
)
from millpond.peer.calls import PeerCall
from millpond.peer.table import CALLS
from millpond.wire.kafka.api import APIS
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.broker_registration import BrokerRegistrationResponse
from millpond.wire.kafka.messages.create_topics import CreatableTopicResult, CreateTopicsResponse

NODES = st.integers(0, 2**31 - 1)
EPOCHS = st.integers(-1, 2**63 - 1)
SMALL = st.integers(0, 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
POINTS = st.builds(
    BrokerEndpoint,
    name=NAMES,
    host=NAMES,
    port=st.integers(0, 65535),
    security_protocol=st.integers(0, 3),
)


def there(call: PeerCall[Any], question: Any) -> Any:
    """The question's message, over the wire."""
    spec = APIS[call.api_key]
    data = spec.encode_request(call.to_wire(question), call.version)
    return spec.decode_request(memoryview(bytearray(data)), call.version)


def back(call: PeerCall[Any], question: Any, answer: object) -> Any:
    """The answer, over the wire."""
    spec = APIS[call.api_key]
    data = spec.encode_response(answer, call.version)
    return call.from_wire(question, spec.decode_response(memoryview(bytearray(data)), call.version))


@given(
    st.builds(
        RegisterNode,
        node_id=NODES,
        cluster_id=NAMES,
        incarnation_id=st.uuids(),
        end_points=st.lists(POINTS, max_size=3).map(tuple),
        rack=st.none() | NAMES,
        log_dirs=st.lists(st.uuids(), max_size=2).map(tuple),
        features=st.lists(st.tuples(NAMES, st.integers(0, 99), st.integers(0, 99)), max_size=3).map(
            tuple
        ),
        previous_epoch=EPOCHS,
        previous_incarnations=st.lists(st.uuids(), max_size=3).map(tuple),
        lost_replicas=st.lists(st.tuples(st.uuids(), st.integers(0, 99)), max_size=3).map(tuple),
    ),
    EPOCHS,
)
def test_a_registration(question: RegisterNode, epoch: int) -> None:
    assert register_node.question_of(there(register_node.CALL, question)) == question
    answer = register_node.answer_to_wire(epoch)
    assert back(register_node.CALL, question, answer) == epoch


@given(
    st.builds(
        NodeHeartbeat,
        node_id=NODES,
        broker_epoch=EPOCHS,
        metadata_offset=EPOCHS,
        wants_fence=st.booleans(),
        wants_stop=st.booleans(),
        offline_dirs=st.lists(st.uuids(), max_size=2).map(tuple),
        silent_leaders=st.lists(NODES, max_size=3).map(tuple),
        silent_followers=st.lists(NODES, max_size=3).map(tuple),
        lease_ms=st.none() | st.integers(0, 2**31 - 1),
    ),
    st.builds(
        HeartbeatAnswer, is_caught_up=st.booleans(), is_fenced=st.booleans(), may_stop=st.booleans()
    ),
)
def test_a_heartbeat(question: NodeHeartbeat, answer: HeartbeatAnswer) -> None:
    assert node_heartbeat.question_of(there(node_heartbeat.CALL, question)) == question
    on_wire = node_heartbeat.answer_to_wire(answer)
    assert back(node_heartbeat.CALL, question, on_wire) == answer


@st.composite
def in_sync_changes(draw: st.DrawFn) -> InSyncChange:
    isr = tuple(draw(st.lists(NODES, min_size=1, max_size=3, unique=True)))
    epochs = st.lists(EPOCHS, min_size=len(isr), max_size=len(isr))
    return InSyncChange(
        topic_id=UUID(int=draw(st.integers(1, 3))),
        partition=draw(SMALL),
        leader_epoch=draw(SMALL),
        partition_epoch=draw(SMALL),
        isr=isr,
        broker_epochs=tuple(draw(epochs)),
    )


def in_order(one: InSyncChange | InSyncResult) -> UUID:
    return one.topic_id


@given(st.lists(in_sync_changes(), max_size=4), NODES, EPOCHS)
def test_a_leaders_word_on_who_is_in_sync(
    changes: list[InSyncChange], node: int, epoch: int
) -> None:
    question = AlterInSync(node_id=node, broker_epoch=epoch, changes=tuple(changes))
    ordered = replace(question, changes=tuple(sorted(changes, key=in_order)))
    assert alter_in_sync.question_of(there(alter_in_sync.CALL, question)) == ordered
    results = [
        InSyncResult(
            topic_id=one.topic_id,
            partition=one.partition,
            leader=node,
            leader_epoch=one.leader_epoch,
            partition_epoch=one.partition_epoch,
            isr=one.isr,
        )
        for one in changes
    ]
    heard = back(alter_in_sync.CALL, question, alter_in_sync.answer_to_wire(results))
    assert heard == sorted(results, key=in_order)


@pytest.mark.parametrize("kind", [FencedLeaderEpoch, IneligibleReplica])
def test_a_refusal_of_one_partition_is_of_that_one(kind: type[Exception]) -> None:
    question = AlterInSync(node_id=1, broker_epoch=2, changes=())
    result = InSyncResult(topic_id=UUID(int=5), partition=3, error=kind("no"))  # type: ignore[arg-type]
    (heard,) = back(alter_in_sync.CALL, question, alter_in_sync.answer_to_wire([result]))
    assert (heard.partition, type(heard.error)) == (3, kind)


PLACES = st.builds(
    ReplicaPlace,
    directory=st.integers(100, 103).map(lambda n: UUID(int=n)),
    topic_id=st.integers(1, 3).map(lambda n: UUID(int=n)),
    partition=st.integers(0, 5),
)


@given(
    st.dictionaries(
        PLACES, st.sampled_from([None, UnknownTopicId, NotLeader, LogDirNotFound]), max_size=8
    ),
    NODES,
    EPOCHS,
)
def test_the_directories_that_replicas_lie_in(
    answers: dict[ReplicaPlace, type[MillpondError] | None], node: int, epoch: int
) -> None:
    question = AssignDirectories(node_id=node, broker_epoch=epoch, places=tuple(answers))
    arrived = assign_directories.question_of(there(assign_directories.CALL, question))
    assert replace(arrived, places=()) == replace(question, places=())
    assert sorted(arrived.places, key=str) == sorted(question.places, key=str)
    answer = {place: kind("no") if kind is not None else None for place, kind in answers.items()}
    heard = back(assign_directories.CALL, question, assign_directories.answer_to_wire(answer))
    assert {place: type(error) if error else None for place, error in heard.items()} == answers


@given(NODES, EPOCHS, st.integers(0, 2**50), st.integers(0, 5000))
def test_producer_ids(node: int, epoch: int, start: int, count: int) -> None:
    question = AllocateProducerIds(node_id=node, broker_epoch=epoch)
    assert producer_ids.question_of(there(producer_ids.CALL, question)) == question
    block = range(start, start + count)
    heard = back(producer_ids.CALL, question, producer_ids.answer_to_wire(block))
    assert (heard.start, len(heard)) == (start, count)


def test_topics_that_a_node_needs() -> None:
    command = CreateTopic(
        name="t", partitions=3, replication_factor=2, configs={"cleanup.policy": "compact"}
    )
    question = MakeTopics(commands=(command,))
    (topic,) = there(make_topics.CALL, question).topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 3, 2)
    assert [(one.name, one.value) for one in topic.configs] == [("cleanup.policy", "compact")]

    def answer(code: int) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name="t", topic_id=UUID(int=9), error_code=code)]
        )

    heard = back(make_topics.CALL, question, answer(0))
    assert heard == [TopicResult(name="t", topic_id=UUID(int=9))]
    (heard_of,) = back(make_topics.CALL, question, answer(code_of(TopicExists("t"))))
    assert isinstance(heard_of.error, TopicExists)
    with pytest.raises(NotController):
        back(make_topics.CALL, question, answer(code_of(NotController(""))))


def test_a_clients_request_in_an_envelope() -> None:
    question = forwarded_request.ForwardedRequest(request=b"request", client="host:1")
    assert forwarded_request.question_of(there(forwarded_request.CALL, question)) == question
    assert (
        back(forwarded_request.CALL, question, forwarded_request.answer_to_wire(b"answer"))
        == b"answer"
    )


@pytest.mark.parametrize("kind", [DuplicateRegistration, WrongCluster, StaleBrokerEpoch])
def test_a_refusal_arrives_as_what_it_is(kind: type[Exception]) -> None:
    question = RegisterNode(
        node_id=4,
        cluster_id="c",
        incarnation_id=UUID(int=1),
        end_points=(),
        rack=None,
        log_dirs=(),
    )
    refused = BrokerRegistrationResponse(error_code=code_of(kind("no")))  # type: ignore[arg-type]
    with pytest.raises(kind, match="node 4 of cluster c"):
        back(register_node.CALL, question, refused)


def test_all_that_goes_to_the_controller_has_a_way_to_travel() -> None:
    for kind in (
        RegisterNode,
        NodeHeartbeat,
        AlterInSync,
        AssignDirectories,
        AllocateProducerIds,
        MakeTopics,
    ):
        assert CALLS[kind].kind is kind
