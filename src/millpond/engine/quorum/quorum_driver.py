"""Drives the replica of this node: time, disk and peers in; what it wants done out, in order.

What a step of the replica asks for is done one thing after the other on the loop. Requests to peers leave as
tasks, a log that grew is flushed, the next tick is put on the clock; the rest (what is agreed, who leads) is
the host's. An effect that the host could not carry out (its disk could not be read just then) stays first in
the line and is tried again after a pause that grows; requests to peers do not wait for it. A replica whose
disk failed, or whose log contradicts what was agreed, stops taking part until the node is started again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.errors import (
    CorruptBatch,
    CorruptLog,
    MillpondError,
    PeerGone,
    QuorumDiverged,
    ShuttingDown,
    StorageFailure,
    WrongCluster,
)
from millpond.base.ids import NodeId, Offset
from millpond.base.stalls import StallMeter
from millpond.engine.peers import Peers
from millpond.engine.quorum.effects import Consequences, check_records, queue_effect
from millpond.engine.quorum.raft_log import SNAPSHOT_PIECE_BYTES, DiskRaftLog
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.tasks import TaskOwner
from millpond.engine.runtime.waiting import Waiting
from millpond.metadata.controller import METADATA_TOPIC
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    Effect,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Refusal,
    Request,
    Send,
    SnapshotAnswer,
    SnapshotId,
    Vote,
)
from millpond.raft.replica import Replica
from millpond.raft.roles import Resigned
from millpond.record.batch import check_crc, iter_batches

log = logging.getLogger(__name__)

T = TypeVar("T")

# At the stop: how long a leader takes to tell the others that it leaves.
_FAREWELL_MS = 500

# Later than anything: the only voter has nothing to wait for.
_NEVER_MS = 2**40


class _Flushing:
    """The metadata log as the flusher sees it."""

    topic = METADATA_TOPIC
    index = 0
    is_retired = False

    def __init__(self, driver: "QuorumDriver", raft_log: DiskRaftLog) -> None:
        self.log = raft_log.log
        self.flush_queued = False
        self._driver = driver

    def on_flushed(self) -> None:
        self._driver.step_quietly(lambda replica, now_ms: replica.on_durable(now_ms))

    def on_flush_failed(self, error: MillpondError) -> None:
        # What the disk still holds is unknown: this replica must not claim records or lead.
        self._driver.suspend(f"metadata were not made durable ({error})")


class QuorumDriver:
    """Drives one replica, from ``start`` to ``stop``."""

    def __init__(
        self,
        raft_log: DiskRaftLog,
        *,
        consequences: Consequences,
        flusher: Flusher,
        tasks: TaskOwner,
        clock: Clock,
        peers: Peers | None,
        stalls: StallMeter,
    ) -> None:
        self.log = raft_log
        self.started: Replica | None = None
        # Why this replica takes no part, and whether it will when its disk takes writes again.
        self.failure: str | None = None
        self.is_suspended = False
        # Who says meanwhile that it leads, and in which epoch: nothing of that is written down.
        self.heard: BeginEpoch | None = None
        self.is_stopped = False
        # There is something that a waiting fetch may want to know.
        self.news = Waiting()
        # Another replica has asked for what follows.
        self.fetches = Waiting()
        self._consequences = consequences
        self._flusher = flusher
        self._tasks = tasks
        self._clock = clock
        self._peers = peers
        self._flushing = _Flushing(self, raft_log)
        # What the host is to carry out; the first one stays until it is done.
        self._effects: deque[Effect] = deque()
        self._is_carrying_out = False
        self._retry: asyncio.TimerHandle | None = None
        self._retry_pause_ms = 0
        self._retry_said_ms = 0
        self._answers = Waiting()
        # Of whom it was said that they belong elsewhere.
        self._strangers: set[NodeId] = set()
        # Whose process had ended when they were asked, and who have not answered since.
        self._gone: set[NodeId] = set()
        self._has_said_blank = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = -1
        # When a step that failed is followed by a tick, unless one comes before.
        self._again_ms: int | None = None
        # The times in which this process was stalled, and until when the replica was told of them.
        self._stalls = stalls
        self._excused_ms = clock.monotonic_ms()

    def start(self, replica: Replica) -> None:
        """Begin to drive a replica."""
        self.started = replica

    async def stop(self) -> None:
        """Leave the quorum; a leader says so, that the others need not find out."""
        if self.started is not None and self.failure is None:
            await self._say_farewell(self.started)
        self.halt()
        self.news.wake()

    def halt(self) -> None:
        """Stop at once, without a message to the other replicas."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._end_retrying()

    @property
    def replica(self) -> Replica:
        """The replica that is driven."""
        if self.started is None:
            raise ShuttingDown("the quorum has not started on this node")
        return self.started

    def check_alive(self) -> None:
        """Raises why this replica takes part no longer."""
        if self.failure is not None:
            raise StorageFailure(self.failure)
        if self.is_stopped:
            raise ShuttingDown("the broker is stopping")

    # --- steps ------------------------------------------------------------------------------------

    def step(self, act: Callable[[Replica, int], list[Effect]]) -> None:
        """One step of the replica, and what follows from it. Raises what the step raises; an effect that
        cannot be carried out now is no reason to raise."""
        self.check_alive()
        try:
            self._take(act(self.replica, self._clock.monotonic_ms()))
        except QuorumDiverged as error:
            self.fail(str(error))
            raise
        except CorruptLog:
            raise
        except StorageFailure as error:
            self.suspend(f"metadata could not be written ({error})")
            raise
        finally:
            self._carry_out_all()
            self._schedule()

    def step_quietly(self, act: Callable[[Replica, int], list[Effect]]) -> None:
        """Run a step that no caller waits for: a failure is logged, and the step is tried again later."""
        if self.is_stopped or self.failure is not None:
            return
        try:
            self.step(act)
        except StorageFailure as error:
            log.error("metadata: %s; trying again", error)
            self._schedule_again()
        except QuorumDiverged:
            return
        except Exception:
            log.exception("metadata: a step of the quorum failed")
            self._schedule_again()

    def suspend(self, reason: str) -> None:
        """Take no part until the disk takes writes again (``resume``); a leader lets another node lead.

        What this replica would say could not be written down before it is said, and what it holds in memory
        of the step that failed may not be what is on its disk.
        """
        if self.failure is None:
            self._leave(reason)
            self.is_suspended = True
            self._consequences.on_suspended(reason)

    def hear(self, request: BeginEpoch) -> None:
        """A leader tells a replica that is suspended of itself."""
        if self.heard is None or request.epoch >= self.heard.epoch:
            self.heard = request

    def resume(self, replica: Replica) -> None:
        """Drive this replica, made from what is on the disk, in the place of the one that was suspended."""
        assert self.is_suspended
        log.info("metadata: node %d takes part in the quorum again", replica.key.id)
        self.failure, self.heard = None, None
        self.is_suspended = False
        self._effects.clear()
        self._timer_at_ms = -1
        self.start(replica)

    def fail(self, reason: str) -> None:
        """Take part no longer, until the node is started again; a leader lets another node lead."""
        if self.failure is not None:
            return
        self._leave(reason)
        self.log.log.failure = self.log.log.failure or reason

    def _leave(self, reason: str) -> None:
        log.error("metadata: %s", reason)
        replica = self.started
        if replica is not None and replica.is_leader and len(replica.voters) > 1:
            self.step_quietly(lambda replica, now_ms: replica.resign(now_ms))
        self.failure = reason
        if self._timer is not None:
            self._timer.cancel()
        self._end_retrying()
        self._effects.clear()
        self._consequences.on_failed(reason)
        self.news.wake()

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._send(effect.to, effect.request)
            else:
                queue_effect(self._effects, effect)
        if len(self._effects) > limits.QUORUM_EFFECTS_WAITING_MAX:
            self.fail(
                f"{len(self._effects)} changes of the quorum wait because this node's disk cannot be read; "
                "restart the node when it can"
            )

    def _carry_out_all(self) -> None:
        if self._is_carrying_out or self._retry is not None:
            return  # what is under way, or is tried again soon, goes on with these
        self._is_carrying_out = True
        try:
            while self._effects:
                effect = self._effects[0]
                try:
                    self._consequences.carry_out(effect)
                except Exception as error:  # noqa: BLE001 - said there; what is agreed must not be left out
                    self._try_again_later(effect, error)
                    break
                # Unless the replica has failed meanwhile, which ends all of them.
                if self._effects and self._effects[0] is effect:
                    self._effects.popleft()
                self._say_done()
        finally:
            self._is_carrying_out = False
        if self.failure is None and self.log.durable_end < self.log.end_offset:
            self._flusher.request(self._flushing)

    def _try_again_later(self, effect: Effect, error: Exception) -> None:
        if self.is_stopped or self.failure is not None:
            return
        now_ms = self._clock.monotonic_ms()
        is_first = self._retry_pause_ms == 0
        if is_first or now_ms - self._retry_said_ms >= limits.QUORUM_EFFECT_RETRY_SAID_MS:
            self._retry_said_ms = now_ms
            log.error(
                "metadata: %s cannot be carried out now (%s); tried again until it is",
                effect,
                error,
                # A disk that cannot be read is no mistake of the program's.
                exc_info=None if isinstance(error, MillpondError) else error,
            )
        self._retry_pause_ms = min(
            max(2 * self._retry_pause_ms, limits.QUORUM_EFFECT_RETRY_MS_MIN),
            limits.QUORUM_EFFECT_RETRY_MS_MAX,
        )
        loop = asyncio.get_running_loop()
        self._retry = loop.call_later(self._retry_pause_ms / 1000, self._on_retry)

    def _on_retry(self) -> None:
        self._retry = None
        if not self.is_stopped and self.failure is None:
            self._carry_out_all()
            self._schedule()

    def _say_done(self) -> None:
        if self._retry_pause_ms:
            self._retry_pause_ms = 0
            log.warning("metadata: what could not be carried out has been; nothing was left out")

    def _end_retrying(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _schedule(self) -> None:
        """Put the next tick on the clock.

        A step that failed is followed by a tick after a pause: a replica that was about to ask for something
        does not know when to ask again, and one whose time is over must not try in every turn of the loop.
        """
        if self.is_stopped or self.failure is not None or self.started is None:
            return
        now_ms = self._clock.monotonic_ms()
        at_ms = self.started.next_tick_ms()
        if self._again_ms is not None and not now_ms < at_ms < self._again_ms:
            at_ms = self._again_ms
        if at_ms == self._timer_at_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        delay_ms = max(at_ms - now_ms, 0)
        if delay_ms < _NEVER_MS:
            self._timer_at_ms = at_ms
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_ms / 1000, self._tick)

    def _schedule_again(self) -> None:
        pause_ms = self.replica.settings.retry_backoff_ms * 10
        self._again_ms = self._clock.monotonic_ms() + pause_ms
        self._schedule()

    def _tick(self) -> None:
        self._timer = self._again_ms = None
        now_ms = self._clock.monotonic_ms()
        since_ms = max(self._excused_ms, self.replica.waits_since_ms(now_ms))
        stalled_ms = self._stalls.stalled_ms(since_ms, now_ms)
        self._excused_ms = now_ms
        if stalled_ms:
            # What others sent meanwhile waits to be read: they were not silent.
            if stalled_ms >= self._stalls.tick_ms:
                log.info("metadata: this process was stalled for %d ms", stalled_ms)
            self.step_quietly(lambda replica, now_ms: replica.on_stall(stalled_ms, now_ms))
        self.step_quietly(lambda replica, now_ms: replica.tick(now_ms))

    # --- asking the other replicas ----------------------------------------------------------------

    def _send(self, to: NodeId, request: Request) -> None:
        try:
            self._tasks.spawn(
                self._ask(to, request, self._leave_by_ms(request)), name=f"quorum to {to}"
            )
        except ShuttingDown:
            return

    def _leave_by_ms(self, request: Request) -> int | None:
        """Until when a fetch may leave: this replica has noted that it backs the leader as of now."""
        if not isinstance(request, Fetch | FetchSnapshot):
            return None
        return self._clock.monotonic_ms() + self.replica.settings.leave_ms_max

    def _say_blank(self, request: Vote) -> None:
        if not self._has_said_blank:
            self._has_said_blank = True
            log.warning(
                "metadata: node %d asks for a vote and gets none: the disk of this node is empty, and it may "
                "have forgotten what it voted and had; it votes when it has caught up with a leader, so let "
                "the voters that have the metadata elect one",
                request.candidate.id,
            )

    async def _ask(self, to: NodeId, request: Request, leave_by_ms: int | None) -> None:
        answer: Answer | None = None
        is_gone = False
        try:
            if self._peers is not None:
                timeout_ms = self.replica.settings.request_timeout_ms
                answer = await self._peers.ask_quorum(
                    to, request, timeout_ms=timeout_ms, leave_by_ms=leave_by_ms
                )
                check_records(answer)
        except CorruptBatch as error:
            log.error("metadata: node %d sent damaged records (%s); asking again", to, error)
            answer = None
        except WrongCluster as error:
            if to not in self._strangers:
                self._strangers.add(to)
                log.error(
                    "metadata: node %d belongs to another cluster (%s); "
                    "correct cluster.id or controller.quorum.voters of the node that is wrong, or start it "
                    "with another data directory",
                    to,
                    error,
                )
        except MillpondError as error:
            is_gone = isinstance(error, PeerGone)
            log.debug("metadata: node %d does not answer: %s", to, error)
        if is_gone:
            self._gone.add(to)
        elif answer is not None:
            self._gone.discard(to)
        if answer is None:
            self.step_quietly(
                lambda replica, now: replica.on_failure(to, request, now, is_gone=is_gone)
            )
        else:
            answered = answer
            self.step_quietly(lambda replica, now: replica.on_answer(to, request, answered, now))
        self._answers.wake()

    @property
    def _others(self) -> set[NodeId]:
        return {node for node in self.replica.voters.ids if node != self.replica.key.id}

    async def _say_farewell(self, replica: Replica) -> None:
        if not replica.is_leader or len(replica.voters) == 1:
            return
        self.step_quietly(lambda replica, now_ms: replica.resign(now_ms))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _FAREWELL_MS / 1000
        while (left := deadline - loop.time()) > 0:
            role = replica.role
            # One that knows is enough: it stands up and tells the rest.
            if not isinstance(role, Resigned) or role.told or self._gone >= self._others:
                return
            await self._answers.next(left)

    # --- answering them ---------------------------------------------------------------------------

    async def answer(self, request: Request, *, wait_ms: int | None = None) -> Answer:
        """What another replica asks. A fetch that finds nothing new waits for news first, for as long as the
        asker lets it.
        """
        self.check_alive()
        match request:
            case Vote():
                vote = self._serve(lambda replica, now: replica.on_vote(request, now))
                if not vote.granted and self.replica.state.is_blank and request.end_offset > 0:
                    self._say_blank(request)
                return vote
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

        self.step(serve)
        return answer

    async def _serve_fetch(self, request: Fetch, wait_ms: int | None) -> FetchAnswer:
        loop = asyncio.get_running_loop()
        wait_ms_max = self.replica.settings.fetch_wait_ms
        left_ms = wait_ms_max if wait_ms is None else min(wait_ms, wait_ms_max)
        deadline = loop.time() + left_ms / 1000
        # It may have been sent before this process was stalled, and its sender may back another since.
        arrived_ms = self._stalls.heard_ms(self._clock.monotonic_ms())
        self.fetches.wake()
        while True:
            answer = self._serve(
                lambda replica, now: replica.on_fetch(request, now, arrived_ms=arrived_ms)
            )
            if not answer.read:
                self._report_claim(request, answer)
                return answer
            records = self._read_whole(request.offset)
            is_news = 0 <= request.high_watermark < answer.high_watermark
            left = deadline - loop.time()
            if records or is_news or left <= 0:
                return replace(answer, records=records)
            await self.news.next(left)
            self.check_alive()

    def _read_whole(self, offset: Offset) -> bytes:
        """Records for another replica, up to what the disk has damaged. Raises ``CorruptLog`` there."""
        whole = 0
        try:
            records = self.log.read(offset, upto=self.log.end_offset)
            for position, header in iter_batches(records):
                if not check_crc(records, position, header):
                    raise CorruptBatch(f"wrong checksum at offset {header.base_offset}")
                whole = position + header.size
        except (CorruptBatch, CorruptLog) as error:
            if whole:
                return records[:whole]
            damage = f"the disk has damaged the log at offset {offset} ({error})"
            self._consequences.on_damaged(offset, damage)
            raise CorruptLog(damage) from error
        except StorageFailure as error:
            self._consequences.on_unreadable(error)
            raise
        return records

    def _report_claim(self, request: Fetch, answer: FetchAnswer) -> None:
        """A replica may have more than its leader, but never of the leader's own epoch."""
        end = self.log.end_offset
        if answer.diverging and request.last_epoch == answer.epoch and request.offset > end:
            log.error(
                "quorum: epoch=%d: node %s claims everything below %d, and there is nothing of this epoch "
                "behind %d; it is not believed",
                answer.epoch,
                request.replica,
                request.offset,
                end,
            )

    def _serve_piece(self, request: FetchSnapshot) -> SnapshotAnswer:
        arrived_ms = self._stalls.heard_ms(self._clock.monotonic_ms())
        answer = self._serve(
            lambda replica, now: replica.on_fetch_snapshot(request, now, arrived_ms=arrived_ms)
        )
        if request.position == 0 and self._is_damaged(request.snapshot, answer):
            return replace(answer, refusal=Refusal.UNKNOWN_SNAPSHOT, snapshot=None)
        if answer.refusal is not None:
            return answer
        data = self.log.read_piece(request.snapshot, request.position, SNAPSHOT_PIECE_BYTES)
        return replace(answer, data=data)

    def _is_damaged(self, snapshot: SnapshotId, answer: SnapshotAnswer) -> bool:
        """Whether this node's newest snapshot cannot be served, though it should be."""
        if snapshot != self.log.snapshot or answer.refusal not in (
            None, Refusal.UNKNOWN_SNAPSHOT, Refusal.WRONG_POSITION,
        ):  # fmt: skip
            return False
        damage = self.log.damage_of(snapshot)
        if damage is None:
            return False
        end = snapshot.end_offset
        self._consequences.on_damaged(
            end - 1, f"the disk has damaged the snapshot at offset {end} ({damage})"
        )
        return True
