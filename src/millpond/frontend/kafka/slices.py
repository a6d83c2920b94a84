"""Requests that name very many things: carried out in slices, so that nobody else waits for them.

Bytes become messages, and messages bytes, in a thread; what touches the engine stays on the loop, so many at
a time. The connection's own later requests wait, as behind any coroutine; nobody else does.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from millpond.wire.kafka.connection import Request

# Some thousand partitions; decoding them takes a few milliseconds.
LARGE_REQUEST_BYTES = 128 * 1024

# Partitions looked at before others get their turn: a few milliseconds.
SLICE = 1_000

T = TypeVar("T")
U = TypeVar("U")


def is_large(request: Request) -> bool:
    """Whether a request is to be carried out in slices."""
    return request.size > LARGE_REQUEST_BYTES


async def in_slices(work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """``map``, with a turn for everybody else after each slice."""
    done: list[U] = []
    remaining: Iterator[T] = iter(items)
    while part := list(islice(remaining, SLICE)):
        done += [work(one) for one in part]
        await asyncio.sleep(0)
    return done


async def exhausted(steps: Iterator[None]) -> None:
    """Carry out work that stops by itself after each slice."""
    for _ in steps:
        await asyncio.sleep(0)
