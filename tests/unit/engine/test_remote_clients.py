"""Events for the clients of another node: each comes once, whichever way the question took."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from millpond.engine.queues.hosted.remote_clients import _RemoteNode
from millpond.engine.queues.remote.queue_messages import Answered


async def test_a_poll_that_is_repeated_by_another_way_loses_and_doubles_nothing() -> None:
    guest = _RemoteNode(cast(Any, SimpleNamespace()), "life", 1)
    async with asyncio.TaskGroup() as polls:
        live = polls.create_task(guest.collect(0, 2_000))
        await asyncio.sleep(0)
        guest.tell(Answered(1))
        late = polls.create_task(guest.collect(0, 2_000))
        await asyncio.sleep(0)
        guest.tell(Answered(2))

    assert late.result() == live.result() == (Answered(1),)
    assert await guest.collect(1, 10) == (Answered(2),)
