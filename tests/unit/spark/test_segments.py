"""Segment files read without a broker: the same records, whole transactions, and nothing written."""

from pathlib import Path

import pytest

from millpond.base.errors import CorruptLog
from millpond.base.ids import TopicPartition
from millpond.log import FileStorage, LogConfig, PartitionLog
from millpond.spark.errors import DataLost, WrongOption
from millpond.spark.loss import LossPolicy
from millpond.spark.options import FetchSettings, Isolation, TopicPattern, Topics
from millpond.spark.plan import Range
from millpond.spark.segments import SegmentPlace, read_segments
from tests.support.storage.log_kit import NOW, TP, append, batch, fill, marker, open_log
from tests.unit.spark.decoded import values

STRICT = LossPolicy(fail=True)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """An empty log of orders-0 that rolls after some batches."""
    return open_log(
        FileStorage(str(tmp_path)), LogConfig(segment_bytes=2_000, index_interval_bytes=200)
    )


def place(root: Path, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> SegmentPlace:
    """The directory as the driver sees it."""
    return SegmentPlace(str(root), isolation)


def span(first: int, end: int) -> Range:
    """A range of orders-0."""
    return Range(topic="orders", partition=0, first=first, end=end)


def read(root: Path, first: int, end: int, **fetch: object) -> list[tuple[int, str]]:
    """Offsets and values as a task reads them."""
    wanted = span(first, end)
    settings = FetchSettings(**fetch)  # type: ignore[arg-type]
    return [
        (offset, text.rstrip("."))
        for offset, text in values(read_segments(str(root), wanted, settings, STRICT), wanted)
    ]


def test_closed_segments_are_read_while_the_last_one_is_written(
    log: PartitionLog, tmp_path: Path
) -> None:
    fill(log, 100)
    active = log.segments[-1].base_offset
    assert len(log.segments) > 3

    bounds = place(tmp_path).bounds([TP])

    assert (bounds.earliest[TP], bounds.latest[TP]) == (0, active)
    assert read(tmp_path, 0, active) == [(offset, str(offset)) for offset in range(active)]


def test_a_range_in_the_middle_is_found_and_small_pieces_are_enough(
    log: PartitionLog, tmp_path: Path
) -> None:
    fill(log, 100)

    assert read(tmp_path, 37, 61, partition_bytes=100) == [
        (offset, str(offset)) for offset in range(37, 61)
    ]


def test_the_last_segment_counts_when_the_broker_stopped_cleanly(
    log: PartitionLog, tmp_path: Path
) -> None:
    fill(log, 100)
    log.close()
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")

    assert place(tmp_path).bounds([TP]).latest[TP] == 100
    assert len(read(tmp_path, 0, 100)) == 100


def test_a_log_start_that_was_moved_counts(log: PartitionLog, tmp_path: Path) -> None:
    fill(log, 100)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 17\n")

    assert place(tmp_path).bounds([TP]).earliest[TP] == 17


def test_aborted_transactions_are_read_only_by_those_who_want_everything(
    log: PartitionLog, tmp_path: Path
) -> None:
    append(
        log, batch(b"kept", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    )
    append(
        log, batch(b"gone", producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    )
    fill(log, 40)  # the transactions end in another segment than they began
    append(log, marker(commit=True, producer_id=1))
    append(log, marker(commit=False, producer_id=2))
    fill(log, 40)
    end = place(tmp_path, Isolation.READ_COMMITTED).bounds([TP]).latest[TP]
    assert end > 44

    everything = [text for _, text in read(tmp_path, 0, end)]
    committed = [text for _, text in read(tmp_path, 0, end, isolation=Isolation.READ_COMMITTED)]

    assert everything[:3] == ["kept", "gone", "2"]
    assert committed == [text for text in everything if text != "gone"]
    assert read(tmp_path, 1, 4, isolation=Isolation.READ_COMMITTED) == [(2, "2"), (3, "3")]


@pytest.mark.parametrize("snapshots", [True, False])
def test_an_undecided_transaction_is_where_committed_data_ends(
    log: PartitionLog, tmp_path: Path, snapshots: bool
) -> None:
    fill(log, 10)
    append(
        log, batch(b"open", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    )
    fill(log, 60)
    if not snapshots:
        for path in tmp_path.glob("*/*.snapshot"):
            path.unlink()

    committed = place(tmp_path, Isolation.READ_COMMITTED).bounds([TP])

    assert committed.latest[TP] == 10
    assert place(tmp_path).bounds([TP]).latest[TP] > 50


def test_times_are_found_across_segments(log: PartitionLog, tmp_path: Path) -> None:
    for number in range(60):
        append(log, batch(b"x" * 100, timestamp=NOW + 10 * number))

    found = place(tmp_path)

    assert found.at_times({TP: NOW + 301}) == {TP: 31}
    assert found.at_times({TP: NOW}) == {TP: 0}
    assert found.at_times({TP: NOW + 10_000}) == {TP: None}


def test_a_missing_or_lying_index_costs_time_and_nothing_else(
    log: PartitionLog, tmp_path: Path
) -> None:
    fill(log, 100)
    indexes = sorted(tmp_path.glob("*/*.index"))
    indexes[0].write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x07" * 3)
    indexes[1].unlink()

    assert read(tmp_path, 3, 40) == [(offset, str(offset)) for offset in range(3, 40)]


def test_a_segment_that_was_deleted_meanwhile_is_a_loss_with_its_range(
    log: PartitionLog, tmp_path: Path
) -> None:
    fill(log, 100)
    first, second = (segment.base_offset for segment in log.segments[:2])
    (tmp_path / "orders-0" / f"{first:020d}.log").unlink()

    with pytest.raises(DataLost, match=f"orders-0, offsets 0 to {second - 1}"):
        read(tmp_path, 0, 40)


def test_a_closed_segment_that_was_cut_is_no_end_of_the_log(
    log: PartitionLog, tmp_path: Path
) -> None:
    fill(log, 100)
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-10])

    with pytest.raises(CorruptLog, match="ends in the middle of a batch"):
        read(tmp_path, 0, 40)


def test_topics_are_the_directories_of_partitions(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-2", "my-topic-1", "__consumer_offsets-0", "lost+found"):
        (tmp_path / name).mkdir()

    found = place(tmp_path)

    assert {name: sorted(at) for name, at in found.topics(Topics(("orders",))).items()} == {
        "orders": [0, 2]
    }
    assert found.topics(TopicPattern(".*")).keys() == {"orders", "my-topic"}
    assert found.bounds([TopicPartition("orders", 1)]).latest == {}


def test_a_directory_that_is_not_there_is_an_option_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(WrongOption, match="there is no such directory"):
        place(tmp_path / "nowhere")


def test_nothing_is_written(log: PartitionLog, tmp_path: Path) -> None:
    fill(log, 100)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    read(tmp_path, 0, 40, isolation=Isolation.READ_COMMITTED)
    place(tmp_path, Isolation.READ_COMMITTED).at_times({TP: NOW})

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
