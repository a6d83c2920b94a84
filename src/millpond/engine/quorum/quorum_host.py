"""The quorum on this node: what is agreed, folded into the image; what is proposed, and who decides.

Two images: ``head`` is what the leader has decided, and its next decision starts from it; ``image`` is what
is agreed, and everyone reads that. So decisions can follow each other without waiting for disks and networks,
one fsync serves all that wait, and no client ever sees a topic that a power cut could take away.

A node that is the only voter leads as soon as it has started; its own fsync is its majority.

Committed records are applied, then observers are told, then waiting callers are answered.
``quorum_driver.py`` drives the replica; ``snapshotting.py`` keeps the log short.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar
from uuid import UUID

from millpond.base.clock import Clock
from millpond.base.errors import (
    CorruptLog,
    MillpondError,
    NotController,
    ShuttingDown,
    StorageFailure,
    VoterBehind,
    VotersSilent,
)
from millpond.base.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from millpond.base.rng import Rng
from millpond.base.stalls import StallMeter
from millpond.engine.peers import Peers
from millpond.engine.quorum.metadata_log import read_batches
from millpond.engine.quorum.quorum_driver import QuorumDriver
from millpond.engine.quorum.raft_log import DiskRaftLog, FileElectionStore
from millpond.engine.quorum.snapshotting import Snapshotting
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.tasks import TaskOwner
from millpond.engine.runtime.waiting import Waiting
from millpond.engine.runtime.worker import Worker
from millpond.metadata.image import Image, apply
from millpond.metadata.image_records import image_delta
from millpond.metadata.levels import check_level
from millpond.metadata.records import MetadataRecord, RemoveTopicRecord, encode_record
from millpond.raft.epochs import EPOCH_MAX, is_near_end, is_used_up
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    Committed,
    Deposed,
    Effect,
    Elected,
    Fetch,
    LeaderChanged,
    ReplicaKey,
    Request,
    SnapshotId,
    SnapshotInstalled,
    Truncated,
)
from millpond.raft.replica import Hearing, QuorumSettings, Replica
from millpond.raft.roles import Leader
from millpond.raft.voters import Voter, VoterHistory, VoterSet
from millpond.record.builder import build_batch

log = logging.getLogger(__name__)

_USED_UP = (
    "the quorum has used up its epochs, or nearly so, and will not be able to elect a leader; stop all nodes "
    "and run `millpond node reset-quorum` as docs/cluster.md says"
)

T = TypeVar("T")

OnCommit: TypeAlias = Callable[[Sequence[MetadataRecord], Image, Image], None]
# Called with (whether this node is the active controller now, the epoch).
OnLeadership: TypeAlias = Callable[[bool, LeaderEpoch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """Records that were proposed and are not committed yet."""

    first_offset: Offset
    end_offset: Offset
    records: Sequence[MetadataRecord]
    future: asyncio.Future[None]


class QuorumHost:
    """The metadata log with the images folded from it, and this node's part in the quorum."""

    def __init__(
        self,
        raft_log: DiskRaftLog,
        *,
        key: ReplicaKey,
        voters: VoterSet,
        settings: QuorumSettings,
        flusher: Flusher,
        tasks: TaskOwner,
        worker: Worker,
        clock: Clock,
        rng: Rng,
        peers: Peers | None = None,
        bootstrap: Sequence[NodeId] = (),
        stalls: StallMeter | None = None,
    ) -> None:
        self.key = key
        self._bootstrap = bootstrap
        self.settings = settings
        self.log = raft_log
        self.image = Image()
        self.head = self.image
        # As far as this node's own log goes, agreed or not: good enough to know how logs are to be opened.
        self.local_image = self.image
        # Topics that were deleted before the first observer was registered.
        self.removed_topics: frozenset[UUID] = frozenset()
        self._clock = clock
        self._rng = rng
        self._voters = VoterHistory(voters)
        self._driver = QuorumDriver(
            raft_log,
            consequences=self,
            flusher=flusher,
            tasks=tasks,
            clock=clock,
            peers=peers,
            stalls=stalls or StallMeter(),
        )
        self._snapshotting = Snapshotting(
            raft_log, voters=self._voters, tasks=tasks, worker=worker, clock=clock
        )
        self._applied: Offset = 0
        self._replayed_end: Offset = -1
        self._term: Elected | None = None
        self._is_active = False
        self._pending: deque[_Proposal] = deque()
        self._commits = Waiting()
        self._on_commit: OnCommit | None = None
        self._may_found = True
        # Called when the disk has refused a write.
        self.on_disk_failure: Callable[[str], None] = lambda reason: None
        self._on_leadership: list[OnLeadership] = []

    # --- the start and the stop -------------------------------------------------------------------

    def replay(self) -> int:
        """Read the newest snapshot and the log behind it; answers how many facts they hold."""
        snapshot = self.log.take_loaded()
        facts: list[MetadataRecord] = []
        if snapshot is not None:
            self._voters.restart(snapshot.voters, snapshot.id.end_offset)
            self._applied = snapshot.id.end_offset
            self.image = apply(Image(), snapshot.records)
            self._snapshotting.begin_anew(len(snapshot.records))
        for batch in read_batches(self.log, self._applied, self.log.end_offset):
            facts += batch.records
            for offset, voters in batch.voters:
                self._voters.add(offset, voters)
            self._snapshotting.count(len(batch.records))
        self._note_removed(facts)
        self.head = self.image
        self.local_image = apply(self.image, facts)
        self._replayed_end = self.log.end_offset
        return len(facts) + (len(snapshot.records) if snapshot is not None else 0)

    def _note_removed(self, records: Sequence[MetadataRecord]) -> None:
        self.removed_topics |= {
            record.topic_id for record in records if isinstance(record, RemoveTopicRecord)
        }

    def start(self, *, may_found: bool = True) -> None:
        """Take part in the quorum. The only voter leads from here on, and need not wait for its disk: what
        it had made durable before is what was agreed. ``may_found``: see ``Replica``.
        """
        self._may_found = may_found
        was_durable = self.log.durable_end >= self._replayed_end
        store = self._store()
        self._driver.start(self._replica(store, may_found=may_found))
        self._take_part(store)
        if self.is_alone and was_durable:
            self.image, self._applied = self.local_image, self._replayed_end
            self._activate()

    def _store(self) -> FileElectionStore:
        return FileElectionStore(self.log.log.storage, self.log.log.directory)

    def _replica(self, store: FileElectionStore, *, may_found: bool) -> Replica:
        """What is on the disk, as a replica that has just started."""
        return Replica(
            self.key,
            log=self.log,
            store=store,
            voters=self._voters,
            settings=self.settings,
            rng=self._rng,
            now_ms=self._clock.monotonic_ms(),
            bootstrap=self._bootstrap,
            may_found=may_found,
        )

    def _take_part(self, store: FileElectionStore) -> None:
        self._say_end_of_epochs(self.replica.epoch)
        if not self.is_alone:
            self._driver.step(lambda replica, now_ms: replica.tick(now_ms))
            return
        if is_used_up(self.replica.epoch):
            raise StorageFailure(_USED_UP)
        with store.durable_later(self.log.log.flush_also):
            self._driver.step(lambda replica, now_ms: replica.lead_alone(now_ms))

    def _say_end_of_epochs(self, epoch: LeaderEpoch) -> None:
        """No quorum gets there by elections: it was led there, and needs help before they are used up."""
        if is_near_end(epoch):
            log.error("metadata: epoch %d of %d: %s", epoch, EPOCH_MAX, _USED_UP)

    async def stop(self) -> None:
        """Leave the quorum; a leader says so, that the others need not find out."""
        await self._driver.stop()
        self._give_up(ShuttingDown("the broker is stopping"))
        self._commits.wake()

    # --- a disk that fails ------------------------------------------------------------------------

    def stand_back(self) -> None:
        """The node's disk fails: let another node lead. It votes as long as its vote can be written."""
        if self._driver.started is None or self.is_alone:
            return
        self._driver.started.may_lead = False
        self._driver.step_quietly(lambda replica, now: replica.resign(now))

    def come_back(self) -> None:
        """The disk takes writes again. One that was suspended begins anew with what the disk holds: what it
        had said was on the disk, and what was agreed stays so.
        """
        before = self._driver.started
        if before is None:
            return
        before.may_lead = True
        if not self._driver.is_suspended:
            return
        store = self._store()
        replica = self._replica(store, may_found=self._may_found)
        # What was agreed stays so; what of it has not been applied here is told again.
        replica.high_watermark = max(replica.high_watermark, self._applied)
        # What was read at the start is older than what has been agreed since.
        self._replayed_end = -1
        self._driver.resume(replica)
        self._take_part(store)

    def on_suspended(self, reason: str) -> None:
        """For the driver: the disk refused something that this replica had to write."""
        self.on_disk_failure(reason)

    def halt(self) -> None:
        """Stop at once, without a message to the other replicas: the process ends."""
        self._driver.halt()

    # --- what others may ask ----------------------------------------------------------------------

    def on_commit(self, call: OnCommit) -> None:
        """Whom to tell (records, image before, image after) before the waiting are answered."""
        self._on_commit = call

    def on_leadership(self, call: OnLeadership) -> None:
        """Be told when this node becomes the active controller, and when it no longer is."""
        self._on_leadership.append(call)

    @property
    def replica(self) -> Replica:
        """The replica of a host that was started."""
        return self._driver.replica

    @property
    def failure(self) -> str | None:
        """Why this replica takes part no longer; nothing if it does."""
        return self._driver.failure

    @property
    def is_active(self) -> bool:
        """Whether this node decides: it leads, and knows all that was agreed before it did."""
        return self._is_active

    @property
    def leader_id(self) -> NodeId | None:
        """The leader, as far as this node knows."""
        if self._driver.started is None:
            return None
        if self._driver.is_suspended and self._driver.heard is not None:
            return self._driver.heard.leader
        return self._driver.started.leader

    @property
    def backed_ms(self) -> TimestampMs:
        """Until when this node, if it leads, was backed by a majority for sure."""
        return self.replica.backed_ms(self._clock.monotonic_ms())

    def replicas_heard_ms(self) -> dict[NodeId, TimestampMs]:
        """When each other replica last fetched from this one, if it leads."""
        role = self.replica.role
        heard: dict[NodeId, TimestampMs] = {}
        if isinstance(role, Leader):
            for key, progress in role.progress.items():
                heard[key.id] = max(progress.fetched_ms, heard.get(key.id, progress.fetched_ms))
        return heard

    @property
    def predecessor(self) -> tuple[NodeId, TimestampMs] | None:
        """Return the leader before this one, and since when at least no majority backed it.

        None if unknown.
        """
        role = self.replica.role
        if not isinstance(role, Leader) or role.predecessor is None:
            return None
        return role.predecessor, role.since_ms - role.unbacked_ms

    async def leader_changed(self, leader: NodeId | None) -> None:
        """Wait until another node than this one leads, as far as is known here. Raises as ``caught_up``."""
        while self.leader_id == leader:
            if not self._driver.is_suspended:
                self._driver.check_alive()
            await self._commits.next()

    def check_backed(self) -> None:
        """Raise ``NotController`` unless this node leads and no other can have been elected yet."""
        self._check_active()
        silent_ms = self._clock.monotonic_ms() - self.backed_ms
        if silent_ms >= self.settings.backed_ms_max:
            raise NotController(
                f"node {self.key.id} has not heard of a majority for {silent_ms} ms; another may lead"
            )

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The newest epoch heard of."""
        return (
            self._driver.started.epoch if self._driver.started is not None else self.log.last_epoch
        )

    @property
    def voters(self) -> VoterSet:
        """The voters."""
        return self._voters.latest

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return self.voters.ids == {self.key.id}

    @property
    def end_offset(self) -> Offset:
        """Where the next fact will stand."""
        return self.log.end_offset

    @property
    def high_watermark(self) -> Offset:
        """Below this everything is agreed."""
        return (
            self._driver.started.high_watermark
            if self._driver.started is not None
            else self._applied
        )

    @property
    def applied(self) -> Offset:
        """Up to here ``image`` holds what is agreed."""
        return self._applied

    @property
    def is_caught_up(self) -> bool:
        """Whether ``image`` holds all that was agreed before the present leader was elected."""
        replica = self._driver.started
        return self._is_active or (
            replica is not None
            and replica.leader is not None
            and self._applied > 0
            and self.log.epoch_at(self._applied - 1) == replica.epoch
        )

    async def caught_up(self) -> None:
        """Wait until it does. Raises ``ShuttingDown`` or ``StorageFailure`` if that will not be."""
        while not self.is_caught_up:
            self._driver.check_alive()
            await self._commits.next()

    async def applied_beyond(self, offset: Offset) -> None:
        """Wait until ``image`` holds the fact at this offset. Raises as ``caught_up`` does."""
        while self._applied <= offset:
            self._driver.check_alive()
            await self._commits.next()

    # --- deciding ---------------------------------------------------------------------------------

    async def propose(self, records: Sequence[MetadataRecord]) -> None:
        """Make these facts true. Returns when they are agreed and applied; raises if they could not be.

        The decision that made the records must have been taken from ``head`` in the same step.
        Cancelling the caller does not undo them. ``NotController``: this node does not lead, or stopped
        leading before the facts were agreed; then they may become true or not.
        """
        if not records:
            self._check_active()
            return
        await asyncio.shield(self._append(records))

    async def settled(self) -> None:
        """Wait until everything decided so far is agreed and applied, or was given up."""
        if self._pending:
            await asyncio.wait([self._pending[-1].future])

    def _check_active(self) -> None:
        self._driver.check_alive()
        if not self._is_active:
            leader = self.leader_id
            where = f"node {leader} does" if leader is not None else "no leader is known"
            raise NotController(f"node {self.key.id} does not lead the quorum; {where}")

    def _append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        self._check_active()
        now_ms = self._clock.now_ms()
        values = [encode_record(record) for record in records]
        check_level(records, values, self.head.features)
        head = apply(self.head, records)
        batch = build_batch([(now_ms, None, value, ()) for value in values])
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def act(replica: Replica, now: int) -> list[Effect]:
            offset, effects = replica.propose(batch, now)
            self.head = head
            self._pending.append(
                _Proposal(
                    first_offset=offset,
                    end_offset=self.log.end_offset,
                    records=records,
                    future=future,
                )
            )
            return effects

        try:
            self._driver.step(act)
        except StorageFailure:
            if not self.is_alone:
                # A leader that cannot write its decisions lets another node lead.
                self._driver.step_quietly(lambda replica, now: replica.resign(now))
            raise
        self._driver.news.wake()
        return future

    async def add_voter(self, voter: Voter, *, until_agreed: bool = True) -> None:
        """One more voter; returns when that is agreed, or is on its way if that is enough."""

        def add(replica: Replica, now_ms: int, hearing: Hearing) -> tuple[Offset, list[Effect]]:
            broker = self.image.brokers.get(voter.key.id)
            registered = broker.log_dirs if broker is not None else ()
            return replica.add_voter(voter, now_ms, hearing, registered=registered)

        at = await self._change_voters(add)
        if until_agreed:
            await self._agreed(at)

    async def remove_voter(self, key: ReplicaKey) -> None:
        """One voter fewer; returns when that is agreed."""
        await self._agreed(
            await self._change_voters(
                lambda replica, now_ms, hearing: replica.remove_voter(key, now_ms, hearing)
            )
        )

    async def update_voter(self, voter: Voter) -> None:
        """A voter is found elsewhere; returns when that is agreed. Nothing is written if it is known."""
        known = self.voters.get(voter.key.id)
        if known == voter:
            return
        await self._agreed(
            await self._change_voters(
                lambda replica, now_ms, hearing: replica.update_voter(voter, now_ms, hearing)
            )
        )

    async def _change_voters(
        self, change: Callable[[Replica, int, Hearing], tuple[Offset, list[Effect]]]
    ) -> Offset:
        """Wait until every future voter has fetched since the request: earlier fetches say nothing of a disk
        that was replaced a moment ago. After a while a majority has to do, with the new
        voter if there is one.
        """
        # The order of events within one millisecond is unknown.
        since_ms = self._clock.monotonic_ms() + 1
        deadline_ms = since_ms + self.replica.settings.fetch_timeout_ms
        while True:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            try:
                at = self._change_voters_now(
                    change, Hearing(since_ms=since_ms, all_voters=left_ms > 0)
                )
            except (VotersSilent, VoterBehind):
                if left_ms <= 0:
                    raise
                await self._driver.fetches.next(left_ms / 1000)
            else:
                return at

    def _change_voters_now(
        self,
        change: Callable[[Replica, int, Hearing], tuple[Offset, list[Effect]]],
        hearing: Hearing,
    ) -> Offset:
        self._check_active()
        at: Offset = -1

        def act(replica: Replica, now_ms: int) -> list[Effect]:
            nonlocal at
            at, effects = change(replica, now_ms, hearing)
            return effects

        self._driver.step(act)
        self._driver.news.wake()
        return at

    async def _agreed(self, at: Offset) -> None:
        epoch = self.leader_epoch
        while self._applied <= at:
            self._driver.check_alive()
            if self.leader_epoch != epoch:
                raise NotController("another node leads now; the change of voters may hold or not")
            await self._commits.next()

    async def answer(self, request: Request, *, wait_ms: int | None = None) -> Answer:
        """What another replica asks. A fetch that finds nothing new waits for news first, for as long as the
        asker lets it.
        """
        while isinstance(request, Fetch) and self._is_unheard_of:
            # Its own vote may not be durable yet: no other replica may hear of this epoch.
            await self._commits.next()
            self._driver.check_alive()
        if isinstance(request, BeginEpoch) and self._driver.is_suspended:
            # Not written down, and so not acknowledged; but it says whom to tell of the disk.
            self._driver.hear(request)
            self._commits.wake()
        return await self._driver.answer(request, wait_ms=wait_ms)

    @property
    def _is_unheard_of(self) -> bool:
        """Whether this node has elected itself, alone, and has not flushed that yet."""
        return self._term is not None and self.is_alone and self._applied <= self._term.start

    # --- what the replica says --------------------------------------------------------------------

    def carry_out(self, effect: Effect) -> None:
        """For the driver: what a step of the replica led to."""
        match effect:
            case Committed(high_watermark=high_watermark):
                self._commit(high_watermark)
            case Elected() as term:
                self._term = term
                log.info("metadata: node %d leads the quorum in epoch %d", self.key.id, term.epoch)
                self._activate_if_due()
            case Deposed(epoch=epoch):
                self._depose(epoch)
            case LeaderChanged(epoch=epoch, leader=leader):
                self._say_end_of_epochs(epoch)
                if leader is not None and leader != self.key.id:
                    log.info("metadata: node %d leads the quorum in epoch %d", leader, epoch)
                self._driver.news.wake()
                self._commits.wake()
            case Truncated(end_offset=end_offset):
                log.info("metadata: offsets from %d on were never agreed; they are cut", end_offset)
                if end_offset < self._replayed_end:
                    self._replayed_end = -1
            case SnapshotInstalled(snapshot=snapshot):
                self._install(snapshot)
            case _:
                pass

    def on_damaged(self, offset: Offset, damage: str) -> None:
        """For the driver: what is agreed is in memory, too, and is written down anew; what is not, or cannot
        be, is for another node to serve."""
        if offset < self._applied:
            self._snapshotting.mend(
                self.image, self._applied, damage=damage, on_failure=self._let_another_lead
            )
        else:
            log.error("metadata: %s", damage)
            self._let_another_lead()

    def on_unreadable(self, error: StorageFailure) -> None:
        """For the driver: nothing can be agreed while followers get nothing, so another node leads."""
        if self.replica.is_leader:
            log.error("metadata: %s", error)
            self._let_another_lead()

    def _let_another_lead(self) -> None:
        if self.is_alone:
            return
        log.error("metadata: node %d lets another node lead the quorum", self.key.id)
        self._driver.step_quietly(lambda replica, now: replica.resign(now))

    def on_failed(self, reason: str) -> None:
        """For the driver: this replica takes part no longer."""
        self._give_up(StorageFailure(reason))
        self._depose(self.leader_epoch)
        self._commits.wake()

    # --- what is agreed ---------------------------------------------------------------------------

    def _commit(self, high_watermark: Offset) -> None:
        if self._driver.failure is not None:
            return
        try:
            self._apply_upto(high_watermark)
        except CorruptLog as error:
            self._driver.fail(f"what was agreed cannot be read ({error}); restart the node")
            return
        self._activate_if_due()
        self._driver.news.wake()
        self._commits.wake()
        if self._on_commit is not None:
            self._snapshotting.take_if_due(self.image, self._applied)

    def _apply_upto(self, high_watermark: Offset) -> None:
        if self._applied < self._replayed_end <= high_watermark and self._on_commit is None:
            self.image, self._applied = self.local_image, self._replayed_end
        while self._applied < high_watermark:
            if self._pending and self._pending[0].first_offset == self._applied:
                self._apply_proposal(self._pending.popleft())
                continue
            upto = min(
                high_watermark, self._pending[0].first_offset if self._pending else high_watermark
            )
            for batch in read_batches(self.log, self._applied, upto):
                self._apply(batch.records, batch.next_offset)
        if not self._pending:
            self.head = self.image

    def _apply_proposal(self, proposal: _Proposal) -> None:
        error = self._apply(proposal.records, proposal.end_offset)
        if not self._pending:
            self.head = self.image
        if proposal.future.done():
            return
        if error is None:
            proposal.future.set_result(None)
        else:
            proposal.future.set_exception(error)

    def _apply(self, records: Sequence[MetadataRecord], next_offset: Offset) -> Exception | None:
        before = self.image
        self.image = apply(before, records)
        self._applied = next_offset
        self._snapshotting.count(len(records))
        if not records:
            return None
        return self._tell(records, before)

    def _tell(self, records: Sequence[MetadataRecord], before: Image) -> Exception | None:
        if self._on_commit is None:
            self._note_removed(records)
            return None
        try:
            self._on_commit(records, before, self.image)
        except Exception as unexpected:
            log.exception("metadata: facts are agreed but could not be acted upon")
            return unexpected
        return None

    def _install(self, snapshot_id: SnapshotId) -> None:
        """The leader's snapshot has taken the place of this node's log."""
        snapshot = self.log.take_loaded()
        if snapshot is None or snapshot.id != snapshot_id:
            return  # a later one has come already
        log.info(
            "metadata: loaded the leader's snapshot of %d facts, up to offset %d",
            len(snapshot.records),
            snapshot_id.end_offset,
        )
        self._voters.restart(snapshot.voters, snapshot_id.end_offset)
        before = self.image
        self.image = self.head = apply(Image(), snapshot.records)
        if self._on_commit is None:
            # A snapshot does not speak of what is gone. It holds all that was agreed before its end, which is
            # behind everything that this node has ever acted upon.
            known = {*before.topics_by_id, *self.local_image.topics_by_id}
            self.removed_topics |= known - self.image.topics_by_id.keys()
        self._applied, self._replayed_end = snapshot_id.end_offset, -1
        self._snapshotting.begin_anew(len(snapshot.records))
        news = image_delta(before, self.image)
        if news:
            self._tell(news, before)

    # --- leading ----------------------------------------------------------------------------------

    def _activate_if_due(self) -> None:
        """A new leader decides nothing before it knows all that was agreed."""
        if not self._is_active and self._term is not None and self._applied > self._term.start:
            self._activate()

    def _activate(self) -> None:
        assert self._term is not None
        self._is_active = True
        self.head = self.image
        self._tell_leadership(self._term.epoch)

    def _depose(self, epoch: LeaderEpoch) -> None:
        was_active, self._is_active = self._is_active, False
        self._term = None
        self.head = self.image
        leader = self.leader_id
        self._give_up(
            NotController(
                f"node {self.key.id} no longer leads the quorum; "
                + (f"node {leader} does" if leader is not None else "no leader is known")
            )
        )
        self._driver.news.wake()
        if was_active:
            log.info("metadata: node %d leads the quorum no longer", self.key.id)
            self._tell_leadership(epoch)

    def _tell_leadership(self, epoch: LeaderEpoch) -> None:
        """Call every observer, also if another fails."""
        for call in self._on_leadership:
            try:
                call(self._is_active, epoch)
            except Exception:
                log.exception("metadata: a change of the controller could not be acted upon")

    def _give_up(self, error: MillpondError) -> None:
        given_up, self._pending = self._pending, deque()
        for proposal in given_up:
            if not proposal.future.done():
                proposal.future.set_exception(error)
                # The caller may have been cancelled.
                proposal.future.exception()

    # --- snapshots --------------------------------------------------------------------------------

    async def take_snapshot(self) -> None:
        """Write the image down now, so that the log before the last snapshot can go."""
        await self._snapshotting.take(self.image, self._applied)
