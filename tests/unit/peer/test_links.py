"""Nodes that ask each other over real sockets."""

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from millpond.base.errors import (
    ClusterAuthorizationFailed,
    InvalidUpdateVersion,
    MillpondError,
    PeerNotProved,
    PeerTooOld,
    PeerUnreachable,
    UnknownTopic,
    WrongCluster,
)
from millpond.base.ids import TopicPartition
from millpond.client import Cluster
from millpond.engine.node.node import Node as Engine
from millpond.engine.peers import FindOffset
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.frontend.kafka.handler import Context
from millpond.frontend.kafka.handlers import HANDLERS
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.features import Direction, FeatureChange, own_features
from millpond.metadata.levels import MILLPOND_VERSION, PEER_PROOF
from millpond.metadata.records import (
    RESOURCE_GROUP,
    BrokerEndpoint,
    ConfigRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from millpond.peer import links
from millpond.peer.connection import PeerConnection
from millpond.peer.links import PeerLinks
from millpond.peer.proof import ClusterSecret
from millpond.raft.messages import BeginEpoch, Refusal, ReplicaKey, Vote
from millpond.server.clock import SystemClock
from millpond.server.connections import Connections
from millpond.server.lifecycle import new_event_loop
from millpond.server.protocols import record_families
from millpond.server.transport import KafkaConnection
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.connection import ClientConnection, Request
from millpond.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, Listener
from millpond.wire.kafka.messages.allocate_producer_ids import AllocateProducerIdsRequest
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from millpond.wire.kafka.messages.metadata import MetadataRequest
from millpond.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.support.processes.ports import free_port
from tests.support.storage.faulty_storage import FaultyStorage

NODES = (1, 2, 3)
TIMEOUT_MS = 10_000
SECRET = ClusterSecret("a secret of three nodes")


class NodeRng:
    def __init__(self, node: int) -> None:
        self._random = random.Random(node)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid4(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


class Node:
    """An engine with a door for its peers."""

    def __init__(
        self,
        node: int,
        ports: dict[int, int],
        *,
        cluster_id: str = "cluster",
        secret: ClusterSecret | None = SECRET,
        limits: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        clock = SystemClock()
        self.id = node
        self._limits = BrokerConfig(node=limits)
        self._secret = secret
        self.port = ports[node]
        self.links = PeerLinks(node, clock, NodeRng(node + 100), secret=secret)
        self.engine = Engine(
            log_dirs=LogDirs([LogDir(FaultyStorage(), "data")]),
            node_id=node,
            cluster_id=cluster_id,
            broker=BrokerConfig(
                {
                    "controller.quorum.voters": tuple(
                        f"{other}@127.0.0.1:{port}" for other, port in ports.items()
                    ),
                    "controller.quorum.election.timeout.ms": 100,
                    "controller.quorum.election.backoff.max.ms": 100,
                }
            ),
            clock=clock,
            rng=NodeRng(node),
            families=record_families(),
            peers=self.links,
            proof=self.links,
        )
        self.links.attach(self.engine)
        self._frontend: KafkaFrontend | None = None
        self._connections: Connections | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        await self.engine.start()
        self._frontend = KafkaFrontend(self.engine, peers_only=True, secret=self._secret)
        await self.open_door()

    async def open_door(self) -> None:
        """Let peers in."""
        frontend = self._frontend
        assert frontend is not None
        connections = self._connections = Connections(
            clock=SystemClock(), setting=self._limits.__getitem__, idle_ms_max=60_000
        )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: KafkaConnection(frontend, connections, "PLAINTEXT"), "127.0.0.1", self.port
        )

    @property
    def connected(self) -> int:
        """How many connections there are."""
        assert self._connections is not None
        return len(self._connections)

    def let_clients_in(self) -> None:
        """As a node does that has joined."""
        assert self._frontend is not None
        self._frontend.let_clients_in()

    def narrow(self, api: ApiKey, lowest: int, highest: int) -> set[int]:
        """Speak only these versions of an API, as another release does; the versions that come are noted."""
        assert self._frontend is not None
        seen: set[int] = set()
        [whole] = [one for one in HANDLERS if one.api_key == api]

        def handle(context: Context, request: Request) -> Any:
            seen.add(request.api_version)
            return whole.handle(context, request)

        self._frontend.handlers[api] = replace(
            whole, handle=handle, min_version=lowest, max_version=highest
        )
        return seen

    async def close_door(self) -> None:
        """Nobody can reach the node any more."""
        assert self._server is not None
        assert self._connections is not None
        self._server.close()
        await self._connections.drain()
        await self._server.wait_closed()

    async def stop(self) -> None:
        await self.close_door()
        await self.engine.stop()
        self.links.close()


@asynccontextmanager
async def running(
    *,
    wrong: int | None = None,
    secrets: dict[int, ClusterSecret | None] | None = None,
    limits: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[dict[int, Node]]:
    """``wrong`` is a node of another cluster; ``secrets`` are those of nodes that have another, or none.
    ``limits`` are settings for the connections of all.
    """
    ports = {node: free_port() for node in NODES}
    nodes = {
        node: Node(
            node,
            ports,
            cluster_id="other" if node == wrong else "cluster",
            secret=(secrets or {}).get(node, SECRET),
            limits=limits,
        )
        for node in NODES
    }
    async with AsyncExitStack() as stack:
        for node in nodes.values():
            await node.start()
            stack.push_async_callback(node.stop)
        yield nodes


def run(story: Coroutine[Any, Any, None]) -> None:
    """On the loop that the broker runs on."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(asyncio.wait_for(story, 90))


def fact(group: str) -> ConfigRecord:
    """Something to agree on."""
    return ConfigRecord(resource_type=RESOURCE_GROUP, resource_name=group, name="n", value="v")


async def leader_of(nodes: dict[int, Node]) -> Node:
    while True:
        for node in nodes.values():
            if node.engine.metadata.quorum.is_active:
                return node
        await asyncio.sleep(0.005)


def test_three_nodes_agree_over_sockets() -> None:
    async def story() -> None:
        async with running() as nodes:
            leader = await leader_of(nodes)
            await leader.engine.metadata.quorum.propose([fact("g")])
            for node in nodes.values():
                while not node.engine.metadata.image.config_of(RESOURCE_GROUP, "g"):
                    await asyncio.sleep(0.005)
                assert node.engine.metadata.quorum.leader_id == leader.id

    run(story())


CLIENTS = 64


async def flood(port: int, *, is_silent: bool) -> None:
    """A client that connects as soon as it can, says hello or nothing, and connects again when it is thrown
    out.
    """
    hello = ClientConnection("flood")
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            if not is_silent:
                writer.write(hello.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("a", "1")))
            while await reader.read(4096):
                pass
        except OSError:
            pass
        finally:
            writer.close()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "limit",
    [
        {"max.connections": "8"},
        {"max.connections.per.ip": "8"},
        {"max.connection.creation.rate": "1"},
    ],
    ids=lambda limit: next(iter(limit)),
)
def test_a_flood_of_clients_does_not_keep_nodes_from_each_other(limit: dict[str, str]) -> None:
    """They come from the same address as the nodes, to the same door."""

    async def story() -> None:
        async with running(limits=limit) as nodes:
            await leader_of(nodes)
            async with asyncio.TaskGroup() as clients:
                floods = [
                    clients.create_task(flood(node.port, is_silent=number % 2 == 0))
                    for node in nodes.values()
                    for number in range(CLIENTS)
                ]
                while any(node.connected < 8 for node in nodes.values()):
                    await asyncio.sleep(0.01)
                for number in range(5):
                    for node in nodes.values():
                        # Everything that is between the nodes has to be made anew.
                        node.links.close()
                    await agree(nodes, f"g{number}")
                for one in floods:
                    one.cancel()

    run(story())


async def agree(nodes: dict[int, Node], group: str) -> None:
    """Wait until every node has a new record, also if another node becomes the controller."""
    while True:
        leader = await leader_of(nodes)
        try:
            await leader.engine.metadata.quorum.propose([fact(group)])
            break
        except MillpondError:
            await asyncio.sleep(0.01)
    for node in nodes.values():
        while not node.engine.metadata.image.config_of(RESOURCE_GROUP, group):
            await asyncio.sleep(0.005)


def test_a_client_on_trial_is_thrown_out() -> None:
    """Without room for clients all that is answered is what proves that the other side is a node."""

    async def story() -> None:
        async with running(limits={"max.connections": "0"}) as nodes:
            await leader_of(nodes)
            for request in (
                ClientConnection("c").send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("a", "1")),
                ClientConnection("c").send(ApiKey.METADATA, 12, MetadataRequest()),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", nodes[1].port)
                writer.write(request)
                assert await reader.read() == b""
                writer.close()

    run(story())


def test_a_node_of_another_cluster_is_refused() -> None:
    async def story() -> None:
        async with running(wrong=3) as nodes:
            await leader_of(nodes)
            request = BeginEpoch(epoch=99, leader=3)
            with pytest.raises(WrongCluster):
                await nodes[3].links.ask_quorum(1, request, timeout_ms=TIMEOUT_MS)
            assert nodes[1].engine.metadata.quorum.leader_epoch < 99
            assert nodes[3].engine.metadata.quorum.leader_id is None

    run(story())


def test_a_node_with_another_secret_is_refused_and_told_on_both_sides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = ClusterSecret("another secret than theirs")

    async def story() -> None:
        async with running(secrets={3: other}) as nodes:
            await leader_of({node: nodes[node] for node in (1, 2)})
            request = BeginEpoch(epoch=99, leader=3)
            with pytest.raises(
                PeerNotProved, match="does not take this node for one of its cluster"
            ):
                await nodes[3].links.ask_quorum(1, request, timeout_ms=TIMEOUT_MS)
            assert nodes[1].engine.metadata.quorum.leader_epoch < 99
            assert nodes[3].engine.metadata.quorum.leader_id is None

    with caplog.at_level(logging.WARNING):
        run(story())
    assert "says that it is node 3 of this cluster and cannot prove it" in caplog.text
    assert "cannot prove to each other that they belong to one cluster" in caplog.text
    said = [one for one in caplog.records if "node 1 at" in one.getMessage()]
    assert len(said) <= 2, "once a minute on each side"
    assert "another secret than theirs" not in caplog.text


def test_a_node_without_a_secret_is_refused_by_those_that_have_one() -> None:
    async def story() -> None:
        async with running(secrets={3: None}) as nodes:
            await leader_of({node: nodes[node] for node in (1, 2)})
            request = BeginEpoch(epoch=99, leader=3)
            with pytest.raises(ClusterAuthorizationFailed):
                await nodes[3].links.ask_quorum(1, request, timeout_ms=TIMEOUT_MS)
            assert nodes[1].engine.metadata.quorum.leader_epoch < 99
            # Nor would they ask it, once they know at which level the cluster is.
            while not nodes[1].engine.metadata.requires_proof_of_answers:
                await asyncio.sleep(0.005)
            nodes[1].links.close()
            with pytest.raises(PeerNotProved, match="it has no cluster secret"):
                await nodes[1].links.ask_quorum(3, request, timeout_ms=TIMEOUT_MS)

    run(story())


def test_the_level_is_not_raised_while_a_node_cannot_prove_that_it_is_one() -> None:
    async def story() -> None:
        async with running(secrets={3: None}) as nodes:
            leader = await leader_of({node: nodes[node] for node in (1, 2)})
            reasons = {node: await leader.links.reason_against(node) for node in (1, 2, 3)}
            assert reasons.pop(3) == (
                "it has no cluster secret, or its version of Millpond does not know of any"
            )
            assert set(reasons.values()) == {None}
            await nodes[3].close_door()
            assert "nobody listens there" in str(await leader.links.reason_against(3))
            await nodes[3].open_door()

            def registered(node: int) -> RegisterBrokerRecord:
                point = BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=nodes[node].port)
                return RegisterBrokerRecord(
                    broker_id=node,
                    incarnation_id=UUID(int=node),
                    broker_epoch=node,
                    end_points=(point,),
                    features=own_features(),
                )

            while not leader.engine.metadata.image.features:
                await asyncio.sleep(0.005)
            before = FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=PEER_PROOF - 1)
            await leader.engine.metadata.quorum.propose([before, *map(registered, (1, 2, 3))])
            up = FeatureChange(name=MILLPOND_VERSION, level=PEER_PROOF, direction=Direction.UPGRADE)
            with pytest.raises(InvalidUpdateVersion, match=r"broker 3 .* it has no cluster secret"):
                await leader.engine.admin.update_features([up])
            assert leader.engine.metadata.image.features[MILLPOND_VERSION] == PEER_PROOF - 1
            # Without it the others can be proved, and the level is raised.
            await leader.engine.metadata.quorum.propose(
                [UnregisterBrokerRecord(broker_id=3, broker_epoch=3)]
            )
            await leader.engine.admin.update_features([up])
            assert leader.engine.metadata.image.features[MILLPOND_VERSION] == PEER_PROOF

    run(story())


class Relay:
    """A client that lets a node connect to it, and passes what it hears on to another node."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._server: asyncio.Server | None = None
        self.port = 0
        # Its connection to the other node, when the node that connected to it has gone.
        self.upstream: asyncio.Future[PeerConnection] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = PeerConnection("upstream")
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: upstream, "127.0.0.1", self._to)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
                name_size = int.from_bytes(frame[8:10], signed=True)
                body = frame[10 + max(name_size, 0) :]
                answer = await upstream.ask(ApiKey(key), version, body, client_id=None)
                writer.write((4 + len(answer)).to_bytes(4) + frame[4:8] + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.upstream.set_result(upstream)
        finally:
            writer.close()


async def allocate_ids(connection: PeerConnection) -> int:
    """Ask what only nodes may; the error's code."""
    spec = APIS[ApiKey.ALLOCATE_PRODUCER_IDS]
    message = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
    payload = spec.encode_request(message, 0)
    body = await connection.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, payload, client_id="c")
    code: int = spec.decode_response(body, 0).error_code
    return code


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        # It passes on to the node that is wanted, to another, and for one who does not know whom to expect.
        (2, r"its proof is for 127\.0\.0\.1:\d+ .* and node 2 is at 127\.0\.0\.1:\d+"),
        (3, r"node 2 answers at 127\.0\.0\.1:\d+, where node 3 should be"),
        (-2, r"its proof is for 127\.0\.0\.1:\d+ .* and node 2 is at 127\.0\.0\.1:\d+"),
    ],
)
def test_a_client_that_relays_a_proof_becomes_no_node(wanted: int, reason: str) -> None:
    async def story() -> None:
        async with running() as nodes:
            await leader_of(nodes)
            await until_proof_is_required(nodes)
            links = nodes[1].links
            direct = ("127.0.0.1", nodes[3 if wanted == 3 else 2].port)
            assert await links.reason_against(wanted, direct) is None
            async with Relay(nodes[2].port) as relay:
                found = await links.reason_against(wanted, ("127.0.0.1", relay.port))
                assert re.search(reason, str(found)), found
                upstream = await relay.upstream
                code = await allocate_ids(upstream)
                assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                upstream.close()

    run(story())


