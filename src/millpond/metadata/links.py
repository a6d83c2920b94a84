"""Ways between two nodes that are cut while the controller hears both of them.

A follower that does not reach its leader keeps back what the leader may acknowledge until it is struck off
as out of sync, which takes ``replica.lag.time.max.ms``. Only the two nodes can see it, and neither alone can
tell a cut from a peer that is slow: a leader that gets no fetches may have a follower whose disk is busy, and
a follower that gets no answers may have a leader that is stalled. If both miss each other at the same time,
and the controller hears both, then it is the way between them. The leader goes on without the follower at
once.

Each node tells with its heartbeats which leaders leave its fetches unanswered and which followers have ceased
to fetch, without what it slept through itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from millpond.base.ids import NodeId
from millpond.metadata.elections import Rules, changed_in_sync
from millpond.metadata.image import Image
from millpond.metadata.records import PartitionChangeRecord

# (leader, follower)
Link: TypeAlias = tuple[NodeId, NodeId]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    at_ms: int
    leaders: frozenset[NodeId]
    followers: frozenset[NodeId]


class LinkReports:
    """What nodes have said of each other; soft state of a controller. Times are monotonic milliseconds."""

    def __init__(self, fresh_ms: int) -> None:
        """``fresh_ms``: for so long a report holds, if the node does not say otherwise."""
        self._fresh_ms = fresh_ms
        self._reports: dict[NodeId, _Report] = {}

    def note(
        self, node: NodeId, now_ms: int, leaders: Iterable[NodeId], followers: Iterable[NodeId]
    ) -> None:
        """A node's newest word on whom it misses."""
        report = _Report(at_ms=now_ms, leaders=frozenset(leaders), followers=frozenset(followers))
        if report.leaders or report.followers:
            self._reports[node] = report
        else:
            self._reports.pop(node, None)

    def cuts(self, now_ms: int) -> set[Link]:
        """The ways that both ends miss each other on."""
        fresh = {
            node: one for node, one in self._reports.items() if now_ms - one.at_ms < self._fresh_ms
        }
        return {
            (leader, follower)
            for follower, report in fresh.items()
            for leader in report.leaders
            if leader in fresh and follower in fresh[leader].followers
        }


def decide_cuts(image: Image, cuts: set[Link], rules: Rules) -> list[PartitionChangeRecord]:
    """Leaders go on without followers that they do not reach, where enough others are in sync.

    Where too few would be left nothing could be written either way, and the follower may come back.
    """
    records = []
    leaders = {leader for leader, _follower in cuts}
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader not in leaders:
                continue
            isr = tuple(node for node in partition.isr if (partition.leader, node) not in cuts)
            if len(isr) == len(partition.isr) or len(isr) < (rules.min_isr(topic.name) or 1):
                continue
            change = changed_in_sync(image, topic, index, isr, rules)
            if change is not None:
                records.append(change)
    return records
