"""What other nodes ask about transactions: of the coordinator, and of the leaders of partitions."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millpond.base.errors import MillpondError, NotCoordinator
from millpond.base.ids import TopicPartition
from millpond.engine.coordinators.shards import Durable
from millpond.engine.peers import JoinTransaction, WriteMarkers
from millpond.txn.messages import AddPartitions

if TYPE_CHECKING:
    from millpond.engine.coordinators.transactions import Transactions


class TransactionHandlers:
    """Answers peers for ``Transactions``."""

    def __init__(self, transactions: "Transactions") -> None:
        self._transactions = transactions

    async def on_join(self, request: JoinTransaction) -> dict[TopicPartition, MillpondError | None]:
        """A leader asks for a write that it was sent, or a group coordinator for a commit."""
        results: dict[TopicPartition, MillpondError | None] = dict.fromkeys(request.partitions)
        if request.verify_only:
            for place in request.partitions:
                try:
                    self._transactions.check_partition(
                        request.transactional_id,
                        request.producer_id,
                        request.producer_epoch,
                        (place.topic, place.partition),
                    )
                except MillpondError as error:
                    results[place] = error
            await flushed(self._transactions.settled(request.transactional_id))
            return results
        command = AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=frozenset((place.topic, place.partition) for place in request.partitions),
            client_version=2,
        )
        try:
            durable = self._transactions.add_partitions(command)
        except MillpondError as error:
            return dict.fromkeys(request.partitions, error)
        await flushed(durable)
        return results

    async def on_write_markers(
        self, request: WriteMarkers
    ) -> Sequence[dict[TopicPartition, MillpondError | None]]:
        """Another node's coordinator ends transactions in partitions that this node leads."""
        waiting: list[tuple[dict[TopicPartition, MillpondError | None], TopicPartition, Durable]]
        waiting = []
        answers = []
        for marker in request.markers:
            results: dict[TopicPartition, MillpondError | None] = {}
            answers.append(results)
            for place in marker.partitions:
                results[place] = None
                try:
                    durable = self._transactions.write_marker(
                        (place.topic, place.partition),
                        producer_id=marker.producer_id,
                        producer_epoch=marker.producer_epoch,
                        committed=marker.committed,
                        coordinator_epoch=marker.coordinator_epoch,
                    )
                    waiting.append((results, place, durable))
                except MillpondError as error:
                    results[place] = error
        for results, place, durable in waiting:
            try:
                if durable is not None:
                    await asyncio.shield(durable)
            except MillpondError as error:
                results[place] = error
        return answers


async def flushed(durable: Durable) -> None:
    """Wait until a fact is safe. Raises ``NotCoordinator`` if it never will be."""
    if durable is None:
        return
    try:
        await asyncio.shield(durable)
    except MillpondError as error:
        raise NotCoordinator("the transaction's state could not be flushed") from error
