"""A client without proof that it is a node walks every API, and changes nothing that is nodes' business.

The walk sends each API in every version it is served in: made up messages that are plausible here (they name
this cluster, its topics, its nodes), and others made at random. What only nodes may ask is refused with
CLUSTER_AUTHORIZATION_FAILED and nothing else; whatever is asked, the quorum, the nodes, the in-sync replicas,
what share groups did and who may log in over AMQP stay as they were.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from millpond.engine.api import CreateTopic
from millpond.engine.node.node import Node
from millpond.engine.queues.peer_requests import DecideOnQueues
from millpond.frontend.kafka import session
from millpond.frontend.kafka.access import AUDIENCES, NODES_ONLY, Audience
from millpond.frontend.kafka.forwarding import FORWARDED
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.frontend.kafka.handler import Context
from millpond.frontend.kafka.handlers import HANDLERS
from millpond.metadata.levels import MILLPOND_VERSION, PEER_PROOF
from millpond.metadata.records import FeatureLevelRecord
from millpond.peer.own_calls import OWN_CALLS_PRINCIPAL
from millpond.peer.quorum import METADATA_TOPIC_ID
from millpond.peer.table import OWN_CALLS
from millpond.rabbit.commands import StoreAll
from millpond.rabbit.records import User
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.messages import fetch as fetch_messages
from millpond.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from millpond.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from millpond.wire.kafka.primitives import Message
from tests.property.wire.instances import instance
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.cluster.memory_broker import MemoryBroker, MemoryClient, memory_broker
from tests.support.cluster.memory_cluster import memory_cluster

SEEDS = 6

# What an administrator changes by them is no business of nodes', but looks the same from here.
ADMINISTRATORS = {
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ELECT_LEADERS,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UPDATE_FEATURES,
}


def test_every_api_is_clients_or_nodes() -> None:
    assert set(AUDIENCES) == set(ApiKey)
    served = {handler.api_key for handler in HANDLERS}
    assert {key for key in served if AUDIENCES[key] is Audience.NODES} == NODES_ONLY & served


def test_what_one_node_sends_on_for_a_client_is_clients() -> None:
    assert {AUDIENCES[key] for key in FORWARDED} == {Audience.CLIENTS}


def test_what_only_nodes_ask_can_be_refused_in_words() -> None:
    for handler in HANDLERS:
        if AUDIENCES[handler.api_key] is not Audience.CLIENTS:
            assert handler.refuse is not None, handler.api_key


# --- one frame that took a node -------------------------------------------------------------------------


async def test_an_envelope_of_a_client_makes_no_administrator() -> None:
    async with amqp_cluster(1) as cluster:
        frontend = cluster.frontends[1]
        request = _envelope()
        client = cluster.nodes.client(1)
        answer = await client.ask(ApiKey.ENVELOPE, 0, request)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert answer.response_data is None
        assert "thief" not in frontend.queues.broker.users

        node = cluster.nodes.client(1).prove()
        answer = await node.ask(ApiKey.ENVELOPE, 0, request)
        OWN_CALLS.from_wire(DecideOnQueues(node_id=1, life="x", command=_thief()), answer)
        assert "thief" in frontend.queues.broker.users


async def test_below_the_level_at_which_nodes_prove_it_nodes_are_believed() -> None:
    """As nodes of the release before, which know of no proof."""

    async with memory_cluster() as cluster:
        engine = await cluster.controller()
        await lower_level(engine)
        client = cluster.client(engine.info.node_id)
        answer = await client.ask(
            ApiKey.ALLOCATE_PRODUCER_IDS, 0, instance("AllocateProducerIds", "request", 0, 1)
        )
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        await engine.metadata.quorum.propose(
            [FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=PEER_PROOF)]
        )
        answer = await client.ask(
            ApiKey.ALLOCATE_PRODUCER_IDS, 0, instance("AllocateProducerIds", "request", 0, 1)
        )
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_node_without_metadata_believes_nobody() -> None:
    async with memory_cluster(alone=True) as cluster:
        fresh = cluster.engine(7)
        await fresh.start()
        assert fresh.metadata.requires_proof
        assert not fresh.metadata.requires_proof_of_answers
        client = MemoryClient(_Door(KafkaFrontend(fresh, peers_only=True)))
        vote = instance("Vote", "request", 2, 1)
        answer = await client.ask(ApiKey.VOTE, 2, vote)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await fresh.stop()


# --- the walk ------------------------------------------------------------------------------------------


@dataclass
class _Door:
    frontend: KafkaFrontend


def _envelope() -> Any:
    """The frame that took a node: the principal of nodes' questions about queues, and an administrator."""
    return OWN_CALLS.to_wire(DecideOnQueues(node_id=1, life="x", command=_thief()))


