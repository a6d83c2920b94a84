"""Large buffers that are freed stay with the process; checked in a process of its own."""

import subprocess
import sys

import pytest

# Frees and takes a buffer of 8 MB again and again and prints how many pages the kernel had to clear.
PROGRAM = """
import resource, sys
from millpond.server.allocator import keep_large_buffers
if sys.argv[1] == "keep" and not keep_large_buffers():
    print("unsupported")
    raise SystemExit
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in range(1, 21):
    # Never the same size: the C library adapts to a size that it has seen before.
    buffer = b"x" * (8_000_000 + turn * 200_000)
    del buffer
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
    )
    if done.stdout.strip() == "unsupported":
        pytest.skip("this C library has no mallopt")
    return int(done.stdout)


def test_freed_buffers_are_used_again_without_the_kernel() -> None:
    assert faults("keep") * 4 < faults("default")
