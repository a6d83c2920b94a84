"""The records of ``__timers``: what is written is what is read, and these are its bytes."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MalformedData
from millpond.timer.facts import (
    Fact,
    Intent,
    IntentDone,
    Scheduled,
    Target,
    TargetForgotten,
    TimerEnded,
    TimerScheduled,
    decode,
    encode,
)

TARGET = Target(UUID("00112233-4455-6677-8899-aabbccddeeff"), 7)

offsets = st.integers(0, 2**62)
targets = st.builds(Target, st.uuids(), st.integers(0, 2**31 - 1))
facts: st.SearchStrategy[Fact] = st.one_of(
    st.builds(TimerScheduled, targets, offsets, st.binary()),
    st.builds(TimerEnded, targets, offsets),
    st.builds(Scheduled, targets, offsets),
    st.builds(TargetForgotten, targets),
    st.builds(Intent, targets, offsets, st.integers(0, 2**31 - 1), st.lists(offsets).map(tuple)),
    st.builds(IntentDone, targets),
)


@given(facts)
def test_a_fact_is_read_as_it_was_written(fact: Fact) -> None:
    assert decode(*encode(fact)) == fact


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=60)))
def test_bytes_that_are_no_fact_are_malformed(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except MalformedData:
        return


def test_these_are_the_bytes_of_the_first_version() -> None:
    key, value = encode(Intent(TARGET, 5, 9, (1, 258)))
    assert key.hex() == "0002" + TARGET.topic_id.hex + "00000007"
    assert value is not None
    assert value.hex() == "00" + "0000000000000005" + "00000009" + f"{1:016x}{258:016x}"
    key, value = encode(TimerEnded(TARGET, 3))
    assert key.hex() == "0000" + TARGET.topic_id.hex + "00000007" + f"{3:016x}"
    assert value is None
    assert encode(Scheduled(TARGET, 4))[1] == bytes.fromhex("00" + f"{4:016x}")


@pytest.mark.parametrize("version", [1, 255])
def test_a_later_version_is_refused(version: int) -> None:
    key, value = encode(Scheduled(TARGET, 4))
    assert value is not None
    with pytest.raises(MalformedData, match=f"version {version}"):
        decode(bytes((version,)) + key[1:], value)
    with pytest.raises(MalformedData, match=f"version {version}"):
        decode(key, bytes((version,)) + value[1:])
