"""The features of a cluster: the level in force, and the levels that each node can work at."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from millpond.client import Admin

# What a release brings; other features are switches that an operator may have turned off.
RAISED_BY_UPGRADE = ("metadata.version", "millpond.version")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRow:
    """One feature. ``ranges`` are the lowest and highest level of each node that knows it."""

    name: str
    level: int
    ranges: dict[int, tuple[int, int]]
    # Nodes that do not know it.
    lacking: tuple[int, ...]

    @property
    def common(self) -> int:
        """The highest level that every node can work at."""
        return 0 if self.lacking else min(highest for _, highest in self.ranges.values())

    @property
    def told(self) -> str:
        """For people: nodes that can do the same are named together."""
        groups: dict[str, list[int]] = {}
        for node, (lowest, highest) in sorted(self.ranges.items()):
            groups.setdefault(f"{lowest}-{highest}", []).append(node)
        if self.lacking:
            groups["-"] = list(self.lacking)
        if len(groups) == 1:
            return next(iter(groups))
        return ", ".join(
            f"{levels} (node {' '.join(map(str, nodes))})" for levels, nodes in groups.items()
        )

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "feature": self.name,
            "level": self.level,
            "nodes": {
                str(node): {"lowest": lowest, "highest": highest}
                for node, (lowest, highest) in sorted(self.ranges.items())
            },
            "unknown_to": list(self.lacking),
        }


async def feature_rows(
    admin: Admin, nodes: Sequence[int] | None = None, *, timeout_s: float | None = None
) -> list[FeatureRow]:
    """Every feature that one of these nodes (all that are up, if none are named) knows, by name. Raises what
    the client raises if a node does not answer.
    """
    if nodes is None:
        nodes = [one.node_id for one in (await admin.describe_cluster()).brokers]
    told = await asyncio.gather(
        *(admin.describe_features(node, timeout_s=timeout_s) for node in nodes)
    )
    known = dict(zip(nodes, told, strict=True))
    names = sorted({name for features in known.values() for name in features})
    rows = []
    for name in names:
        knowing = {node: features[name] for node, features in known.items() if name in features}
        rows.append(
            FeatureRow(
                name=name,
                level=max(one.level for one in knowing.values()),
                ranges={node: (one.lowest, one.highest) for node, one in knowing.items()},
                lacking=tuple(sorted(known.keys() - knowing.keys())),
            )
        )
    return rows
