"""Records which bytes of which segment are known to be damaged, so that a restart does not forget.

One text file in the partition's directory, only there while there is damage. Kafka ignores it. A torn file is
ignored: the next read or verification of the segment finds the damage again.
"""

from collections.abc import Collection, Iterable

from millpond.log.segment import Damage, Segment
from millpond.log.storage import Storage

DAMAGE_FILE = "damage-checkpoint"
_VERSION = "0"


def write_damage(storage: Storage, directory: str, segments: Iterable[Segment]) -> None:
    """Write the damage of all segments."""
    lines = [
        f"{segment.base_offset} {damage.position} {damage.end} {damage.first_offset} {damage.next_offset} "
        + " ".join(damage.reason.split())
        for segment in segments
        for damage in segment.damage
    ]
    path = f"{directory}/{DAMAGE_FILE}"
    if lines:
        storage.replace(path, "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode())
    else:
        storage.delete(path)


def read_damage(
    storage: Storage, directory: str, names: Collection[str], segments: Iterable[Segment]
) -> None:
    """Restore the recorded damage of segments."""
    if DAMAGE_FILE not in names:
        return
    by_base = {segment.base_offset: segment for segment in segments}
    data = storage.read_all(f"{directory}/{DAMAGE_FILE}") or b""
    for line in data.decode(errors="replace").splitlines()[2:]:
        base, position, end, first_offset, next_offset, reason = [*line.split(" ", 5), ""][:6]
        try:
            damage = Damage(int(position), int(end), int(first_offset), int(next_offset), reason)
            segment = by_base.get(int(base))
        except ValueError:
            continue
        if segment is not None and damage.position <= segment.size:
            segment.damage = (*segment.damage, damage)
