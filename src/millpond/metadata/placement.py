"""Where the replicas of new partitions go.

Rules: never two replicas on one node; as many racks as there can be; leaders in turn over the nodes, and
followers spread as well, so that the nodes that stand in for one that fails are not always the same.
Nodes that are down are used only when the others do not suffice, and never to lead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from millpond.base.errors import InvalidReplicationFactor
from millpond.base.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A node as a place for replicas."""

    node: NodeId
    rack: str | None = None
    is_up: bool = True


def place(
    sites: Iterable[Site], partitions: Iterable[int], factor: int
) -> list[tuple[NodeId, ...]]:
    """Replicas for each partition, the leader first. The numbers of the partitions choose where to begin."""
    sites = list(sites)
    up = _striped([site for site in sites if site.is_up])
    down = _striped([site for site in sites if not site.is_up])
    if factor > len(sites):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of "
            f"{factor} cannot be reached because only {len(sites)} broker(s) are registered."
        )
    if not up:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced."
        )
    return [_replicas(up, down, partition, factor) for partition in partitions]


def _replicas(
    up: Sequence[Site], down: Sequence[Site], partition: int, factor: int
) -> tuple[NodeId, ...]:
    first = partition % len(up)
    # After each turn over the nodes the followers begin one further on.
    shift = partition // len(up) % max(1, len(up) - 1)
    others = [up[(first + 1 + step) % len(up)] for step in range(len(up) - 1)]
    others = others[shift:] + others[:shift]
    candidates = [*others, *down]
    chosen = [up[first]]
    racks = {up[first].rack}
    while len(chosen) < factor:
        # A rack that has none yet, if there is one; else begin again with all racks.
        site = next((one for one in candidates if one.rack not in racks), None)
        if site is None:
            racks.clear()
            site = candidates[0]
        candidates.remove(site)
        racks.add(site.rack)
        chosen.append(site)
    return tuple(site.node for site in chosen)


def _striped(sites: Sequence[Site]) -> list[Site]:
    """The nodes in an order in which neighbours are on different racks, as far as that goes."""
    by_rack: dict[str | None, list[Site]] = {}
    for site in sorted(sites, key=lambda one: one.node):
        by_rack.setdefault(site.rack, []).append(site)
    rows = zip_longest(*by_rack.values())
    return [site for row in rows for site in row if site is not None]
