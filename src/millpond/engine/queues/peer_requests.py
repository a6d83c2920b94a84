"""What nodes ask each other about queues; ``millpond.peer`` has a file for each, which sends it.

Declarations go to the controller; what clients do with a queue goes to the node that hosts it.
"""

from dataclasses import dataclass

from millpond.base.ids import NodeId, Offset
from millpond.engine.peers import PeerRequest
from millpond.engine.queues.remote.queue_messages import QueueEvent, QueueRequest
from millpond.rabbit.commands import Command
from millpond.rabbit.records import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDecision:
    """What the controller decided; a node knows it when it has applied the metadata up to ``offset``."""

    offset: Offset
    queue: Queue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideOnQueues(PeerRequest[QueueDecision]):
    """To the controller: a command about exchanges, queues, bindings or users, from a client of a node.

    ``life`` is the node's, in this life: what does not last ends with it.
    """

    node_id: NodeId
    life: str
    command: Command


@dataclass(frozen=True, slots=True, kw_only=True)
class SendQueueRequests(PeerRequest[None]):
    """To the host of queues: what clients of another node want of them, in order.

    ``session`` is one unbroken way between the two; a higher one ends those before it. ``number`` counts
    the requests of a session, from 0.
    """

    node_id: NodeId
    life: str
    session: int
    number: int
    requests: tuple[QueueRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectEvents(PeerRequest[tuple[QueueEvent, ...]]):
    """To the host of queues: what has happened, as soon as something has. ``seen`` answers had events."""

    node_id: NodeId
    life: str
    session: int
    seen: int
    wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayQueueRequests(PeerRequest[None]):
    """To a node that reaches a host of queues which the sender does not reach: pass this on to it."""

    to: NodeId
    requests: SendQueueRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayCollect(PeerRequest[tuple[QueueEvent, ...]]):
    """To a node that reaches a host of queues which the sender does not reach: ask it for its events."""

    to: NodeId
    collect: CollectEvents


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReply(PeerRequest[None]):
    """To the node of a client that waits for a direct reply: here it is. The sender waits for no answer."""

    key: str
    batch: bytes
