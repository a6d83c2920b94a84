"""Batches whose records cannot be read stop a query with their offsets, or are reported and passed over."""

import json
from pathlib import Path
from struct import unpack_from

import pytest

from millpond.record.builder import build_batch
from millpond.record.compression import Compression
from millpond.spark.decoding import readable_columns
from millpond.spark.errors import DataLost
from millpond.spark.loss import LossPolicy
from millpond.spark.pieces import Fetched
from millpond.spark.plan import Range
from tests.support.storage.poison import BROKEN_COMPRESSION, POISON, poisoned, sealed

NONSENSE = {
    "garbage": poisoned(POISON["garbage"]()),
    "garbage, compressed": poisoned(POISON["garbage"](), Compression.LZ4),
    "no compressed data": sealed(3, BROKEN_COMPRESSION[Compression.ZSTD], Compression.ZSTD),
}


def fetched(nonsense: bytes) -> Fetched:
    """Two records, three offsets of nonsense, two records."""
    data = bytearray()
    for offset, batch in ((0, None), (2, nonsense), (5, None)):
        piece = bytearray(batch or build_batch([(1_000, None, b"x", ())] * 2))
        piece[0:8] = offset.to_bytes(8, "big")
        data += piece
    return Fetched(data=memoryview(data), aborted=(), next_offset=7)


def offsets(piece: Fetched, lose: LossPolicy, first: int = 0, end: int = 7) -> list[int]:
    wanted = Range(topic="t", partition=1, first=first, end=end)
    found: list[int] = []
    for columns in readable_columns(wanted, piece, lose, headers=False, check_crcs=True):
        found += unpack_from(f"{columns.count}q", columns.offsets)
    return found


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_query_stops_and_says_where(nonsense: str) -> None:
    with pytest.raises(DataLost, match="t-1, offsets 2 to 4"):
        offsets(fetched(NONSENSE[nonsense]), LossPolicy(fail=True))


@pytest.mark.parametrize("nonsense", NONSENSE)
@pytest.mark.parametrize(("first", "end"), [(0, 7), (1, 6), (2, 7), (3, 7)])
def test_a_query_that_may_go_on_reads_the_rest(
    nonsense: str, first: int, end: int, tmp_path: Path
) -> None:
    report = tmp_path / "lost"
    lose = LossPolicy(fail=False, report=str(report))
    found = offsets(fetched(NONSENSE[nonsense]), lose, first, end)
    assert found == [one for one in (0, 1, 5, 6) if first <= one < end]
    (entry,) = map(json.loads, report.read_text().splitlines())
    assert (entry["firstOffset"], entry["endOffset"]) == (max(2, first), 5)
    assert entry["reason"] == "unreadable"
