"""Reads check batches with a few fields of each header, for speed; by the same rule as everybody else."""

import hypothesis.strategies as st
from hypothesis import given

from millpond.log.chain import (
    BrokenChain,
    ChainRule,
    Misplaced,
    SteppedBack,
    WrongChecksum,
    find_bad_batch,
    header_at,
)
from millpond.record.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    MAGIC,
    BatchHeader,
    assign_offset,
)
from tests.support.storage.log_kit import batch

OFFSETS = st.integers(0, 12)
BOUNDS = st.one_of(st.just(2**63 - 1), st.integers(0, 25))
# How many records, and how many offsets are missing before them; fewer than none is a step back.
LINKS = st.lists(st.tuples(st.integers(1, 3), st.integers(-4, 4)), min_size=1, max_size=5)


def chain(first: int, links: list[tuple[int, int]]) -> bytearray:
    """Batches, each with the offset that is said, whether it can be or not."""
    data = bytearray()
    offset = first
    for records, missing in links:
        one = batch(*(b"v%d" % n for n in range(records)))
        offset += missing if data else 0
        assign_offset(one, 0, offset, 0)
        data += one
        offset += records
    return data


def walk(data: bytes, rule: ChainRule) -> BrokenChain | None:
    """What the rule says about one batch after the other; it is not asked what comes before the first."""
    position, expected = 0, None
    while len(data) - position >= HEADER_BYTES:
        try:
            header = header_at(data, position, position)
        except BrokenChain as broken:
            size = read_size(data, position)
            return broken if size is None or position + size <= len(data) else None
        end = position + header.size
        if end > len(data):
            return None
        try:
            place = header.base_offset if expected is None else expected
            rule.check(position, header, data[position:end], place)
        except BrokenChain as broken:
            return broken
        position, expected = end, header.next_offset
    return None


def read_size(data: bytes, position: int) -> int | None:
    """Of what has a batch's length and format. Of one that is cut off, nothing else is looked at."""
    fields = BatchHeader(*HEADER.unpack_from(data, position))
    return fields.size if fields.length >= LENGTH_MIN and fields.magic == MAGIC else None


@given(
    first=OFFSETS,
    links=LINKS,
    bound=BOUNDS,
    gaps_below=BOUNDS,
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=2),
    cut=st.integers(0, 100),
)
def test_a_read_finds_what_the_rule_forbids(
    first: int,
    links: list[tuple[int, int]],
    bound: int,
    gaps_below: int,
    flips: list[tuple[int, int]],
    cut: int,
) -> None:
    data = chain(first, links)
    for position, mask in flips:
        data[position % len(data)] ^= mask
    read = bytes(data[: max(1, len(data) - cut)])

    found = find_bad_batch(read, bound, gaps_below)
    said = walk(read, ChainRule(bound, gaps_below))

    assert (found is None) == (said is None), f"{found} but {said}"
    if said is None:
        return
    if isinstance(found, SteppedBack):
        assert isinstance(said, Misplaced) or "cannot be a batch's" in said.reason
        assert found.position <= found.wrong
        # Of batches that follow each other out of the segment, it may be one of the later ones.
        assert said.position <= found.wrong
    else:
        assert found is not None
        assert isinstance(said, WrongChecksum) or type(said) is BrokenChain
        assert found.position == said.position
