"""What goes wrong, when, and how it ends. Each world suffers from its own choice of plagues."""

from collections.abc import Callable
from random import Random

from millpond.log.chain import find_bad_batch
from millpond.raft.voters import VoterSet
from millpond.record.batch import iter_batches
from tests.sim.cluster.node import Node
from tests.sim.cluster.world import World
from tests.sim.partitions import halves, ring
from tests.support.storage.faulty_storage import FaultyStorage

# Of a batch: what comes before says where it stands, and may change on its way.
_CRC_COVERS_FROM = 21

# So long nothing else happens to the others, if it takes so long.
_FILLING = 60.0

# So long a disk that nobody replaces may stay rotten.
_REPAIRED = 60.0

# So long a node whose disk is well again may take to serve without having been started anew.
_RESTORED = 60.0

# How many worlds have disks that fail and come back.
_DISKS_COME_BACK = 0.35

# What takes from a disk something that another one may be about to need.
_COSTS_DISKS = frozenset({"power", "wiped disk", "rotten disk"})

_COMES_BACK = "disk that comes back"

# So many voters are enough for one to be lost.
_VOTERS_MIN = 3


class Faults:
    """Fate, by the world's seed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        # Who answers False could not do it just then.
        plagues: dict[str, Callable[[Node], bool | None]] = {
            "kill": self._kill,
            "crash in a write": self._crash_in_write,
            "pause": self._pause,
            "stop": self._stop,
            "clock": self._clock,
            "slow disk": self._slow_disk,
            "full disk": self._full_disk,
            "failing disk": self._failing_disk,
            "unreadable disk": self._unreadable_disk,
            _COMES_BACK: self._disk_that_comes_back,
        }
        if world.shape.power or world.shape.lone_power:
            plagues["power"] = self._power
        if len(world.nodes) > 1:
            plagues |= {
                "cut off": self._cut_off,
                "one way": self._one_way,
                "two apart": self._two_apart,
                "halves": self._halves,
                "ring": self._ring,
                "bad network": self._bad_network,
                "wiped disk": self._wipe,
                "rotten disk": self._rot,
            }
        # Until when a node with an empty disk is given time to follow again.
        self._filling: Node | None = None
        self._filling_until = -1.0
        # Whether a disk has lost something, and not everything has been whole since.
        self._is_short = False
        if world.shape.lone_power:
            self._look_for_losses()
        # Swarm testing: a world that has all kinds of trouble seldom gets far into any.
        names = list(world.shape.plagues) or [
            name for name in plagues if name != _COMES_BACK and self._chance.random() < 0.6
        ]
        # By a die of its own: worlds that do not have it are what they were before it was added.
        die = Random(f"{world.seed}/{_COMES_BACK}")
        if not world.shape.plagues and die.random() < _DISKS_COME_BACK:
            names.append(_COMES_BACK)
        names = names or ["kill"]
        self._plagues = [(name, plagues[name]) for name in names]

    def pause(self) -> float:
        """Until the next one."""
        return self._chance.random() * 2 * self._world.shape.fault_pause

    def strike(self) -> None:
        """One of them, at somebody; while a new disk is being filled only at one other at a time."""
        node = self._chance.choice(self._world.nodes)
        name, plague = self._chance.choice(self._plagues)
        if self._world.now < self._filling_until and not self._is_whole():
            if name in _COSTS_DISKS or not self._is_whole(without=self._filling):
                return
            name += " while a disk is filled"
        else:
            self._filling_until = -1.0
        self._world.trace.note("fault", f"{name} {node.id}")
        if plague(node) is not False:
            self._world.trace.counts[f"fault: {name}"] += 1

    def heal(self) -> None:
        """Everything is well from now on."""
        world = self._world
        world.trace.note("heal", "")
        world.network.heal()
        for node in world.nodes:
            self._mend(node)
        self._watch()

    def _mend(self, node: Node) -> None:
        self._mend_disk(node)
        for disk in node.disks:
            disk.capacity = None
            disk.crash_at = None
            disk.fail_reads = ""
        if node.loop is not None:
            node.loop.resume()
        if node.threads is not None:
            node.threads.slowness = 0.002
        node.start()

    def _watch(self) -> None:
        """An operator starts what is down."""
        for node in self._world.nodes:
            node.start()
        self._world.after(2.0, self._watch)

    # --- processes --------------------------------------------------------------------------------

    def _restart_later(self, node: Node) -> None:
        self._world.after(self._chance.choice([0.05, 1.0, 5.0, 25.0]), self._restart, node)

    def _restart(self, node: Node) -> None:
        node.start()
        if not node.is_serving:
            # It may fail to start, because its disk is full for example: an operator tries again.
            self._world.after(10.0, self._restart, node)

    def _kill(self, node: Node) -> None:
        node.kill()
        self._restart_later(node)

    def _crash_in_write(self, node: Node) -> None:
        """The process dies within a change of its disk, which may tear."""
        disk = self._one_disk(node)
        disk.crash_at = self._chance.randrange(0, 12)
        disk.crash_tears = self._chance.choice([0, 1, 30, 70])
        node.on_crash = self._restart_later

    def _stop(self, node: Node) -> None:
        node.stop()
        self._world.after(self._chance.choice([3.0, 20.0]), self._restart, node)

    def _pause(self, node: Node) -> None:
        loop = node.loop
        if loop is not None:
            loop.pause()
            self._world.after(self._chance.choice([0.5, 5.0, 15.0, 30.0]), loop.resume)

    # --- machines ---------------------------------------------------------------------------------

    def _look_for_losses(self) -> None:
        self._is_short = self._is_short and not self._is_whole()
        self._world.after(1.0, self._look_for_losses)

    def _may_lose(self) -> bool:
        """Whether a disk may lose what was never synced: from now on one has."""
        if not self._world.shape.lone_power:
            return True
        is_first = not self._is_short and not any(one.is_rotten for one in self._world.nodes)
        self._is_short = True
        return is_first

    def _power(self, node: Node) -> bool:
        if not self._may_lose():
            return False
        node.lose_power(
            keep_names=self._chance.random() < 0.5, tail_bytes=self._chance.choice([0, 0, 40])
        )
        self._restart_later(node)
        return True

    def _clock(self, node: Node) -> None:
        node.clock.skew_ms = self._chance.choice([0, 500, -500, 60_000, -60_000, 3_600_000])

    def _slow_disk(self, node: Node) -> None:
        if node.threads is not None:
            node.threads.slowness = self._chance.choice([0.002, 0.1, 2.0])

    def _one_disk(self, node: Node) -> FaultyStorage:
        return self._chance.choice(node.disks) if node.more else node.storage

    def _full_disk(self, node: Node) -> None:
        storage = self._one_disk(node)
        storage.capacity = storage.used + self._chance.randrange(2_000)

        def relieve() -> None:
            storage.capacity = None

        self._world.after(self._chance.choice([5.0, 20.0]), relieve)

    def _unreadable_disk(self, node: Node) -> None:
        """Reads fail for a while: of the metadata, or of everything."""
        storage = self._one_disk(node)
        storage.fail_reads = self._chance.choice(["__cluster_metadata", "data/"])

        def relieve() -> None:
            storage.fail_reads = ""

        self._world.after(self._chance.choice([0.5, 3.0, 15.0]), relieve)

    def _failing_disk(self, node: Node) -> bool:
        """Syncs fail for a while. What a failed sync left undone is done by nobody, so the process ends."""
        if not self._may_lose():
            return False
        self._one_disk(node).fail_syncs = True
        self._world.after(self._chance.choice([0.5, 3.0]), self._replace_process, node)
        return True

    def _replace_process(self, node: Node) -> None:
        for disk in node.disks:
            disk.fail_syncs = False
        node.kill()
        self._restart_later(node)

    def _disk_that_comes_back(self, node: Node) -> None:
        """Writes or syncs fail for a while, and the process goes on."""
        storage = node.storage
        kind = self._chance.choice(["write", "write", "sync", "both"])
        storage.write_tears = self._chance.choice([0, 1, 40])
        storage.fail_writes = kind != "sync"
        storage.fail_syncs = kind != "write"

        def mend() -> None:
            self._mend_disk(node)
            self._world.after(_RESTORED, self._look_at_disk, node, node.life)

        self._world.after(self._chance.choice([0.1, 1.0, 5.0, 20.0]), mend)

    def _mend_disk(self, node: Node) -> None:
        node.storage.fail_writes = node.storage.fail_syncs = False

    def _look_at_disk(self, node: Node, life: int) -> None:
        """A node that cannot bring its disk back by itself says so, and is started again."""
        engine, storage = node.engine, node.storage
        is_well = not (storage.fail_writes or storage.fail_syncs or storage.capacity is not None)
        if is_well and node.life == life and engine is not None and engine.disk.is_offline:
            self._world.trace.counts["restarted for its disk"] += 1
            node.kill()
            self._restart_later(node)

    # --- disks that are replaced ------------------------------------------------------------------

    def _wipe(self, node: Node) -> bool:
        """An empty disk, when everything that was on the old one is on two others."""
        if not self._can_spare(node):
            return False
        self._empty(node)
        return True

    def _rot(self, node: Node) -> bool:
        """A bit of what is long synced changes. It is repaired when somebody reads it; or somebody notices,
        in a while, and replaces the disk.
        """
        if not self._can_spare(node):
            return False
        place = self._somewhere_on(node)
        if place is None:
            return False
        node.rot(*place, 1 << self._chance.randrange(8))
        if self._chance.random() < 0.5:
            self._world.after(2.0, self._look_at_rot, node, place[0], self._world.now + _REPAIRED)
        else:
            self._world.after(self._chance.choice([5.0, 30.0]), self._replace_disk, node)
        return True

    def _look_at_rot(self, node: Node, path: str, until: float) -> None:
        """Whether the disk has become sound again; one that has not for too long is replaced."""
        data = node.storage.read_all(path)
        if data is None or find_bad_batch(data) is None:
            node.mend()
        elif self._world.now < until:
            self._world.after(2.0, self._look_at_rot, node, path, until)
        else:
            self._replace_disk(node)

    def _somewhere_on(self, node: Node) -> tuple[str, int] | None:
        """A byte that a checksum covers, in a log that clients read."""
        assert node.engine is not None
        found = []
        for partition in node.engine.topics:
            if partition.topic.startswith("__"):
                continue
            where = f"data/{partition.topic}-{partition.index}/"
            for path in node.storage.files():
                if path.startswith(where) and path.endswith(".log"):
                    data = node.storage.read_all(path) or b""
                    found += [
                        (path, position, header.size)
                        for position, header in iter_batches(data)
                        if header.next_offset <= partition.log.recovery_point
                    ]
        if not found:
            return None
        path, position, size = self._chance.choice(found)
        return path, position + self._chance.randrange(_CRC_COVERS_FROM, size)

    def _empty(self, node: Node) -> None:
        """Were the others to fall now, the empty one would be the last that was in sync: whatever had been
        acknowledged would wait for somebody to say that it may be lost.
        """
        self._filling = node
        self._filling_until = self._world.now + _FILLING
        self._is_short = True
        node.wipe()
        self._restart_later(node)

    def _replace_disk(self, node: Node) -> None:
        if self._is_whole(without=node) and self._others_agree(node):
            self._empty(node)
        else:
            self._world.after(5.0, self._replace_disk, node)

    def _can_spare(self, node: Node) -> bool:
        """Whether nothing would be lost with this node's disk."""
        is_rotten = any(one.is_rotten for one in self._world.nodes)
        return not is_rotten and self._is_whole() and self._others_agree(node)

    def _others_agree(self, node: Node) -> bool:
        """Whether the quorum is one without this node."""
        (voters, *_) = (
            one.engine.metadata.quorum.voters
            for one in self._world.nodes
            if one is not node and one.engine is not None and one.has_started
        )
        return node.id not in voters.ids or len(voters.ids) >= _VOTERS_MIN

    def _is_whole(self, without: Node | None = None) -> bool:
        """Whether every replica is up and in sync, but for those of one node, and knows what is agreed."""
        if self._world.network.cut:
            return False
        left_out = without.id if without is not None else -1
        applied = set()
        for node in self._world.nodes:
            if node is without:
                continue
            engine, loop = node.engine, node.loop
            if engine is None or loop is None or loop.is_paused or not node.is_serving:
                return False
            if any(
                disk.fail_writes or disk.fail_syncs or disk.fail_reads or disk.crash_at is not None
                for disk in node.disks
            ):
                return False
            applied |= {
                engine.metadata.quorum.applied,
                engine.metadata.quorum.replica.log.end_offset,
            }
            if not self._has_its_voters(engine.metadata.quorum.voters, without):
                return False
            for topic in engine.metadata.image.topics.values():
                for state in topic.partitions:
                    others = [one for one in state.replicas if one != left_out]
                    if not others or not set(others) <= set(state.isr):
                        return False
        return len(applied) == 1

    def _has_its_voters(self, voters: VoterSet, without: Node | None) -> bool:
        """Whether all voters but this one are the machines that were let in, with the disks they had."""
        for voter in voters:
            node = self._world.nodes[voter.key.id - 1]
            if voter.key.directory and node is not without:
                engine = node.engine
                if (
                    engine is None
                    or not node.has_started
                    or engine.metadata.quorum.key != voter.key
                ):
                    return False
        return True

    # --- network ----------------------------------------------------------------------------------

    def _cut_off(self, node: Node) -> None:
        cut = self._world.network.cut
        for other in self._world.nodes:
            if other is not node:
                cut |= {(node.id, other.id), (other.id, node.id)}
        if self._chance.random() < 0.3:
            cut |= {(node.id, 0), (0, node.id)}
        self._world.after(self._chance.choice([2.0, 12.0, 40.0]), self._join, node.id)

    def _one_way(self, node: Node) -> None:
        other = self._chance.choice([one for one in self._world.nodes if one is not node])
        self._world.network.cut.add((node.id, other.id))
        self._world.after(self._chance.choice([2.0, 12.0, 40.0]), self._join, node.id)

    def _two_apart(self, node: Node) -> None:
        """Two nodes do not reach each other; the others reach both."""
        other = self._chance.choice([one for one in self._world.nodes if one is not node])
        self._world.network.cut |= {(node.id, other.id), (other.id, node.id)}
        self._world.after(self._chance.choice([2.0, 12.0, 40.0]), self._join, node.id)

    def _halves(self, _node: Node) -> bool:
        """Of three this is one that is cut off."""
        return len(self._world.nodes) > _VOTERS_MIN and self._part(halves)

    def _ring(self, _node: Node) -> bool:
        """Of three everyone would be everyone's neighbour."""
        return len(self._world.nodes) > _VOTERS_MIN and self._part(ring)

    def _part(self, shape: Callable[[list[int], Random], set[tuple[int, int]]]) -> bool:
        pairs = shape([node.id for node in self._world.nodes], self._chance)
        cut = self._world.network.cut
        cut |= pairs
        self._world.after(
            self._chance.choice([2.0, 12.0, 40.0]), lambda: cut.difference_update(pairs)
        )
        return True

    def _join(self, node_id: int) -> None:
        cut = self._world.network.cut
        for pair in [pair for pair in sorted(cut) if node_id in pair]:
            cut.discard(pair)

    def _bad_network(self, _node: Node) -> None:
        network, chance = self._world.network, self._chance
        network.loss = chance.choice([0.0, 0.02, 0.2])
        network.doubling = chance.choice([0.0, 0.1])
        network.delay_max = chance.choice([0.004, 0.05, 0.8])
