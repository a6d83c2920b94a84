"""When the active controller last heard of each node, and each node of it. Soft state: nothing is written.

A controller that takes over counts from then, since the nodes may have spoken to its predecessor a moment
ago: each is given up after the same time without a word as if it had been heard of in that moment. Only the
predecessor itself may be given up sooner (``begin``). A node counts its own session from when it asked, the
controller from when it was asked: so a node knows that its session is over before others lead what it led.
One that comes back is let in when it has read so far that it knows who they are.

There are two limits (docs/adr/0029-suspicion.md). A node that has had no answer for ``silence_ms`` leads
nothing until it has one, so from then on it is safe to have others lead in its place. The controller does
that when a second sign is missing as well: the node's fetches of the metadata log. A node that still fetches
is alive, and is given up only after a whole session. A node that was started with another setting may lead
for longer than the controller's own setting says, so each node says with its heartbeats for how long it
leads, and the longer time counts. A node of an earlier release leads until its session ends, and is given a
whole one. What the controller itself slept through is not counted as silence of a node (``base/stalls.py``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from millpond.base.ids import NodeId, Offset
from millpond.base.stalls import StallMeter
from millpond.metadata.features import has_short_lease
from millpond.metadata.image import BrokerImage, Image

_NO_SIGNS: Mapping[NodeId, int] = MappingProxyType({})

# When a node is looked at again that is silent but gives other signs of life.
_SUSPECT_AGAIN_MS = 250

# A controller that was deposed has this part of its lease, at least, to be heard of by the next one.
_HEARD_AGAIN = 3


@dataclass(slots=True)
class _Session:
    heard_ms: int
    metadata_offset: Offset = -1
    # For how long the node leads without an answer, as it says itself; 0 if it has not said.
    lease_ms: int = 0
    # Whether this controller itself has heard of the node.
    is_first_hand: bool = True
    # Its process was seen to end.
    is_gone: bool = False
    # Where the metadata stood when the node asked to stop; those that take over must have come that far.
    stopping_at: Offset | None = None


class Sessions:
    """Times are monotonic milliseconds."""

    def __init__(
        self, timeout_ms: int, silence_ms: int | None = None, stalls: StallMeter | None = None
    ) -> None:
        """``silence_ms``: a whole session, if it is not said; ``stalls``: what this process slept through."""
        self.timeout_ms = timeout_ms
        self.silence_ms = timeout_ms if silence_ms is None else min(silence_ms, timeout_ms)
        self._stalls = stalls
        self._sessions: dict[NodeId, _Session] = {}
        # What those that were given up must have read before they are let in again.
        self._must_know: dict[NodeId, Offset] = {}

    def begin(
        self,
        image: Image,
        now_ms: int,
        last_offset: Offset = -1,
        *,
        predecessor: tuple[NodeId, int] | None = None,
    ) -> None:
        """Begin as a new controller: no node has sent a heartbeat, and none is late.

        ``predecessor``: the leader before, and since when at least no majority backed it. Its own lease lasts
        from then; it is given some time to be heard of all the same, since it may only have been deposed.
        """
        # Who was given up by a predecessor was so before the last that there is now.
        self._must_know = {node: last_offset for node, one in image.brokers.items() if one.fenced}
        self._sessions = {
            node: _Session(now_ms, is_first_hand=False)
            for node, broker in image.brokers.items()
            if not broker.fenced
        }
        if predecessor is not None and predecessor[0] in self._sessions:
            node, unbacked_ms = predecessor
            heard_ms = max(unbacked_ms, now_ms - self.silence_ms + self.silence_ms // _HEARD_AGAIN)
            self._sessions[node].heard_ms = min(now_ms, heard_ms)

    def hear(
        self,
        node: NodeId,
        now_ms: int,
        *,
        metadata_offset: Offset = -1,
        lease_ms: int | None = None,
    ) -> None:
        """The node is alive. ``lease_ms``: for how long it leads without an answer, if it says so."""
        session = self._sessions.get(node)
        if session is None:
            self._sessions[node] = _Session(now_ms, metadata_offset, lease_ms or 0)
            return
        if lease_ms is not None:
            session.lease_ms = lease_ms
        session.heard_ms = now_ms
        session.is_first_hand = True
        session.is_gone = False
        session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def forget(self, node: NodeId) -> None:
        """The node stopped, or registers anew."""
        self._sessions.pop(node, None)

    def give_up(self, node: NodeId, last_offset: Offset) -> None:
        """The node is fenced, by facts of which this is the offset of the last."""
        self.forget(node)
        self._must_know[node] = last_offset

    def must_know(self, node: NodeId) -> Offset:
        """Up to which fact a node that was given up must have read: until then it may believe it leads."""
        return self._must_know.get(node, -1)

    def lose(self, node: NodeId) -> None:
        """The node's process has ended: it is late, however lately it was heard of."""
        session = self._sessions.get(node)
        if session is not None:
            session.is_gone = True

    def is_gone(self, node: NodeId) -> bool:
        """Whether the node's process was seen to end, and nothing was heard of it since."""
        session = self._sessions.get(node)
        return session is not None and session.is_gone

    def is_live(self, node: NodeId, now_ms: int) -> bool:
        """Whether the node may still be running, as far as this controller can tell."""
        session = self._sessions.get(node)
        return (
            session is not None
            and not session.is_gone
            and now_ms - session.heard_ms < max(self.timeout_ms, session.lease_ms)
        )

    def is_first_hand(self, node: NodeId) -> bool:
        """Whether this controller itself has heard of the node."""
        session = self._sessions.get(node)
        return session is not None and session.is_first_hand

    def silent_ms(self, node: NodeId, now_ms: int) -> int:
        """For how long the node has been silent, without what this controller slept through."""
        session = self._sessions.get(node)
        return self._since(session.heard_ms, now_ms) if session is not None else 0

    def late(
        self, image: Image, now_ms: int, signs: Mapping[NodeId, int] = _NO_SIGNS
    ) -> list[NodeId]:
        """Nodes that serve and have not been heard of for too long, the longest silent first.

        ``signs``: when each node was last heard of in another way than by its heartbeats.
        """
        silent = []
        for node, broker in image.brokers.items():
            if not broker.fenced:
                # One that was registered by a predecessor and never seen here begins its session now.
                session = self._sessions.setdefault(node, _Session(now_ms, is_first_hand=False))
                if session.is_gone or self._is_late(broker, session, now_ms, signs.get(node)):
                    silent.append((session.heard_ms, node))
        return [node for _, node in sorted(silent)]

    def _is_late(
        self, broker: BrokerImage, session: _Session, now_ms: int, sign_ms: int | None
    ) -> bool:
        silent_ms = self._since(session.heard_ms, now_ms)
        if silent_ms >= max(self.timeout_ms, session.lease_ms):
            return True
        if silent_ms < max(self.silence_ms, session.lease_ms) or not has_short_lease(broker):
            return False
        return sign_ms is None or self._since(sign_ms, now_ms) >= self.silence_ms // 2

    def _since(self, then_ms: int, now_ms: int) -> int:
        if self._stalls is None:
            return now_ms - then_ms
        return self._stalls.silent_ms(then_ms, now_ms)

    def next_late_ms(self, nodes: Iterable[NodeId], now_ms: int) -> int:
        """When to look again whether one of these nodes is late, if nothing is heard of them."""
        heard = [
            session.heard_ms for node in nodes if (session := self._sessions.get(node)) is not None
        ]
        due_ms = min(heard, default=now_ms) + self.silence_ms
        return due_ms if due_ms > now_ms else now_ms + min(_SUSPECT_AGAIN_MS, self.silence_ms)

    def wants_stop(self, node: NodeId, offset: Offset) -> None:
        """The node asked to stop when the metadata ended here; only the first time counts."""
        session = self._sessions.get(node)
        if session is not None and session.stopping_at is None:
            session.stopping_at = offset

    def stopping_at(self, node: NodeId) -> Offset | None:
        """Where the metadata stood when the node asked to stop."""
        session = self._sessions.get(node)
        return None if session is None else session.stopping_at

    def lowest_offset(self, nodes: Iterable[NodeId]) -> Offset | None:
        """How far all of these nodes have come in the metadata; None if there are none."""
        found = [
            session.metadata_offset
            for node in nodes
            if (session := self._sessions.get(node)) is not None
        ]
        return min(found, default=None)


class OwnSession:
    """Whether a node may still believe that it leads what the metadata say. Times are monotonic milliseconds.

    One that has never begun is that of a node without a controller elsewhere: it does not end.
    """

    __slots__ = ("_asked_ms", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._asked_ms: int | None = None

    def renew(self, asked_ms: int) -> None:
        """The controller has answered what it was asked then."""
        if self._asked_ms is None or asked_ms > self._asked_ms:
            self._asked_ms = asked_ms

    def end(self, now_ms: int) -> None:
        """The controller has given this node up."""
        self._asked_ms = now_ms - self.timeout_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether the controller may have given this node up by now."""
        return self._asked_ms is not None and now_ms - self._asked_ms >= self.timeout_ms

    def left_ms(self, now_ms: int) -> int | None:
        """How long it lasts yet, if nothing is heard; None if it has not begun."""
        return None if self._asked_ms is None else self._asked_ms + self.timeout_ms - now_ms
