"""Why nodes are fenced and since when, as far as the active controller knows.

The metadata log says that a node is fenced, and whether it was stopped in order; it has no field for other
reasons, as Kafka's has none. So the reason is soft state of the active controller: it begins afresh with each
controller, and a node that an earlier controller fenced has the reason ``UNKNOWN`` until it is heard of
again. A node that is fenced for its disk says so with each heartbeat, and is known again within one interval.
"""

from dataclasses import dataclass
from enum import StrEnum

from millpond.base.ids import NodeId
from millpond.metadata.image import BrokerImage


class FenceReason(StrEnum):
    """Why a node is fenced. The values are what clients are told."""

    # The controller has not heard of it for a session.
    SILENT = "silent"
    # The operating system said that its process ended.
    PROCESS_ENDED = "process-ended"
    # It cannot write to any of its log directories.
    DISK = "disk"
    # It asked to stop, and has.
    STOPPED = "stopped"
    # It has registered and has not read the metadata up to its registration.
    JOINING = "joining"
    # An earlier controller fenced it, and it has not been heard of since.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fencing:
    """Why one node is fenced, for how long, and how long ago it was last heard of; -1 if not known."""

    reason: FenceReason
    fenced_ms: int = -1
    silent_ms: int = -1


@dataclass(slots=True)
class _Fenced:
    reason: FenceReason
    since_ms: int
    heard_ms: int | None


class FenceReasons:
    """The reasons that one controller knows. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._fenced: dict[NodeId, _Fenced] = {}

    def note(self, node: NodeId, reason: FenceReason, now_ms: int, *, heard_ms: int | None) -> None:
        """The node is fenced for this reason; a reason that is known already keeps its time."""
        known = self._fenced.get(node)
        if known is None or known.reason != reason:
            self._fenced[node] = _Fenced(reason, now_ms, heard_ms)
        else:
            known.heard_ms = heard_ms

    def hear(
        self,
        broker: BrokerImage,
        now_ms: int,
        *,
        is_fenced: bool,
        may_stop: bool,
        has_no_dir: bool,
    ) -> None:
        """Note what the decision on a node's heartbeat says: fenced or not, and why."""
        if not is_fenced:
            self.forget(broker.broker_id)
            return
        reason = FenceReason.JOINING
        if may_stop:
            reason = FenceReason.STOPPED
        elif has_no_dir:
            reason = FenceReason.DISK
        self.note(broker.broker_id, reason, now_ms, heard_ms=now_ms)

    def forget(self, node: NodeId) -> None:
        """The node is not fenced any more."""
        self._fenced.pop(node, None)

    def why(self, broker: BrokerImage, now_ms: int) -> Fencing:
        """Why a node that is fenced in the metadata is."""
        known = self._fenced.get(broker.broker_id)
        if known is None:
            stopped = broker.in_controlled_shutdown
            return Fencing(reason=FenceReason.STOPPED if stopped else FenceReason.UNKNOWN)
        return Fencing(
            reason=known.reason,
            fenced_ms=max(0, now_ms - known.since_ms),
            silent_ms=-1 if known.heard_ms is None else max(0, now_ms - known.heard_ms),
        )
