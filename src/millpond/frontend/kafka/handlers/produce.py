"""Produce: one batch for each partition, appended at once, answered when the promise is kept.

Most answers leave before this function's caller does anything else. A topic with several replicas, or one
that is flushed before acknowledgement, makes the answer wait for all of its partitions, up to the client's
own time limit.
A batch whose records take long to check is checked beside the loop; the requests behind it on this connection
wait until it is appended, those on other connections do not.
acks=0 has no answer; an error then ends the connection, which is how such a client learns that
something is wrong.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from millpond.base.errors import (
    InvalidRecord,
    InvalidTimestamp,
    LongValidation,
    MillpondError,
    RequestTimedOut,
)
from millpond.engine.api import Partition
from millpond.engine.api.transactions import Admission, Place
from millpond.frontend.kafka.admission import admission_of, check_admitted
from millpond.frontend.kafka.convert import leader_hint, node_endpoints
from millpond.frontend.kafka.handler import Context, Deferred, Handler, Payload, Result
from millpond.frontend.kafka.producer_versions import produce_abilities
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.produce import (
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    decode_produce,
    encode_produce_response,
)


def handle(context: Context, request: Request) -> Result:
    version = request.api_version
    produce = decode_produce(request.body, version)
    acks = produce.acks
    if acks not in {-1, 0, 1}:
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
    if produce.transactional_id is not None and acks and context.engine.transactions.asks_first:
        admission = admission_of(context, produce, version)
        if admission is not None:
            return _ask_first(context, version, produce, admission)
    return _append(context, version, produce, {})


async def _ask_first(
    context: Context, version: int, produce: ProduceRequest, admission: Admission
) -> Payload:
    """A write that may begin a transaction here waits for what the transaction's coordinator says of it."""
    try:
        result = _append(context, version, produce, await admission.ask())
        if isinstance(result, Coroutine):
            result = await result
    finally:
        admission.close()
    return await result.received() if isinstance(result, Deferred) else result or ()


def _append(
    context: Context,
    version: int,
    produce: ProduceRequest,
    unadmitted: Mapping[Place, MillpondError],
) -> Payload | Deferred | Coroutine[Any, Any, Payload | Deferred | None] | None:
    acks = produce.acks
    producer = produce_abilities(version)
    append = context.engine.partitions.append_to
    transactional_id = produce.transactional_id
    answer: list[ProducedTopic] = []
    outcome = _Outcome(context, version, produce, answer)
    long: list[_Long] = []
    for name, topic_id, partitions in produce.topics:
        produced: list[ProducedPartition] = []
        answer.append((name, topic_id, produced))
        for index, records in partitions:
            try:
                partition = _partition(context, name, topic_id, index)
                if unadmitted:
                    check_admitted(unadmitted, partition, version)
                info, durable = append(
                    partition,
                    records if records is not None else _EMPTY,
                    acks=acks,
                    producer=producer,
                    transactional_id=transactional_id,
                )
            except LongValidation:
                assert records is not None
                find = partial(_partition, context, name, topic_id, index)
                long.append((find, partition, records, produced, len(produced)))
                produced.append(ProducedPartition(index, 0))
                continue
            except MillpondError as error:
                produced.append(outcome.refused(_name_of(context, name, topic_id), index, error))
                continue
            if durable is not None:
                outcome.waiting.append((durable, produced, len(produced), partition))
            produced.append(
                ProducedPartition(
                    index, 0, info.first_offset, info.append_time_ms, info.start_offset
                )
            )
    return _append_long(outcome, long) if long else outcome.answered()


async def _append_long(outcome: "_Outcome", long: "list[_Long]") -> Payload | Deferred | None:
    """Append the batches that must be checked beside the loop, one after the other."""
    engine = outcome.context.engine
    produce = outcome.produce
    producer = produce_abilities(outcome.version)
    for find, partition, records, produced, position in long:
        try:
            info, durable = await engine.partitions.append_in_thread(
                find,
                partition,
                records,
                acks=produce.acks,
                producer=producer,
                transactional_id=produce.transactional_id,
            )
        except MillpondError as error:
            produced[position] = outcome.refused(partition.topic, partition.index, error)
            continue
        if durable is not None:
            outcome.waiting.append((durable, produced, position, partition))
        produced[position] = ProducedPartition(
            partition.index, 0, info.first_offset, info.append_time_ms, info.start_offset
        )
    return outcome.answered()


