"""What is written is read again, by us and by the codecs of pika and pamqp."""

import contextlib
from decimal import Decimal

import pamqp.commands
import pamqp.decode
import pamqp.encode
import pamqp.frame
import pamqp.header
import pika.data
import pika.frame
import pika.spec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData
from millpond.base.fields import (
    Byte,
    Float,
    Long,
    ScaledNumber,
    Short,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    decode_table,
    encode_table,
    type_name,
)
from millpond.wire.amqp.content import content_frames, method_frame
from millpond.wire.amqp.methods import METHODS, Method
from millpond.wire.amqp.properties import (
    KINDS,
    Properties,
    decode_properties,
    encode_properties,
)
from tests.property.wire.amqp import made


@given(made.tables)
def test_a_table_comes_back_with_the_types_it_had(table: Table) -> None:
    encoded = encode_table(table)
    decoded = decode_table(encoded)
    assert decoded == table
    assert encode_table(decoded) == encoded


@given(made.methods())
def test_a_method_comes_back(method: Method) -> None:
    encoded = method.encode()
    number = int.from_bytes(encoded[:2], "big"), int.from_bytes(encoded[2:4], "big")
    assert METHODS[number].decode(encoded, 4) == method


@given(made.properties)
def test_properties_come_back(properties: Properties) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@given(made.decimals)
def test_decimals_come_back(number: Decimal) -> None:
    decoded = decode_table(encode_table({"d": number}))["d"]
    assert isinstance(decoded, ScaledNumber)
    assert decoded.value == number


@given(st.binary(max_size=60))
def test_garbage_is_malformed_and_nothing_else(data: bytes) -> None:
    for read in (decode_table, decode_properties):
        with contextlib.suppress(MalformedData):
            read(data)


def test_each_type_has_rabbitmqs_letter() -> None:
    letters = {
        "t": True, "b": Byte(1), "B": UnsignedByte(1), "s": Short(1), "u": UnsignedShort(1), "I": 1,
        "i": UnsignedInt(1), "l": Long(1), "f": Float(1), "d": 1.0, "D": Decimal("1.5"), "S": "x",
        "x": b"x", "A": [1], "T": Timestamp(1), "F": {"x": 1}, "V": None,
    }  # fmt: skip
    for letter, value in letters.items():
        assert encode_table({"n": value})[2:3] == letter.encode()
    assert encode_table({"n": 2**40})[2:3] == b"l"
    assert decode_table(b"\x01nL" + (5).to_bytes(8, "big")) == {"n": 5}
    assert type_name(2**40) == "long"
    assert type_name(7) == "signedint"


def test_a_table_that_nests_without_end_is_refused() -> None:
    table: Table = {}
    for _level in range(70):
        table = {"t": table}
    with pytest.raises(Exception, match="deep"):
        encode_table(table)
    data = b""
    for _level in range(70):
        data = b"\x01tF" + len(data).to_bytes(4, "big") + data
    with pytest.raises(MalformedData, match="deep"):
        decode_table(data)


# --- the codecs of the clients ------------------------------------------------------------------------


@given(made.common_tables)
def test_pika_and_pamqp_read_our_tables_and_we_theirs(table: Table) -> None:
    ours = encode_table(table)
    framed = len(ours).to_bytes(4, "big") + ours
    assert pika.data.decode_table(framed, 0)[0] == table
    assert pamqp.decode.field_table(framed)[1] == table
    pieces: list[bytes] = []
    pika.data.encode_table(pieces, table)
    assert decode_table(b"".join(pieces)[4:]) == table
    assert decode_table(pamqp.encode.field_table(table)[4:]) == table


_PIKA = {
    getattr(cls, "INDEX"): cls  # noqa: B009 - pika is not typed
    for group in vars(pika.spec).values()
    if isinstance(group, type)
    for cls in vars(group).values()
    if isinstance(cls, type) and issubclass(cls, pika.spec.amqp_object.Method)
}
# pika cannot read what only clients send: it makes the method without the arguments that it asks for.
_UNREADABLE = {"connection.update_secret"}
_SHARED = [
    kind
    for number, kind in METHODS.items()
    if number[0] << 16 | number[1] in _PIKA and kind.name not in _UNREADABLE
]


def test_pika_knows_all_methods() -> None:
    assert {kind.name for kind in METHODS.values()} - {kind.name for kind in _SHARED} == _UNREADABLE


@given(made.methods(*_SHARED))
def test_pika_reads_and_writes_the_same_methods(method: Method) -> None:
    try:
        taken = pika.frame.decode_frame(method_frame(3, method))[1]
    except (UnicodeDecodeError, pika.exceptions.UnsupportedAMQPFieldException):
        return  # a table with a type that pika does not know
    except (OSError, OverflowError, ValueError):
        assert any(kind == "table" for _name, kind in method.fields)
        return  # a table with a time that Python has no date for
    theirs = taken.method
    assert _PIKA[theirs.INDEX] is type(theirs)
    if any(kind == "table" for _name, kind in method.fields):
        return  # pika writes other letters for some numbers; tables are compared above
    assert pika.frame.Method(3, theirs).marshal() == method_frame(3, method)


_PLAIN_PROPERTIES = st.builds(
    Properties,
    **{
        name: st.none()
        | (
            made.common_tables
            if kind == "table"
            else st.integers(0, 255)
            if kind == "octet"
            else st.integers(0, 2**31)
            if kind == "timestamp"
            else st.text(max_size=30)
        )
        for name, kind in KINDS
    },
)


@given(_PLAIN_PROPERTIES, st.binary(min_size=1, max_size=40))
def test_pika_reads_our_contents(properties: Properties, body: bytes) -> None:
    data = content_frames(1, encode_properties(properties), body, 131_072)
    used, header = pika.frame.decode_frame(data)
    assert header.body_size == len(body)
    for name, _kind in KINDS:
        assert getattr(header.properties, name) == getattr(properties, name)
    assert pika.frame.decode_frame(data[used:])[1].fragment == body