async def until_proof_is_required(nodes: dict[int, Node]) -> None:
    while not all(node.engine.metadata.requires_proof_of_answers for node in nodes.values()):
        await asyncio.sleep(0.005)


def test_a_client_cannot_say_that_a_voter_is_where_it_is_not() -> None:
    async def story() -> None:
        async with running() as nodes:
            leader = await leader_of(nodes)
            await until_proof_is_required(nodes)
            away = next(node for node in nodes.values() if node is not leader)
            connection = await PeerConnection.open("127.0.0.1", leader.port)

            async def ask(key: ApiKey, message: object) -> Any:
                spec = APIS[key]
                payload = spec.encode_request(message, 0)
                return spec.decode_response(await connection.ask(key, 0, payload, client_id="c"), 0)

            def add(port: int) -> AddRaftVoterRequest:
                directory = away.engine.metadata.quorum.key.directory
                assert directory is not None
                return AddRaftVoterRequest(
                    cluster_id="cluster",
                    timeout_ms=TIMEOUT_MS,
                    voter_id=away.id,
                    voter_directory_id=directory,
                    listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=port)],
                )

            remove = RemoveRaftVoterRequest(
                cluster_id="cluster", voter_id=away.id, voter_directory_id=UUID(int=0)
            )
            answer = await ask(ApiKey.REMOVE_RAFT_VOTER, remove)
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            async with Relay(away.port) as relay:
                answer = await ask(ApiKey.ADD_RAFT_VOTER, add(relay.port))
                assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                assert f"has not registered 127.0.0.1:{relay.port}" in answer.error_message
                (await relay.upstream).close()
            assert away.id not in leader.engine.metadata.quorum.voters.ids
            # Where it is, it proves that it is there, although it has registered nothing.
            answer = await ask(ApiKey.ADD_RAFT_VOTER, add(away.port))
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            assert away.id in leader.engine.metadata.quorum.voters.ids
            connection.close()

    run(story())


