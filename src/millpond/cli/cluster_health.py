"""Problems and risks of a cluster: a pure function of what its nodes report.

Each situation names itself (``KINDS``). A *grave* one makes the cluster not healthy; the others are worth a
look: a rolling upgrade, partitions on their way, one replica less than which would stop acks=all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millpond.base.ids import TopicPartition
from millpond.cli.cluster_problems import damage_line, fenced_line, unregistered_line
from millpond.client import (
    ClusterInfo,
    LogDirInfo,
    QuorumInfo,
    QuorumReplica,
    Reassignment,
    TopicInfo,
)

# A voter that has not been where the leader's log ends for so long lags; voters ask every second or two.
VOTER_LAG_MS_MAX = 10_000

# A replica of the quorum that has not fetched for so long does not follow it now.
SILENT_MS_MAX = 10_000

# Every situation, in the order in which it is told, and whether a cluster in it is not healthy.
KINDS: Mapping[str, bool] = {
    "no controller": True,
    "fenced": True,
    "voter joining": True,
    "voter silent": True,
    "voter lagging": True,
    "offline": True,
    "under-replicated": True,
    "below min.insync.replicas": True,
    "log directory offline": True,
    "log directories unknown": True,
    "replica shut off": True,
    "damaged records": True,
    "at min.insync.replicas": False,
    "being moved": False,
    "draining": False,
    "mixed versions": False,
    "level not raised": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One situation that holds, and for what: partitions, nodes, directories.

    ``lines`` say more of each where a name is not enough: why, and what to do.
    """

    kind: str
    names: tuple[str, ...]
    lines: tuple[str, ...] = ()

    @property
    def is_grave(self) -> bool:
        """Return whether a cluster with this problem is not healthy."""
        return KINDS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Of one feature that a release brings: the level in force and the highest of each node; 0: unknown."""

    name: str
    level: int
    highest: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All that the cluster was asked. ``log_dirs`` are None of nodes that did not tell."""

    info: ClusterInfo
    quorum: QuorumInfo
    topics: tuple[TopicInfo, ...]
    minimums: Mapping[str, int]
    moving: Mapping[TopicPartition, Reassignment]
    log_dirs: Mapping[int, Sequence[LogDirInfo] | None]
    levels: tuple[Levels, ...] = ()


def findings_of(told: Told) -> tuple[Finding, ...]:
    """Everything that is not as it should be, in the order of ``KINDS``."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    _look_at_nodes(told, found)
    _look_at_partitions(told, found)
    _look_at_disks(told, found)
    _look_at_levels(told.levels, found)
    lines = {"fenced": _fenced_lines(told), "damaged records": _damage_lines(told)}
    return tuple(
        Finding(kind=kind, names=tuple(dict.fromkeys(names)), lines=lines.get(kind, ()))
        for kind, names in found.items()
        if names
    )


def _look_at_nodes(told: Told, found: dict[str, list[str]]) -> None:
    registered = {broker.node_id for broker in told.info.brokers}
    found["fenced"] += [_node(one.node_id) for one in told.info.brokers if one.is_fenced]
    # A node that holds partitions and is not even registered is not there either.
    found["fenced"] += [_node(node) for node in _unregistered(told)]
    quorum = told.quorum
    if quorum.leader_id < 0:
        found["no controller"].append("quorum")
        return
    replaced = replaced_voters(quorum)
    leader = next((one for one in quorum.voters if one.node_id == quorum.leader_id), None)
    for replica in quorum.voters:
        if replica.node_id not in registered or replica.node_id in replaced:
            # It has not registered yet; or it follows with another disk than the one that votes.
            found["voter joining"].append(_node(replica.node_id))
        elif replica.node_id == quorum.leader_id:
            continue
        elif replica.end_offset < 0:
            found["voter silent"].append(_node(replica.node_id))
        elif leader is not None and _lags(replica, leader):
            found["voter lagging"].append(_node(replica.node_id))


def _unregistered(told: Told) -> list[int]:
    """Nodes that hold partitions and are not registered."""
    held = {node for topic in told.topics for item in topic.partitions for node in item.replicas}
    return sorted(held - {broker.node_id for broker in told.info.brokers})


def _fenced_lines(told: Told) -> tuple[str, ...]:
    fenced = [fenced_line(one) for one in told.info.brokers if one.is_fenced]
    return (*fenced, *map(unregistered_line, _unregistered(told)))


def _damage_lines(told: Told) -> tuple[str, ...]:
    replicas = {
        TopicPartition(topic.name, item.partition): len(item.replicas)
        for topic in told.topics
        for item in topic.partitions
    }
    return tuple(
        damage_line(node, place, damage, replicas.get(place, 1))
        for node, log_dirs in sorted(told.log_dirs.items())
        for one in log_dirs or ()
        for place, damages in sorted(one.damage.items())
        for damage in damages
    )


def replaced_voters(quorum: QuorumInfo) -> dict[int, QuorumReplica]:
    """For each voter whose directory does not follow the quorum any more while another directory of the same
    node does: that other one. A second process with the id of a healthy voter replaces nothing.
    """
    now_ms = max((one.last_fetch_ms for one in quorum.voters), default=-1)
    voters = {one.node_id: one for one in quorum.voters if one.node_id != quorum.leader_id}
    found: dict[int, QuorumReplica] = {}
    for other in quorum.observers:
        voter = voters.get(other.node_id)
        if voter is None or _is_silent(other, now_ms) or not _is_silent(voter, now_ms):
            continue
        known = found.get(other.node_id)
        if known is None or known.last_fetch_ms < other.last_fetch_ms:
            found[other.node_id] = other
    return found


def newest_observer(quorum: QuorumInfo, node_id: int) -> QuorumReplica | None:
    """The directory of a node without a vote that fetched last; one that it had before may be listed, too."""
    found = [one for one in quorum.observers if one.node_id == node_id]
    return max(found, key=lambda one: one.last_fetch_ms, default=None)


def _is_silent(replica: QuorumReplica, now_ms: int) -> bool:
    """By the leader's clock, whose own time is now."""
    return now_ms >= 0 and now_ms - replica.last_fetch_ms > SILENT_MS_MAX


