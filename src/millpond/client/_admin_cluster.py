"""Administrative requests about the cluster: nodes, the quorum, leaders and replicas."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.client._admin_model import (
    ElectionType,
    FeatureInfo,
    QuorumInfo,
    QuorumReplica,
    Reassignment,
    by_topic,
    refusal_of,
)
from millpond.client._model import BrokerInfo, ClusterInfo, FencingInfo, parse_bootstrap
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused
from millpond.wire.kafka.api import ApiKey

METADATA_TOPIC = "__cluster_metadata"

# The only upgrade type of UpdateFeatures that is supported here.
_UPGRADE = 1


class ClusterCalls:
    """A part of ``Admin``."""

    _cluster: Cluster

    async def describe_cluster(
        self,
        node_id: int | None = None,
        *,
        fenced: bool = False,
        timeout_s: float | None = None,
    ) -> ClusterInfo:
        """Return the brokers, the controller and the cluster's id, as a node (any by default) knows them.

        ``fenced`` adds brokers that are registered and fenced at the moment. Why they are fenced is told by
        the active controller only: name it by ``node_id`` (``controller_id`` of an earlier answer).
        """
        from millpond.wire.kafka.messages.describe_cluster import (
            DescribeClusterRequest,
            DescribeClusterResponse,
        )

        attempts = self._cluster.attempts("describing the cluster", timeout_s)
        request = DescribeClusterRequest(include_fenced_brokers=fenced)
        answer: DescribeClusterResponse
        if node_id is None:
            answer = await self._cluster.ask_any(
                ApiKey.DESCRIBE_CLUSTER, request, attempts=attempts
            )
        else:
            answer = await self._cluster.ask_node(
                node_id, ApiKey.DESCRIBE_CLUSTER, request, attempts=attempts
            )
        if refusal := refusal_of(answer.error_code, answer.error_message, ""):
            raise refusal
        return ClusterInfo(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers=tuple(
                BrokerInfo(
                    node_id=item.broker_id,
                    host=item.host,
                    port=item.port,
                    rack=item.rack,
                    is_fenced=item.is_fenced,
                    fencing=FencingInfo(
                        reason=item.fence_reason,
                        fenced_ms=item.fenced_ms,
                        silent_ms=item.silent_ms,
                    )
                    if item.fence_reason
                    else None,
                )
                for item in sorted(answer.brokers, key=lambda item: item.broker_id)
            ),
        )

    async def describe_quorum(self, *, timeout_s: float | None = None) -> QuorumInfo:
        """Return the voters on the metadata, their leader, and the progress of each."""
        from millpond.wire.kafka.messages.describe_quorum import (
            DescribeQuorumRequest,
            DescribeQuorumResponse,
            PartitionData,
            ReplicaState,
            TopicData,
        )

        def replicas(states: Iterable[ReplicaState]) -> tuple[QuorumReplica, ...]:
            found = [
                QuorumReplica(
                    node_id=item.replica_id,
                    directory_id=item.replica_directory_id,
                    end_offset=item.log_end_offset,
                    last_fetch_ms=item.last_fetch_timestamp,
                    last_caught_up_ms=item.last_caught_up_timestamp,
                )
                for item in states
            ]
            return tuple(sorted(found, key=lambda item: item.node_id))

        attempts = self._cluster.attempts("describing the quorum", timeout_s)
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])]
        )
        while True:
            answer: DescribeQuorumResponse = await self._cluster.ask_any(
                ApiKey.DESCRIBE_QUORUM, request, attempts=attempts
            )
            refusal = refusal_of(answer.error_code, answer.error_message, "")
            if refusal is None:
                [item] = answer.topics[0].partitions
                refusal = refusal_of(item.error_code, item.error_message, METADATA_TOPIC)
            if refusal is None:
                break
            await attempts.after(refusal)
        return QuorumInfo(
            leader_id=item.leader_id,
            leader_epoch=item.leader_epoch,
            high_watermark=item.high_watermark,
            voters=replicas(item.current_voters),
            observers=replicas(item.observers),
        )

    async def add_voter(
        self,
        node_id: int,
        directory_id: UUID,
        listeners: Mapping[str, str],
        *,
        cluster_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Add a node of the cluster as a voter of the quorum; ``listeners`` are names with ``host:port``."""
        from millpond.wire.kafka.messages.add_raft_voter import (
            AddRaftVoterRequest,
            AddRaftVoterResponse,
            Listener,
        )

        attempts = self._cluster.attempts(f"adding voter {node_id}", timeout_s)
        places = {name: parse_bootstrap(address)[0] for name, address in listeners.items()}
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=attempts.left_ms(),
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[
                Listener(name=name, host=host, port=port) for name, (host, port) in places.items()
            ],
        )
        while True:
            answer: AddRaftVoterResponse = await self._cluster.ask_any(
                ApiKey.ADD_RAFT_VOTER, request, attempts=attempts
            )
            refusal = refusal_of(answer.error_code, answer.error_message, f"node {node_id}")
            if refusal is None:
                return
            await attempts.after(refusal)

    async def remove_voter(
        self,
        node_id: int,
        directory_id: UUID,
        *,
        cluster_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Remove a node from the voters of the quorum; it stays a broker."""
        from millpond.wire.kafka.messages.remove_raft_voter import (
            RemoveRaftVoterRequest,
            RemoveRaftVoterResponse,
        )

        attempts = self._cluster.attempts(f"removing voter {node_id}", timeout_s)
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id
        )
        while True:
            answer: RemoveRaftVoterResponse = await self._cluster.ask_any(
                ApiKey.REMOVE_RAFT_VOTER, request, attempts=attempts
            )
            refusal = refusal_of(answer.error_code, answer.error_message, f"node {node_id}")
            if refusal is None:
                return
            await attempts.after(refusal)

    async def unregister_broker(self, node_id: int, *, timeout_s: float | None = None) -> None:
        """Remove the registration of a broker that is gone for good."""
        from millpond.wire.kafka.messages.unregister_broker import (
            UnregisterBrokerRequest,
            UnregisterBrokerResponse,
        )

        answer: UnregisterBrokerResponse = await self._cluster.ask_controller(
            ApiKey.UNREGISTER_BROKER,
            UnregisterBrokerRequest(broker_id=node_id),
            error_of=lambda answer: answer.error_code,
            attempts=self._cluster.attempts(f"unregistering node {node_id}", timeout_s),
        )
        if refusal := refusal_of(answer.error_code, answer.error_message, f"node {node_id}"):
            raise refusal

    async def describe_features(
        self, node_id: int | None = None, *, timeout_s: float | None = None
    ) -> dict[str, FeatureInfo]:
        """Return the features that a node (any by default) supports, and the finalized levels."""
        from millpond.wire.kafka.messages.api_versions import (
            ApiVersionsRequest,
            ApiVersionsResponse,
        )

        attempts = self._cluster.attempts("describing features", timeout_s)
        request = ApiVersionsRequest(
            client_software_name="millpond", client_software_version="admin"
        )
        answer: ApiVersionsResponse
        if node_id is None:
            answer = await self._cluster.ask_any(ApiKey.API_VERSIONS, request, attempts=attempts)
        else:
            answer = await self._cluster.ask_node(
                node_id, ApiKey.API_VERSIONS, request, attempts=attempts
            )
        if refusal := refusal_of(answer.error_code, None, ""):
            raise refusal
        levels = {item.name: item.max_version_level for item in answer.finalized_features}
        return {
            item.name: FeatureInfo(
                level=levels.get(item.name, 0), lowest=item.min_version, highest=item.max_version
            )
            for item in answer.supported_features
        }

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Raise the levels of features, all of them or none; ``validate_only`` changes nothing."""
        from millpond.wire.kafka.messages.update_features import (
            FeatureUpdateKey,
            UpdateFeaturesRequest,
            UpdateFeaturesResponse,
        )

        attempts = self._cluster.attempts("updating features", timeout_s)
        answer: UpdateFeaturesResponse = await self._cluster.ask_controller(
            ApiKey.UPDATE_FEATURES,
            UpdateFeaturesRequest(
                timeout_ms=attempts.left_ms(),
                feature_updates=[
                    FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=_UPGRADE)
                    for name, level in levels.items()
                ],
                validate_only=validate_only,
            ),
            error_of=lambda answer: answer.error_code,
            attempts=attempts,
        )
        if refusal := refusal_of(answer.error_code, answer.error_message, ""):
            raise refusal

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, BrokerRefused | None]:
        """Start moving partitions to these replicas, the preferred leader first; None cancels a move."""
        from millpond.wire.kafka.messages.alter_partition_reassignments import (
            AlterPartitionReassignmentsRequest,
            AlterPartitionReassignmentsResponse,
            ReassignablePartition,
            ReassignableTopic,
        )

        attempts = self._cluster.attempts("moving partitions", timeout_s)
        topics = []
        for name, numbers in by_topic(targets).items():
            partitions = []
            for number in numbers:
                replicas = targets[TopicPartition(name, number)]
                partitions.append(
                    ReassignablePartition(
                        partition_index=number,
                        replicas=None if replicas is None else list(replicas),
                    )
                )
            topics.append(ReassignableTopic(name=name, partitions=partitions))
        answer: AlterPartitionReassignmentsResponse = await self._cluster.ask_controller(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsRequest(timeout_ms=attempts.left_ms(), topics=topics),
            error_of=lambda answer: answer.error_code,
            attempts=attempts,
        )
        if refusal := refusal_of(answer.error_code, answer.error_message, ""):
            raise refusal
        outcomes: dict[TopicPartition, BrokerRefused | None] = {}
        for topic in answer.responses:
            self._cluster.forget_topic(topic.name)
            for item in topic.partitions:
                place = TopicPartition(topic.name, item.partition_index)
                outcomes[place] = refusal_of(item.error_code, item.error_message, str(place))
        return outcomes

    async def list_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, Reassignment]:
        """Return the moves in progress, of all partitions or of these."""
        from millpond.wire.kafka.messages.list_partition_reassignments import (
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsResponse,
            ListPartitionReassignmentsTopics,
        )

        attempts = self._cluster.attempts("listing moves", timeout_s)
        asked = None
        if partitions is not None:
            asked = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in by_topic(partitions).items()
            ]
        answer: ListPartitionReassignmentsResponse = await self._cluster.ask_controller(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ListPartitionReassignmentsRequest(timeout_ms=attempts.left_ms(), topics=asked),
            error_of=lambda answer: answer.error_code,
            attempts=attempts,
        )
        if refusal := refusal_of(answer.error_code, answer.error_message, ""):
            raise refusal
        return {
            TopicPartition(topic.name, item.partition_index): Reassignment(
                replicas=tuple(item.replicas),
                adding=tuple(item.adding_replicas),
                removing=tuple(item.removing_replicas),
            )
            for topic in answer.topics
            for item in topic.partitions
        }

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        kind: ElectionType = ElectionType.PREFERRED,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, BrokerRefused | None]:
        """Elect leaders, of all partitions or of these.

        For all partitions the result has only those whose leader had to change.
        """
        from millpond.wire.kafka.messages.elect_leaders import (
            ElectLeadersRequest,
            ElectLeadersResponse,
            TopicPartitions,
        )

        attempts = self._cluster.attempts("electing leaders", timeout_s)
        asked = None
        if partitions is not None:
            asked = [
                TopicPartitions(topic=name, partitions=numbers)
                for name, numbers in by_topic(partitions).items()
            ]
        answer: ElectLeadersResponse = await self._cluster.ask_controller(
            ApiKey.ELECT_LEADERS,
            ElectLeadersRequest(
                election_type=kind, topic_partitions=asked, timeout_ms=attempts.left_ms()
            ),
            error_of=lambda answer: answer.error_code,
            attempts=attempts,
        )
        if refusal := refusal_of(answer.error_code, None, ""):
            raise refusal
        outcomes: dict[TopicPartition, BrokerRefused | None] = {}
        for topic in answer.replica_election_results:
            self._cluster.forget_topic(topic.topic)
            for item in topic.partition_result:
                place = TopicPartition(topic.topic, item.partition_id)
                outcomes[place] = refusal_of(item.error_code, item.error_message, str(place))
        return outcomes