def _thief() -> StoreAll:
    return StoreAll(
        facts=(User(name="thief", password_hash="eHh4eHh4eHg=", tags=("administrator",)),)
    )


class _Plausible:
    """Puts names and numbers of this cluster into a message that was made at random."""

    def __init__(self, engine: Node, chance: int) -> None:
        host = engine.metadata.quorum
        epoch = min(host.leader_epoch, 2**31 - 1)
        topic = engine.metadata.image.topics["t"]
        big = (epoch, min(epoch + 1, 2**31 - 1), 2**31 - 2)[chance % 3]
        me = engine.info.node_id
        broker_epoch = engine.membership.broker_epoch
        self._values: dict[str, Any] = {
            "cluster_id": engine.info.cluster_id,
            "voter_id": me,
            "voter_directory_id": host.key.directory,
            "topic_name": "__cluster_metadata",
            "partition_index": 0,
            "partition": 0,
            "replica_epoch": big,
            "leader_epoch": big,
            "candidate_epoch": big,
            "replica_id": 2,
            "leader_id": 2,
            "candidate_id": 2,
            "last_offset_epoch": epoch,
            "last_offset": 2**40,
            "current_leader_epoch": epoch,
            "broker_id": me,
            "broker_epoch": broker_epoch,
            "topic_id": topic.topic_id,
            "group_id": "g",
            "name": "t",
            "request_principal": OWN_CALLS_PRINCIPAL,
            "request_data": bytes(_envelope().request_data),
        }

    def put(self, message: Any) -> None:
        for name in message.__slots__:
            value = getattr(message, name)
            if isinstance(value, Message):
                self.put(value)
            elif isinstance(value, list) and value and isinstance(value[0], Message):
                for one in value:
                    self.put(one)
            elif name in self._values:
                setattr(message, name, self._values[name])


