"""Ranges read from a broker: every record, gaps that are legal, losses that are named, and patience."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import millpond
from millpond.base.ids import TopicPartition
from millpond.client import Admin, BlockingClient, NoBroker
from millpond.spark._broker import BrokerPlace, Brokers
from millpond.spark.errors import DataLost
from millpond.spark.loss import LossPolicy
from millpond.spark.options import (
    BrokerSettings,
    FetchSettings,
    Isolation,
    Partitions,
    TopicPattern,
    Topics,
)
from millpond.spark.plan import Range
from tests.unit.spark.decoded import values

STRICT = LossPolicy(fail=True)


@pytest.fixture(scope="module")
def broker() -> Iterator[millpond.Broker]:
    with millpond.Broker() as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: millpond.Broker) -> Iterator[BlockingClient]:
    with BlockingClient(broker.bootstrap) as connected:
        yield connected


@pytest.fixture
def brokers(broker: millpond.Broker) -> Iterator[Brokers]:
    """The connections of one process of Spark."""
    opened = Brokers(BrokerSettings(bootstrap=broker.bootstrap, timeout_s=10.0))
    yield opened
    opened.close()


def topic_with(client: BlockingClient, name: str, records: int, batches: int = 10) -> None:
    """A topic of one partition whose records are their own offsets."""
    client.create_topic(name, partitions=1)
    size = records // batches
    for first in range(0, records, size):
        client.produce_batch(
            name, 0, [(1000 + n, None, str(n).encode(), ()) for n in range(first, first + size)]
        )


def span(topic: str, first: int, end: int) -> Range:
    """A range of a topic's only partition."""
    return Range(topic=topic, partition=0, first=first, end=end)


def test_a_range_is_read_whole_over_many_answers(brokers: Brokers, client: BlockingClient) -> None:
    topic_with(client, "many", 1000, batches=100)
    wanted = span("many", 13, 987)

    pieces = brokers.read(wanted, FetchSettings(partition_bytes=1024), STRICT)

    assert values(pieces, wanted) == [(offset, str(offset)) for offset in range(13, 987)]


def test_a_connection_serves_one_range_after_the_other_and_ends_with_one_that_is_left_unread(
    brokers: Brokers, client: BlockingClient
) -> None:
    topic_with(client, "again", 1000, batches=100)
    small = FetchSettings(partition_bytes=1024)
    for first in range(0, 900, 300):
        wanted = span("again", first, first + 300)
        assert len(values(brokers.read(wanted, small, STRICT), wanted)) == 300
    open_now = [key for key in brokers.cluster._connections if key[2].startswith("spark")]
    assert len(open_now) == 1, "a batch does not pay for a connection"

    unread = brokers.read(span("again", 0, 1000), small, STRICT)
    next(unread)
    assert isinstance(unread, Generator)
    unread.close()
    assert not [key for key in brokers.cluster._connections if key[2].startswith("spark")]
    wanted = span("again", 5, 6)
    assert len(values(brokers.read(wanted, small, STRICT), wanted)) == 1


def test_what_is_asked_of_the_driver_is_answered(brokers: Brokers, client: BlockingClient) -> None:
    topic_with(client, "facts", 100)
    place = TopicPartition("facts", 0)

    assert brokers.topics(Topics(("facts", "nothing"))) == {"facts": [0]}
    assert brokers.topics(TopicPattern("fac.*")) == {"facts": [0]}
    assert brokers.topics(Partitions(frozenset({place}))) == {"facts": [0]}
    assert "facts" in brokers.all_topics()
    bounds = brokers.bounds([place, TopicPartition("facts", 7), TopicPartition("nothing", 0)])
    assert (bounds.earliest, bounds.latest) == ({place: 0}, {place: 100})
    assert brokers.at_times({place: 1050}) == {place: 50}
    assert brokers.at_times({place: 9999}) == {place: None}


def test_records_that_were_deleted_meanwhile_are_a_loss_with_its_range(
    brokers: Brokers, client: BlockingClient, tmp_path: Path
) -> None:
    topic_with(client, "deleted", 100)
    place = TopicPartition("deleted", 0)
    client.run(lambda cluster: Admin(cluster).delete_records({place: 40}))
    wanted = span("deleted", 10, 60)

    with pytest.raises(DataLost, match="deleted-0, offsets 10 to 39"):
        values(brokers.read(wanted, FetchSettings(), STRICT), wanted)

    report = tmp_path / "lost.jsonl"
    lenient = LossPolicy(fail=False, report=str(report))
    found = values(brokers.read(wanted, FetchSettings(), lenient), wanted)
    assert found == [(offset, str(offset)) for offset in range(40, 60)]
    assert '"firstOffset": 10, "endOffset": 40' in report.read_text()


def test_a_topic_that_was_deleted_meanwhile_is_a_loss(
    broker: millpond.Broker, client: BlockingClient
) -> None:
    topic_with(client, "short-lived", 100)
    client.delete_topics("short-lived")
    brokers = Brokers(BrokerSettings(bootstrap=broker.bootstrap, timeout_s=10.0))
    brokers.cluster._unknown_topic_s = 0.1
    wanted = span("short-lived", 10, 60)
    try:
        with pytest.raises(
            DataLost, match="short-lived-0, offsets 10 to 59: the partition is gone"
        ):
            values(brokers.read(wanted, FetchSettings(), STRICT), wanted)
    finally:
        brokers.close()


def test_a_wrong_address_is_an_error_at_once() -> None:
    place = BrokerPlace(BrokerSettings(bootstrap="127.0.0.1:1"), Isolation.READ_UNCOMMITTED)

    with pytest.raises(NoBroker, match=r"no broker answers at 127\.0\.0\.1:1"):
        place.topics(Topics(("orders",)))


def test_a_reader_that_stops_early_leaves_nothing_behind(
    brokers: Brokers, client: BlockingClient
) -> None:
    topic_with(client, "early", 1000, batches=100)
    pieces = brokers.read(span("early", 0, 1000), FetchSettings(partition_bytes=1024), STRICT)

    next(pieces)
    pieces.close()  # type: ignore[attr-defined]

    wanted = span("early", 0, 5)
    assert len(values(brokers.read(wanted, FetchSettings(), STRICT), wanted)) == 5


def test_a_group_shows_what_was_committed_for_it(brokers: Brokers, client: BlockingClient) -> None:
    from millpond.client import Groups

    topic_with(client, "shown", 100)
    place = TopicPartition("shown", 0)

    brokers.commit("etl", {place: 42})

    assert client.run(lambda cluster: Groups(cluster).offsets("etl")) == {place: 42}
