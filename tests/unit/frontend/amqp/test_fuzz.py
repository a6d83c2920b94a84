"""Whatever bytes come on an open connection: it is answered or ended, and others go on."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.wire.amqp.content import content_frames, method_frame
from millpond.wire.amqp.methods import (
    METHODS,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxSelect,
)
from tests.support.amqp.memory_amqp import memory_amqp
from tests.support.time.virtual_loop import run

CONVERSATION = b"".join(
    [
        method_frame(1, QueueDeclare(queue="q", arguments={"x-max-length": 5})),
        method_frame(1, ExchangeDeclare(exchange="e", type="topic")),
        method_frame(1, QueueBind(queue="q", exchange="e", routing_key="a.#")),
        method_frame(1, BasicQos(prefetch_count=3)),
        method_frame(1, ConfirmSelect()),
        method_frame(1, BasicPublish(exchange="e", routing_key="a.b", mandatory=True)),
        content_frames(1, b"\x90\x00\x04text\x02", b"body", 131_072),
        method_frame(1, BasicConsume(queue="q", consumer_tag="t")),
        method_frame(1, BasicGet(queue="q")),
        method_frame(2, ChannelOpen()),
        method_frame(2, TxSelect()),
        method_frame(2, TxCommit()),
        method_frame(1, QueueDelete(queue="q")),
    ]
)

flips = st.lists(
    st.tuples(st.integers(0, len(CONVERSATION) - 1), st.integers(0, 255)), min_size=1, max_size=8
)
methods = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(sorted(METHODS.values(), key=repr))),
    min_size=1,
    max_size=12,
)


async def _survives(data: bytes) -> None:
    async with memory_amqp() as amqp:
        bad, good = await amqp.client(1), await amqp.client(1)
        bad.session.data_received(data)
        await asyncio.sleep(1)
        await good.ask(1, QueueDeclare(queue="good"))
        good.publish(1, BasicPublish(routing_key="good"), b"x")
        assert await good.ask(1, BasicGet(queue="good")) is not None
        bad.close()
        await asyncio.sleep(1)


@settings(deadline=None, max_examples=25)
@given(flips)
def test_a_conversation_with_wrong_bytes_in_it(wrong: list[tuple[int, int]]) -> None:
    data = bytearray(CONVERSATION)
    for place, byte in wrong:
        data[place] = byte
    run(_survives(bytes(data)))


@settings(deadline=None, max_examples=25)
@given(methods)
def test_any_methods_in_any_order(said: list[tuple[int, type[Method]]]) -> None:
    run(_survives(b"".join(method_frame(channel, kind()) for channel, kind in said)))
