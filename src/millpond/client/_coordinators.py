"""Finds the coordinator of a group or a transaction, and sends requests to it."""

from collections.abc import Callable, Collection
from enum import IntEnum
from typing import Any

from millpond.client._attempts import Attempts
from millpond.client._connection import Connection
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ConnectionLost
from millpond.wire.kafka.api import ApiKey, ErrorCode

# Another broker, or the same one a little later, will know.
LOOK_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class CoordinatorType(IntEnum):
    """The kinds of coordinators."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorLookup:
    """The coordinator of one group or transactional id; found again when it has moved."""

    def __init__(
        self, cluster: Cluster, kind: CoordinatorType, key: str, *, lane: str = ""
    ) -> None:
        self.cluster = cluster
        self.node_id: int | None = None
        self._kind = kind
        self._key = key
        self._lane = lane

    def forget(self) -> None:
        """Look up the coordinator again before the next request."""
        self.node_id = None

    async def connection(self, attempts: Attempts) -> Connection:
        """Return a connection to the coordinator, looking it up first if needed."""
        if self.node_id is None:
            self.node_id = await self._find(attempts)
        return await self.cluster.connection_to(self.node_id, lane=self._lane)

    async def ask(
        self,
        api_key: ApiKey,
        message: object,
        *,
        error_of: Callable[[Any], int],
        attempts: Attempts,
        again: Collection[int] = (),
        at_most: int | None = None,
    ) -> Any:
        """Send a request until its error is final: not one that a new lookup or a retry (``again``) can
        cure.
        """
        while True:
            try:
                connection = await self.connection(attempts)
                version = connection.version_of(api_key, at_most)
                async with attempts.limit(connection):
                    answer = await connection.request(api_key, message, version=version)
            except ConnectionLost as error:
                self.forget()
                await attempts.after(error)
                continue
            code = error_of(answer)
            if code in LOOK_AGAIN:
                self.forget()
            elif code not in again:
                return answer
            await attempts.after(BrokerRefused(code, subject=self._key))

    async def _find(self, attempts: Attempts) -> int:
        from millpond.wire.kafka.messages.find_coordinator import (
            FindCoordinatorRequest,
            FindCoordinatorResponse,
        )

        request = FindCoordinatorRequest(
            key=self._key, key_type=self._kind, coordinator_keys=[self._key]
        )
        while True:
            answer: FindCoordinatorResponse = await self.cluster.ask_any(
                ApiKey.FIND_COORDINATOR, request, attempts=attempts
            )
            found: Any = answer.coordinators[0] if answer.coordinators else answer
            if not found.error_code:
                node_id = int(found.node_id)
                known = (await self.cluster.info()).brokers
                if all(broker.node_id != node_id for broker in known):
                    await self.cluster.info(refresh=True)
                return node_id
            # The first lookup makes Kafka create its internal topic; it returns an error until that is done.
            await attempts.after(BrokerRefused(found.error_code, subject=self._key))
