"""``JoinTransaction`` as Kafka's AddPartitionsToTxn between brokers (KIP-890).

``handlers/add_partitions_to_txn.py`` answers it.
"""

from itertools import groupby
from operator import attrgetter

from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.engine.peers import JoinTransaction
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal, refusal_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


def to_wire(question: JoinTransaction) -> AddPartitionsToTxnRequest:
    one = AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=question.verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[place.partition for place in places])
            for name, places in groupby(sorted(question.partitions), key=attrgetter("topic"))
        ],
    )
    return AddPartitionsToTxnRequest(transactions=[one])


def from_wire(
    question: JoinTransaction, answer: AddPartitionsToTxnResponse
) -> dict[TopicPartition, MillpondError | None]:
    raise_refusal(answer.error_code)
    return {
        TopicPartition(topic.name, one.partition_index): refusal_of(one.partition_error_code)
        for result in answer.results_by_transaction
        if result.transactional_id == question.transactional_id
        for topic in result.topic_results
        for one in topic.results_by_partition
    }


CALL = PeerCall(
    kind=JoinTransaction,
    api_key=ApiKey.ADD_PARTITIONS_TO_TXN,
    version=5,
    to_wire=to_wire,
    from_wire=from_wire,
    connection=ConnectionKind.TRANSACTIONS,
)