def codes_of(message: Any) -> Iterator[int]:
    """Every error code in an answer."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, Message):
            yield from codes_of(value)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, Message):
                    yield from codes_of(one)


def nodes_business(engine: Node) -> tuple[Any, ...]:
    """What a client must not be able to change."""
    host, image = engine.metadata.quorum, engine.metadata.image
    return (
        host.leader_epoch,
        host.leader_id,
        host.voters,
        sorted(
            (one.broker_id, one.broker_epoch, one.incarnation_id, one.fenced)
            for one in image.brokers.values()
        ),
        [
            (one.leader, one.leader_epoch, one.isr)
            for topic in image.topics.values()
            if topic.name == "t"
            for one in topic.partitions
        ],
        image.features,
    )


@dataclass(frozen=True)
class Breach:
    """What a walk found: an answer that is no refusal, or something that has changed."""

    api: ApiKey
    version: int
    what: str


async def walk(
    engine: Node, frontend: KafkaFrontend, apis: Any = (), seeds: int = SEEDS
) -> list[Breach]:
    """Send every API, or these, from a client without proof."""
    found = []
    door = _Door(frontend)
    for handler in sorted(frontend.handlers.values(), key=lambda one: one.api_key):
        api = handler.api_key
        if apis and api not in apis:
            continue
        for version in range(handler.min_version, handler.max_version + 1):
            for seed in range(seeds):
                if (
                    "t" not in engine.metadata.image.topics
                ):  # an administrator's call that was walked
                    await engine.topic_admin.create_topics([CreateTopic(name="t")])
                found += await _ask(engine, door, api, version, seed)
    return found


async def _ask(engine: Node, door: _Door, api: ApiKey, version: int, seed: int) -> list[Breach]:
    message = instance(APIS[api].name, "request", version, seed, tame=True)
    _Plausible(engine, seed).put(message)
    before = nodes_business(engine)
    client = MemoryClient(door)
    client.send(api, version, message)
    for _ in range(20):
        await asyncio.sleep(0.001)
    answers = client.answers()
    found = []
    if AUDIENCES[api] is Audience.NODES:
        codes = {code for answer in answers for code in codes_of(answer)}
        if codes - {ErrorCode.CLUSTER_AUTHORIZATION_FAILED} or (
            not answers and not client.is_closed
        ):
            found.append(Breach(api, version, f"answered with {sorted(codes)}"))
    if nodes_business(engine) != before and api not in ADMINISTRATORS:
        found.append(Breach(api, version, "changed what is nodes' business"))
    client.session.connection_lost()
    return found


async def walked(broker: MemoryBroker, apis: Any = ()) -> list[Breach]:
    await broker.create("t")
    return await walk(broker.engine, broker.frontend, apis)


async def test_a_client_walks_every_api_of_a_node_that_is_alone() -> None:
    async with memory_broker() as broker:
        assert await walked(broker) == []


async def test_a_client_walks_every_api_of_every_node_of_a_cluster() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        await controller.topic_admin.create_topics([CreateTopic(name="t", replication_factor=3)])
        await cluster.until(
            lambda: all("t" in one.metadata.image.topics for one in cluster.engines.values())
        )
        for node, engine in cluster.engines.items():
            assert await walk(engine, cluster.frontends[node], set(ApiKey) - ADMINISTRATORS) == []


@pytest.mark.parametrize(
    "api",
    sorted(NODES_ONLY & {handler.api_key for handler in HANDLERS}),
    ids=lambda key: ApiKey(key).name,
)
async def test_the_walk_finds_an_api_that_is_taken_for_clients(
    api: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "NODES_ONLY", NODES_ONLY - {api})

    async with memory_broker() as broker:
        assert await walked(broker, {api})


async def test_the_walk_finds_a_check_that_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "check_node", lambda _self, _what: None)

    async with memory_broker() as broker:
        found = {breach.api for breach in await walked(broker, NODES_ONLY)}
        assert found == NODES_ONLY & {handler.api_key for handler in HANDLERS}


# --- what is clients' in part ------------------------------------------------------------------------------


def fetch_as(replica: int, version: int, topic_id: UUID, topic: str) -> Any:
    wanted = fetch_messages.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch_messages.FetchRequest(
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[fetch_messages.FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])],
    )
    if version >= 15:
        request.replica_state = fetch_messages.ReplicaState(replica_id=replica)
    else:
        request.replica_id = replica
    return request


@pytest.mark.parametrize("version", [12, 17])
async def test_replicas_fetch_and_debug_consumers_do(version: int) -> None:
    async with memory_broker() as broker:
        topic_id = await broker.create("t")
        for replica, refused in ((0, True), (1, True), (77, True), (-1, False), (-2, False)):
            request = fetch_as(replica, version, topic_id, "t")
            answer = await broker.client().ask(ApiKey.FETCH, version, request)
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if refused else ErrorCode.NONE
            assert answer.error_code == code, replica
            request = fetch_as(replica, version, METADATA_TOPIC_ID, "__cluster_metadata")
            answer = await broker.client().ask(ApiKey.FETCH, version, request)
            data = [one.records for topic in answer.responses for one in topic.partitions]
            assert not any(data), replica
            assert answer.error_code or all(
                one.error_code for topic in answer.responses for one in topic.partitions
            )


async def test_a_client_aborts_what_is_open_and_writes_no_other_marker() -> None:
    async with memory_broker() as broker:
        await broker.create("t")

        async def answer(**fields: Any) -> int:
            marker = WritableTxnMarker(
                producer_id=4000,
                producer_epoch=fields.get("epoch", 0),
                transaction_result=fields.get("commit", False),
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                coordinator_epoch=fields.get("coordinator", 0),
            )
            request = WriteTxnMarkersRequest(markers=[marker])
            found = await broker.client().ask(ApiKey.WRITE_TXN_MARKERS, 1, request)
            return int(found.markers[0].topics[0].partitions[0].error_code)

        end = broker.engine.partitions.partition("t", 0).log.end_offset
        assert await answer(commit=True) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await answer() == ErrorCode.NONE  # there is nothing to abort, and nothing is written
        assert broker.engine.partitions.partition("t", 0).log.end_offset == end


async def lower_level(engine: Node) -> None:
    await engine.metadata.quorum.propose(
        [FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=PEER_PROOF - 1)]
    )


async def test_the_secret_is_shown_to_no_client() -> None:
    text = "shown to no client at all"
    async with memory_broker(cluster_secret=text) as broker:
        resource = DescribeConfigsResource(resource_type=4, resource_name="1")
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=True, include_documentation=True
        )
        answer = await broker.client().ask(ApiKey.DESCRIBE_CONFIGS, 4, request)
        (found,) = (one for one in answer.results[0].configs if one.name == "cluster.secret")
        assert found.is_sensitive
        assert found.value is None
        assert text not in repr(answer)
        assert all(one.value is None for one in found.synonyms)
