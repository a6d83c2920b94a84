"""Gives out producer ids that were never used, from blocks of the controller."""

import asyncio

from millpond.base.errors import (
    CoordinatorLoadInProgress,
    NotController,
    PeerUnreachable,
    RequestTimedOut,
    StaleBrokerEpoch,
)
from millpond.engine.cluster.controller_link import ControllerLink
from millpond.engine.cluster.membership import Membership
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.peers import AllocateProducerIds

# Shorter than clients wait for an answer: a producer that is told in time asks again, perhaps elsewhere.
_WAIT_MS = 3_000

_NOT_NOW = (NotController, PeerUnreachable, RequestTimedOut, StaleBrokerEpoch)


class ProducerIds:
    """The present block of ids."""

    def __init__(
        self,
        *,
        info: NodeInfo,
        membership: Membership,
        controller_link: ControllerLink,
    ) -> None:
        self._info = info
        self._membership = membership
        self._controller_link = controller_link
        self._ids = range(0)
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """Return a producer id that was never used.

        Raises ``CoordinatorLoadInProgress`` if there is none now.
        """
        if not self._ids:
            async with self._lock:
                if not self._ids:
                    await self._reserve()
        producer_id = self._ids[0]
        self._ids = self._ids[1:]
        return producer_id

    async def first_identity(self) -> tuple[int, int]:
        """Return an identity for an idempotent producer: a new id and its first epoch."""
        return await self.next(), 0

    async def _reserve(self) -> None:
        request = AllocateProducerIds(
            node_id=self._info.node_id, broker_epoch=self._membership.broker_epoch
        )
        try:
            self._ids = await self._controller_link.call(request, timeout_ms=_WAIT_MS)
        except _NOT_NOW as error:
            # As Kafka's nodes say it. "No coordinator" would send a producer without a transactional id to
            # look for one, and Java's fails over that.
            raise CoordinatorLoadInProgress(
                f"no producer ids are at hand on this node: {error}"
            ) from error
