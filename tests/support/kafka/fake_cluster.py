"""A cluster in memory for the administrator's client and commands: nodes, a quorum, replicas that move.

What moves takes its time: each look at the moves under way lets one of them arrive.
"""

import asyncio
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from millpond.base.ids import TopicPartition
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.messages import (
    add_raft_voter,
    alter_partition_reassignments,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
    remove_raft_voter,
    unregister_broker,
)
from tests.support.kafka.fake_kafka import FakeKafka

# The time on the clock of the leader of the quorum.
NOW_MS = 1_000_000


@dataclass
class Placed:
    """One partition: who leads it, who holds it, who is in sync, where it is going."""

    replicas: list[int]
    leader: int
    in_sync: list[int]
    target: list[int] | None = None


@dataclass
class Board:
    """What the fake knows of its cluster; tests look and write here."""

    partitions: dict[TopicPartition, Placed] = field(default_factory=dict)
    racks: dict[int, str] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    # Nodes that do not serve any more, and how many answers still show them unfenced.
    stopping: dict[int, int] = field(default_factory=dict)
    # Why nodes are fenced, as the controller (node 1) tells and other nodes do not know.
    fence_reasons: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    voters: dict[int, UUID] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    # Directories that have followed without a vote, and when directories last fetched (NOW_MS unless told).
    observers: list[tuple[int, UUID]] = field(default_factory=list)
    fetched_ms: dict[UUID, int] = field(default_factory=dict)
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    seen_settings: list[tuple[int, str, str, str | None]] = field(default_factory=list)
    stuck: bool = False
    # Nodes whose directory is offline, and replicas (of a node) that are shut off.
    offline_dirs: set[int] = field(default_factory=set)
    shut_off: set[tuple[int, TopicPartition]] = field(default_factory=set)
    # Damaged offsets of a node's replica: the first, and the first behind them.
    damaged: dict[tuple[int, TopicPartition], tuple[int, int]] = field(default_factory=dict)

    def place(self, topic: str, *replicas: list[int]) -> None:
        """A topic whose partitions have these replicas, all in sync, led by the first."""
        for number, nodes in enumerate(replicas):
            placed = Placed(replicas=list(nodes), leader=nodes[0], in_sync=list(nodes))
            self.partitions[TopicPartition(topic, number)] = placed


