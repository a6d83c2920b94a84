"""Every client reads what every client wrote, with every codec.

All of them write into one partition, so that one read meets every codec of every client in a row.
"""

from dataclasses import dataclass

import pytest

from millpond.record.batch import iter_batches
from tests.interop.clients import (
    CLIENTS,
    CODECS,
    Client,
    Message,
    kafka_python_read,
    librdkafka_read,
    librdkafka_write,
)
from tests.interop.conftest import unique_name
from tests.interop.peers import Peer
from tests.interop.topics import create_topic

MESSAGES_PER_WRITE = 20


@dataclass(frozen=True, slots=True)
class Written:
    """The topic and all that was written to it, in order."""

    topic: str
    messages: tuple[Message, ...]


@pytest.fixture(scope="module")
def written(broker: Peer) -> Written:
    """A partition that every client present has written to with every codec."""
    topic = unique_name("codecs")
    create_topic(broker, topic)
    messages: list[Message] = []
    for client in CLIENTS:
        if client.missing():
            continue
        for codec in CODECS:
            batch = messages_of(client.name, codec)
            client.write(broker.bootstrap, topic, batch, codec)
            messages += batch
    return Written(topic, tuple(messages))


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_reads_what_every_client_wrote(client: Client, broker: Peer, written: Written) -> None:
    reason = client.missing()
    if reason:
        pytest.skip(reason)
    found = client.read(broker.bootstrap, written.topic, len(written.messages))
    assert found == list(written.messages)


@pytest.mark.parametrize("codec", [*CODECS[1:], "uncompressed"])
def test_a_topic_keeps_everything_in_its_own_codec(broker: Peer, topic: str, codec: str) -> None:
    create_topic(broker, topic, config={"compression.type": codec})
    messages: list[Message] = []
    for sent_as in CODECS:
        batch = messages_of("librdkafka", sent_as)
        librdkafka_write(broker.bootstrap, topic, batch, sent_as)
        messages += batch

    assert librdkafka_read(broker.bootstrap, topic, len(messages)) == messages
    assert kafka_python_read(broker.bootstrap, topic, len(messages)) == messages
    (segment,) = (broker.data / f"{topic}-0").glob("*.log")
    stored = {header.compression for _, header in iter_batches(segment.read_bytes())}
    assert stored == {0 if codec == "uncompressed" else CODECS.index(codec)}


def messages_of(name: str, codec: str) -> list[Message]:
    """Messages that tell who wrote them and how, and that are worth compressing."""
    return [
        Message(
            key=f"{name}/{codec}/{number}",
            value=f"{name} {codec} " + "water over the mill wheel " * 20 + str(number),
            headers=(("writer", name), ("codec", codec)),
        )
        for number in range(MESSAGES_PER_WRITE)
    ]
