"""A leader that is cut off from its controller stops leading by itself, before what it takes can be lost.

Clients still reach it and ask for one acknowledgement only (acks=1): nothing but the leader's own judgement
stands between them and a promise that the next leader knows nothing of.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from millpond.base.ids import TopicPartition
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.chaos.test_cluster import PROPERTIES, TOGETHER_S, TOPIC, create_topic
from tests.crash.reading import read_back
from tests.support.cluster.memory_broker import batch, fetch, fetched, produce, produced
from tests.support.kafka.wire_client import WireClient
from tests.support.processes import net_spaces
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster, leader_of
from tests.support.processes.net_spaces import NetSpaces
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.chaos

PLACE = TopicPartition(TOPIC, 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MillpondCluster]:
    """Three nodes whose ways can be cut."""
    if reason := net_spaces.missing_reason():
        pytest.skip(f"nothing can be cut here: {reason}")
    with ExitStack() as stack:
        net = stack.enter_context(NetSpaces([1, 2, 3]))
        made = MillpondCluster(tmp_path / "cluster", properties=PROPERTIES, net=net)
        yield stack.enter_context(made)


@pytest.mark.timeout(240)
def test_a_leader_that_is_cut_off_takes_nothing_and_shows_nothing_until_it_is_back(
    cluster: MillpondCluster,
) -> None:
    create_topic(cluster)
    leader = cluster.nodes[cluster.leader_of(PLACE)]
    others = [node for node in cluster.nodes.values() if node is not leader]
    assert cluster.net is not None
    with WireClient(leader.port, host=leader.host) as link:
        # The others have it: what is asked here is not what a leader alone took before it was cut off.
        assert written(link, 0, acks=-1) == ErrorCode.NONE
        cluster.net.isolate(leader.node_id)
        wait_until(
            lambda: written(link, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER,
            timeout_s=60,
            what="the node that is cut off stops taking records",
        )
        answer = link.ask(ApiKey.FETCH, 12, fetch(topic=TOPIC, wait_ms=0))
        assert fetched(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    elsewhere = ",".join(node.bootstrap for node in others)
    wait_until(
        lambda: leader_of(elsewhere, PLACE) in {node.node_id for node in others},
        timeout_s=60,
        what="another one leads",
    )
    new = cluster.nodes[leader_of(elsewhere, PLACE)]
    assert write_at(new, 2) == ErrorCode.NONE
    cluster.net.heal()
    cluster.wait_whole(TOGETHER_S)
    cluster.wait_in_sync(TOGETHER_S)
    stored = [value for _, value in read_back(cluster.bootstrap, TOPIC, 0)]
    assert stored[0] == b"0"
    assert stored[-1] == b"2"


def written(link: WireClient, number: int, *, acks: int = 1) -> int:
    """Return the error code of the answer to a record."""
    request = produce(batch(b"%d" % number), topic=TOPIC, acks=acks)
    return int(produced(link.ask(ApiKey.PRODUCE, 12, request)).error_code)


def write_at(node: ClusterNode, number: int) -> int:
    with WireClient(node.port, host=node.host) as link:
        return written(link, number)
