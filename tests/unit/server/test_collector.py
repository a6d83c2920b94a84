"""Cycles of garbage are looked for seldom; checked in a process of its own."""

import subprocess
import sys

# Makes as many objects as a turn of small messages does and prints how often they were looked at.
PROGRAM = """
import gc, sys
from millpond.server.collector import collect_seldom, keep_what_is_here
if sys.argv[1] == "seldom":
    collect_seldom()
    keep_what_is_here()
looks = []
gc.callbacks.append(lambda phase, _info: looks.append(phase))
messages = [[number] for number in range(15_000)]
print(len(looks), gc.get_freeze_count())
"""


def looked(mode: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
    )
    looks, frozen = done.stdout.split()
    return int(looks), int(frozen)


def test_messages_on_their_way_are_not_looked_at_again_and_again() -> None:
    assert looked("often")[0] > 10
    looks, frozen = looked("seldom")
    assert looks <= 2
    assert frozen > 1_000
