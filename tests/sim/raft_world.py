"""A quorum in one thread under virtual time: one seed decides every delay, loss and crash.

The checkers run at every step: one leader in an epoch; what is agreed anywhere is the same everywhere and
never changes; what was acknowledged to a client is agreed. At the end faults stop, and the quorum has to
come together: every node reaches the same end, and everything acknowledged is in it.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from millpond.base.errors import MillpondError, QuorumDiverged
from millpond.base.ids import LeaderEpoch, NodeId, Offset
from millpond.base.stalls import StallMeter
from millpond.raft.control import voter_sets_in
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    Committed,
    Effect,
    Elected,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    ReplicaKey,
    Request,
    Send,
    SnapshotAnswer,
    SnapshotInstalled,
    Vote,
    VoteAnswer,
)
from millpond.raft.replica import QuorumSettings, Replica
from millpond.raft.roles import Leader
from millpond.raft.voters import Voter, VoterHistory, VoterSet
from millpond.record.builder import build_batch
from millpond.record.records import decode_batch
from tests.sim.raft_disk import MemoryLog, MemoryStore

_READ_BATCHES = 20
_SNAPSHOT_PIECE = 40
_FETCH_WAIT_MS = 200
_SNAPSHOT_EVERY = 60
# So many voters are enough for one to be lost.
_VOTERS_MIN = 3


# A node that no voter set has ever named.
STRANGER: NodeId = 99


class Broken(AssertionError):
    """An invariant does not hold."""


class SeededRng:
    """Chance for a replica, from the seed."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def randrange(self, stop: int) -> int:
        return self._source.randrange(stop)

    def uuid4(self) -> UUID:
        return UUID(int=self._source.getrandbits(128), version=4)


