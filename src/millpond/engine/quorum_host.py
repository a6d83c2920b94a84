"""The host of the quorum on this node: drives the replica, folds what is agreed into the image.

Two images: ``head`` is what the leader has decided, and its next decision starts from it; ``image`` is what
is agreed, and everyone reads that. So decisions can follow each other without waiting for disks and networks,
one fsync serves all that wait, and nobody ever sees a topic that a power cut could take away.

A node that is the only voter leads as soon as it has started; its own fsync is its majority.

What the replica asks for is done in order, one thing after the other, on the loop: requests leave as tasks,
what became agreed is applied and told, then whoever waits is answered. A replica whose disk failed, or whose
log contradicts what was agreed, stops taking part until the node is started again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar
from uuid import UUID

from millpond.base.clock import Clock
from millpond.base.errors import (
    CorruptBatch,
    CorruptLog,
    MillpondError,
    NotController,
    PeerGone,
    QuorumDiverged,
    ShuttingDown,
    StorageFailure,
)
from millpond.base.ids import LeaderEpoch, NodeId, Offset
from millpond.base.rng import Rng
from millpond.engine.flusher import Flusher
from millpond.engine.metadata_log import read_batches
from millpond.engine.metadata_snapshot import write_snapshot
from millpond.engine.peers import Peers
from millpond.engine.raft_log import SNAPSHOT_PIECE_BYTES, DiskRaftLog, FileElectionStore
from millpond.engine.tasks import TaskOwner
from millpond.engine.worker import Worker
from millpond.metadata.controller import METADATA_TOPIC
from millpond.metadata.image import Image, apply
from millpond.metadata.image_records import image_delta
from millpond.metadata.records import MetadataRecord, RemoveTopicRecord, encode_record
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    Committed,
    Deposed,
    Effect,
    Elected,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    LeaderChanged,
    ReplicaKey,
    Request,
    Send,
    SnapshotAnswer,
    SnapshotId,
    SnapshotInstalled,
    Truncated,
    Vote,
)
from millpond.raft.replica import QuorumSettings, Replica
from millpond.raft.roles import Resigned
from millpond.raft.voters import Voter, VoterHistory, VoterSet
from millpond.record.batch import check_crc, iter_batches
from millpond.record.builder import build_batch

log = logging.getLogger(__name__)

T = TypeVar("T")

# Who waits, in the order of coming: a set of futures would be told in any.
_Waiting: TypeAlias = dict["asyncio.Future[None]", None]
OnCommit: TypeAlias = Callable[[Sequence[MetadataRecord], Image, Image], None]
# Called with (whether this node is the active controller now, the epoch).
OnLeadership: TypeAlias = Callable[[bool, LeaderEpoch], None]

# At the stop: how long a leader takes to tell the others that it leaves.
_FAREWELL_MS = 500

# A log shorter than this is read in no time; beyond it, one that is mostly history is replaced.
_SNAPSHOT_FACTS_MIN = 10_000
_SNAPSHOT_RATIO = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """Facts on their way to being agreed."""

    first_offset: Offset
    end_offset: Offset
    records: Sequence[MetadataRecord]
    future: asyncio.Future[None]


class _Flushing:
    """The metadata log as the flusher sees it."""

    topic = METADATA_TOPIC
    index = 0
    is_retired = False

    def __init__(self, host: "QuorumHost", raft_log: DiskRaftLog) -> None:
        self.log = raft_log.log
        self.flush_queued = False
        self._host = host

    def on_flushed(self) -> None:
        self._host.on_flushed()

    def on_flush_failed(self, error: MillpondError) -> None:
        self._host.on_flush_failed(error)


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
    ) -> None:
        self.key = key
        self._bootstrap = bootstrap
        self.settings = settings
        self.log = raft_log
        self.image = Image()
        self.head = self.image
        # As far as this node's own log goes, agreed or not: good enough to know how logs are to be opened.
        self.local_image = self.image
        self.removed_topics: frozenset[UUID] = frozenset()
        self._flusher = flusher
        self._tasks = tasks
        self._worker = worker
        self._clock = clock
        self._rng = rng
        self._peers = peers
        self._flushing = _Flushing(self, raft_log)
        self._voters = VoterHistory(voters)
        self._replica: Replica | None = None
        self._effects: deque[Effect] = deque()
        self._carrying_out = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = -1
        self._stopped = False
        self._failure: str | None = None
        self._applied: Offset = 0
        self._replayed_end: Offset = -1
        self._term: Elected | None = None
        self._is_active = False
        self._pending: deque[_Proposal] = deque()
        self._news: _Waiting = {}
        self._commits: _Waiting = {}
        self._answers: _Waiting = {}
        self._on_commit: OnCommit | None = None
        self._on_leadership: list[OnLeadership] = []
        # Batches since the last snapshot, and how many there may be.
        self._facts = 0
        self._facts_max = _SNAPSHOT_FACTS_MIN
        self._snapshotting = False

    # --- the start and the stop -------------------------------------------------------------------

    def replay(self) -> int:
        """Read the newest snapshot and the log behind it; answers how many facts they hold."""
        snapshot = self.log.take_loaded()
        facts: list[MetadataRecord] = []
        if snapshot is not None:
            self._voters.restart(snapshot.voters, snapshot.id.end_offset)
            self._applied = snapshot.id.end_offset
            self.image = apply(Image(), snapshot.records)
            self._facts_max = max(_SNAPSHOT_FACTS_MIN, _SNAPSHOT_RATIO * len(snapshot.records))
        for batch in read_batches(self.log, self._applied, self.log.end_offset):
            facts += batch.records
            for offset, voters in batch.voters:
                self._voters.add(offset, voters)
            self._facts += max(len(batch.records), 1)
        self.removed_topics = frozenset(
            record.topic_id for record in facts if isinstance(record, RemoveTopicRecord)
        )
        self.head = self.image
        self.local_image = apply(self.image, facts)
        self._replayed_end = self.log.end_offset
        return len(facts) + (len(snapshot.records) if snapshot is not None else 0)

    def start(self) -> None:
        """Take part in the quorum. The only voter leads from here on, and need not wait for its disk: what
        it had made durable before is what was agreed.
        """
        log_ = self.log.log
        store = FileElectionStore(log_.storage, log_.directory)
        was_durable = self.log.durable_end >= self._replayed_end
        self._replica = Replica(
            self.key,
            log=self.log,
            store=store,
            voters=self._voters,
            settings=self.settings,
            rng=self._rng,
            now_ms=self._clock.monotonic_ms(),
            bootstrap=self._bootstrap,
        )
        if not self.is_alone:
            self._step(lambda replica, now_ms: replica.tick(now_ms))
            return
        with store.durable_later(log_.flush_also):
            self._step(lambda replica, now_ms: replica.lead_alone(now_ms))
        if was_durable:
            self.image, self._applied = self.local_image, self._replayed_end
            self._activate()

    async def stop(self) -> None:
        """Leave the quorum; a leader says so, that the others need not find out."""
        if self._replica is not None and self._failure is None:
            await self._say_farewell(self._replica)
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._give_up(ShuttingDown("the broker is stopping"))
        self._wake(self._news)
        self._wake(self._commits)

    async def _say_farewell(self, replica: Replica) -> None:
        others = self.voters.ids - {self.key.id}
        if not replica.is_leader or not others:
            return
        self._step_quietly(lambda replica, now_ms: replica.resign(now_ms))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _FAREWELL_MS / 1000
        while (left := deadline - loop.time()) > 0:
            role = replica.role
            # One that knows is enough: it stands up and tells the rest.
            if not isinstance(role, Resigned) or role.told:
                return
            await self._next(self._answers, left)

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
        if self._replica is None:
            raise ShuttingDown("the quorum has not started on this node")
        return self._replica

    @property
    def is_active(self) -> bool:
        """Whether this node decides: it leads, and knows all that was agreed before it did."""
        return self._is_active

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads, as far as is known here."""
        return self._replica.leader if self._replica is not None else None

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The newest epoch heard of."""
        return self._replica.epoch if self._replica is not None else self.log.last_epoch

    @property
    def voters(self) -> VoterSet:
        """Who votes."""
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
        return self._replica.high_watermark if self._replica is not None else self._applied

    @property
    def applied(self) -> Offset:
        """Up to here ``image`` holds what is agreed."""
        return self._applied

    @property
    def is_caught_up(self) -> bool:
        """Whether ``image`` holds all that was agreed before the present leader was elected."""
        replica = self._replica
        return self._is_active or (
            replica is not None
            and replica.leader is not None
            and self._applied > 0
            and self.log.epoch_at(self._applied - 1) == replica.epoch
        )

    async def caught_up(self) -> None:
        """Wait until it does. Raises ``ShuttingDown`` or ``StorageFailure`` if that will not be."""
        while not self.is_caught_up:
            self._check_alive()
            await self._next(self._commits)

    async def applied_beyond(self, offset: Offset) -> None:
        """Wait until ``image`` holds the fact at this offset. Raises as ``caught_up`` does."""
        while self._applied <= offset:
            self._check_alive()
            await self._next(self._commits)

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise StorageFailure(self._failure)
        if self._stopped:
            raise ShuttingDown("the broker is stopping")

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
        self._check_alive()
        if not self._is_active:
            leader = self.leader_id
            where = f"node {leader} does" if leader is not None else "no leader is known"
            raise NotController(f"node {self.key.id} does not lead the quorum; {where}")

    def _append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        self._check_active()
        now_ms = self._clock.now_ms()
        head = apply(self.head, records)
        batch = build_batch([(now_ms, None, encode_record(record), ()) for record in records])
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
            self._step(act)
        except StorageFailure:
            if not self.is_alone:
                # A leader that cannot write down what it decides lets somebody else lead.
                self._step_quietly(lambda replica, now: replica.resign(now))
            raise
        self._wake(self._news)
        return future

    async def add_voter(self, voter: Voter, *, until_agreed: bool = True) -> None:
        """One more voter; returns when that is agreed, or is on its way if that is enough."""
        at = self._change_voters(lambda replica, now_ms: replica.add_voter(voter, now_ms))
        if until_agreed:
            await self._agreed(at)

    async def remove_voter(self, key: ReplicaKey) -> None:
        """One voter fewer; returns when that is agreed."""
        await self._agreed(
            self._change_voters(lambda replica, now_ms: replica.remove_voter(key, now_ms))
        )

    async def update_voter(self, voter: Voter) -> None:
        """A voter is found elsewhere; returns when that is agreed. Nothing is written if it is known."""
        known = self.voters.get(voter.key.id)
        if known == voter:
            return
        await self._agreed(
            self._change_voters(lambda replica, now_ms: replica.update_voter(voter, now_ms))
        )

    def _change_voters(
        self, change: Callable[[Replica, int], tuple[Offset, list[Effect]]]
    ) -> Offset:
        self._check_active()
        at: Offset = -1

        def act(replica: Replica, now_ms: int) -> list[Effect]:
            nonlocal at
            at, effects = change(replica, now_ms)
            return effects

        self._step(act)
        self._wake(self._news)
        return at

    async def _agreed(self, at: Offset) -> None:
        epoch = self.leader_epoch
        while self._applied <= at:
            self._check_alive()
            if self.leader_epoch != epoch:
                raise NotController("another node leads now; the change of voters may hold or not")
            await self._next(self._commits)

    # --- answering the other replicas -------------------------------------------------------------

    async def answer(self, request: Request, *, wait_ms: int | None = None) -> Answer:
        """What another replica asks. A fetch that finds nothing new waits for news first, for as long as the
        asker lets it.
        """
        self._check_alive()
        match request:
            case Vote():
                return self._serve(lambda replica, now: replica.on_vote(request, now))
            case BeginEpoch():
                return self._serve(lambda replica, now: replica.on_begin_epoch(request, now))
            case EndEpoch():
                return self._serve(lambda replica, now: replica.on_end_epoch(request, now))
            case FetchSnapshot():
                return self._serve_piece(request)
            case Fetch():
                return await self._serve_fetch(request, wait_ms)

    def _serve(self, act: Callable[[Replica, int], tuple[T, list[Effect]]]) -> T:
        answer: T

        def serve(replica: Replica, now_ms: int) -> list[Effect]:
            nonlocal answer
            answer, effects = act(replica, now_ms)
            return effects

        self._step(serve)
        return answer

    async def _serve_fetch(self, request: Fetch, wait_ms: int | None) -> FetchAnswer:
        loop = asyncio.get_running_loop()
        wait_ms_max = self.settings.fetch_wait_ms
        left_ms = wait_ms_max if wait_ms is None else min(wait_ms, wait_ms_max)
        deadline = loop.time() + left_ms / 1000
        while self._term is not None and self.is_alone and self._applied <= self._term.start:
            # Its own vote may not be durable yet: nobody may hear of this epoch.
            await self._next(self._commits)
            self._check_alive()
        while True:
            answer = self._serve(lambda replica, now: replica.on_fetch(request, now))
            if not answer.read:
                return answer
            records = self.log.read(request.offset, upto=self.log.end_offset)
            is_news = 0 <= request.high_watermark < answer.high_watermark
            left = deadline - loop.time()
            if records or is_news or left <= 0:
                return replace(answer, records=records)
            await self._next(self._news, left)
            self._check_alive()

    def _serve_piece(self, request: FetchSnapshot) -> SnapshotAnswer:
        answer = self._serve(lambda replica, now: replica.on_fetch_snapshot(request, now))
        if answer.refusal is not None:
            return answer
        data = self.log.read_piece(request.snapshot, request.position, SNAPSHOT_PIECE_BYTES)
        return replace(answer, data=data)

    # --- asking them ------------------------------------------------------------------------------

    async def _ask(self, to: NodeId, request: Request) -> None:
        answer: Answer | None = None
        is_gone = False
        try:
            if self._peers is not None:
                answer = await self._peers.ask_quorum(
                    to, request, timeout_ms=self.settings.request_timeout_ms
                )
                _check_records(answer)
        except CorruptBatch as error:
            log.error("metadata: node %d sent damaged records (%s); asking again", to, error)
            answer = None
        except MillpondError as error:
            is_gone = isinstance(error, PeerGone)
            log.debug("metadata: node %d does not answer: %s", to, error)
        if answer is None:
            self._step_quietly(
                lambda replica, now: replica.on_failure(to, request, now, is_gone=is_gone)
            )
        else:
            answered = answer
            self._step_quietly(lambda replica, now: replica.on_answer(to, request, answered, now))
        self._wake(self._answers)

    # --- driving the replica ----------------------------------------------------------------------

    def _step(self, act: Callable[[Replica, int], list[Effect]]) -> None:
        """One step of the replica, and what follows from it. Raises what the step raises."""
        self._check_alive()
        try:
            self._effects += act(self.replica, self._clock.monotonic_ms())
        except QuorumDiverged as error:
            self._fail(str(error))
            raise
        finally:
            self._carry_out_all()
            self._schedule()

    def _step_quietly(self, act: Callable[[Replica, int], list[Effect]]) -> None:
        """A step that nobody waits for: what goes wrong is said, and tried again a little later."""
        if self._stopped or self._failure is not None:
            return
        try:
            self._step(act)
        except StorageFailure as error:
            log.error("metadata: %s; trying again", error)
            self._schedule(self.settings.retry_backoff_ms * 10)
        except QuorumDiverged:
            return
        except Exception:
            log.exception("metadata: a step of the quorum failed")
            self._schedule(self.settings.retry_backoff_ms * 10)

    def _carry_out_all(self) -> None:
        if self._carrying_out:
            return  # what is under way goes on with these
        self._carrying_out = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        finally:
            self._carrying_out = False
        if self._failure is None and self.log.durable_end < self.log.end_offset:
            self._flusher.request(self._flushing)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, request=request):
                self._send(to, request)
            case Committed(high_watermark=high_watermark):
                self._commit(high_watermark)
            case Elected() as term:
                self._term = term
                log.info("metadata: node %d leads the quorum in epoch %d", self.key.id, term.epoch)
                self._activate_if_due()
            case Deposed(epoch=epoch):
                self._depose(epoch)
            case LeaderChanged(epoch=epoch, leader=leader):
                if leader is not None and leader != self.key.id:
                    log.info("metadata: node %d leads the quorum in epoch %d", leader, epoch)
                self._wake(self._news)
                self._wake(self._commits)
            case Truncated(end_offset=end_offset):
                log.info("metadata: offsets from %d on were never agreed; they are cut", end_offset)
                if end_offset < self._replayed_end:
                    self._replayed_end = -1
            case SnapshotInstalled(snapshot=snapshot):
                self._install(snapshot)

    def _send(self, to: NodeId, request: Request) -> None:
        try:
            self._tasks.spawn(self._ask(to, request), name=f"quorum to {to}")
        except ShuttingDown:
            return

    def _schedule(self, at_least_ms: int = 0) -> None:
        if self._stopped or self._failure is not None or self._replica is None:
            return
        at_ms = self._replica.next_tick_ms()
        if at_least_ms == 0 and at_ms == self._timer_at_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        delay_ms = max(at_ms - self._clock.monotonic_ms(), at_least_ms)
        if delay_ms < 2**40:
            self._timer_at_ms = at_ms
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._step_quietly(lambda replica, now_ms: replica.tick(now_ms))

    def on_flushed(self) -> None:
        """The flusher made the log durable."""
        self._step_quietly(lambda replica, now_ms: replica.on_durable(now_ms))

    def on_flush_failed(self, error: MillpondError) -> None:
        """Nobody knows what the disk still holds: this replica must not claim or lead anything."""
        self._fail(f"metadata were not made durable ({error}); restart the node")

    def _fail(self, reason: str) -> None:
        if self._failure is not None:
            return
        log.error("metadata: %s", reason)
        replica = self._replica
        if replica is not None and replica.is_leader and len(self.voters) > 1:
            self._step_quietly(lambda replica, now_ms: replica.resign(now_ms))
        self._failure = reason
        self.log.log.failure = self.log.log.failure or reason
        if self._timer is not None:
            self._timer.cancel()
        self._give_up(StorageFailure(reason))
        self._depose(self.leader_epoch)
        self._wake(self._commits)

    # --- what is agreed ---------------------------------------------------------------------------

    def _commit(self, high_watermark: Offset) -> None:
        if self._failure is not None:
            return
        try:
            self._apply_upto(high_watermark)
        except CorruptLog as error:
            self._fail(f"what was agreed cannot be read ({error}); restart the node")
            return
        self._activate_if_due()
        self._wake(self._news)
        self._wake(self._commits)
        self._snapshot_if_due()

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
        self._facts += max(len(records), 1)
        if not records:
            return None
        return self._tell(records, before)

    def _tell(self, records: Sequence[MetadataRecord], before: Image) -> Exception | None:
        if self._on_commit is None:
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
        self._applied, self._replayed_end = snapshot_id.end_offset, -1
        self._facts, self._facts_max = (
            0,
            max(_SNAPSHOT_FACTS_MIN, _SNAPSHOT_RATIO * len(snapshot.records)),
        )
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
        for call in self._on_leadership:
            call(True, self._term.epoch)

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
        self._wake(self._news)
        if was_active:
            log.info("metadata: node %d leads the quorum no longer", self.key.id)
            for call in self._on_leadership:
                call(False, epoch)

    def _give_up(self, error: MillpondError) -> None:
        given_up, self._pending = self._pending, deque()
        for proposal in given_up:
            if not proposal.future.done():
                proposal.future.set_exception(error)
                # Whoever proposed may be gone.
                proposal.future.exception()

    # --- snapshots --------------------------------------------------------------------------------

    def _snapshot_if_due(self) -> None:
        if (
            self._facts >= self._facts_max
            and not self._snapshotting
            and self._on_commit is not None
        ):
            self._snapshotting = True
            try:
                self._tasks.spawn(self._guarded_snapshot(), name="metadata snapshot")
            except ShuttingDown:
                self._snapshotting = False

    async def _guarded_snapshot(self) -> None:
        try:
            await self.take_snapshot()
        except StorageFailure as error:
            log.warning("metadata: no snapshot could be written (%s); the log grows on", error)
            self._facts_max += _SNAPSHOT_FACTS_MIN
        finally:
            self._snapshotting = False

    async def take_snapshot(self) -> None:
        """Write the image down, so that the log before the last snapshot can go."""
        image, end, facts = self.image, self._applied, self._facts
        taken = SnapshotId(end, self.log.epoch_at(end - 1))
        if end == 0 or (self.log.snapshot is not None and self.log.snapshot.end_offset >= end):
            return
        voters = self._voters.written_at(end)
        now_ms = self._clock.now_ms()
        storage, directory = self.log.log.storage, self.log.log.directory
        kept = await self._worker.run(
            lambda: write_snapshot(
                storage,
                directory,
                image,
                end_offset=taken.end_offset,
                epoch=taken.epoch,
                now_ms=now_ms,
                voters=voters,
            )
        )
        if self.log.snapshot is None or self.log.snapshot.end_offset < end:
            self.log.shorten(taken, self._clock.now_ms())
            self._facts -= facts
            self._facts_max = max(_SNAPSHOT_FACTS_MIN, _SNAPSHOT_RATIO * kept)
            log.info("metadata: %d facts were replaced by a snapshot of %d", facts, kept)

    # --- waiting ----------------------------------------------------------------------------------

    async def _next(self, waiting: _Waiting, timeout_s: float | None = None) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting[future] = None
        try:
            await asyncio.wait([future], timeout=timeout_s)
        finally:
            waiting.pop(future, None)

    @staticmethod
    def _wake(waiting: _Waiting) -> None:
        for future in tuple(waiting):
            if not future.done():
                future.set_result(None)


def _check_records(answer: Answer) -> None:
    """Raises ``CorruptBatch`` if records came damaged over the network."""
    if isinstance(answer, FetchAnswer) and answer.records:
        for position, header in iter_batches(answer.records):
            if not check_crc(answer.records, position, header):
                raise CorruptBatch(f"wrong checksum at offset {header.base_offset}")
