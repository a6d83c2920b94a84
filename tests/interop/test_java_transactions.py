"""Kafka's Java producer: transactions with offsets in them, and idempotence alone.

The stories are in ``java/driver/Transactions.java``.
"""

import pytest

from tests.interop.peers import GROUP_PROTOCOLS, Peer
from tests.interop.topics import create_topic
from tests.support.processes.java_host import JavaHost


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
def test_a_copier_that_aborts_and_dies_copies_everything_once(
    broker: Peer, java_host: JavaHost, topic: str, protocol: str
) -> None:
    source = create_topic(broker, f"{topic}-in", partitions=2)
    target = create_topic(broker, f"{topic}-out", partitions=2)
    first, *zombies, zero, one = java_host.run(
        "Transactions.copy", broker.bootstrap, source, target, protocol
    )
    assert first == "copied 200; aborted some: true, abandoned some: true"
    assert set(zombies) == {"a zombie: ProducerFencedException"}
    assert zero == "partition 0: 100 copies, each once and in order: true"
    assert one == "partition 1: 100 copies, each once and in order: true"


def test_readers_see_what_they_may(broker: Peer, java_host: JavaHost, topic: str) -> None:
    create_topic(broker, topic)
    assert java_host.run("Transactions.isolation", broker.bootstrap, topic) == [
        "open at 3",
        "ends: 6 uncommitted, 3 committed",
        "seen: [0, 1, 2]",
        "ends: 7 uncommitted, 7 committed",
        "seen: [0, 1, 2, 3, 4]",
        "empty transactions are fine",
        "the old one: InvalidProducerEpochException",
    ]


def test_refusals_have_their_names(broker: Peer, java_host: JavaHost, topic: str) -> None:
    create_topic(broker, topic)
    a_day, *rest = java_host.run("Transactions.refusals", broker.bootstrap, topic)
    assert "timeout is larger than the maximum value" in a_day
    assert rest == [
        "nobody: CommitFailedException",
        "stored 5 five",
        "state CompleteCommit",
        "fenced: state Empty",
    ]


def test_an_idempotent_producer_keeps_the_order_with_five_in_flight(
    broker: Peer, java_host: JavaHost, topic: str
) -> None:
    create_topic(broker, topic, partitions=3)
    assert java_host.run("Transactions.idempotent", broker.bootstrap, topic) == [
        f"partition {number}: 2000 in order: true" for number in range(3)
    ]


def test_a_share_consumer_accepts_by_going_on(
    broker: Peer, java_host: JavaHost, topic: str
) -> None:
    create_topic(broker, topic)
    assert java_host.run("Shares.implicit", broker.bootstrap, topic) == [
        "explicit: refused",
        "seen 30, each once: true",
        "after that: [30]",
    ]


def test_a_share_consumer_says_what_became_of_each_record(
    broker: Peer, java_host: JavaHost, topic: str
) -> None:
    create_topic(broker, topic)
    assert java_host.run("Shares.explicit", broker.bootstrap, topic) == [
        "deliveries [1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1]",
        "told [ok]",
        "one more: 12",
        "renewed: true",
        "mine still: 12",
        "accepted: true",
    ]
