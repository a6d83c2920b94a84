"""Producer ids that nobody ever had: blocks from the controller, given out one by one."""

import asyncio
from typing import TYPE_CHECKING

from millpond.base.errors import CoordinatorNotAvailable, StaleBrokerEpoch
from millpond.engine.peers import AllocateProducerIds

if TYPE_CHECKING:
    from millpond.engine.engine import Engine


class ProducerIds:
    """The block in hand."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._ids = range(0)
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that nobody ever had."""
        if not self._ids:
            async with self._lock:
                if not self._ids:
                    await self._reserve()
        producer_id = self._ids[0]
        self._ids = self._ids[1:]
        return producer_id

    async def _reserve(self) -> None:
        try:
            self._ids = await self._engine.link.call(
                AllocateProducerIds(
                    node_id=self._engine.node.node_id, broker_epoch=self._engine.broker_epoch
                )
            )
        except StaleBrokerEpoch as error:
            raise CoordinatorNotAvailable(f"this node is about to register: {error}") from error
