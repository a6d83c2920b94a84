"""What clients did and saw, and what may not be seen in it (after Jepsen's Kafka workload)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

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
    # The newest leader epoch in which a leader has served anybody; up to where the partition was said to
    # be readable, by whomever or in one epoch.
    epoch: int = -1
    end: int = 0
    ends: dict[int, int] = field(default_factory=dict)


class Glimpse(NamedTuple):
    """What was known of a partition when somebody began to ask its leader."""

    epoch: int
    end: int
    ends: dict[int, int]


class History:
    """All partitions. Every read is checked against every earlier one, when it is made."""

    def __init__(self) -> None:
        self.journals: dict[Place, Journal] = {}
        self.reads = 0
        # What readers of committed data saw.
        self.committed: dict[Place, dict[int, bytes]] = {}
        # Whether a node leads a partition in this epoch or a later one, as who sees everything knows.
        self.leads_since: Callable[[Place, int, int], bool] = lambda _place, _node, _epoch: True

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
            journal.end = max(journal.end, offset + 1)
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

    # --- leaders ----------------------------------------------------------------------------------

    def glimpse(self, place: Place) -> Glimpse:
        """Somebody begins to ask a leader; what comes of it is held against this."""
        journal = self.journal(place)
        return Glimpse(journal.epoch, journal.end, dict(journal.ends))

    def served(self, place: Place, before: Glimpse, epoch: int, high: int) -> None:
        """A leader has served a reader. Who leads later has served nobody before the reader began; and
        within an epoch a reader sees at least what others saw, or had acknowledged, before it began.
        """
        if epoch < before.epoch:
            raise Broken(
                f"{place}: served in epoch {epoch}, begun after somebody was in {before.epoch}"
            )
        if high < before.ends.get(epoch, 0):
            raise Broken(
                f"{place}: readable up to {high}, which was {before.ends[epoch]} in epoch {epoch}"
            )
        journal = self.journal(place)
        journal.epoch = max(journal.epoch, epoch)
        journal.end = max(journal.end, high)
        journal.ends[epoch] = max(journal.ends.get(epoch, 0), high)

    def named(self, place: Place, before: Glimpse, epoch: int, end: int) -> None:
        """A leader has said where the partition ends: not before anything that was acknowledged or read."""
        if end < before.end:
            raise Broken(f"{place}: ends at {end}, and {before.end} was said before")
        self.served(place, before, epoch, end)

    def written(self, place: Place, before: Glimpse, node: int, epoch: int, end: int) -> None:
        """A leader, known since this epoch, has taken a write; all have it up to there (-1: who knows)."""
        if not self.leads_since(place, node, before.epoch):
            raise Broken(
                f"{place}: node {node} takes a write, begun after another led epoch {before.epoch}"
            )
        ends = self.journal(place).ends
        ends[epoch] = max(ends.get(epoch, 0), end)

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
