"""What nodes of one cluster ask each other, in words of no protocol, and how.

``Peers`` is the way out: the server gives one that speaks Kafka's own inter-broker APIs over sockets, the
simulator one that delays, loses and doubles. ``PeerHandlers`` is the way in: each part of the engine says
there which requests it answers, and whoever brings one (a front-end, the simulator) hands it over. The
quorum's own requests are those of ``raft.messages``; they go by ``Peers.ask_quorum``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast, get_args
from uuid import UUID

from millpond.base import errors
from millpond.base.errors import InvalidRequest, MillpondError
from millpond.base.ids import LeaderEpoch, NodeId, Offset, ProducerId, TopicPartition
from millpond.group.share.records import ShareKey, StateBatch
from millpond.metadata.controller import CreateTopic, TopicResult
from millpond.metadata.records import BrokerEndpoint
from millpond.raft.messages import Answer, Request
from millpond.replication.fetch_session import NO_SESSION, OUT_OF_SESSION, ReplicaPosition
from millpond.timer.shard import Schedule

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest(Generic[AnswerT]):
    """A question whose answer is an ``AnswerT``, or a ``MillpondError`` that is raised."""


class Peers(Protocol):
    """The other nodes."""

    async def call(self, to: NodeId, request: PeerRequest[AnswerT], *, timeout_ms: int) -> AnswerT:
        """Ask a node. Raises ``PeerUnreachable`` if no answer comes, or what the peer refuses with."""
        ...

    async def ask_quorum(
        self, to: NodeId, request: Request, *, timeout_ms: int, leave_by_ms: int | None = None
    ) -> Answer:
        """Ask a replica of the quorum. Raises ``PeerUnreachable``; refusals are in the answer.

        ``leave_by_ms``: a request that has not been sent by then, in monotonic time, is not sent.
        """
        ...


class PeerProof(Protocol):
    """Whether other nodes can prove that they belong to this cluster, and this one to them."""

    async def reason_against(
        self, node: NodeId, address: tuple[str, int] | None = None
    ) -> str | None:
        """Why this node and that one, at this address or where it is known to be, could not prove it to each
        other, in words; None if they could.
        """
        ...


class PeerHandlers:
    """Who in this node answers what."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], Callable[[Any], Awaitable[Any]]] = {}

    def serve(
        self,
        kind: type[PeerRequest[AnswerT]],
        handler: Callable[[Any], Awaitable[AnswerT]],
    ) -> None:
        """Requests of this kind go to this handler."""
        assert kind not in self._handlers
        self._handlers[kind] = handler

    def serve_quorum(self, handler: Callable[[Request], Awaitable[Answer]]) -> None:
        """Requests of other replicas of the quorum go to this handler."""
        for kind in get_args(Request):
            self._handlers[kind] = handler

    async def answer(self, request: PeerRequest[AnswerT]) -> AnswerT:
        """Answer a peer's question, or raise why not. The quorum's are answered, too."""
        handler = self._handlers.get(type(request))
        if handler is None:
            raise InvalidRequest(f"this node does not answer {type(request).__name__}")
        return cast("AnswerT", await handler(request))

    async def answer_quorum(self, request: Request) -> Answer:
        """Answer another replica of the quorum, or raise why not."""
        return cast("Answer", await self._handlers[type(request)](request))


