"""A cluster as `millpond cluster status` shows it, made from what the administrator's client was told.

Pure: facts in, a view out; the view as JSON and as tables. What is wrong says ``cluster_health.py``: a
partition is *under-replicated* when a replica is not in sync, *offline* when no node leads it, *at its
minimum* when one replica less would stop acks=all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millpond.base.ids import TopicPartition
from millpond.cli.cluster_health import KINDS, Finding, Told, findings_of
from millpond.client import ClusterInfo, QuorumInfo, Reassignment

if TYPE_CHECKING:
    from rich.console import RenderableType

# Names of partitions that a table shows before it says how many more there are.
NAMES_SHOWN_MAX = 8
# Lines about single problems that are shown before it says how many more there are.
LINES_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node: where it is, what it is, what it holds."""

    node_id: int
    address: str
    rack: str | None
    roles: tuple[str, ...]
    is_fenced: bool
    is_registered: bool
    is_known: bool
    leads_quorum: bool
    metadata_lag: int | None
    led: int
    followed: int
    out_of_sync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """All that there is to see."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    nodes: tuple[NodeView, ...]
    topics: int
    partitions: int
    findings: tuple[Finding, ...]
    moving: Mapping[TopicPartition, Reassignment]

    @property
    def is_healthy(self) -> bool:
        """Nothing grave is the matter: every partition is led, every replica is there and in sync, every
        node is heard of, and every voter votes."""
        return not any(finding.is_grave for finding in self.findings)

    def names_of(self, kind: str) -> tuple[str, ...]:
        """Return the brokers, partitions or voters that a problem concerns."""
        return next((one.names for one in self.findings if one.kind == kind), ())


def view_of(told: Told) -> ClusterView:
    """Combine the responses to several requests."""
    held: dict[int, list[int]] = {}  # node -> led, followed, out of sync
    for topic in told.topics:
        for item in topic.partitions:
            for node_id in item.replicas:
                counts = held.setdefault(node_id, [0, 0, 0])
                counts[0 if node_id == item.leader else 1] += 1
                counts[2] += node_id not in item.in_sync
    return ClusterView(
        cluster_id=told.info.cluster_id,
        leader_id=told.quorum.leader_id,
        leader_epoch=told.quorum.leader_epoch,
        high_watermark=told.quorum.high_watermark,
        nodes=_nodes(told.info, told.quorum, held),
        topics=len(told.topics),
        partitions=sum(len(topic.partitions) for topic in told.topics),
        findings=findings_of(told),
        moving=told.moving,
    )


def _nodes(
    info: ClusterInfo, quorum: QuorumInfo, held: Mapping[int, list[int]]
) -> tuple[NodeView, ...]:
    brokers = {broker.node_id: broker for broker in info.brokers}
    voters = {replica.node_id: replica for replica in quorum.voters}
    replicas = {replica.node_id: replica for replica in quorum.observers} | voters
    nodes = []
    for node_id in sorted({*brokers, *voters, *held}):
        broker = brokers.get(node_id)
        replica = replicas.get(node_id)
        led, followed, out_of_sync = held.get(node_id, (0, 0, 0))
        roles = (["broker"] if broker is not None or node_id in held else []) + (
            ["voter"] if node_id in voters else []
        )
        nodes.append(
            NodeView(
                node_id=node_id,
                address="" if broker is None else str(broker),
                rack=None if broker is None else broker.rack,
                roles=tuple(roles),
                # A node that holds partitions and is not even registered is not there either.
                is_fenced=broker.is_fenced if broker is not None else node_id in held,
                is_registered=broker is not None,
                is_known=quorum.leader_id >= 0,
                leads_quorum=node_id == quorum.leader_id,
                metadata_lag=None if replica is None else quorum.lag_of(replica),
                led=led,
                followed=followed,
                out_of_sync=out_of_sync,
            )
        )
    return tuple(nodes)


def to_json(view: ClusterView) -> dict[str, object]:
    """The whole view, for programs."""
    return {
        "cluster_id": view.cluster_id,
        "healthy": view.is_healthy,
        "quorum": {
            "leader": view.leader_id,
            "epoch": view.leader_epoch,
            "high_watermark": view.high_watermark,
            "voters": [node.node_id for node in view.nodes if "voter" in node.roles],
        },
        "nodes": [node_json(node) for node in view.nodes],
        "topics": view.topics,
        "partitions": view.partitions,
        "under_replicated": list(view.names_of("under-replicated")),
        "under_min_isr": list(view.names_of("below min.insync.replicas")),
        "at_min_isr": list(view.names_of("at min.insync.replicas")),
        "offline": list(view.names_of("offline")),
        "findings": [
            {
                "kind": one.kind,
                "grave": one.is_grave,
                "names": list(one.names),
                "details": list(one.lines),
            }
            for one in view.findings
        ],
        "reassigning": {
            str(place): {
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
            }
            for place, move in view.moving.items()
        },
    }


def node_json(node: NodeView) -> dict[str, object]:
    """One node, for programs."""
    return {
        "node": node.node_id,
        "address": node.address,
        "rack": node.rack,
        "roles": list(node.roles),
        "state": state_of(node),
        "quorum_leader": node.leads_quorum,
        "metadata_lag": node.metadata_lag,
        "leads": node.led,
        "follows": node.followed,
        "out_of_sync": node.out_of_sync,
    }


NODE_COLUMNS = (
    "Node", "Address", "Rack", "Roles", "State", "Metadata lag", "Leads", "Follows", "Out of sync",
)  # fmt: skip


def node_row(node: NodeView) -> tuple[object, ...]:
    """One node, as a row under ``NODE_COLUMNS``."""
    roles = "+".join(node.roles) + (_LEADS if node.leads_quorum else "")
    return (
        node.node_id,
        node.address or "-",
        node.rack or "-",
        roles or "-",
        state_of(node),
        "-" if node.metadata_lag is None else node.metadata_lag,
        node.led,
        node.followed,
        node.out_of_sync,
    )


def state_of(node: NodeView) -> str:
    """Return the state of a node: ``ready``, ``fenced`` if it sends no heartbeats, ``joining`` for a voter
    that has not registered yet, ``unknown`` if no node could be asked.
    """
    if not node.is_known:
        return "unknown"
    if node.is_fenced:
        return "fenced"
    return "ready" if node.is_registered else "joining"


def health_rows(view: ClusterView) -> list[tuple[str, int, str]]:
    """Return a row for each problem: its name, how many things it concerns, and which."""
    return [(one.kind, len(one.names), names_of(one.names)) for one in view.findings]


def problem_lines(view: ClusterView) -> list[str]:
    """One line for each problem that a name does not explain, and how many more there are."""
    lines = [line for one in view.findings for line in one.lines]
    more = len(lines) - LINES_SHOWN_MAX
    return lines if more <= 0 else [*lines[:LINES_SHOWN_MAX], f"and {more} more; --json has all"]


def names_of(names: Sequence[str]) -> str:
    """Some names and how many more there are."""
    more = len(names) - NAMES_SHOWN_MAX
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def headline(view: ClusterView) -> str:
    """The cluster in one line."""
    health = "healthy" if view.is_healthy else "not healthy"
    leader = (
        f"led by node {view.leader_id} in epoch {view.leader_epoch}"
        if view.leader_id >= 0
        else "without a leader"
    )
    size = f"{_count(view.topics, 'topic')}, {_count(view.partitions, 'partition')}"
    line = f"cluster {view.cluster_id}: {health}, quorum {leader}, {size}"
    if view.leader_id < 0:
        line += "\nmore than half of the voters must be up and reach each other; below is what was last known"
    return line


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def picture(view: ClusterView) -> "RenderableType":
    """For a terminal: the headline, the nodes, and what deserves a look, in colour."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rest = Table(box=None, show_header=False, padding=(0, 2))
    for name, count, names in health_rows(view):
        colour = "yellow" if name in _MILD else "red"
        rest.add_row(Text(name, style=colour), Text(str(count), style=colour), Text(names))
    colour = "green" if view.is_healthy else "red"
    return Group(
        Text(headline(view), style=f"bold {colour}"),
        node_table(view.nodes),
        rest,
        *(Text(line) for line in problem_lines(view)),
    )