class Node:
    """One node: a disk that stays, and a replica that comes and goes."""

    def __init__(self, world: "World", id_: NodeId, log: MemoryLog) -> None:
        self.world = world
        self.id = id_
        self.log = log
        self.store = world.make_store()
        self.replica: Replica | None = None
        self.life = 0
        # Whether the machine of a process that has ended says so to who asks.
        self.refuses = False
        self.paused_until = 0
        # What it slept through, and until when the replica was told of it.
        self.stalls = StallMeter()
        self._excused_ms = 0
        self.rate = world.random.uniform(0.8, 1.25)
        self.skew = world.random.randrange(10_000)
        self.agreed: Offset = 0
        self.waiting: list[tuple[Offset, LeaderEpoch, int]] = []
        self._flushing = False
        self._tick_at = -1

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.log.directory)

    def clock(self) -> int:
        """Its own monotonic time, which runs at its own pace."""
        return int(self.world.now * self.rate) + self.skew

    def start(self) -> None:
        self.life += 1
        self.world.note(f"node {self.id} starts, with a log of {self.log.end_offset}")
        history = VoterHistory(self.log.initial)
        if self.log.snapshot is not None:
            history.restart(self.log.snapshot_voters, self.log.snapshot.end_offset)
        for batch in self.log.batches:
            for offset, voters in self.world.voter_sets(batch.data):
                history.add(offset, voters)
        self.replica = self.world.make_replica(self, history)
        self.stalls = StallMeter()
        self._excused_ms = self.clock()
        self._watch_loop(self.life)
        self.agreed = self.log.start_offset
        self._flushing = False
        self.step(lambda replica, now: replica.tick(now))

    def _watch_loop(self, life: int) -> None:
        """As ``engine/runtime/loop_watch.py`` does; a node that is paused does it when it goes on."""
        if self.life == life and self.replica is not None:
            self.stalls.tick(self.clock())
            delay = int(self.stalls.tick_ms / self.rate)
            self.world.after(delay, lambda: self._watch_loop(life), self)

    def restart(self) -> None:
        """Start if it does not run already."""
        if self.replica is None:
            self.start()

    def crash(self) -> None:
        self.world.note(f"node {self.id} ends")
        self.replica = None
        self.refuses = self.world.random.random() < 0.5
        self.waiting.clear()
        self.log.lose_power()
        self.world.check_kept(self)

    def wipe(self) -> None:
        """Somebody put an empty disk in."""
        world = self.world
        self.crash()
        world.note(f"node {self.id} has an empty disk")
        self.log = world.make_log(UUID(int=world.random.getrandbits(128)), self.log.initial)
        self.store = world.make_store()
        world.wiped += 1

    def step(self, act: Callable[[Replica, int], list[Effect]]) -> None:
        """One step of the replica, and what follows from it."""
        replica = self.replica
        if replica is None:
            return
        self.log.now_ms = self.world.now
        try:
            effects = act(replica, self.clock())
        except QuorumDiverged as error:
            raise Broken(f"node {self.id}: {error}") from error
        voted = replica.state.voted
        if voted is not None and voted.id == STRANGER:
            raise Broken(f"node {self.id} has voted for node {voted.id}, which is no voter")
        for effect in effects:
            self._carry_out(effect)
        self.world.check_unbacked(self)
        self._flush_later()
        self._tick_later()

    def _carry_out(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case Send(to=to, request=request):
                world.send(self.id, to, request)
            case Elected(epoch=epoch):
                world.check_elected(self.id, epoch)
            case Committed(high_watermark=high_watermark):
                world.check_agreed(self, high_watermark)
                self._acknowledge(high_watermark)
            case SnapshotInstalled(snapshot=snapshot):
                assert self.replica is not None
                history = self.replica.voter_history
                history.restart(self.log.snapshot_voters, snapshot.end_offset)
                self.agreed = max(self.agreed, snapshot.end_offset)
            case _:
                pass

    def _acknowledge(self, high_watermark: Offset) -> None:
        replica = self.replica
        assert replica is not None
        for offset, epoch, value in list(self.waiting):
            if replica.epoch != epoch or not replica.is_leader:
                self.waiting.remove((offset, epoch, value))
            elif offset < high_watermark:
                self.waiting.remove((offset, epoch, value))
                self.world.acknowledged[value] = offset
                self.world.note(f"node {self.id} acknowledges {value} at {offset}")

    def _flush_later(self) -> None:
        if self._flushing or self.log.durable_end >= self.log.end_offset:
            return
        self._flushing = True
        life = self.life

        def flush() -> None:
            if self.replica is None or self.life != life:
                return
            self._flushing = False
            self.log.durable_end = self.log.end_offset
            self.step(lambda replica, now: replica.on_durable(now))

        self.world.after(self.world.random.randrange(1, 15), flush, self)

    def _tick_later(self) -> None:
        assert self.replica is not None
        at = self.replica.next_tick_ms()
        if at == self._tick_at:
            return
        self._tick_at = at
        delay = max(1, int((at - self.clock()) / self.rate) + 1)
        life = self.life

        def tick() -> None:
            if self.life == life and self._tick_at == at:
                self._tick_at = -1
                self._excuse()
                self.step(lambda replica, now: replica.tick(now))

        self.world.after(delay, tick, self)

    def _excuse(self) -> None:
        """Tell the replica what this node slept through, as ``engine/quorum/quorum_driver.py`` does."""
        now = self.clock()
        if self.replica is not None:
            since = max(self._excused_ms, self.replica.waits_since_ms(now))
            stalled = self.stalls.stalled_ms(since, now)
            if stalled:
                self.step(lambda replica, now: replica.on_stall(stalled, now))
        self._excused_ms = now


class World:
    """Nodes, a network, a client, and somebody who breaks things."""

    make_store: Callable[[], MemoryStore] = staticmethod(MemoryStore)
    make_log: Callable[[UUID, VoterSet], MemoryLog] = staticmethod(MemoryLog)
    replica_class: type[Replica] = Replica

    def __init__(self, seed: int, *, nodes: int = 5, keep_lines: bool = False) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self._keeps_lines = keep_lines
        voters = self.random.choice([3, 3, 5])
        self.now = 0
        self.loss = 0.0
        self.doubling = 0.0
        self.delay_max = 10
        self.frailty = 0.0
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.leaders: dict[LeaderEpoch, NodeId] = {}
        # Of a leader that was replaced: the epoch of its successor, and since when nobody backs it, as that
        # successor believes.
        self.unbacked: dict[NodeId, tuple[LeaderEpoch, float]] = {}
        self.agreed: dict[Offset, bytes] = {}
        self.acknowledged: dict[int, Offset] = {}
        self.proposed = 0
        self.faults = 0
        self.wiped = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        directories = [UUID(int=self.random.getrandbits(128)) for _ in range(nodes)]
        # Where voters are known by their number alone, one with an empty disk is still a voter.
        named = self.random.random() < 0.5
        initial = VoterSet(
            Voter(key=ReplicaKey(i, directories[i] if named else None)) for i in range(voters)
        )
        self.nodes = [Node(self, i, self.make_log(directories[i], initial)) for i in range(nodes)]
        for node in self.nodes:
            node.start()

    def make_replica(self, node: Node, history: VoterHistory) -> Replica:
        return self.replica_class(
            node.key,
            log=node.log,
            store=node.store,
            voters=history,
            settings=QuorumSettings(),
            rng=SeededRng(self.random),
            now_ms=node.clock(),
        )

    @staticmethod
    def voter_sets(data: bytes) -> list[tuple[Offset, VoterSet]]:
        return list(voter_sets_in(data))

    def note(self, line: str) -> None:
        """Something happened, for whoever looks at this life again."""
        if self._keeps_lines:
            self.lines.append(f"{self.now:>7} {line}")

    # --- time -------------------------------------------------------------------------------------

    def after(self, delay: int, act: Callable[[], None], node: Node | None = None) -> None:
        """Do something later; a node that is paused then does it when it goes on."""

        def run() -> None:
            if node is not None and node.paused_until > self.now:
                self.after(node.paused_until - self.now, act, node)
            else:
                act()

        heapq.heappush(self._events, (self.now + delay, next(self._order), run))

    def run_until(self, time: int) -> None:
        while self._events and self._events[0][0] <= time:
            at, _order, act = heapq.heappop(self._events)
            self.now = at
            act()
        self.now = time

    # --- the network ------------------------------------------------------------------------------

    def send(self, sender: NodeId, to: NodeId, request: Request) -> None:
        origin = self.nodes[sender]
        life = origin.life

        delays = self._journey(sender, to)
        for delay in delays:
            self.after(delay, lambda: self._arrive(origin, life, to, request), self.nodes[to])
        if not delays and self.random.random() < 0.5:
            delay = self.random.randrange(1, 50)
            self.after(delay, lambda: self._fail(origin, life, to, request), origin)

    def _fail(
        self, origin: Node, life: int, to: NodeId, request: Request, *, is_gone: bool = False
    ) -> None:
        if origin.life == life:
            origin.step(lambda replica, now: replica.on_failure(to, request, now, is_gone=is_gone))

    def _journey(self, sender: NodeId, to: NodeId) -> list[int]:
        if (sender, to) in self.cut or self.random.random() < self.loss:
            return []
        copies = 2 if self.random.random() < self.doubling else 1
        return [self.random.randrange(1, self.delay_max + 1) for _ in range(copies)]

    def _arrive(self, origin: Node, life: int, to: NodeId, request: Request) -> None:
        node = self.nodes[to]
        if node.replica is None:
            for delay in self._journey(to, origin.id) if node.refuses else ():
                self.after(
                    delay, lambda: self._fail(origin, life, to, request, is_gone=True), origin
                )
            return
        answers: list[Answer] = []
        arrived = self.arrived_ms(node)

        def serve(replica: Replica, now: int) -> list[Effect]:
            answer, effects = _serve(replica, request, now, arrived)
            answers.append(answer)
            return effects

        node.step(serve)
        answer = answers[0]
        if (
            isinstance(answer, FetchAnswer)
            and answer.read
            and isinstance(request, Fetch)
            and not answer.records
            and request.offset >= node.log.end_offset
        ):
            # Nothing new: the answer waits a little, as a long poll does.
            delay = self.random.randrange(1, _FETCH_WAIT_MS)
            self.after(delay, lambda: self._answer_late(origin, life, node, request, arrived), node)
            return
        self._send_back(origin, life, node, request, answer)
        if (
            isinstance(answer, VoteAnswer)
            and answer.granted
            and self.random.random() < self.frailty
        ):
            # The worst moment to crash: the vote is given.
            node.crash()
            self.after(self.random.randrange(1, 5), node.restart)

    def receive(self, node: Node, request: Request) -> None:
        """A message that no replica has sent, and whose answer nobody gets."""
        node.step(lambda replica, now: _serve(replica, request, now, now)[1])

    @staticmethod
    def arrived_ms(node: Node) -> int:
        """Since when, at the earliest, what the node reads now may have waited there, by its own clock."""
        return node.stalls.heard_ms(node.clock())

    def _answer_late(
        self, origin: Node, life: int, node: Node, request: Request, arrived: int
    ) -> None:
        replica = node.replica
        if replica is None:
            return
        answer, effects = _serve(replica, request, node.clock(), arrived)
        node.step(lambda _replica, _now: effects)
        self._send_back(origin, life, node, request, answer)

    def _send_back(
        self, origin: Node, life: int, node: Node, request: Request, answer: Answer
    ) -> None:
        def hand_over() -> None:
            if origin.life == life:
                origin.step(lambda replica, now: replica.on_answer(node.id, request, answer, now))

        for delay in self._journey(node.id, origin.id):
            self.after(delay, hand_over, origin)

    # --- the client -------------------------------------------------------------------------------

    def propose(self) -> None:
        leaders = [n for n in self.nodes if n.replica is not None and n.replica.is_leader]
        if not leaders or (node := self.random.choice(leaders)).paused_until > self.now:
            return
        value = self.proposed
        self.proposed += 1
        replica = node.replica
        assert replica is not None

        def act(replica: Replica, now: int) -> list[Effect]:
            batch = build_batch([(self.now, None, b"%d" % value, ())])
            offset, effects = replica.propose(batch, now)
            node.waiting.append((offset, replica.epoch, value))
            return effects

        node.step(act)
        node._acknowledge(replica.high_watermark)
        if len(node.log.batches) > _SNAPSHOT_EVERY and self.random.random() < 0.1:
            self.shorten(node)

    def shorten(self, node: Node) -> None:
        """Replace what is agreed by a snapshot."""
        replica = node.replica
        assert replica is not None
        ends = [b.next for b in node.log.batches if b.next <= replica.high_watermark]
        if ends:
            end = ends[-1]
            node.log.take_snapshot(end, replica.voter_history.at(end))

    def change_voters(self) -> None:
        leaders = [n for n in self.nodes if n.replica is not None and n.replica.is_leader]
        if not leaders:
            return
        node = self.random.choice(leaders)
        replica = node.replica
        assert replica is not None
        voters = replica.voters
        keys = {n.id: n.key for n in self.nodes}
        # Voters whose disks are empty now are others than those that were let in.
        lost = [v.key for v in voters if v.key.directory and v.key != keys[v.key.id]]

        def act(replica: Replica, now: int) -> list[Effect]:
            try:
                if lost:
                    return replica.remove_voter(lost[0], now)[1]
                if len(voters) < len(self.nodes) - 1 and self.random.random() < 0.6:
                    other = self.random.choice([n for n in self.nodes if n.id not in voters.ids])
                    return replica.add_voter(Voter(key=other.key), now)[1]
                if len(voters) > 3:
                    gone = self.random.choice([v.key for v in voters])
                    return replica.remove_voter(gone, now)[1]
            except MillpondError:
                pass
            return []

        node.step(act)

    def can_spare(self, node: Node) -> bool:
        """Whether nothing is lost with this node's disk: all other voters are what they were, and have it."""
        for one in self.nodes:
            if one.replica is None or len(one.replica.voters) < _VOTERS_MIN:
                return False
            for voter in one.replica.voters:
                other = self.nodes[voter.key.id]
                if other is node:
                    continue
                if other.replica is None or other.replica.state.is_blank:
                    return False
                if voter.key.directory not in {None, other.log.directory}:
                    return False
                if not other.log.durable_end:
                    return False
        return True

    # --- checkers ---------------------------------------------------------------------------------

    def check_elected(self, node: NodeId, epoch: LeaderEpoch) -> None:
        self.note(f"node {node} leads epoch {epoch}")
        before = self.leaders.setdefault(epoch, node)
        if before != node:
            raise Broken(f"epoch {epoch} is led by {before} and by {node}")
        replica = self.nodes[node].replica
        if replica is not None and isinstance(replica.role, Leader):
            before_it = replica.role.predecessor
            if before_it is not None:
                self.unbacked[before_it] = (epoch, self.now - replica.role.unbacked_ms)
                self.check_unbacked(self.nodes[before_it])

    def check_unbacked(self, node: Node) -> None:
        """A leader that was replaced was backed no later than its successor believes, however long it leads
        on for all it knows.
        """
        epoch, believed = self.unbacked.get(node.id, (-1, 0.0))
        replica = node.replica
        if replica is None or not replica.is_leader or replica.epoch >= epoch:
            return
        backed = (replica.backed_ms(node.clock()) - node.skew) / node.rate
        if backed > believed:
            raise Broken(
                f"node {node.id} counts on a majority {backed - believed:.0f} ms longer than "
                f"its successor believes"
            )

    def check_agreed(self, node: Node, high_watermark: Offset) -> None:
        for batch in node.log.batches:
            if node.agreed <= batch.base and batch.next <= high_watermark:
                known = self.agreed.setdefault(batch.base, batch.data)
                if known != batch.data:
                    raise Broken(f"node {node.id} agreed to something else at offset {batch.base}")
                node.agreed = batch.next

    def check_kept(self, node: Node) -> None:
        """After a crash a node still has what it claimed; its log below its durable end is as agreed."""
        for batch in node.log.batches:
            if batch.next > node.log.durable_end:
                raise Broken(f"node {node.id} kept what it did not flush")

    def check_end(self) -> None:
        live = [node for node in self.nodes if node.replica is not None]
        leaders = [n for n in live if n.replica is not None and n.replica.is_leader]
        if not leaders:
            raise Broken("the faults are over and nobody leads")
        top = max(leaders, key=lambda n: n.replica.epoch if n.replica else -1)
        ends = {n.id: n.log.end_offset for n in live}
        if len(set(ends.values())) != 1:
            raise Broken(f"the faults are over and the logs end apart: {ends}")
        values: dict[int, Offset] = {}
        for data in self.agreed.values():
            for record in decode_batch(data, 0):
                if record.key is None and record.value is not None:
                    values[int(record.value)] = record.offset
        for value, offset in self.acknowledged.items():
            if values.get(value) != offset:
                raise Broken(f"{value} was acknowledged at {offset} and is lost")
        for batch in top.log.batches:
            if self.agreed.get(batch.base, batch.data) != batch.data:
                raise Broken(f"the leader has something else at the agreed offset {batch.base}")


def _serve(
    replica: Replica, request: Request, now: int, arrived: int
) -> tuple[Answer, list[Effect]]:
    log = replica.log
    assert isinstance(log, MemoryLog)
    match request:
        case Vote():
            return replica.on_vote(request, now)
        case BeginEpoch():
            return replica.on_begin_epoch(request, now)
        case EndEpoch():
            return replica.on_end_epoch(request, now)
        case Fetch():
            fetched, effects = replica.on_fetch(request, now, arrived_ms=arrived)
            if fetched.read:
                fetched = _with_records(fetched, log.read(request.offset, _READ_BATCHES))
            return fetched, effects
        case FetchSnapshot():
            piece, effects = replica.on_fetch_snapshot(request, now, arrived_ms=arrived)
            if piece.refusal is None:
                piece = _with_data(piece, log.snapshot_data)
            return piece, effects


def _with_records(answer: FetchAnswer, records: bytes) -> FetchAnswer:
    return replace(answer, records=records)


def _with_data(answer: SnapshotAnswer, data: bytes) -> SnapshotAnswer:
    return replace(answer, data=data[answer.position : answer.position + _SNAPSHOT_PIECE])