def test_a_connection_without_proof_is_not_used_any_more_when_the_level_rises() -> None:
    async def story() -> None:
        async with running(secrets={3: None}) as nodes:
            both = {node: nodes[node] for node in (1, 2)}
            leader = await leader_of(both)
            await until_proof_is_required(both)

            async def bring_to(level: int) -> None:
                record = FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=level)
                await leader.engine.metadata.quorum.propose([record])

            async def is_answered() -> bool:
                question = BeginEpoch(epoch=0, leader=leader.id)
                try:
                    await leader.links.ask_quorum(3, question, timeout_ms=TIMEOUT_MS)
                except PeerUnreachable:
                    return False
                except ClusterAuthorizationFailed:
                    pass  # the answer of node 3, which has no metadata
                return True

            await leader.engine.join()
            await bring_to(PEER_PROOF - 1)
            while not await is_answered():
                await asyncio.sleep(0.005)
            await bring_to(PEER_PROOF)
            assert leader.engine.metadata.requires_proof_of_answers
            question = BeginEpoch(epoch=0, leader=leader.id)
            with pytest.raises(PeerNotProved, match="it has no cluster secret"):
                await leader.links.ask_quorum(3, question, timeout_ms=TIMEOUT_MS)

    run(story())


def test_a_vote_from_an_epoch_that_is_over_is_refused_in_the_answer() -> None:
    async def story() -> None:
        async with running() as nodes:
            leader = await leader_of(nodes)
            other = next(node for node in nodes.values() if node is not leader)
            stale = Vote(
                epoch=0,
                candidate=ReplicaKey(other.id),
                last_epoch=0,
                end_offset=0,
                pre_vote=True,
            )
            answer = await other.links.ask_quorum(leader.id, stale, timeout_ms=TIMEOUT_MS)
            assert answer.refusal is Refusal.FENCED_EPOCH
            assert answer.epoch > 0

    run(story())


