"""A message that becomes a record and comes back is the same message; any record is a message."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from millpond.frontend.amqp.codec import AMQP, RESERVED, AmqpCodec, message_of
from millpond.message.codecs import Codecs
from millpond.record.builder import build_batch
from millpond.record.records import Record, decode_batch
from millpond.wire.amqp.content import DeliveryWriter
from millpond.wire.amqp.properties import Properties, decode_properties, encode_properties
from tests.property.wire.amqp.made import properties, tables

READ = Codecs([AmqpCodec()]).reader(AMQP)
NOW_MS = 1_700_000_000_123

short = st.text(max_size=60)
header_names = st.text(max_size=20) | st.sampled_from(
    [f"{RESERVED}properties", f"{RESERVED}exchange", f"{RESERVED}received"]
)


def _through_a_log(record: tuple[object, ...]) -> Record:
    (found,) = decode_batch(build_batch([record]))  # type: ignore[list-item]
    return found


@given(exchange=short, key=short, said=properties, body=st.binary(max_size=60))
def test_amqp_gets_back_what_amqp_gave(
    exchange: str, key: str, said: Properties, body: bytes
) -> None:
    block = encode_properties(said)
    message = message_of(exchange, key, block, said, body, received_ms=NOW_MS)
    codec = AmqpCodec()
    assert codec.from_record(_through_a_log(codec.to_record(message))) == message


@given(
    places=st.lists(
        st.tuples(st.sampled_from("xy"), st.sampled_from("ab")), min_size=1, max_size=6
    ),
    said=st.lists(properties, min_size=1, max_size=3),
    choice=st.randoms(use_true_random=False),
)
def test_records_of_messages_that_came_together_are_what_they_are_alone(
    places: list[tuple[str, str]], said: list[Properties], choice: Random
) -> None:
    messages = []
    for number, (exchange, key) in enumerate(places):
        one = choice.choice(said)
        block, body = encode_properties(one), b"%d" % number
        messages.append(message_of(exchange, key, block, one, body, received_ms=NOW_MS + number))
    codec = AmqpCodec()
    together = decode_batch(build_batch(codec.to_records(messages)))
    assert [codec.from_record(record) for record in together] == messages
    alone = [codec.to_record(message) for message in messages]
    assert build_batch(codec.to_records(messages)) == build_batch(alone)


@given(headers=tables, time_s=st.none() | st.integers(0, 2**40))
def test_kafka_reads_headers_key_body_and_time(
    headers: dict[str, object], time_s: int | None
) -> None:
    said = Properties(headers=headers, timestamp=time_s)  # type: ignore[arg-type]
    block = encode_properties(said)
    message = message_of("x", "key", block, said, b"body", received_ms=NOW_MS)
    record = _through_a_log(AmqpCodec().to_record(message))
    assert (record.key, record.value) == (b"key", b"body")
    assert record.timestamp == (NOW_MS if time_s is None else time_s * 1000)
    readable = [name for name, _value in record.headers if not name.startswith(RESERVED)]
    assert readable == [name for name in headers if not name.startswith(RESERVED)]
    for name, value in record.headers:
        if isinstance(headers.get(name), str):
            assert value == str(headers[name]).encode("utf-8", "surrogateescape")


@given(
    key=st.none() | st.binary(max_size=300),
    value=st.none() | st.binary(max_size=60),
    headers=st.lists(st.tuples(header_names, st.none() | st.binary(max_size=300)), max_size=4),
    time_ms=st.integers(-1, 2**62),
)
def test_any_record_can_be_delivered(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    time_ms: int,
) -> None:
    message = READ(Record(0, time_ms, key, value, tuple(headers)))
    assert message.body == (value or b"")
    decode_properties(message.properties)
    DeliveryWriter(1, "tag", 4096).write(
        1, message.address, message.key, message.properties, message.body
    )
