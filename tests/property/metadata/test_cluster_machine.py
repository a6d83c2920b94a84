"""A cluster under a controller, in any order of events: what must hold of every partition always holds.

One leader in each epoch, which never changes within it; a leader that is in sync and up; never two replicas
on one node; a replica that is behind leads only where that is allowed. Where eligible leaders are kept:
whoever is in sync or eligible has all that was ever committed, whatever disks have lost. Where they are not:
some replica is always in sync.
"""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millpond.base.errors import DuplicateRegistration, MillpondError
from millpond.metadata.assignments import chosen, new_partition
from millpond.metadata.elections import (
    InSyncWish,
    Rules,
    decide_elections,
    decide_in_sync,
    decide_preferred,
    decide_unclean,
)
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.nodes import (
    Heartbeat,
    Registration,
    decide_fence,
    decide_heartbeat,
    decide_register,
    decide_unregister,
)
from millpond.metadata.partition_change import Election
from millpond.metadata.reassignments import Reassignment, decide_completions, decide_reassign
from millpond.metadata.records import NO_LEADER, MetadataRecord, TopicRecord
from millpond.metadata.sessions import Sessions

SESSION_MS = 9000
NODES = (1, 2, 3, 4, 5)
CAREFUL, BOLD = UUID(int=1000), UUID(int=2000)
nodes = st.sampled_from(NODES)
replica_lists = st.lists(nodes, min_size=1, max_size=4, unique=True)
topics = st.sampled_from(["careful", "bold"])


MIN_ISR = 2


