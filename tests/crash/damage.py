"""Damage that a crash can do to files, and no other.

A process that dies loses nothing that it has written. A machine that dies may lose or tear what was not yet
synced: the bytes after the last acknowledged batch of a topic that syncs before it acknowledges, and the
indexes, which are never waited for.
"""

import random
from pathlib import Path

from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch


def active_segment(directory: Path) -> Path:
    """The segment that is written to."""
    return max(directory.glob("*.log"))


def tear_tail(directory: Path, chance: random.Random) -> str:
    """Add the beginning of a batch whose end never reached the disk."""
    segment = active_segment(directory)
    batch = build_batch([(0, b"torn", b"x" * 500, ())], base_offset=0)
    torn = bytes(batch[: chance.randrange(1, len(batch))])
    with segment.open("ab") as file:
        file.write(torn)
    return f"{len(torn)} bytes of a batch after the end of {segment.name}"


def extend_with_zeros(directory: Path, chance: random.Random) -> str:
    """Make the file longer than its data, as a file system does that writes sizes before contents."""
    segment = active_segment(directory)
    count = chance.randrange(1, 5000)
    with segment.open("ab") as file:
        file.write(bytes(count))
    return f"{count} zeros after the end of {segment.name}"


def spoil_indexes(directory: Path, chance: random.Random) -> str:
    """Cut, garble or remove the indexes of the active segment."""
    segment = active_segment(directory)
    done = []
    for suffix in (".index", ".timeindex"):
        path = segment.with_suffix(suffix)
        kind = chance.choice(("cut", "garbled", "removed", "lengthened"))
        if not path.exists():
            continue
        data = path.read_bytes()
        if kind == "cut":
            path.write_bytes(data[: chance.randrange(len(data) + 1)])
        elif kind == "garbled":
            path.write_bytes(chance.randbytes(len(data)))
        elif kind == "lengthened":
            path.write_bytes(data + bytes(chance.randrange(1, 100)))
        else:
            path.unlink()
        done.append(f"{path.name} {kind}")
    return ", ".join(done) or "no index to spoil"


def leave_unfinished_files(directory: Path, chance: random.Random) -> str:
    """Leave files that were being written when the end came."""
    data = directory.parent
    (data / "recovery-point-offset-checkpoint.tmp").write_bytes(chance.randbytes(40))
    (data / "replication-offset-checkpoint.tmp").write_bytes(b"0\n3\n")
    (directory / "leader-epoch-checkpoint.tmp").write_bytes(b"0\n")
    (directory / f"{0:020}.log.cleaned").write_bytes(chance.randbytes(300))
    (directory / f"{0:020}.index.cleaned").write_bytes(b"")
    return "unfinished checkpoints and a half compacted segment"


def lose_unsynced_tail(directory: Path, acknowledged_upto: int, chance: random.Random) -> str:
    """Cut the active segment anywhere after its last acknowledged batch."""
    segment = active_segment(directory)
    data = segment.read_bytes()
    keep = 0
    for position, header in iter_batches(data):
        if header.base_offset <= acknowledged_upto:
            keep = position + header.size
    cut = chance.randrange(keep, len(data) + 1)
    with segment.open("r+b") as file:
        file.truncate(cut)
    spoiled = spoil_indexes(directory, chance)
    return f"{segment.name} cut from {len(data)} to {cut} (acknowledged up to {keep}), {spoiled}"


DAMAGES = (tear_tail, extend_with_zeros, spoil_indexes, leave_unfinished_files)
