"""Messages that were just published are at hand until they are taken or newer ones need the room."""

from millpond.engine.queues.hosted import recent_messages
from millpond.engine.queues.hosted.recent_messages import RecentMessages
from millpond.message.hub import Message


def message(body: bytes) -> Message:
    return Message("", "q", b"", {}, body, 0)


def bodies(recent: RecentMessages, offsets: range, lane: int = 0) -> list[bytes | None]:
    found = [recent.look(lane, offset) for offset in offsets]
    return [None if one is None else one.body for one in found]


def test_what_was_taken_is_gone_and_its_neighbours_stay() -> None:
    recent = RecentMessages(1)
    recent.add(0, 10, [message(b"a"), message(b"b")])
    recent.add(0, 15, [message(b"c")])
    taken = recent.take(0, 11)
    assert taken is not None
    assert taken.body == b"b"
    assert recent.take(0, 11) is None
    assert bodies(recent, range(9, 17)) == [None, b"a", None, None, None, None, b"c", None]
    assert recent.take(0, 10) is not None
    assert bodies(recent, range(10, 16)) == [None, None, None, None, None, b"c"]


def test_each_lane_has_its_own_offsets() -> None:
    recent = RecentMessages(2)
    recent.add(0, 0, [message(b"low")])
    recent.add(1, 0, [message(b"high")])
    assert bodies(recent, range(1), lane=1) == [b"high"]
    assert recent.take(1, 0) is not None
    assert bodies(recent, range(1)) == [b"low"]


def test_the_oldest_go_when_there_is_no_room() -> None:
    recent = RecentMessages(1)
    big = b"x" * (recent_messages._BYTES_MAX // 2 - 2 * recent_messages._OVERHEAD)
    for offset in range(3):
        recent.add(0, offset, [message(big)])
    assert recent.look(0, 0) is None
    assert recent.look(0, 1) is not None
    assert recent.look(0, 2) is not None
    recent.take(0, 1)
    recent.add(0, 3, [message(big)])
    assert recent.look(0, 2) is not None, "what was taken makes room"
    assert recent.look(0, 3) is not None


def test_after_a_clearing_nothing_is_left() -> None:
    recent = RecentMessages(1)
    recent.add(0, 0, [message(b"a")])
    recent.clear()
    assert recent.look(0, 0) is None
    recent.add(0, 1, [message(b"b")])
    assert bodies(recent, range(2)) == [None, b"b"]
