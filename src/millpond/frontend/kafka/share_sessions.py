"""Share sessions (KIP-932): what a member of a share group reads from this node, remembered between requests.

A session belongs to a member of a group. Its first request has epoch 0 and names everything; later ones
carry the next epoch, and what is added or forgotten; epoch -1 ends it, and what the member still holds
is available again. Acknowledgements travel in the same sequence, with fetches or alone. A session also
ends with the connection that its member used last.

The number of sessions is bounded. Knows no engine: it keeps what others read.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias
from uuid import UUID

from millpond.base.errors import (
    InvalidRequest,
    ShareSessionEpochInvalid,
    ShareSessionNotFound,
    ShareSessionsFull,
)

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

Place: TypeAlias = tuple[UUID, int]


class ShareMemberKey(NamedTuple):
    """The group and the member of a session."""

    group_id: str
    member_id: str


class ShareSession:
    """The partitions that one member reads, in the order in which they are served."""

    __slots__ = ("connection", "epoch", "key", "places", "refused")

    def __init__(self, key: ShareMemberKey, connection: object) -> None:
        self.key = key
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.places: dict[Place, None] = {}
        # Those of them that could not be read the last time; the member was told.
        self.refused: frozenset[Place] = frozenset()

    def update(self, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        for place in added:
            self.places.setdefault(place)
        for place in forgotten:
            self.places.pop(place, None)

    def rotate(self, place: Place) -> None:
        """This one was served: the others come first next time."""
        if place in self.places:
            del self.places[place]
            self.places[place] = None


class ShareSessions:
    """The share sessions of one node."""

    def __init__(self, *, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[ShareMemberKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self, key: ShareMemberKey, epoch: int, *, acknowledges: bool, connection: object
    ) -> ShareSession:
        """The session that a fetch belongs to; one that ends it gets it for the last time.

        Raises ``ShareSessionNotFound``, ``ShareSessionEpochInvalid``, ``ShareSessionsFull``,
        ``InvalidRequest``.
        """
        if epoch != INITIAL_EPOCH:
            return self.acknowledge(key, epoch, connection=connection)
        if acknowledges:
            raise InvalidRequest("the first request of a share session acknowledges nothing")
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._slots:
            raise ShareSessionsFull(f"there are {self._slots} share sessions already")
        session = self._sessions[key] = ShareSession(key, connection)
        return session

    def acknowledge(self, key: ShareMemberKey, epoch: int, *, connection: object) -> ShareSession:
        """The session that goes on, or ends, with this epoch. Raises as ``fetch``."""
        if epoch == INITIAL_EPOCH:
            raise ShareSessionEpochInvalid("a share session begins with a fetch")
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(f"member {key.member_id} has no share session here")
        if epoch == FINAL_EPOCH:
            del self._sessions[key]
            return session
        if epoch != session.epoch:
            raise ShareSessionEpochInvalid(
                f"the session of member {key.member_id} is at epoch {session.epoch}, not {epoch}"
            )
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.connection = connection
        return session

    def lost(self, connection: object) -> list[ShareMemberKey]:
        """End the sessions of a connection that is gone; whose they were."""
        gone = [key for key, one in self._sessions.items() if one.connection is connection]
        for key in gone:
            del self._sessions[key]
        return gone
