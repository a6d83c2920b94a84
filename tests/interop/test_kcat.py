"""kcat (with the librdkafka of the distribution, some years older) against a broker process."""

import json

import pytest

from tests.interop.clients import CODECS, kcat, kcat_missing
from tests.interop.peers import Peer
from tests.interop.topics import create_topic


@pytest.fixture(autouse=True)
def needs_kcat() -> None:
    reason = kcat_missing()
    if reason:
        pytest.skip(reason)


def test_lists_brokers_and_topics(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=3)
    shown = json.loads(kcat("-L", "-J", "-b", broker.bootstrap, "-t", topic))
    assert [node["name"] for node in shown["brokers"]] == [broker.bootstrap]
    (listed,) = shown["topics"]
    assert listed["topic"] == topic
    assert [partition["partition"] for partition in listed["partitions"]] == [0, 1, 2]


@pytest.mark.parametrize("codec", CODECS)
def test_writes_and_reads(broker: Peer, topic: str, codec: str) -> None:
    create_topic(broker, topic)
    lines = "".join(f"{number} {'oats ' * 20}\n" for number in range(100))
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-p", "0", "-z", codec, stdin=lines)
    assert kcat("-C", "-b", broker.bootstrap, "-t", topic, "-o", "beginning", "-e", "-q") == lines


def test_reads_from_an_offset_and_from_the_tail(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-p", "0", stdin="a\nb\nc\nd\n")
    read = ("-C", "-b", broker.bootstrap, "-t", topic, "-p", "0", "-e", "-q", "-f", "%o:%s\n")
    assert kcat(*read, "-o", "2") == "2:c\n3:d\n"
    assert kcat(*read, "-o", "-1") == "3:d\n"
    assert kcat(*read, "-o", "end") == ""


def test_asks_for_offsets_by_time(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-p", "0", stdin="a\nb\nc\n")
    ask = ("-Q", "-b", broker.bootstrap)
    assert kcat(*ask, "-t", f"{topic}:0:-2").split() == [topic, "[0]", "offset", "0"]
    assert kcat(*ask, "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "3"]
    assert kcat(*ask, "-t", f"{topic}:0:1000000000000").split() == [topic, "[0]", "offset", "0"]