def test_a_request_that_could_not_leave_in_time_is_not_sent_and_the_next_one_is() -> None:
    async def story() -> None:
        async with running() as nodes:
            leader = await leader_of(nodes)
            other = next(node for node in nodes.values() if node is not leader)
            request = BeginEpoch(
                epoch=leader.engine.metadata.quorum.leader_epoch + 1, leader=other.id
            )
            with pytest.raises(PeerUnreachable, match="too late"):
                await other.links.ask_quorum(
                    leader.id, request, timeout_ms=TIMEOUT_MS, leave_by_ms=-1
                )
            assert leader.engine.metadata.quorum.leader_epoch < request.epoch
            answer = await other.links.ask_quorum(
                leader.id, request, timeout_ms=TIMEOUT_MS, leave_by_ms=2**62
            )
            assert answer.epoch == request.epoch

    run(story())


def test_nodes_of_two_releases_use_the_newest_version_that_both_speak() -> None:
    async def story() -> None:
        async with running() as nodes:
            leader = await leader_of(nodes)
            other = next(node for node in nodes.values() if node is not leader)
            seen = leader.narrow(ApiKey.FETCH, 4, 17)
            other.links.close()
            offset = leader.engine.metadata.quorum.end_offset
            await leader.engine.metadata.quorum.propose([fact("g")])
            await other.engine.metadata.quorum.applied_beyond(offset)
            assert seen == {17}

    run(story())


