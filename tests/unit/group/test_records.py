"""The records of ``__consumer_offsets``, byte for byte.

The golden bytes were written by Apache Kafka 4.3.1's own record classes.
"""

from dataclasses import replace
from uuid import UUID

import pytest

from millpond.base.errors import InvalidRequest, MalformedData
from millpond.group.classic.records import GroupForgotten, GroupStored, StoredMember
from millpond.group.kinds import decode, encode
from millpond.group.records import (
    NO_TOPIC_ID,
    CommittedOffset,
    ForeignRecord,
    OffsetCommitted,
    OffsetForgotten,
)

OFFSET_KEY = bytes.fromhex("000100077265616465727300066f726465727300000003")
GROUP_KEY = bytes.fromhex("0002000772656164657273")
TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

COMMITTED = CommittedOffset(
    offset=42,
    leader_epoch=7,
    metadata="note é",
    committed_at_ms=1_700_000_000_000,
    topic_id=TOPIC_ID,
)
WITHOUT_ID = replace(COMMITTED, topic_id=NO_TOPIC_ID)
WITHOUT_EPOCH = replace(WITHOUT_ID, leader_epoch=-1)
WITH_EXPIRY = replace(WITHOUT_EPOCH, expires_at_ms=1_700_000_060_000)

OFFSET_VALUES = {
    "0000000000000000002a00076e6f746520c3a90000018bcfe56800": WITHOUT_EPOCH,
    "0001000000000000002a00076e6f746520c3a90000018bcfe568000000018bcfe65260": WITH_EXPIRY,
    "0002000000000000002a00076e6f746520c3a90000018bcfe56800": WITHOUT_EPOCH,
    "0003000000000000002a0000000700076e6f746520c3a90000018bcfe56800": WITHOUT_ID,
    "0004000000000000002a00000007086e6f746520c3a90000018bcfe5680000": WITHOUT_ID,
    "0004000000000000002a00000007086e6f746520c3a90000018bcfe56800"
    "0100100102030405060708090a0b0c0d0e0f10": COMMITTED,
}

FIRST = StoredMember(
    member_id="m-1",
    instance_id="one",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=60_000,
    session_timeout_ms=10_000,
    subscription=b"\x01\x02",
    assignment=b"\x03",
)
SECOND = replace(FIRST, member_id="m-2", instance_id=None, subscription=b"", assignment=b"")
GROUP = GroupStored(
    group_id="readers",
    protocol_type="consumer",
    generation=5,
    protocol="range",
    leader="m-1",
    state_since_ms=1_700_000_000_000,
    members=(FIRST, SECOND),
)
VERSION_2 = replace(GROUP, members=(replace(FIRST, instance_id=None), SECOND))
VERSION_1 = replace(VERSION_2, state_since_ms=-1)
VERSION_0 = replace(
    VERSION_1,
    members=tuple(replace(member, rebalance_timeout_ms=10_000) for member in VERSION_1.members),
)
EMPTY = GroupStored(
    group_id="readers",
    protocol_type="",
    generation=0,
    protocol=None,
    leader=None,
    state_since_ms=1_700_000_000_000,
)

GROUP_VALUES = {
    "00000008636f6e73756d657200000005000572616e676500036d2d310000000200036d2d31000163000a2f3132372e"
    "302e302e3100002710000000020102000000010300036d2d32000163000a2f3132372e302e302e3100002710000000"
    "0000000000": VERSION_0,
    "00010008636f6e73756d657200000005000572616e676500036d2d310000000200036d2d31000163000a2f3132372e"
    "302e302e310000ea6000002710000000020102000000010300036d2d32000163000a2f3132372e302e302e310000ea"
    "60000027100000000000000000": VERSION_1,
    "00020008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000200036d2d310001"
    "63000a2f3132372e302e302e310000ea6000002710000000020102000000010300036d2d32000163000a2f3132372e"
    "302e302e310000ea60000027100000000000000000": VERSION_2,
    "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000200036d2d310003"
    "6f6e65000163000a2f3132372e302e302e310000ea6000002710000000020102000000010300036d2d32ffff000163"
    "000a2f3132372e302e302e310000ea60000027100000000000000000": GROUP,
    "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680003046d2d31046f6e6502630b2f31"
    "32372e302e302e310000ea6000002710030102020300046d2d320002630b2f3132372e302e302e310000ea60000027"
    "1001010000": GROUP,
    "0003000000000000ffffffff0000018bcfe5680000000000": EMPTY,
}


@pytest.mark.parametrize(
    "golden", OFFSET_VALUES, ids=lambda golden: f"version {int(golden[:4], 16)}"
)
def test_reads_every_version_of_an_offset(golden: str) -> None:
    record = decode(OFFSET_KEY, bytes.fromhex(golden))
    assert record == OffsetCommitted(
        group_id="readers", topic="orders", partition=3, value=OFFSET_VALUES[golden]
    )


@pytest.mark.parametrize(
    "golden", GROUP_VALUES, ids=lambda golden: f"version {int(golden[:4], 16)}"
)
def test_reads_every_version_of_a_group(golden: str) -> None:
    assert decode(GROUP_KEY, bytes.fromhex(golden)) == GROUP_VALUES[golden]


@pytest.mark.parametrize("value", [COMMITTED, WITHOUT_ID, WITH_EXPIRY])
def test_writes_offsets_as_kafka_does(value: CommittedOffset) -> None:
    key, encoded = encode(
        OffsetCommitted(group_id="readers", topic="orders", partition=3, value=value)
    )
    assert key == OFFSET_KEY
    assert encoded is not None
    version = 1 if value.expires_at_ms is not None else 4
    assert encoded[:2] == bytes((0, version))
    assert OFFSET_VALUES[encoded.hex()] == value


@pytest.mark.parametrize("record", [GROUP, EMPTY])
def test_writes_groups_as_kafka_does(record: GroupStored) -> None:
    key, encoded = encode(record)
    assert key == GROUP_KEY
    assert encoded is not None
    assert encoded[:2] == b"\x00\x03"
    assert GROUP_VALUES[encoded.hex()] == record


def test_a_tombstone_is_a_key_without_a_value() -> None:
    gone = OffsetForgotten(group_id="readers", topic="orders", partition=3)
    assert encode(gone) == (OFFSET_KEY, None)
    assert decode(OFFSET_KEY, None) == gone
    assert encode(GroupForgotten(group_id="readers")) == (GROUP_KEY, None)
    assert decode(GROUP_KEY, None) == GroupForgotten(group_id="readers")


def test_records_of_other_kinds_of_groups_are_named_and_left_alone() -> None:
    key = b"\x00\x0b\x00\x07readers"
    assert decode(key, b"anything") == ForeignRecord(key_version=11)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", None),
        (OFFSET_KEY[:-1], None),
        (GROUP_KEY[:-1], None),
        (b"\x00\x02\x00\x02\xff\xfe", None),
        (OFFSET_KEY, b"\x00\x05" + bytes(40)),
        (OFFSET_KEY, b"\xff\xff" + bytes(40)),
        (OFFSET_KEY, b"\x00\x03\x00"),
        (GROUP_KEY, b"\x00\x03" + bytes(10)),
        (GROUP_KEY, bytes.fromhex("0003000000000000ffffffff0000018bcfe568007fffffff")),
    ],
)
def test_damage_is_named(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedData):
        decode(key, value)


def test_a_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        encode(GroupForgotten(group_id="x" * 40_000))
