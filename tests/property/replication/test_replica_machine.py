"""Three replicas through crashes, elections, late news and lost answers: what was acknowledged stays.

Hypothesis chooses who writes, who fetches, who hears of what is agreed, whose wish arrives. After each step:
logs agree below every high watermark, a high watermark never goes back while its leader's epoch lasts, and
what was acknowledged to a writer is in every replica that counts as in sync, at the offset it was given.
"""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millpond.base.errors import MillpondError
from millpond.log.config import LogConfig
from millpond.replication.leadership import InSyncRequest
from tests.support.cluster.replica_set import LAG_MS, ReplicaSet

NODES = st.sampled_from([1, 2, 3])


class ReplicaMachine(RuleBasedStateMachine):
    """Clean elections only: a leader comes from the in-sync replicas."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.acknowledged: dict[int, tuple[int, bytes]] = {}
        # High watermarks seen, by node and leader epoch.
        self.watermarks: dict[tuple[int, int], int] = {}
        self.wishes: list[tuple[int, InSyncRequest]] = []

    @initialize(flushes=st.booleans(), min_isr=st.sampled_from([1, 2]))
    def begin(self, flushes: bool, min_isr: int) -> None:
        policy = "group" if flushes else "os"
        self.replicas = ReplicaSet(
            config=LogConfig(flush_policy=policy, min_insync_replicas=min_isr, segment_bytes=400)
        )

    def is_up(self, node: int) -> bool:
        return self.replicas.nodes[node].partition is not None

    @rule(node=NODES)
    def write(self, node: int) -> None:
        if not self.is_up(node) or not self.replicas[node].is_leader:
            return
        partition = self.replicas[node]
        self.count += 1
        value = b"%d" % self.count
        epoch = partition.leader_epoch
        offset = self.replicas.write(node, value)

        def confirm(error: MillpondError | None) -> None:
            if error is None:
                assert offset not in self.acknowledged, "an offset was given out twice"
                self.acknowledged[offset] = epoch, value

        partition.confirm_at(offset + 1, confirm)

    @rule(node=NODES)
    def fetch(self, node: int) -> None:
        # With flushes a follower asks again when it has flushed what it got.
        if self.is_up(node) and self.replicas[node].own_end == self.replicas[node].log.end_offset:
            self.replicas.fetch(node)

    @rule(node=NODES, rounds=st.integers(1, 3), silent=st.booleans())
    def follow(self, node: int, rounds: int, silent: bool) -> None:
        """A follower hears the news and fetches until it has most of what there is."""
        if not self.is_up(node):
            return
        self.replicas.hear(node)
        for _ in range(rounds):
            self.replicas.flush(node)
            self.replicas.fetch(node)
        if not silent:
            self.replicas.flush(node)
            self.replicas.fetch(node)

    @rule(node=NODES, count=st.integers(1, 3))
    def write_some(self, node: int, count: int) -> None:
        for _ in range(count):
            self.write(node)

    @rule()
    def rest(self) -> None:
        """Everybody who is up hears everything, follows and is in sync."""
        for node in [one.node_id for one in self.replicas.up()]:
            self.follow(node, 3, False)
        leader = self.replicas.agreed.leader
        if leader > 0:
            self.flush(leader)
            self.replicas.align(leader)

    @rule(node=NODES)
    def flush(self, node: int) -> None:
        if self.is_up(node):
            self.replicas.flush(node)

    @rule(node=NODES)
    def hear(self, node: int) -> None:
        if self.is_up(node):
            self.replicas.hear(node)

    @rule(node=NODES)
    def hear_a_little(self, node: int) -> None:
        heard = self.replicas.nodes[node].heard
        if self.is_up(node) and heard < len(self.replicas.states):
            self.replicas.hear(node, heard + 1)

    @rule(node=NODES)
    def wish(self, node: int) -> None:
        if self.is_up(node):
            wish = self.replicas[node].wanted_in_sync(self.replicas.now_ms)
            if wish is not None:
                self.wishes.append((node, wish))

    @precondition(lambda self: bool(self.wishes))
    @rule(answered=st.booleans(), keeps=st.booleans())
    def wish_arrives(self, answered: bool, keeps: bool) -> None:
        sender, wish = self.wishes[0] if keeps else self.wishes.pop(0)
        verdict = self.replicas.decide(sender, wish)
        if not answered or not self.is_up(sender):
            return
        partition = self.replicas[sender]
        agreed = self.replicas.agreed
        if verdict:
            partition.on_in_sync_granted(
                wish, partition_epoch=agreed.partition_epoch, isr=agreed.isr
            )
        elif verdict is False:
            partition.on_in_sync_refused(wish)

    @rule(node=NODES)
    def elect(self, node: int) -> None:
        if self.is_up(node) and node in self.replicas.agreed.isr:
            self.replicas.elect(node)

    @rule(node=NODES, written_down=st.booleans(), power=st.booleans())
    def crash(self, node: int, written_down: bool, power: bool) -> None:
        """The process dies; where flushes are waited for, the machine may lose power too."""
        if not self.is_up(node):
            return
        if written_down:
            self.replicas.nodes[node].checkpoint = self.replicas[node].high_watermark
        self.replicas.crash(node)
        # Its next life learns its high watermark anew.
        self.watermarks = {key: high for key, high in self.watermarks.items() if key[0] != node}
        if power and self.replicas.config.flush_policy == "group":
            self.replicas.nodes[node].storage.lose_power()
        # The controller strikes it off, and has somebody else lead if there is one in sync.
        agreed = self.replicas.agreed
        left = tuple(one for one in agreed.isr if one != node)
        up = [one for one in left if self.is_up(one)]
        if node in agreed.isr and left:
            leader = agreed.leader if agreed.leader != node else (up[0] if up else -1)
            self.replicas.elect(leader, isr=left)
        elif agreed.leader == node:
            self.replicas.elect(-1)

    @rule(node=NODES)
    def restart(self, node: int) -> None:
        if self.is_up(node):
            return
        self.replicas.start(node)
        agreed = self.replicas.agreed
        if agreed.leader == -1 and node in agreed.isr:
            self.replicas.elect(node)

    @rule(ms=st.sampled_from([1, LAG_MS // 2, LAG_MS + 1]))
    def pass_time(self, ms: int) -> None:
        self.replicas.now_ms += ms

    @invariant()
    def acknowledged_is_in_every_in_sync_replica(self) -> None:
        if not self.acknowledged:
            return
        for node in self.replicas.agreed.isr:
            stored = self.replicas.stored(node)
            for offset, what in self.acknowledged.items():
                assert stored.get(offset) == what, (node, offset, what, stored)

    @invariant()
    def logs_agree_below_high_watermarks(self) -> None:
        if not hasattr(self, "replicas"):
            return
        logs = [
            (one.high_watermark, self.replicas.stored(one.node_id)) for one in self.replicas.up()
        ]
        for number, (high, stored) in enumerate(logs):
            for other_high, other in logs[number + 1 :]:
                for offset in range(min(high, other_high)):
                    assert stored[offset] == other[offset]

    @invariant()
    def high_watermarks_do_not_go_back(self) -> None:
        if not hasattr(self, "replicas"):
            return
        for one in self.replicas.up():
            assert one.high_watermark <= one.log.end_offset
            if one.is_leader:
                key = one.node_id, one.leader_epoch
                assert one.high_watermark >= self.watermarks.get(key, 0)
                self.watermarks[key] = one.high_watermark


TestReplicas: Any = ReplicaMachine.TestCase
TestReplicas.settings = settings(stateful_step_count=60, deadline=None)