def _lags(replica: QuorumReplica, leader: QuorumReplica) -> bool:
    """Return whether a voter lags, by the leader's clock, which both times are of; False if unknown."""
    if leader.last_caught_up_ms < 0:
        return False
    return leader.last_caught_up_ms - replica.last_caught_up_ms > VOTER_LAG_MS_MAX


def _look_at_partitions(told: Told, found: dict[str, list[str]]) -> None:
    for topic in told.topics:
        for item in topic.partitions:
            name = str(TopicPartition(topic.name, item.partition))
            minimum = min(told.minimums.get(topic.name, 1), len(item.replicas))
            if item.leader < 0:
                found["offline"].append(name)
            if len(item.in_sync) < len(item.replicas):
                found["under-replicated"].append(name)
            if len(item.in_sync) < minimum:
                found["below min.insync.replicas"].append(name)
            elif len(item.in_sync) == minimum < len(item.replicas):
                found["at min.insync.replicas"].append(name)
    found["being moved"] += map(str, told.moving)
    leaving = {node for move in told.moving.values() for node in move.removing}
    coming = {node for move in told.moving.values() for node in move.adding}
    found["draining"] += [_node(node) for node in sorted(leaving - coming)]


def _look_at_disks(told: Told, found: dict[str, list[str]]) -> None:
    for node, log_dirs in sorted(told.log_dirs.items()):
        # The node serves, and the controller knows that these lie in a directory that is offline.
        known = _offline_at(node, told.topics)
        if log_dirs is None:
            found["log directories unknown"].append(_node(node))
            found["log directory offline"] += _offline([_node(node)] if known else [], known)
            continue
        here = {place for one in log_dirs for place in one.sizes}
        missing = [place for place in _held_by(node, told.topics) if place not in here]
        failed = [f"{_node(node)}:{one.path}{_why(one)}" for one in log_dirs if one.is_offline]
        found["damaged records"] += [
            f"{place} ({_node(node)})" for one in log_dirs for place in sorted(one.damage)
        ]
        if not failed and known:
            # It found the disk gone when it started, and does not speak of that directory at all.
            found["log directory offline"] += _offline([_node(node)], known)
        found["log directory offline"] += _offline(failed, missing)
        found["replica shut off"] += [
            f"{place} ({_node(node)})" for place in missing if place not in known
        ]


def _why(log_dir: LogDirInfo) -> str:
    return "" if log_dir.failure is None else f": {log_dir.failure}"


def _offline(names: Sequence[str], places: Sequence[TopicPartition]) -> list[str]:
    """Directories of one node, and how many replicas lie there: their shares are not known."""
    count = f"{len(places)} replica{'' if len(places) == 1 else 's'}"
    together = f" in {len(names)} directories" if len(names) > 1 else ""
    return [f"{name} ({count}{together})" for name in names]


def _offline_at(node: int, topics: Iterable[TopicInfo]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, item.partition)
        for topic in topics
        for item in topic.partitions
        if node in item.offline
    ]


def _held_by(node: int, topics: Iterable[TopicInfo]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, item.partition)
        for topic in topics
        for item in topic.partitions
        if node in item.replicas
    ]


def _look_at_levels(levels: Iterable[Levels], found: dict[str, list[str]]) -> None:
    for one in levels:
        if len(set(one.highest.values())) > 1:
            found["mixed versions"].append(one.name)
        elif one.highest and min(one.highest.values()) > one.level:
            found["level not raised"].append(one.name)


def _node(node: int) -> str:
    return f"node {node}"
