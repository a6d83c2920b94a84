"""Every way in which the world can be wrong, named without any protocol's words.

Our own mistakes are asserts. Each class here is one reason; each front-end maps the classes to its
protocol's codes in one table. Messages say what happened with which numbers and what to do about it.
"""


class MillpondError(Exception):
    """Root of everything the broker refuses on purpose."""


# --- what a peer sent -------------------------------------------------------------------------


class MalformedData(MillpondError):
    """Bytes that cannot be what they claim to be."""


class MalformedVarint(MalformedData):
    """A variable-length integer that does not end."""


class RemoteProtocolError(MalformedData):
    """The peer broke the protocol; the connection cannot go on."""


class LocalProtocolError(MillpondError):
    """We were asked to send what the protocol does not allow."""


class InvalidRequest(MillpondError):
    """A well-formed request that contradicts itself."""


class UnsupportedVersion(MillpondError):
    """A request or a field that this version of the protocol does not have."""


# --- record batches ---------------------------------------------------------------------------


class CorruptBatch(MalformedData):
    """A record batch whose checksum, size or structure is wrong."""


class UnreadableBatch(CorruptBatch):
    """A stored batch with a right checksum whose records cannot be read: an older release took it from its
    producer unread. A reader may go on behind its offsets, at ``next_offset``.
    """

    def __init__(self, message: str, *, first_offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.next_offset = next_offset


class InvalidRecord(MillpondError):
    """A batch, or records of it, that the topic does not accept; ``positions`` are theirs in the batch."""

    def __init__(self, message: str, *, positions: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.positions = positions


class InvalidTimestamp(MillpondError):
    """Records whose time is further from now than the topic allows; ``positions`` are theirs in the batch."""

    def __init__(self, message: str, *, positions: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.positions = positions


class LongValidation(Exception):
    """No refusal: a batch whose records take too long to be checked on the event loop. They are checked
    beside it first, then the batch is appended (``Engine.append_beside``).
    """


class UnsupportedCompression(MillpondError):
    """A compression codec that does not exist or is not allowed here."""


class BatchTooLarge(MillpondError):
    """A batch over ``max.message.bytes``, or one that grows too much when it is unpacked."""


class BatchExceedsSegment(BatchTooLarge):
    """A batch that no segment of its topic can hold."""


# --- producers --------------------------------------------------------------------------------


class OutOfOrderSequence(MillpondError):
    """An idempotent producer skipped a sequence number."""


class DuplicateSequence(MillpondError):
    """A batch older than the window in which duplicates are recognised."""


class ProducerFenced(MillpondError):
    """An older incarnation of a producer, shut out by a newer one."""


class UnknownProducer(MillpondError):
    """A producer id the broker never gave out or has forgotten."""


class InvalidTransactionState(MillpondError):
    """A write or a marker that the producer's transaction does not allow now."""


class TransactionAbortable(InvalidTransactionState):
    """A write outside of what its transaction has named: the producer may abort and go on."""


class TransactionalIdMissing(InvalidTransactionState):
    """A transactional batch in a request that names no transactional id."""


class TransactionFenced(MillpondError):
    """A newer incarnation has the transactional id, or its transaction took too long."""


class ConcurrentTransactions(MillpondError):
    """The transaction before is still being ended; ask again."""


class InvalidProducerMapping(MillpondError):
    """The transactional id is unknown, or another producer's."""


class InvalidTransactionTimeout(MillpondError):
    """A transaction time-out longer than the broker allows."""


class TransactionNotFound(MillpondError):
    """No such transactional id."""


class MarkerFenced(MillpondError):
    """A marker of a transaction coordinator that has been replaced."""


# --- topics, partitions, positions --------------------------------------------------------------


class UnknownTopic(MillpondError):
    """No such topic, or no such partition of it."""


class UnknownTopicId(MillpondError):
    """No topic has this id."""


class TopicExists(MillpondError):
    """The name is taken."""


class InvalidTopicName(MillpondError):
    """A name that a topic may not have."""


class InvalidPartitions(MillpondError):
    """A partition count that cannot be."""


class InvalidReplicationFactor(MillpondError):
    """More replicas asked for than there are nodes, or none."""


class InvalidReplicaAssignment(MillpondError):
    """A replica assignment that names unknown nodes or is not whole."""


class InvalidConfig(MillpondError):
    """A setting with an unknown name or an impossible value."""


class NoReassignment(MillpondError):
    """No replica of this partition is on its way to another node."""


class InvalidUpdateVersion(MillpondError):
    """A feature that cannot go to this level from where it is."""


class PolicyViolation(MillpondError):
    """Allowed by the protocol, forbidden here."""


class OffsetOutOfRange(MillpondError):
    """A position before the start or after the end of the log."""

    def __init__(self, message: str, *, start_offset: int = -1, end_offset: int = -1) -> None:
        super().__init__(message)
        self.start_offset = start_offset
        self.end_offset = end_offset


class NotLeader(MillpondError):
    """Another node leads this partition."""


class FencedLeaderEpoch(MillpondError):
    """The asker knows an older leader than the one we are."""


class UnknownLeaderEpoch(MillpondError):
    """The asker knows a newer leader than we do."""


class OffsetNotAvailable(MillpondError):
    """A new leader does not know yet how much of its log is committed; ask again."""


class NotEnoughReplicas(MillpondError):
    """Fewer replicas in sync than ``min.insync.replicas`` asks for; nothing was written."""


class TimersNotReady(NotEnoughReplicas):
    """Delayed records cannot be taken now, because their timers could not be kept; a producer tries again."""


class TimerPositionGap(MillpondError):
    """Delayed records came before those that lie ahead of them; the leader reads the position again."""


# --- the cluster ------------------------------------------------------------------------------


class PeerUnreachable(MillpondError):
    """Another node of the cluster did not answer in time, or could not be asked."""


class PeerGone(PeerUnreachable):
    """Nobody listens where another node of the cluster was: its process has ended."""


class PeerTooOld(PeerUnreachable):
    """Another node runs a version that does not know what it is to be asked; it has to be upgraded first."""


class PeerNotProved(PeerUnreachable):
    """The node at the other end, or this one, has not proved that it belongs to the cluster."""


class ClusterAuthorizationFailed(MillpondError):
    """Only a node of the cluster may ask this, and the asker has not proved that it is one."""


class NotController(MillpondError):
    """Another node leads the quorum; ask it."""


class StaleBrokerEpoch(MillpondError):
    """The node has registered anew, or somebody else did under its id."""


class NodeNotRegistered(MillpondError):
    """The controller does not know this node; it must register first."""


class DuplicateRegistration(MillpondError):
    """Another running node has this id."""


class WrongCluster(MillpondError):
    """The node belongs to another cluster; its data and its configuration do not fit together."""


class LeaderNotAvailable(MillpondError):
    """No replica of the partition that may lead is up."""


class NotEnoughReplicasAfterAppend(MillpondError):
    """Written here, but fewer replicas than asked for have it; a producer may try again."""


class InvalidRegistration(MillpondError):
    """What a node says of itself cannot be."""


class LogDirNotFound(MillpondError):
    """A log directory that the node is not registered with."""


class ElectionNotNeeded(MillpondError):
    """The partition is led by whom it should be led."""


class PreferredLeaderNotAvailable(MillpondError):
    """The first of the replicas is down or not in sync."""


class EligibleLeadersNotAvailable(MillpondError):
    """No replica that could lead is up."""


class NewLeaderElected(MillpondError):
    """What the leader asked for was done, and ended its own leadership."""


class FencedNode(MillpondError):
    """The controller has fenced this node: it may not serve until it is heard of again."""


# --- the quorum -------------------------------------------------------------------------------


class QuorumDiverged(MillpondError):
    """What was agreed is not what the leader has: going on would lose data in silence."""


class VoterChangePending(MillpondError):
    """One change of voters at a time."""


class IneligibleReplica(MillpondError):
    """A replica that is down cannot be in sync."""


class VoterExists(MillpondError):
    """The node votes already."""


class VoterNotFound(MillpondError):
    """No such voter."""


class VotersSilent(MillpondError):
    """Too few of those who would vote are heard of: the change might never be agreed, nor taken back."""


class VoterBehind(MillpondError):
    """A node that does not follow the log closely must not vote: a majority might wait for it."""


# --- users and clients --------------------------------------------------------------------------


class UnacceptableCredential(MillpondError):
    """A credential that would not keep anybody out, or nobody's."""


class CredentialNotFound(MillpondError):
    """The user has no such credential."""


class DuplicateResource(MillpondError):
    """One request says two things of the same."""


class UnsupportedMechanism(MillpondError):
    """A way to log in that does not exist here."""


class ThrottlingQuotaExceeded(MillpondError):
    """More than the client's quota allows now; ``throttle_ms`` later it may ask again."""

    def __init__(self, message: str, *, throttle_ms: int = 0) -> None:
        super().__init__(message)
        self.throttle_ms = throttle_ms


class UnknownSubscription(MillpondError):
    """Metrics pushed for a subscription that has changed; the client must ask again."""


class TelemetryTooLarge(MillpondError):
    """More metrics in one push than the broker takes."""


# --- groups -------------------------------------------------------------------------------------


class GroupError(MillpondError):
    """Root of what a group coordinator refuses."""


class InvalidGroupId(GroupError):
    """A name that a group may not have."""


class GroupNotFound(GroupError):
    """No such group."""


class GroupNotEmpty(GroupError):
    """The group still has members."""


class GroupFull(GroupError):
    """The group has as many members as it may have."""


class GroupSubscribedToTopic(GroupError):
    """Members of the group still read the topic."""


class UnknownMember(GroupError):
    """No such member in the group, or no longer."""


class MemberIdRequired(GroupError):
    """A member must join again with the id it was just given."""


class MemberFenced(GroupError):
    """Another member has taken over this static member's instance id."""


class IllegalGeneration(GroupError):
    """The member speaks of a generation that is not the group's."""


class InconsistentGroupProtocol(GroupError):
    """The members have no protocol in common."""


class FetchSessionNotFound(MillpondError):
    """The follower's fetch session is not known here; ask for everything anew."""


class FetchSessionEpochInvalid(MillpondError):
    """The fetch is not the next one of its session; ask for everything anew."""


class InvalidSessionTimeout(GroupError):
    """A session time-out shorter or longer than the broker allows."""


class RebalanceInProgress(GroupError):
    """The group is forming its next generation; join again."""


class OffsetMetadataTooLarge(GroupError):
    """The note beside a committed offset is longer than the broker allows."""


class UnstableOffset(GroupError):
    """A transaction that has not ended yet has committed an offset here; ask again."""


class MemberEpochFenced(GroupError):
    """The member speaks of an epoch that it never had, or no longer has; it must join again."""


class StaleMemberEpoch(GroupError):
    """The member speaks of an epoch that it has left, or has not reached; a heartbeat tells which it has."""


class InstanceIdInUse(GroupError):
    """Another member has this instance id and has not gone away."""


class UnsupportedAssignor(GroupError):
    """The broker has no assignor of this name."""


class InvalidPattern(GroupError):
    """A pattern for topics that is no regular expression of the RE2 kind, or too large a one."""


class InvalidTopology(GroupError):
    """A Kafka Streams application that cannot work as its members describe it."""


class ShareSessionNotFound(GroupError):
    """The member has no open share session here."""


class ShareSessionEpochInvalid(GroupError):
    """The request is not the next one of its share session."""


class ShareSessionsFull(GroupError):
    """There are as many share sessions as there may be."""


class InvalidRecordState(GroupError):
    """The member does not hold these records, or no longer."""


class FencedStateEpoch(GroupError):
    """The share partition was begun anew since the asker read it."""


class CoordinatorNotAvailable(GroupError):
    """The group's coordinator cannot answer now; ask again."""


class CoordinatorLoadInProgress(GroupError):
    """This node has just become the coordinator and is still reading; ask again."""


class NotCoordinator(GroupError):
    """Another node coordinates this group, or this one can no longer."""


# --- exchanges and queues -----------------------------------------------------------------------


class BrokerRefusal(MillpondError):
    """Root of what is refused about virtual hosts, exchanges, queues and their messages."""


class UnknownResource(BrokerRefusal):
    """No such exchange or queue."""


class UnknownVirtualHost(BrokerRefusal):
    """No such virtual host."""


class AccessRefused(BrokerRefusal):
    """Forbidden: by permissions, by a reserved name, or because the thing is the broker's own."""


class VirtualHostRefused(BrokerRefusal):
    """The user has no business in this virtual host."""


class QueueLocked(BrokerRefusal):
    """The queue belongs to another connection."""


class QueueInUse(BrokerRefusal):
    """A consumer has the queue for itself, or wants it and is not alone."""


class Inequivalent(BrokerRefusal):
    """It exists and is different."""


class NotSupported(BrokerRefusal):
    """A queue of this type cannot do that."""


class MessageLost(BrokerRefusal):
    """A message is not in its log any more: records of its topic were deleted, or are damaged."""


class InvalidQueueArgument(BrokerRefusal):
    """An argument of a wrong type or value."""


class InvalidBinding(BrokerRefusal):
    """A binding that the exchange's type does not understand."""


class ResourceInUse(BrokerRefusal):
    """To be deleted only if nobody uses it, or only if it is empty; it is not so."""


class UnknownDeliveryTag(BrokerRefusal):
    """No message with this tag is out on the channel."""


class UnknownExchangeType(BrokerRefusal):
    """No such type of exchange."""


class LimitReached(BrokerRefusal):
    """As many as there may be."""


class InvalidDefinition(BrokerRefusal):
    """A policy, a user, a permission or a file of definitions that cannot be."""


# --- storage and life ---------------------------------------------------------------------------


class StorageFailure(MillpondError):
    """The disk is full, gone or lying."""


class CorruptLog(StorageFailure):
    """Stored bytes are not what was written. ``next_offset``: where to read on; -1 if that is not known."""

    def __init__(self, message: str, *, next_offset: int = -1) -> None:
        super().__init__(message)
        self.next_offset = next_offset


class RecordsAwaited(StorageFailure):
    """Stored bytes are not what was written, but another replica may have them: they are being repaired."""


class MetadataMissing(StorageFailure):
    """A data directory holds partitions and no metadata: to begin anew would drop all that was declared."""


class RecordsLost(CorruptLog):
    """Stored records are damaged or missing, and no other replica can give them back."""


class DataDirectoryInUse(MillpondError):
    """Another broker holds the lock of this data directory."""


class ShuttingDown(MillpondError):
    """The broker is stopping and takes no more work."""


class RequestTimedOut(MillpondError):
    """Not finished in the time the asker gave."""
