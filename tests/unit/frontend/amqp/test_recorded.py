"""A client hears what RabbitMQ said in the same scenes, over the real front-end, engine and log."""

import asyncio
from collections.abc import Sequence

import pytest

from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.events import ChannelClosed, ConnectionClosed
from millpond.wire.amqp.methods import Method
from tests.interop.amqp.answers import (
    RECORDED_CHANNELS,
    RECORDED_GREETINGS,
    RECORDED_MESSAGES,
    RECORDED_RAW,
    frames_of,
    is_waiting,
    line,
    recorded,
)
from tests.interop.amqp.channel_scenes import CHANNEL_SCENES
from tests.interop.amqp.differences import as_rabbitmq
from tests.interop.amqp.greetings import FIRST_BYTES, GREETINGS
from tests.interop.amqp.message_scenes import MESSAGE_SCENES, Collect, Send, Step, Wait
from tests.interop.amqp.raw_scenes import RAW_SCENES
from tests.interop.amqp.scenes import SCENES
from tests.support.amqp.amqp_client import said
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.time.virtual_loop import run


@pytest.mark.parametrize("scene", SCENES)
def test_the_same_answers(scene: str) -> None:
    assert run(_play(SCENES[scene])) == recorded()[scene]


@pytest.mark.parametrize("scene", MESSAGE_SCENES)
def test_messages_take_the_same_ways(scene: str) -> None:
    heard = run(_play_messages(MESSAGE_SCENES[scene]))
    assert as_rabbitmq(scene, heard) == recorded(RECORDED_MESSAGES)[scene]


@pytest.mark.parametrize("scene", CHANNEL_SCENES)
def test_channels_are_the_same(scene: str) -> None:
    heard = run(_play_messages(CHANNEL_SCENES[scene]))
    assert as_rabbitmq(scene, heard) == recorded(RECORDED_CHANNELS)[scene]


@pytest.mark.parametrize("scene", RAW_SCENES)
def test_bad_bytes_are_refused_alike(scene: str) -> None:
    heard = [run(_play_raw(RAW_SCENES[scene]))]
    assert as_rabbitmq(scene, heard) == recorded(RECORDED_RAW)[scene]


@pytest.mark.parametrize("scene", GREETINGS)
def test_greetings_are_answered_alike(scene: str) -> None:
    heard = [run(_play_greeting(GREETINGS[scene]))]
    assert as_rabbitmq(scene, heard) == recorded(RECORDED_GREETINGS)[scene]


@pytest.mark.parametrize("scene", FIRST_BYTES)
def test_first_bytes_are_answered_alike(scene: str) -> None:
    heard = run(_play_first_bytes(FIRST_BYTES[scene]))
    assert as_rabbitmq(scene, heard) == recorded(RECORDED_GREETINGS)[scene]


async def _play_raw(data: bytes) -> str:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        client.session.data_received(data)
        return said(await client.wait())


async def _play_greeting(wish: ConnectOptions) -> str:
    async with memory_amqp() as amqp:
        return said(await AmqpMemoryClient(amqp.frontend, wish).wait())


class _Listener:
    """A session's writer that keeps all it is given."""

    def __init__(self) -> None:
        self.heard = b""
        self.is_closed = False

    def writelines(self, buffers: Sequence[bytes]) -> None:
        self.heard += b"".join(buffers)

    def pause_reading(self) -> None:
        raise AssertionError("nothing here is worth a pause")

    def resume_reading(self) -> None:
        raise AssertionError("nothing here is worth a pause")

    def finish(self, seconds: float) -> None:
        self.is_closed = True

    def close(self) -> None:
        self.is_closed = True


async def _play_first_bytes(data: bytes) -> list[str]:
    async with memory_amqp() as amqp:
        listener = _Listener()
        amqp.frontend.session(listener, peer="memory:1").data_received(data)
        for _turn in range(100):
            if is_waiting(data, listener.heard):
                return frames_of(listener.heard)
            if listener.is_closed:
                return [*frames_of(listener.heard), "hung up"]
            await asyncio.sleep(0.2)
        return [*frames_of(listener.heard), "silence"]


async def _play(scene: list[Method]) -> list[str]:
    lines = []
    channel = 1
    async with memory_amqp() as amqp:
        client = await amqp.client(channel)
        for method in scene:
            event = await client.ask(channel, method)
            lines.append(said(event))
            if isinstance(event, ChannelClosed):
                channel += 1
                await client.open_channel(channel)
            elif event is None or isinstance(event, ConnectionClosed):
                break
        client.close()
    return lines


async def _play_messages(scene: list[Step]) -> list[str]:
    lines: list[str] = []
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        for step in scene:
            match step:
                case Wait():
                    await asyncio.sleep(step.ms * 1.5 / 1000)
                case Send():
                    client.publish(1, step.method, step.body, step.properties)
                    lines += [line(await client.wait()) for _answer in range(step.answers)]
                case Collect():
                    lines += [line(await client.wait()) for _delivery in range(step.count)]
                    await asyncio.sleep(0.15)
                    lines += [line(client.heard.popleft()) if client.heard else "nothing more"]
                case _:
                    client.send(1, step)
                    if step.is_synchronous:
                        lines.append(line(await client.wait()))
        client.close()
    return lines