class FakeCluster(FakeKafka):
    """Brokers on loopback that know of each other."""

    def __init__(self, *, nodes: int = 3) -> None:
        super().__init__(nodes=nodes)
        self.board = Board()
        self.directories = {node: uuid4() for node in range(1, nodes + 1)}
        self.board.voters = dict(self.directories)
        self.board.ends = dict.fromkeys(self.directories, 100)

    def _on_metadata(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        names = {place.topic for place in self.board.partitions}
        if message.topics is not None:
            names = {topic.name for topic in message.topics}
        topics = []
        for name in sorted(names):
            places = [place for place in self.board.partitions if place.topic == name]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(
                metadata.MetadataResponseTopic(
                    error_code=ErrorCode.NONE if places else unknown,
                    name=name,
                    partitions=[
                        metadata.MetadataResponsePartition(
                            partition_index=place.partition,
                            leader_id=self.board.partitions[place].leader,
                            replica_nodes=list(self.board.partitions[place].replicas),
                            isr_nodes=list(self.board.partitions[place].in_sync),
                        )
                        for place in places
                    ],
                )
            )
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node_id=number, host=host, port=port)
                for number, (host, port) in self.hosts.items()
                if number not in self.board.fenced | self.board.gone
            ],
            cluster_id="fake",
            controller_id=1,
            topics=topics,
        )

    def _on_describe_cluster(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        for number, answers_left in self.board.stopping.items():
            self.board.stopping[number] = answers_left - 1
            if not answers_left:
                self.board.fenced.add(number)
        return describe_cluster.DescribeClusterResponse(
            error_code=wrong,
            cluster_id="fake",
            controller_id=1,
            brokers=[
                describe_cluster.DescribeClusterBroker(
                    broker_id=number,
                    host=host,
                    port=port,
                    rack=self.board.racks.get(number),
                    is_fenced=number in self.board.fenced,
                    fence_reason=self.board.fence_reasons.get(number, "") if node == 1 else "",
                )
                for number, (host, port) in self.hosts.items()
                if number not in self.board.gone
                if message.include_fenced_brokers or number not in self.board.fenced
            ],
        )

    def _on_describe_quorum(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        board = self.board

        def states(replicas: Iterable[tuple[int, UUID]]) -> list[describe_quorum.ReplicaState]:
            return [
                describe_quorum.ReplicaState(
                    replica_id=number,
                    replica_directory_id=directory,
                    log_end_offset=board.ends[number],
                    last_fetch_timestamp=board.fetched_ms.get(directory, NOW_MS),
                    last_caught_up_timestamp=board.fetched_ms.get(directory, NOW_MS),
                )
                for number, directory in replicas
            ]

        voters = board.voters.items()
        observers = [
            one for one in (*board.observers, *self.directories.items()) if one not in voters
        ]
        return describe_quorum.DescribeQuorumResponse(
            topics=[
                describe_quorum.TopicResult(
                    topic_name=message.topics[0].topic_name,
                    partitions=[
                        describe_quorum.PartitionResult(
                            error_code=wrong,
                            leader_id=1,
                            leader_epoch=7,
                            high_watermark=99,
                            current_voters=states(voters),
                            observers=states(observers),
                        )
                    ],
                )
            ]
        )

    def _damage(self, node: int, place: TopicPartition) -> list[describe_log_dirs.DamagedRange]:
        offsets = self.board.damaged.get((node, place))
        if offsets is None:
            return []
        first, behind = offsets
        return [
            describe_log_dirs.DamagedRange(
                first_offset=first, next_offset=behind, reason="wrong checksum"
            )
        ]

    def _on_describe_log_dirs(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        if node in self.board.stopping:
            wrong = ErrorCode.BROKER_NOT_AVAILABLE
        if node in self.board.offline_dirs:
            failed = describe_log_dirs.DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR,
                log_dir="/data",
                failure="No space left on device",
            )
            return describe_log_dirs.DescribeLogDirsResponse(results=[failed])
        here = [
            place
            for place, placed in self.board.partitions.items()
            if node in placed.replicas and (node, place) not in self.board.shut_off
        ]
        topics = [
            describe_log_dirs.DescribeLogDirsTopic(
                name=place.topic,
                partitions=[
                    describe_log_dirs.DescribeLogDirsPartition(
                        partition_index=place.partition, damage=self._damage(node, place)
                    )
                ],
            )
            for place in here
        ]
        result = describe_log_dirs.DescribeLogDirsResult(log_dir="/data", topics=topics)
        return describe_log_dirs.DescribeLogDirsResponse(error_code=wrong, results=[result])

    def _on_alter_partition_reassignments(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        responses = []
        for topic in message.topics:
            items = []
            for item in topic.partitions:
                placed = self.board.partitions.get(TopicPartition(topic.name, item.partition_index))
                code = ErrorCode.NONE
                if placed is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif item.replicas is None and placed.target is None:
                    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                else:
                    placed.target = item.replicas
                items.append(
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=item.partition_index, error_code=code, error_message=None
                    )
                )
            responses.append(
                alter_partition_reassignments.ReassignableTopicResponse(
                    name=topic.name, partitions=items
                )
            )
        return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
            error_code=wrong, error_message=None, responses=responses
        )

    def _on_list_partition_reassignments(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        moving = {place: placed for place, placed in self.board.partitions.items() if placed.target}
        if moving and not self.board.stuck:
            placed = moving.pop(next(iter(moving)))
            assert placed.target is not None
            placed.replicas, placed.target = placed.target, None
            placed.in_sync = list(placed.replicas)
            if placed.leader not in placed.replicas:
                placed.leader = placed.replicas[0]
        topics = []
        for place, placed in moving.items():
            assert placed.target is not None
            new = [number for number in placed.target if number not in placed.replicas]
            old = [number for number in placed.replicas if number not in placed.target]
            item = list_partition_reassignments.OngoingPartitionReassignment(
                partition_index=place.partition,
                replicas=[*placed.target, *old],
                adding_replicas=new,
                removing_replicas=old,
            )
            topics.append(
                list_partition_reassignments.OngoingTopicReassignment(
                    name=place.topic, partitions=[item]
                )
            )
        return list_partition_reassignments.ListPartitionReassignmentsResponse(
            error_code=wrong, error_message=None, topics=topics
        )

    def _on_elect_leaders(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        asked = self.board.partitions
        if message.topic_partitions is not None:
            places = [
                TopicPartition(topic.topic, number)
                for topic in message.topic_partitions
                for number in topic.partitions
            ]
            asked = {place: self.board.partitions[place] for place in places}
        results = []
        for place, placed in asked.items():
            code = ErrorCode.NONE
            preferred = message.election_type == 0
            if placed.leader == placed.replicas[0] if preferred else placed.leader >= 0:
                code = ErrorCode.ELECTION_NOT_NEEDED
            elif preferred and placed.replicas[0] not in placed.in_sync:
                code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            else:
                placed.leader = placed.replicas[0]
            if code == ErrorCode.ELECTION_NOT_NEEDED and message.topic_partitions is None:
                continue
            item = elect_leaders.PartitionResult(
                partition_id=place.partition, error_code=code, error_message=None
            )
            results.append(
                elect_leaders.ReplicaElectionResult(topic=place.topic, partition_result=[item])
            )
        return elect_leaders.ElectLeadersResponse(
            error_code=wrong, replica_election_results=results
        )

    def _on_add_raft_voter(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        if not wrong and self.directories.get(message.voter_id) == message.voter_directory_id:
            self.board.voters[message.voter_id] = message.voter_directory_id
        return add_raft_voter.AddRaftVoterResponse(error_code=wrong, error_message=None)

    def _on_remove_raft_voter(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        if not wrong and self.board.voters.get(message.voter_id) == message.voter_directory_id:
            del self.board.voters[message.voter_id]
            self.board.observers.append((message.voter_id, message.voter_directory_id))
        return remove_raft_voter.RemoveRaftVoterResponse(error_code=wrong, error_message=None)

    def _on_unregister_broker(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        code = wrong
        if not code and message.broker_id in self.board.gone:
            code = ErrorCode.BROKER_ID_NOT_REGISTERED
        self.board.gone.add(message.broker_id)
        return unregister_broker.UnregisterBrokerResponse(error_code=code, error_message=None)

    def _on_describe_configs(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        results = []
        for resource in message.resources:
            known = self.board.settings.get((resource.resource_type, resource.resource_name), {})
            results.append(
                describe_configs.DescribeConfigsResult(
                    error_code=wrong,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[
                        describe_configs.DescribeConfigsResourceResult(name=name, value=value)
                        for name, value in known.items()
                        if resource.configuration_keys is None
                        or name in resource.configuration_keys
                    ],
                )
            )
        return describe_configs.DescribeConfigsResponse(results=results)

    def _on_incremental_alter_configs(self, node: int, message: Any, wrong: ErrorCode) -> Any:
        responses = []
        for resource in message.resources:
            key = (resource.resource_type, resource.resource_name)
            known = self.board.settings.setdefault(key, {})
            for item in resource.configs:
                self.board.seen_settings.append((*key, item.name, item.value))
                if item.config_operation == 1:
                    known.pop(item.name, None)
                else:
                    known[item.name] = item.value or ""
            responses.append(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    error_code=wrong,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=responses)


@contextmanager
def running(kafka: FakeCluster) -> Generator[FakeCluster, None, None]:
    """The fake in a thread of its own, for code that brings its own event loop."""
    ready, over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with kafka:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield kafka
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join(20)
