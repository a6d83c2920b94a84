"""Fetch sessions: what the broker remembers between the requests of one consumer (KIP-227)."""

from typing import Any

import pytest

from millpond.base import limits
from millpond.frontend.kafka.fetch_sessions import EPOCH_MAX, STALE_MS, FetchSessions
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.fetch import FetchedPartition, FetchPartition, FetchRequest
from tests.support.cluster.memory_broker import SeededRng

VERSION = 12


class Ticking:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def sessions(clock: Ticking) -> FetchSessions:
    return FetchSessions(SeededRng(), clock, slots=2)


def request(
    *partitions: tuple[str, int, int], session_id: int = 0, epoch: int = 0, **fields: Any
) -> FetchRequest:
    """Partitions as (topic, index, offset)."""
    topics: dict[str, list[FetchPartition]] = {}
    for topic, index, offset in partitions:
        wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=1000)
        topics.setdefault(topic, []).append(wanted)
    return FetchRequest(
        500,
        1,
        1 << 20,
        0,
        [(name, None, parts) for name, parts in topics.items()],
        session_id,
        epoch,
        **fields,
    )


def answer_of(*partitions: tuple[str, int, int, bytes]) -> list[Any]:
    """What was read, as (topic, index, high watermark, records)."""
    topics: dict[str, list[FetchedPartition]] = {}
    for topic, index, high, records in partitions:
        topics.setdefault(topic, []).append(FetchedPartition(index, 0, high, high, 0, records))
    return [(name, None, parts) for name, parts in topics.items()]


def names(topics: Any) -> list[tuple[str, int]]:
    return [(name, one.partition) for name, _id, parts in topics for one in parts]


def open_session(sessions: FetchSessions, *partitions: tuple[str, int, int]) -> int:
    turn = sessions.begin(request(*partitions), VERSION)
    read = answer_of(*((topic, index, 10, b"") for topic, index, _offset in partitions))
    told, session_id = sessions.end(turn, read, VERSION)
    assert names(told) == [(topic, index) for topic, index, _offset in partitions]
    return session_id


def test_a_full_request_opens_a_session_and_is_answered_in_full(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0), ("t", 1, 0))
    assert session_id != 0
    assert len(sessions) == 1


def test_a_request_without_a_session_opens_none(sessions: FetchSessions) -> None:
    turn = sessions.begin(request(("t", 0, 0), epoch=-1), VERSION)
    told, session_id = sessions.end(turn, answer_of(("t", 0, 1, b"x")), VERSION)
    assert (names(told), session_id) == ([("t", 0)], 0)
    assert len(sessions) == 0


def test_an_incremental_answer_tells_only_what_is_new(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0), ("t", 1, 0), ("u", 0, 0))

    turn = sessions.begin(request(session_id=session_id, epoch=1), VERSION)
    assert [(name, len(parts)) for name, _id, parts in turn.wanted] == [("t", 2), ("u", 1)]
    read = answer_of(("t", 0, 10, b""), ("t", 1, 12, b"data"), ("u", 0, 11, b""))
    told, told_id = sessions.end(turn, read, VERSION)
    assert names(told) == [("t", 1), ("u", 0)]  # new data; a new high watermark
    assert told_id == session_id

    turn = sessions.begin(request(session_id=session_id, epoch=2), VERSION)
    told, _id = sessions.end(
        turn, answer_of(("u", 0, 11, b""), ("t", 0, 10, b""), ("t", 1, 12, b"")), VERSION
    )
    assert told == []


def test_an_error_is_told_and_so_is_its_end(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0))
    failed = [("t", None, [FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE)])]
    healed = answer_of(("t", 0, 10, b""))
    told = []
    for epoch, read in ((1, failed), (2, failed), (3, healed), (4, healed)):
        turn = sessions.begin(request(session_id=session_id, epoch=epoch), VERSION)
        told.append(names(sessions.end(turn, read, VERSION)[0]))
    assert told == [[("t", 0)], [("t", 0)], [("t", 0)], []]


