"""Every error that the broker, a client or the disk can cause, without any protocol's vocabulary.

Programming errors are asserts. Each class here is one reason; each front-end maps the classes to its
protocol's codes in one table. A message says what happened, with the numbers, and what to do about it.
"""


class MillpondError(Exception):
    """Base class of every error that the broker raises on purpose."""


# --- what a peer sent -------------------------------------------------------------------------


class MalformedData(MillpondError):
    """Bytes that do not decode as the type that they should be."""


class MalformedVarint(MalformedData):
    """A variable-length integer that does not end."""


class RemoteProtocolError(MalformedData):
    """The peer broke the protocol; the connection must be closed."""


class LocalProtocolError(MillpondError):
    """The caller asked to send something that the protocol does not allow."""


class InvalidRequest(MillpondError):
    """A well-formed request that contradicts itself."""


class UnsupportedVersion(MillpondError):
    """A request or a field that this version of the protocol does not have."""


# --- record batches ---------------------------------------------------------------------------


class CorruptBatch(MalformedData):
    """A record batch whose checksum, size or structure is wrong."""


class UnreadableBatch(CorruptBatch):
    """A stored batch whose checksum is right but whose records cannot be decoded: an older release appended
    it without checking. A reader may continue after the batch, at ``next_offset``.
    """

    def __init__(self, message: str, *, first_offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.next_offset = next_offset


class InvalidRecord(MillpondError):
    """A batch, or some of its records, that the topic does not accept; ``positions`` are the records'
    indexes.
    """

    def __init__(self, message: str, *, positions: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.positions = positions


class InvalidTimestamp(MillpondError):
    """Records whose timestamp is further from now than the topic allows; ``positions`` are their indexes."""

    def __init__(self, message: str, *, positions: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.positions = positions


class LongValidation(Exception):
    """Not a refusal: the records of this batch take too long to check on the event loop. The caller checks
    them on a thread, then appends the batch (``Partitions.append_in_thread``).
    """


class UnsupportedCompression(MillpondError):
    """A compression codec that does not exist or is not allowed here."""


class BatchTooLarge(MillpondError):
    """A batch over ``max.message.bytes``, or one that becomes too large when it is decompressed."""


class BatchExceedsSegment(BatchTooLarge):
    """A batch that is larger than a segment of its topic."""


# --- producers --------------------------------------------------------------------------------


class OutOfOrderSequence(MillpondError):
    """An idempotent producer skipped a sequence number."""


class DuplicateSequence(MillpondError):
    """A batch older than the window in which duplicates are recognised."""


class ProducerFenced(MillpondError):
    """An older incarnation of a producer, fenced by a newer one."""


class UnknownProducer(MillpondError):
    """A producer id that the broker never assigned or has forgotten."""


class InvalidTransactionState(MillpondError):
    """A write or a marker that the state of the producer's transaction does not allow."""


class TransactionAbortable(InvalidTransactionState):
    """A write to a partition that was not added to the transaction: the producer may abort and continue."""


class TransactionalIdMissing(InvalidTransactionState):
    """A transactional batch in a request that names no transactional id."""


class TransactionFenced(MillpondError):
    """A newer incarnation has the transactional id, or its transaction took too long."""


class ConcurrentTransactions(MillpondError):
    """The previous transaction is still being completed; the client must retry."""


class InvalidProducerMapping(MillpondError):
    """The transactional id is unknown or belongs to another producer."""


class InvalidTransactionTimeout(MillpondError):
    """A transaction time-out longer than the broker allows."""


class TransactionNotFound(MillpondError):
    """No such transactional id."""


class MarkerFenced(MillpondError):
    """A marker from a transaction coordinator that has been replaced."""


# --- topics, partitions, positions --------------------------------------------------------------


class UnknownTopic(MillpondError):
    """No such topic, or no such partition of it."""


class UnknownTopicId(MillpondError):
    """No topic has this id."""


class TopicExists(MillpondError):
    """A topic of this name exists already."""


class InvalidTopicName(MillpondError):
    """A name that is not allowed for a topic."""


class InvalidPartitions(MillpondError):
    """A partition count that is not allowed."""


class InvalidReplicationFactor(MillpondError):
    """More replicas requested than there are nodes, or none."""


class InvalidReplicaAssignment(MillpondError):
    """A replica assignment that names unknown nodes or is incomplete."""


class InvalidConfig(MillpondError):
    """A setting with an unknown name or an invalid value."""


class NoReassignment(MillpondError):
    """No reassignment of this partition is in progress."""


class InvalidUpdateVersion(MillpondError):
    """A feature cannot change from its present level to the requested one."""


class PolicyViolation(MillpondError):
    """A request that the protocol allows and this broker's policy forbids."""


class OffsetOutOfRange(MillpondError):
    """An offset before the start or after the end of the log."""

    def __init__(self, message: str, *, start_offset: int = -1, end_offset: int = -1) -> None:
        super().__init__(message)
        self.start_offset = start_offset
        self.end_offset = end_offset


class NotLeader(MillpondError):
    """Another node leads this partition."""


class FencedLeaderEpoch(MillpondError):
    """The request names an older leader epoch than this node's."""


class UnknownLeaderEpoch(MillpondError):
    """The request names a newer leader epoch than this node's."""


class OffsetNotAvailable(MillpondError):
    """A new leader does not know yet how much of its log is committed; the client must retry."""


class NotEnoughReplicas(MillpondError):
    """Fewer replicas are in sync than ``min.insync.replicas`` requires; nothing was written."""


class TimersNotReady(NotEnoughReplicas):
    """Delayed records cannot be taken now, because their timers could not be kept; a producer tries again."""


class TimerPositionGap(MillpondError):
    """Delayed records came before those that lie ahead of them; the leader reads the position again."""


# --- the cluster ------------------------------------------------------------------------------


class PeerUnreachable(MillpondError):
    """Another node of the cluster did not answer in time, or no connection to it could be made."""


class PeerGone(PeerUnreachable):
    """Another node of the cluster refuses connections: its process has ended."""


class PeerTooOld(PeerUnreachable):
    """Another node runs a version that does not know this request; it must be upgraded first."""


class PeerNotProved(PeerUnreachable):
    """The other node, or this one, has not proved that it belongs to the cluster."""


class ClusterAuthorizationFailed(MillpondError):
    """Only a node of the cluster may send this request, and the sender has not proved that it is one."""


class NotController(MillpondError):
    """Another node leads the quorum; the request must go to that node."""


class StaleBrokerEpoch(MillpondError):
    """The node has registered again since, or another process registered under its id."""


class NodeNotRegistered(MillpondError):
    """The controller does not know this node; it must register first."""


class DuplicateRegistration(MillpondError):
    """Another running node has this id."""


class WrongCluster(MillpondError):
    """The node belongs to another cluster; its data and its configuration do not fit together."""


class LeaderNotAvailable(MillpondError):
    """No replica that may lead the partition is up."""


class NotEnoughReplicasAfterAppend(MillpondError):
    """Written here, but fewer replicas than required have it; a producer may retry."""


class InvalidRegistration(MillpondError):
    """A node's registration contradicts itself or the cluster's metadata."""


class LogDirNotFound(MillpondError):
    """A log directory that the node is not registered with."""


class ElectionNotNeeded(MillpondError):
    """The preferred (or the only possible) replica leads the partition already."""


class PreferredLeaderNotAvailable(MillpondError):
    """The first of the replicas is down or not in sync."""


class EligibleLeadersNotAvailable(MillpondError):
    """No replica that could lead is up."""


class NewLeaderElected(MillpondError):
    """The leader's request was applied, and ended its own leadership."""


class FencedNode(MillpondError):
    """The controller has fenced this node: it may not serve clients until the controller hears from it
    again.
    """


# --- the quorum -------------------------------------------------------------------------------


class QuorumDiverged(MillpondError):
    """The leader's log lacks committed records: to continue would lose data silently."""


class VoterChangePending(MillpondError):
    """Another change of voters is in progress; only one at a time is possible."""


class IneligibleReplica(MillpondError):
    """A replica that is down cannot be in sync."""


class VoterExists(MillpondError):
    """The node is a voter already."""


class VoterNotFound(MillpondError):
    """No such voter."""


class VotersSilent(MillpondError):
    """Too few of the future voters follow the log: the change might never be committed, nor reverted."""


class VoterBehind(MillpondError):
    """A node that is behind the log must not become a voter: a majority might have to wait for it."""


# --- users and clients --------------------------------------------------------------------------


class UnacceptableCredential(MillpondError):
    """A credential that is too weak, or that names no user."""


class CredentialNotFound(MillpondError):
    """The user has no such credential."""


class DuplicateResource(MillpondError):
    """One request names the same resource twice."""


class UnsupportedMechanism(MillpondError):
    """An unknown or disabled SASL mechanism."""


class ThrottlingQuotaExceeded(MillpondError):
    """The client has exceeded its quota; it may retry after ``throttle_ms``."""

    def __init__(self, message: str, *, throttle_ms: int = 0) -> None:
        super().__init__(message)
        self.throttle_ms = throttle_ms


class UnknownSubscription(MillpondError):
    """Metrics pushed for a subscription that has changed; the client must fetch the new one."""


class TelemetryTooLarge(MillpondError):
    """One push holds more metrics than the broker accepts."""


# --- groups -------------------------------------------------------------------------------------


class GroupError(MillpondError):
    """Base class of the errors of group coordinators."""


class InvalidGroupId(GroupError):
    """A name that is not allowed for a group."""


class GroupNotFound(GroupError):
    """No such group."""


class GroupNotEmpty(GroupError):
    """The group still has members."""


class GroupFull(GroupError):
    """The group has reached its maximum number of members."""


class GroupSubscribedToTopic(GroupError):
    """Members of the group are still subscribed to the topic."""


class UnknownMember(GroupError):
    """The group has no such member, or no longer has."""


class MemberIdRequired(GroupError):
    """A member must join again with the id it was just given."""


class MemberFenced(GroupError):
    """Another member has taken over this static member's instance id."""


class IllegalGeneration(GroupError):
    """The member's generation is not the group's."""


class InconsistentGroupProtocol(GroupError):
    """The members have no protocol in common."""


class FetchSessionNotFound(MillpondError):
    """This node does not know the follower's fetch session; the follower must send a full fetch."""


class FetchSessionEpochInvalid(MillpondError):
    """The fetch is not the next one of its session; the follower must send a full fetch."""


class InvalidSessionTimeout(GroupError):
    """A session time-out that is shorter or longer than the broker allows."""


class RebalanceInProgress(GroupError):
    """The group is forming its next generation; join again."""


class OffsetMetadataTooLarge(GroupError):
    """The metadata of a committed offset is longer than the broker allows."""


class UnstableOffset(GroupError):
    """An open transaction has an uncommitted offset for this partition; the client must retry."""


class MemberEpochFenced(GroupError):
    """The member's epoch is not, or no longer, valid; it must join again."""


class StaleMemberEpoch(GroupError):
    """The member's epoch is older or newer than the group's epoch for it; a heartbeat returns the right
    one.
    """


class InstanceIdInUse(GroupError):
    """Another member uses this instance id and has not left."""


class UnsupportedAssignor(GroupError):
    """The broker has no assignor of this name."""


class InvalidPattern(GroupError):
    """A subscription pattern that is not a valid RE2 expression, or is too large."""


class InvalidTopology(GroupError):
    """A Kafka Streams topology that contradicts itself or the group's."""


class ShareSessionNotFound(GroupError):
    """The member has no open share session on this node."""


class ShareSessionEpochInvalid(GroupError):
    """The request is not the next one of its share session."""


class ShareSessionsFull(GroupError):
    """The node has reached its maximum number of share sessions."""


class InvalidRecordState(GroupError):
    """The member has not acquired these records, or no longer holds them."""


class FencedStateEpoch(GroupError):
    """The share partition was initialised again since the sender read its state."""


class CoordinatorNotAvailable(GroupError):
    """The group's coordinator is not available; the client must retry."""


class CoordinatorLoadInProgress(GroupError):
    """This node has just become the coordinator and is still loading; the client must retry."""


class NotCoordinator(GroupError):
    """Another node coordinates this group, or this node has stopped doing so."""


# --- exchanges and queues -----------------------------------------------------------------------


class BrokerRefusal(MillpondError):
    """Base class of errors about virtual hosts, exchanges, queues and their messages."""


class UnknownResource(BrokerRefusal):
    """No such exchange or queue."""


class UnknownVirtualHost(BrokerRefusal):
    """No such virtual host."""


class AccessRefused(BrokerRefusal):
    """Forbidden: by permissions, by a reserved name, or because the resource is the broker's own."""


class VirtualHostRefused(BrokerRefusal):
    """The user has no access to this virtual host."""


class QueueLocked(BrokerRefusal):
    """The queue is exclusive to another connection."""


class QueueInUse(BrokerRefusal):
    """The queue has an exclusive consumer, or has consumers and cannot be given to an exclusive one."""


class Inequivalent(BrokerRefusal):
    """The resource exists with other properties."""


class NotSupported(BrokerRefusal):
    """A queue of this type does not support the operation."""


class MessageLost(BrokerRefusal):
    """A message is no longer in its log: its records were deleted or are damaged."""


class InvalidQueueArgument(BrokerRefusal):
    """An argument of a wrong type or value."""


class InvalidBinding(BrokerRefusal):
    """A binding with arguments that the exchange's type does not accept."""


class ResourceInUse(BrokerRefusal):
    """A conditional deletion (if-unused, if-empty) of a resource that is in use or not empty."""


class UnknownDeliveryTag(BrokerRefusal):
    """The channel has no unacknowledged message with this delivery tag."""


class UnknownExchangeType(BrokerRefusal):
    """No such type of exchange."""


class LimitReached(BrokerRefusal):
    """A limit on the number of connections, channels, queues or similar is reached."""


class InvalidDefinition(BrokerRefusal):
    """An invalid policy, user, permission or definitions file."""


# --- storage and shutdown -----------------------------------------------------------------------


class StorageFailure(MillpondError):
    """The disk is full, missing or failing."""


class CorruptLog(StorageFailure):
    """Stored bytes are damaged. ``next_offset``: where reading can continue; -1 if that is not known."""

    def __init__(self, message: str, *, next_offset: int = -1) -> None:
        super().__init__(message)
        self.next_offset = next_offset


class RecordsAwaited(StorageFailure):
    """Stored bytes are damaged, but another replica may have them: a repair is in progress."""


class MetadataMissing(StorageFailure):
    """A data directory holds partitions and no metadata: to start empty would drop every declared topic."""


class RecordsLost(CorruptLog):
    """Stored records are damaged or missing, and no other replica has them."""


class DataDirectoryInUse(MillpondError):
    """Another broker holds the lock of this data directory."""


class ShuttingDown(MillpondError):
    """The broker is stopping and accepts no more requests."""


class RequestTimedOut(MillpondError):
    """The request did not finish within its time-out."""
