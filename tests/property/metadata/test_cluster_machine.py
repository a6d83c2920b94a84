"""A cluster under a controller, in any order of events: what must hold of every partition always holds.

One leader in each epoch, which never changes within it; a leader that is in sync and up; never two replicas
on one node; a replica that is behind leads only where that is allowed; no replica in an offline directory
leads or is in sync. Where eligible leaders are kept:
whoever is in sync or eligible has all that was ever committed, whatever disks have lost. Where they are not:
some replica is always in sync.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from millpond.base.errors import DuplicateRegistration, MillpondError
from millpond.metadata import directories, partition_change
from millpond.metadata import nodes as nodes_module
from millpond.metadata.assignments import chosen, new_partition
from millpond.metadata.directories import Placement, decide_assign
from millpond.metadata.elections import (
    InSyncRequest,
    Rules,
    decide_elections,
    decide_in_sync,
    decide_preferred,
    decide_unclean,
)
from millpond.metadata.image import BrokerImage, Image, PartitionImage, apply
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
from millpond.metadata.records import (
    NO_LEADER,
    MetadataRecord,
    TopicRecord,
    is_reserved_directory,
)
from millpond.metadata.sessions import Sessions
from tests.support.cluster.cluster_facts import KNOWS_DIRECTORIES

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
    # Whether several replicas may be last known leaders.
    keeps_several = False
    # Whether disks are replaced by empty ones.
    has_replaced = False
    may_have_one_replica = False

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
        # Replicas that have lost all that they had, in this step.
        self.emptied: set[tuple[UUID, int, int]] = set()
        # The node whose disk may have lost something, in this step.
        self.unsure: set[int] = set()
        self.names_losses = False
        # Partitions that were given other replicas.
        self.moved: set[tuple[UUID, int]] = set()
        # Replicas that have named what they lost, and were not in sync since.
        self.short: set[tuple[UUID, int, int]] = set()
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
            factor = min(3, len(first) + (not self.may_have_one_replica))
            replicas = chosen(self.image, topic_id, range(2), factor)
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
        had_everything = {*old.isr, *old.eligible_leaders, *self.vouched_for} - self.unsure
        had_everything -= {node for node in had_everything if (*key, node) in self.emptied}
        # The operator has given up what a node had that is not registered any more.
        had_everything &= self.image.brokers.keys()
        if now.leader_epoch > old.leader_epoch and now.leader not in {NO_LEADER, *had_everything}:
            # What it has is what there is, from now on.
            self.holders[key] = {now.leader}
        if now.leader == old.leader:
            self.holders[key] |= self.vouched_for & set(now.isr)
        assert now.partition_epoch > old.partition_epoch
        epochs, changes = (
            now.leader_epoch - old.leader_epoch,
            now.partition_epoch - old.partition_epoch,
        )
        # A node that names its losses is struck off first, and then named.
        assert epochs in (0, changes) or (epochs < changes == 2 and self.names_losses)
        if topic_id == CAREFUL and now.leader not in (NO_LEADER, old.leader):
            # Whoever leads now was in sync, or is by the word of the leader before.
            is_last = now.leader in old.last_known_leaders and not had_everything
            assert now.leader in had_everything or is_last
            assert now.recovering == is_last or old.recovering
            if is_last and (*key, now.leader) in self.short:
                others = {*old.last_known_leaders, *old.isr, *old.eligible_leaders}
                assert all((*key, node) in self.short for node in others - self.unsure)
        self.short -= {(*key, node) for node in now.isr}

    def log_dirs(self, node: int) -> tuple[UUID, ...]:
        """The directories that a process of this node finds when it starts."""
        return (UUID(int=100_000 + node),)

    def offline_dirs(self, _node: int) -> tuple[UUID, ...]:
        """The directories that have failed since."""
        return ()

    # --- what happens -----------------------------------------------------------------------------

    @rule(node=nodes, lost_power=st.booleans(), is_short=st.booleans())
    def start(self, node: int, lost_power: bool, is_short: bool = False) -> None:
        """A process starts under this id; one that was running is gone, unless its session says otherwise.
        ``is_short``: it has lost records of all that it has, and names them.
        """
        self.register(node, lost_power, is_short=is_short and self.keeps)

    def register(self, node: int, lost_power: bool, *, is_short: bool = False) -> None:
        """The process registers, if it may."""
        self.incarnations += 1
        incarnation = UUID(int=self.incarnations)
        known = self.image.brokers.get(node)
        previous_epoch = -1 if lost_power or node not in self.lives else self.lives[node][1]
        lost = {
            (topic.topic_id, index)
            for topic in self.image.topics.values()
            for index, one in enumerate(topic.partitions)
            if is_short and node in one.replicas and len(one.replicas) > 1
        }
        try:
            decided = decide_register(
                self.image,
                Registration(
                    node_id=node,
                    cluster_id="c",
                    incarnation_id=incarnation,
                    end_points=(),
                    rack=None,
                    log_dirs=self.log_dirs(node),
                    previous_epoch=previous_epoch,
                    lost_replicas=tuple(sorted(lost)),
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
        for key in lost:
            self.holders[key].discard(node)
            self.short.add((*key, node))
        self.names_losses = bool(lost)
        if is_short or known is None or known.broker_epoch != previous_epoch:
            self.unsure = {node}
        self.write(decided.records)
        self.unsure, self.names_losses = set(), False
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
            offline_dirs=self.offline_dirs(node),
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
        wish = InSyncRequest(
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
        self.moved.add((self.image.topics[topic].topic_id, index))
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
                    assert self.image.may_lead(one.leader, one)

    @invariant()
    def who_is_in_sync_beside_others_is_up(self) -> None:
        for topic in self.image.topics.values():
            for one in topic.partitions:
                if len(one.isr) > 1:
                    assert all(self.image.may_lead(node, one) for node in one.isr)


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
                assert set(one.last_known_leaders) <= set(one.replicas)
                if one.leader == NO_LEADER:
                    assert not any(self.image.may_lead(node, one) for node in worthy)
                    assert one.isr or len(one.last_known_leaders) <= 1 or self.keeps_several
                    last = one.last_known_leaders
                    # The others may lack what the first has committed since they lost their place.
                    assert worthy or not any(self.image.may_lead(node, one) for node in last[:1])
                    # Unless a disk was replaced, a node forgotten or the replica moved away, it is known for
                    # which replicas to wait.
                    is_moved = (topic.topic_id, index) in self.moved
                    assert worthy or last or is_moved or self.has_forgotten or self.has_replaced
                elif self.keeps_several:
                    assert not set(one.isr) & set(one.last_known_leaders)
                else:
                    assert one.last_known_leaders == ()


class DirectoriesMachine(EligibleMachine):
    """Nodes with several log directories, which fail, come back, and are replaced.

    ``places`` is where replicas really lie: the controller knows it from what nodes say. A directory that
    fails loses nothing; a replica that is made anew in another one has nothing.
    """

    may_have_one_replica = True
    keeps_several = True
    has_replaced = True

    def __init__(self) -> None:
        super().__init__()
        self.image = apply(self.image, KNOWS_DIRECTORIES)
        self.made = 0
        # Node 5 has one directory, the others two.
        self.disks = {node: self.new_disks(1 if node == 5 else 2) for node in NODES}
        self.registered: dict[int, tuple[UUID, ...]] = {}
        self.failed: set[UUID] = set()
        self.places: dict[tuple[UUID, int, int], UUID] = {}

    def new_disks(self, count: int) -> list[UUID]:
        self.made += count
        return [UUID(int=100_000 + self.made - number) for number in range(count)]

    def log_dirs(self, node: int) -> tuple[UUID, ...]:
        return tuple(one for one in self.disks[node] if one not in self.failed)

    def offline_dirs(self, node: int) -> tuple[UUID, ...]:
        return tuple(one for one in self.registered.get(node, ()) if one in self.failed)

    def write(self, records: Sequence[MetadataRecord]) -> None:
        super().write(records)
        held = dict(self.replicas())
        for key in self.places.keys() - held.keys():
            del self.places[key]
        for (topic_id, index, node), one in held.items():
            named = one.directory_of(node)
            known = [*self.log_dirs(node), *self.disks[node]]
            here = named if not is_reserved_directory(named) else known[index % len(known)]
            self.places.setdefault((topic_id, index, node), here)

    def replicas(self) -> Iterator[tuple[tuple[UUID, int, int], PartitionImage]]:
        for topic in self.image.topics.values():
            for index, one in enumerate(topic.partitions):
                for node in one.replicas:
                    yield (topic.topic_id, index, node), one

    def runs(self, node: int) -> bool:
        """Whether the controller listens to the node's process."""
        known = self.image.brokers.get(node)
        return known is not None and known.broker_epoch == self.lives.get(node, (None, -1))[1]

    def register(self, node: int, lost_power: bool, *, is_short: bool = False) -> None:
        if not self.log_dirs(node):
            return
        before = self.lives.get(node)
        super().register(node, lost_power, is_short=is_short)
        if self.lives.get(node) != before:
            self.registered[node] = self.log_dirs(node)

    def assign(self, node: int, places: Sequence[tuple[UUID, int, int]]) -> None:
        placements = [
            Placement(directory=self.places[key], topic_id=key[0], partition=key[1])
            for key in places
        ]
        broker = self.image.brokers[node]
        records, errors = decide_assign(self.image, broker, placements, self.settings_say)
        assert errors == [None] * len(places)
        self.write(records)
        for topic_id, index, _node in places:
            one = self.image.topics_by_id[topic_id].partitions[index]
            # An election may have ended a move that the replica was to go with.
            if node in one.replicas:
                assert one.directory_of(node) == self.places[topic_id, index, node]

    def lose(self, node: int, key: tuple[UUID, int, int], one: PartitionImage) -> None:
        """What the node had of a partition is gone; what had no other copy begins anew."""
        if len(one.replicas) > 1:
            self.holders[key[0], key[1]].discard(node)
            self.emptied.add(key)
        else:
            self.holders[key[0], key[1]] = {node}

    @rule(node=nodes, which=st.integers(0, 1), unsaid=st.booleans())
    def a_directory_fails(self, node: int, which: int, unsaid: bool) -> None:
        self.failed.add(self.disks[node][which % len(self.disks[node])])
        if not unsaid:
            self.say_directories(node)

    def say_directories(self, node: int) -> None:
        """The next heartbeat: the controller knows which directories are offline, or has fenced the node."""
        self.beat(node, False, False)
        broker = self.image.brokers.get(node)
        if broker is not None and self.runs(node) and not broker.fenced:
            if broker.in_controlled_shutdown:
                # It gets nothing back while it stops.
                assert set(broker.offline_dirs) >= set(self.offline_dirs(node))
            else:
                assert set(broker.offline_dirs) == set(self.offline_dirs(node))
            assert set(broker.offline_dirs) < set(broker.log_dirs)

    @rule(node=nodes, which=st.integers(0, 1), unsaid=st.booleans())
    def a_directory_is_repaired(self, node: int, which: int, unsaid: bool) -> None:
        self.failed.discard(self.disks[node][which % len(self.disks[node])])
        if not unsaid:
            self.say_directories(node)

    @rule(node=nodes, which=st.integers(0, 1))
    def a_directory_fails_for_a_moment(self, node: int, which: int) -> None:
        self.nodes_say_where_their_replicas_lie()
        self.a_directory_fails(node, which, False)
        self.a_directory_is_repaired(node, which, False)

    @rule()
    def nodes_say_where_their_replicas_lie(self) -> None:
        for node in NODES:
            if self.runs(node):
                self.assign(
                    node,
                    [
                        key
                        for key, one in self.replicas()
                        if key[2] == node
                        and self.places[key] in self.registered[node]
                        and one.directory_of(node) != self.places[key]
                        and self.is_served(node, one)
                    ],
                )

    def is_served(self, node: int, one: PartitionImage) -> bool:
        return self.image.brokers[node].has_online(one.directory_of(node))

    @rule(node=nodes, index=st.integers(0, 1), topic=topics)
    def a_replica_moves_to_another_directory(self, node: int, index: int, topic: str) -> None:
        before = self.image.topics[topic].partitions[index]
        key = (self.image.topics[topic].topic_id, index, node)
        good = [one for one in self.registered.get(node, ()) if one not in self.failed]
        if not self.runs(node) or self.places.get(key) not in good:
            return
        known_offline = self.image.brokers[node].offline_dirs
        good = [one for one in good if one not in known_offline]
        if not good or not self.is_served(node, before):
            return
        self.places[key] = good[-1] if good[0] == self.places[key] else good[0]
        self.assign(node, [key])
        after = self.image.topics[topic].partitions[index]
        if before.leader == NO_LEADER and after.leader != NO_LEADER:
            # Unclean elections are allowed, and it was given to this node while it had no leader.
            assert (topic, after.leader, after.isr) == ("bold", node, (node,))
            return
        assert (after.leader, after.isr) == (before.leader, before.isr)
        assert after.eligible_leaders == before.eligible_leaders
        assert after.last_known_leaders == before.last_known_leaders

    @rule(node=nodes, without=st.none() | st.integers(0, 1))
    def a_process_registers_again(self, node: int, without: int | None) -> None:
        """The same life, with the directories that it had, or without one of them."""
        log_dirs = self.registered.get(node, ())
        if not self.runs(node) or (without is not None and len(log_dirs) < 2):
            return
        if without is not None:
            self.failed.add(log_dirs[without])
            log_dirs = (log_dirs[1 - without],)
        incarnation, epoch = self.lives[node]
        decided = decide_register(
            self.image,
            Registration(
                node_id=node,
                cluster_id="c",
                incarnation_id=incarnation,
                end_points=(),
                rack=None,
                log_dirs=log_dirs,
            ),
            self.sessions,
            cluster_id="c",
            next_offset=self.offset,
            now_ms=self.now_ms,
            rules=self.settings_say,
        )
        assert decided.broker_epoch == epoch
        self.write(decided.records)
        self.registered[node] = log_dirs

    @rule(node=nodes)
    def replicas_of_a_directory_that_is_gone_begin_anew(self, node: int) -> None:
        """The administrator has taken the directory out; a process runs without it."""
        self.time_passes(SESSION_MS)
        self.failed.add(self.disks[node][-1])
        self.register(node, False)
        self.beat(node, False, False)
        if not self.runs(node) or not self.registered[node]:
            return
        lost = [
            (key, one)
            for key, one in self.replicas()
            if key[2] == node
            and one.directory_of(node) not in self.registered[node]
            and not is_reserved_directory(one.directory_of(node))
        ]
        for key, one in lost:
            self.lose(node, key, one)
            self.places[key] = self.registered[node][0]
        self.assign(node, [key for key, _one in lost])
        self.emptied.clear()

    @rule(node=nodes)
    def a_node_comes_back_with_other_disks(self, node: int) -> None:
        self.time_passes(SESSION_MS)
        before = self.disks[node]
        holders = {key: set(one) for key, one in self.holders.items()}
        life = self.lives.get(node)
        self.disks[node] = self.new_disks(len(before))
        for key, one in list(self.replicas()):
            if key[2] == node:
                self.lose(node, key, one)
        self.register(node, False)
        self.emptied.clear()
        if self.lives.get(node) == life:
            self.disks[node], self.holders = before, holders
            return
        for key in [one for one in self.places if one[2] == node]:
            self.places[key] = self.disks[node][0]
        for key, one in self.replicas():
            assert key[2] != node or self.is_served(node, one)

    @invariant()
    def nothing_is_led_or_in_sync_in_an_offline_directory(self) -> None:
        for topic in self.image.topics.values():
            for one in topic.partitions:
                for node in {one.leader, *one.isr} - {NO_LEADER}:
                    broker = self.image.brokers[node]
                    assert one.directory_of(node) not in broker.offline_dirs
                    assert broker.has_online(one.directory_of(node))


