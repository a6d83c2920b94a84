"""Calls that Kafka has no API for are the same at both ends, keep their names, and garbage is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base import errors
from millpond.base.errors import MalformedData
from millpond.base.fields import decode_table, encode_table
from millpond.engine.peers import PeerRequest
from millpond.engine.queues.peer_requests import (
    CollectEvents,
    DecideOnQueues,
    PassReply,
    QueueDecision,
    SendQueueRequests,
)
from millpond.engine.queues.remote import queue_messages as letters
from millpond.peer.table import OWN_CALLS
from millpond.queue.consumers import Consumer
from millpond.rabbit.commands import (
    Bind,
    Command,
    DeclareQueue,
    DeleteQueue,
    LoseConnection,
    Principal,
    Store,
    StoreAll,
)
from millpond.rabbit.records import Policy, Queue, User
from millpond.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

# Some have bytes that are no text, as AMQP allows.
names = st.text(max_size=20) | st.just(b"caf\xe9".decode("utf-8", "surrogateescape"))
words = st.text(max_size=20)
numbers = st.integers(0, 2**62)
tables = st.dictionaries(
    st.text(max_size=8), st.booleans() | st.integers(-9, 9) | words, max_size=3
)
batches = st.binary(max_size=50)
consumers = st.builds(
    Consumer,
    owner=names,
    channel=words,
    tag=names,
    no_ack=st.booleans(),
    exclusive=st.booleans(),
    prefetch=st.integers(0, 65535),
    priority=st.integers(-5, 5),
    arguments=tables,
)
ranges = st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple)
wishes = st.one_of(
    st.builds(letters.Attach, numbers, words),
    st.builds(letters.Detach, numbers),
    st.builds(letters.Publish, numbers, numbers, batches),
    st.builds(letters.Consume, numbers, numbers, consumers, numbers),
    st.builds(letters.Cancel, numbers, numbers, names),
    st.builds(letters.Credit, numbers, names, numbers),
    st.builds(
        letters.Finish, numbers, st.sampled_from(["settle", "reject"]), numbers, ranges, names
    ),
    st.builds(letters.LoseChannel, numbers, words),
    st.builds(letters.Count, numbers, numbers, st.booleans()),
    st.builds(letters.Get, numbers, numbers, consumers),
    st.builds(letters.Purge, numbers, numbers),
)
events = st.one_of(
    st.builds(letters.Detached, numbers),
    st.builds(letters.Answered, numbers, st.lists(numbers, max_size=4).map(tuple), batches),
    st.builds(letters.Handed, numbers, names, numbers, numbers, numbers, batches),
)
askers = st.builds(
    Principal,
    vhost=words,
    connection=words,
    user=words | st.none(),
    scopes=st.none() | st.lists(words, max_size=3).map(tuple),
    is_expired=st.booleans(),
)
facts = st.one_of(
    st.builds(User, name=words, tags=st.lists(words, max_size=2).map(tuple)),
    st.builds(Policy, vhost=words, name=words, pattern=words, definition=tables),
)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(DeclareQueue, asker=askers, name=names, durable=st.booleans(), arguments=tables),
    st.builds(DeleteQueue, asker=askers, name=names, messages=numbers),
    st.builds(Bind, asker=askers, source=names, destination=names, arguments=tables),
    st.builds(LoseConnection, connection=words),
    st.builds(Store, fact=facts),
    st.builds(StoreAll, facts=st.lists(facts, max_size=3).map(tuple)),
)
questions: st.SearchStrategy[PeerRequest[Any]] = st.one_of(
    st.builds(DecideOnQueues, node_id=st.integers(0, 9), life=words, command=commands),
    st.builds(
        SendQueueRequests,
        node_id=st.integers(0, 9),
        life=words,
        session=numbers,
        number=numbers,
        requests=st.lists(wishes, max_size=3).map(tuple),
    ),
    st.builds(
        CollectEvents,
        node_id=st.integers(0, 9),
        life=words,
        session=numbers,
        seen=numbers,
        wait_ms=numbers,
    ),
    st.builds(PassReply, key=words, batch=batches),
)


@given(questions)
def test_a_question_is_the_same_at_both_ends(question: PeerRequest[Any]) -> None:
    assert OWN_CALLS.question_of(OWN_CALLS.to_wire(question)) == question


@given(st.lists(events, max_size=4).map(tuple))
def test_events_are_the_same_at_both_ends(found: tuple[Any, ...]) -> None:
    question = CollectEvents(node_id=1, life="", session=1, seen=0, wait_ms=0)
    assert OWN_CALLS.from_wire(question, OWN_CALLS.answer_to_wire(question, found)) == found


@given(
    st.builds(
        DeleteQueue, asker=askers, name=names, if_unused=st.booleans(), if_empty=st.booleans()
    )
)
def test_who_wants_to_delete_which_queue_is_the_same_at_both_ends(command: DeleteQueue) -> None:
    wish = letters.Count(1, 2, True, letters.deletion_of(command))
    (found,) = letters.decode_messages(letters.encode_messages([wish]))
    assert found.command == command


@given(st.none() | st.builds(Queue, vhost=words, name=words, arguments=tables, topic=words))
def test_a_decision_is_the_same_at_both_ends(queue: Queue | None) -> None:
    command = LoseConnection(connection="c")
    question = DecideOnQueues(node_id=1, life="", command=command)
    decision = QueueDecision(offset=7, queue=queue)
    assert OWN_CALLS.from_wire(question, OWN_CALLS.answer_to_wire(question, decision)) == decision


@pytest.mark.parametrize(
    "error",
    [errors.QueueInUse("in exclusive use"), errors.NotController("who?"), errors.NotLeader("no")],
)
def test_a_refusal_keeps_its_class_and_its_words(error: errors.MillpondError) -> None:
    question = PassReply(key="", batch=b"")
    with pytest.raises(type(error), match=str(error)):
        OWN_CALLS.from_wire(question, OWN_CALLS.answer_to_wire(question, None, error))
    refused = letters.decode_messages(letters.encode_messages([letters.Refused(3, error)]))
    assert (type(refused[0].error), str(refused[0].error)) == (type(error), str(error))


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedData):
        OWN_CALLS.question_of(EnvelopeRequest(request_data=data))
    with pytest.raises(MalformedData):
        letters.decode_messages(data)


@given(questions, st.integers(0, 400), st.integers(0, 255))
def test_a_wrong_byte_is_another_question_or_refused(
    question: PeerRequest[Any], position: int, value: int
) -> None:
    data = bytearray(OWN_CALLS.to_wire(question).request_data)
    data[position % len(data)] = value
    try:
        found = OWN_CALLS.question_of(EnvelopeRequest(request_data=bytes(data)))
    except MalformedData:
        return
    assert type(found).__name__ in {
        "DecideOnQueues",
        "SendQueueRequests",
        "CollectEvents",
        "PassReply",
    }


def test_an_answer_that_lacks_something_is_refused() -> None:
    question = CollectEvents(node_id=1, life="", session=1, seen=0, wait_ms=0)
    with pytest.raises(MalformedData):
        OWN_CALLS.from_wire(question, EnvelopeResponse(response_data=b""))


def test_names_on_the_wire_are_those_that_other_versions_know() -> None:
    """Nodes of other versions are one cluster with this one while it is upgraded."""
    assert set(OWN_CALLS.names) == {
        "CloseConnections",
        "CollectEvents",
        "DecideOnQueues",
        "ListClients",
        "PassReply",
        "RelayCollect",
        "RelayWishes",
        "ScheduleTimers",
        "SendWishes",
        "TellPressure",
    }
    sent = SendQueueRequests(
        node_id=3, life="l", session=1, number=2, requests=(letters.Detach(4),)
    )
    message = OWN_CALLS.to_wire(sent)
    assert message.request_principal == b"millpond.queues"
    assert decode_table(bytes(message.request_data)) == {
        "question": "SendWishes",
        "node": 3,
        "life": "l",
        "session": 1,
        "number": 2,
        "wishes": encode_table({"letters": [[2, 4]]}),
    }
