"""Known bytes of known messages, what the edges of a message may hold, and that no file is stale."""

from pathlib import Path
from uuid import UUID

import pytest
from codegen.__main__ import TARGET, sources
from codegen.table import TableError, parse, snake_case

from millpond.base.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersion
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    decode_api_versions_request,
    encode_api_versions_request,
    encode_api_versions_response,
)
from millpond.wire.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_consumer_protocol_subscription,
)
from millpond.wire.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
    decode_describe_topic_partitions_request,
    encode_describe_topic_partitions_request,
)
from millpond.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
    encode_fetch_request,
)
from millpond.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    decode_metadata_request,
    encode_metadata_request,
)


def test_the_generated_files_are_what_the_table_says() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.py")}
    stale = {name for name, text in sources().items() if on_disk.get(name) != text}
    assert not stale | (on_disk.keys() - sources().keys()), "run `make generate`"
    assert Path(TARGET).name == "messages"


class TestKnownBytes:
    def test_a_classic_request(self) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False
        )
        assert encode_metadata_request(request, 4) == (
            b"\x00\x00\x00\x01"  # one topic
            b"\x00\x06orders"
            b"\x00"  # do not create it
        )

    def test_a_flexible_request(self) -> None:
        request = ApiVersionsRequest("librdkafka", "2.3.0")
        body = b"\x0blibrdkafka\x062.3.0\x00"
        assert encode_api_versions_request(request, 3) == body
        assert decode_api_versions_request(memoryview(body), 3) == request

    def test_tags_are_written_in_order_and_only_where_they_say_something(self) -> None:
        response = ApiVersionsResponse(
            api_keys=[ApiVersion(18, 0, 4)], finalized_features_epoch=7, zk_migration_ready=True
        )
        assert encode_api_versions_response(response, 3) == (
            b"\x00\x00"
            b"\x02\x00\x12\x00\x00\x00\x04\x00"  # one API, no tags of its own
            b"\x00\x00\x00\x00"  # no throttling
            b"\x02"  # two tagged fields
            b"\x01\x08\x00\x00\x00\x00\x00\x00\x00\x07"
            b"\x03\x01\x01"
        )

    def test_a_tagged_structure_has_its_own_tags(self) -> None:
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=3, replica_epoch=9),
            max_wait_ms=500,
            min_bytes=1,
            topics=[FetchTopic(topic_id=UUID(int=1), partitions=[FetchPartition(partition=2)])],
        )
        assert (
            encode_fetch_request(request, 15)
            == (
                b"\x00\x00\x01\xf4\x00\x00\x00\x01\x7f\xff\xff\xff\x00"
                b"\x00\x00\x00\x00\xff\xff\xff\xff"  # no session
                b"\x02" + UUID(int=1).bytes + b"\x02\x00\x00\x00\x02\xff\xff\xff\xff"
                b"\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
                b"\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00"
                b"\x01"  # nothing forgotten
                b"\x01"  # no rack
                b"\x01\x01\x0d\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x09\x00"
            )
        )

    def test_a_nullable_structure_is_marked(self) -> None:
        without = DescribeTopicPartitionsRequest(topics=[TopicRequest("a")])
        assert encode_describe_topic_partitions_request(without, 0) == (
            b"\x02\x02a\x00\x00\x00\x07\xd0\xff\x00"
        )
        with_cursor = DescribeTopicPartitionsRequest(cursor=Cursor("a", 3))
        written = encode_describe_topic_partitions_request(with_cursor, 0)
        assert written == b"\x01\x00\x00\x07\xd0\x01\x02a\x00\x00\x00\x03\x00\x00"
        read = decode_describe_topic_partitions_request(memoryview(written), 0)
        assert read == with_cursor

    def test_a_stored_message(self) -> None:
        subscription = ConsumerProtocolSubscription(
            topics=["a"],
            user_data=None,
            owned_partitions=[TopicPartition("a", [0, 1])],
            generation_id=4,
            rack_id="r",
        )
        classic = b"\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff"
        owned = b"\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01"
        encode = encode_consumer_protocol_subscription
        assert encode(subscription, 0) == classic
        assert encode(subscription, 1) == classic + owned
        assert encode(subscription, 3) == classic + owned + b"\x00\x00\x00\x04\x00\x01r"


