"""Three minutes of a quorum's life. One again, with its lines: ``python -m tests.sim.quorum SEED``."""

import argparse
import sys
import traceback
from collections.abc import Callable

from millpond.raft.epochs import EPOCH_MAX, JUMP_MAX
from millpond.raft.messages import BeginEpoch, EndEpoch, ReplicaKey, Request, Vote
from tests.sim.partitions import halves, ring
from tests.sim.raft_world import STRANGER, World

_FAULTY_MS = 120_000
_CALM_MS = 60_000


def live(world: World, strike: Callable[[World], None] | None = None) -> World:
    """Two minutes of faults, one of calm; then everything must be in order."""
    strike = strike or break_something
    chance = world.random
    at = 0
    while at < _FAULTY_MS:
        at += chance.randrange(20, 400)
        world.run_until(at)
        world.propose()
        if chance.random() < 0.15:
            world.faults += 1
            strike(world)
    _heal(world)
    for _ in range(20):
        at += _CALM_MS // 20
        world.run_until(at)
        world.propose()
    world.run_until(at + 5_000)
    world.check_end()
    return world


def elect_again(world: World) -> None:
    """Leaders end on a slow network, and voters just after they have voted."""
    chance = world.random
    world.frailty = 0.8
    world.delay_max = chance.choice([50, 400])
    for node in world.nodes:
        if node.replica is not None and node.replica.is_leader:
            node.crash()
            world.after(chance.randrange(1, 2_000), node.restart)


def forge_something(world: World) -> None:
    """Messages that no replica has sent, between faults that do happen."""
    chance = world.random
    running = [node for node in world.nodes if node.replica is not None]
    if not running or chance.random() < 0.3:
        break_something(world)
        return
    node = chance.choice(running)
    replica = node.replica
    assert replica is not None
    last_epoch, end = replica.log.last_epoch, replica.log.end_offset
    far = min(EPOCH_MAX, chance.choice([EPOCH_MAX - 1, EPOCH_MAX, replica.epoch + 2 * JUMP_MAX]))
    other = chance.choice(world.nodes)
    forged: Request
    match chance.randrange(4):
        case 0:
            # A voter's name, and a log that is longer than any.
            forged = Vote(
                epoch=far,
                candidate=other.key,
                last_epoch=far - 1,
                end_offset=2**40,
                pre_vote=chance.random() < 0.3,
            )
        case 1:
            forged = Vote(
                epoch=replica.epoch + chance.randrange(3),
                candidate=ReplicaKey(STRANGER),
                last_epoch=last_epoch,
                end_offset=chance.choice([end, chance.randrange(end + 1)]),
                pre_vote=chance.random() < 0.3,
            )
        case 2:
            forged = BeginEpoch(epoch=far, leader=other.id)
        case _:
            forged = EndEpoch(epoch=far, leader=other.id, successors=(node.key,))
    world.note(f"forged at {node.id}: {forged}")
    world.receive(node, forged)


def break_something(world: World) -> None:
    """Anything that can happen to a quorum."""
    chance = world.random
    node = chance.choice(world.nodes)
    kind = chance.randrange(10)
    world.note(f"fault {kind} at {node.id}")
    match kind:
        case 0 | 1:
            if node.replica is not None:
                node.crash()
                away = chance.choice([5, 8_000])
                world.after(chance.randrange(1, away), node.restart)
        case 2:
            node.paused_until = world.now + chance.randrange(1, 9_000)
        case 3:
            ids = range(len(world.nodes))
            shape = chance.choice([halves, ring, None])
            alone = {(node.id, other) for other in ids if other != node.id}
            world.cut = shape(ids, chance) if shape else alone | {(b, a) for a, b in alone}
        case 4:
            world.cut = {(node.id, chance.choice(world.nodes).id) for _ in range(3)}
        case 5:
            world.loss = chance.choice([0.0, 0.05, 0.3])
            world.doubling = chance.choice([0.0, 0.2])
            world.delay_max = chance.choice([5, 50, 800])
            world.frailty = chance.choice([0.0, 0.5])
        case 6:
            world.change_voters()
        case 7:
            leaders = [n for n in world.nodes if n.replica is not None and n.replica.is_leader]
            if leaders:
                chance.choice(leaders).step(lambda replica, now: replica.resign(now))
        case 8:
            if world.can_spare(node):
                node.wipe()
                world.after(chance.randrange(1, chance.choice([5, 8_000])), node.restart)
        case _:
            world.cut = set()


def _heal(world: World) -> None:
    world.cut = set()
    world.loss = world.doubling = 0.0
    world.delay_max = 10
    world.frailty = 0.0
    for node in world.nodes:
        node.paused_until = 0
        node.restart()


def main() -> int:
    """The lines of a life; its end last."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--tail", type=int, default=0)
    arguments = parser.parse_args()
    world = World(arguments.seed, keep_lines=True)
    error: Exception | None = None
    try:
        live(world)
    except Exception as raised:  # noqa: BLE001 - shown below
        error = raised
    for line in world.lines[-arguments.tail :]:
        print(line)
    if error is not None:
        traceback.print_exception(error)
        return 1
    print(f"{len(world.leaders)} leaders, {len(world.acknowledged)} proposals acknowledged")
    return 0


if __name__ == "__main__":
    sys.exit(main())
