"""Live one seed again and say what happened: ``python -m tests.sim.cluster SEED``."""

import argparse
import sys
import time
import traceback

from tests.sim.cluster.lives import life_of, one_life
from tests.sim.cluster.world import World


def main() -> int:
    """The lines of a life; its end last."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--nodes", type=int, default=None)
    parser.add_argument("--only", default="", help="lines that hold one of these words, by commas")
    parser.add_argument("--tail", type=int, default=0)
    arguments = parser.parse_args()
    world = World(arguments.seed, life_of(arguments.seed, arguments.nodes), keep_trace=True)
    began = time.process_time()
    error: BaseException | None = None
    try:
        one_life(world)
    except Exception as raised:  # noqa: BLE001 - shown below
        error = raised
    took = time.process_time() - began
    words = [word for word in arguments.only.split(",") if word]
    lines = [line for line in world.trace.lines if not words or any(word in line for word in words)]
    for line in lines[-arguments.tail :]:
        print(line)
    print(dict(world.trace.counts.most_common()))
    print(f"{took:.2f} s, {world.scheduler.steps} steps, digest {world.trace.digest}")
    if error is not None:
        traceback.print_exception(error)
        return 1
    return 0


sys.exit(main())
