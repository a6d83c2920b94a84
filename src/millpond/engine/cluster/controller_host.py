"""The active controller on this node: hears nodes, fences the silent, elects, moves, hands out ids.

It acts only while the quorum has it lead. Everything it decides comes from ``head`` and is proposed in the
same step, so what another controller decided in a later epoch can never be mixed with it: a proposal of one
that leads no longer fails. What it remembers beside the metadata (when nodes were heard of) begins afresh
with each controller; work that was begun (moves, partitions without a leader) is in the metadata and goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.errors import (
    DuplicateRegistration,
    InvalidRegistration,
    InvalidRequest,
    MillpondError,
    NotController,
    ShuttingDown,
    UnsupportedVersion,
    WrongCluster,
)
from millpond.base.ids import LeaderEpoch, NodeId
from millpond.base.stalls import StallMeter
from millpond.engine.cluster.min_isr import log_one_min_isr
from millpond.engine.cluster.process_watch import NodeWatch, ProcessWatch
from millpond.engine.peers import (
    AllocateProducerIds,
    AlterInSync,
    AssignDirectories,
    HeartbeatAnswer,
    InSyncResult,
    MakeTopics,
    NodeHeartbeat,
    PeerHandlers,
    RegisterNode,
    ReplicaPlace,
)
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.engine.runtime.tasks import TaskOwner
from millpond.metadata.controller import CreateTopic, TopicResult, decide_producer_ids
from millpond.metadata.directories import Placement, decide_assign
from millpond.metadata.elections import (
    InSyncRequest,
    Rules,
    decide_eligible,
    decide_in_sync,
    decide_led,
    decide_one_min_isr,
    decide_preferred,
    decide_unclean,
)
from millpond.metadata.features import first_levels
from millpond.metadata.fencing import FenceReason, FenceReasons, Fencing
from millpond.metadata.image import BrokerImage, Image, PartitionImage
from millpond.metadata.links import LinkReports, decide_cuts
from millpond.metadata.nodes import (
    Heartbeat,
    HeartbeatDecision,
    Registration,
    check_epoch,
    decide_fence,
    decide_heartbeat,
    decide_register,
)
from millpond.metadata.reassignments import decide_completions
from millpond.metadata.records import (
    BrokerRegistrationChangeRecord,
    FeatureLevels,
    MetadataRecord,
    PartitionChangeRecord,
)
from millpond.metadata.sessions import Sessions

log = logging.getLogger(__name__)

# A node that is refused for one of these stays outside and retries; each incarnation is logged once.
_TURNED_AWAY = (DuplicateRegistration, InvalidRegistration, UnsupportedVersion, WrongCluster)
_TURNED_AWAY_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParts:
    """The services of the node that a controller uses."""

    node_id: NodeId
    host: Callable[[], QuorumHost]
    setting: Callable[[str], Any]
    # The rules of elections with these metadata.
    rules: Callable[[Image], Rules]
    cluster_id: Callable[[], str]
    # The incarnation of this node, by the id that it registers with.
    own_incarnation: Callable[[], UUID]
    make_topics: Callable[[Sequence[CreateTopic]], Any]
    handlers: PeerHandlers
    tasks: TaskOwner
    clock: Clock
    # The times in which this node was stalled.
    stalls: StallMeter
    # Sees that processes end; without it only missing heartbeats count.
    watch: NodeWatch | None = None


class ControllerHost:
    """The controller of a node; one of them is active."""

    def __init__(self, parts: ControllerParts) -> None:
        self._parts = parts
        self.sessions = self._new_sessions()
        self._links = self._new_links()
        self._fence_reasons = FenceReasons()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._turned_away: set[tuple[NodeId, UUID]] = set()
        self._next_balance_ms = self._next_unclean_ms = 0
        self._death_watch = (
            ProcessWatch(parts.watch, parts.tasks, self._on_gone)
            if parts.watch is not None
            else None
        )
        serve = parts.handlers.serve
        serve(RegisterNode, self._on_register)
        serve(NodeHeartbeat, self._on_heartbeat)
        serve(AlterInSync, self._on_alter_in_sync)
        serve(AssignDirectories, self._on_assign_directories)
        serve(AllocateProducerIds, self._on_allocate_producer_ids)
        serve(MakeTopics, self._on_make_topics)

    def attach(self, host: QuorumHost) -> None:
        """Become active and inactive with this host's leadership."""
        host.on_leadership(self._on_leadership)

    def on_change(self, before: Image, after: Image) -> None:
        """Check for work after a change of the metadata."""
        if self._task is not None and (
            before.brokers is not after.brokers or before.configs is not after.configs
        ):
            self._wake.set()

    def fencings(self) -> Mapping[NodeId, Fencing]:
        """Return why each fenced node is fenced; nothing if this node is not the active controller."""
        host = self._parts.host()
        if not host.is_active:
            return {}
        now_ms = self._now_ms()
        return {
            node: self._fence_reasons.why(broker, now_ms)
            for node, broker in host.image.brokers.items()
            if broker.fenced
        }

    def _new_sessions(self) -> Sessions:
        setting = self._parts.setting
        return Sessions(
            setting("broker.session.timeout.ms"),
            setting("broker.silence.timeout.ms"),
            self._parts.stalls,
        )

    def _new_links(self) -> LinkReports:
        return LinkReports(self._parts.setting("broker.silence.timeout.ms") // 2)

    # --- coming and going --------------------------------------------------------------------------

    def _on_leadership(self, is_active: bool, epoch: LeaderEpoch) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if not is_active:
            if self._death_watch is not None:
                self._death_watch.stop()
            return
        self.sessions = self._new_sessions()
        self._links = self._new_links()
        self._fence_reasons = FenceReasons()
        self.sessions.begin(
            self._host.head,
            self._now_ms(),
            self._host.end_offset - 1,
            predecessor=self._host.predecessor,
        )
        if not self._host.is_alone:
            log.info("node %d is the active controller, epoch %d", self._parts.node_id, epoch)
        self._task = self._parts.tasks.keep(lambda: self._run(epoch), name="controller")

    async def _run(self, epoch: LeaderEpoch) -> None:
        self._next_balance_ms = self._now_ms() + self._balance_ms()
        self._next_unclean_ms = self._now_ms() + self._unclean_ms()
        has_taken_up = False
        while True:
            self._wake.clear()
            try:
                if not has_taken_up:
                    await self._take_up()
                    has_taken_up = True
                await self._look_around()
            except (NotController, ShuttingDown):
                log.info(
                    "node %d is no longer the controller of epoch %d", self._parts.node_id, epoch
                )
                return
            except MillpondError as error:
                # While this node leads the quorum, no other node will do it.
                log.warning("the controller could not act, and tries again: %s", error)
                await asyncio.sleep(limits.CONTROLLER_RETRY_MS_MAX / 1000)
                continue
            await self._pause(min(self._next_balance_ms, self._next_unclean_ms))

    async def _look_around(self) -> None:
        """Do the work that is due."""
        await self._fence_silent()
        self._watch_over_others()
        now_ms = self._now_ms()
        if now_ms >= self._next_balance_ms:
            await self._end_last_known()
            await self._balance()
            self._next_balance_ms = now_ms + self._balance_ms()
        if now_ms >= self._next_unclean_ms or self._unclean_was_allowed():
            await self._elect_unclean()
            self._next_unclean_ms = now_ms + self._unclean_ms()

    async def _take_up(self) -> None:
        """Write what a new cluster needs, and finish what the last controller began."""
        host = self._host
        records: list[MetadataRecord] = []
        if not host.is_alone:
            records += first_levels(host.head, fresh=not host.head.features)
        records += decide_completions(host.head, self._rules())
        await self._propose(records)
        one_min_isr = decide_one_min_isr(host.head, self._parts.rules)
        log_one_min_isr(host.head, one_min_isr)
        await self._propose(one_min_isr)
        # This node may have been started with other settings than its predecessor.
        await self._propose(decide_eligible(host.head, self._rules()))

    async def _fence_silent(self) -> None:
        """Fence one node after the other, so that each decision sees those before it fenced."""
        self.sessions.hear(self._parts.node_id, self._now_ms(), metadata_offset=self._own_offset())
        for node in self.sessions.late(
            self._host.head, self._now_ms(), self._host.replicas_heard_ms()
        ):
            broker = self._host.head.brokers.get(node)
            if broker is None or broker.fenced:
                continue
            now_ms, reason = self._now_ms(), FenceReason.SILENT
            silent_ms = self.sessions.silent_ms(node, now_ms)
            if self.sessions.is_gone(node):
                reason = FenceReason.PROCESS_ENDED
                log.warning("node %d: its process has ended; fenced", node)
            else:
                log.warning("node %d has sent no heartbeat for %d ms: fenced", node, silent_ms)
            self._fence_reasons.note(node, reason, now_ms, heard_ms=now_ms - silent_ms)
            records = decide_fence(self._host.head, broker, self._rules())
            self.sessions.give_up(node, self._host.end_offset + len(records) - 1)
            await self._propose(records)

    def _watch_over_others(self) -> None:
        if self._death_watch is not None:
            self._death_watch.follow(
                {
                    node: broker.broker_epoch
                    for node, broker in self._host.head.brokers.items()
                    if node != self._parts.node_id and not broker.fenced
                }
            )

    def _on_gone(self, node: NodeId, was_there: bool) -> bool:
        # The connection to a node that sends heartbeats may be blocked: its process has not ended.
        if not was_there and self.sessions.is_first_hand(node):
            return False
        self.sessions.lose(node)
        self._wake.set()
        return True

    async def _end_last_known(self) -> None:
        now_ms = self._now_ms()

        def runs(node: NodeId) -> bool:
            return self.sessions.is_first_hand(node) and self.sessions.is_live(node, now_ms)

        at_most = limits.ELECTIONS_AT_ONCE_MAX
        await self._propose(decide_led(self._host.head, self._rules(), runs, at_most=at_most))

    async def _balance(self) -> None:
        if self._setting("auto.leader.rebalance.enable"):
            await self._propose(
                decide_preferred(
                    self._host.head, self._rules(), at_most=limits.ELECTIONS_AT_ONCE_MAX
                )
            )

    def _unclean_was_allowed(self) -> bool:
        return bool(decide_unclean(self._host.head, self._rules(), at_most=1))

    async def _elect_unclean(self) -> None:
        records = decide_unclean(
            self._host.head, self._rules(), at_most=limits.ELECTIONS_AT_ONCE_MAX
        )
        if records:
            log.error(
                "%d partitions are led by replicas that may lack records, as configured",
                len(records),
            )
        await self._propose(records)

    async def _pause(self, until_ms: int) -> None:
        """Wait until something is due, or the nodes change. A node that is alone waits for no other."""
        others = [
            node
            for node, broker in self._host.head.brokers.items()
            if node != self._parts.node_id and not broker.fenced
        ]
        now_ms = self._now_ms()
        due_ms = self.sessions.next_late_ms(others, now_ms) if others else None
        if due_ms is None and len(self._host.head.brokers) <= 1:
            await self._wake.wait()
            return
        pause_ms = max(1, min(until_ms, due_ms if due_ms is not None else until_ms) - now_ms)
        try:
            async with asyncio.timeout(pause_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    # --- what nodes ask ----------------------------------------------------------------------------

    async def _on_register(self, request: RegisterNode) -> int:
        try:
            return await self._register(request)
        except _TURNED_AWAY as error:
            life = (request.node_id, request.incarnation_id)
            if life not in self._turned_away:
                if len(self._turned_away) >= _TURNED_AWAY_MAX:
                    self._turned_away.clear()
                self._turned_away.add(life)
                log.warning("node %d is not let in: %s", request.node_id, error)
            raise

    async def _register(self, request: RegisterNode) -> int:
        host = self._active_host()
        now_ms = self._now_ms()
        decided = decide_register(
            host.head,
            Registration(
                node_id=request.node_id,
                cluster_id=request.cluster_id,
                incarnation_id=request.incarnation_id,
                end_points=request.end_points,
                rack=request.rack,
                log_dirs=request.log_dirs,
                features=tuple(
                    FeatureLevels(name=name, lowest=lowest, highest=highest)
                    for name, lowest, highest in request.features
                ),
                previous_epoch=request.previous_epoch,
                previous_incarnations=request.previous_incarnations,
                lost_replicas=request.lost_replicas,
            ),
            self.sessions,
            cluster_id=self._parts.cluster_id(),
            next_offset=host.end_offset,
            now_ms=now_ms,
            rules=self._rules(),
            is_own=request.incarnation_id == self._parts.own_incarnation(),
        )
        known = host.head.brokers.get(request.node_id)
        if known is None or known.incarnation_id != request.incarnation_id:
            self.sessions.forget(request.node_id)
        self.sessions.hear(request.node_id, now_ms)
        log.info("node %d registers under epoch %d", request.node_id, decided.broker_epoch)
        if known is None or known.fenced or known.incarnation_id != request.incarnation_id:
            self._fence_reasons.note(request.node_id, FenceReason.JOINING, now_ms, heard_ms=now_ms)
        await host.propose(decided.records)
        self._wake.set()
        return decided.broker_epoch

    async def _on_heartbeat(self, request: NodeHeartbeat) -> HeartbeatAnswer:
        host = self._active_host()
        # An answer lets the node lead for another session. The next controller gives it one, too, but no
        # more.
        host.check_backed()
        head = host.head
        decision = decide_heartbeat(
            head,
            Heartbeat(
                node_id=request.node_id,
                broker_epoch=request.broker_epoch,
                metadata_offset=request.metadata_offset,
                wants_fence=request.wants_fence,
                wants_stop=request.wants_stop,
                offline_dirs=request.offline_dirs,
            ),
            self.sessions,
            rules=self._rules(),
        )
        self.sessions.hear(
            request.node_id,
            self._now_ms(),
            metadata_offset=request.metadata_offset,
            lease_ms=request.lease_ms,
        )
        was_fenced = head.brokers[request.node_id].fenced
        if decision.records:
            log.info("node %d: %s", request.node_id, _in_words(decision))
            _say_behind(request.node_id, decision.records)
        if decision.moves_directories:
            _say_directories(head.brokers[request.node_id], decision.records)
        if decision.is_fenced and not was_fenced and not decision.may_stop:
            # It serves again when it has read the new leaders of its partitions.
            must_know = host.end_offset + len(decision.records) - 1
            if request.offline_dirs:
                log.warning(
                    "node %d: its log directory is offline: fenced until it takes writes again",
                    request.node_id,
                )
            self.sessions.give_up(request.node_id, must_know)
        broker = head.brokers[request.node_id]
        self._fence_reasons.hear(
            broker,
            self._now_ms(),
            is_fenced=decision.is_fenced,
            may_stop=decision.may_stop,
            # A node asks to be fenced for its disk only.
            has_no_dir=request.wants_fence
            or bool(request.offline_dirs and {*request.offline_dirs} >= {*broker.log_dirs}),
        )
        if decision.begins_to_stop:
            self.sessions.wants_stop(request.node_id, host.end_offset + len(decision.records) - 1)
        await host.propose(decision.records)
        if decision.records:
            self._wake.set()
        if decision.may_stop:
            self.sessions.forget(request.node_id)
        self._links.note(
            request.node_id, self._now_ms(), request.silent_leaders, request.silent_followers
        )
        await self._settle_cuts()
        return HeartbeatAnswer(
            is_caught_up=decision.is_caught_up,
            is_fenced=decision.is_fenced,
            may_stop=decision.may_stop,
        )

    async def _settle_cuts(self) -> None:
        """Remove followers from the in-sync replicas of leaders that they cannot reach."""
        cuts = self._links.cuts(self._now_ms())
        records = decide_cuts(self._host.head, cuts, self._rules()) if cuts else []
        if records:
            log.warning(
                "nodes miss each other while both are heard of here (leader, follower): %s; %d partitions go "
                "on without those followers",
                sorted(cuts),
                len(records),
            )
        await self._propose(records)

    async def _on_alter_in_sync(self, request: AlterInSync) -> Sequence[InSyncResult]:
        host = self._active_host()
        check_epoch(host.head, request.node_id, request.broker_epoch)
        requests = [
            InSyncRequest(
                topic_id=one.topic_id,
                partition=one.partition,
                leader_epoch=one.leader_epoch,
                partition_epoch=one.partition_epoch,
                isr=one.isr,
                broker_epochs=one.broker_epochs,
            )
            for one in request.changes
        ]
        records, results = decide_in_sync(host.head, request.node_id, requests, self._rules())
        await host.propose(records)
        return [_in_sync_result(one, result) for one, result in zip(requests, results, strict=True)]

    async def _on_assign_directories(
        self, request: AssignDirectories
    ) -> Mapping[ReplicaPlace, MillpondError | None]:
        host = self._active_host()
        broker = check_epoch(host.head, request.node_id, request.broker_epoch)
        if len(request.places) > limits.DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX:
            raise InvalidRequest(
                f"{len(request.places)} replicas are assigned to directories at once; at most "
                f"{limits.DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX} may be"
            )
        placements = [
            Placement(directory=one.directory, topic_id=one.topic_id, partition=one.partition)
            for one in request.places
        ]
        records, errors = decide_assign(host.head, broker, placements, self._rules())
        await host.propose(records)
        return dict(zip(request.places, errors, strict=True))

    async def _on_allocate_producer_ids(self, request: AllocateProducerIds) -> range:
        host = self._active_host()
        check_epoch(host.head, request.node_id, request.broker_epoch)
        record, block = decide_producer_ids(host.head, request.node_id, request.broker_epoch)
        await host.propose([record])
        return block

    async def _on_make_topics(self, request: MakeTopics) -> Sequence[TopicResult]:
        self._active_host()
        results: Sequence[TopicResult] = await self._parts.make_topics(request.commands)
        return results

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _host(self) -> QuorumHost:
        return self._parts.host()

    def _active_host(self) -> QuorumHost:
        host = self._host
        if not host.is_active:
            raise NotController(
                f"node {self._parts.node_id} is not the controller; node {host.leader_id} may be"
            )
        return host

    async def _propose(self, records: Sequence[MetadataRecord]) -> None:
        if records:
            await self._host.propose(records)

    def _rules(self) -> Rules:
        return self._parts.rules(self._host.head)

    def _setting(self, name: str) -> Any:
        return self._parts.setting(name)

    def _balance_ms(self) -> int:
        return 1000 * int(self._setting("leader.imbalance.check.interval.seconds"))

    def _unclean_ms(self) -> int:
        return int(self._setting("unclean.leader.election.interval.ms"))

    def _own_offset(self) -> int:
        return self._host.applied - 1

    def _now_ms(self) -> int:
        return self._parts.clock.monotonic_ms()


def _say_behind(node: NodeId, records: Sequence[MetadataRecord]) -> None:
    behind = [one for one in records if isinstance(one, PartitionChangeRecord) and one.recovering]
    if behind:
        log.warning(
            "node %d leads %d partitions again, as the last that did; it may lack records, and no replica is "
            "known to have more",
            node,
            len(behind),
        )


def _say_directories(before: BrokerImage, records: Sequence[MetadataRecord]) -> None:
    """Log which directories of a node went offline or came back, and how many partitions changed."""
    online = next(
        one.log_dirs
        for one in records
        if isinstance(one, BrokerRegistrationChangeRecord) and one.log_dirs is not None
    )
    offline = [one for one in before.log_dirs if one not in online]
    changes = sum(isinstance(one, PartitionChangeRecord) for one in records)
    log.warning(
        "node %d: log directories offline: %s (before: %s); %d partitions changed for it; the node serves "
        "all others",
        before.broker_id,
        ", ".join(map(str, offline)) or "none",
        ", ".join(map(str, before.offline_dirs)) or "none",
        changes,
    )


def _in_words(decision: HeartbeatDecision) -> str:
    if decision.begins_to_stop:
        return "wants to stop; others lead what it led"
    if decision.may_stop:
        return "has stopped"
    if decision.moves_directories:
        return "says which of its log directories are offline"
    return "fenced" if decision.is_fenced else "serves"


def _in_sync_result(one: InSyncRequest, result: PartitionImage | MillpondError) -> InSyncResult:
    if isinstance(result, MillpondError):
        return InSyncResult(topic_id=one.topic_id, partition=one.partition, error=result)
    return InSyncResult(
        topic_id=one.topic_id,
        partition=one.partition,
        leader=result.leader,
        leader_epoch=result.leader_epoch,
        partition_epoch=result.partition_epoch,
        isr=result.isr,
    )
