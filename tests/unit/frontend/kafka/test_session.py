"""The session: who goes when. Handlers here are the test's own; the wire and the session are real."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from millpond.base import limits
from millpond.base.errors import InvalidRequest, RemoteProtocolError
from millpond.engine.limits.quotas import Quotas
from millpond.engine.limits.request_memory import RequestMemory
from millpond.engine.runtime.runtime import Runtime
from millpond.engine.runtime.turns import LONG_NS, SHORT_NS, Turns
from millpond.frontend.kafka.frontend import Complaints
from millpond.frontend.kafka.handler import Deferred, Handler, Payload
from millpond.frontend.kafka.session import KafkaSession
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.primitives import BytesLike
from tests.support.cluster.memory_broker import SeededRng
from tests.support.time.virtual_loop import LoopClock, run, virtual_loop


class FakeEngine:
    def __init__(self) -> None:
        self.runtime = Runtime(LoopClock(virtual_loop()), SeededRng(1))
        self.quotas = Quotas(lambda _name: 1)


class FakeFrontend:
    """One API (Heartbeat) answered by whatever the test says."""

    def __init__(self, handle: Callable[[Any, Request], Any], **fields: Any) -> None:
        self.engine = FakeEngine()
        self.handlers = {
            int(ApiKey.HEARTBEAT): Handler(
                api_key=ApiKey.HEARTBEAT, min_version=0, max_version=3, handle=handle, **fields
            )
        }
        self.request_bytes_max = 1000
        self.scratch = bytearray(1000)
        self.stalled_bytes = 0
        self.memory = RequestMemory(1 << 30)
        self.counter_ns = lambda: 1
        # What this loop was busy for; handlers of the test let it go on.
        self.busy_ns = 0
        self.turns = Turns(lambda: self.busy_ns, lambda: self.busy_ns)
        self.complaints = Complaints(LoopClock(virtual_loop()), lines_max=3)

    def unsupported_answer(self, request: Request) -> Payload | None:
        return None


class Client:
    """A writer that keeps what is written as (correlation id, body)."""

    def __init__(self, frontend: FakeFrontend) -> None:
        self.written: list[tuple[int, bytes]] = []
        self.writes = 0
        self.is_closed = False
        self.is_paused = False
        self.session = KafkaSession(frontend, self, listener="L", peer="p")  # type: ignore[arg-type]
        self._next = 0

    def writelines(self, buffers: Sequence[BytesLike]) -> None:
        self.writes += 1
        data = b"".join(buffers)
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            self.written.append((int.from_bytes(frame[:4], "big"), frame[4:]))

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def frame(self, body: bytes, *, api: int = ApiKey.HEARTBEAT, version: int = 0) -> bytes:
        """A request; its number counts up."""
        header = api.to_bytes(2, "big") + version.to_bytes(2, "big")
        header += self._next.to_bytes(4, "big") + b"\xff\xff"
        self._next += 1
        return (len(header) + len(body)).to_bytes(4, "big") + header + body

    def send(self, *bodies: bytes) -> None:
        self.session.data_received(b"".join(self.frame(body) for body in bodies))


def echo(_context: Any, request: Request) -> Payload:
    return (bytes(request.body),)


async def test_immediate_answers_of_pipelined_requests_share_one_write() -> None:
    client = Client(FakeFrontend(echo))
    client.send(b"a", b"b", b"c")
    assert client.written == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert client.writes == 1


async def test_any_cut_of_the_bytes_gives_the_same_answers() -> None:
    frames = b"".join(Client(FakeFrontend(echo)).frame(body) for body in (b"first", b"second"))
    for size in range(1, len(frames)):
        client = Client(FakeFrontend(echo))
        for start in range(0, len(frames), size):
            client.session.data_received(frames[start : start + size])
        assert [body for _number, body in client.written] == [b"first", b"second"]


async def test_answers_leave_in_the_order_of_the_requests() -> None:
    waiting: dict[bytes, Deferred] = {}

    def handle(_context: Any, request: Request) -> Any:
        body = bytes(request.body)
        if body.startswith(b"now"):
            return (body,)
        return waiting.setdefault(body, Deferred())

    client = Client(FakeFrontend(handle))
    client.send(b"slow 1", b"now 1", b"slow 2", b"now 2")
    assert client.written == []
    waiting[b"slow 2"].resolve((b"SLOW 2",))
    assert client.written == []
    waiting[b"slow 1"].resolve((b"SLOW 1",))
    assert client.written == [
        (0, b"SLOW 1"),
        (1, b"now 1"),
        (2, b"SLOW 2"),
        (3, b"now 2"),
    ]


async def test_a_deferred_answer_does_not_hold_up_the_work_behind_it() -> None:
    done: list[bytes] = []

    def handle(_context: Any, request: Request) -> Any:
        done.append(bytes(request.body))
        return Deferred()

    client = Client(FakeFrontend(handle))
    client.send(b"a", b"b")
    assert done == [b"a", b"b"]


async def test_a_coroutine_holds_the_line() -> None:
    done: list[bytes] = []
    gate = asyncio.Event()

    def handle(_context: Any, request: Request) -> Any:
        body = bytes(request.body)
        done.append(body)
        return wait(body) if body == b"create" else (body,)

    async def wait(body: bytes) -> Payload:
        await gate.wait()
        return (body,)

    frontend = FakeFrontend(handle)
    await frontend.engine.runtime.tasks.start()
    client = Client(frontend)
    client.send(b"create", b"use")
    await asyncio.sleep(1)
    assert done == [b"create"]
    assert client.is_paused
    gate.set()
    await asyncio.sleep(1)
    assert client.written == [(0, b"create"), (1, b"use")]
    assert not client.is_paused
    await frontend.engine.runtime.tasks.stop()


async def test_a_future_answers_when_it_is_done_and_holds_nothing_up() -> None:
    future: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()

    def handle(_context: Any, request: Request) -> Any:
        return future if bytes(request.body) == b"join" else (bytes(request.body),)

    client = Client(FakeFrontend(handle))
    client.send(b"join", b"beat")
    assert client.written == []
    future.set_result((b"joined",))
    await asyncio.sleep(0)
    assert client.written == [(0, b"joined"), (1, b"beat")]


async def test_no_answer_means_none_and_disturbs_no_order() -> None:
    first = Deferred()

    def handle(_context: Any, request: Request) -> Any:
        if bytes(request.body) == b"first":
            return first
        return None if bytes(request.body) == b"silent" else (bytes(request.body),)

    client = Client(FakeFrontend(handle))
    client.send(b"silent", b"first", b"silent", b"last")
    first.resolve((b"FIRST",))
    assert client.written == [(1, b"FIRST"), (3, b"last")]


async def test_reading_stops_when_too_many_requests_wait_and_goes_on_when_they_do_not() -> None:
    waiting: list[Deferred] = []

    def handle(_context: Any, _request: Request) -> Any:
        waiting.append(Deferred())
        return waiting[-1]

    client = Client(FakeFrontend(handle))
    client.send(*[b"x"] * (limits.IN_FLIGHT_REQUESTS_MAX + 10))
    assert len(waiting) == limits.IN_FLIGHT_REQUESTS_MAX
    assert client.is_paused
    waiting[0].resolve((b"",))
    assert len(waiting) == limits.IN_FLIGHT_REQUESTS_MAX + 1
    for deferred in waiting[1:11]:
        deferred.resolve((b"",))
    assert len(waiting) == limits.IN_FLIGHT_REQUESTS_MAX + 10
    assert not client.is_paused


async def test_finished_answers_behind_an_unfinished_one_are_bounded_in_bytes() -> None:
    first = Deferred()
    done = 0

    def handle(_context: Any, request: Request) -> Any:
        nonlocal done
        if bytes(request.body) == b"first":
            return first
        done += 1
        return (bytes(1024 * 1024),)

    client = Client(FakeFrontend(handle))
    client.send(b"first", *[b"big"] * 100)
    assert done == limits.SEND_BUFFER_BYTES_MAX // (1024 * 1024) + 1
    assert client.is_paused


async def test_reading_stops_when_waiting_requests_hold_too_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "IN_FLIGHT_BYTES_MAX", 1000)
    waiting: list[Deferred] = []

    def handle(_context: Any, _request: Request) -> Deferred:
        waiting.append(Deferred())
        return waiting[-1]

    client = Client(FakeFrontend(handle))
    client.send(*[b"x" * 400] * 5)
    assert len(waiting) == 3
    assert client.is_paused
    waiting[0].resolve((b"done",))
    assert len(waiting) == 4
    for deferred in waiting:
        deferred.resolve((b"done",))
    assert len(waiting) == 5
    assert not client.is_paused


async def test_a_client_that_does_not_read_gets_no_more_work_done() -> None:
    done = 0

    def handle(_context: Any, _request: Request) -> Any:
        nonlocal done
        done += 1
        if done == 2:
            client.session.pause_writing()  # as the transport does from within a write
        return (b"ok",)

    client = Client(FakeFrontend(handle))
    client.send(*[b"x"] * 5)
    assert done == 2
    assert client.is_paused
    client.session.resume_writing()
    assert done == 5
    assert not client.is_paused


async def test_a_client_that_leaves_cancels_what_still_works_for_it() -> None:
    cancelled: list[str] = []

    async def forever() -> Payload:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("coroutine")
        return ()

    def handle(_context: Any, request: Request) -> Any:
        if bytes(request.body) == b"poll":
            return Deferred(lambda: cancelled.append("deferred"))
        return forever()

    frontend = FakeFrontend(handle)
    await frontend.engine.runtime.tasks.start()
    client = Client(frontend)
    client.send(b"poll", b"create")
    await asyncio.sleep(0)
    client.session.connection_lost()
    await asyncio.sleep(0)
    assert cancelled == ["deferred", "coroutine"]
    assert client.written == []
    await frontend.engine.runtime.tasks.stop()


def refuse(_request: Request, code: ErrorCode) -> Payload:
    return (f"refused {code.name}".encode(),)


def raises(error: Exception) -> Callable[[Any, Request], Any]:
    def handle(_context: Any, request: Request) -> Any:
        if bytes(request.body) == b"bad":
            raise error
        return (bytes(request.body),)

    return handle


async def test_a_refusal_is_answered_with_its_code() -> None:
    client = Client(FakeFrontend(raises(InvalidRequest("no")), refuse=refuse))
    client.send(b"bad", b"good")
    assert client.written == [(0, b"refused INVALID_REQUEST"), (1, b"good")]


def test_a_mistake_of_ours_is_logged_and_answered_and_stays_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        client = Client(FakeFrontend(raises(ZeroDivisionError("bug")), refuse=refuse))
        client.send(b"bad", b"good")
        assert client.written == [(0, b"refused UNKNOWN_SERVER_ERROR"), (1, b"good")]

    run(story())
    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert record.exc_info is not None


def test_bytes_that_are_no_request_end_the_connection_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        frontend = FakeFrontend(raises(RemoteProtocolError("nonsense")), refuse=refuse)
        client = Client(frontend)
        client.send(b"good", b"bad", b"never")
        assert client.written == [(0, b"good")]
        assert client.is_closed
        client.send(b"more")
        assert client.written == [(0, b"good")]

    run(story())
    assert [one.getMessage() for one in caplog.records] == [
        "peer=p listener=L: closing the connection: nonsense"
    ]


def test_a_request_that_is_refused_unread_and_is_none_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse_by_content(_request: Request, _code: ErrorCode) -> Payload:
        raise RemoteProtocolError("the frame ends before the message does")

    async def story() -> None:
        client = Client(FakeFrontend(raises(InvalidRequest("no")), refuse=refuse_by_content))
        client.send(b"bad")
        assert client.written == []
        assert client.is_closed

    run(story())
    assert [one.getMessage() for one in caplog.records] == [
        "peer=p listener=L: closing the connection: the frame ends before the message does"
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03abc",
        b"\x7f\xff\xff\xff" + bytes(20),
    ],
)
async def test_garbage_ends_the_connection(data: bytes) -> None:
    client = Client(FakeFrontend(echo))
    client.session.data_received(data)
    assert client.is_closed
    assert client.written == []


@pytest.mark.parametrize(("api", "version"), [(ApiKey.HEARTBEAT, 9), (999, 0), (ApiKey.VOTE, 0)])
async def test_an_api_or_version_that_is_not_served_ends_the_connection(
    api: int, version: int
) -> None:
    client = Client(FakeFrontend(echo))
    client.session.data_received(client.frame(b"", api=api, version=version))
    assert client.is_closed


def test_complaints_are_limited_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        frontend = FakeFrontend(echo)
        for _ in range(10):
            Client(frontend).session.data_received(b"\xff\xff\xff\xff")
        virtual_loop().now += 61
        Client(frontend).session.data_received(b"\xff\xff\xff\xff")

    run(story())
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == 3 + 1 + 1
    assert lines[3] == "7 more connections were closed for cause and not logged"


async def test_a_session_is_busy_while_an_answer_is_owed_and_idle_while_it_only_waits_for_news() -> (
    None
):
    def handle(_context: Any, request: Request) -> Any:
        return Deferred(is_idle=bytes(request.body) == b"poll")

    frontend = FakeFrontend(handle)
    poll, write = Client(frontend), Client(frontend)
    poll.send(b"poll")
    write.send(b"write")
    assert (poll.session.is_busy, write.session.is_busy) == (False, True)


async def test_a_request_that_comes_while_the_broker_stops_is_refused() -> None:
    async def work() -> Payload:
        return (b"done",)

    frontend = FakeFrontend(lambda _context, _request: work(), refuse=refuse)
    await frontend.engine.runtime.tasks.start()
    await frontend.engine.runtime.tasks.stop()
    client = Client(frontend)
    client.send(b"late")
    assert client.written == [(0, b"refused NOT_LEADER_OR_FOLLOWER")]


async def test_a_request_that_is_given_up_ends_the_connection() -> None:
    async def work() -> Payload:
        raise asyncio.CancelledError

    frontend = FakeFrontend(lambda _context, _request: work(), refuse=refuse)
    await frontend.engine.runtime.tasks.start()
    client = Client(frontend)
    client.send(b"x")
    await asyncio.sleep(1)
    assert client.is_closed
    await frontend.engine.runtime.tasks.stop()


async def test_all_connections_together_hold_no_more_than_is_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REQUEST_LITTLE_BYTES", 0)
    monkeypatch.setattr(limits, "REQUEST_READ_BYTES", 8)

    waiting: list[Deferred] = []

    def wait(_context: Any, _request: Request) -> Deferred:
        waiting.append(Deferred())
        return waiting[-1]

    frontend = FakeFrontend(wait)
    frontend.memory = RequestMemory(100)
    one, two, three = (Client(frontend) for _ in range(3))
    three.send(b"x")
    one.send(b"y" * 80)
    assert one.is_paused
    # What has begun is read to its end, or nothing would ever move.
    two.session.data_received(two.frame(b"begun")[:7])
    assert not two.is_paused
    two.session.data_received(Client(frontend).frame(b"begun")[7:])
    assert two.is_paused
    three.send(b"x")
    assert three.is_paused
    assert len(waiting) == 4
    for deferred in waiting:
        deferred.resolve((b"done",))
    assert [client.is_paused for client in (one, two, three)] == [False] * 3
    assert frontend.memory.total == 0


async def test_a_connection_that_ends_lets_the_others_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REQUEST_LITTLE_BYTES", 0)
    monkeypatch.setattr(limits, "REQUEST_READ_BYTES", 8)

    frontend = FakeFrontend(lambda _context, _request: Deferred())
    frontend.memory = RequestMemory(50)
    one, two = Client(frontend), Client(frontend)
    one.send(b"y" * 80)
    two.send(b"x")
    assert two.is_paused
    one.session.connection_lost()
    assert not two.is_paused


LARGE = 300_000


def _with_one_that_waits_for_memory(frontend: FakeFrontend) -> Client:
    """A client that has sent one request and half of the next, while another client waits for memory."""
    frontend.request_bytes_max = 10 * LARGE
    frontend.memory = RequestMemory(limits.REQUEST_LITTLE_BYTES)
    sender, one = Client(frontend), Client(frontend)
    sender.session.data_received(sender.frame(b"first") + sender.frame(bytes(2 * LARGE))[:LARGE])
    # One may go beyond the bound, and the next one waits.
    one.session.data_received(one.frame(bytes(2 * LARGE))[:LARGE])
    _let_another_wait(frontend)
    return sender


def _let_another_wait(frontend: FakeFrontend) -> None:
    other = Client(frontend)
    other.session.data_received(other.frame(bytes(2 * LARGE))[:LARGE])
    assert frontend.memory.waiting == 1
    assert other.is_paused


def _look_for_long(memory: RequestMemory) -> None:
    for look in range(3):
        memory.look(look * limits.REQUEST_PROGRESS_MS)


async def test_a_connection_whose_line_is_held_is_not_ended_for_what_it_cannot_send() -> None:
    replicated: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handle(_context: Any, _request: Request) -> Payload:
        await replicated
        return (b"done",)

    frontend = FakeFrontend(handle)
    await frontend.engine.runtime.tasks.start()
    sender = _with_one_that_waits_for_memory(frontend)
    assert sender.is_paused
    _look_for_long(frontend.memory)
    assert not sender.is_closed
    # Once it is read again, it must send.
    replicated.set_result(None)
    while sender.is_paused:
        await asyncio.sleep(0)
    _let_another_wait(frontend)
    _look_for_long(frontend.memory)
    assert sender.is_closed
    await frontend.engine.runtime.tasks.stop()


async def test_a_mute_connection_is_not_ended_for_what_it_cannot_send() -> None:
    frontend = FakeFrontend(echo)
    sender = _with_one_that_waits_for_memory(frontend)
    assert not sender.is_paused
    sender.session._mute = asyncio.get_running_loop().call_later(1000, lambda: None)
    _look_for_long(frontend.memory)
    assert not sender.is_closed
    sender.session.connection_lost()


async def test_a_connection_that_does_not_take_its_answers_is_ended_for_what_it_keeps() -> None:
    frontend = FakeFrontend(echo)
    sender = _with_one_that_waits_for_memory(frontend)
    sender.session.pause_writing(1000)
    _look_for_long(frontend.memory)
    assert sender.is_closed


# The share of the loop


async def test_a_connection_yields_when_its_share_of_the_loop_is_used() -> None:
    order: list[bytes] = []

    def handle(_context: Any, request: Request) -> Payload:
        order.append(bytes(request.body))
        frontend.busy_ns += LONG_NS if bytes(request.body) == b"flood" else 1
        return (b"",)

    frontend = FakeFrontend(handle)
    flood, other = Client(frontend), Client(frontend)
    flood.send(*[b"flood"] * 300)
    assert order == [b"flood"]
    assert flood.is_paused
    other.send(b"other")
    assert order == [b"flood", b"other"]
    for _request in range(299):
        await asyncio.sleep(0)
    assert order[2:] == [b"flood"] * 299
    assert [number for number, _body in flood.written] == list(range(300))
    await asyncio.sleep(0)
    assert not flood.is_paused


async def test_requests_that_fit_into_the_share_are_carried_out_at_once() -> None:
    def handle(_context: Any, request: Request) -> Payload:
        frontend.busy_ns += LONG_NS // 100
        return (bytes(request.body),)

    frontend = FakeFrontend(handle)
    client = Client(frontend)
    client.send(*[b"x"] * 99)
    assert len(client.written) == 99
    assert client.writes == 1
    assert not client.is_paused


async def test_many_reads_in_one_round_of_the_loop_have_one_share() -> None:
    """Some event loops read a socket many times before they look at the others."""

    done = 0

    def handle(_context: Any, _request: Request) -> Payload:
        nonlocal done
        done += 1
        frontend.busy_ns += LONG_NS // 4
        return (b"",)

    frontend = FakeFrontend(handle)
    client = Client(frontend)
    for _read in range(32):
        client.send(b"x")
    assert done == 4
    for _round in range(100):
        await asyncio.sleep(0)
    assert done == 32


async def test_connections_with_long_requests_leave_room_for_short_ones_in_each_round() -> None:
    """However many connections send requests that take long, one that waits for short ones is not last."""

    order: list[bytes] = []

    def handle(_context: Any, request: Request) -> Payload:
        body = bytes(request.body)
        order.append(body)
        frontend.busy_ns += 10 * LONG_NS if body == b"flood" else 1
        return (b"",)

    frontend = FakeFrontend(handle)
    floods = [Client(frontend) for _ in range(50)]
    other = Client(frontend)
    for flood in floods:
        flood.send(*[b"flood"] * 20)
    order.clear()
    for _round in range(40):
        other.send(b"other")
        await asyncio.sleep(0)
    gaps = [len(part) for part in b"".join(one[:1] for one in order).split(b"o")]
    assert max(gaps) <= 1, "at most one long request between two short ones"


async def test_nothing_is_carried_out_for_a_client_that_has_gone() -> None:
    done = 0

    def handle(_context: Any, _request: Request) -> Payload:
        nonlocal done
        done += 1
        frontend.busy_ns += LONG_NS
        return (b"",)

    frontend = FakeFrontend(handle)
    clients = [Client(frontend) for _ in range(50)]
    for client in clients:
        client.send(*[b"x"] * 200)
    begun = done
    assert begun <= 50
    for client in clients:
        client.session.connection_lost()
    for _round in range(100):
        await asyncio.sleep(0)
    assert done == begun
    clients[0].send(b"late")
    assert done == begun


async def test_an_answer_that_comes_late_leaves_while_its_connection_rests() -> None:
    poll = Deferred()

    def handle(_context: Any, request: Request) -> Any:
        if bytes(request.body) == b"poll":
            return poll
        frontend.busy_ns += LONG_NS
        return (b"",)

    frontend = FakeFrontend(handle)
    client = Client(frontend)
    client.send(b"poll", b"long", b"long", b"long")
    assert client.written == []
    poll.resolve((b"news",))
    assert client.written == [(0, b"news"), (1, b"")]
    for _round in range(4):
        await asyncio.sleep(0)
    assert [number for number, _body in client.written] == [0, 1, 2, 3]


async def test_a_client_that_waits_for_short_answers_makes_the_pieces_of_others_short() -> None:
    done: list[bytes] = []

    def handle(_context: Any, request: Request) -> Payload:
        done.append(bytes(request.body))
        frontend.busy_ns += SHORT_NS // 2
        return (b"",)

    frontend = FakeFrontend(handle)
    quick, bulk = Client(frontend), Client(frontend)
    for _request in range(4):
        quick.send(b"quick")
        await asyncio.sleep(0)
    done.clear()
    bulk.send(*[b"bulk"] * 10)
    assert len(done) == 2
    await asyncio.sleep(0)
    quick.send(b"quick")
    assert done == [b"bulk", b"bulk", b"quick"]


def test_a_peer_is_complained_of_once_a_minute_and_others_are_named_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        complaints = Complaints(LoopClock(virtual_loop()), lines_max=3)
        for _ in range(30):
            for node in (4, 5):
                complaints.say("node %d cannot prove it", node, about=("proof", node))
        assert [one.getMessage() for one in caplog.records] == [
            "node 4 cannot prove it",
            "node 5 cannot prove it",
        ]
        complaints.say("another")
        complaints.say("one too many")
        assert [one.getMessage() for one in caplog.records[2:]] == ["another"]
        await asyncio.sleep(61)
        caplog.clear()
        complaints.say("node %d cannot prove it", 4, about=("proof", 4))
        assert [one.getMessage() for one in caplog.records] == [
            "59 more connections were closed for cause and not logged",
            "node 4 cannot prove it",
        ]

    with caplog.at_level(logging.WARNING):
        run(story())
