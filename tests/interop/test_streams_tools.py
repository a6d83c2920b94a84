"""Kafka's tool for streams groups says the same of a group on Millpond as of the same on Apache Kafka."""

from collections.abc import Callable

from tests.interop.test_differential_streams_groups import StreamsTeller, part
from tests.interop.test_group_tools import Desk, Peers, peers
from tests.support.kafka.wire_client import WireClient

__all__ = ["peers"]


def test_streams_groups_are_told_of_reset_and_deleted(peers: Peers, topic: str) -> None:
    def chapter(desk: Desk) -> None:
        group = f"{topic}-app"
        with WireClient(desk.peer.port) as link:
            teller = StreamsTeller(link)
            teller.create(topic, partitions=2)
            teller.begin(group)
            tool = say(desk)
            epoch = teller.enter("join", group, "one", part(0, topic)).member_epoch
            teller.beat("it runs", group, "one", epoch, owned=({"0": [0, 1]}, {}))
            teller.commit("so far", group, topic, member_id="one", generation=epoch)
            of_group = ("--describe", "--group", group)
            tool(*of_group)
            tool(*of_group, "--offsets", "--verbose")
            tool(*of_group, "--members")
            tool(*of_group, "--members", "--verbose")
            tool(*of_group, "--state", "--verbose")
            tool("--delete", "--group", group)
            teller.beat("leave", group, "one", -1)
            tool(*of_group, "--state")
            reset = ("--reset-offsets", "--group", group, "--to-earliest", "--execute")
            tool(*reset, "--input-topic", topic)
            tool("--delete", "--group", group)
            tool(*of_group)

    ours, _ = peers.agree(chapter)
    _, code, lines = ours.answers[0]
    assert code == 0
    # It has committed 7 of a topic that is empty.
    assert any(line.endswith(f"{topic} 0 -7") for line in lines), lines


def say(desk: Desk) -> Callable[..., object]:
    return lambda *args: desk.tool("kafka-streams-groups", *args)
