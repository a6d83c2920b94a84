"""The client's errors.

Three kinds, because users react in three ways: no broker answers (start it, or correct the address), the
broker refuses (change the request), it takes too long (wait, or find out why).
"""

from millpond.base.errors import MillpondError
from millpond.wire.kafka.api import RETRIABLE, ErrorCode


class ClientError(MillpondError):
    """Base class of the client's errors."""


class NoBroker(ClientError):
    """No broker could be reached, or the peer does not speak Kafka's protocol."""


class ConnectionLost(NoBroker):
    """The connection broke before the response; whether the request was executed is unknown."""


class OutOfTime(ClientError):
    """Not done within the caller's time-out; the message names the last reason."""


class BadConfig(ClientError, ValueError):
    """A setting is unknown, misspelt, out of range, or contradicts another one."""


class WrongState(ClientError):
    """A call that is not allowed in the present state; the message says what to call first."""


class BufferFull(OutOfTime):
    """No buffer space for a record within ``max.block.ms``: records come faster than the broker takes
    them.
    """


class RecordTooLarge(ClientError):
    """A record that no request may carry; the message names the setting that forbids it."""


class NotSerializable(ClientError, TypeError):
    """A key or value that its serializer cannot encode, or bytes that a deserializer cannot decode."""


class ProducerFenced(ClientError):
    """Another producer has taken the transactional id; this one must stop."""


class TransactionBroken(ClientError):
    """The transaction cannot be committed any more: abort it and begin a new one."""


class NoOffset(ClientError):
    """A partition has no committed offset and ``auto.offset.reset`` is ``none``."""


class CommitRefused(ClientError):
    """The consumer is no longer a member of the group; its partitions have other readers."""


class BrokerRefused(ClientError):
    """The broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None, *, subject: str = "") -> None:
        self.code: ErrorCode | int
        try:
            self.code = ErrorCode(code)
            name = self.code.name
        except ValueError:
            self.code = code
            name = f"error {code}"
        self.message = message or _MEANINGS.get(self.code) or name.lower().replace("_", " ")
        self.subject = subject
        self.is_final = False  # set when it was retried for long enough already
        about = f"{subject}: " if subject else ""
        super().__init__(f"{about}{self.message} ({name})")

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRIABLE


# Texts for brokers that send a code without a message; the common ones.
_MEANINGS: dict[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.UNKNOWN_TOPIC_ID: "there is no topic with this id",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of this name exists already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic may not have this name",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is before the start or after the end of the log",
    ErrorCode.MESSAGE_TOO_LARGE: "the batch is larger than the topic's max.message.bytes",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another broker leads the partition now",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.INVALID_REPLICATION_FACTOR: "there are not enough brokers for this replication factor",
    ErrorCode.INVALID_PARTITIONS: "a topic cannot have this number of partitions",
    ErrorCode.REQUEST_TIMED_OUT: "the broker did not finish in time",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not know this version of the request",
}
