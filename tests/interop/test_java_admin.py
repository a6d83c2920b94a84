"""Every method of Kafka's Admin does the same with Millpond as with Apache Kafka."""

from tests.interop.peers import Peer
from tests.support.processes.java_host import JavaHost

# Lines that differ, and why they may.
DECLARED = {
    "describeFeatures": "one feature more, millpond.version: which of our own facts may be written",
}


def test_every_method_of_admin(java_host: JavaHost, broker: Peer, kafka: Peer, topic: str) -> None:
    ours, theirs = (
        java_host.run(
            "Admins.every", peer.bootstrap, topic, str(peer.data.resolve()), timeout_s=180
        )
        for peer in (broker, kafka)
    )

    assert theirs[-1] == "never called: []"
    assert len(ours) == len(theirs)
    differing = [
        f"{mine}   Kafka: {other}"
        for mine, other in zip(ours, theirs, strict=True)
        if mine != other and mine.partition(":")[0] not in DECLARED
    ]
    assert not differing, "\n".join(differing)
    same = {
        mine.partition(":")[0] for mine, other in zip(ours, theirs, strict=True) if mine == other
    }
    if broker.is_millpond:
        assert not same & DECLARED.keys(), "declared, but there is no such difference any more"