class ClusterMachine(RuleBasedStateMachine):
    """Facts are applied as they are decided. ``lives`` are the registrations that processes hold."""

    # Whether eligible leaders are kept.
    keeps = False

    def __init__(self) -> None:
        super().__init__()
        self.image = Image()
        self.settings_say = Rules(
            allows_unclean=lambda topic: topic == "bold",
            min_isr_of=(lambda _topic: MIN_ISR) if self.keeps else None,
        )
        self.offset = 0
        self.now_ms = 0
        self.sessions = Sessions(SESSION_MS)
        self.lives: dict[int, tuple[UUID, int]] = {}
        self.incarnations = 0
        self.vouched_for: set[int] = set()
        self.has_forgotten = False
        # Who led each partition in each epoch, and the highest version seen.
        self.leaders: dict[tuple[UUID, int, int], int] = {}
        self.versions: dict[tuple[UUID, int], int] = {}
        # Whose disks have all that is committed.
        self.holders: dict[tuple[UUID, int], set[int]] = {}

    @initialize(first=replica_lists)
    def begin(self, first: list[int]) -> None:
        for node in NODES:
            self.start(node, False)
            self.beat(node, False, False)
        for name, topic_id in (("careful", CAREFUL), ("bold", BOLD)):
            replicas = chosen(self.image, topic_id, range(2), min(3, len(first) + 1))
            self.write(
                [
                    TopicRecord(name=name, topic_id=topic_id),
                    *(
                        new_partition(self.image, topic_id, index, one)
                        for index, one in enumerate(replicas)
                    ),
                ]
            )

    def write(self, records: Sequence[MetadataRecord]) -> None:
        before, self.image = self.image, apply(self.image, records)
        self.offset += len(records)
        for topic in self.image.topics.values():
            for index, partition in enumerate(topic.partitions):
                self.check(before, topic.topic_id, index, partition)

    def check(self, before: Image, topic_id: UUID, index: int, now: PartitionImage) -> None:
        key = (topic_id, index)
        assert self.leaders.setdefault((*key, now.leader_epoch), now.leader) == now.leader
        assert now.partition_epoch >= self.versions.get(key, 0)
        self.versions[key] = now.partition_epoch
        old_topic = before.topics_by_id.get(topic_id)
        if old_topic is None:
            self.holders[key] = set(now.isr)
            return
        old = old_topic.partitions[index]
        if now == old:
            return
        had_everything = {*old.isr, *old.eligible_leaders, *self.vouched_for}
        if now.leader_epoch > old.leader_epoch and now.leader not in {NO_LEADER, *had_everything}:
            # What it has is what there is, from now on.
            self.holders[key] = {now.leader}
        if now.leader == old.leader:
            self.holders[key] |= self.vouched_for & set(now.isr)
        assert now.partition_epoch > old.partition_epoch
        assert now.leader_epoch - old.leader_epoch in (0, now.partition_epoch - old.partition_epoch)
        if topic_id == CAREFUL and now.leader not in (NO_LEADER, old.leader):
            # Whoever leads now was in sync, or is by the word of the leader before.
            is_last = (now.leader,) == old.last_known_leaders and not had_everything
            assert now.leader in had_everything or is_last
            assert now.recovering == is_last or old.recovering

    # --- what happens -----------------------------------------------------------------------------

    @rule(node=nodes, lost_power=st.booleans())
    def start(self, node: int, lost_power: bool) -> None:
        """A process starts under this id; one that was running is gone, unless its session says otherwise."""
        self.incarnations += 1
        incarnation = UUID(int=self.incarnations)
        try:
            decided = decide_register(
                self.image,
                Registration(
                    node_id=node,
                    cluster_id="c",
                    incarnation_id=incarnation,
                    end_points=(),
                    rack=None,
                    log_dirs=(UUID(int=100_000 + node),),
                    previous_epoch=-1
                    if lost_power or node not in self.lives
                    else self.lives[node][1],
                ),
                self.sessions,
                cluster_id="c",
                next_offset=self.offset,
                now_ms=self.now_ms,
                rules=self.settings_say,
            )
        except DuplicateRegistration:
            assert self.sessions.is_live(node, self.now_ms)
            return
        assert decided.broker_epoch > max((one for _, one in self.lives.values()), default=-1)
        if lost_power:
            for holders in self.holders.values():
                holders.discard(node)
        self.write(decided.records)
        self.sessions.forget(node)
        self.lives[node] = (incarnation, decided.broker_epoch)

    @rule(node=nodes, wants_stop=st.booleans(), behind=st.booleans())
    def beat(self, node: int, wants_stop: bool, behind: bool) -> None:
        if node not in self.lives:
            return
        offset = -1 if behind else self.offset
        command = Heartbeat(
            node_id=node,
            broker_epoch=self.lives[node][1],
            metadata_offset=offset,
            wants_stop=wants_stop,
        )
        try:
            decision = decide_heartbeat(self.image, command, self.sessions, rules=self.settings_say)
        except MillpondError:
            known = self.image.brokers.get(node)
            assert known is None or known.broker_epoch != self.lives[node][1]
            return
        self.write(decision.records)
        self.sessions.hear(node, self.now_ms, metadata_offset=offset)
        if decision.begins_to_stop:
            self.sessions.wants_stop(node, self.offset - 1)
        if decision.may_stop:
            self.sessions.forget(node)
            assert not self.led_by(node)

    @rule(ms=st.sampled_from([1, 4000, SESSION_MS]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        for node in self.sessions.late(self.image, self.now_ms):
            self.write(decide_fence(self.image, self.image.brokers[node], self.settings_say))
            self.sessions.forget(node)
            assert not self.led_by(node)

    @rule()
    def another_controller_takes_over(self) -> None:
        self.sessions.begin(self.image, self.now_ms)
        self.write(decide_completions(self.image, self.settings_say))

    @rule(node=nodes)
    def forget(self, node: int) -> None:
        if node in self.image.brokers and len(self.image.brokers) > 1:
            self.has_forgotten = True
            self.write(decide_unregister(self.image, node, self.settings_say))
            self.sessions.forget(node)

    @rule(topic=topics, index=st.integers(0, 1), isr=replica_lists, stale=st.booleans())
    def leader_speaks(self, topic: str, index: int, isr: list[int], stale: bool) -> None:
        partition = self.image.topics[topic].partitions[index]
        wish = InSyncWish(
            topic_id=self.image.topics[topic].topic_id,
            partition=index,
            leader_epoch=partition.leader_epoch - stale,
            partition_epoch=partition.partition_epoch,
            isr=tuple(isr),
        )
        sender = partition.leader
        records, (result,) = decide_in_sync(self.image, sender, [wish], self.settings_say)
        assert not (stale and records)
        if not isinstance(result, MillpondError):
            assert result.leader == sender
        self.vouched_for = set(isr)
        self.write(records)
        self.vouched_for = set()

    @rule(topic=topics, index=st.integers(0, 1))
    def something_is_committed(self, topic: str, index: int) -> None:
        partition = self.image.topics[topic].partitions[index]
        enough = min(MIN_ISR if self.keeps else 1, len(partition.replicas))
        if partition.leader != NO_LEADER and len(partition.isr) >= enough:
            self.holders[self.image.topics[topic].topic_id, index] = set(partition.isr)

    @rule(topic=topics, index=st.integers(0, 1), replicas=st.none() | replica_lists)
    def move(self, topic: str, index: int, replicas: list[int] | None) -> None:
        command = Reassignment(topic=topic, partition=index, replicas=replicas)
        decision = decide_reassign(self.image, [command], rules=self.settings_say)
        self.write(decision.records)

    @rule(unclean=st.booleans())
    def elect(self, unclean: bool) -> None:
        if unclean:
            self.write(decide_unclean(self.image, self.settings_say, at_most=10))
        else:
            self.write(decide_preferred(self.image, self.settings_say, at_most=10))

    @precondition(lambda self: "bold" in self.image.topics)
    @rule(index=st.integers(0, 1), election=st.sampled_from([Election.PREFERRED, Election.UNCLEAN]))
    def somebody_asks_for_an_election(self, index: int, election: Election) -> None:
        self.write(decide_elections(self.image, election, [("bold", index)], self.settings_say)[0])

    # --- what always holds ------------------------------------------------------------------------

    def led_by(self, node: int) -> bool:
        return any(
            partition.leader == node
            for topic in self.image.topics.values()
            for partition in topic.partitions
        )

    @invariant()
    def partitions_are_sound(self) -> None:
        for topic in self.image.topics.values():
            for one in topic.partitions:
                assert one.replicas
                assert len(set(one.replicas)) == len(one.replicas)
                # The last in-sync replica is struck off only if its node is forgotten, or where eligible
                # leaders are kept; then nobody leads.
                assert one.isr or one.leader == NO_LEADER
                assert one.isr or self.has_forgotten or self.keeps
                assert set(one.isr) <= set(one.replicas)
                assert set(one.adding) <= set(one.replicas)
                assert set(one.removing) <= set(one.replicas)
                assert not set(one.adding) & set(one.removing)
                if one.leader != NO_LEADER:
                    assert one.leader in one.isr
                    assert self.image.is_active(one.leader)

    @invariant()
    def who_is_in_sync_beside_others_is_up(self) -> None:
        for topic in self.image.topics.values():
            for one in topic.partitions:
                if len(one.isr) > 1:
                    assert all(map(self.image.is_active, one.isr))


class EligibleMachine(ClusterMachine):
    """With eligible leaders."""

    keeps = True

    @invariant()
    def who_may_lead_has_everything(self) -> None:
        for topic in self.image.topics.values():
            for index, one in enumerate(topic.partitions):
                worthy = {*one.isr, *one.eligible_leaders}
                assert worthy <= self.holders[topic.topic_id, index]
                assert worthy <= set(one.replicas)
                assert not set(one.isr) & set(one.eligible_leaders)
                if one.eligible_leaders:
                    assert len(one.isr) < min(MIN_ISR, len(one.replicas))
                if one.leader == NO_LEADER:
                    assert not any(map(self.image.is_active, worthy))
                    assert one.isr or len(one.last_known_leaders) <= 1
                else:
                    assert one.last_known_leaders == ()


for machine in (ClusterMachine, EligibleMachine):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCluster = ClusterMachine.TestCase
TestEligible = EligibleMachine.TestCase
