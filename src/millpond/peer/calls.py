"""How one kind of call to a peer travels: as which API, in which versions, over which connection.

During a rolling upgrade nodes of two releases are one cluster. So a call names the newest version that this
program knows and the oldest that still carries all of the request; which one is used is settled with each
connection (``versions.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from millpond.base import errors
from millpond.base.errors import MillpondError
from millpond.engine.peers import PeerRequest
from millpond.peer.versions import Versions
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.error_codes import CODES

AnswerT = TypeVar("AnswerT")


class ConnectionKind(Enum):
    """The purposes that have a connection of their own: answers come in order, and a call that may wait long
    must not delay one that may not."""

    QUORUM = "quorum"
    CONTROL = "control"  # registrations, requests to the controller
    HEARTBEATS = "heartbeats"  # a node leads as long as they are answered
    REPLICAS = "replicas"  # long polls of followers
    TRANSACTIONS = "transactions"
    RECORDS = "records"  # a node's own writes, which wait for replicas
    TIMERS = "timers"  # delayed records, which wait for replicas of __timers
    REPAIRS = "repairs"  # what a disk has damaged
    QUEUE_COMMANDS = "queue commands"  # to the controller, which waits for the quorum
    QUEUE_REQUESTS = "queue requests"
    QUEUE_EVENTS = "queue events"  # long polls
    # The same, passed on for two other nodes that do not reach each other.
    RELAYED_REQUESTS = "relayed requests"
    RELAYED_EVENTS = "relayed events"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCall(Generic[AnswerT]):
    """One kind of call. ``to_wire`` makes the request's message; ``from_wire`` is given the request and the
    answer's message, and returns the answer or raises what the peer refused with (``refusal_of``)."""

    kind: type[PeerRequest[AnswerT]]
    api_key: ApiKey
    version: int
    to_wire: Callable[[Any], object]
    from_wire: Callable[[Any, Any], AnswerT]
    connection: ConnectionKind = ConnectionKind.CONTROL
    # Where it is not the newest itself.
    oldest: int | None = None

    def __post_init__(self) -> None:
        spec = APIS[self.api_key]
        assert spec.min_version <= self.versions.oldest <= self.version <= spec.max_version

    @property
    def versions(self) -> Versions:
        """Return the versions in which this can be asked."""
        oldest = self.version if self.oldest is None else self.oldest
        return Versions(self.api_key, oldest=oldest, newest=self.version)


# Where several classes have one code: what it means when a peer says it.
_MEANINGS: dict[ErrorCode, type[MillpondError]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: MillpondError,
    ErrorCode.INVALID_REQUEST: errors.InvalidRequest,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: errors.NotLeader,
    ErrorCode.REQUEST_TIMED_OUT: errors.RequestTimedOut,
    ErrorCode.KAFKA_STORAGE_ERROR: errors.StorageFailure,
    ErrorCode.STALE_BROKER_EPOCH: errors.StaleBrokerEpoch,
}
_CLASSES: dict[int, type[MillpondError]] = {
    **{int(code): kind for kind, code in reversed(CODES.items())},
    **{int(code): kind for code, kind in _MEANINGS.items()},
}


def refusal_of(code: int, message: str | None = None) -> MillpondError | None:
    """Return the error that a peer's code stands for; None if it is no error."""
    if code == ErrorCode.NONE:
        return None
    return _CLASSES.get(code, MillpondError)(message or f"the peer refused: {_name_of(code)}")


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def raise_refusal(code: int, message: str | None = None) -> None:
    """Raise the error that a peer's code stands for, if it is one."""
    refusal = refusal_of(code, message)
    if refusal is not None:
        raise refusal
