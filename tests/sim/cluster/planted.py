"""Bugs that other systems have had, put into the real code one at a time, to see that they are noticed."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import pytest

from millpond.base.stalls import StallMeter
from millpond.engine.cluster.membership import Membership
from millpond.engine.coordinators import shards
from millpond.engine.partitions.disk_health import DirectoryHealth, DiskHealth
from millpond.engine.partitions.publish import Publisher
from millpond.engine.queues.hosted.retries import Retries
from millpond.engine.queues.queue_controller import QueueController
from millpond.engine.queues.queues import Queues
from millpond.engine.quorum.quorum_driver import QuorumDriver
from millpond.engine.quorum.raft_log import FileElectionStore
from millpond.engine.replication import fetchers
from millpond.engine.replication.replicas import Replicas
from millpond.engine.timers import forwarding, timers
from millpond.group.epochs import EpochGroup
from millpond.log import compaction, incoming, segment_list
from millpond.log.partition_log import PartitionLog
from millpond.log.producer_state import ProducerState
from millpond.log.refusals import Refusals
from millpond.metadata import elections, nodes
from millpond.metadata.image import Image
from millpond.metadata.sessions import Sessions
from millpond.raft.storage import ElectionState
from millpond.record.batch import BatchHeader
from millpond.record.records import Record
from millpond.replication import following, partition, serving
from millpond.replication.leadership import Follower, Leadership
from millpond.replication.partition import Partition
from millpond.timer.facts import Fact, Intent
from millpond.timer.shard import TimerShard
from tests.sim.cluster import consumers
from tests.sim.cluster.apart import two_lose_each_other
from tests.sim.cluster.busy import a_busy_machine
from tests.sim.cluster.delays import delays_survive_faults
from tests.sim.cluster.disks import (
    FAILING_DIRECTORIES,
    FAILING_DISKS,
    disks_fail_for_a_while,
)
from tests.sim.cluster.hosts import queues_find_their_hosts
from tests.sim.cluster.rot import a_leaders_disk_rots
from tests.sim.cluster.silence import a_member_comes_back
from tests.sim.cluster.story import whole_life
from tests.sim.cluster.unreadable import a_log_cannot_be_opened, metadata_cannot_be_read
from tests.sim.cluster.votes import voters_die_after_voting
from tests.sim.cluster.world import Shape, World


def acknowledge_before_the_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition, "flushes_first", lambda _config: False)


def acknowledge_before_replication(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publisher, "_durable", lambda *_arguments: None)


def commit_without_followers(patch: pytest.MonkeyPatch) -> None:
    def committed_end(_self: Leadership, own_end: int, _leader_end: int) -> int:
        return own_end

    patch.setattr(Leadership, "committed_end", committed_end)


def never_look_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(serving, "divergence", lambda *_arguments: None)
    patch.setattr(Partition, "check_epoch", lambda *_arguments: None)


def forget_the_vote(patch: pytest.MonkeyPatch) -> None:
    def load(_self: FileElectionStore) -> ElectionState:
        return ElectionState()

    patch.setattr(FileElectionStore, "load", load)


def claim_more_than_there_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "own_end", property(lambda self: self.log.end_offset))


def follow_without_sequences(patch: pytest.MonkeyPatch) -> None:
    take = following.take

    def forgetful(one: Partition, *arguments: Any, **named: Any) -> Any:
        step = take(one, *arguments, **named)
        one.log.producers.producers.clear()
        return step

    patch.setattr(fetchers, "take", forgetful)


def coordinate_without_waiting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shards.Shards, "settled", lambda *_arguments: None)
    patch.setattr(Publisher, "_durable", _only_for_clients(Publisher._durable))


def _only_for_clients(durable: Callable[..., Any]) -> Callable[..., Any]:
    def waits(self: Publisher, one: Partition, *arguments: Any) -> Any:
        return None if one.topic.startswith("__") else durable(self, one, *arguments)

    return waits


def append_what_comes_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "check", lambda *_arguments, **_named: None)


def show_aborted_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "aborted_transactions", lambda *_arguments: [])


def keep_the_last_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nodes, "decide_unsure", elections.decide_stopped)


def believe_who_comes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nodes, "decide_stopped", lambda *_arguments, **_named: [])
    patch.setattr(nodes, "decide_unsure", lambda *_arguments, **_named: [])
    patch.setattr(nodes, "decide_emptied", lambda *_arguments, **_named: [])


def look_at_no_checksum(patch: pytest.MonkeyPatch) -> None:
    for module in (consumers, incoming):
        patch.setattr(module, "check_crc", lambda *_arguments: True)
    patch.setattr(segment_list, "find_bad_batch", lambda *_arguments, **_named: None)


def compact_the_newest_away(patch: pytest.MonkeyPatch) -> None:
    keeps = compaction._Pass._keeps

    def forgets(self: compaction._Pass, header: BatchHeader, record: Record) -> bool:
        newest = self._latest.get(compaction._short_key(record.key)) if record.key else None
        return record.offset != newest and keeps(self, header, record)

    patch.setattr(compaction._Pass, "_keeps", forgets)


def let_anybody_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochGroup, "check_commit", lambda *_arguments: None)


def lead_when_cut_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "is_cut_off", property(lambda _self: False))


def append_behind_a_failed_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "_fail_in_write", lambda *_arguments: None)
    patch.setattr(Refusals, "note", lambda *_arguments: None)


def keep_quiet_about_the_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DirectoryHealth, "on_failure", lambda *_arguments: None)


def name_no_directory(patch: pytest.MonkeyPatch) -> None:
    """The controller hears of a failed disk only when the node cannot go on at all."""
    patch.setattr(DiskHealth, "offline_dirs", ())


def wait_for_a_failed_directory(patch: pytest.MonkeyPatch) -> None:
    """A leader takes a follower for eligible whose node serves, whatever directory its replica lies in."""
    patch.setattr(Image, "may_lead", lambda self, node, _partition: self.is_active(node))


def fence_the_whole_node(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DiskHealth, "_is_known", lambda _self: False)


def leave_out_what_cannot_be_read(patch: pytest.MonkeyPatch) -> None:
    def forget(self: QuorumDriver, *_arguments: object) -> None:
        self._effects.popleft()

    patch.setattr(QuorumDriver, "_try_again_later", forget)


def open_only_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replicas, "retry_unopened", lambda _self: None)


def give_up_hosting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queues, "hosted_by_key", lambda self, key: self._hosted.get(key))
    patch.setattr(Retries, "failed", lambda *_arguments: None)


def unite_priorities_once(patch: pytest.MonkeyPatch) -> None:
    soon = QueueController.clean_up_soon

    def once(self: QueueController) -> None:
        if not self._is_cleaning:
            soon(self)

    patch.setattr(QueueController, "clean_up_soon", once)


def wait_for_who_was_struck_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Follower, "has_asked_since", property(lambda _self: True))


def elect_after_own_stalls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StallMeter, "stalled_ms", lambda *_arguments: 0)


def blame_others_for_own_stalls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sessions, "_since", lambda _self, then_ms, now_ms: now_ms - then_ms)


def deliver_before_the_intent_is_safe(patch: pytest.MonkeyPatch) -> None:
    async def not_at_all(_durable: object) -> None:
        pass

    patch.setattr(timers, "flushed", not_at_all)


def forget_open_intents(patch: pytest.MonkeyPatch) -> None:
    """The next host delivers what an earlier one had begun to deliver, as if it had not."""
    apply = TimerShard.apply

    def forgetful(
        self: TimerShard, found: Iterable[tuple[Fact, int]], *, is_replay: bool = False
    ) -> None:
        kept = [one for one in found if not (is_replay and isinstance(one[0], Intent))]
        apply(self, kept, is_replay=is_replay)

    patch.setattr(TimerShard, "apply", forgetful)


def begin_at_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """A new leader passes on what it takes in itself, and nothing of what lies in its log."""
    find = forwarding._Forwarder._find_position

    async def careless(self: forwarding._Forwarder) -> None:
        await find(self)
        if self._position < self._read_upto:
            await self._schedule(self._read_upto, ())

    patch.setattr(forwarding._Forwarder, "_find_position", careless)


_ANY = Shape(nodes=3, fault_pause=8.0)
_CUT = Shape(nodes=3, plagues=("cut off",), fault_pause=25.0)
_POWER = Shape(nodes=3, power=True, plagues=("power", "kill", "slow disk"), fault_pause=6.0)

Story: TypeAlias = Callable[[World], None]

# What the checkers say: a high watermark goes back, or is beyond what a leader has; the log of a writer lacks
# something; two who were served by leaders cannot both be right.
_GOES_BACK = "the high watermark goes from|ends before .*, which was read"
_LOST = f"{_GOES_BACK}|something got lost|is lost|was acknowledged at|readable up to|ends at"
_PARTS = f"{_LOST}|stands .*, not|was read at .*, and now|served in epoch|takes a write"
_TWICE = "was acknowledged at .* and read at|was read at .* and at|behind .* of the same writer"
_DELIVERED_TWICE = "was delivered . times"
_REGRESSES = "was committed at .*, and is at"


class Planted(NamedTuple):
    """How a bug gets in, a world that is likely to suffer from it, what happens there, what must be said."""

    plant: Callable[[pytest.MonkeyPatch], None]
    shape: Shape
    story: Story
    finding: str


_EMPTIED = Shape(nodes=3, plagues=("wiped disk", "kill"), fault_pause=5.0)
# So small that the newest of a key is soon in a segment that is closed.
_COMPACTED = Shape(nodes=3, plagues=("kill",), compacts=True, settings={"log.segment.bytes": "400"})
_CALM = Shape(nodes=3)
_MOVING = Shape(nodes=3, plagues=("kill", "cut off", "bad network"), fault_pause=4.0)
_BUSY = Shape(nodes=3, has_default_timeouts=True, settings={"replica.fetch.wait.max.ms": "500"})
_LONE_POWER = Shape(nodes=3, lone_power=True, plagues=("power", "kill", "kill"), fault_pause=5.0)

PLANTED: dict[str, Planted] = {
    "an answer does not wait for the disk": Planted(
        acknowledge_before_the_disk, _POWER, whole_life, _LOST
    ),
    "an answer does not wait for the replicas": Planted(
        acknowledge_before_replication, _ANY, whole_life, _LOST
    ),
    "the last in-sync replica is kept whatever its disk lost": Planted(
        keep_the_last_in_sync, _LONE_POWER, whole_life, _PARTS
    ),
    "the high watermark passes the in-sync replicas": Planted(
        commit_without_followers, _ANY, whole_life, _LOST
    ),
    "nobody looks at epochs": Planted(never_look_back, _ANY, whole_life, _PARTS),
    "a vote is forgotten in a restart": Planted(
        forget_the_vote, _ANY, voters_die_after_voting, "is led by . and by ."
    ),
    "a follower claims what it has not flushed": Planted(
        claim_more_than_there_is, _POWER, whole_life, _LOST
    ),
    "a follower does not learn sequences": Planted(
        follow_without_sequences, _ANY, whole_life, _TWICE
    ),
    "a coordinator answers before its facts are safe": Planted(
        coordinate_without_waiting, _ANY, whole_life, _REGRESSES
    ),
    "what comes again is appended again": Planted(
        append_what_comes_again, _ANY, whole_life, _TWICE
    ),
    "aborted records are shown": Planted(
        show_aborted_records, _ANY, whole_life, "was read as committed and was not"
    ),
    "an empty disk is believed to hold what it held": Planted(
        believe_who_comes_back, _EMPTIED, whole_life, f"{_LOST}|OFFSET_OUT_OF_RANGE"
    ),
    "nobody looks at checksums": Planted(
        look_at_no_checksum, _CALM, a_leaders_disk_rots, "nobody wrote it"
    ),
    "compaction forgets the newest": Planted(
        compact_the_newest_away, _COMPACTED, whole_life, "was .* for all replicas, and is"
    ),
    "who is cut off goes on leading": Planted(
        lead_when_cut_off, _CUT, whole_life, "served in epoch|takes a write|ends at"
    ),
    "a batch is taken behind one that the disk refused": Planted(
        append_behind_a_failed_write,
        FAILING_DISKS,
        disks_fail_for_a_while,
        f"{_TWICE}|{_PARTS}|lacks",
    ),
    "a node whose disk fails says nothing of it": Planted(
        keep_quiet_about_the_disk, FAILING_DISKS, disks_fail_for_a_while, "in sync again|waited"
    ),
    "a directory that fails is not named": Planted(
        name_no_directory, FAILING_DIRECTORIES, disks_fail_for_a_while, "in sync again|waited"
    ),
    "a leader waits for a follower whose directory failed": Planted(
        wait_for_a_failed_directory, FAILING_DIRECTORIES, disks_fail_for_a_while, "waited"
    ),
    "a node is fenced for one of its directories": Planted(
        fence_the_whole_node, FAILING_DIRECTORIES, disks_fail_for_a_while, "is fenced, and a disk"
    ),
    "what cannot be opened at the start never is": Planted(
        open_only_once, _CALM, a_log_cannot_be_opened, "opened-0 is not there, or not in sync"
    ),
    "a queue that cannot be hosted at once never is": Planted(
        give_up_hosting, _CALM, queues_find_their_hosts, "nobody hosts"
    ),
    "queues whose priorities are led apart stay so": Planted(
        unite_priorities_once, _CALM, queues_find_their_hosts, "nobody hosts urgent"
    ),
    "what cannot be read is not applied": Planted(
        leave_out_what_cannot_be_read,
        _CALM,
        metadata_cannot_be_read,
        "has applied what is below|have not applied the same",
    ),
    "a controller takes its own stall for silence of others": Planted(
        blame_others_for_own_stalls, _BUSY, a_busy_machine, "was fenced, and was only slow"
    ),
    "a leader waits for a follower that was struck off": Planted(
        wait_for_who_was_struck_off, _BUSY, two_lose_each_other, "after two nodes lost each other"
    ),
    "a voter takes its own stall for silence of the leader": Planted(
        elect_after_own_stalls, _BUSY, a_busy_machine, "though every node was only slow"
    ),
    "a timer is delivered before its intent is safe": Planted(
        deliver_before_the_intent_is_safe, _MOVING, delays_survive_faults, _DELIVERED_TWICE
    ),
    "an open intent is forgotten": Planted(
        forget_open_intents, _MOVING, delays_survive_faults, _DELIVERED_TWICE
    ),
    "a new leader passes on nothing of what it has": Planted(
        begin_at_the_end_of_the_log, _MOVING, delays_survive_faults, "what must be delivered"
    ),
    "who was given up may still commit": Planted(
        let_anybody_commit, _CALM, a_member_comes_back, _REGRESSES
    ),
}
LIVES_MAX = 40
