"""Producer ids that nobody ever had: blocks from the controller, given out one by one."""

import asyncio
from typing import TYPE_CHECKING

from millpond.base.errors import (
    CoordinatorLoadInProgress,
    NotController,
    PeerUnreachable,
    RequestTimedOut,
    StaleBrokerEpoch,
)
from millpond.engine.peers import AllocateProducerIds

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

# Shorter than clients wait for an answer: a producer that is told in time asks again, perhaps elsewhere.
_WAIT_MS = 3_000

_NOT_NOW = (NotController, PeerUnreachable, RequestTimedOut, StaleBrokerEpoch)


class ProducerIds:
    """The block in hand."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._ids = range(0)
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that nobody ever had. Raises ``CoordinatorLoadInProgress`` if there is none now."""
        if not self._ids:
            async with self._lock:
                if not self._ids:
                    await self._reserve()
        producer_id = self._ids[0]
        self._ids = self._ids[1:]
        return producer_id

    async def _reserve(self) -> None:
        request = AllocateProducerIds(
            node_id=self._engine.node.node_id, broker_epoch=self._engine.broker_epoch
        )
        try:
            self._ids = await self._engine.link.call(request, timeout_ms=_WAIT_MS)
        except _NOT_NOW as error:
            # As Kafka's nodes say it. "No coordinator" would send a producer without a transactional id to
            # look for one, and Java's fails over that.
            raise CoordinatorLoadInProgress(
                f"no producer ids are at hand on this node: {error}"
            ) from error
