"""WriteTxnMarkers request and response (api 27), versions 1-2.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    NOT_GIVEN,
    pack_compact_count,
    pack_compact_string,
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ib = Struct(">ib")
_pack_ib, _unpack_ib = _ib.pack, _ib.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from
_qho = Struct(">qh?")
_pack_qho, _unpack_qho = _qho.pack, _qho.unpack_from


class WritableTxnMarkerTopic(Message):
    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is NOT_GIVEN else partition_indexes


class WritableTxnMarker(Message):
    __slots__ = ("producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch", "transaction_version")

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = NOT_GIVEN,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics: list[WritableTxnMarkerTopic] = [] if topics is NOT_GIVEN else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(Message):
    __slots__ = ("markers",)

    def __init__(
        self,
        markers: list[WritableTxnMarker] = NOT_GIVEN,
    ) -> None:
        self.markers: list[WritableTxnMarker] = [] if markers is NOT_GIVEN else markers


class WritableTxnMarkerPartitionResult(Message):
    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[WritableTxnMarkerPartitionResult] = [] if partitions is NOT_GIVEN else partitions


class WritableTxnMarkerResult(Message):
    __slots__ = ("producer_id", "topics")

    def __init__(
        self,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] = NOT_GIVEN,
    ) -> None:
        self.producer_id = producer_id
        self.topics: list[WritableTxnMarkerTopicResult] = [] if topics is NOT_GIVEN else topics


class WriteTxnMarkersResponse(Message):
    __slots__ = ("markers",)

    def __init__(
        self,
        markers: list[WritableTxnMarkerResult] = NOT_GIVEN,
    ) -> None:
        self.markers: list[WritableTxnMarkerResult] = [] if markers is NOT_GIVEN else markers


def encode_write_txn_markers_request(m: WriteTxnMarkersRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.markers
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_qho(m_2.producer_id, m_2.producer_epoch, m_2.transaction_result))
            values_3 = m_2.topics
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(pack_compact_string(m_4.name))
                values_5 = m_4.partition_indexes
                add(pack_compact_count(len(values_5)))
                add(pack_numbers(values_5, "i"))
                add(b"\x00")
            if version >= 2:
                add(_pack_ib(m_2.coordinator_epoch, m_2.transaction_version))
            else:
                add(_pack_i(m_2.coordinator_epoch))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("WriteTxnMarkersRequest", version, error) from error


def decode_write_txn_markers_request(data: memoryview, version: int) -> WriteTxnMarkersRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 17)
        markers: list[WritableTxnMarker] = []
        for _ in range(count):
            producer_id_1, producer_epoch_1, transaction_result_1 = _unpack_qho(data, p)
            p += 11
            count, p = read_compact_count(data, p, 3)
            topics_1: list[WritableTxnMarkerTopic] = []
            for _ in range(count):
                name_2, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partition_indexes_2, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(WritableTxnMarkerTopic(name_2, partition_indexes_2))
            if version >= 2:
                coordinator_epoch_1, transaction_version_1 = _unpack_ib(data, p)
                p += 5
            else:
                (coordinator_epoch_1,) = _unpack_i(data, p)
                p += 4
                transaction_version_1 = 0
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            markers.append(WritableTxnMarker(producer_id_1, producer_epoch_1, transaction_result_1, topics_1, coordinator_epoch_1, transaction_version_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return WriteTxnMarkersRequest(markers)
    except DECODE_ERRORS as error:
        raise malformed("WriteTxnMarkersRequest", version, error) from None


def encode_write_txn_markers_response(m: WriteTxnMarkersResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.markers
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_q(m_2.producer_id))
            values_3 = m_2.topics
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(pack_compact_string(m_4.name))
                values_5 = m_4.partitions
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    add(_pack_ih(m_6.partition_index, m_6.error_code))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("WriteTxnMarkersResponse", version, error) from error


def decode_write_txn_markers_response(data: memoryview, version: int) -> WriteTxnMarkersResponse:
    try:
        p = 0
        count, p = read_compact_count(data, p, 10)
        markers: list[WritableTxnMarkerResult] = []
        for _ in range(count):
            (producer_id_1,) = _unpack_q(data, p)
            p += 8
            count, p = read_compact_count(data, p, 3)
            topics_1: list[WritableTxnMarkerTopicResult] = []
            for _ in range(count):
                name_2, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 7)
                partitions_2: list[WritableTxnMarkerPartitionResult] = []
                for _ in range(count):
                    partition_index_3, error_code_3 = _unpack_ih(data, p)
                    p += 6
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    partitions_2.append(WritableTxnMarkerPartitionResult(partition_index_3, error_code_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(WritableTxnMarkerTopicResult(name_2, partitions_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            markers.append(WritableTxnMarkerResult(producer_id_1, topics_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return WriteTxnMarkersResponse(markers)
    except DECODE_ERRORS as error:
        raise malformed("WriteTxnMarkersResponse", version, error) from None