class _Outcome:
    """The results of the batches of one request so far."""

    __slots__ = ("_answer", "_failed", "_moved", "context", "produce", "version", "waiting")

    def __init__(
        self, context: Context, version: int, produce: ProduceRequest, answer: list[ProducedTopic]
    ) -> None:
        self.context = context
        self.version = version
        self.produce = produce
        self.waiting: list[_Wait] = []
        self._answer = answer
        # The words, not the error: its traceback would keep this request and all that was made of it.
        self._failed: str | None = None
        self._moved: set[int] = set()  # leaders that the client is told of

    def refused(self, topic: str | None, index: int, error: MillpondError) -> ProducedPartition:
        """Note that a batch was refused; what its producer is told."""
        self._failed = str(error)
        refused = _refused(self.context, topic, index, error)
        self._moved.add(refused.leader_id)
        return refused

    def answered(self) -> Payload | Deferred | None:
        """The answer, at once or when the promise is kept."""
        if self.produce.acks == 0:
            if self._failed is not None:
                self.context.session.hang_up(f"a write with acks=0 failed: {self._failed}")
            return None
        if self.waiting:
            return _Pending(
                self.context, self.version, self.produce, self._answer, self.waiting, self._moved
            ).deferred
        endpoints = node_endpoints(self.context, self._moved) if self._moved else ()
        return (encode_produce_response(self._answer, 0, self.version, node_endpoints=endpoints),)


def refuse(request: Request, code: ErrorCode) -> Payload:
    produce = decode_produce(request.body, request.api_version)
    answer = [
        (name, topic_id, [ProducedPartition(index, code) for index, _records in partitions])
        for name, topic_id, partitions in produce.topics
    ]
    return (encode_produce_response(answer, 0, request.api_version),)


_Wait = tuple["asyncio.Future[None]", list[ProducedPartition], int, Partition]
_Long = tuple[Callable[[], Partition], Partition, memoryview, list[ProducedPartition], int]
_EMPTY = memoryview(bytearray())


def _partition(context: Context, name: str | None, topic_id: UUID | None, index: int) -> Partition:
    engine = context.engine
    if topic_id is not None:
        name = engine.partitions.topic_by_id(topic_id).name
    assert name is not None
    return engine.partitions.partition(name, index)


def _name_of(context: Context, name: str | None, topic_id: UUID | None) -> str | None:
    topic = (
        context.engine.metadata.image.topics_by_id.get(topic_id) if topic_id is not None else None
    )
    return topic.name if topic is not None else name


def _refused(
    context: Context, topic: str | None, index: int, error: MillpondError
) -> ProducedPartition:
    code = code_of(error)
    leader = leader_hint(context, topic, index, code)
    leader_id, leader_epoch = leader if leader is not None else (-1, -1)
    return ProducedPartition(
        index,
        code,
        error_message=str(error),
        record_errors=[(at, str(error)) for at in _positions(error)],
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )


def _positions(error: MillpondError) -> Sequence[int]:
    """Which records of the batch are wrong, if it is not the batch (KIP-467)."""
    return error.positions if isinstance(error, InvalidRecord | InvalidTimestamp) else ()


class _Pending:
    """An answer that waits for flushes or for other replicas."""

    __slots__ = ("_answer", "_context", "_missing", "_moved", "_timer", "_version", "deferred")

    def __init__(
        self,
        context: Context,
        version: int,
        produce: ProduceRequest,
        answer: list[ProducedTopic],
        waiting: list[_Wait],
        moved: set[int],
    ) -> None:
        self._context = context
        self._version = version
        self._answer = answer
        self._moved = moved
        self._missing = dict.fromkeys(range(len(waiting)))
        self.deferred = Deferred(self._abandon)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(produce.timeout_ms, 0) / 1000, self._on_timeout, waiting)
        for number, wait in enumerate(waiting):
            wait[0].add_done_callback(partial(self._on_durable, number, wait))

    def _on_durable(self, number: int, wait: _Wait, future: "asyncio.Future[None]") -> None:
        error = future.exception()
        if number not in self._missing:
            return
        del self._missing[number]
        if isinstance(error, MillpondError):
            self._refuse_one(wait, error)
        elif error is not None:
            self._finish_with(error)
            return
        if not self._missing:
            self._finish()

    def _on_timeout(self, waiting: list[_Wait]) -> None:
        late = RequestTimedOut(
            "the write stands at the leader, but not at every in-sync replica within the time that the "
            "producer gave it"
        )
        for number in self._missing:
            self._refuse_one(waiting[number], late)
        self._missing.clear()
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        endpoints = node_endpoints(self._context, self._moved) if self._moved else ()
        payload = encode_produce_response(self._answer, 0, self._version, node_endpoints=endpoints)
        self.deferred.resolve((payload,))

    def _refuse_one(self, wait: _Wait, error: MillpondError) -> None:
        _future, produced, position, partition = wait
        refused = _refused(self._context, partition.topic, partition.index, error)
        self._moved.add(refused.leader_id)
        produced[position] = refused

    def _finish_with(self, error: BaseException) -> None:
        self._timer.cancel()
        self._missing.clear()
        self.deferred.resolve(error)

    def _abandon(self) -> None:
        self._timer.cancel()
        self._missing.clear()


HANDLER = Handler(
    api_key=ApiKey.PRODUCE, min_version=3, max_version=13, handle=handle, refuse=refuse
)
