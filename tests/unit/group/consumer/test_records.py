"""The facts of consumer groups, byte for byte as Kafka 4.3 writes them, and read back whatever they are."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData
from millpond.group.consumer.records import (
    ClassicMemberInfo,
    ConsumerGroupStored,
    ConsumerRecord,
    CurrentStored,
    FactForgotten,
    FactKind,
    MemberState,
    MemberStored,
    PartitionsStored,
    PatternStored,
    TargetEpochStored,
    TargetStored,
)
from millpond.group.kinds import decode, encode
from millpond.group.records import ForeignRecord

TOPIC = UUID(int=0x0102030405060708090A0B0C0D0E0F10)

FACTS: list[tuple[ConsumerRecord, str, str | None]] = [
    (
        ConsumerGroupStored(group_id="g", epoch=3, metadata_hash=-2),
        "0003 0001 67",
        "0000 00000003 01 00 08 fffffffffffffffe",
    ),
    (ConsumerGroupStored(group_id="g", epoch=3), "0003 0001 67", "0000 00000003 00"),
    (
        TargetEpochStored(group_id="g", epoch=3, made_at_ms=5),
        "0006 0001 67",
        "0000 00000003 01 00 08 0000000000000005",
    ),
    (
        TargetStored(group_id="g", member_id="m", partitions={TOPIC: frozenset({2, 0})}),
        "0007 0001 67 0001 6d",
        f"0000 02 {TOPIC.hex} 03 00000000 00000002 00 00",
    ),
    (
        CurrentStored(
            group_id="g",
            member_id="m",
            epoch=3,
            previous_epoch=2,
            state=MemberState.UNREVOKED,
            assigned={TOPIC: {1: 3}},
        ),
        "0008 0001 67 0001 6d",
        f"0000 00000003 00000002 01 02 {TOPIC.hex} 02 00000001 01 00 05 02 00000003 01 00",
    ),
    (
        MemberStored(group_id="g", member_id="m", topics=frozenset({"t"}), pattern=""),
        "0005 0001 67 0001 6d",
        "0000 00 00 01 01 02 02 74 01 ffffffff 00 01 00 01 00",
    ),
    (
        MemberStored(
            group_id="g",
            member_id="m",
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="h",
            pattern=None,
            rebalance_timeout_ms=1,
            assignor="range",
            classic=ClassicMemberInfo(session_timeout_ms=2, protocols=(("p", b"!"),)),
        ),
        "0005 0001 67 0001 6d",
        "0000 02 69 02 72 02 63 02 68 01 00 00000001 06 72616e6765 01 00 0c 01 00000002 02 02 70 02 21 00 00",
    ),
    (
        PatternStored(
            group_id="g", pattern="a.*", topics=frozenset({"ab"}), version=1, resolved_at_ms=2
        ),
        "0010 0001 67 0003 612e2a",
        "0000 02 03 6162 0000000000000001 0000000000000002 00",
    ),
    (FactForgotten(group_id="g", kind=FactKind.PARTITIONS), "0004 0001 67", None),
    (FactForgotten(group_id="g", kind=FactKind.CURRENT, name="m"), "0008 0001 67 0001 6d", None),
]


@pytest.mark.parametrize(("fact", "key", "value"), FACTS)
def test_facts_are_these_bytes(fact: ConsumerRecord, key: str, value: str | None) -> None:
    stored = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert encode(fact) == stored
    assert decode(*stored) == fact


def test_what_older_brokers_wrote_is_read() -> None:
    partitions = decode(bytes.fromhex("0004 0001 67"), bytes.fromhex("0000 01 00"))
    assert partitions == PartitionsStored(group_id="g")
    # Without the epochs at which partitions were assigned: the member's own.
    old = bytes.fromhex(f"0000 00000003 00000002 63 02 {TOPIC.hex} 02 00000001 00 01 00")
    current = decode(bytes.fromhex("0008 0001 67 0001 6d"), old)
    assert isinstance(current, CurrentStored)
    assert current.assigned == {TOPIC: {1: 3}}
    assert current.state is MemberState.UNKNOWN


@given(
    kind=st.sampled_from(FactKind),
    key=st.binary(max_size=12),
    value=st.none() | st.binary(max_size=60).map(lambda tail: b"\x00\x00" + tail),
)
def test_damage_is_malformed_and_nothing_else(
    kind: FactKind, key: bytes, value: bytes | None
) -> None:
    try:
        fact = decode(kind.to_bytes(2, "big") + key, value)
    except MalformedData:
        return
    assert not isinstance(fact, ForeignRecord)
