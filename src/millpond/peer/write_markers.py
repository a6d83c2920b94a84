"""``WriteMarkers`` as Kafka's WriteTxnMarkers; ``handlers/write_txn_markers.py`` answers it."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.engine.peers import TransactionMarker, WriteMarkers
from millpond.peer.calls import ConnectionKind, PeerCall, refusal_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def to_wire(question: WriteMarkers) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[_marker(one) for one in question.markers])


def _marker(marker: TransactionMarker) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=[one.partition for one in places])
            for name, places in groupby(sorted(marker.partitions), key=attrgetter("topic"))
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
    )


def from_wire(
    question: WriteMarkers, answer: WriteTxnMarkersResponse
) -> Sequence[dict[TopicPartition, MillpondError | None]]:
    """An answer for each marker: Kafka keeps the order of what was asked."""
    del question
    return [
        {
            TopicPartition(topic.name, one.partition_index): refusal_of(one.error_code)
            for topic in marker.topics
            for one in topic.partitions
        }
        for marker in answer.markers
    ]


CALL = PeerCall(
    kind=WriteMarkers,
    api_key=ApiKey.WRITE_TXN_MARKERS,
    version=2,
    to_wire=to_wire,
    from_wire=from_wire,
    connection=ConnectionKind.TRANSACTIONS,
)
