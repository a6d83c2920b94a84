"""The commands of the transaction coordinator and its responses.

Commands are imperative and carry the type of their response. A refusal is a class of ``base.errors``, raised;
``NeedsProducerId`` is no refusal: the host brings a new producer id and decides the command again.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from millpond.txn.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Place, TransactionRecord

# Epochs are 16-bit numbers. The last one is never given to a producer, so that it can always be fenced.
EPOCH_LAST = 2**15 - 2


class NeedsProducerId(Exception):
    """The decision needs a producer id that was never used (``fresh_producer_id``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The coordinator's settings; Kafka's names are in the comments, the defaults are Kafka's."""

    timeout_ms_max: int = 900_000  # transaction.max.timeout.ms
    expiration_ms: int = 7 * 24 * 60 * 60_000  # transactional.id.expiration.ms


class Identity(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int
    epoch: int


AnswerT = TypeVar("AnswerT")


class Command(Generic[AnswerT]):
    """A command for one transactional id."""

    __slots__ = ()

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer(Command[Identity | None]):
    """A producer takes over the transactional id; all earlier producers are fenced.

    With ``producer_id`` and ``producer_epoch`` it is the same producer, which continues after an error
    (KIP-360). The response None means that an open transaction has to be ended first: decide again after
    that.
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions(Command[None]):
    """Add partitions to the transaction. Opens one if none is open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[Place]
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction(Command[Identity]):
    """Commit or abort. ``bumps_epoch``: the producer continues with the identity in the response."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    bumps_epoch: bool = False
    fresh_producer_id: int | None = None


# --- from the host --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersWritten(Command[None]):
    """Every partition of a prepared transaction has its marker."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortOverdue(Command[None]):
    """Abort and fence, if the transaction has been open for longer than its producer's time-out."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetIdle(Command[None]):
    """Drop a transactional id that was not used for the expiration time."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[AnswerT]):
    """The response to a command, and the record that makes it true, if one is needed."""

    answer: AnswerT
    record: TransactionRecord | None = None

    @property
    def records(self) -> tuple[TransactionRecord, ...]:
        """The record as a sequence, as the host of every coordinator takes it."""
        return () if self.record is None else (self.record,)