def test_a_peer_that_is_too_old_is_named_with_what_it_lacks_until_it_is_upgraded() -> None:
    async def story() -> None:
        async with running() as nodes:
            await leader_of(nodes)
            asker, asked = nodes[1], nodes[2]
            asked.narrow(ApiKey.BEGIN_QUORUM_EPOCH, 0, 0)
            asker.links.close()
            question = BeginEpoch(epoch=0, leader=asker.id)
            with pytest.raises(
                PeerTooOld,
                match=r"node 2, 127.0.0.1:\d+: .* BeginQuorumEpoch up to version 0, and 1 ",
            ):
                await asker.links.ask_quorum(asked.id, question, timeout_ms=TIMEOUT_MS)
            asked.narrow(ApiKey.BEGIN_QUORUM_EPOCH, 0, 1)
            assert await reaches(asker, asked)

    run(story())


def test_a_peer_that_has_not_joined_does_not_know_yet_what_only_members_do() -> None:
    async def story() -> None:
        async with running() as nodes:
            question = FindOffset(partition=TopicPartition("t", 0), place=-1)
            with pytest.raises(PeerTooOld, match=r"node 2, .* does not know ListOffsets"):
                await nodes[1].links.call(2, question, timeout_ms=TIMEOUT_MS)
            nodes[2].let_clients_in()
            with pytest.raises(UnknownTopic):
                await nodes[1].links.call(2, question, timeout_ms=TIMEOUT_MS)

    run(story())


