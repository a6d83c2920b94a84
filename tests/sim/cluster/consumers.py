"""Readers: below the high watermark, from leaders and followers, again from the start now and then."""

import asyncio
from collections.abc import Callable

from millpond.record.batch import check_crc, iter_batches
from millpond.record.records import decode_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from millpond.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.sim.cluster.client import GROUP, Client, Refused, check
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.history import History, Place
from tests.sim.cluster.producers import PASSING
from tests.sim.cluster.trace import Broken, Trace

_FETCH_VERSION = 12
_LIST_OFFSETS_VERSION = 5
_LATEST = -1
# How often a reader asks where the partition ends, after it has read.
_LOOKS_FOR_END = 0.3
_WAIT_MS = 4_000


class Rotten(Disconnected):
    """Damaged records; they are as good as none, and there are other nodes."""


async def fetch(
    client: Client,
    place: Place,
    offset: int,
    *,
    node_id: int,
    epoch: int,
    committed: bool = False,
    wait_ms: int = _WAIT_MS,
    gaps: bool = False,
    leader_of: History | None = None,
) -> tuple[int, list[tuple[int, bytes | None]], int]:
    """(next offset, what was read, the high watermark). Raises ``Refused`` or ``Disconnected``.

    Where a leader is asked, ``leader_of`` is the history to hold its answer against.
    """
    topic, partition = place
    before = leader_of.glimpse(place) if leader_of is not None else None
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        partition_max_bytes=1 << 20,
    )
    response = await client.ask(
        node_id,
        ApiKey.FETCH,
        _FETCH_VERSION,
        FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1 if committed else 0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        ),
    )
    check(response.error_code)
    (answer,) = response.responses
    (data,) = answer.partitions
    check(data.error_code)
    if leader_of is not None and before is not None:
        leader_of.served(place, before, epoch, data.high_watermark)
    bound = data.last_stable_offset if committed else data.high_watermark
    _check_sums(client, place, data.records or b"", node_id)
    skipped = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or [])
    after, found = _records(place, offset, bound, data.records or b"", skipped, gaps=gaps)
    return after, found, data.high_watermark


async def look_for_end(client: Client, place: Place, history: History) -> None:
    """Ask the leader where the partition ends: behind everything that was acknowledged or read before."""
    topic, partition = place
    node_id, epoch = await client.leader(*place)
    before = history.glimpse(place)
    wanted = ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=epoch, timestamp=_LATEST
    )
    response = await client.ask(
        node_id,
        ApiKey.LIST_OFFSETS,
        _LIST_OFFSETS_VERSION,
        ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
        ),
    )
    (answer,) = response.topics
    (found,) = answer.partitions
    check(found.error_code)
    history.named(place, before, epoch, found.offset)


def _check_sums(client: Client, place: Place, data: bytes, node_id: int) -> None:
    """What a disk has changed is known by its checksum; it comes from there and from nowhere else."""
    for position, header in iter_batches(data):
        if not check_crc(data, position, header):
            if client.is_rotten(node_id):
                raise Rotten
            raise Broken(f"{place}: damaged records at {header.base_offset} come from {node_id}")


def _records(
    place: Place,
    offset: int,
    bound: int,
    data: bytes,
    aborted: list[tuple[int, int]],
    *,
    gaps: bool,
) -> tuple[int, list[tuple[int, bytes | None]]]:
    found: list[tuple[int, bytes | None]] = []
    expected = offset
    skips: set[int] = set()
    for position, header in iter_batches(data):
        if header.base_offset > expected and not gaps:
            raise Broken(f"{place}: offsets from {expected} to {header.base_offset} are missing")
        if header.next_offset > bound:
            raise Broken(f"{place}: {header.next_offset} was given, {bound} is readable")
        expected = header.next_offset
        while aborted and aborted[0][0] < header.next_offset:
            skips.add(aborted.pop(0)[1])
        if header.is_control:
            skips.discard(header.producer_id)
            found += [(at, None) for at in range(header.base_offset, header.next_offset)]
            continue
        if header.is_transactional and header.producer_id in skips:
            continue
        found += [(one.offset, one.value) for one in decode_batch(data, position)]
    return expected, [one for one in found if one[0] >= offset]


