"""One replica of the quorum: Raft's decisions, with Kafka's roles.

Rules that everything depends on:

* One vote in an epoch, durable before it is sent. One leader in an epoch, because an epoch needs a majority.
* A replica that began with an empty disk votes only if the others are empty too, or after it has caught up
  with a leader: its disk may have been wiped, and with it a vote and records that a majority counted.
* Only what is durable is claimed: a follower fetches from its durable end, a leader counts its own.
* A leader commits by counting only what its own epoch wrote (or what lies below that).
* Nothing below the high watermark is ever truncated. A replica that is told to do so stops
  (``QuorumDiverged``).
* A request with an epoch far above this replica's own, or of a candidate that is no voter, changes nothing
  here (``epochs.py``): one forged message must not use up the epochs of a quorum.
* Before a replica opens a new epoch it asks whether a majority would elect it (pre-vote), so a node that was
  cut off does not depose a leader that the others follow; and a leader that a majority no longer fetches
  from stops leading (check-quorum).

Methods take the time and return effects for the host to carry out, in order.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from millpond.base.errors import NotLeader, QuorumDiverged
from millpond.base.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from millpond.base.rng import Rng
from millpond.raft import leading
from millpond.raft.control import leader_change_batch, voter_sets_in, voters_batch
from millpond.raft.epochs import is_credible, is_used_up, may_learn
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
    Refusal,
    ReplicaKey,
    Request,
    Send,
    SnapshotAnswer,
    SnapshotInstalled,
    Truncated,
    Vote,
    VoteAnswer,
)
from millpond.raft.roles import (
    Candidate,
    Download,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from millpond.raft.storage import ElectionState, ElectionStore, RaftLog
from millpond.raft.voters import Voter, VoterHistory, VoterSet
from millpond.record.batch import iter_batches

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Kafka's ``controller.quorum.*`` settings, and for how long nodes lead partitions without a response of
    the controller (``broker.silence.timeout.ms``).
    """

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    lease_ms: int = 3000

    @property
    def fetch_wait_ms(self) -> int:
        """Return how long a leader holds a fetch without new records; well below the follower's time-out.

        And below the time-out of a request, or quiet times would look like a silent leader; and below a
        lease, because the leader's own is counted from when a majority last fetched.
        """
        return min(self.fetch_timeout_ms // 4, self.request_timeout_ms // 2, self.lease_ms // 3)

    @property
    def backed_ms_max(self) -> int:
        """Return for how long after a majority fetched no other leader can have been elected: no voter gives
        up its leader sooner than ``fetch_timeout_ms`` after its last response. The rest is for the network's
        delay.
        """
        return self.fetch_timeout_ms * 3 // 4

    @property
    def way_ms_max(self) -> int:
        """Return how long a fetch takes at most, from when its sender notes it until the leader counts it.

        The end of a predecessor's lease is computed from this. The sender drops a fetch that has not left
        within half of it (``leave_ms_max``), and the leader counts one that waited while it was stalled from
        before the stall (``StallMeter.heard_ms``). The rest is for the network, whose delay is not measured.
        """
        return self.fetch_timeout_ms // 2

    @property
    def leave_ms_max(self) -> int:
        """Return after which time a fetch that has not left yet (a connection is made first) is dropped."""
        return self.way_ms_max // 2

    @property
    def gone_backoff_ms(self) -> int:
        """Return within which time a voter becomes a candidate when its leader's process has ended."""
        return max(1, self.election_timeout_ms // 5)

    @property
    def ask_again_ms(self) -> int:
        """Return after which time a voter that refused a pre-vote is asked again."""
        return max(1, self.fetch_timeout_ms // 10)

    @property
    def check_quorum_ms(self) -> int:
        """Return how long a leader leads without fetches of a majority: a little longer than followers wait
        for it.
        """
        return self.fetch_timeout_ms * 3 // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """Which voters a leader must have heard from, and since when, before it changes the voter set."""

    since_ms: TimestampMs
    # Otherwise a majority is enough.
    all_voters: bool = False


class Replica:
    """The state machine of one node."""

    def __init__(
        self,
        key: ReplicaKey,
        *,
        log: RaftLog,
        store: ElectionStore,
        voters: VoterHistory,
        settings: QuorumSettings,
        rng: Rng,
        now_ms: TimestampMs,
        bootstrap: Sequence[NodeId] = (),
        may_found: bool = True,
    ) -> None:
        """``bootstrap`` are the nodes that an observer asks if it knows no voter. ``may_found``: whether this
        replica, if its log is empty, may help to begin a new log; otherwise it waits for a leader that has
        the old one.
        """
        self.key = key
        self._may_found = may_found
        self._bootstrap = tuple(bootstrap)
        self.log = log
        self.voter_history = voters
        self.settings = settings
        # Everything in a snapshot was committed.
        self.high_watermark: Offset = log.snapshot.end_offset if log.snapshot is not None else 0
        self._store = store
        self._rng = rng
        self._effects: list[Effect] = []
        # When this replica last backed another, by a fetch or its vote; before a restart it may have until
        # now.
        self._backed_other_ms = now_ms
        # The newest epoch and leader that this replica followed.
        self._followed: tuple[LeaderEpoch, NodeId | None] = (-1, None)
        self._outstanding: dict[NodeId, tuple[Request, TimestampMs]] = {}
        self._not_before: dict[NodeId, TimestampMs] = {}
        # Whether this replica may become a candidate; a node whose disk fails may not.
        self.may_lead = True
        self.state = store.load()
        if log.last_epoch > self.state.epoch:
            self.state = ElectionState(epoch=log.last_epoch, is_blank=self.state.is_blank)
        elif self.state == ElectionState() and log.end_offset == 0:
            self.state = ElectionState(is_blank=True)
        self.role: Role = self._first_role(now_ms)
        self._announced: tuple[LeaderEpoch, NodeId | None] = (self.epoch, self.leader)

    def _first_role(self, now_ms: TimestampMs) -> Role:
        leader = self.state.leader
        if leader == self.key.id:
            # This replica may have led this epoch and lost what it appended, so another must lead.
            return Resigned(deadline_ms=self._election_deadline(now_ms), successors=())
        if leader is not None:
            return Follower(leader=leader, deadline_ms=now_ms + self.settings.fetch_timeout_ms)
        return Unattached(deadline_ms=self._election_deadline(now_ms))

    # --- state for callers ------------------------------------------------------------------------

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest known epoch."""
        return self.state.epoch

    @property
    def voters(self) -> VoterSet:
        """The present voters."""
        return self.voter_history.latest

    @property
    def is_voter(self) -> bool:
        """Whether this replica is a voter."""
        return self.voters.has(self.key)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may become a candidate."""
        is_wiped = self.log.end_offset > 0 or not self._may_found
        return (
            (self.is_voter or self._is_leaving)
            and self.may_lead
            and not (self.state.is_blank and is_wiped)
            and not is_used_up(self.epoch)
        )

    @property
    def _is_leaving(self) -> bool:
        """Whether the latest voter set leaves this replica out, the one before did not, and the latest is not
        known to be committed. A leader that removed itself may be the only one that has that set; the others
        cannot win its vote, so it leads them until the set is committed (Raft, 4.2.2). Its own vote does not
        count.
        """
        history = self.voter_history
        offset = history.latest_offset
        is_agreed = offset < max(self.high_watermark, self.log.start_offset)
        return not is_agreed and history.at(offset).has(self.key)

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads its epoch."""
        return isinstance(self.role, Leader)

    @property
    def leader(self) -> NodeId | None:
        """The leader of the epoch, if it is known here."""
        match self.role:
            case Leader():
                return self.key.id
            case Follower(leader=leader) | Prospective(leader=leader):
                return leader
            case _:
                return None

    def next_tick_ms(self) -> TimestampMs:
        """When ``tick`` has something to do, if nothing else happens before."""
        due = [deadline for _request, deadline in self._outstanding.values()]
        due += self._not_before.values()
        match self.role:
            case Leader() as role:
                due.append(self._quorum_deadline(role))
            case role:
                due.append(role.deadline_ms)
        return min(due)

    def _quorum_deadline(self, role: Leader) -> TimestampMs:
        deadline = leading.quorum_deadline(
            role, self.voters, self.key, self.settings.check_quorum_ms
        )
        return max(deadline, role.excused_until_ms)

    def backed_ms(self, now_ms: TimestampMs) -> TimestampMs:
        """Return when a majority last backed this leader; now, if it does not lead or is the only voter."""
        role = self.role
        if not isinstance(role, Leader):
            return now_ms
        return min(now_ms, leading.quorum_deadline(role, self.voters, self.key, 0))

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: TimestampMs) -> list[Effect]:
        """Do what is due."""
        for node, (_request, deadline) in list(self._outstanding.items()):
            if deadline <= now_ms:
                self._put_off(node, now_ms)
        for node, not_before in list(self._not_before.items()):
            if not_before <= now_ms:
                del self._not_before[node]
                if isinstance(self.role, Prospective):
                    self.role.ballot.rejected.discard(node)
        self._act_on_deadline(now_ms)
        return self._done(now_ms)

    def waits_since_ms(self, now_ms: TimestampMs) -> TimestampMs:
        """Return since when, at the earliest, this replica has been waiting for what its next deadline is
        about.
        """
        settings = self.settings
        match self.role:
            case Leader():
                return now_ms - settings.check_quorum_ms
            case Follower(deadline_ms=deadline):
                return deadline - settings.fetch_timeout_ms - settings.gone_backoff_ms
            case role:
                return role.deadline_ms - 2 * settings.election_timeout_ms

    def on_stall(self, stalled_ms: int, now_ms: TimestampMs) -> list[Effect]:
        """Extend deadlines after a stall of this process: messages of others may wait unread. Nothing that
        others rely on depends on it; a majority backs a leader no longer than before, and fetches that waited
        to be read are counted from before the stall (``arrived_ms`` of ``on_fetch``).
        """
        match self.role:
            case Leader() as role:
                role.excused_until_ms = now_ms + self.settings.fetch_timeout_ms
            case role:
                role.deadline_ms += stalled_ms
        return self._done(now_ms)

    def _act_on_deadline(self, now_ms: TimestampMs) -> None:
        match self.role:
            case Leader() as role:
                if self._quorum_deadline(role) <= now_ms:
                    self._resign(now_ms)
            case Unattached(deadline_ms=deadline) if deadline <= now_ms:
                self._stand_up(now_ms)
            case Resigned(deadline_ms=deadline) if deadline <= now_ms:
                self._become_unattached(self.epoch, now_ms)
            case Prospective(deadline_ms=deadline, leader=leader) if deadline <= now_ms:
                if leader is not None:
                    self._become_follower(self.epoch, leader, now_ms)
                else:
                    self._become_unattached(self.epoch, now_ms)
            case Candidate(deadline_ms=deadline) | Follower(deadline_ms=deadline) if (
                deadline <= now_ms
            ):
                self._stand_up(now_ms)
            case _:
                pass

    def _stand_up(self, now_ms: TimestampMs) -> None:
        if self.may_stand:
            self._become_prospective(now_ms)
        else:
            self._become_unattached(self.epoch, now_ms)

    # --- requests from others ---------------------------------------------------------------------

    def on_vote(self, request: Vote, now_ms: TimestampMs) -> tuple[VoteAnswer, list[Effect]]:
        """Handle a candidate's request for a vote."""
        refusal = self._judge(request.epoch)
        if refusal is not None:
            return self._answer(VoteAnswer, refusal), self._done(now_ms)
        if not self._may_be_voter(request):
            return self._answer(VoteAnswer), self._done(now_ms)
        if request.epoch > self.epoch:
            self._become_unattached(request.epoch, now_ms)
        granted = self._grants(request)
        silent_ms = now_ms - self._backed_other_ms
        if granted and not request.pre_vote:
            self._backed_other_ms = now_ms
            self._save(replace(self.state, voted=request.candidate, is_blank=False))
            self._set_role(Unattached(deadline_ms=self._election_deadline(now_ms)))
        answer = VoteAnswer(
            epoch=self.epoch, leader=self.leader, granted=granted, silent_ms=silent_ms
        )
        return answer, self._done(now_ms)

    def _judge(self, epoch: LeaderEpoch) -> Refusal | None:
        """Return why an unsolicited request is refused because of its epoch."""
        if epoch < self.epoch:
            return Refusal.FENCED_EPOCH
        return None if is_credible(self.epoch, epoch) else Refusal.UNKNOWN_EPOCH

    def _may_be_voter(self, request: Vote) -> bool:
        """Return whether the candidate may be a voter. A voter that was added lately is in a set that this
        replica may not have yet; then its log is longer than this one. (Kafka's replicas do not check since
        KIP-853.)
        """
        own = (self.log.last_epoch, self.log.end_offset)
        return self.voters.has(request.candidate) or (request.last_epoch, request.end_offset) > own

    def _grants(self, request: Vote) -> bool:
        if self.state.is_blank and (
            self.log.end_offset > 0 or request.end_offset > 0 or not self._may_found
        ):
            return False
        is_as_long = (request.last_epoch, request.end_offset) >= (
            self.log.last_epoch,
            self.log.end_offset,
        )
        if request.pre_vote:
            match self.role:
                case Leader() | Follower(has_fetched=True):
                    return False
                case _:
                    return is_as_long
        if self.state.voted is not None:
            return self.state.voted == request.candidate and self.leader is None
        match self.role:
            case Unattached() | Prospective(leader=None):
                return is_as_long
            case _:
                return False

    def on_begin_epoch(
        self, request: BeginEpoch, now_ms: TimestampMs
    ) -> tuple[Answer, list[Effect]]:
        """Handle the announcement of a new leader."""
        refusal = self._judge(request.epoch)
        if refusal is not None:
            return self._answer(Answer, refusal), self._done(now_ms)
        self._learn(request.epoch, request.leader, now_ms)
        return self._answer(Answer), self._done(now_ms)

    def on_end_epoch(self, request: EndEpoch, now_ms: TimestampMs) -> tuple[Answer, list[Effect]]:
        """Handle the leader's resignation: the first successor becomes a candidate at once, the others one by
        one.
        """
        refusal = self._judge(request.epoch)
        if refusal is not None:
            return self._answer(Answer, refusal), self._done(now_ms)
        self._learn(request.epoch, request.leader, now_ms)
        role = self.role
        if isinstance(role, Follower) and role.leader == request.leader and self.may_stand:
            place = next(
                (i for i, one in enumerate(request.successors) if one.id == self.key.id),
                len(request.successors),
            )
            if place == 0:
                self._become_unattached(self.epoch, now_ms)
                self._become_prospective(now_ms)
            else:
                backoff = min(
                    self.settings.election_backoff_max_ms,
                    self.settings.retry_backoff_ms << place,
                )
                role.deadline_ms = now_ms + backoff
                role.has_fetched = False
        return self._answer(Answer), self._done(now_ms)

    def on_fetch(
        self, request: Fetch, now_ms: TimestampMs, *, arrived_ms: TimestampMs | None = None
    ) -> tuple[FetchAnswer, list[Effect]]:
        """Handle a fetch. The host reads the records if the response says so, or waits for more.

        ``arrived_ms``: since when the fetch has waited, here or in the socket. The follower was heard from
        then, and not later.
        """
        role, refusal = self._leading(request.epoch)
        if role is None:
            return self._answer(FetchAnswer, refusal), self._done(now_ms)
        answer = leading.judge_fetch(self.log, request)
        if answer.read and request.replica.id >= 0:
            heard_ms = now_ms if arrived_ms is None else arrived_ms
            leading.note_fetch(role, self.voters, request, self.log.end_offset, heard_ms)
            self._advance(role, now_ms)
        answer = replace(
            answer, epoch=self.epoch, leader=self.leader, high_watermark=self.high_watermark
        )
        return answer, self._done(now_ms)

    def on_fetch_snapshot(
        self, request: FetchSnapshot, now_ms: TimestampMs, *, arrived_ms: TimestampMs | None = None
    ) -> tuple[SnapshotAnswer, list[Effect]]:
        """Handle a request for a piece of a snapshot; the host reads it. ``arrived_ms``: as in
        ``on_fetch``.
        """
        role, refusal = self._leading(request.epoch)
        if role is None:
            return self._answer(SnapshotAnswer, refusal), self._done(now_ms)
        size = self.log.snapshot_size(request.snapshot)
        if size is None:
            return self._answer(SnapshotAnswer, Refusal.UNKNOWN_SNAPSHOT), self._done(now_ms)
        if not 0 <= request.position < size:
            return self._answer(SnapshotAnswer, Refusal.WRONG_POSITION), self._done(now_ms)
        heard_ms = now_ms if arrived_ms is None else arrived_ms
        leading.note_alive(role, self.voters, request.replica, heard_ms)
        answer = SnapshotAnswer(
            epoch=self.epoch,
            leader=self.leader,
            snapshot=request.snapshot,
            position=request.position,
            size=size,
        )
        return answer, self._done(now_ms)

    def _leading(self, epoch: LeaderEpoch) -> tuple[Leader | None, Refusal | None]:
        if epoch < self.epoch:
            return None, Refusal.FENCED_EPOCH
        if epoch > self.epoch:
            return None, Refusal.UNKNOWN_EPOCH
        if not isinstance(self.role, Leader):
            return None, Refusal.NOT_LEADER
        return self.role, None

    def _answer(self, kind: Callable[..., T], refusal: Refusal | None = None) -> T:
        return kind(epoch=self.epoch, leader=self.leader, refusal=refusal)

    # --- answers from others ----------------------------------------------------------------------

    def on_answer(
        self, sender: NodeId, request: Request, answer: Answer, now_ms: TimestampMs
    ) -> list[Effect]:
        """Handle the response to a request of this replica; late and duplicate ones change nothing."""
        outstanding = self._outstanding.get(sender)
        if not may_learn(self.epoch, answer.epoch):
            if outstanding is not None and outstanding[0] is request:
                self._put_off(sender, now_ms)
            return self._done(now_ms)
        if outstanding is None or outstanding[0] is not request:
            if answer.epoch > self.epoch:
                self._learn(answer.epoch, answer.leader, now_ms)
            return self._done(now_ms)
        del self._outstanding[sender]
        before = self.role
        self._learn(answer.epoch, answer.leader, now_ms)
        if self.role is before and request.epoch == self.epoch:
            self._take(sender, request, answer, now_ms)
        return self._done(now_ms)

    def on_failure(
        self, to: NodeId, request: Request, now_ms: TimestampMs, *, is_gone: bool = False
    ) -> list[Effect]:
        """Handle a failed request. ``is_gone``: the other node's process seems to have ended."""
        outstanding = self._outstanding.get(to)
        if outstanding is not None and outstanding[0] is request:
            self._put_off(to, now_ms)
        role = self.role
        if is_gone and isinstance(role, Follower) and role.leader == to:
            # There is no leader to wait for. A random delay, so that not all become candidates in the same
            # moment; a vote request of another may arrive meanwhile.
            role.has_fetched = False
            soon = now_ms + 1 + self._rng.randrange(self.settings.gone_backoff_ms)
            role.deadline_ms = min(role.deadline_ms, soon)
        return self._done(now_ms)

    def _take(self, sender: NodeId, request: Request, answer: Answer, now_ms: TimestampMs) -> None:
        role = self.role
        match request, answer:
            case Vote(), VoteAnswer():
                if isinstance(role, Prospective | Candidate):
                    self._count(role, sender, answer, now_ms)
            case BeginEpoch(), _ if isinstance(role, Leader):
                role.acknowledged.add(sender)
            case EndEpoch(), _ if isinstance(role, Resigned):
                role.told.add(sender)
            case Fetch(), FetchAnswer() if isinstance(role, Follower):
                self._take_fetched(role, sender, answer, now_ms)
            case FetchSnapshot(), SnapshotAnswer() if isinstance(role, Follower):
                self._take_piece(role, sender, answer, now_ms)
            case _:
                self._put_off(sender, now_ms)

    def _count(
        self,
        role: Prospective | Candidate,
        sender: NodeId,
        answer: VoteAnswer,
        now_ms: TimestampMs,
    ) -> None:
        (role.ballot.granted if answer.granted else role.ballot.rejected).add(sender)
        if answer.granted and isinstance(role, Candidate):
            role.silent_ms = min(role.silent_ms, answer.silent_ms)
        self._decide_ballot(role, now_ms)

    def _decide_ballot(self, role: Prospective | Candidate, now_ms: TimestampMs) -> None:
        if role.ballot.is_won(self.voters):
            if isinstance(role, Prospective):
                self._become_candidate(now_ms)
            else:
                self._become_leader(role, now_ms)
        elif role.ballot.is_lost(self.voters) or (
            isinstance(role, Candidate) and role.ballot.rejected
        ):
            # Not again at once: candidates that split the vote must not collide again. A voter that voted for
            # another does not vote again in this epoch, so there is little left to wait for.
            backoff = 1 + self._rng.randrange(self.settings.election_backoff_max_ms)
            role.deadline_ms = min(role.deadline_ms, now_ms + backoff)
        elif isinstance(role, Prospective):
            # A voter that heard from the leader a moment later than this one refuses now, and would not a
            # moment later.
            for node in role.ballot.rejected:
                self._not_before.setdefault(node, now_ms + self.settings.ask_again_ms)

    def _take_fetched(
        self, role: Follower, sender: NodeId, answer: FetchAnswer, now_ms: TimestampMs
    ) -> None:
        if sender != role.leader or answer.refusal is not None:
            self._put_off(sender, now_ms)
            return
        role.deadline_ms = self._fetch_deadline(now_ms)
        role.has_fetched = True
        if answer.diverging is not None:
            self._cut(*answer.diverging)
        elif answer.snapshot is not None:
            self.log.begin_snapshot(answer.snapshot)
            role.download = Download(snapshot=answer.snapshot)
        else:
            self._append_fetched(sender, answer, now_ms)
            role.leader_high_watermark = max(role.leader_high_watermark, answer.high_watermark)
            self._note_caught_up()

    def _append_fetched(self, sender: NodeId, answer: FetchAnswer, now_ms: TimestampMs) -> None:
        if answer.records:
            first = next(iter_batches(answer.records), None)
            if first is None or first[1].base_offset != self.log.end_offset:
                self._put_off(sender, now_ms)
                return
            self.log.append_as_follower(answer.records)
            for offset, voters in voter_sets_in(answer.records):
                self.voter_history.add(offset, voters)
        self._commit(min(answer.high_watermark, self.log.end_offset))

    def _note_caught_up(self) -> None:
        """Note that this replica has caught up: everything it had before its disk was wiped was committed
        without it, or it has it again.
        """
        role = self.role
        if (
            self.state.is_blank
            and isinstance(role, Follower)
            and self.log.last_epoch == self.epoch
            and self.log.durable_end >= role.leader_high_watermark
            # A new leader knows what was committed before it when a record of its own epoch is committed.
            and role.leader_high_watermark > self.log.epoch_end(self.epoch - 1)[1]
        ):
            self._save(replace(self.state, is_blank=False))

    def _cut(self, epoch: LeaderEpoch, leader_end: Offset) -> None:
        own_epoch, own_end = self.log.epoch_end(epoch)
        end = max(own_end, 0) if own_epoch != epoch else min(own_end, leader_end)
        if end < self.high_watermark:
            raise QuorumDiverged(
                f"the leader's log diverges from this one at offset {end}, below {self.high_watermark}, "
                "which was committed; a majority has lost its data, or this node belongs to another cluster"
            )
        self.log.truncate_to(end)
        self.voter_history.truncate_to(end)
        self._effects.append(Truncated(end))

    def _take_piece(
        self, role: Follower, sender: NodeId, answer: SnapshotAnswer, now_ms: TimestampMs
    ) -> None:
        download = role.download
        if sender != role.leader or download is None:
            return
        if (
            answer.refusal is not None
            or answer.snapshot != download.snapshot
            or answer.position != download.position
            or not answer.data
        ):
            # The leader has a newer snapshot, or is a newer leader: the response to the next fetch says what
            # to do.
            role.download = None
            self._put_off(sender, now_ms)
            return
        role.deadline_ms = self._fetch_deadline(now_ms)
        role.has_fetched = True
        self.log.write_snapshot(download.position, answer.data)
        download.position += len(answer.data)
        if download.position >= answer.size:
            role.download = None
            if not self.log.install_snapshot():
                self._put_off(sender, now_ms)
                return
            self._effects.append(SnapshotInstalled(download.snapshot))
            self._commit(download.snapshot.end_offset)

    # --- leading ----------------------------------------------------------------------------------

    def propose(self, batch: bytearray, now_ms: TimestampMs) -> tuple[Offset, list[Effect]]:
        """Append a batch as the leader; it is committed when ``Committed`` has passed its offset."""
        if not isinstance(self.role, Leader):
            raise NotLeader(f"node {self.key} does not lead the quorum; node {self.leader} may")
        offset = self.log.append_as_leader(batch, self.epoch)
        return offset, self._done(now_ms)

    def on_durable(self, now_ms: TimestampMs) -> list[Effect]:
        """Handle progress of the log's durable end."""
        if isinstance(self.role, Leader):
            self._advance(self.role, now_ms)
        self._note_caught_up()
        return self._done(now_ms)

    def lead_alone(self, now_ms: TimestampMs) -> list[Effect]:
        """Open an epoch and lead it as the only voter, without waiting."""
        if self.voters.ids == {self.key.id} and self.may_stand and not self.is_leader:
            self._become_unattached(self.epoch, now_ms)
            self._become_prospective(now_ms)
        return self._done(now_ms)

    def resign(self, now_ms: TimestampMs) -> list[Effect]:
        """Stop leading and tell the voters; for a clean stop."""
        if isinstance(self.role, Leader):
            self._resign(now_ms)
        return self._done(now_ms)

    def add_voter(
        self,
        voter: Voter,
        now_ms: TimestampMs,
        hearing: Hearing | None = None,
        *,
        registered: Container[UUID] = (),
    ) -> tuple[Offset, list[Effect]]:
        """Add a voter; effective when ``Committed`` has passed the returned offset. Raises why it cannot be
        added.

        ``hearing``: which voters the leader must have heard from besides the new one; by default a recent
        majority. ``registered``: the directories that the new voter's node has registered.
        """
        role = leading.check_change(self.role, self.voter_history, self.high_watermark)
        hearing = hearing or self._heard_of_late(now_ms)
        leading.check_newcomer(
            role, self.voters, voter, since_ms=hearing.since_ms, registered=registered
        )
        return self._change_voters(self.voters.with_voter(voter), now_ms, hearing)

    def remove_voter(
        self, key: ReplicaKey, now_ms: TimestampMs, hearing: Hearing | None = None
    ) -> tuple[Offset, list[Effect]]:
        """Remove a voter. The leader may remove itself: it stops when that is committed."""
        leading.check_change(self.role, self.voter_history, self.high_watermark)
        leading.check_leaver(self.voters, key)
        return self._change_voters(self.voters.without(key.id), now_ms, hearing)

    def update_voter(
        self, voter: Voter, now_ms: TimestampMs, hearing: Hearing | None = None
    ) -> tuple[Offset, list[Effect]]:
        """Change the endpoints of a voter."""
        leading.check_change(self.role, self.voter_history, self.high_watermark)
        leading.check_voter(self.voters, voter.key)
        voters = self.voters.without(voter.key.id).with_voter(voter)
        return self._change_voters(voters, now_ms, hearing)

    def _heard_of_late(self, now_ms: TimestampMs) -> Hearing:
        return Hearing(since_ms=now_ms - self.settings.fetch_timeout_ms)

    def _change_voters(
        self, voters: VoterSet, now_ms: TimestampMs, hearing: Hearing | None
    ) -> tuple[Offset, list[Effect]]:
        role = self.role
        assert isinstance(role, Leader)
        hearing = hearing or self._heard_of_late(now_ms)
        needed = len(voters) if hearing.all_voters else voters.majority
        leading.check_heard(role, voters, self.key, needed=needed, since_ms=hearing.since_ms)
        voters = leading.with_directories(role, voters, self.key, since_ms=hearing.since_ms)
        batch = voters_batch(voters, self.log.wall_ms())
        offset = self.log.append_as_leader(batch, self.epoch)
        self.voter_history.add(offset, voters)
        return offset, self._done(now_ms)

    def _advance(self, role: Leader, now_ms: TimestampMs) -> None:
        agreed = leading.agreed_end(role, self.voters, self.key, self.log.durable_end)
        if agreed > role.start:
            self._commit(agreed)
        if not self.is_voter and self.voter_history.latest_offset < self.high_watermark:
            self._resign(now_ms)

    def _commit(self, offset: Offset) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._effects.append(Committed(offset))

    # --- changing roles ---------------------------------------------------------------------------

    def _learn(self, epoch: LeaderEpoch, leader: NodeId | None, now_ms: TimestampMs) -> None:
        """Note an epoch and its leader from a message."""
        if epoch < self.epoch or (epoch == self.epoch and leader is None):
            return
        if epoch > self.epoch and leader is None:
            self._become_unattached(epoch, now_ms)
        elif leader == self.key.id:
            # Others know what this replica forgot: it led that epoch before it lost its log.
            if epoch > self.epoch:
                self._become_unattached(epoch, now_ms)
        elif epoch > self.epoch or self.leader is None:
            assert leader is not None
            self._become_follower(epoch, leader, now_ms)

    def _become_unattached(self, epoch: LeaderEpoch, now_ms: TimestampMs) -> None:
        if epoch > self.epoch:
            self._save(ElectionState(epoch=epoch, is_blank=self.state.is_blank))
        elif self.state.leader is not None:
            self._save(replace(self.state, leader=None))
        self._set_role(Unattached(deadline_ms=self._election_deadline(now_ms)))

    def _become_follower(self, epoch: LeaderEpoch, leader: NodeId, now_ms: TimestampMs) -> None:
        voted = self.state.voted if epoch == self.epoch else None
        state = replace(self.state, epoch=epoch, leader=leader, voted=voted)
        if state != self.state:
            self._save(state)
        self._followed = (epoch, leader)
        self._set_role(Follower(leader=leader, deadline_ms=self._fetch_deadline(now_ms)))

    def _become_prospective(self, now_ms: TimestampMs) -> None:
        role = Prospective(deadline_ms=self._election_deadline(now_ms), leader=self.leader)
        role.ballot.granted.add(self.key.id)
        self._set_role(role)
        self._decide_ballot(role, now_ms)

    def _become_candidate(self, now_ms: TimestampMs) -> None:
        self._save(ElectionState(epoch=self.epoch + 1, voted=self.key))
        role = Candidate(
            deadline_ms=self._election_deadline(now_ms),
            silent_ms=now_ms - self._backed_other_ms,
        )
        role.ballot.granted.add(self.key.id)
        self._set_role(role)
        self._decide_ballot(role, now_ms)

    def _become_leader(self, elected: Candidate, now_ms: TimestampMs) -> None:
        self._save(replace(self.state, leader=self.key.id))
        batch = leader_change_batch(
            self.key.id, self.voters.ids, elected.ballot.granted, self.log.wall_ms()
        )
        predecessor = self._predecessor(elected)
        start = self.log.append_as_leader(batch, self.epoch)
        role = Leader(
            epoch=self.epoch,
            start=start,
            since_ms=now_ms,
            acknowledged={self.key.id},
            predecessor=predecessor,
            unbacked_ms=max(0, elected.silent_ms - self.settings.way_ms_max),
        )
        self._set_role(role)
        self._effects.append(Elected(self.epoch, start))
        self._advance(role, now_ms)

    def _predecessor(self, elected: Candidate) -> NodeId | None:
        """Return the previous leader, if no other can have led after it, and no voter backed it after those
        who voted now had ceased to back it.

        This log has records of its epoch, so this replica has backed it after it was elected; if another had
        led since and committed anything, this log would have that. The voters that backed it were a majority,
        so one of those who voted now was among them, unless it voted for itself.
        """
        epoch, leader = self._followed
        if epoch != self.log.last_epoch or leader in elected.ballot.granted:
            return None
        return leader

    def _resign(self, now_ms: TimestampMs) -> None:
        assert isinstance(self.role, Leader)
        successors = leading.successors(self.role, self.voters, self.key)
        self._set_role(Resigned(deadline_ms=self._election_deadline(now_ms), successors=successors))

    def _set_role(self, role: Role) -> None:
        before, self.role = self.role, role
        self._outstanding.clear()
        self._not_before.clear()
        if isinstance(before, Leader):
            self._effects.append(Deposed(before.epoch))
        if (self.epoch, self.leader) != self._announced:
            self._announced = (self.epoch, self.leader)
            self._effects.append(LeaderChanged(*self._announced))

    def _save(self, state: ElectionState) -> None:
        assert state.epoch >= self.state.epoch
        self._store.save(state)
        self.state = state

    def _fetch_deadline(self, now_ms: TimestampMs) -> TimestampMs:
        """Return a deadline with random jitter: a leader answers its followers in the same moment, and
        followers that become candidates in the same moment elect no leader.
        """
        apart = self._rng.randrange(self.settings.gone_backoff_ms)
        return now_ms + self.settings.fetch_timeout_ms + apart

    def _election_deadline(self, now_ms: TimestampMs) -> TimestampMs:
        timeout = self.settings.election_timeout_ms
        return now_ms + timeout + self._rng.randrange(timeout)

    # --- sending ----------------------------------------------------------------------------------

    def _done(self, now_ms: TimestampMs) -> list[Effect]:
        """Create the requests that are due now, and return all effects of this step."""
        for node, request in self._wanted():
            if node not in self._outstanding and node not in self._not_before:
                if isinstance(request, Fetch | FetchSnapshot):
                    if self._is_about_to_stand_up(now_ms):
                        continue
                    self._backed_other_ms = now_ms
                self._outstanding[node] = (request, now_ms + self.settings.request_timeout_ms)
                self._effects.append(Send(node, request))
        effects, self._effects = self._effects, []
        return effects

    def _is_about_to_stand_up(self, now_ms: TimestampMs) -> bool:
        """Return whether the leader has been silent for so long that this replica no longer fetches from it:
        the next leader then need not wait for a lease that such a fetch would have extended.
        """
        role = self.role
        return (
            isinstance(role, Follower)
            and role.has_fetched
            and now_ms >= role.deadline_ms - self.settings.gone_backoff_ms
        )

    def _wanted(self) -> Iterator[tuple[NodeId, Request]]:
        """Yield the requests that this replica wants to send now."""
        others = sorted(self.voters.ids - {self.key.id})
        match self.role:
            case Unattached():
                known = others or self._bootstrap
                if known and not self._outstanding:
                    yield known[self._rng.randrange(len(known))], self._fetch()
            case Prospective(ballot=ballot) | Candidate(ballot=ballot):
                asked = ballot.granted | ballot.rejected
                for node in others:
                    if node not in asked:
                        yield node, self._vote(pre_vote=isinstance(self.role, Prospective))
            case Leader(acknowledged=acknowledged):
                for node in others:
                    if node not in acknowledged:
                        yield node, BeginEpoch(epoch=self.epoch, leader=self.key.id)
            case Resigned(successors=successors, told=told):
                for node in others:
                    if node not in told:
                        yield (
                            node,
                            EndEpoch(epoch=self.epoch, leader=self.key.id, successors=successors),
                        )
            case Follower(leader=leader, download=Download() as download):
                yield (
                    leader,
                    FetchSnapshot(
                        epoch=self.epoch,
                        replica=self.key,
                        snapshot=download.snapshot,
                        position=download.position,
                    ),
                )
            case Follower(leader=leader):
                # Records that are not durable must not be claimed; the next step after the flush asks.
                if self.log.durable_end >= self.log.end_offset:
                    yield leader, self._fetch()

    def _fetch(self) -> Fetch:
        return Fetch(
            epoch=self.epoch,
            replica=self.key,
            offset=min(self.log.durable_end, self.log.end_offset),
            last_epoch=self.log.last_epoch,
            high_watermark=self.high_watermark,
        )

    def _vote(self, *, pre_vote: bool) -> Vote:
        return Vote(
            epoch=self.epoch,
            candidate=self.key,
            last_epoch=self.log.last_epoch,
            end_offset=self.log.end_offset,
            pre_vote=pre_vote,
        )

    def _put_off(self, node: NodeId, now_ms: TimestampMs) -> None:
        self._outstanding.pop(node, None)
        self._not_before[node] = now_ms + self.settings.retry_backoff_ms