async def reaches(asker: Node, asked: Node) -> bool:
    """Whether a question comes through."""
    return not await refusal(asker, asked)


async def refusal(asker: Node, asked: Node) -> str:
    """Why a question does not come through; nothing if it does."""
    question = BeginEpoch(epoch=0, leader=asker.id)
    try:
        await asker.links.ask_quorum(asked.id, question, timeout_ms=TIMEOUT_MS)
    except PeerUnreachable as error:
        assert f"node {asked.id}" in str(error)  # noqa: PT017
        return str(error)
    return ""


def test_a_peer_that_is_gone_is_said_to_be_and_found_when_it_is_back() -> None:
    async def story() -> None:
        async with running() as nodes:
            leader = await leader_of(nodes)
            gone, other = (node for node in nodes.values() if node is not leader)
            assert await reaches(other, gone)
            await gone.close_door()
            assert not await reaches(other, gone)
            await gone.open_door()
            while not await reaches(other, gone):
                await asyncio.sleep(0.01)

    run(story())


def test_a_peer_that_takes_connections_and_says_nothing_keeps_nobody_waiting_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "_CONNECT_MS_MAX", 50)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def story() -> None:
        async with running() as nodes:
            leader = await leader_of(nodes)
            gone, other = (node for node in nodes.values() if node is not leader)
            await gone.close_door()
            mute = await asyncio.start_server(say_nothing, "127.0.0.1", gone.port)
            while "says nothing within 50 ms" not in await refusal(other, gone):
                await asyncio.sleep(0.01)  # that nobody listened may be remembered for a moment
            mute.close()
            await gone.open_door()
            while not await reaches(other, gone):
                await asyncio.sleep(0.01)

    run(story())


def test_an_api_that_the_peer_does_not_serve_is_named() -> None:
    async def story() -> None:
        async with running() as nodes:
            # Clients are not let in yet, so a peer that has not joined knows no Produce.
            connection = await PeerConnection.open("127.0.0.1", nodes[2].port)
            with pytest.raises(PeerUnreachable, match="instead of answering Produce version 9"):
                await connection.ask(ApiKey.PRODUCE, 9, b"", client_id="c")

    run(story())


def test_a_client_that_comes_early_is_answered_when_all_of_it_is_served() -> None:
    async def story() -> None:
        async with running() as nodes, Cluster(f"127.0.0.1:{nodes[1].port}") as cluster:
            early = asyncio.ensure_future(cluster.connection_any())
            await asyncio.sleep(0.05)  # whether it has asked by now or asks later does not matter
            assert not early.done()
            nodes[1].let_clients_in()
            connection = await early
            assert connection.version_of(ApiKey.METADATA) > 0

    run(story())
