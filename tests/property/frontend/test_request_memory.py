"""Whatever clients send, in whatever pieces, all connections together hold no more than the bound allows, and
every request that is sent to its end is answered.

Real sessions with buffers as the event loop fills them; the handler's answers come when chance says so.
Memory is measured where it is, in the buffers, not by what was counted.
"""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from millpond.base import limits
from millpond.engine.limits.request_memory import Holder, RequestMemory
from millpond.frontend.kafka.handler import Deferred
from millpond.frontend.kafka.session import KafkaSession
from millpond.wire.kafka.connection import SCRATCH_BYTES, Request
from millpond.wire.kafka.primitives import BytesLike
from tests.support.time.virtual_loop import run
from tests.unit.frontend.kafka.test_session import FakeFrontend

MIB = 1024 * 1024
BOUND = 3 * MIB
FRAME_BYTES_MAX = 4 * MIB
CLIENTS = 12
SEEDS = range(12)
# What a frame may take with its first bytes, before the bound is asked: eight times a read, and rounding; and
# what else one read brings.
UNASKED_BYTES_MAX = 4 * MIB + 2 * SCRATCH_BYTES
# The head of a request behind its size, without a name.
HEADER_BYTES = 10


class Sender:
    """A client that has bytes to send; the node's end of its connection reads them when it wants to."""

    def __init__(self, frontend: FakeFrontend, sizes: Sequence[int]) -> None:
        self.is_paused = False
        self.is_closed = False
        self.is_stuck = False
        self.answered = 0
        self.sizes = sizes
        self._data = memoryview(b"".join(map(_frame, sizes)))
        self.session = KafkaSession(frontend, self, listener="L", peer="p")  # type: ignore[arg-type]

    def writelines(self, buffers: Sequence[BytesLike]) -> None:
        data = b"".join(buffers)
        while data:
            data = data[4 + int.from_bytes(data[:4], "big") :]
            self.answered += 1

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    @property
    def can_send(self) -> bool:
        return bool(self._data) and not (self.is_paused or self.is_closed or self.is_stuck)

    @property
    def is_done(self) -> bool:
        return self.is_closed or self.answered == len(self.sizes)

    def send(self, size: int) -> None:
        """As the event loop reads: into the buffer that the session lends."""
        buffer = self.session.get_buffer(-1)
        count = min(size, len(buffer), len(self._data))
        buffer[:count] = self._data[:count]
        self._data = self._data[count:]
        self.session.buffer_updated(count)

    @property
    def memory_bytes(self) -> int:
        """What the session keeps, wherever that is."""
        wire = self.session._connection
        begun = len(wire.partial) if wire.partial is not None else 0
        waiting = sum(slot.request.size for slot in self.session._slots)
        return begun + sum(map(len, wire.frames)) + waiting


def _frame(size: int) -> bytes:
    head = (12).to_bytes(2, "big") + bytes(6) + b"\xff\xff"
    return size.to_bytes(4, "big") + head + bytes(size - HEADER_BYTES)


class Life:
    """Some clients with some requests, until all are answered."""

    def __init__(self, seed: int, memory: RequestMemory, *, stuck: int = 0) -> None:
        self.chance = random.Random(seed)
        self.memory = memory
        self._waiting: list[Deferred] = []
        frontend = FakeFrontend(self._handle)
        frontend.request_bytes_max = 2 * FRAME_BYTES_MAX
        frontend.scratch = bytearray(SCRATCH_BYTES)
        frontend.memory = memory
        self.senders = [Sender(frontend, self._sizes()) for _ in range(CLIENTS)]
        self._stuck = self.chance.sample(self.senders, stuck)
        # Some nodes answer late: then what was asked stays.
        self._answers_in = self.chance.choice((2, 30))
        self._now_ms = 0

    def _sizes(self) -> list[int]:
        kinds = (HEADER_BYTES + 20, 5_000, 200_000, MIB, FRAME_BYTES_MAX)
        return [self.chance.choice(kinds) for _ in range(self.chance.randint(1, 4))]

    def _handle(self, _context: Any, request: Request) -> Any:
        del request
        self._waiting.append(Deferred())
        return self._waiting[-1]

    def until_all_are_answered(self) -> None:
        chance = self.chance
        bound = BOUND + FRAME_BYTES_MAX + UNASKED_BYTES_MAX
        bound += CLIENTS * (limits.REQUEST_LITTLE_BYTES + limits.REQUEST_READ_BYTES)
        for sender in self._stuck:
            if sender.can_send:
                sender.send(chance.randrange(1, 200_000))
        for _step in range(100_000):
            ready = [one for one in self.senders if one.can_send]
            if ready and (not self._waiting or chance.randrange(self._answers_in)):
                one = chance.choice(ready)
                one.send(chance.choice((1, 1000, 65_536, SCRATCH_BYTES, MIB)))
                one.is_stuck = one in self._stuck and chance.random() < 0.3
            elif self._waiting:
                waiting = self._waiting
                waiting.pop(chance.randrange(len(waiting))).resolve((b"done",))
            else:
                # Nothing moves but time.
                self._now_ms += limits.REQUEST_PROGRESS_MS
                self.memory.look(self._now_ms)
                assert self._now_ms < 1000 * limits.REQUEST_PROGRESS_MS, (
                    "connections wait for each other"
                )
            held = sum(one.memory_bytes for one in self.senders if not one.is_closed)
            assert held <= bound, f"{held} bytes are held"
            assert all(not one.memory_bytes for one in self.senders if one.is_closed)
            if all(one.is_done for one in self.senders if one not in self._stuck):
                return
        raise AssertionError("requests are not answered")


@pytest.mark.parametrize("seed", SEEDS)
def test_connections_hold_no_more_than_the_bound_and_all_are_answered(seed: int) -> None:
    async def story() -> None:
        memory = RequestMemory(BOUND)
        life = Life(seed, memory)
        life.until_all_are_answered()
        assert not any(one.is_closed for one in life.senders)
        assert memory.total == 0
        assert memory.waiting == 0

    run(story())


@pytest.mark.parametrize("seed", SEEDS)
def test_connections_that_stop_in_the_middle_do_not_keep_the_others_waiting(seed: int) -> None:
    async def story() -> None:
        life = Life(seed, RequestMemory(BOUND), stuck=5)
        life.until_all_are_answered()
        assert not any(one.is_closed for one in life.senders if one not in life._stuck)

    run(story())


# Mistakes that the test must find


class _AsksForNothing(RequestMemory):
    """Memory is taken before anything is asked."""

    def ask(self, holder: Holder, held: int, more: int) -> bool:
        super().ask(holder, held, 0)
        return True


class _PassesTheRightOnTooEarly(RequestMemory):
    """When a request has come, and not when its memory is let go."""

    def ask(self, holder: Holder, held: int, more: int) -> bool:
        if holder is self._first and holder.progress_bytes is None:
            self._first = None
            self._serve()
        return super().ask(holder, held, more)


class _HasNoFirst(RequestMemory):
    """All that have begun wait for each other."""

    def _goes_beyond(self, holder: Holder, more: int) -> bool:
        return False


@pytest.mark.parametrize("mistake", [_AsksForNothing, _PassesTheRightOnTooEarly, _HasNoFirst])
async def test_a_planted_mistake_is_found(mistake: type[RequestMemory]) -> None:
    with pytest.raises(AssertionError):  # noqa: PT012 - one of the lives is enough
        for seed in SEEDS:
            Life(seed, mistake(BOUND)).until_all_are_answered()
