"""A transactional producer's requests to its coordinators, in both generations (KIP-98 and KIP-890)."""

from collections.abc import Mapping, Sequence
from typing import Any

from millpond.base.ids import TopicPartition
from millpond.client._coordinators import CoordinatorLookup, CoordinatorType
from millpond.client._sequences import Identity
from millpond.client._transaction import FENCING
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ProducerFenced, TransactionBroken
from millpond.client.records import OffsetAndMetadata
from millpond.wire.kafka.api import ApiKey, ErrorCode

_WAIT = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_ABORT = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
_SECOND_GENERATION = 2  # transaction.version of KIP-890
_ADD_PARTITIONS_CLIENT_MAX = 3  # later versions are for brokers
_OFFSETS_FIRST_GENERATION_MAX = 4
_END_FIRST_GENERATION_MAX = 4


class TransactionCalls:
    """The requests for one transactional id."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator = CoordinatorLookup(
            cluster, CoordinatorType.TRANSACTION, transactional_id
        )
        self._groups: dict[str, CoordinatorLookup] = {}

    async def is_second_generation(self, timeout_s: float) -> bool:
        """Return whether the cluster has enabled KIP-890."""
        attempts = self._cluster.attempts("asking for the transaction coordinator", timeout_s)
        connection = await self._coordinator.connection(attempts)
        return connection.features.get("transaction.version", 0) >= _SECOND_GENERATION

    async def init(self, timeout_s: float, current: Identity | None = None) -> Identity:
        """Take over the id: older producers with it are fenced and their transactions ended."""
        from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest

        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._timeout_ms
        )
        if current is not None:
            request.producer_id, request.producer_epoch = current
        answer = await self._coordinator.ask(
            ApiKey.INIT_PRODUCER_ID,
            request,
            error_of=lambda answer: answer.error_code,
            attempts=self._cluster.attempts(f"initialising transactions of {self._id}", timeout_s),
            again=_WAIT,
        )
        self._check(answer.error_code)
        return Identity(answer.producer_id, answer.producer_epoch)

    async def add_partitions(
        self, identity: Identity, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> None:
        """Add partitions to the transaction (first generation)."""
        from millpond.wire.kafka.messages.add_partitions_to_txn import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
        )

        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )
        answer = await self._ask_version(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            request,
            _first_partition_error,
            f"adding partitions to the transaction of {self._id}",
            timeout_s,
            at_most=_ADD_PARTITIONS_CLIENT_MAX,
        )
        self._check(_first_partition_error(answer))

    async def send_offsets(
        self,
        identity: Identity,
        group: Any,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        second_generation: bool,
        timeout_s: float,
    ) -> None:
        """Add a group's offsets to the transaction."""
        from millpond.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
        from millpond.wire.kafka.messages.txn_offset_commit import (
            TxnOffsetCommitRequest,
            TxnOffsetCommitRequestPartition,
            TxnOffsetCommitRequestTopic,
        )

        if not second_generation:
            answer = await self._ask_version(
                ApiKey.ADD_OFFSETS_TO_TXN,
                AddOffsetsToTxnRequest(
                    transactional_id=self._id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    group_id=group.group_id,
                ),
                lambda answer: answer.error_code,
                f"adding group {group.group_id} to the transaction of {self._id}",
                timeout_s,
            )
            self._check(answer.error_code)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, number), offset in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=items)
                for name, items in topics.items()
            ],
        )
        coordinator = self._groups.setdefault(
            group.group_id, CoordinatorLookup(self._cluster, CoordinatorType.GROUP, group.group_id)
        )
        answer = await self._ask_version(
            ApiKey.TXN_OFFSET_COMMIT,
            request,
            _first_offset_error,
            f"committing offsets of {group.group_id} in the transaction of {self._id}",
            timeout_s,
            coordinator=coordinator,
            at_most=None if second_generation else _OFFSETS_FIRST_GENERATION_MAX,
        )
        self._check(_first_offset_error(answer))

    async def end(
        self, identity: Identity, *, commit: bool, second_generation: bool, timeout_s: float
    ) -> Identity:
        """Commit or abort. Return the identity for the next transaction (the second generation changes
        it).
        """
        from millpond.wire.kafka.messages.end_txn import EndTxnRequest

        answer = await self._ask_version(
            ApiKey.END_TXN,
            EndTxnRequest(
                transactional_id=self._id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                committed=commit,
            ),
            lambda answer: answer.error_code,
            f"{'committing' if commit else 'aborting'} the transaction of {self._id}",
            timeout_s,
            at_most=None if second_generation else _END_FIRST_GENERATION_MAX,
        )
        self._check(answer.error_code)
        if second_generation and answer.producer_id >= 0:
            return Identity(answer.producer_id, answer.producer_epoch)
        return identity

    async def _ask_version(
        self,
        api_key: ApiKey,
        request: object,
        error_of: Any,
        what: str,
        timeout_s: float,
        *,
        at_most: int | None = None,
        coordinator: CoordinatorLookup | None = None,
    ) -> Any:
        chosen = coordinator or self._coordinator
        return await chosen.ask(
            api_key,
            request,
            error_of=error_of,
            attempts=self._cluster.attempts(what, timeout_s),
            again=_WAIT,
            at_most=at_most,
        )

    def _check(self, code: int) -> None:
        if not code:
            return
        refusal = BrokerRefused(code, subject=self._id)
        if code in FENCING:
            raise ProducerFenced(
                f"{self._id}: another producer with this transactional id has started;"
                " close this one"
            ) from refusal
        if code in _ABORT:
            raise TransactionBroken(f"{refusal}; abort the transaction and begin again") from None
        raise refusal


async def ask_identity(cluster: Cluster) -> Identity:
    """Request an id for a producer without transactions. Raises ``BrokerRefused`` if a retry does not
    help.
    """
    from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest

    attempts = cluster.attempts("asking for a producer id")
    while True:
        answer = await cluster.ask_any(
            ApiKey.INIT_PRODUCER_ID,
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1),
            attempts=attempts,
        )
        if answer.error_code == ErrorCode.NONE:
            return Identity(answer.producer_id, answer.producer_epoch)
        await attempts.after(BrokerRefused(answer.error_code, subject="asking for a producer id"))


def _first_partition_error(answer: Any) -> int:
    return next(
        (
            item.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for item in topic.results_by_partition
            if item.partition_error_code
        ),
        0,
    )


def _first_offset_error(answer: Any) -> int:
    return next(
        (
            item.error_code
            for topic in answer.topics
            for item in topic.partitions
            if item.error_code
        ),
        0,
    )
