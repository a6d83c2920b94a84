"""``ReplicaFetch`` as Kafka's Fetch with a replica's state; ``frontend/kafka/fetch/follower.py`` uses it.

Its session is the engine's (``replication/fetch_session.py``,
``engine/replication/follower_sessions.py``): both sides keep what was said, and here it is
only encoded.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.peers import PeerHandlers, ReplicaFetch, ReplicaRead, ReplicaReads
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal, refusal_of
from millpond.replication.fetch_session import ReplicaPosition
from millpond.wire.kafka import fetch as wire
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.fetch import FetchedPartition, FetchedTopic, encode_fetch_response
from millpond.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from millpond.wire.kafka.primitives import BytesLike

# --- asking ---------------------------------------------------------------------------------------


def to_wire(question: ReplicaFetch) -> FetchRequest:
    return FetchRequest(
        replica_state=ReplicaState(
            replica_id=question.node_id, replica_epoch=question.broker_epoch
        ),
        max_wait_ms=question.wait_ms,
        min_bytes=question.bytes_min,
        max_bytes=question.bytes_max,
        session_id=question.session_id,
        session_epoch=question.session_epoch,
        topics=[
            FetchTopic(topic_id=topic_id, partitions=[_partition(one) for one in positions])
            for topic_id, positions in _by_topic(question.positions).items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in _indexes_by_topic(question.forgotten).items()
        ],
    )


def from_wire(_question: ReplicaFetch, answer: FetchResponse) -> ReplicaReads:
    raise_refusal(answer.error_code)
    return ReplicaReads(
        session_id=answer.session_id,
        reads=[
            _read(topic.topic_id, partition)
            for topic in answer.responses
            for partition in topic.partitions
        ],
    )


def _partition(position: ReplicaPosition) -> FetchPartition:
    return FetchPartition(
        partition=position.partition,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.fetch_offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=position.log_start,
        partition_max_bytes=position.bytes_max,
        high_watermark=position.high_watermark
        if position.high_watermark >= 0
        else wire.NO_HIGH_WATERMARK,
    )


def _read(topic_id: UUID, partition: PartitionData) -> ReplicaRead:
    parting = partition.diverging_epoch
    is_parting = parting.epoch >= 0 or parting.end_offset >= 0
    return ReplicaRead(
        topic_id=topic_id,
        partition=partition.partition_index,
        high_watermark=partition.high_watermark,
        log_start=partition.log_start_offset,
        diverging=(parting.epoch, parting.end_offset) if is_parting else None,
        records=partition.records if partition.records is not None else b"",
        error=refusal_of(partition.error_code),
    )


def _by_topic(positions: Iterable[ReplicaPosition]) -> dict[UUID, list[ReplicaPosition]]:
    topics: dict[UUID, list[ReplicaPosition]] = {}
    for one in positions:
        topics.setdefault(one.topic_id, []).append(one)
    return topics


def _indexes_by_topic(keys: Iterable[tuple[UUID, int]]) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return topics


CALL = PeerCall(
    kind=ReplicaFetch,
    api_key=ApiKey.FETCH,
    version=18,
    # Version 18 says which high watermark the follower knows; without it news of a higher one come with the
    # next records, or when the wait is over.
    oldest=17,
    to_wire=to_wire,
    from_wire=from_wire,
    connection=ConnectionKind.REPLICAS,
)


# --- answering ------------------------------------------------------------------------------------


async def answer(
    handlers: PeerHandlers, fetch: wire.FetchRequest, version: int
) -> Sequence[BytesLike]:
    """Have the node's handlers answer a follower's fetch; return the parts of the response."""
    try:
        answered = await handlers.answer(question_of(fetch))
    except MillpondError as error:
        return encode_fetch_response((), version, error_code=code_of(error))
    return encode_fetch_response(
        fetched_of(answered.reads), version, session_id=answered.session_id
    )


def question_of(fetch: wire.FetchRequest) -> ReplicaFetch:
    """What a follower's request says."""
    return ReplicaFetch(
        node_id=fetch.replica_id,
        broker_epoch=fetch.replica_epoch,
        wait_ms=fetch.max_wait_ms,
        bytes_min=fetch.min_bytes,
        bytes_max=fetch.max_bytes,
        session_id=fetch.session_id,
        session_epoch=fetch.session_epoch,
        forgotten=tuple(
            (topic_id, index)
            for _name, topic_id, indexes in fetch.forgotten
            if topic_id is not None
            for index in indexes
        ),
        positions=tuple(
            ReplicaPosition(
                topic_id=topic_id,
                partition=one.partition,
                leader_epoch=one.current_leader_epoch,
                fetch_offset=one.fetch_offset,
                last_epoch=one.last_fetched_epoch,
                log_start=one.log_start_offset,
                bytes_max=one.partition_max_bytes,
                high_watermark=one.high_watermark
                if one.high_watermark != wire.NO_HIGH_WATERMARK
                else -1,
            )
            for _name, topic_id, partitions in fetch.topics
            if topic_id is not None
            for one in partitions
        ),
    )


def fetched_of(reads: Iterable[ReplicaRead]) -> list[FetchedTopic]:
    """The answer to a follower, by topic."""
    topics: dict[UUID, list[FetchedPartition]] = {}
    for read in reads:
        topics.setdefault(read.topic_id, []).append(
            FetchedPartition(
                read.partition,
                code_of(read.error) if read.error is not None else 0,
                read.high_watermark,
                -1,
                read.log_start,
                read.records,
                diverging=read.diverging,
            )
        )
    return [(None, topic_id, partitions) for topic_id, partitions in topics.items()]
