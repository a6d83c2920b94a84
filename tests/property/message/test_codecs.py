"""Messages between protocols: each gets its own back, and any record is a message of any protocol."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.fields import LongString, Table, Value
from millpond.frontend.amqp.codec import AMQP, AmqpCodec, message_of
from millpond.message.codecs import Codecs, MessageCodec
from millpond.message.hub import KAFKA, Message, Origin
from millpond.message.kafka_codec import KafkaCodec
from millpond.message.text import raw, text_of
from millpond.record.builder import NewRecord, build_batch
from millpond.record.records import Record, decode_batch
from millpond.wire.amqp.content import DeliveryWriter
from millpond.wire.amqp.properties import Properties, decode_properties, encode_properties
from tests.property.wire.amqp.made import properties, tables

NOW_MS = 1_700_000_000_123
TAGGED: Final = "tagged"


class TaggedCodec:
    """A third protocol: its property block is one line of text, its tag."""

    protocol: Final = TAGGED

    def to_record(self, message: Message) -> NewRecord:
        pairs = [("millpond.tagged.tag", message.properties)]
        return message.received_ms, raw(message.key), message.body, pairs

    def to_records(self, messages: Sequence[Message]) -> list[NewRecord]:
        return [self.to_record(message) for message in messages]

    def from_record(self, record: Record) -> Message | None:
        tag = dict(record.headers).get("millpond.tagged.tag")
        if tag is None:
            return None
        headers: Table = {"tag": tag.decode("utf-8", "replace")}
        key, body = text_of(record.key or b""), record.value or b""
        return Message("", key, tag, headers, body, record.timestamp, protocol=TAGGED)

    def convert(self, message: Message) -> Message:
        tag = message.headers.get("tag")
        block = tag.encode("utf-8", "replace") if isinstance(tag, str) else b""
        return message._replace(properties=block, protocol=TAGGED)


ALL: tuple[MessageCodec, ...] = (AmqpCodec(), TaggedCodec())
CODECS = Codecs(ALL)
NAMES = (KAFKA, AMQP, TAGGED)

names = st.text(max_size=20) | st.sampled_from(
    [
        "millpond.amqp.properties",
        "millpond.amqp.exchange",
        "millpond.amqp.received",
        "millpond.amqp.other",
        "millpond.tagged.tag",
        "millpond.delay",
        "tag",
        "n" * 300,
    ]
)
records = st.builds(
    Record,
    st.just(0),
    st.integers(-1, 2**62),
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=60),
    st.lists(
        st.tuples(names, st.none() | st.binary(max_size=300) | st.text().map(str.encode)),
        max_size=5,
    ).map(tuple),
)
amqp_messages = st.builds(
    lambda exchange, key, said, body: message_of(
        exchange, key, encode_properties(said), said, body, received_ms=NOW_MS
    ),
    st.text(max_size=60),
    st.text(max_size=60),
    properties,
    st.binary(max_size=60),
)


def through_a_log(record: NewRecord) -> Record:
    (found,) = decode_batch(build_batch([record]))
    return found


@given(records, st.sampled_from(NAMES))
def test_any_record_is_a_message_of_any_protocol(record: Record, protocol: str) -> None:
    message = CODECS.reader(protocol)(record)
    assert message.protocol == protocol
    assert message.body == (record.value or b"")
    if protocol == AMQP:
        decode_properties(message.properties)
        DeliveryWriter(1, "tag", 4096).write(
            1, message.address, message.key, message.properties, message.body
        )
    # What was converted can be kept, and is then a record of that protocol.
    kept = through_a_log(CODECS.of(message).to_record(message))
    assert kept.value == message.body


@given(records, st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_a_conversion_of_a_conversion_keeps_the_body_and_never_fails(
    record: Record, first: str, second: str
) -> None:
    message = CODECS.convert(CODECS.convert(CODECS.read(record), first), second)
    assert (message.body, message.protocol) == (record.value or b"", second)


@given(amqp_messages)
def test_a_protocol_gets_back_what_it_gave(message: Message) -> None:
    record = through_a_log(CODECS.of(message).to_record(message))
    assert CODECS.read(record) == message
    assert CODECS.reader(AMQP)(record) == message
    assert CODECS.read(record).origin == Origin(AMQP, message.properties)
    assert CODECS.convert(message, AMQP) is message


@given(
    st.integers(0, 2**62),
    st.binary(max_size=300),
    st.binary(max_size=60),
    st.dictionaries(st.text(max_size=20), st.none() | st.binary(max_size=60), max_size=4),
)
def test_kafka_gets_back_what_kafka_gave(
    time_ms: int, key: bytes, value: bytes, headers: dict[str, bytes | None]
) -> None:
    codec, pairs = KafkaCodec(), tuple(headers.items())
    message = codec.from_record(Record(0, time_ms, key, value, pairs))
    assert message is not None
    found = through_a_log(codec.to_record(message))
    assert (found.timestamp, found.key, found.value) == (time_ms, key, value)
    assert dict(found.headers) == headers


@given(tables)
def test_headers_keep_their_types_where_the_other_protocol_can_carry_them(headers: Table) -> None:
    said = Properties(headers=headers or None)
    amqp = message_of("x", "k", encode_properties(said), said, b"", received_ms=NOW_MS)
    kafka = CODECS.convert(amqp, KAFKA)
    for name, value in headers.items():
        _check_kafka_header(value, kafka.headers[name])
    back = CODECS.convert(kafka, AMQP)
    there = decode_properties(back.properties).headers or {}
    for name, value in headers.items():
        if value is None or (isinstance(value, str) and not isinstance(value, LongString)):
            assert there[name] == value


def _check_kafka_header(value: Value, found: Value) -> None:
    """Text, bytes and absent values stay as they are; numbers are digits."""
    if value is None:
        assert found is None
    elif isinstance(value, bytes):
        assert (found if isinstance(found, bytes) else str(found).encode()) == value
    elif isinstance(value, bool):
        assert found == str(value).lower()
    elif isinstance(value, (int, float, Decimal)):
        assert found == str(value)
    elif isinstance(value, str):
        assert found == value or found == value.encode("utf-8", "surrogateescape")


def test_a_third_protocol_needs_no_change_to_the_others() -> None:
    tagged = Message("", "k", b"red", {"tag": "red"}, b"body", NOW_MS, protocol=TAGGED)
    record = through_a_log(CODECS.of(tagged).to_record(tagged))
    amqp = CODECS.reader(AMQP)(record)
    assert decode_properties(amqp.properties).headers == {"tag": "red"}
    assert (amqp.key, amqp.body, amqp.origin.protocol) == ("k", b"body", AMQP)
    said = Properties(headers={"tag": "blue"})
    sent = message_of("x", "k", encode_properties(said), said, b"", received_ms=NOW_MS)
    assert CODECS.convert(sent, TAGGED).properties == b"blue"


def test_ttl_priority_and_durability_are_kept() -> None:
    message = Message("", "k", b"", {}, b"", NOW_MS, None, 50, 7, is_persistent=True)
    said = decode_properties(CODECS.convert(message, AMQP).properties)
    assert (said.expiration, said.priority, said.delivery_mode) == ("50", 7, 2)


def test_a_codec_that_reads_records_of_others_is_found() -> None:
    class Greedy(TaggedCodec):
        def from_record(self, record: Record) -> Message | None:
            return self.convert(KafkaCodec().message_of(record))

    codecs = Codecs([Greedy(), AmqpCodec()])
    said = Properties(message_id="1")
    sent = message_of("x", "k", encode_properties(said), said, b"", received_ms=NOW_MS)
    record = through_a_log(AmqpCodec().to_record(sent))
    assert codecs.read(record) != sent