class Consumer:
    """Reads some partitions for a group of its own and commits how far it came."""

    def __init__(
        self,
        name: str,
        client: Client,
        history: History,
        trace: Trace,
        *,
        places: list[Place],
        pace: float,
        follows: bool = False,
        commits: bool = False,
        committed: bool = False,
        on_value: Callable[[Place, bytes], None] | None = None,
    ) -> None:
        self.name = name
        self._client = client
        self._history = history
        self._trace = trace
        self._places = places
        self._pace = pace
        # Whether followers are read from, too.
        self._follows = follows
        self._commits = commits
        # Whether only committed transactions are read; who else wants to know what.
        self._only_committed = committed
        self._on_value = on_value
        self.positions = dict.fromkeys(places, 0)
        # What a commit was acknowledged for, and what was last tried.
        self._committed = dict.fromkeys(places, -1)
        self._tried = dict.fromkeys(places, -1)
        self.stopping = False
        self.waits_for = ""

    async def run(self) -> None:
        """Until told to stop."""
        chance = self._client.chance
        while not self.stopping:
            await asyncio.sleep(chance.random() * 2 * self._pace)
            place = chance.choice(self._places)
            try:
                await self._poll(place)
                if self._commits and chance.random() < 0.3:
                    await self._commit(place)
                if self._commits and chance.random() < 0.1:
                    await self._look_back(place)
            except Disconnected:
                self._forget(place)
            except Refused as refused:
                self._trace.note("refused", f"{self.name} {refused}")
                if refused.code not in PASSING:
                    raise Broken(f"{self.name} is refused at {place} with {refused}") from None
                self._forget(place)
            if chance.random() < 0.02:
                self.positions[place] = 0

    def _forget(self, place: Place) -> None:
        self._client.forget_leader(*place)
        self._client.forget_coordinator(GROUP, self.name)

    async def _poll(self, place: Place) -> None:
        chance = self._client.chance
        node_id, epoch = await self._client.leader(*place)
        leads = True
        if self._follows and chance.random() < 0.5:
            node_id, leads = chance.choice(self._client.replicas(*place)), False
        position = self.positions[place]
        try:
            after, found, high = await fetch(
                self._client,
                place,
                position,
                node_id=node_id,
                epoch=epoch,
                committed=self._only_committed,
                leader_of=self._history if leads else None,
            )
        except Refused as refused:
            if refused.code != ErrorCode.OFFSET_OUT_OF_RANGE or leads:
                raise
            return
        note = self._history.read_committed if self._only_committed else self._history.read
        for offset, value in found:
            note(place, offset, value)
            if self._on_value is not None and value is not None:
                self._on_value(place, value)
        self._trace.note("read", f"{self.name} {place} {position}..{after} of {high} at {node_id}")
        self.positions[place] = after
        if leads and chance.random() < _LOOKS_FOR_END:
            await look_for_end(self._client, place, self._history)

    # --- positions --------------------------------------------------------------------------------

    async def _commit(self, place: Place) -> None:
        offset = self.positions[place]
        if offset <= self._tried[place]:
            return
        coordinator = await self._client.coordinator(GROUP, self.name)
        self._tried[place] = offset
        response = await self._client.ask(
            coordinator,
            ApiKey.OFFSET_COMMIT,
            8,
            OffsetCommitRequest(
                group_id=self.name,
                topics=[
                    OffsetCommitRequestTopic(
                        name=place[0],
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=place[1], committed_offset=offset
                            )
                        ],
                    )
                ],
            ),
        )
        check(response.topics[0].partitions[0].error_code)
        self._committed[place] = offset
        self._trace.note("committed", f"{self.name} {place} {offset}")

    async def _look_back(self, place: Place) -> None:
        offset = await committed_offset(self._client, self.name, place)
        self.check_commit(place, offset)

    def check_commit(self, place: Place, offset: int) -> None:
        """A commit that was acknowledged never regresses; one that was not may hold or not."""
        if not self._committed[place] <= offset <= self._tried[place]:
            raise Broken(
                f"{self.name}: {place} was committed at {self._committed[place]} "
                f"(last tried {self._tried[place]}), and is at {offset}"
            )
        # Others may have seen it: from now on it holds.
        self._committed[place] = offset

    async def check_end(self) -> None:
        """Every position, after the faults."""
        if self._commits:
            for place in self._places:
                self.check_commit(place, await committed_offset(self._client, self.name, place))


async def committed_offset(client: Client, group: str, place: Place) -> int:
    """Where a group stands; -1: nowhere. Raises ``Refused`` or ``Disconnected``; then ask again."""
    try:
        return await _committed_offset(client, group, place)
    except (Disconnected, Refused):
        client.forget_coordinator(GROUP, group)
        raise


async def _committed_offset(client: Client, group: str, place: Place) -> int:
    coordinator = await client.coordinator(GROUP, group)
    response = await client.ask(
        coordinator,
        ApiKey.OFFSET_FETCH,
        8,
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[OffsetFetchRequestTopics(name=place[0], partition_indexes=[place[1]])],
                )
            ],
            require_stable=True,
        ),
    )
    (answer,) = response.groups
    check(answer.error_code)
    (found,) = answer.topics[0].partitions
    check(found.error_code)
    return int(found.committed_offset)
