"""The fetch sessions of followers at their leader (KIP-227): the position of each in each partition.

A follower of thousands of partitions says what has changed, and it is answered from what has changed: a
session keeps the partitions that are *due*, those about which there may be something to say. One becomes due
when the follower speaks of it, when its log grows, when the high watermark moves or when it is led no more;
it stays so until there is nothing to say. All are due when the follower has registered again: it is counted
as in sync by the broker epoch of a fetch, and fetches without news have to tell the new one, too.
Nothing else here walks over all partitions but the beginning and the end of a session.

A node has one session. It is replaced by the next one that the node begins, and there is none for a node that
follows nothing here: a request may claim any node id, and ids that never come again must not be kept.
"""

import asyncio
from collections.abc import Iterable
from uuid import UUID

from millpond.base.errors import FetchSessionEpochInvalid, FetchSessionNotFound
from millpond.base.ids import NodeId
from millpond.base.rng import Rng
from millpond.engine.peers import ReplicaFetch
from millpond.replication.fetch_session import (
    NO_SESSION,
    OUT_OF_SESSION,
    SESSION_BEGINS,
    ReplicaPosition,
)
from millpond.replication.leadership import NEVER_MS, Follower, Pulse
from millpond.replication.partition import Partition

_EPOCH_MAX = 2**31 - 1


class Followed:
    """One partition of a session, which watches the end of its log."""

    __slots__ = ("_session", "_watched", "follower", "is_held_back", "position")

    def __init__(self, session: "Session", position: ReplicaPosition) -> None:
        self._session = session
        self._watched: Partition | None = None
        self.position = position
        # The leader's view of the follower, since the last admitted fetch.
        self.follower: Follower | None = None
        # Whether its bandwidth is used up, so that waiting fetches need not be woken for more records.
        self.is_held_back = False

    def watch(self, partition: Partition) -> None:
        """Watch the partition, which may be another replica than the last time."""
        if self._watched is not partition:
            self.leave()
            self._watched = partition
            partition.end_watchers[self] = None

    def leave(self) -> None:
        """Stop watching."""
        if self._watched is not None:
            self._watched.end_watchers.pop(self, None)
            self._watched = None

    def detach(self) -> None:
        """Forget the position until a fetch of this partition is admitted again."""
        if self.follower is not None:
            self.follower.detach()
            self.follower = None

    # --- what its partition says ------------------------------------------------------------------

    def on_append(self, added_bytes: int) -> None:
        self._session.due[self] = None
        wait = self._session.wait
        if wait is not None and not self.is_held_back:
            wait.on_append(added_bytes)

    def on_committed(self) -> None:
        self._session.due[self] = None
        if not self.is_held_back:
            self._session.wake()

    def on_gone(self) -> None:
        self._watched = None
        self._session.due[self] = None
        self._session.wake()


class Session:
    """The positions of one follower."""

    __slots__ = ("_positions", "broker_epoch", "due", "epoch", "pulse", "session_id", "wait")

    def __init__(self, session_id: int, *, broker_epoch: int) -> None:
        self.session_id = session_id
        # The broker epoch under which the positions were last admitted.
        self.broker_epoch = broker_epoch
        self.epoch = SESSION_BEGINS + 1
        self.pulse = Pulse()
        self._positions: dict[tuple[UUID, int], Followed] = {}
        # In the order in which they are served: a partition that got records goes to the end.
        self.due: dict[Followed, None] = {}
        # The fetch that waits, if one does.
        self.wait: Wait | None = None

    def update(
        self, positions: Iterable[ReplicaPosition], forgotten: Iterable[tuple[UUID, int]]
    ) -> None:
        """Apply a fetch request to the positions."""
        for key in forgotten:
            gone = self._positions.pop(key, None)
            if gone is not None:
                self._let_go(gone)
        for position in positions:
            key = position.topic_id, position.partition
            followed = self._positions.get(key)
            if followed is None:
                followed = self._positions[key] = Followed(self, position)
            else:
                followed.position = position
            self.due[followed] = None

    def renew(self, broker_epoch: int) -> None:
        """Check every position again if the node has registered again since its last fetch."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.due.update(dict.fromkeys(self._positions.values()))

    def wake(self) -> None:
        """Wake the waiting fetch."""
        if self.wait is not None:
            self.wait.end()

    def close(self) -> None:
        """End the session; a waiting fetch is answered with the present records."""
        self.wake()
        for followed in self._positions.values():
            self._let_go(followed)
        self._positions.clear()

    def _let_go(self, followed: Followed) -> None:
        followed.leave()
        followed.detach()
        self.due.pop(followed, None)

    @property
    def follows_something(self) -> bool:
        """Whether any of its positions was admitted."""
        return any(one.follower is not None for one in self._positions.values())


class Wait:
    """A fetch that waits for so many bytes, or for a change that must be answered at once."""

    __slots__ = ("_missing_bytes", "over")

    def __init__(self, bytes_min: int) -> None:
        self._missing_bytes = bytes_min
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_append(self, added_bytes: int) -> None:
        self._missing_bytes -= added_bytes
        if self._missing_bytes <= 0:
            self.end()

    def end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


class Sessions:
    """The sessions of one leader, one for each node at most."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._by_node: dict[NodeId, Session] = {}

    def __len__(self) -> int:
        return len(self._by_node)

    def begin(self, request: ReplicaFetch) -> Session:
        """The session that a fetch belongs to, with what it says; one of its own if it belongs to none.

        Raises ``FetchSessionNotFound``, ``FetchSessionEpochInvalid``.
        """
        if request.session_epoch in {SESSION_BEGINS, OUT_OF_SESSION}:
            if request.session_epoch == SESSION_BEGINS:
                self._drop(request.node_id)
            session = Session(NO_SESSION, broker_epoch=request.broker_epoch)
        else:
            session = self._known(request)
            session.renew(request.broker_epoch)
        session.update(request.positions, request.forgotten)
        return session

    def keep(self, request: ReplicaFetch, session: Session) -> None:
        """Keep the session of a first fetch if the node follows a partition here."""
        if request.session_epoch == SESSION_BEGINS and session.follows_something:
            session.session_id = self._rng.randrange(_EPOCH_MAX) + 1
            self._by_node[request.node_id] = session

    def end(self, session: Session) -> None:
        """End a fetch; a session without an id ends with it."""
        if session.session_id == NO_SESSION:
            session.close()

    def wake(self, nodes: Iterable[NodeId]) -> None:
        """Answer the waiting fetches of nodes with the present records."""
        for node in nodes:
            session = self._by_node.get(node)
            if session is not None:
                session.wake()

    def fetched_ms(self, node: NodeId) -> int:
        """Return when a node last fetched in its session; the smallest time if it has none."""
        session = self._by_node.get(node)
        return NEVER_MS if session is None else session.pulse.last_ms

    def _known(self, request: ReplicaFetch) -> Session:
        session = self._by_node.get(request.node_id)
        if session is None or session.session_id != request.session_id:
            raise FetchSessionNotFound(
                f"node {request.node_id} has no fetch session {request.session_id} here"
            )
        if session.epoch != request.session_epoch or session.wait is not None:
            raise FetchSessionEpochInvalid(
                f"fetch session {request.session_id} of node {request.node_id} goes on with epoch "
                f"{session.epoch}, not {request.session_epoch}"
            )
        session.epoch = session.epoch + 1 if session.epoch < _EPOCH_MAX else SESSION_BEGINS + 1
        return session

    def _drop(self, node: NodeId) -> None:
        session = self._by_node.pop(node, None)
        if session is not None:
            session.close()
