"""A transactional copier: reads one partition, writes copies to another topic and commits how far it came,
all in transactions. Exactly once, or somebody is to blame.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from millpond.record.builder import build_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from millpond.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from millpond.wire.kafka.messages.end_txn import EndTxnRequest
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from millpond.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.sim.cluster.client import GROUP, TRANSACTION, Client, Refused, check
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.consumers import committed_offset, fetch
from tests.sim.cluster.history import History, Place
from tests.sim.cluster.node import EPOCH_MS
from tests.sim.cluster.producers import PASSING
from tests.sim.cluster.trace import Broken, Trace

_TIMEOUT_MS = 30_000
_BACKOFF = 1.0
_PARTITIONS = 2
_TRIES = 5

# After this a producer begins anew; what it had open is aborted by that.
_BEGIN_ANEW = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


@dataclass(slots=True, eq=False)
class Transaction:
    """What one was about, and what became of it: None as long as nobody knows."""

    number: int
    values: list[tuple[Place, bytes]] = field(default_factory=list)
    is_written: bool = False
    commit_tried: bool = False
    committed: bool | None = None


class Copier:
    """One transactional id."""

    def __init__(
        self,
        name: str,
        client: Client,
        history: History,
        trace: Trace,
        *,
        source: Place,
        target: str,
        pace: float,
        joins: bool,
    ) -> None:
        self.name = name
        self._client = client
        self._history = history
        self._trace = trace
        self.source = source
        self._target = target
        self._pace = pace
        # Whether writes join the transaction by themselves, and epochs grow with each (KIP-890).
        self._joins = joins
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._position = 0
        self._position_after = 0
        self._open: Transaction | None = None
        self.transactions: list[Transaction] = []
        self.by_value: dict[bytes, Transaction] = {}
        self.stopping = False
        self.waits_for = ""

    async def run(self) -> None:
        """Until told to stop, and then until the last transaction has ended."""
        chance = self._client.chance
        while not self.stopping or self._open is not None:
            self.waits_for = f"{self.name}: transaction {len(self.transactions)}"
            await asyncio.sleep(chance.random() * 2 * self._pace)
            try:
                await self._copy()
            except Disconnected:
                self._forget()
                await asyncio.sleep(_BACKOFF * chance.random())
            except Refused as refused:
                self._trace.note("refused", f"{self.name} {refused}")
                if refused.code in _BEGIN_ANEW:
                    self._begin_anew()
                elif refused.code not in PASSING:
                    raise Broken(f"{self.name} is refused with {refused}") from None
                self._forget()
                await asyncio.sleep(_BACKOFF)
            if chance.random() < 0.02:
                self._begin_anew()  # the process died; another one takes over
        self.waits_for = ""

    def _forget(self) -> None:
        self._client.forget_leader(*self.source)
        for partition in range(_PARTITIONS):
            self._client.forget_leader(self._target, partition)
        self._client.forget_coordinator(TRANSACTION, self.name)
        self._client.forget_coordinator(GROUP, self.name)

    def _begin_anew(self) -> None:
        if self._open is not None and not self._open.commit_tried:
            self._open.committed = False
        self._open = None
        self._identity = None

    async def _copy(self) -> None:
        if self._identity is None:
            await self._init()
        if self._open is not None:
            # Its end was not heard of.
            await self._end(self._open, commit=self._open.commit_tried)
            return
        node_id, epoch = await self._client.leader(*self.source)
        _after, found, _high = await fetch(
            self._client, self.source, self._position, node_id=node_id, epoch=epoch, wait_ms=2_000
        )
        taken = found[: self._client.chance.randrange(1, 5)]
        if not taken or self.stopping:
            return
        transaction = self._open = Transaction(len(self.transactions))
        self.transactions.append(transaction)
        await self._write_all(transaction, taken)
        transaction.is_written = True
        await self._patiently(partial(self._commit_position, taken[-1][0] + 1))
        commit = self._client.chance.random() < 0.8
        if commit:
            transaction.commit_tried = True
        await self._end(transaction, commit=commit)

    async def _write_all(
        self, transaction: Transaction, taken: list[tuple[int, bytes | None]]
    ) -> None:
        parts: dict[int, list[bytes]] = {}
        for offset, value in taken:
            if value is not None:
                copy = b"%s@%d.%d" % (self.name.encode(), transaction.number, offset)
                parts.setdefault(offset % _PARTITIONS, []).append(copy)
        for partition, values in parts.items():
            place = self._target, partition
            for value in values:
                self._history.attempt(place, value)
                transaction.values.append((place, value))
                self.by_value[value] = transaction
        if not self._joins and parts:
            await self._patiently(lambda: self._add_partitions(sorted(parts)))
        for partition, values in sorted(parts.items()):
            await self._patiently(partial(self._write, partition, values))

    async def _patiently(self, work: Callable[[], Awaitable[None]]) -> None:
        """The same request again, a few times, as long as that may help."""
        for _ in range(_TRIES):
            try:
                return await work()
            except Disconnected:
                self._forget()
            except Refused as refused:
                self._trace.note("refused", f"{self.name} {refused}")
                if refused.code not in PASSING:
                    raise
                self._forget()
            await asyncio.sleep(_BACKOFF * self._client.chance.random())
        return await work()

    # --- requests ---------------------------------------------------------------------------------

    async def _init(self) -> None:
        coordinator = await self._client.coordinator(TRANSACTION, self.name)
        response = await self._client.ask(
            coordinator,
            ApiKey.INIT_PRODUCER_ID,
            4,
            InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=_TIMEOUT_MS),
        )
        check(response.error_code)
        self._sequences.clear()
        self._position = max(await committed_offset(self._client, self.name, self.source), 0)
        self._identity = response.producer_id, response.producer_epoch
        self._trace.note("init", f"{self.name} {self._identity} at {self._position}")

    @property
    def _own(self) -> tuple[int, int]:
        assert self._identity is not None
        return self._identity

    async def _add_partitions(self, partitions: list[int]) -> None:
        producer_id, epoch = self._own
        response = await self._client.ask(
            await self._client.coordinator(TRANSACTION, self.name),
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=self._target, partitions=partitions)
                ],
            ),
        )
        for topic in response.results_by_topic_v3_and_below:
            for one in topic.results_by_partition:
                check(one.partition_error_code)

    async def _write(self, partition: int, values: list[bytes]) -> None:
        producer_id, epoch = self._own
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            [(EPOCH_MS, None, value, ()) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        leader, _epoch = await self._client.leader(self._target, partition)
        data = PartitionProduceData(index=partition, records=bytes(batch))
        response = await self._client.ask(
            leader,
            ApiKey.PRODUCE,
            12 if self._joins else 11,
            ProduceRequest(
                transactional_id=self.name,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[TopicProduceData(name=self._target, partition_data=[data])],
            ),
        )
        (topic,) = response.responses
        (produced,) = topic.partition_responses
        check(produced.error_code)
        self._sequences[partition] = sequence + len(values)

    async def _commit_position(self, position: int) -> None:
        producer_id, epoch = self._own
        if not self._joins:
            response = await self._client.ask(
                await self._client.coordinator(TRANSACTION, self.name),
                ApiKey.ADD_OFFSETS_TO_TXN,
                3,
                AddOffsetsToTxnRequest(
                    transactional_id=self.name,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group_id=self.name,
                ),
            )
            check(response.error_code)
        response = await self._client.ask(
            await self._client.coordinator(GROUP, self.name),
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self._joins else 3,
            TxnOffsetCommitRequest(
                transactional_id=self.name,
                group_id=self.name,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name=self.source[0],
                        partitions=[
                            TxnOffsetCommitRequestPartition(
                                partition_index=self.source[1], committed_offset=position
                            )
                        ],
                    )
                ],
            ),
        )
        for topic in response.topics:
            for one in topic.partitions:
                check(one.error_code)
        self._position_after = position

    async def _end(self, transaction: Transaction, *, commit: bool) -> None:
        producer_id, epoch = self._own
        response = await self._client.ask(
            await self._client.coordinator(TRANSACTION, self.name),
            ApiKey.END_TXN,
            5 if self._joins else 4,
            EndTxnRequest(
                transactional_id=self.name,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=commit,
            ),
        )
        check(response.error_code)
        transaction.committed = commit
        self._open = None
        self._trace.note(
            "ended", f"{self.name} {transaction.number} {'commit' if commit else 'abort'}"
        )
        if self._joins:
            self._identity = response.producer_id, response.producer_epoch
            self._sequences.clear()
        elif not transaction.is_written:
            # Nobody knows which of its sequences were used; a new epoch begins to count anew.
            self._identity = None
        if commit:
            self._position = self._position_after

    # --- the judgement ----------------------------------------------------------------------------

    def check_seen(self, place: Place, value: bytes) -> None:
        """A reader of committed data saw this just now."""
        transaction = self.by_value.get(value)
        if transaction is None:
            return
        if not transaction.commit_tried or transaction.committed is False:
            raise Broken(f"{place}: {value!r} was read as committed and was not")

    def check_end(self, committed: dict[Place, dict[int, bytes]], position: int) -> None:
        """What readers of committed data see at the end, and the position that goes with it."""
        visible = {
            value
            for place, values in committed.items()
            if place[0] == self._target
            for value in values.values()
        }
        for one in self.transactions:
            here = [value for _place, value in one.values if value in visible]
            if here and len(here) != len(one.values):
                raise Broken(f"{self.name}: half of transaction {one.number} is visible: {here}")
            if one.committed is True and len(here) != len(one.values):
                raise Broken(f"{self.name}: the committed transaction {one.number} is not there")
            if here and (one.committed is False or not one.commit_tried):
                raise Broken(f"{self.name}: the aborted transaction {one.number} is there")
        copied: dict[int, bytes] = {}
        for value in sorted(visible):
            writer, _, offset = value.rpartition(b".")
            if not writer.startswith(self.name.encode() + b"@"):
                continue
            if int(offset) in copied:
                raise Broken(f"{self.name}: {copied[int(offset)]!r} and {value!r}: copied twice")
            copied[int(offset)] = value
        wanted = {
            at
            for at, value in self._history.journal(self.source).seen.items()
            if value is not None and at < position
        }
        if wanted != copied.keys():
            raise Broken(
                f"{self.name}: stands at {position}; missing {sorted(wanted - copied.keys())[:5]}, "
                f"too many {sorted(copied.keys() - wanted)[:5]}"
            )
