"""Hosts a state machine over an internal topic: load from the log, decide, append, apply, answer.

One host serves each internal topic: groups, transactions, the state of share groups, timers. The topic is
divided into shards, one for each partition; a key (a group id, a transactional id) belongs to the shard that
its hash names. ``Shards`` says which of them this node leads and has loaded. The owner of the host is its
``ShardMachine``: it knows the state and the records, the host knows the log.

A change is made in one step without ``await``: the state decides, the host appends the records to the log of
the shard's partition and the machine applies them. The answer waits for ``Durable``: until the high watermark
has passed the records. A decision without records waits for the records before it, because a client must not
hear of a state that may still be lost. When records cannot be made durable the shard is loaded again.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from millpond.base.errors import MalformedData, MillpondError, NotCoordinator
from millpond.base.ids import NodeId, Offset
from millpond.engine.coordinators.durable import Durable
from millpond.engine.coordinators.record_replay import stored_batches
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.coordinators.shards import Shard, Shards
from millpond.group.offsets import partition_for
from millpond.metadata.image import Image
from millpond.record.batch import BatchHeader
from millpond.record.records import Record
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

StateT = TypeVar("StateT")
RecordT = TypeVar("RecordT")
RecordT_co = TypeVar("RecordT_co", covariant=True)
RecordT_contra = TypeVar("RecordT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class Written(NamedTuple):
    """Where records are in the log, and when they are committed."""

    first_offset: Offset
    durable: Durable


class Decided(Protocol[RecordT_co, AnswerT_co]):
    """A decision: the answer, and the records that make it true."""

    @property
    def answer(self) -> AnswerT_co: ...

    @property
    def records(self) -> Sequence[RecordT_co]: ...


class ShardMachine(Protocol[StateT, RecordT_contra]):
    """What is special to one internal topic: its state and its records."""

    def new_state(self, index: int) -> StateT:
        """Return the state of a shard before its first record."""
        ...

    def replay(self, state: StateT, header: BatchHeader, record: Record) -> None:
        """Apply a record of the log, also one of a control batch. Raises ``MalformedData``."""
        ...

    def batch(self, records: Sequence[RecordT_contra], now_ms: int) -> bytearray:
        """Encode records as one batch."""
        ...

    def refusal(self, records: Sequence[RecordT_contra], error: MillpondError) -> MillpondError:
        """Return what the caller is told when the log does not take records."""
        ...

    def apply(
        self, shard: Shard[StateT], records: Sequence[RecordT_contra], written: Written
    ) -> None:
        """Apply records that this node has just appended."""
        ...

    def shard_loaded(self, index: int, state: StateT) -> None:
        """Begin to serve a shard whose log has been read to its end."""
        ...

    def shard_dropped(self, index: int, state: StateT) -> None:
        """Answer the clients that wait for a shard that is not served here now. It may not be loaded."""
        ...


class ShardHost(Generic[StateT, RecordT]):
    """The shards of one internal topic that this node leads. ``contents`` names them in log texts."""

    def __init__(
        self,
        services: CoordinatorServices,
        topic: str,
        machine: ShardMachine[StateT, RecordT],
        *,
        contents: str,
    ) -> None:
        self._services = services
        self._topic = topic
        self._machine = machine
        self._contents = contents
        self._shards: Shards[StateT] = Shards(services, topic, self)
        self._running = False

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Load every shard that this node leads, to the end."""
        self._running = True
        self._shards.start()

    def stop(self) -> None:
        """Drop every shard; keys are looked up no more."""
        self._running = False
        self._shards.stop()

    def check_running(self) -> None:
        """Raises ``NotCoordinator`` before ``start`` and after ``stop``."""
        if not self._running:
            raise NotCoordinator("the broker is stopping")

    @property
    def is_running(self) -> bool:
        """Whether the host has started and not stopped."""
        return self._running

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists; ``prepare`` creates it."""
        return self._topic in self._services.metadata.image.topics

    async def prepare(self) -> None:
        """Create the topic if it does not exist yet."""
        await self._services.topic_admin.ensure_topic(self._topic)

    def drop_if_deleted(self, before: Image, after: Image) -> bool:
        """Drop every shard if this change of the metadata deletes the topic. Return whether it does."""
        if self._topic not in before.topics or self._topic in after.topics:
            return False
        log.warning("%s was deleted, and with it all %s", self._topic, self._contents)
        self._shards.drop_all()
        return True

    # --- looking up -------------------------------------------------------------------------------

    def leader(self, key: str) -> NodeId:
        """Return the node that leads a key's shard; -1 if there is none now."""
        return self._shards.leader(key)

    def leaders(self) -> Sequence[NodeId]:
        """Return the leader of each shard; none before the topic is created."""
        topic = self._services.metadata.image.topics.get(self._topic)
        return () if topic is None else [one.leader for one in topic.partitions]

    def index_of(self, key: str) -> int:
        """Return the partition of a key. Raises ``NotCoordinator`` before the topic is created."""
        count = self._shards.count
        if not count:
            raise NotCoordinator(
                f"{self._topic} has not been made yet; ask for the coordinator first"
            )
        return partition_for(key, count)

    def get(self, key: str) -> Shard[StateT]:
        """Return a key's shard for a client's request.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``.
        """
        self.check_running()
        return self._shards.get(self.index_of(key))

    def find(self, key: str) -> StateT | None:
        """Return the state of a key's shard, if it is loaded here."""
        count = self._shards.count
        return self._shards.find(partition_for(key, count)) if count else None

    def own(self, index: int) -> Shard[StateT]:
        """Return a loaded shard by its partition, for the node's own work.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``.
        """
        return self._shards.own(index)

    def at(self, index: int) -> Shard[StateT]:
        """Return a shard by its partition for a client's request. Raises as ``own``."""
        return self._shards.get(index)

    def state_at(self, index: int) -> StateT | None:
        """Return the state of the shard of a partition, if it is loaded here."""
        return self._shards.find(index)

    @property
    def count(self) -> int:
        """How many shards the topic has; 0 before it is created."""
        return self._shards.count

    def loaded(self) -> Iterator[tuple[int, StateT]]:
        """Return the partitions and the states of the shards that are loaded here."""
        return iter(self._shards)

    def states(self) -> Iterator[StateT]:
        """Return the states of the shards that are loaded here."""
        return (state for _index, state in self._shards)

    def holds(self, shard: Shard[StateT]) -> bool:
        """Whether a shard is still this node's, and has not been loaded again since."""
        return self._shards.find(shard.partition.index) is shard.state

    # --- changing ---------------------------------------------------------------------------------

    def perform(
        self, key: str, decide: Callable[[StateT], Decided[RecordT, AnswerT]]
    ) -> tuple[AnswerT, Durable]:
        """Have a key's shard decide, write the decision, and return the answer and when it is durable.

        Raises what ``decide`` raises, ``NotCoordinator``, ``CoordinatorLoadInProgress``, or why the log does
        not take the records; nothing has changed then.
        """
        shard = self.get(key)
        decided = decide(shard.state)
        if not decided.records:
            return decided.answer, self._shards.settled(shard)
        return decided.answer, self.write(shard, decided.records).durable

    def write(self, shard: Shard[StateT], records: Sequence[RecordT]) -> Written:
        """Append records as one batch and have the machine apply them. Raises as ``append``."""
        written = self.append(shard, records)
        self._machine.apply(shard, records, written)
        return written

    def settled(self, shard: Shard[StateT]) -> Durable:
        """Return when all records of a shard until now are committed; None if they are."""
        return self._shards.settled(shard)

    def resign(self, shard: Shard[StateT], reason: str) -> None:
        """Drop a state that the log may not hold, and load the shard again."""
        self._shards.resign(shard, reason)

    def append(self, shard: Shard[StateT], records: Sequence[RecordT]) -> Written:
        """Append records as one batch, which the caller applies. Raises why the log does not take them."""
        batch = self._machine.batch(records, self._services.runtime.clock.now_ms())
        try:
            appended = self._services.partitions.append_to(
                shard.partition, batch, acks=-1, internal=True
            )
        except MillpondError as error:
            refusal = self._machine.refusal(records, error)
            if refusal is error:
                raise
            raise refusal from error
        durable = self._shards.guard(shard, appended.durable)
        return Written(appended.info.first_offset, durable)

    # --- shards -----------------------------------------------------------------------------------

    def new_state(self, index: int) -> StateT:
        """Return the state of a shard before its first record."""
        return self._machine.new_state(index)

    def read_shard(self, state: StateT, partition: Partition) -> Iterator[int]:
        """Apply the records of the log batch by batch; yield how many each batch has.

        A malformed record is reported and skipped, so that it does not hide those after it.
        """
        for header, stored in stored_batches(partition, self._services.repairs.may_come_back):
            for record in stored:
                if record.key is None or record.offset < partition.log.start_offset:
                    continue
                try:
                    self._machine.replay(state, header, record)
                except MalformedData as error:
                    log.error(
                        "partition=%s-%d offset=%d: a malformed record is left out: %s",
                        partition.topic,
                        partition.index,
                        record.offset,
                        error,
                    )
            yield len(stored)

    def shard_loaded(self, index: int, state: StateT) -> None:
        """Begin to serve a shard whose log has been read to its end."""
        self._machine.shard_loaded(index, state)

    def shard_dropped(self, index: int, state: StateT) -> None:
        """Answer the clients that wait for a shard that is not served here now."""
        self._machine.shard_dropped(index, state)
