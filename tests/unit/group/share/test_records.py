"""Share groups' facts in Kafka's bytes."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData
from millpond.group.share.records import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    ShareForgotten,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
    StateBatch,
    decode,
    encode,
)

KEY = ShareKey("pool", UUID("01234567-89ab-cdef-0123-456789abcdef"), 3)
BATCHES = (
    StateBatch(5, 9, AVAILABLE, 2),
    StateBatch(10, 10, ACKNOWLEDGED, 0),
    StateBatch(11, 40, ARCHIVED, 0),
)
FACTS: list[ShareRecord] = [
    ShareSnapshot(
        key=KEY,
        snapshot_epoch=7,
        state_epoch=1,
        leader_epoch=2,
        start=5,
        created_ms=100,
        written_ms=200,
        batches=BATCHES,
    ),
    ShareUpdate(key=KEY, snapshot_epoch=7, leader_epoch=2, start=-1, batches=BATCHES),
    ShareForgotten(key=KEY),
]


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_comes_back(fact: ShareRecord) -> None:
    assert decode(*encode(fact)) == fact


def test_the_bytes_are_kafkas() -> None:
    key, value = encode(
        ShareUpdate(key=KEY, snapshot_epoch=1, start=8, batches=(StateBatch(8, 9, 2, 1),))
    )
    name = "0004" + b"pool".hex()
    assert key.hex() == "0001" + name + KEY.topic_id.hex + "00000003"
    assert value is not None
    head = "0000" + "00000001" + "00000000" + "0000000000000008"
    batch = "0000000000000008" + "0000000000000009" + "02" + "0001" + "00"
    assert value.hex() == head + "02" + batch + "00"


@pytest.mark.parametrize("fact", FACTS[:2])
def test_half_a_fact_is_refused(fact: ShareRecord) -> None:
    key, value = encode(fact)
    assert value is not None
    for cut in range(len(value) - 1):
        with pytest.raises(MalformedData):
            decode(key, value[:cut])
    for cut in range(len(key)):
        with pytest.raises(MalformedData):
            decode(key[:cut], value)


@given(key=st.binary(max_size=40), value=st.none() | st.binary(max_size=80))
def test_noise_is_refused_or_a_fact(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except MalformedData:
        return
