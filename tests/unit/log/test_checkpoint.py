"""Small files in Kafka's formats: what we write is what Kafka writes, and torn files are noticed."""

from uuid import UUID

import pytest

from millpond.base.ids import TopicPartition
from millpond.log import checkpoint
from millpond.log.checkpoint import CorruptCheckpoint, DirectoryMeta
from millpond.log.leader_epochs import LeaderEpochs
from tests.support.storage.faulty_storage import FaultyStorage

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.fixture
def storage() -> FaultyStorage:
    made = FaultyStorage()
    made.make_dir("p")
    return made


def test_offsets_by_partition(storage: FaultyStorage) -> None:
    offsets = {TopicPartition("orders", 0): 12, TopicPartition("a.b-c_d", 11): 0}

    checkpoint.write_offsets(storage, "offsets", offsets)

    assert storage.read_all("offsets") == b"0\n2\norders 0 12\na.b-c_d 11 0\n"
    assert checkpoint.read_offsets(storage, "offsets") == offsets


def test_no_file_means_no_offsets(storage: FaultyStorage) -> None:
    assert checkpoint.read_offsets(storage, "offsets") == {}


def test_every_cut_of_an_offsets_file_is_noticed(storage: FaultyStorage) -> None:
    checkpoint.write_offsets(storage, "whole", {TopicPartition("orders", 0): 1234})
    whole = storage.read_all("whole") or b""

    for size in range(len(whole)):
        storage.write("cut", whole[:size])
        with pytest.raises(CorruptCheckpoint):
            checkpoint.read_offsets(storage, "cut")


@pytest.mark.parametrize(
    "data", [b"1\n0\n", b"0\n1\nx\n", b"0\n1\na b c\n", b"\xff\xfe", b"0\n-1\n"]
)
def test_nonsense_in_an_offsets_file_is_noticed(storage: FaultyStorage, data: bytes) -> None:
    storage.write("offsets", data)
    with pytest.raises(CorruptCheckpoint):
        checkpoint.read_offsets(storage, "offsets")


def test_topic_ids_are_printed_as_kafka_prints_them(storage: FaultyStorage) -> None:
    checkpoint.write_topic_id(storage, "p/partition.metadata", ID)

    assert (
        storage.read_all("p/partition.metadata") == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    )
    assert checkpoint.read_topic_id(storage, "p/partition.metadata") == ID


def test_every_cut_of_partition_metadata_is_noticed(storage: FaultyStorage) -> None:
    checkpoint.write_topic_id(storage, "whole", ID)
    whole = storage.read_all("whole") or b""

    for size in range(len(whole)):
        storage.write("cut", whole[:size])
        with pytest.raises(CorruptCheckpoint):
            checkpoint.read_topic_id(storage, "cut")


def test_meta_properties(storage: FaultyStorage) -> None:
    meta = DirectoryMeta(node_id=3, cluster_id="abc", directory_id=ID)

    checkpoint.write_meta(storage, "meta.properties", meta)

    assert checkpoint.read_meta(storage, "meta.properties") == {
        "version": "1",
        "node.id": "3",
        "cluster.id": "abc",
        "directory.id": "ABEiM0RVZneImaq7zN3u_w",
    }
    assert checkpoint.read_meta(storage, "none") is None


def test_the_mark_of_a_clean_stop_is_good_once(storage: FaultyStorage) -> None:
    checkpoint.write_clean_shutdown(storage, "p/.kafka_cleanshutdown")

    assert checkpoint.take_clean_shutdown(storage, "p/.kafka_cleanshutdown")
    storage.lose_power()
    assert not checkpoint.take_clean_shutdown(storage, "p/.kafka_cleanshutdown")


# --- leader epochs ----------------------------------------------------------------------------


def epochs(storage: FaultyStorage, *entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs(storage, "p", [])
    for epoch, offset in entries:
        made.assign(epoch, offset)
    return made


def test_epochs_are_written_at_once(storage: FaultyStorage) -> None:
    epochs(storage, (0, 0), (3, 120))

    assert storage.read_all("p/leader-epoch-checkpoint") == b"0\n2\n0 0\n3 120\n"
    assert checkpoint.read_epochs(storage, "p/leader-epoch-checkpoint") == [(0, 0), (3, 120)]


def test_only_a_later_epoch_counts(storage: FaultyStorage) -> None:
    made = epochs(storage, (2, 10), (2, 20), (1, 30))
    assert made.entries == [(2, 10)]


def test_an_epoch_that_begins_before_another_replaces_it(storage: FaultyStorage) -> None:
    """Epoch 2 wrote nothing that was kept: epoch 3 begins where it did."""
    made = epochs(storage, (1, 10), (2, 20), (3, 20))
    assert made.entries == [(1, 10), (3, 20)]


def test_where_an_epoch_ended_as_followers_ask_it(storage: FaultyStorage) -> None:
    made = epochs(storage, (1, 10), (3, 20), (5, 40))

    assert made.end_offset(5, 99) == (5, 99)
    assert made.end_offset(3, 99) == (3, 40)
    assert made.end_offset(4, 99) == (3, 40)
    assert made.end_offset(1, 99) == (1, 20)
    assert made.end_offset(0, 99) == (0, 10)
    assert made.end_offset(6, 99) == (-1, -1)
    assert made.end_offset(-1, 99) == (-1, -1)
    assert epochs(storage).end_offset(0, 99) == (-1, -1)


def test_the_epoch_of_an_offset(storage: FaultyStorage) -> None:
    made = epochs(storage, (1, 10), (3, 20))
    assert [made.epoch_at(offset) for offset in (5, 10, 19, 20, 99)] == [-1, 1, 1, 3, 3]


def test_truncating_epochs_at_both_ends(storage: FaultyStorage) -> None:
    made = epochs(storage, (1, 10), (3, 20), (5, 40))

    made.truncate_end(40)
    assert made.entries == [(1, 10), (3, 20)]
    assert made.latest == 3
    made.truncate_start(25)
    assert made.entries == [(3, 25)]
    made.truncate_start(5)
    assert made.entries == [(3, 25)]
    made.clear()
    assert made.latest == -1
    assert checkpoint.read_epochs(storage, "p/leader-epoch-checkpoint") == []


@pytest.mark.parametrize(
    "data", [b"0\n2\n3 10\n2 20\n", b"0\n2\n1 20\n2 10\n", b"0\n1\n1 2 3\n", b""]
)
def test_epochs_that_do_not_follow_each_other_are_not_believed(
    storage: FaultyStorage, data: bytes
) -> None:
    storage.write("p/leader-epoch-checkpoint", data)
    with pytest.raises(CorruptCheckpoint):
        checkpoint.read_epochs(storage, "p/leader-epoch-checkpoint")
