"""What clients did and saw, and what may not be seen in it (after Jepsen's Kafka workload)."""

from dataclasses import dataclass, field
from typing import TypeAlias

from tests.sim.cluster.trace import Broken

Place: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class Journal:
    """One partition as clients know it."""

    # What stands at each offset that anybody ever read: (producer id, value); None for a control record.
    seen: dict[int, bytes | None] = field(default_factory=dict)
    # Where each value was read.
    places: dict[bytes, int] = field(default_factory=dict)
    # Values whose write was acknowledged to a producer that asked for all replicas, and where they stand
    # (-1: the answer did not say).
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    # Everything that was ever sent.
    attempted: dict[bytes, None] = field(default_factory=dict)


class History:
    """All partitions. Every read is checked against every earlier one, when it is made."""

    def __init__(self) -> None:
        self.journals: dict[Place, Journal] = {}
        self.reads = 0
        # What readers of committed data saw.
        self.committed: dict[Place, dict[int, bytes]] = {}

    def journal(self, place: Place) -> Journal:
        """Of one partition."""
        found = self.journals.get(place)
        if found is None:
            found = self.journals[place] = Journal()
        return found

    def attempt(self, place: Place, value: bytes) -> None:
        """A producer sends this."""
        self.journal(place).attempted[value] = None

    def acknowledge(self, place: Place, value: bytes, offset: int) -> None:
        """A producer was told that all replicas have it."""
        journal = self.journal(place)
        journal.acknowledged[value] = offset
        if offset >= 0:
            seen = journal.seen.get(offset, value)
            if seen != value:
                raise Broken(
                    f"{place}: {value!r} was acknowledged at {offset}, where {seen!r} was read"
                )
        at = journal.places.get(value, offset)
        if at != offset and offset >= 0:
            raise Broken(f"{place}: {value!r} was acknowledged at {offset} and read at {at}")

    def read(self, place: Place, offset: int, value: bytes | None) -> None:
        """A consumer sees this there."""
        self.reads += 1
        journal = self.journal(place)
        if offset in journal.seen:
            if journal.seen[offset] != value:
                raise Broken(
                    f"{place}: {journal.seen[offset]!r} was read at {offset}, and now {value!r}"
                )
            return
        journal.seen[offset] = value
        if value is None:
            return
        if value not in journal.attempted:
            raise Broken(f"{place}: {value!r} was read at {offset} and nobody wrote it")
        at = journal.places.setdefault(value, offset)
        if at != offset:
            raise Broken(f"{place}: {value!r} was read at {at} and at {offset}")
        told = journal.acknowledged.get(value, -1)
        if told not in {-1, offset}:
            raise Broken(f"{place}: {value!r} was acknowledged at {told} and read at {offset}")

    def read_committed(self, place: Place, offset: int, value: bytes | None) -> None:
        """A reader of committed data sees this there."""
        self.read(place, offset, value)
        if value is not None:
            self.committed.setdefault(place, {})[offset] = value

    def check_end(self) -> None:
        """After the last read of everything: nothing acknowledged is missing, and writers' order holds."""
        for place, journal in self.journals.items():
            for value, offset in journal.acknowledged.items():
                if value not in journal.places:
                    raise Broken(f"{place}: {value!r} was acknowledged at {offset} and is lost")
            last: dict[bytes, int] = {}
            for offset in sorted(journal.seen):
                seen = journal.seen[offset]
                if seen is None:
                    continue
                writer, _, number = seen.rpartition(b".")
                if int(number) <= last.get(writer, -1):
                    raise Broken(
                        f"{place}: {seen!r} stands at {offset}, behind {last[writer]} of the same writer"
                    )
                last[writer] = int(number)

    @property
    def acknowledged(self) -> int:
        """How many values."""
        return sum(len(journal.acknowledged) for journal in self.journals.values())
