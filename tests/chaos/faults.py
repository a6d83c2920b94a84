"""What can happen to a node: each fault breaks something, lasts a while, and is mended again."""

import random
import resource
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster

# Longer than broker.session.timeout.ms of the chaos cluster.
PAUSE_S = 4.5
CUT_S = 4.5
DOWN_S = 1.0
FULL_S = 2.0
FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of trouble. ``lasts_s`` is how long clients go on with it before it is mended."""

    name: str
    lasts_s: float
    break_it: Callable[[MillpondCluster, ClusterNode, random.Random], None]
    mend: Callable[[MillpondCluster, ClusterNode], None]
    needs_net: bool = False


def _kill(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    node.kill()


def _start(cluster: MillpondCluster, node: ClusterNode) -> None:
    node.start()


def _kill_two(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    node.kill()
    chance.choice([other for other in cluster.nodes.values() if other is not node]).kill()


def _start_all(cluster: MillpondCluster, node: ClusterNode) -> None:
    for other in cluster.nodes.values():
        if not other.is_running():
            other.launch()
    for other in cluster.nodes.values():
        other.wait_ready()


def _wipe(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    node.kill()
    node.wipe()


def _pause(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    node.pause()


def _resume(cluster: MillpondCluster, node: ClusterNode) -> None:
    node.resume()


def _isolate(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    assert cluster.net is not None
    cluster.net.isolate(node.node_id, clients_too=chance.random() < 0.5)


def _cut_one_way(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    assert cluster.net is not None
    other = chance.choice([number for number in cluster.nodes if number != node.node_id])
    cluster.net.cut(node.node_id, other, both_ways=False)


def _cut_pair(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    assert cluster.net is not None
    other = chance.choice([number for number in cluster.nodes if number != node.node_id])
    cluster.net.cut(node.node_id, other)


def _heal(cluster: MillpondCluster, node: ClusterNode) -> None:
    assert cluster.net is not None
    cluster.net.heal()


def _fill(cluster: MillpondCluster, node: ClusterNode, chance: random.Random) -> None:
    # Python ignores SIGXFSZ, so a write past the limit fails as one on a full disk does.
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (FILE_BYTES, hard))


def _make_room(cluster: MillpondCluster, node: ClusterNode) -> None:
    """Give it back its disk; a node that has ended over it is started again."""
    if node.is_running():
        _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (hard, hard))
        node.stop(timeout_s=60)
    node.start()


KILL = Fault(name="kill -9", lasts_s=DOWN_S, break_it=_kill, mend=_start)
KILL_TWO = Fault(name="kill -9 of two", lasts_s=DOWN_S, break_it=_kill_two, mend=_start_all)
PAUSE = Fault(name="pause", lasts_s=PAUSE_S, break_it=_pause, mend=_resume)
ISOLATE = Fault(name="cut off", lasts_s=CUT_S, break_it=_isolate, mend=_heal, needs_net=True)
CUT_PAIR = Fault(
    name="cut from one other", lasts_s=CUT_S, break_it=_cut_pair, mend=_heal, needs_net=True
)
ONE_WAY = Fault(
    name="cut one way", lasts_s=CUT_S, break_it=_cut_one_way, mend=_heal, needs_net=True
)
FULL = Fault(name="full disk", lasts_s=FULL_S, break_it=_fill, mend=_make_room)
WIPE = Fault(name="wiped disk", lasts_s=DOWN_S, break_it=_wipe, mend=_start)

# The mix of a run: what is drawn often is listed often.
MIX = (KILL, KILL, KILL, PAUSE, PAUSE, ISOLATE, ISOLATE, CUT_PAIR, ONE_WAY, FULL, WIPE, KILL_TWO)
