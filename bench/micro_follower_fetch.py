"""Measures an acks=all write on both nodes, by the number of partitions that the follower follows.

``python -m bench.micro_follower_fetch 2000 10000``: two nodes in one process under virtual time, so the
figure is the CPU of both for one write to all replicas (two fetches), and of an idle second.
"""

import argparse
import asyncio
import time

from tests.support.cluster.replica_nodes import replica_nodes
from tests.support.time.virtual_loop import run

_WRITES = 50
_QUIET_S = 5


async def measure(partitions: int, *, wire: bool) -> tuple[float, float]:
    """Return (milliseconds for a write, milliseconds for a second without writes)."""
    async with replica_nodes(2, wire=wire) as nodes:
        await nodes.make_topic(partitions)
        await nodes.write(1, b"first")
        await asyncio.sleep(5)
        began = time.process_time()
        for number in range(_WRITES):
            await nodes.append(1, b"v", index=number % partitions)
        write_ms = (time.process_time() - began) * 1000 / _WRITES
        await asyncio.sleep(5)
        began = time.process_time()
        await asyncio.sleep(_QUIET_S)
        return write_ms, (time.process_time() - began) * 1000 / _QUIET_S


def main() -> None:
    """Print a line for each number of partitions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("partitions", type=int, nargs="*", default=[1, 2_000])
    arguments = parser.parse_args()
    for partitions in arguments.partitions:
        for wire in (False, True):
            write_ms, quiet_ms = run(measure(partitions, wire=wire))
            way = "bytes" if wire else "calls"
            print(
                f"{partitions:>7,} partitions, {way}: {write_ms:8.2f} ms a write to all replicas, "
                f"{quiet_ms:8.2f} ms a quiet second"
            )


if __name__ == "__main__":
    main()
