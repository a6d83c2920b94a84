"""One plain line for each problem of a cluster that a name alone does not explain: what it is, what to do.

Pure: why a node is fenced as the controller says, which offsets of which replica are damaged.
"""

from collections.abc import Mapping

from millpond.base.ids import TopicPartition
from millpond.client import BrokerInfo, DamageInfo, FencingInfo

# What each reason of the controller means, and what to do about it.
_REASONS: Mapping[str, tuple[str, str]] = {
    "silent": (
        "the controller has not heard of it",
        "start it if it is down; otherwise look at its log and at the network between it and the controller",
    ),
    "process-ended": ("its process has ended", "its log says why; start it again"),
    "disk": (
        "it cannot write to its log directories",
        "free space or mend the disk: it comes back by itself",
    ),
    "stopped": ("it was stopped in order", "start it again when its maintenance is done"),
    "joining": (
        "it has registered and reads the metadata",
        "wait; if that takes long, its log says why",
    ),
    "unknown": (
        "it was fenced before the present controller took over",
        "start it if it is down; its log and that of the controller before say more",
    ),
}
_NOT_TOLD = ("the controller does not say why", "look at its log and at the controller's")

_SECOND_MS = 1000
_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S


def fenced_line(broker: BrokerInfo) -> str:
    """Why a node is fenced, and what to do."""
    fencing = broker.fencing or FencingInfo(reason="")
    what, remedy = _REASONS.get(fencing.reason, _NOT_TOLD)
    times = []
    if fencing.fenced_ms >= 0:
        times.append(f"fenced for {in_words(fencing.fenced_ms)}")
    if fencing.silent_ms >= 0:
        times.append(f"last heard of {in_words(fencing.silent_ms)} ago")
    more = f" ({', '.join(times)})" if times else ""
    return f"node {broker.node_id} is fenced: {what}{more}; {remedy}"


def unregistered_line(node: int) -> str:
    """A node that holds partitions and is not registered."""
    return (
        f"node {node} is not registered and holds partitions; start it, or move its partitions to other "
        "nodes with `millpond partition reassign`"
    )


def damage_line(node: int, place: TopicPartition, damage: DamageInfo, replicas: int) -> str:
    """Which offsets of one replica are damaged, and what to do."""
    last = damage.next_offset - 1
    offsets = (
        f"offset {last} is" if last <= damage.first_offset else f"offsets {damage.first_offset} to {last} are"
    )  # fmt: skip
    if replicas > 1:
        remedy = (
            "the node fetches them from the other replicas by itself; if this stays, none of them has these "
            "records: look after the disk, and see `unreadable.records`"
        )
    else:
        remedy = (
            "there is no other replica: restore the file from a copy, or set `unreadable.records=skip` on "
            "the topic so that consumers go on behind them; look after the disk"
        )
    return f"node {node}: {place}: {offsets} damaged ({damage.reason}); {remedy}"


def in_words(ms: int) -> str:
    """A duration, no more exact than a person needs."""
    seconds = ms // _SECOND_MS
    if seconds < 2 * _MINUTE_S:
        return f"{seconds} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds // _MINUTE_S} min"
    return f"{seconds // _HOUR_S} h"
