"""ShareFetch (KIP-932): a member says what became of records and is given more to work on.

Acknowledgements come first, so what is given back may be handed out in the same answer. If there is
nothing to hand out, the request waits until there is, or its time is over.
"""

import asyncio
from collections.abc import Iterable
from uuid import UUID

from millpond.base import limits
from millpond.base.errors import InvalidRequest, MillpondError, NotCoordinator
from millpond.engine.api.share import HandedOut, ShareWaiter
from millpond.frontend.kafka.handler import (
    Context,
    Deferred,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.frontend.kafka.share import acknowledge, member_key, watch_connection
from millpond.frontend.kafka.share_sessions import FINAL_EPOCH, Place
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

# Hand out exactly as many records as asked for, also when that is not a whole batch (KIP-1206).
_EXACT = 1


def handle(context: Context, request: Request) -> Result:
    message: ShareFetchRequest = decode(request)
    if context.engine.share.is_ready:
        return _ShareFetch(context, request, message).run()

    async def prepare() -> Payload:
        await context.engine.share.prepare()
        # The first request of all; the next one may wait.
        message.max_wait_ms = 0
        answer = _ShareFetch(context, request, message).run()
        assert isinstance(answer, tuple)
        return answer

    return prepare()


class _ShareFetch:
    """One request, from its acknowledgements to its answer."""

    def __init__(self, context: Context, request: Request, message: ShareFetchRequest) -> None:
        self._context = context
        self._request = request
        self._message = message
        self._key = member_key(message.group_id, message.member_id)
        self._answers: dict[Place, PartitionData] = {}
        # Places that cannot be read; each has an answer that says why.
        self._refused: set[Place] = set()
        self._durable: asyncio.Future[None] | None = None
        self._deferred: Deferred | None = None
        self._waiter: ShareWaiter | None = None
        self._until_ms = context.engine.runtime.clock.monotonic_ms() + max(message.max_wait_ms, 0)

    def run(self) -> Result:
        message, engine = self._message, self._context.engine
        self._session = self._context.frontend.share_sessions.fetch(
            self._key,
            message.share_session_epoch,
            acknowledges=any(
                one.acknowledgement_batches for topic in message.topics for one in topic.partitions
            ),
            connection=self._context.session,
        )
        watch_connection(self._context)
        self._acknowledge()
        if message.share_session_epoch == FINAL_EPOCH:
            released = engine.share.delivery.release_member(self._key.group_id, self._key.member_id)
            self._durable = released or self._durable
            return self._answer_when_durable()
        self._session.update(
            _places((topic.topic_id, [p.partition_index for p in topic.partitions])
                    for topic in message.topics),
            _places((topic.topic_id, topic.partitions) for topic in message.forgotten_topics_data),
        )  # fmt: skip
        if message.is_renew_ack and (message.max_bytes > 0 or message.max_records > 0):
            raise InvalidRequest("a request that renews locks asks for no records")
        if message.is_renew_ack or message.max_bytes <= 0 or message.max_records <= 0:
            return self._answer_when_durable()
        has_acknowledged = bool(self._answers)
        self._acquire()
        # Who acknowledged something is waiting to hear that it holds.
        if has_acknowledged or message.max_wait_ms <= 0 or not self._has_to_wait():
            return self._answer_when_durable()
        self._wait(message.max_wait_ms)
        assert self._deferred is not None
        return self._deferred

    def _has_to_wait(self) -> bool:
        """Return whether the response would tell the member nothing new.

        A topic that is gone is refused in every answer until the member forgets it. That is said at once
        when it is new, and from then on is no reason to hurry: a member would ask again and again.
        """
        session = self._session
        if any(place not in self._refused for place in self._answers):
            return False
        said_before, session.refused = session.refused, frozenset(self._refused)
        return bool(session.places) and self._refused <= said_before

    def _acknowledge(self) -> None:
        for topic in self._message.topics:
            for one in topic.partitions:
                if not one.acknowledgement_batches:
                    continue
                error, durable = acknowledge(
                    self._context,
                    self._key,
                    topic.topic_id,
                    one.partition_index,
                    one.acknowledgement_batches,
                )
                self._durable = durable or self._durable
                answer = self._answer_for((topic.topic_id, one.partition_index))
                if error is not None:
                    answer.acknowledge_error_code = code_of(error)
                    answer.acknowledge_error_message = str(error)

    def _acquire(self) -> None:
        message, share = self._message, self._context.engine.share.delivery
        self._refused.clear()
        records_left = message.max_records
        bytes_left = min(message.max_bytes, limits.FETCH_RESPONSE_BYTES_MAX)
        for place in tuple(self._session.places):
            if records_left <= 0 or bytes_left <= 0:
                break
            try:
                handed = share.acquire(
                    self._key.group_id,
                    *place,
                    owner=self._key.member_id,
                    records_max=records_left,
                    bytes_max=bytes_left,
                    exact=message.share_acquire_mode == _EXACT,
                )
            except MillpondError as error:
                answer = self._answer_for(place)
                answer.error_code = code_of(error)
                answer.error_message = str(error)
                self._refused.add(place)
                continue
            if handed is None:
                continue
            records_left -= sum(run.next - run.first for run in handed.runs)
            bytes_left -= len(handed.records)
            self._hand_over(place, handed)

    def _hand_over(self, place: Place, handed: HandedOut) -> None:
        answer = self._answer_for(place)
        answer.records = handed.records
        answer.acquired_records = [
            AcquiredRecords(
                first_offset=run.first, last_offset=run.next - 1, delivery_count=run.deliveries
            )
            for run in handed.runs
        ]
        self._session.rotate(place)

    def _answer_for(self, place: Place) -> PartitionData:
        answer = self._answers.get(place)
        if answer is None:
            answer = self._answers[place] = PartitionData(partition_index=place[1], records=b"")
        return answer

    # --- waiting -----------------------------------------------------------------------------------

    def _wait(self, wait_ms: int) -> None:
        self._waiter = self._context.engine.share.delivery.wait(
            self._key.group_id, self._session.places, wait_ms=wait_ms, done=self._on_news
        )
        if self._deferred is None:
            self._deferred = Deferred(self._cancel, is_idle=True)

    def _cancel(self) -> None:
        assert self._waiter is not None
        self._waiter.cancel()

    def _on_news(self) -> None:
        deferred = self._deferred
        assert deferred is not None
        try:
            self._acquire()
            left_ms = self._until_ms - self._context.engine.runtime.clock.monotonic_ms()
            if self._has_to_wait() and left_ms > 0:
                self._wait(left_ms)
            else:
                deferred.resolve(self._answer())
        except Exception as error:  # noqa: BLE001 - the session answers for it
            deferred.resolve(error)

    # --- answering ---------------------------------------------------------------------------------

    def _answer_when_durable(self) -> Result:
        durable = self._durable
        if durable is None:
            return self._answer()
        deferred = Deferred()

        def settle(done: "asyncio.Future[None]") -> None:
            failed = done.cancelled() or done.exception() is not None
            deferred.resolve(NotCoordinator("not flushed") if failed else self._answer())

        durable.add_done_callback(settle)
        return deferred

    def _answer(self) -> Payload:
        topics: dict[UUID, list[PartitionData]] = {}
        for (topic_id, _index), answer in self._answers.items():
            topics.setdefault(topic_id, []).append(answer)
        return encode(
            self._request,
            ShareFetchResponse(
                acquisition_lock_timeout_ms=self._context.engine.share.delivery.lock_ms(
                    self._key.group_id
                ),
                responses=[
                    ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in topics.items()
                ],
            ),
        )


def _places(topics: Iterable[tuple[UUID, list[int]]]) -> list[Place]:
    return [(topic_id, index) for topic_id, indexes in topics for index in indexes]


HANDLER = Handler(
    api_key=ApiKey.SHARE_FETCH,
    min_version=1,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(ShareFetchResponse),
)
