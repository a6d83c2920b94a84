"""Requests that name very many things: carried out in slices, so that other connections do not wait.

A thread decodes and encodes; calls of the engine stay on the event loop, a slice at a time. The connection's
own later requests wait, as behind any coroutine; other connections do not.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from millpond.wire.kafka.connection import Request

# Some thousand partitions; decoding them takes a few milliseconds.
LARGE_REQUEST_BYTES = 128 * 1024

# Partitions looked at before other connections get their turn: a few milliseconds.
SLICE = 1_000

T = TypeVar("T")
U = TypeVar("U")


def is_large(request: Request) -> bool:
    """Return whether a request is carried out in slices."""
    return request.size > LARGE_REQUEST_BYTES


async def in_slices(work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """``map``, with a turn for other connections after each slice."""
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