MACHINES = (ClusterMachine, EligibleMachine, DirectoriesMachine)
for machine in MACHINES:
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCluster = ClusterMachine.TestCase
TestEligible = EligibleMachine.TestCase
TestDirectories = DirectoriesMachine.TestCase


def _none(*_arguments: object, **_more: object) -> list[MetadataRecord]:
    return []


def _without_directories(
    before: PartitionImage, target: Any, _wish: object, _image: object
) -> dict[int, UUID]:
    return {node: before.directory_of(node) for node in target.replicas}


# What is put in the place of what; the machine must find each.
PLANTED: dict[str, tuple[object, str, object]] = {
    "an offline directory counts as online": (
        BrokerImage,
        "has_online",
        lambda _broker, _directory: True,
    ),
    "replicas in an offline directory stay in sync": (nodes_module, "decide_directories", _none),
    "a registration with fewer directories strikes nothing off": (
        nodes_module,
        "decide_without_directories",
        _none,
    ),
    "replicas of new disks keep their old directories": (
        nodes_module,
        "decide_replaced_directories",
        _none,
    ),
    "a directory that is back elects nobody": (directories, "decide_started", _none),
    "a replica that begins anew stays eligible": (
        directories,
        "_begins_empty",
        lambda *_arguments: False,
    ),
    "a replica that is moved is eligible no longer": (
        directories,
        "_begins_empty",
        lambda *_arguments: True,
    ),
    "a replica that named its loss stays a last known leader": (
        nodes_module,
        "decide_emptied",
        _none,
    ),
    "an assignment is not written": (partition_change, "_directories", _without_directories),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, instead = PLANTED[bug]
    monkeypatch.setattr(owner, name, instead)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(
            DirectoriesMachine,
            settings=settings(
                # It ends with the first that finds the bug, for some after a few hundred; the order of sets,
                # which differs from process to process, decides after how many.
                max_examples=3_000,
                stateful_step_count=40,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
            ),
        )