def test_positions_move_partitions_come_and_go(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0), ("t", 1, 0))
    turn = sessions.begin(
        request(
            ("t", 1, 55),
            ("u", 7, 3),
            session_id=session_id,
            epoch=1,
            forgotten=[("t", None, [0]), ("never", None, [1])],
        ),
        VERSION,
    )
    wanted = [
        (name, one.partition, one.fetch_offset) for name, _id, parts in turn.wanted for one in parts
    ]
    assert wanted == [("t", 1, 55), ("u", 7, 3)]


def test_partitions_that_gave_data_go_to_the_end_of_the_line(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0), ("t", 1, 0), ("u", 0, 0))
    turn = sessions.begin(request(session_id=session_id, epoch=1), VERSION)
    sessions.end(turn, answer_of(("t", 0, 11, b"data")), VERSION)
    turn = sessions.begin(request(session_id=session_id, epoch=2), VERSION)
    assert [(name, one.partition) for name, _id, parts in turn.wanted for one in parts] == [
        ("u", 0),
        ("t", 1),
        ("t", 0),
    ]


@pytest.mark.parametrize(
    ("session_id_shift", "epoch", "version", "code"),
    [
        (1, 1, VERSION, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_request_that_does_not_fit_its_session_is_refused(
    sessions: FetchSessions, session_id_shift: int, epoch: int, version: int, code: ErrorCode
) -> None:
    session_id = open_session(sessions, ("t", 0, 0))
    asked = request(session_id=session_id + session_id_shift, epoch=epoch)
    assert sessions.begin(asked, version).error == code


def test_a_full_request_ends_the_session_it_names(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0))
    sessions.begin(request(("t", 0, 0), session_id=session_id, epoch=-1), VERSION)
    assert len(sessions) == 0


def test_a_session_that_forgot_everything_ends(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0))
    asked = request(session_id=session_id, epoch=1, forgotten=[("t", None, [0])])
    turn = sessions.begin(asked, VERSION)
    assert sessions.end(turn, [], VERSION) == ([], 0)
    assert len(sessions) == 0


def test_the_epoch_starts_again_at_one(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, ("t", 0, 0))
    turn = sessions.begin(request(session_id=session_id, epoch=1), VERSION)
    assert turn.session is not None
    turn.session.epoch = EPOCH_MAX
    assert not sessions.begin(request(session_id=session_id, epoch=EPOCH_MAX), VERSION).error
    assert not sessions.begin(request(session_id=session_id, epoch=1), VERSION).error


def test_a_full_cache_gives_no_session_until_one_is_stale(
    sessions: FetchSessions, clock: Ticking
) -> None:
    old = open_session(sessions, ("t", 0, 0))
    young = open_session(sessions, ("t", 0, 0))
    clock.ms = STALE_MS - 1
    assert open_session(sessions, ("t", 0, 0)) == 0

    assert not sessions.begin(request(session_id=old, epoch=1), VERSION).error  # used again
    clock.ms = STALE_MS + 1
    newcomer = open_session(sessions, ("t", 0, 0))
    assert newcomer != 0
    missing = sessions.begin(request(session_id=young, epoch=1), VERSION)
    assert missing.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_partitions_of_all_sessions_are_bounded(
    sessions: FetchSessions, clock: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FETCH_SESSION_PARTITIONS_MAX", 3)

    def begin(*partitions: tuple[str, int, int]) -> int:
        turn = sessions.begin(request(*partitions), VERSION)
        return sessions.end(turn, answer_of(("t", 0, 0, b"")), VERSION)[1]

    first = begin(("t", 0, 0), ("t", 1, 0))
    assert first != 0
    assert begin(("t", 0, 0), ("t", 1, 0)) == 0  # would be four
    more = request(("u", 0, 0), ("u", 1, 0), session_id=first, epoch=1)
    assert sessions.begin(more, VERSION).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0

    assert begin(("t", 0, 0), ("t", 1, 0)) != 0
    clock.ms += STALE_MS
    assert begin(("t", 0, 0), ("t", 1, 0)) != 0  # the one that nobody used made room
    assert len(sessions) == 1
