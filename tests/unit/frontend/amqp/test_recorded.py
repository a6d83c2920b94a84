"""A client hears what RabbitMQ said in the same scenes, over the real front-end, engine and log."""

import asyncio

import pytest

from millpond.wire.amqp.events import ChannelClosed, ConnectionClosed
from millpond.wire.amqp.methods import Method
from tests.interop.amqp.answers import RECORDED_MESSAGES, line, recorded
from tests.interop.amqp.message_scenes import MESSAGE_SCENES, Collect, Send, Step, Wait
from tests.interop.amqp.scenes import SCENES
from tests.support.amqp_client import said
from tests.support.memory_amqp import memory_amqp
from tests.support.virtual_loop import run


@pytest.mark.parametrize("scene", SCENES)
def test_the_same_answers(scene: str) -> None:
    assert run(_play(SCENES[scene])) == recorded()[scene]


@pytest.mark.parametrize("scene", MESSAGE_SCENES)
def test_messages_take_the_same_ways(scene: str) -> None:
    assert run(_play_messages(MESSAGE_SCENES[scene])) == recorded(RECORDED_MESSAGES)[scene]


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
