"""Transactions by their single steps, so that one process may begin what another one ends.

A Spark task begins a transaction and writes in it; the driver, which alone knows that all tasks are done,
puts the task's marker into it and ends it. The protocol needs only transactional id, producer id and epoch
for that, from any process.

Both generations of the protocol are supported: brokers whose ``transaction.version`` is 2 (KIP-890) add
partitions and groups to a transaction by themselves, older ones need a request first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any

from millpond import __version__
from millpond.base.ids import TopicPartition
from millpond.client._attempts import Attempts
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ClientError, ConnectionLost, NoBroker
from millpond.spark.sink_errors import TransactionLost
from millpond.spark.transactions_model import Marker, Transaction, Verdict, verdict
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from millpond.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from millpond.wire.kafka.messages.end_txn import EndTxnRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from millpond.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

# Markers are offsets of partition 0 of a topic that is written to: every broker requires an existing one.
MARKER_PARTITION = 0

_GROUP, _TRANSACTION = 0, 1
_COORDINATORS_MAX = 10_000
_LOOK_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
# The last versions of the first generation; newer ones let the broker add partitions.
_FIRST_GENERATION = {ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}
_SECOND_GENERATION = {ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}


class Transactions:
    """The transaction requests of a ``Cluster``.

    Each is retried until its outcome is known or ``timeout_s`` is over.
    """

    def __init__(
        self, cluster: Cluster, *, timeout_s: float, second_generation: bool | None = None
    ) -> None:
        """``second_generation`` is what the broker reports by default."""
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._second_generation = second_generation
        self._coordinators: dict[tuple[int, str], int] = {}

    async def begin(self, transactional_id: str, *, transaction_timeout_ms: int) -> Transaction:
        """Take over the transactional id. Earlier owners are fenced, and their open transactions aborted."""
        second_generation = await self._speaks_second_generation()
        answer = await self._ask(
            _TRANSACTION,
            transactional_id,
            ApiKey.INIT_PRODUCER_ID,
            InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms
            ),
            codes=lambda answer: [answer.error_code],
            what=f"beginning transaction {transactional_id}",
            at_most=5,
        )
        return Transaction(
            transactional_id=transactional_id,
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
            second_generation=second_generation,
        )

    async def producer(self) -> tuple[int, int]:
        """Return a producer id and epoch for writing without a transaction."""
        attempts = self._cluster.attempts("asking for a producer id", self._timeout_s)
        while True:
            await self.reach(attempts)
            answer = await self._cluster.ask_any(
                ApiKey.INIT_PRODUCER_ID,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1),
                attempts=attempts,
            )
            if answer.error_code == ErrorCode.NONE:
                return answer.producer_id, answer.producer_epoch
            await attempts.after(BrokerRefused(answer.error_code))

    async def add_partitions(
        self, transaction: Transaction, partitions: Iterable[TopicPartition]
    ) -> None:
        """Add partitions to the transaction. The second generation does not need it."""
        if transaction.second_generation:
            return
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        await self._ask(
            _TRANSACTION,
            transaction.transactional_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transaction.transactional_id,
                v3_and_below_producer_id=transaction.producer_id,
                v3_and_below_producer_epoch=transaction.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=numbers)
                    for name, numbers in topics.items()
                ],
            ),
            codes=lambda answer: _first_cause(
                one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ),
            what=f"adding partitions to transaction {transaction.transactional_id}",
            at_most=3,
        )

    async def marker(self, group: str) -> Marker | None:
        """Return the newest marker of a group, waiting for transactions that may still change it."""
        answer = await self._ask(
            _GROUP,
            group,
            ApiKey.OFFSET_FETCH,
            OffsetFetchRequest(
                group_id=group,
                topics=None,
                groups=[OffsetFetchRequestGroup(group_id=group, topics=None)],
                require_stable=True,
            ),
            codes=_offset_codes,
            what=f"reading the marker {group}",
            at_most=9,  # later ones name topics by id only
        )
        found = [
            Marker.parse(one.committed_offset, one.metadata)
            for topic in (answer.groups[0].topics if answer.groups else answer.topics)
            for one in topic.partitions
            if one.committed_offset >= 0
        ]
        return max(found, key=lambda marker: marker.batch, default=None)

    async def put_marker(
        self, transaction: Transaction, group: str, topic: str, marker: Marker
    ) -> None:
        """Add a marker to the transaction."""
        what = f"putting the marker {group} into transaction {transaction.transactional_id}"
        if not transaction.second_generation:
            await self._ask(
                _TRANSACTION,
                transaction.transactional_id,
                ApiKey.ADD_OFFSETS_TO_TXN,
                AddOffsetsToTxnRequest(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    group_id=group,
                ),
                codes=lambda answer: [answer.error_code],
                what=what,
                at_most=3,
            )
        place = TxnOffsetCommitRequestPartition(
            partition_index=MARKER_PARTITION,
            committed_offset=marker.batch,
            committed_metadata=marker.metadata(),
        )
        await self._ask(
            _GROUP,
            group,
            ApiKey.TXN_OFFSET_COMMIT,
            TxnOffsetCommitRequest(
                transactional_id=transaction.transactional_id,
                group_id=group,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
            ),
            codes=lambda answer: _first_cause(
                one.error_code for found in answer.topics for one in found.partitions
            ),
            what=what,
            at_most=_versions(transaction)[ApiKey.TXN_OFFSET_COMMIT],
        )

    async def end(self, transaction: Transaction, *, commit: bool) -> None:
        """Commit or abort. Raises ``TransactionLost`` if another process ended it."""
        await self._ask(
            _TRANSACTION,
            transaction.transactional_id,
            ApiKey.END_TXN,
            EndTxnRequest(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                committed=commit,
            ),
            codes=lambda answer: [answer.error_code],
            what=f"{'committing' if commit else 'aborting'} {transaction.transactional_id}",
            at_most=_versions(transaction)[ApiKey.END_TXN],
        )

    async def reach(self, attempts: Attempts) -> None:
        """Wait for a broker: one that restarts is no reason to fail a query."""
        while True:
            try:
                await self._cluster.info()
                return
            except NoBroker as error:
                await attempts.after(error)

    async def _speaks_second_generation(self) -> bool:
        if self._second_generation is None:
            attempts = self._cluster.attempts("asking for the broker's features", self._timeout_s)
            await self.reach(attempts)
            answer = await self._cluster.ask_any(
                ApiKey.API_VERSIONS,
                ApiVersionsRequest(
                    client_software_name="millpond", client_software_version=__version__
                ),
                attempts=attempts,
            )
            level = next(
                (
                    one.max_version_level
                    for one in answer.finalized_features
                    if one.name == "transaction.version"
                ),
                0,
            )
            self._second_generation = level >= 2
        return self._second_generation

    async def _ask(
        self,
        kind: int,
        key: str,
        api_key: ApiKey,
        message: object,
        *,
        codes: Callable[[Any], Collection[int]],
        what: str,
        at_most: int,
    ) -> Any:
        """Send a request to the coordinator of ``key`` until its response is final."""
        attempts = self._cluster.attempts(what, self._timeout_s)
        while True:
            try:
                await self.reach(attempts)
                node = await self._coordinator(kind, key, attempts)
                connection = await self._cluster.connection_to(node)
                async with attempts.limit(connection):
                    answer = await connection.request(
                        api_key, message, version=connection.version_of(api_key, at_most)
                    )
            except ConnectionLost as error:
                self._coordinators.pop((kind, key), None)
                await attempts.after(error)
                continue
            code = next((one for one in codes(answer) if one != ErrorCode.NONE), ErrorCode.NONE)
            found = verdict(code)
            if found is Verdict.DONE:
                return answer
            refused = BrokerRefused(code, subject=what)
            if found is Verdict.LOST:
                raise TransactionLost(lost(refused))
            if code in _LOOK_AGAIN:
                self._coordinators.pop((kind, key), None)
            await attempts.after(refused)

    async def _coordinator(self, kind: int, key: str, attempts: Attempts) -> int:
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        while True:
            answer = await self._cluster.ask_any(
                ApiKey.FIND_COORDINATOR,
                FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key]),
                attempts=attempts,
            )
            found = answer.coordinators[0] if answer.coordinators else answer
            if found.error_code == ErrorCode.NONE:
                break
            await attempts.after(BrokerRefused(found.error_code, subject=key))
        if len(self._coordinators) >= _COORDINATORS_MAX:
            self._coordinators.clear()
        self._coordinators[kind, key] = found.node_id
        return int(found.node_id)


async def all_of(work: Sequence[Awaitable[None]]) -> None:
    """Wait for all to end, with or without errors; then raise the first error."""
    results: list[BaseException | None] = [None] * len(work)

    async def one(place: int, job: Awaitable[None]) -> None:
        try:
            await job
        except (ClientError, TransactionLost) as error:
            results[place] = error

    async with asyncio.TaskGroup() as tasks:
        for place, job in enumerate(work):
            tasks.create_task(one(place, job), name=f"transaction {place}")
    for error in results:
        if error is not None:
            raise error


def _versions(transaction: Transaction) -> dict[ApiKey, int]:
    return _SECOND_GENERATION if transaction.second_generation else _FIRST_GENERATION


def _first_cause(codes: Iterable[int]) -> Collection[int]:
    """Return the codes without OPERATION_NOT_ATTEMPTED, which only says that another partition had the
    error.
    """
    listed = list(codes)
    causes = [
        code for code in listed if code not in {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}
    ]
    return causes or listed


def _offset_codes(answer: Any) -> Collection[int]:
    if answer.groups:
        (group,) = answer.groups
        return [
            group.error_code,
            *(one.error_code for topic in group.topics for one in topic.partitions),
        ]
    return [answer.error_code, *(p.error_code for topic in answer.topics for p in topic.partitions)]


def lost(refused: BrokerRefused) -> str:
    """Return what happened to a transaction of another process, and what happens next."""
    return (
        f"{refused}. Another attempt of the task or another run of the query took its place, or the batch"
        " took longer than the option kafka.transaction.timeout.ms. None of its records can be seen;"
        " Spark writes the batch again when the query is started again"
    )
