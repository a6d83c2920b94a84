"""The facts of streams groups, byte for byte as Kafka 4.3 writes them, and read back whatever they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData
from millpond.group.kinds import decode, encode
from millpond.group.records import ForeignRecord
from millpond.group.streams.records import (
    HeldTasks,
    StreamsCurrentStored,
    StreamsForgotten,
    StreamsGroupStored,
    StreamsKind,
    StreamsMemberStored,
    StreamsRecord,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    TaskSet,
    TaskState,
    TopologyStored,
)
from millpond.group.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology

FACTS: list[tuple[StreamsRecord, str, str | None]] = [
    (
        StreamsGroupStored(
            group_id="g",
            epoch=3,
            metadata_hash=-2,
            validated_epoch=0,
            assignment_configs=(("k", "1"),),
        ),
        "0011 0001 67",
        "0000 00000003 fffffffffffffffe 02 00 04 00000000 01 06 02 02 6b 02 31 00",
    ),
    (
        StreamsGroupStored(group_id="g", epoch=3),
        "0011 0001 67",
        "0000 00000003 0000000000000000 00",
    ),
    (
        StreamsMemberStored(group_id="g", member_id="m", client_id="c", process_id="p"),
        "0013 0001 67 0001 6d",
        "0000 00 00 02 63 01 ffffffff ffffffff 02 70 ff 01 00",
    ),
    (
        StreamsMemberStored(
            group_id="g",
            member_id="m",
            rack_id="r",
            rebalance_timeout_ms=1,
            topology_epoch=0,
            endpoint=("h", 65535),
            client_tags=(("a", "b"),),
        ),
        "0013 0001 67 0001 6d",
        "0000 00 02 72 01 01 00000001 00000000 01 01 02 68 ffff 00 02 02 61 02 62 00 00",
    ),
    (
        StreamsTargetEpochStored(group_id="g", epoch=3, made_at_ms=5),
        "0014 0001 67",
        "0000 00000003 01 00 08 0000000000000005",
    ),
    (
        StreamsTargetStored(
            group_id="g",
            member_id="m",
            tasks=TaskSet({"0": frozenset({1, 0})}, {"1": frozenset({2})}),
        ),
        "0015 0001 67 0001 6d",
        "0000 02 02 30 03 00000000 00000001 00 02 02 31 02 00000002 00 01 00",
    ),
    (
        StreamsCurrentStored(
            group_id="g",
            member_id="m",
            epoch=3,
            previous_epoch=2,
            state=TaskState.UNREVOKED,
            assigned=HeldTasks({"0": {1: 3}}),
            revoking=HeldTasks({}, {"0": frozenset({2})}),
        ),
        "0016 0001 67 0001 6d",
        (
            "0000 00000003 00000002 02 02 02 30 02 00000001 01 00 05 02 00000003 01 01"
            "01 02 02 30 02 00000002 00 01 00"
        ),
    ),
    (
        TopologyStored(
            group_id="g",
            topology=Topology.of(
                1,
                [
                    Subtopology(
                        subtopology_id="0",
                        sources=("s",),
                        changelogs=(InternalTopic(name="c", configs=(("k", "v"),)),),
                        repartition_sinks=("t",),
                        repartition_sources=(
                            InternalTopic(name="r", partitions=2, replication_factor=1),
                        ),
                        copartition_groups=(
                            CopartitionGroup(sources=(0,), repartition_sources=(0,)),
                        ),
                    )
                ],
            ),
        ),
        "0017 0001 67",
        (
            "0000 00000001 02 02 30 02 02 73 01 02 02 63 00000000 0000 02 02 6b 02 76 00 00"
            "02 02 74 02 02 72 00000002 0001 01 00 02 02 0000 01 02 0000 00 00 00"
        ),
    ),
    (StreamsForgotten(group_id="g", kind=StreamsKind.TOPOLOGY), "0017 0001 67", None),
    (
        StreamsForgotten(group_id="g", kind=StreamsKind.CURRENT, name="m"),
        "0016 0001 67 0001 6d",
        None,
    ),
]


@pytest.mark.parametrize(("fact", "key", "value"), FACTS)
def test_facts_are_these_bytes(fact: StreamsRecord, key: str, value: str | None) -> None:
    stored = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert encode(fact) == stored
    assert decode(*stored) == fact


def test_what_older_and_later_brokers_wrote_is_read() -> None:
    # Without the epochs at which tasks were assigned: the member's own. And a state that we do not know.
    old = bytes.fromhex("0000 00000003 00000002 63 02 02 30 02 00000001 00 01 01 01 01 01 00")
    current = decode(bytes.fromhex("0016 0001 67 0001 6d"), old)
    assert isinstance(current, StreamsCurrentStored)
    assert current.assigned.active == {"0": {1: 3}}
    assert current.state is TaskState.UNKNOWN


@given(
    kind=st.sampled_from(StreamsKind),
    key=st.binary(max_size=12),
    value=st.none() | st.binary(max_size=60).map(lambda tail: b"\x00\x00" + tail),
)
def test_damage_is_malformed_and_nothing_else(
    kind: StreamsKind, key: bytes, value: bytes | None
) -> None:
    try:
        fact = decode(kind.to_bytes(2, "big") + key, value)
    except MalformedData:
        return
    assert not isinstance(fact, ForeignRecord)
