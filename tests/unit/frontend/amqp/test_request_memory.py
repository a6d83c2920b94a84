"""Messages that have begun have their part of the memory that all connections share."""

from millpond.base import limits
from millpond.base.pressure import NONE, Pressure
from millpond.engine.limits.request_memory import RequestMemory
from millpond.wire.amqp.content import content_frames, method_frame
from millpond.wire.amqp.methods import BasicPublish, QueueDeclare
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp

BOUND = 1024 * 1024
BODY = bytes(900 * 1024)
PIECE = 128 * 1024


class Publisher:
    """Sends one large message in pieces, as far as the broker reads."""

    def __init__(self, client: AmqpMemoryClient) -> None:
        self.client = client
        method = method_frame(1, BasicPublish(exchange="", routing_key="q"))
        self._data = method + b"".join(_joined(content_frames(1, b"\x00\x00", BODY, 131_072)))
        self._data, self._last = self._data[:-1], self._data[-1:]

    @property
    def has_sent_all(self) -> bool:
        return not self._data

    def send(self) -> None:
        while self._data and not self.client.is_reading_paused:
            self.client.session.data_received(self.take(PIECE))

    def take(self, size: int) -> bytes:
        """The next bytes that it sends."""
        piece, self._data = self._data[:size], self._data[size:]
        return piece

    def end(self) -> None:
        assert not self._data
        self.client.session.data_received(self._last)


def _joined(frames: bytes | list[bytes]) -> list[bytes]:
    return [frames] if isinstance(frames, bytes) else frames


async def test_messages_that_have_begun_hold_no_more_than_the_bound_and_all_come_to_their_end() -> (
    None
):
    async with memory_amqp() as amqp:
        memory = amqp.frontend.memory = RequestMemory(BOUND)
        publishers = [Publisher(await amqp.client(1)) for _ in range(4)]
        await publishers[0].client.ask(1, QueueDeclare(queue="q"))
        for publisher in publishers:
            publisher.send()
        assert memory.total <= BOUND + len(BODY) + 4 * limits.REQUEST_LITTLE_BYTES
        assert not all(publisher.has_sent_all for publisher in publishers)
        left = list(publishers)
        while left:
            ready = [one for one in left if one.has_sent_all]
            assert ready, "those that wait wait for each other"
            ready[0].end()
            left.remove(ready[0])
            for publisher in left:
                publisher.send()
        assert (memory.total, memory.waiting) == (0, 0)


async def test_a_connection_that_ends_gives_back_what_it_had_begun() -> None:
    async with memory_amqp() as amqp:
        memory = amqp.frontend.memory = RequestMemory(BOUND)
        publisher = Publisher(await amqp.client(1))
        publisher.send()
        assert memory.total > limits.REQUEST_LITTLE_BYTES
        publisher.client.close()
        assert memory.total == 0


async def test_a_publisher_that_keeps_memory_and_sends_nothing_is_ended_while_others_wait() -> None:
    async with memory_amqp() as amqp:
        memory = amqp.frontend.memory = RequestMemory(BOUND)
        publishers = [Publisher(await amqp.client(1)) for _ in range(4)]
        for publisher in publishers:
            publisher.send()
        assert memory.waiting
        for look in range(10):
            memory.look(look * limits.REQUEST_PROGRESS_MS)
            for publisher in publishers:
                publisher.send()
        assert memory.waiting == 0
        assert memory.total <= BOUND + limits.REQUEST_LITTLE_BYTES
        assert sum(not publisher.client.session.is_open for publisher in publishers) >= 2


async def test_a_publisher_that_is_blocked_is_not_ended_for_what_it_cannot_send() -> None:
    async with memory_amqp() as amqp:
        memory = amqp.frontend.memory = RequestMemory(BOUND)
        publishers = [Publisher(await amqp.client(1)) for _ in range(4)]
        amqp.frontend.on_pressure(Pressure(low_on=("disk",)))
        for publisher in publishers:
            publisher.client.session.data_received(publisher.take(4 * PIECE))
        assert all(publisher.client.is_reading_paused for publisher in publishers)
        assert memory.waiting
        for look in range(5):
            memory.look(look * limits.REQUEST_PROGRESS_MS)
        assert all(publisher.client.session.is_open for publisher in publishers)
        # Once the disk has room, they must send.
        amqp.frontend.on_pressure(NONE)
        for look in range(5, 10):
            memory.look(look * limits.REQUEST_PROGRESS_MS)
        assert not all(publisher.client.session.is_open for publisher in publishers)


async def test_large_messages_that_came_whole_are_not_taken_for_abandoned() -> None:
    async with memory_amqp() as amqp:
        memory = amqp.frontend.memory = RequestMemory(BOUND)
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        for _message in range(5):
            publisher = Publisher(client)
            publisher.send()
            assert memory.total > limits.REQUEST_LITTLE_BYTES
            publisher.end()
        assert (memory.total, memory.abandoned_bytes) == (0, 0)
        Publisher(client).send()
        client.close()
        assert memory.total == 0
        assert memory.abandoned_bytes > limits.REQUEST_LITTLE_BYTES
