"""Fetch sessions (KIP-227): the broker remembers what a consumer reads, so that requests and
answers carry changes.

A session is a list of partitions with the positions last asked for and what was last told about
each. An incremental request names what changed and what to forget; the answer leaves out what is as
it was. Each request of a session carries the next epoch: one that does not is refused, and the
client starts again with a full request.

The cache is bounded, in sessions and in partitions. When it is full, a session unused for two minutes
makes room; otherwise the newcomer gets none and goes on with full requests, which works as well and
costs more. Knows no engine: it keeps what others read.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.rng import Rng
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.fetch import (
    TOPIC_IDS_FROM,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
STALE_MS = 120_000

TopicKey: TypeAlias = str | UUID


class _Remembered:
    """One partition of a session: what is asked for, and what the client was last told."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_changed(self, fetched: FetchedPartition) -> bool:
        """Return whether the client must be told of the partition, and remember what it is told."""
        if fetched.error_code:
            # When the error goes away the client must hear of it, whatever the numbers are then.
            self.high_watermark = -1
            return True
        changed = (
            len(fetched.records) > 0
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
            or fetched.diverging is not None
        )
        self.high_watermark = fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        return changed


class FetchSession:
    """The partitions that one consumer reads."""

    __slots__ = ("epoch", "session_id", "size", "topics", "used_ms", "uses_ids")

    def __init__(self, session_id: int, *, uses_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.uses_ids = uses_ids
        self.used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1
        self.topics: dict[TopicKey, dict[int, _Remembered]] = {}
        self.size = 0  # partitions

    def update(self, request: FetchRequest) -> None:
        """Take what an incremental request adds, changes and forgets."""
        for name, topic_id, partitions in request.topics:
            remembered = self.topics.setdefault(_key(name, topic_id), {})
            for wanted in partitions:
                known = remembered.get(wanted.partition)
                if known is None:
                    remembered[wanted.partition] = _Remembered(wanted)
                    self.size += 1
                else:
                    known.wanted = wanted
        for name, topic_id, indexes in request.forgotten:
            key = _key(name, topic_id)
            remembered = self.topics.get(key, {})
            for index in indexes:
                if remembered.pop(index, None) is not None:
                    self.size -= 1
            if not remembered:
                self.topics.pop(key, None)

    def wanted(self) -> list[FetchTopic]:
        """Everything the session reads, in the order in which it is to be served."""
        return [
            (
                None if self.uses_ids else key,  # type: ignore[misc]
                key if self.uses_ids else None,
                [one.wanted for one in remembered.values()],
            )
            for key, remembered in self.topics.items()
        ]

    def changes(self, fetched: Iterable[FetchedTopic]) -> list[FetchedTopic]:
        """Return the part of a response that the client does not know yet.

        Partitions that gave data go to the end of the line, so that a full answer does not always
        starve the same ones.
        """
        told: list[FetchedTopic] = []
        for name, topic_id, partitions in fetched:
            key = _key(name, topic_id)
            remembered = self.topics.get(key)
            if remembered is None:
                continue
            changed: list[FetchedPartition] = []
            gave = False
            for partition in partitions:
                known = remembered.get(partition.partition)
                if known is None or not known.is_changed(partition):
                    continue
                changed.append(partition)
                if len(partition.records):
                    gave = True
                    remembered[partition.partition] = remembered.pop(partition.partition)
            if changed:
                told.append((name, topic_id, changed))
            if gave:
                self.topics[key] = self.topics.pop(key)
        return told


class Turn(NamedTuple):
    """One request's place in a session: what to read, and what to do with the result."""

    wanted: Sequence[FetchTopic]
    session: FetchSession | None = None
    opens: bool = False  # a full request that would like to begin a session
    error: ErrorCode = ErrorCode.NONE


class FetchSessions:
    """The bounded cache of sessions of one node."""

    def __init__(self, rng: Rng, clock: Clock, *, slots: int) -> None:
        self._rng = rng
        self._clock = clock
        self._slots = slots
        # In order of last use: the first is the one unused for longest.
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0  # of all sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int) -> Turn:
        """Return the partitions that this request reads."""
        epoch = request.session_epoch
        if epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            # A full request; it ends the session that it names.
            if request.session_id != NO_SESSION:
                self._close(request.session_id)
            return Turn(request.topics, opens=epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            return Turn((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return Turn((), error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != (version >= TOPIC_IDS_FROM):
            return Turn((), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = session.size
        session.update(request)
        self._partitions += session.size - before
        if session.size > before and self._partitions > limits.FETCH_SESSION_PARTITIONS_MAX:
            self._close(session.session_id)
            return Turn((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else INITIAL_EPOCH + 1
        self._touch(session)
        if not session.topics:
            self._close(session.session_id)
            return Turn(())
        return Turn(session.wanted(), session=session)

    def end(
        self, turn: Turn, fetched: Sequence[FetchedTopic], version: int
    ) -> tuple[Sequence[FetchedTopic], int]:
        """Return the partitions of the response and the id of its session."""
        if turn.session is not None:
            return turn.session.changes(fetched), turn.session.session_id
        if turn.opens and fetched:
            return fetched, self._open(turn.wanted, fetched, version)
        return fetched, NO_SESSION

    def _open(
        self, wanted: Sequence[FetchTopic], fetched: Sequence[FetchedTopic], version: int
    ) -> int:
        now_ms = self._clock.monotonic_ms()
        if len(self._sessions) >= self._slots and not self._make_room(now_ms):
            return NO_SESSION
        asked = sum(len(partitions) for _name, _topic_id, partitions in wanted)
        while self._partitions + asked > limits.FETCH_SESSION_PARTITIONS_MAX:
            if not self._make_room(now_ms):
                return NO_SESSION
        session_id = self._rng.randrange(EPOCH_MAX) + 1
        while session_id in self._sessions:
            session_id = self._rng.randrange(EPOCH_MAX) + 1
        session = FetchSession(session_id, uses_ids=version >= TOPIC_IDS_FROM, now_ms=now_ms)
        for name, topic_id, partitions in wanted:
            session.topics[_key(name, topic_id)] = {
                one.partition: _Remembered(one) for one in partitions
            }
        session.size = sum(map(len, session.topics.values()))
        session.changes(fetched)
        self._sessions[session_id] = session
        self._partitions += session.size
        return session_id

    def _make_room(self, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms < STALE_MS:
            return False
        self._close(oldest.session_id)
        return True

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.size

    def _touch(self, session: FetchSession) -> None:
        session.used_ms = self._clock.monotonic_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)


def _key(name: str | None, topic_id: UUID | None) -> TopicKey:
    key = name if topic_id is None else topic_id
    assert key is not None
    return key
