"""The one table from what can be wrong to what Kafka's clients call it. Total over ``base.errors``."""

from millpond.base import errors
from millpond.base.errors import MillpondError
from millpond.wire.kafka.api import ErrorCode

CODES: dict[type[MillpondError], ErrorCode] = {
    MillpondError: ErrorCode.UNKNOWN_SERVER_ERROR,
    # What a peer sent.
    errors.MalformedData: ErrorCode.INVALID_REQUEST,
    errors.MalformedVarint: ErrorCode.INVALID_REQUEST,
    errors.RemoteProtocolError: ErrorCode.INVALID_REQUEST,
    errors.LocalProtocolError: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    # Record batches.
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.UnreadableBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.InvalidRecord: ErrorCode.INVALID_RECORD,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.BatchExceedsSegment: ErrorCode.RECORD_LIST_TOO_LARGE,
    # Producers.
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    errors.ProducerFenced: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.TransactionAbortable: ErrorCode.TRANSACTION_ABORTABLE,
    # No client can be allowed to use an id that is not named.
    errors.TransactionalIdMissing: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.TransactionFenced: ErrorCode.PRODUCER_FENCED,
    errors.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.InvalidProducerMapping: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    errors.TransactionNotFound: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    errors.MarkerFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    # Topics, partitions, positions.
    errors.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.NoReassignment: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    errors.InvalidUpdateVersion: ErrorCode.INVALID_UPDATE_VERSION,
    errors.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.OffsetNotAvailable: ErrorCode.OFFSET_NOT_AVAILABLE,
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    # As for replicas that are missing: nothing was written, and every producer tries again.
    errors.TimersNotReady: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.TimerPositionGap: ErrorCode.INVALID_REQUEST,
    # The quorum.
    errors.QuorumDiverged: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.VoterChangePending: ErrorCode.REQUEST_TIMED_OUT,
    errors.VoterExists: ErrorCode.DUPLICATE_VOTER,
    errors.VoterNotFound: ErrorCode.VOTER_NOT_FOUND,
    errors.VotersSilent: ErrorCode.REQUEST_TIMED_OUT,
    errors.VoterBehind: ErrorCode.REQUEST_TIMED_OUT,
    errors.IneligibleReplica: ErrorCode.INELIGIBLE_REPLICA,
    # The cluster.
    errors.PeerUnreachable: ErrorCode.REQUEST_TIMED_OUT,
    errors.PeerGone: ErrorCode.REQUEST_TIMED_OUT,
    errors.PeerTooOld: ErrorCode.REQUEST_TIMED_OUT,
    errors.PeerNotProved: ErrorCode.REQUEST_TIMED_OUT,
    errors.ClusterAuthorizationFailed: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    errors.NotController: ErrorCode.NOT_CONTROLLER,
    errors.StaleBrokerEpoch: ErrorCode.STALE_BROKER_EPOCH,
    errors.NodeNotRegistered: ErrorCode.BROKER_ID_NOT_REGISTERED,
    errors.DuplicateRegistration: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    errors.WrongCluster: ErrorCode.INCONSISTENT_CLUSTER_ID,
    errors.LeaderNotAvailable: ErrorCode.LEADER_NOT_AVAILABLE,
    errors.NotEnoughReplicasAfterAppend: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    errors.FencedNode: ErrorCode.STALE_BROKER_EPOCH,
    errors.InvalidRegistration: ErrorCode.INVALID_REGISTRATION,
    errors.LogDirNotFound: ErrorCode.LOG_DIR_NOT_FOUND,
    errors.ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    errors.PreferredLeaderNotAvailable: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    errors.EligibleLeadersNotAvailable: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    errors.NewLeaderElected: ErrorCode.NEW_LEADER_ELECTED,
    # Users and clients.
    errors.UnacceptableCredential: ErrorCode.UNACCEPTABLE_CREDENTIAL,
    errors.CredentialNotFound: ErrorCode.RESOURCE_NOT_FOUND,
    errors.DuplicateResource: ErrorCode.DUPLICATE_RESOURCE,
    errors.UnsupportedMechanism: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    errors.ThrottlingQuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    errors.UnknownSubscription: ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    errors.TelemetryTooLarge: ErrorCode.TELEMETRY_TOO_LARGE,
    # Groups.
    errors.GroupError: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.InvalidGroupId: ErrorCode.INVALID_GROUP_ID,
    errors.GroupNotFound: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.GroupSubscribedToTopic: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    errors.MemberFenced: ErrorCode.FENCED_INSTANCE_ID,
    errors.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.InconsistentGroupProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.FetchSessionNotFound: ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    errors.FetchSessionEpochInvalid: ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    errors.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.OffsetMetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    errors.UnstableOffset: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.MemberEpochFenced: ErrorCode.FENCED_MEMBER_EPOCH,
    errors.StaleMemberEpoch: ErrorCode.STALE_MEMBER_EPOCH,
    errors.InstanceIdInUse: ErrorCode.UNRELEASED_INSTANCE_ID,
    errors.UnsupportedAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    errors.InvalidPattern: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.InvalidTopology: ErrorCode.STREAMS_INVALID_TOPOLOGY,
    errors.ShareSessionNotFound: ErrorCode.SHARE_SESSION_NOT_FOUND,
    errors.ShareSessionEpochInvalid: ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    errors.ShareSessionsFull: ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    errors.InvalidRecordState: ErrorCode.INVALID_RECORD_STATE,
    errors.FencedStateEpoch: ErrorCode.FENCED_STATE_EPOCH,
    errors.CoordinatorNotAvailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.CoordinatorLoadInProgress: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    errors.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    # Exchanges and queues: refused in words of their own protocol; no request of Kafka's is about them.
    errors.BrokerRefusal: ErrorCode.UNKNOWN_SERVER_ERROR,
    # Storage and life.
    errors.StorageFailure: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.CorruptLog: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.MetadataMissing: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.RecordsAwaited: ErrorCode.KAFKA_STORAGE_ERROR,
    # Clients tell their application; at a storage error they look for another leader, in silence.
    errors.RecordsLost: ErrorCode.CORRUPT_MESSAGE,
    errors.DataDirectoryInUse: ErrorCode.UNKNOWN_SERVER_ERROR,
    # Clients look for another leader and try again, which is what a client of a stopping node should do.
    errors.ShuttingDown: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
}


def code_of(error: MillpondError) -> ErrorCode:
    """The code for a refusal; a class that a layer made for itself has the code of its parent."""
    code = CODES.get(type(error))
    if code is None:
        code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    return code
