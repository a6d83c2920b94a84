"""What is kept of share partitions, as Kafka's five APIs for it (KIP-932): asked for and answered.

A request of the engine is about one share partition; a request on the wire may be about many, all of one
group. Each share partition is answered alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from millpond.base.errors import InvalidRequest, MillpondError
from millpond.engine.peers import (
    DeleteShareState,
    InitializeShareState,
    ListShareState,
    PeerHandlers,
    PeerRequest,
    ReadShareState,
    ShareStateRead,
    SummarizeShareState,
    WriteShareState,
)
from millpond.group.share.records import ShareKey, StateBatch
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages import delete_share_group_state as deleting
from millpond.wire.kafka.messages import initialize_share_group_state as initializing
from millpond.wire.kafka.messages import read_share_group_state as reading
from millpond.wire.kafka.messages import read_share_group_state_summary as summarizing
from millpond.wire.kafka.messages import write_share_group_state as writing


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateApi:
    """One of the five: its messages, and the part of them that differs."""

    kind: type[PeerRequest[Any]]
    api_key: ApiKey
    version: int
    request: Callable[..., Any]
    topic: Callable[..., Any]
    response: Callable[..., Any]
    topic_result: Callable[..., Any]
    partition_result: Callable[..., Any]
    # A question's part of the request, and back.
    to_partition: Callable[[Any], Any]
    to_question: Callable[[ShareKey, Any], PeerRequest[Any]]
    # An answer's part of the response, and back.
    to_fields: Callable[[Any], dict[str, Any]]
    to_answer: Callable[[Any], Any]

    def call(self) -> PeerCall[Any]:
        """How the question travels."""
        return PeerCall(
            kind=self.kind,
            api_key=self.api_key,
            version=self.version,
            to_wire=self._to_wire,
            from_wire=self._from_wire,
            connection=ConnectionKind.TRANSACTIONS,
        )

    def questions(self, message: Any) -> Iterator[PeerRequest[Any]]:
        """What a request asks, one share partition after the other."""
        for topic in message.topics:
            for one in topic.partitions:
                yield self.to_question(
                    ShareKey(message.group_id, topic.topic_id, one.partition), one
                )

    async def answer(self, message: Any, handlers: PeerHandlers) -> Any:
        """Have the node's handlers answer a request; return the response's message."""
        everything = list_question(message)
        if everything is not None:
            return await _answer_list(everything, handlers)
        fields = [await self._answer_one(one, handlers) for one in self.questions(message)]
        return self._response_to(message, fields)

    def refusal_to(self, message: Any, code: ErrorCode) -> Any:
        """Make the response that refuses all of a request."""
        count = sum(len(topic.partitions) for topic in message.topics)
        return self._response_to(message, [{"error_code": code}] * count)

    async def _answer_one(
        self, question: PeerRequest[Any], handlers: PeerHandlers
    ) -> dict[str, Any]:
        try:
            return self.to_fields(await handlers.answer(question))
        except MillpondError as error:
            return {"error_code": code_of(error), "error_message": str(error)}

    def _response_to(self, message: Any, fields: list[dict[str, Any]]) -> Any:
        left = iter(fields)
        return self.response(
            results=[
                self.topic_result(
                    topic_id=topic.topic_id,
                    partitions=[
                        self.partition_result(partition=one.partition, **next(left))
                        for one in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )

    def _to_wire(self, question: Any) -> Any:
        key: ShareKey = question.key
        topic = self.topic(topic_id=key.topic_id, partitions=[self.to_partition(question)])
        return self.request(group_id=key.group_id, topics=[topic])

    def _from_wire(self, question: Any, message: Any) -> Any:
        key: ShareKey = question.key
        for topic in message.results:
            for one in topic.partitions:
                if (topic.topic_id, one.partition) == key[1:]:
                    raise_refusal(one.error_code, one.error_message)
                    return self.to_answer(one)
        raise InvalidRequest(f"the answer says nothing of partition {key.partition}")


def _nothing(_answer: Any) -> dict[str, Any]:
    return {}


def _done(_result: Any) -> None:
    return None


def _batches(found: Any) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in found
    )


INITIALIZE = ShareStateApi(
    kind=InitializeShareState,
    api_key=ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    version=0,
    request=initializing.InitializeShareGroupStateRequest,
    topic=initializing.InitializeStateData,
    response=initializing.InitializeShareGroupStateResponse,
    topic_result=initializing.InitializeStateResult,
    partition_result=initializing.PartitionResult,
    to_partition=lambda question: initializing.PartitionData(
        partition=question.key.partition,
        state_epoch=question.state_epoch,
        start_offset=question.start,
    ),
    to_question=lambda key, one: InitializeShareState(
        key=key, state_epoch=one.state_epoch, start=one.start_offset
    ),
    to_fields=_nothing,
    to_answer=_done,
)

READ = ShareStateApi(
    kind=ReadShareState,
    api_key=ApiKey.READ_SHARE_GROUP_STATE,
    version=0,
    request=reading.ReadShareGroupStateRequest,
    topic=reading.ReadStateData,
    response=reading.ReadShareGroupStateResponse,
    topic_result=reading.ReadStateResult,
    partition_result=reading.PartitionResult,
    to_partition=lambda question: reading.PartitionData(
        partition=question.key.partition, leader_epoch=question.leader_epoch
    ),
    to_question=lambda key, one: ReadShareState(key=key, leader_epoch=one.leader_epoch),
    to_fields=lambda answer: {
        "state_epoch": answer.state_epoch,
        "start_offset": answer.start,
        "state_batches": [reading.StateBatch(*batch) for batch in answer.batches],
    },
    to_answer=lambda one: ShareStateRead(
        state_epoch=one.state_epoch, start=one.start_offset, batches=_batches(one.state_batches)
    ),
)

WRITE = ShareStateApi(
    kind=WriteShareState,
    api_key=ApiKey.WRITE_SHARE_GROUP_STATE,
    version=1,
    request=writing.WriteShareGroupStateRequest,
    topic=writing.WriteStateData,
    response=writing.WriteShareGroupStateResponse,
    topic_result=writing.WriteStateResult,
    partition_result=writing.PartitionResult,
    to_partition=lambda question: writing.PartitionData(
        partition=question.key.partition,
        state_epoch=question.state_epoch,
        leader_epoch=question.leader_epoch,
        start_offset=question.start,
        state_batches=[writing.StateBatch(*batch) for batch in question.batches],
    ),
    to_question=lambda key, one: WriteShareState(
        key=key,
        state_epoch=one.state_epoch,
        leader_epoch=one.leader_epoch,
        start=one.start_offset,
        batches=_batches(one.state_batches),
    ),
    to_fields=_nothing,
    to_answer=_done,
)

DELETE = ShareStateApi(
    kind=DeleteShareState,
    api_key=ApiKey.DELETE_SHARE_GROUP_STATE,
    version=0,
    request=deleting.DeleteShareGroupStateRequest,
    topic=deleting.DeleteStateData,
    response=deleting.DeleteShareGroupStateResponse,
    topic_result=deleting.DeleteStateResult,
    partition_result=deleting.PartitionResult,
    to_partition=lambda question: deleting.PartitionData(partition=question.key.partition),
    to_question=lambda key, _one: DeleteShareState(key=key),
    to_fields=_nothing,
    to_answer=_done,
)

SUMMARIZE = ShareStateApi(
    kind=SummarizeShareState,
    api_key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    version=1,
    request=summarizing.ReadShareGroupStateSummaryRequest,
    topic=summarizing.ReadStateSummaryData,
    response=summarizing.ReadShareGroupStateSummaryResponse,
    topic_result=summarizing.ReadStateSummaryResult,
    partition_result=summarizing.PartitionResult,
    to_partition=lambda question: summarizing.PartitionData(
        partition=question.key.partition, leader_epoch=-1
    ),
    to_question=lambda key, _one: SummarizeShareState(key=key),
    to_fields=lambda answer: {
        "state_epoch": answer.state_epoch,
        "leader_epoch": answer.leader_epoch,
        "start_offset": answer.start,
        "delivery_complete_count": answer.finished,
    },
    to_answer=lambda one: ShareStateRead(
        state_epoch=one.state_epoch,
        leader_epoch=one.leader_epoch,
        start=one.start_offset,
        finished=one.delivery_complete_count,
    ),
)

APIS = (INITIALIZE, READ, WRITE, DELETE, SUMMARIZE)


# --- everything that is kept of a group: a summary that names no topic ----------------------------


def list_question(message: Any) -> ListShareState | None:
    """What a request for a summary asks if it names nothing: all that there is."""
    if isinstance(message, summarizing.ReadShareGroupStateSummaryRequest) and not message.topics:
        return ListShareState(group_id=message.group_id)
    return None


def list_response(answer: Mapping[ShareKey, ShareStateRead] | ErrorCode) -> Any:
    """All that is kept; a refusal is about a partition that there is not."""
    if isinstance(answer, ErrorCode):
        refused = summarizing.PartitionResult(partition=-1, error_code=answer)
        results = [summarizing.ReadStateSummaryResult(topic_id=_NO_TOPIC, partitions=[refused])]
        return summarizing.ReadShareGroupStateSummaryResponse(results=results)
    topics: dict[UUID, list[Any]] = {}
    for key, found in answer.items():
        fields = SUMMARIZE.to_fields(found)
        one = summarizing.PartitionResult(partition=key.partition, **fields)
        topics.setdefault(key.topic_id, []).append(one)
    return summarizing.ReadShareGroupStateSummaryResponse(
        results=[
            summarizing.ReadStateSummaryResult(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ]
    )


async def _answer_list(question: ListShareState, handlers: PeerHandlers) -> Any:
    try:
        found = await handlers.answer(question)
    except MillpondError as error:
        return list_response(code_of(error))
    return list_response(found)


def _list_from_wire(question: ListShareState, message: Any) -> Mapping[ShareKey, ShareStateRead]:
    found = {}
    for topic in message.results:
        for one in topic.partitions:
            raise_refusal(one.error_code, one.error_message)
            key = ShareKey(question.group_id, topic.topic_id, one.partition)
            found[key] = SUMMARIZE.to_answer(one)
    return found


_NO_TOPIC = UUID(int=0)

LIST = PeerCall(
    kind=ListShareState,
    api_key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    version=1,
    to_wire=lambda question: summarizing.ReadShareGroupStateSummaryRequest(
        group_id=question.group_id
    ),
    from_wire=_list_from_wire,
    connection=ConnectionKind.TRANSACTIONS,
)

CALLS = (*(api.call() for api in APIS), LIST)
