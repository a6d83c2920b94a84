"""The answering side of the quorum's requests: messages in, answers out."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from millpond.base.errors import InvalidRequest
from millpond.base.ids import LeaderEpoch, NodeId
from millpond.engine.api import METADATA_TOPIC
from millpond.peer.quorum import (
    CODES,
    METADATA_TOPIC_ID,
    NO_NODE,
    UNKNOWN_HIGH_WATERMARK,
    Asked,
    NodeAddress,
)
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    ReplicaKey,
    Request,
    SnapshotAnswer,
    SnapshotId,
    Vote,
    VoteAnswer,
)
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.messages import begin_quorum_epoch as begin_wire
from millpond.wire.kafka.messages import end_quorum_epoch as end_wire
from millpond.wire.kafka.messages import fetch as fetch_wire
from millpond.wire.kafka.messages import fetch_snapshot as snapshot_wire
from millpond.wire.kafka.messages import vote as vote_wire


def request_of(message: Any, version: int) -> Asked:
    """The request in a message. Raises ``InvalidRequest`` if it is about anything else."""
    return _READERS[type(message)](message, version)


def _read_vote(message: vote_wire.VoteRequest, version: int) -> Asked:
    one = _only(message.topics, lambda topic: topic.topic_name == METADATA_TOPIC)
    is_late = one.last_offset_epoch > one.replica_epoch or (
        one.last_offset_epoch == one.replica_epoch and not one.pre_vote
    )
    if one.last_offset < 0 or one.last_offset_epoch < 0 or one.replica_id < 0 or is_late:
        raise InvalidRequest("a candidate has a number, and a log that is older than its epoch")
    request = Vote(
        epoch=one.replica_epoch,
        candidate=_key(one.replica_id, one.replica_directory_id),
        last_epoch=one.last_offset_epoch,
        end_offset=one.last_offset,
        pre_vote=one.pre_vote,
    )
    return Asked(message.cluster_id, _meant(message.voter_id, one.voter_directory_id), request)


def _read_begin(message: begin_wire.BeginQuorumEpochRequest, version: int) -> Asked:
    one = _only(message.topics, lambda topic: topic.topic_name == METADATA_TOPIC)
    if one.leader_id < 0:
        raise InvalidRequest("a leader has a number")
    request = BeginEpoch(epoch=one.leader_epoch, leader=one.leader_id)
    return Asked(message.cluster_id, _meant(message.voter_id, one.voter_directory_id), request)


def _read_end(message: end_wire.EndQuorumEpochRequest, version: int) -> Asked:
    one = _only(message.topics, lambda topic: topic.topic_name == METADATA_TOPIC)
    if one.leader_id < 0:
        raise InvalidRequest("a leader has a number")
    successors = (
        [
            _key(other.candidate_id, other.candidate_directory_id)
            for other in one.preferred_candidates
        ]
        if version >= 1
        else [ReplicaKey(node) for node in one.preferred_successors]
    )
    request = EndEpoch(epoch=one.leader_epoch, leader=one.leader_id, successors=tuple(successors))
    return Asked(message.cluster_id, None, request)


def _read_fetch(message: fetch_wire.FetchRequest, version: int) -> Asked:
    one = _only(
        message.topics,
        lambda topic: topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC,
        index="partition",
    )
    replica = (
        message.replica_state.replica_id if version >= _REPLICA_STATE_FROM else message.replica_id
    )
    if one.fetch_offset < 0 or not 0 <= one.last_fetched_epoch <= one.current_leader_epoch:
        raise InvalidRequest(
            "a replica fetches from an offset, and its log is not newer than its epoch"
        )
    high_watermark = one.high_watermark
    request = Fetch(
        epoch=one.current_leader_epoch,
        replica=_key(replica, one.replica_directory_id),
        offset=one.fetch_offset,
        last_epoch=one.last_fetched_epoch,
        high_watermark=high_watermark if high_watermark != UNKNOWN_HIGH_WATERMARK else -1,
    )
    return Asked(message.cluster_id, None, request)


def _read_snapshot(message: snapshot_wire.FetchSnapshotRequest, version: int) -> Asked:
    one = _only(message.topics, lambda topic: topic.name == METADATA_TOPIC, index="partition")
    request = FetchSnapshot(
        epoch=one.current_leader_epoch,
        replica=_key(message.replica_id, one.replica_directory_id),
        snapshot=SnapshotId(one.snapshot_id.end_offset, one.snapshot_id.epoch),
        position=one.position,
    )
    return Asked(message.cluster_id, None, request)


_REPLICA_STATE_FROM = 15
_INT32_MAX = 2**31 - 1
_READERS: Mapping[type[Any], Callable[[Any, int], Asked]] = {
    vote_wire.VoteRequest: _read_vote,
    begin_wire.BeginQuorumEpochRequest: _read_begin,
    end_wire.EndQuorumEpochRequest: _read_end,
    fetch_wire.FetchRequest: _read_fetch,
    snapshot_wire.FetchSnapshotRequest: _read_snapshot,
}


def _only(
    topics: Any, is_metadata: Callable[[Any], bool], *, index: str = "partition_index"
) -> Any:
    if (
        len(topics) != 1
        or not is_metadata(topics[0])
        or len(topics[0].partitions) != 1
        or getattr(topics[0].partitions[0], index) != 0
    ):
        raise InvalidRequest(f"the quorum has one partition, {METADATA_TOPIC}-0")
    return topics[0].partitions[0]


def _key(node: NodeId, directory: UUID) -> ReplicaKey:
    return ReplicaKey(node, directory if directory.int else None)


def _meant(node: NodeId, directory: UUID) -> ReplicaKey | None:
    return None if node == NO_NODE else _key(node, directory)


def answer_to_wire(
    request: Request, answer: Answer, leader: NodeAddress | None, *, code: ErrorCode | None = None
) -> object:
    """The response's message. ``code`` takes the place of the answer's own refusal."""
    if code is None:
        code = CODES[answer.refusal] if answer.refusal is not None else ErrorCode.NONE
    about = (answer.leader if answer.leader is not None else NO_NODE, answer.epoch)
    match request:
        case Vote():
            return vote_wire.VoteResponse(
                topics=[
                    vote_wire.TopicResult(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            vote_wire.PartitionResult(
                                error_code=code,
                                leader_id=about[0],
                                leader_epoch=about[1],
                                vote_granted=isinstance(answer, VoteAnswer) and answer.granted,
                                silent_ms=_silent_ms(answer),
                            )
                        ],
                    )
                ],
                node_endpoints=_points(vote_wire.NodeEndpoint, leader),
            )
        case BeginEpoch():
            return begin_wire.BeginQuorumEpochResponse(
                topics=[_plain_result(begin_wire, code, *about)],
                node_endpoints=_points(begin_wire.NodeEndpoint, leader),
            )
        case EndEpoch():
            return end_wire.EndQuorumEpochResponse(
                topics=[_plain_result(end_wire, code, *about)],
                node_endpoints=_points(end_wire.NodeEndpoint, leader),
            )
        case Fetch():
            return _fetch_response(answer, code, about, leader)
        case FetchSnapshot():
            return _snapshot_response(answer, code, about, leader)


def _plain_result(wire: Any, code: ErrorCode, leader: NodeId, epoch: LeaderEpoch) -> Any:
    result = wire.PartitionResult(error_code=code, leader_id=leader, leader_epoch=epoch)
    return wire.TopicResult(topic_name=METADATA_TOPIC, partitions=[result])


def _fetch_response(
    answer: Answer, code: ErrorCode, about: tuple[NodeId, LeaderEpoch], leader: NodeAddress | None
) -> fetch_wire.FetchResponse:
    one = fetch_wire.PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=-1,
        current_leader=fetch_wire.LeaderIdAndEpoch(leader_id=about[0], leader_epoch=about[1]),
        aborted_transactions=None,
        records=b"",
    )
    if isinstance(answer, FetchAnswer):
        one.high_watermark = answer.high_watermark
        one.records = answer.records
        if answer.diverging is not None:
            epoch, end = answer.diverging
            one.diverging_epoch = fetch_wire.EpochEndOffset(epoch=epoch, end_offset=end)
        if answer.snapshot is not None:
            one.snapshot_id = fetch_wire.SnapshotId(
                end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch
            )
    return fetch_wire.FetchResponse(
        responses=[
            fetch_wire.FetchableTopicResponse(
                topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[one]
            )
        ],
        node_endpoints=_points(fetch_wire.NodeEndpoint, leader),
    )


def _snapshot_response(
    answer: Answer, code: ErrorCode, about: tuple[NodeId, LeaderEpoch], leader: NodeAddress | None
) -> snapshot_wire.FetchSnapshotResponse:
    one = snapshot_wire.PartitionSnapshotResult(
        index=0,
        error_code=code,
        current_leader=snapshot_wire.LeaderIdAndEpoch(leader_id=about[0], leader_epoch=about[1]),
    )
    if isinstance(answer, SnapshotAnswer) and answer.snapshot is not None:
        one.snapshot_id = snapshot_wire.SnapshotId(
            end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch
        )
        one.position, one.size, one.unaligned_records = answer.position, answer.size, answer.data
    return snapshot_wire.FetchSnapshotResponse(
        topics=[snapshot_wire.TopicSnapshotResult(name=METADATA_TOPIC, partitions=[one])],
        node_endpoints=_points(snapshot_wire.NodeEndpoint, leader),
    )


def _points(kind: Callable[..., Any], leader: NodeAddress | None) -> list[Any]:
    if leader is None:
        return []
    return [kind(node_id=leader.node_id, host=leader.host, port=leader.port)]


def _silent_ms(answer: Answer) -> int:
    return min(max(answer.silent_ms, 0), _INT32_MAX) if isinstance(answer, VoteAnswer) else 0
