"""Strategies for what AMQP carries."""

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from millpond.base.fields import (
    Byte,
    Float,
    Long,
    LongString,
    Short,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from millpond.wire.amqp.methods import METHODS, Method
from millpond.wire.amqp.properties import KINDS, Properties

names = st.text(max_size=12)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.none(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-128, 127).map(Byte),
    st.integers(0, 255).map(UnsignedByte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(0, 2**16 - 1).map(UnsignedShort),
    st.integers(0, 2**32 - 1).map(UnsignedInt),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(Float),
    st.just(LongString(b"\xff\xfe")),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
tables = st.dictionaries(names, values, max_size=4)

# What every client agrees on, letters and all (pika cannot write floats and reads them as whole numbers).
common_values = st.recursive(
    st.one_of(
        st.booleans(),
        st.none(),
        st.text(max_size=20),
        st.integers(-(2**31), 2**31 - 1),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
common_tables = st.dictionaries(names, common_values, max_size=4)

_ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 255),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "timestamp": st.integers(0, 2**64 - 1),
    "shortstr": st.text(max_size=30),
    "longstr": st.binary(max_size=50),
    "table": tables,
}


def methods(*kinds: type[Method]) -> st.SearchStrategy[Method]:
    """Any of these methods, or of all, with any arguments."""
    return st.one_of(
        [
            st.builds(kind, **{name: _ARGUMENTS[field] for name, field in kind.fields})
            for kind in kinds or METHODS.values()
        ]
    )


properties = st.builds(Properties, **{name: st.none() | _ARGUMENTS[kind] for name, kind in KINDS})
decimals = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places),
    st.integers(0, 2**32 - 1),
    st.integers(0, 20),
)