class TestWhatAPeerMayNotSay:
    @pytest.mark.parametrize(
        ("body", "version", "reason"),
        [
            (b"", 3, "the frame ends"),
            (b"\x7f\xff\xff\xff", 3, "exceeds the 0 bytes left"),
            (b"\x00\x00\x00\x01\x00\x7fabc", 3, "exceeds the 3 bytes left"),
            (b"\x00\x00\x00\x01\xff\xff\x00", 3, "null string"),
            (b"\xff\xff\xff\xff", 0, "null array"),
            (b"\x00\x00\x00\x01\x00\x02\xff\xfe", 3, "not UTF-8"),
            (b"\xff\xff\xff\xff\x7f", 9, "longer than 32 bits"),
            (b"\xff\xff\xff\xff\x0f", 9, "exceeds"),
            (b"\x00\x01\x01\x01\x01\x00\x7f", 9, "exceeds"),
        ],
    )
    def test_is_said_back_in_words(self, body: bytes, version: int, reason: str) -> None:
        with pytest.raises(RemoteProtocolError, match=reason):
            decode_metadata_request(memoryview(body), version)

    def test_a_tag_with_a_wrong_size(self) -> None:
        empty_fetch = b"\x00" * 13 + b"\x00" * 8 + b"\x01\x01\x01"
        APIS[ApiKey.FETCH].decode_request(empty_fetch + b"\x01\x00\x02\x02x", 15)
        with pytest.raises(RemoteProtocolError, match="tagged field 0"):
            APIS[ApiKey.FETCH].decode_request(empty_fetch + b"\x01\x00\x03\x02xy", 15)

    def test_unknown_tags_are_no_offence(self) -> None:
        request = decode_api_versions_request(memoryview(b"\x02a\x02b\x02\x07\x01x\x63\x00"), 3)
        assert request == ApiVersionsRequest("a", "b")


class TestWhatWeMayNotSay:
    def test_null_where_there_is_none(self) -> None:
        with pytest.raises(LocalProtocolError, match="topics may not be null"):
            encode_metadata_request(MetadataRequest(topics=None), 0)
        with pytest.raises(LocalProtocolError, match="name may not be null"):
            encode_metadata_request(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)

    def test_numbers_that_do_not_fit(self) -> None:
        with pytest.raises(LocalProtocolError, match="FetchRequest v12"):
            encode_fetch_request(FetchRequest(max_wait_ms=2**31), 12)

    def test_versions_that_do_not_exist(self) -> None:
        spec = APIS[ApiKey.FETCH]
        with pytest.raises(UnsupportedVersion, match="Fetch has versions 4 to 18, not 3"):
            spec.encode_request(FetchRequest(), 3)
        with pytest.raises(UnsupportedVersion):
            spec.decode_response(b"", 19)

    def test_fields_of_other_versions_are_left_out(self) -> None:
        new = FetchRequest(rack_id="r", session_id=5)
        assert encode_fetch_request(new, 4) == encode_fetch_request(FetchRequest(), 4)


class TestMessages:
    def test_lists_are_not_shared(self) -> None:
        MetadataRequest().topics.append(MetadataRequestTopic())  # type: ignore[union-attr]
        assert MetadataRequest().topics == []

    def test_null_is_not_the_same_as_not_given(self) -> None:
        assert MetadataRequest(topics=None).topics is None

    def test_equality_and_words(self) -> None:
        assert Cursor("a", 1) == Cursor("a", 1) != Cursor("a", 2)
        assert Cursor("a", 1) != TopicRequest("a")
        assert repr(Cursor("a", 1)) == "Cursor(topic_name='a', partition_index=1)"


class TestTable:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("api 1 A 0-1\n  request\n    x int32", "line 3.*not a field"),
            ("api 1 A 0-1\n  request\n    x: int32 2+", "outside 0-1"),
            ("api 1 A 0-1\n  request\n    x: int32\n    x: int8", "twice"),
            ("api 1 A 0-1\n  request\n    x: int32 tag 0", "no tags"),
            ("api 1 A 0-1\n  request\n    x: string = null", "never null"),
            ("api 1 A 0-1\n  request\n    x: Thing", "no fields"),
            ("thing 1 A 0-1", "line 1"),
        ],
    )
    def test_mistakes_are_pointed_at(self, text: str, reason: str) -> None:
        with pytest.raises(TableError, match=reason):
            parse(text)

    def test_names(self) -> None:
        assert snake_case("DescribeLogDirs") == "describe_log_dirs"
        assert snake_case("KRaftVersionRecord") == "kraft_version_record"
