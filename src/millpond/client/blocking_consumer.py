"""The consumer for code without an event loop: the same methods, without ``await``."""

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from millpond.client._portal import Portal, blocking, in_loop
from millpond.client._where import Where
from millpond.client.consumer import Consumer
from millpond.client.fetcher import FetchedBatch
from millpond.client.records import ConsumerRecord

_POLL_MS = 200


class BlockingConsumer:
    """Reads records. ``with BlockingConsumer("topic", bootstrap_servers=..., group_id=...) as consumer:``.

    Takes the arguments of ``Consumer``. Heartbeats and fetches run in a background thread; callbacks of a
    rebalance listener run in that thread, while ``poll`` waits. One consumer belongs to one thread.
    """

    def __init__(
        self,
        *topics: str,
        config: Mapping[str, Any] | None = None,
        cluster: Where = None,
        **settings: Any,
    ) -> None:
        self._portal = Portal()
        self._inner = self._portal.make(
            lambda: Consumer(*topics, config=config, cluster=cluster, **settings)
        )
        self.config = self._inner.config

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit if automatic commits are enabled, leave the group, close connections, end the thread."""
        if self._portal.is_closed:
            return
        try:
            self._portal.run(self._inner.close())
        finally:
            self._portal.close()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield record by record, for ever. A record counts as read when the next one is requested."""
        while True:
            for record in self._portal.run(self._inner.peek(_POLL_MS)):
                self._inner.hand_out(record)
                yield record
                # Between two calls no other code in the loop's thread changes this state.
                if not self._inner.passed(record):
                    break

    def batches(self, *, idle_s: float | None = None) -> Iterator[FetchedBatch]:
        """Yield batch by batch, for ever, or until nothing came for ``idle_s``.

        A batch counts as read when the next one is requested.
        """
        heard_s = time.monotonic()
        while idle_s is None or time.monotonic() - heard_s < idle_s:
            batch = self._portal.run(self._inner.peek_batch(_POLL_MS))
            if batch is not None:
                self._inner.hand_out(batch)
                yield batch
                self._inner.batch_passed(batch)
                heard_s = time.monotonic()

    poll = blocking(Consumer.poll)
    poll_batches = blocking(Consumer.poll_batches)
    subscribe = in_loop(Consumer.subscribe)
    assign = in_loop(Consumer.assign)
    unsubscribe = blocking(Consumer.unsubscribe)
    subscription = in_loop(Consumer.subscription)
    assignment = in_loop(Consumer.assignment)
    pause = in_loop(Consumer.pause)
    resume = in_loop(Consumer.resume)
    paused = in_loop(Consumer.paused)
    seek = in_loop(Consumer.seek)
    seek_to_beginning = blocking(Consumer.seek_to_beginning)
    seek_to_end = blocking(Consumer.seek_to_end)
    position = blocking(Consumer.position)
    beginning_offsets = blocking(Consumer.beginning_offsets)
    end_offsets = blocking(Consumer.end_offsets)
    offsets_for_times = blocking(Consumer.offsets_for_times)
    commit = blocking(Consumer.commit)
    commit_async = in_loop(Consumer.commit_async)
    committed = blocking(Consumer.committed)
    group_metadata = in_loop(Consumer.group_metadata)
