"""AddPartitionsToTxn request and response (api 24), versions 0-5.

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
    pack_count,
    pack_numbers,
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_numbers,
    read_string,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_qh = Struct(">qh")
_pack_qh, _unpack_qh = _qh.pack, _qh.unpack_from
_qho = Struct(">qh?")
_pack_qho, _unpack_qho = _qho.pack, _qho.unpack_from


class AddPartitionsToTxnTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class AddPartitionsToTxnTransaction(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = NOT_GIVEN,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics: list[AddPartitionsToTxnTopic] = [] if topics is NOT_GIVEN else topics


class AddPartitionsToTxnRequest(Message):
    __slots__ = ("transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id", "v3_and_below_producer_epoch", "v3_and_below_topics")

    def __init__(
        self,
        transactions: list[AddPartitionsToTxnTransaction] = NOT_GIVEN,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = NOT_GIVEN,
    ) -> None:
        self.transactions: list[AddPartitionsToTxnTransaction] = [] if transactions is NOT_GIVEN else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics: list[AddPartitionsToTxnTopic] = [] if v3_and_below_topics is NOT_GIVEN else v3_and_below_topics


class AddPartitionsToTxnPartitionResult(Message):
    __slots__ = ("partition_index", "partition_error_code")

    def __init__(
        self,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Message):
    __slots__ = ("name", "results_by_partition")

    def __init__(
        self,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.results_by_partition: list[AddPartitionsToTxnPartitionResult] = [] if results_by_partition is NOT_GIVEN else results_by_partition


class AddPartitionsToTxnResult(Message):
    __slots__ = ("transactional_id", "topic_results")

    def __init__(
        self,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] = NOT_GIVEN,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results: list[AddPartitionsToTxnTopicResult] = [] if topic_results is NOT_GIVEN else topic_results


class AddPartitionsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = NOT_GIVEN,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction: list[AddPartitionsToTxnResult] = [] if results_by_transaction is NOT_GIVEN else results_by_transaction
        self.results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = [] if results_by_topic_v3_and_below is NOT_GIVEN else results_by_topic_v3_and_below


def encode_add_partitions_to_txn_request(m: AddPartitionsToTxnRequest, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 4:
            values_1 = m.transactions
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.transactional_id))
                add(_pack_qho(m_2.producer_id, m_2.producer_epoch, m_2.verify_only))
                values_3 = m_2.topics
                add(count_(len(values_3)))
                for m_4 in values_3:
                    add(string_(m_4.name))
                    values_5 = m_4.partitions
                    add(count_(len(values_5)))
                    add(pack_numbers(values_5, "i"))
                    add(b"\x00")
                add(b"\x00")
        if version <= 3:
            add(string_(m.v3_and_below_transactional_id))
            add(_pack_qh(m.v3_and_below_producer_id, m.v3_and_below_producer_epoch))
            values_6 = m.v3_and_below_topics
            add(count_(len(values_6)))
            for m_7 in values_6:
                add(string_(m_7.name))
                values_8 = m_7.partitions
                add(count_(len(values_8)))
                add(pack_numbers(values_8, "i"))
                if flexible:
                    add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AddPartitionsToTxnRequest", version, error) from error


def decode_add_partitions_to_txn_request(data: memoryview, version: int) -> AddPartitionsToTxnRequest:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        transactions: list[AddPartitionsToTxnTransaction]
        if version >= 4:
            count, p = count_(data, p, 14)
            transactions = []
            for _ in range(count):
                transactional_id_1, p = string_(data, p)
                producer_id_1, producer_epoch_1, verify_only_1 = _unpack_qho(data, p)
                p += 11
                count, p = count_(data, p, 3)
                topics_1: list[AddPartitionsToTxnTopic] = []
                for _ in range(count):
                    name_2, p = string_(data, p)
                    count, p = count_(data, p, 4)
                    partitions_2, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    topics_1.append(AddPartitionsToTxnTopic(name_2, partitions_2))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                transactions.append(AddPartitionsToTxnTransaction(transactional_id_1, producer_id_1, producer_epoch_1, verify_only_1, topics_1))
        else:
            transactions = []
        v3_and_below_topics: list[AddPartitionsToTxnTopic]
        if version <= 3:
            v3_and_below_transactional_id, p = string_(data, p)
            v3_and_below_producer_id, v3_and_below_producer_epoch = _unpack_qh(data, p)
            p += 10
            count, p = count_(data, p, 3)
            v3_and_below_topics = []
            for _ in range(count):
                name_3, p = string_(data, p)
                count, p = count_(data, p, 4)
                partitions_3, p = read_numbers(data, p, count, "i")
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                v3_and_below_topics.append(AddPartitionsToTxnTopic(name_3, partitions_3))
        else:
            v3_and_below_transactional_id = ""
            v3_and_below_producer_id = 0
            v3_and_below_producer_epoch = 0
            v3_and_below_topics = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AddPartitionsToTxnRequest(transactions, v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics)
    except DECODE_ERRORS as error:
        raise malformed("AddPartitionsToTxnRequest", version, error) from None


def encode_add_partitions_to_txn_response(m: AddPartitionsToTxnResponse, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 4:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_i(m.throttle_time_ms))
        if version >= 4:
            values_1 = m.results_by_transaction
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.transactional_id))
                values_3 = m_2.topic_results
                add(count_(len(values_3)))
                for m_4 in values_3:
                    add(string_(m_4.name))
                    values_5 = m_4.results_by_partition
                    add(count_(len(values_5)))
                    for m_6 in values_5:
                        add(_pack_ih(m_6.partition_index, m_6.partition_error_code))
                        if flexible:
                            add(b"\x00")
                    add(b"\x00")
                add(b"\x00")
        if version <= 3:
            values_7 = m.results_by_topic_v3_and_below
            add(count_(len(values_7)))
            for m_8 in values_7:
                add(string_(m_8.name))
                values_9 = m_8.results_by_partition
                add(count_(len(values_9)))
                for m_10 in values_9:
                    add(_pack_ih(m_10.partition_index, m_10.partition_error_code))
                    if flexible:
                        add(b"\x00")
                if flexible:
                    add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AddPartitionsToTxnResponse", version, error) from error


def decode_add_partitions_to_txn_response(data: memoryview, version: int) -> AddPartitionsToTxnResponse:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 4:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
            error_code = 0
        results_by_transaction: list[AddPartitionsToTxnResult]
        if version >= 4:
            count, p = count_(data, p, 3)
            results_by_transaction = []
            for _ in range(count):
                transactional_id_1, p = string_(data, p)
                count, p = count_(data, p, 3)
                topic_results_1: list[AddPartitionsToTxnTopicResult] = []
                for _ in range(count):
                    name_2, p = string_(data, p)
                    count, p = count_(data, p, 6)
                    results_by_partition_2: list[AddPartitionsToTxnPartitionResult] = []
                    for _ in range(count):
                        partition_index_3, partition_error_code_3 = _unpack_ih(data, p)
                        p += 6
                        if flexible:
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        results_by_partition_2.append(AddPartitionsToTxnPartitionResult(partition_index_3, partition_error_code_3))
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    topic_results_1.append(AddPartitionsToTxnTopicResult(name_2, results_by_partition_2))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                results_by_transaction.append(AddPartitionsToTxnResult(transactional_id_1, topic_results_1))
        else:
            results_by_transaction = []
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult]
        if version <= 3:
            count, p = count_(data, p, 3)
            results_by_topic_v3_and_below = []
            for _ in range(count):
                name_4, p = string_(data, p)
                count, p = count_(data, p, 6)
                results_by_partition_4: list[AddPartitionsToTxnPartitionResult] = []
                for _ in range(count):
                    partition_index_5, partition_error_code_5 = _unpack_ih(data, p)
                    p += 6
                    if flexible:
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    results_by_partition_4.append(AddPartitionsToTxnPartitionResult(partition_index_5, partition_error_code_5))
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                results_by_topic_v3_and_below.append(AddPartitionsToTxnTopicResult(name_4, results_by_partition_4))
        else:
            results_by_topic_v3_and_below = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AddPartitionsToTxnResponse(throttle_time_ms, error_code, results_by_transaction, results_by_topic_v3_and_below)
    except DECODE_ERRORS as error:
        raise malformed("AddPartitionsToTxnResponse", version, error) from None
