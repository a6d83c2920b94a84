"""Answers other nodes about transactions: as their coordinator, and as the leader of partitions."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.engine.coordinators.durable import Durable, flushed
from millpond.engine.peers import JoinTransaction, WriteMarkers
from millpond.txn.messages import AddPartitions
from millpond.txn.records import Place


class CoordinatedTransactions(Protocol):
    """The calls of ``Transactions`` that serve other nodes."""

    def check_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: Place
    ) -> None:
        """Raises why the producer may not write to the partition in its transaction."""

    def settled(self, transactional_id: str) -> Durable:
        """Return when the present state of a transactional id is committed; None if it is."""

    def add_partitions(self, command: AddPartitions) -> Durable:
        """Add partitions to the transaction. Raises why not."""

    def write_marker(
        self,
        place: Place,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
    ) -> Durable:
        """End a producer's transaction in one partition that this node leads. Raises why not."""


class TransactionHandlers:
    """Answers peers for ``Transactions``."""

    def __init__(self, transactions: CoordinatedTransactions) -> None:
        self._transactions = transactions

    async def on_join(self, request: JoinTransaction) -> dict[TopicPartition, MillpondError | None]:
        """Check or add partitions for a leader that got a write, or a group coordinator that got a commit."""
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
        """Write the markers of another node's coordinator to partitions that this node leads."""
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