def node_table(nodes: Iterable[NodeView]) -> "RenderableType":
    """For a terminal, also a narrow one: racks only if there are any, short words, headings broken."""
    from rich import box
    from rich.table import Table

    nodes = tuple(nodes)
    racks = any(node.rack for node in nodes)
    shown = [index for index, name in enumerate(NODE_COLUMNS) if racks or name != "Rack"]
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0 if racks else 1, 0, 0),
        pad_edge=False,
        caption="* leads the quorum",
        caption_justify="left",
    )
    for name in (NODE_COLUMNS[index] for index in shown):
        table.add_column(
            _SHORT.get(name, name),
            justify="left" if name in _WORDS else "right",
            overflow="fold",
            no_wrap=name in _UNBROKEN,
            min_width=max(len(word) for word in _SHORT.get(name, name).split()),
        )
    for node in nodes:
        cells = [str(cell).replace(_LEADS, " *") for cell in node_row(node)]
        table.add_row(*(cells[index] for index in shown), style="red" if node.is_fenced else "")
    return table


_WORDS = frozenset({"Address", "Rack", "Roles", "State"})
_UNBROKEN = frozenset({"Address", "Roles", "State"})
_SHORT = {"Metadata lag": "Lag"}
_LEADS = " (leads the quorum)"
_MILD = frozenset({"under-replicated", *(kind for kind, is_grave in KINDS.items() if not is_grave)})
