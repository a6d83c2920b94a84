"""The asking side of the quorum's requests: messages out, answers in."""

from typing import Any

from millpond.base.errors import InvalidRequest
from millpond.engine.api import METADATA_TOPIC
from millpond.peer.calls import raise_refusal
from millpond.peer.quorum import (
    METADATA_TOPIC_ID,
    NO_ID,
    NO_NODE,
    REFUSALS,
    UNKNOWN_HIGH_WATERMARK,
    NodeAddress,
    Sender,
)
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Request,
    SnapshotAnswer,
    SnapshotId,
    Vote,
    VoteAnswer,
)
from millpond.wire.kafka.messages import begin_quorum_epoch as begin_wire
from millpond.wire.kafka.messages import end_quorum_epoch as end_wire
from millpond.wire.kafka.messages import fetch as fetch_wire
from millpond.wire.kafka.messages import fetch_snapshot as snapshot_wire
from millpond.wire.kafka.messages import vote as vote_wire

_FETCH_BYTES = 8 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


def to_wire(request: Request, sender: Sender) -> object:
    """The request's message."""
    match request:
        case Vote():
            return vote_wire.VoteRequest(
                cluster_id=sender.cluster_id,
                voter_id=sender.to.id,
                topics=[
                    vote_wire.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            vote_wire.PartitionData(
                                replica_epoch=request.epoch,
                                replica_id=request.candidate.id,
                                replica_directory_id=request.candidate.directory or NO_ID,
                                voter_directory_id=sender.to.directory or NO_ID,
                                last_offset_epoch=request.last_epoch,
                                last_offset=request.end_offset,
                                pre_vote=request.pre_vote,
                            )
                        ],
                    )
                ],
            )
        case BeginEpoch():
            return begin_wire.BeginQuorumEpochRequest(
                cluster_id=sender.cluster_id,
                voter_id=sender.to.id,
                topics=[
                    begin_wire.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            begin_wire.PartitionData(
                                voter_directory_id=sender.to.directory or NO_ID,
                                leader_id=request.leader,
                                leader_epoch=request.epoch,
                            )
                        ],
                    )
                ],
                leader_endpoints=[
                    begin_wire.LeaderEndpoint(name=one.listener, host=one.host, port=one.port)
                    for one in sender.end_points
                ],
            )
        case EndEpoch():
            return end_wire.EndQuorumEpochRequest(
                cluster_id=sender.cluster_id,
                topics=[
                    end_wire.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            end_wire.PartitionData(
                                leader_id=request.leader,
                                leader_epoch=request.epoch,
                                preferred_candidates=[
                                    end_wire.ReplicaInfo(
                                        candidate_id=one.id,
                                        candidate_directory_id=one.directory or NO_ID,
                                    )
                                    for one in request.successors
                                ],
                            )
                        ],
                    )
                ],
                leader_endpoints=[
                    end_wire.LeaderEndpoint(name=one.listener, host=one.host, port=one.port)
                    for one in sender.end_points
                ],
            )
        case Fetch():
            return fetch_wire.FetchRequest(
                cluster_id=sender.cluster_id,
                replica_state=fetch_wire.ReplicaState(replica_id=request.replica.id),
                max_wait_ms=sender.wait_ms,
                max_bytes=_FETCH_BYTES,
                topics=[
                    fetch_wire.FetchTopic(
                        topic_id=METADATA_TOPIC_ID,
                        partitions=[
                            fetch_wire.FetchPartition(
                                partition=0,
                                current_leader_epoch=request.epoch,
                                fetch_offset=request.offset,
                                last_fetched_epoch=request.last_epoch,
                                partition_max_bytes=_FETCH_BYTES,
                                replica_directory_id=request.replica.directory or NO_ID,
                                high_watermark=(
                                    request.high_watermark
                                    if request.high_watermark >= 0
                                    else UNKNOWN_HIGH_WATERMARK
                                ),
                            )
                        ],
                    )
                ],
            )
        case FetchSnapshot():
            return snapshot_wire.FetchSnapshotRequest(
                cluster_id=sender.cluster_id,
                replica_id=request.replica.id,
                max_bytes=_PIECE_BYTES,
                topics=[
                    snapshot_wire.TopicSnapshot(
                        name=METADATA_TOPIC,
                        partitions=[
                            snapshot_wire.PartitionSnapshot(
                                partition=0,
                                current_leader_epoch=request.epoch,
                                snapshot_id=snapshot_wire.SnapshotId(
                                    end_offset=request.snapshot.end_offset,
                                    epoch=request.snapshot.epoch,
                                ),
                                position=request.position,
                                replica_directory_id=request.replica.directory or NO_ID,
                            )
                        ],
                    )
                ],
            )


def answer_of(request: Request, message: Any) -> Answer:
    """The answer in a response's message. Raises what the peer refused with beyond the protocol."""
    raise_refusal(message.error_code)
    topics = message.responses if isinstance(request, Fetch) else message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise InvalidRequest("the peer answered for other partitions than it was asked for")
    one = topics[0].partitions[0]
    refusal = REFUSALS.get(one.error_code)
    if refusal is None:
        raise_refusal(one.error_code)
    if isinstance(request, Fetch | FetchSnapshot):
        leader, epoch = one.current_leader.leader_id, one.current_leader.leader_epoch
    else:
        leader, epoch = one.leader_id, one.leader_epoch
    about = {
        "epoch": epoch,
        "leader": leader if leader != NO_NODE else None,
        "refusal": refusal,
    }
    match request:
        case Vote():
            return VoteAnswer(**about, granted=one.vote_granted, silent_ms=max(one.silent_ms, 0))
        case Fetch():
            diverging, snapshot = one.diverging_epoch, one.snapshot_id
            return FetchAnswer(
                **about,
                high_watermark=one.high_watermark,
                diverging=(
                    (diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None
                ),
                snapshot=(
                    SnapshotId(snapshot.end_offset, snapshot.epoch)
                    if snapshot.end_offset >= 0
                    else None
                ),
                read=diverging.epoch < 0 and snapshot.end_offset < 0 and refusal is None,
                records=bytes(one.records or b""),
            )
        case FetchSnapshot():
            return SnapshotAnswer(
                **about,
                snapshot=(
                    SnapshotId(one.snapshot_id.end_offset, one.snapshot_id.epoch)
                    if refusal is None
                    else None
                ),
                position=one.position,
                size=one.size,
                data=bytes(one.unaligned_records or b""),
            )
        case _:
            return Answer(**about)


def addresses_in(message: Any) -> list[NodeAddress]:
    """Where the nodes are that the answer speaks of."""
    return [NodeAddress(one.node_id, one.host, one.port) for one in message.node_endpoints]