# --- to the controller ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode(PeerRequest[int]):
    """A node is here and wants to take part; the answer is its broker epoch. Kafka: BrokerRegistration."""

    node_id: NodeId
    cluster_id: str
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    rack: str | None
    log_dirs: tuple[UUID, ...]
    # Names with the lowest and highest level that the node understands.
    features: tuple[tuple[str, int, int], ...] = ()
    # The epoch of an earlier registration since which its disk has lost nothing, -1 if there is none; and the
    # incarnations that asked for later ones, of which the node may not have heard whether they were granted.
    previous_epoch: int = -1
    previous_incarnations: tuple[UUID, ...] = ()
    # Replicas (topic and partition) whose committed records are not on its disk any more.
    lost_replicas: tuple[tuple[UUID, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """What the controller thinks of a node."""

    is_caught_up: bool
    is_fenced: bool
    may_stop: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHeartbeat(PeerRequest[HeartbeatAnswer]):
    """A node is alive. Kafka: BrokerHeartbeat."""

    node_id: NodeId
    broker_epoch: int
    metadata_offset: Offset
    wants_fence: bool
    wants_stop: bool
    # Directories that take no writes.
    offline_dirs: tuple[UUID, ...] = ()
    # Leaders that leave its fetches unanswered, and followers that have ceased to fetch.
    silent_leaders: tuple[NodeId, ...] = ()
    silent_followers: tuple[NodeId, ...] = ()
    # For how long it leads without an answer; None if it does not say.
    lease_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncChange:
    """A leader's wish: these replicas are in sync, each with the broker epoch it fetched under (or -1)."""

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncResult:
    """The partition as the controller has it now, or why the wish was refused."""

    topic_id: UUID
    partition: int
    leader: NodeId = -1
    leader_epoch: LeaderEpoch = -1
    partition_epoch: int = -1
    isr: tuple[NodeId, ...] = ()
    error: MillpondError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterInSync(PeerRequest[Sequence[InSyncResult]]):
    """Wishes of one leader. Kafka: AlterPartition."""

    node_id: NodeId
    broker_epoch: int
    changes: tuple[InSyncChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    """The log directory in which the asking node keeps its replica of a partition."""

    directory: UUID
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignDirectories(PeerRequest[Mapping[ReplicaPlace, MillpondError | None]]):
    """A node says in which of its log directories its replicas lie. Kafka: AssignReplicasToDirs.

    The answer has every place that was asked about: None where the metadata name that directory now, or why
    they do not. At most ``limits.DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX`` places at once.

    A node says so for every replica that lies elsewhere than the metadata have it, also for those in a
    directory that is offline; a node with one directory need not where the metadata name none
    (``NO_DIRECTORY``, ``UNASSIGNED_DIRECTORY``). A replica that the metadata have in a directory that is
    offline, or that the node is not registered with, counts as empty from when it is placed elsewhere.
    Refused with ``UnsupportedVersion`` before level 3 of ``millpond.version``.
    """

    node_id: NodeId
    broker_epoch: int
    places: tuple[ReplicaPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds(PeerRequest[range]):
    """A block of producer ids that nobody else gets. Kafka: AllocateProducerIds."""

    node_id: NodeId
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeTopics(PeerRequest[Sequence[TopicResult]]):
    """Topics that a node needs: internal ones, or those made when first used. Kafka: CreateTopics."""

    commands: tuple[CreateTopic, ...]


# --- to the leader of partitions ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRead:
    """What follows in one partition; or where the follower's log parts from the leader's; or why not."""

    topic_id: UUID
    partition: int
    high_watermark: Offset = -1
    log_start: Offset = -1
    # (epoch, end offset) up to which the follower must look back.
    diverging: tuple[LeaderEpoch, Offset] | None = None
    records: bytes | bytearray | memoryview = b""
    error: MillpondError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReads:
    """What a leader answers a follower: the session in which it remembers the positions, if it does, and
    partitions about which there is something to say.
    """

    session_id: int = NO_SESSION
    reads: Sequence[ReplicaRead] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetch(PeerRequest[ReplicaReads]):
    """A follower pulls, from all partitions that it follows this leader in. Kafka: Fetch with a replica id.

    In a session (KIP-227) it names those whose position has changed since its last fetch, and those that it
    asks for no longer. Each fetch of a session carries the next epoch; one that does not is refused.
    """

    node_id: NodeId
    broker_epoch: int
    wait_ms: int
    bytes_min: int
    bytes_max: int
    positions: tuple[ReplicaPosition, ...]
    forgotten: tuple[tuple[UUID, int], ...] = ()
    session_id: int = NO_SESSION
    session_epoch: int = OUT_OF_SESSION


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """The end of a producer's transaction, for these partitions."""

    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    # Of the transaction's version 2 (KIP-890): the epoch is the next one's already.
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers(PeerRequest[Sequence[dict[TopicPartition, MillpondError | None]]]):
    """A coordinator ends transactions; an answer for each marker. Kafka: WriteTxnMarkers."""

    markers: tuple[TransactionMarker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindOffset(PeerRequest[Offset]):
    """Where a place (``EARLIEST``, ``LATEST``) is in a partition. Kafka: ListOffsets."""

    partition: TopicPartition
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBatch(PeerRequest[Offset]):
    """A batch that this node made, for all replicas; the answer is its first offset. Kafka: Produce."""

    partition: TopicPartition
    topic_id: UUID
    records: bytes
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReplica(PeerRequest[bytes | bytearray | memoryview]):
    """What a replica has from an offset on and knows to be committed, whoever leads. Kafka: Fetch."""

    topic_id: UUID
    partition: TopicPartition
    leader_epoch: LeaderEpoch
    offset: Offset
    bytes_max: int


# --- to the keeper of a share partition's state ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateRead:
    """What is kept of a share partition; ``start`` is -1 if nothing is."""

    state_epoch: int = 0
    leader_epoch: LeaderEpoch = -1
    start: Offset = -1
    batches: tuple[StateBatch, ...] = ()
    # How many records behind the start are finished, in a summary; -1 if it does not say.
    finished: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareState(PeerRequest[None]):
    """Begin a share partition (anew) at an offset. Kafka: InitializeShareGroupState."""

    key: ShareKey
    state_epoch: int
    start: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareState(PeerRequest[ShareStateRead]):
    """The leader of a partition begins to hand out its records. Kafka: ReadShareGroupState.

    From then on leaders of earlier epochs are refused.
    """

    key: ShareKey
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShareState(PeerRequest[None]):
    """What became of records; ``start`` is -1 where it has not moved. Kafka: WriteShareGroupState."""

    key: ShareKey
    state_epoch: int
    leader_epoch: LeaderEpoch
    start: Offset = -1
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareState(PeerRequest[None]):
    """The group gives a partition up. Kafka: DeleteShareGroupState."""

    key: ShareKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeShareState(PeerRequest[ShareStateRead]):
    """How far the group is; the answer has no batches. Kafka: ReadShareGroupStateSummary."""

    key: ShareKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ListShareState(PeerRequest[Mapping[ShareKey, ShareStateRead]]):
    """Summaries of all that a node keeps of a group. Kafka: ReadShareGroupStateSummary, without topics."""

    group_id: str


# --- to the host of a partition's timers -----------------------------------------------------------


class TimerPosition(NamedTuple):
    """What the host of timers answers to a target's leader."""

    # Below which offset of the target all delayed records have become timers.
    position: Offset
    # Whether the leader should take no more delayed records.
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTimers(PeerRequest[TimerPosition]):
    """The leader of a partition passes on the delayed records that its log holds; they are kept for good when
    the answer comes. Kafka has no such request.
    """

    command: Schedule


# --- to the coordinator of a transaction ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTransaction(PeerRequest[dict[TopicPartition, MillpondError | None]]):
    """A leader asks whether a write belongs to a transaction, or adds its partition to it (KIP-890).

    Kafka: AddPartitionsToTxn, version 4 and above.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    # Ask only; nothing is added.
    verify_only: bool
    partitions: tuple[TopicPartition, ...] = field(default_factory=tuple)


# --- refusals as values ---------------------------------------------------------------------------


def encode_error(error: MillpondError) -> list[str]:
    """Make values of a refusal, so that another node can raise it."""
    return [type(error).__name__, str(error)]


def decode_error(value: object) -> MillpondError:
    """Read what ``encode_error`` wrote; a class that this node does not know is a plain refusal."""
    if not isinstance(value, list) or len(value) != 2:
        return MillpondError("the peer refused, and did not say why")
    name, text = map(str, value)
    kind = getattr(errors, name, MillpondError)
    if not (isinstance(kind, type) and issubclass(kind, MillpondError)):
        kind = MillpondError
    return kind(text)
