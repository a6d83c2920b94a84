"""Who votes. The set is itself in the log, so that it can change while the quorum runs (KIP-853).

The newest set in the log counts from the moment it is written, agreed or not, as Raft's one-at-a-time
changes require: two neighbouring sets differ by one voter, so any two of their majorities meet.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from millpond.base.ids import NodeId, Offset
from millpond.raft.messages import ReplicaKey


class Endpoint(NamedTuple):
    """Where a voter listens for the others."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter and where it is found."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()


class VoterSet:
    """An immutable set of voters by node."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter]) -> None:
        self._voters: Mapping[NodeId, Voter] = MappingProxyType(
            {voter.key.id: voter for voter in voters}
        )

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and dict(self._voters) == dict(other._voters)

    def __hash__(self) -> int:
        return hash(frozenset(self._voters))

    def __repr__(self) -> str:
        return f"VoterSet({sorted(self._voters)})"

    @property
    def ids(self) -> frozenset[NodeId]:
        """The nodes that vote."""
        return frozenset(self._voters)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self._voters) // 2 + 1

    def get(self, node: NodeId) -> Voter | None:
        """The voter on a node."""
        return self._voters.get(node)

    def has(self, key: ReplicaKey) -> bool:
        """Whether this very replica votes. A voter of unknown directory is every replica of its node."""
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        known = voter.key.directory
        return known is None or key.directory is None or known == key.directory

    def with_voter(self, voter: Voter) -> "VoterSet":
        """The set with one more."""
        return VoterSet([*self._voters.values(), voter])

    def without(self, node: NodeId) -> "VoterSet":
        """The set with one fewer."""
        return VoterSet(voter for voter in self._voters.values() if voter.key.id != node)


class VoterHistory:
    """The sets that stand in the log, by where; before the first of them the one the node was set up with."""

    __slots__ = ("_entries", "_initial")

    def __init__(self, initial: VoterSet) -> None:
        self._initial = initial
        self._entries: list[tuple[Offset, VoterSet]] = []

    @property
    def latest(self) -> VoterSet:
        """The set that counts."""
        return self._entries[-1][1] if self._entries else self._initial

    @property
    def latest_offset(self) -> Offset:
        """Where it stands; -1 for the one the node was set up with."""
        return self._entries[-1][0] if self._entries else -1

    def add(self, offset: Offset, voters: VoterSet) -> None:
        """A set was written."""
        assert offset > self.latest_offset
        self._entries.append((offset, voters))

    def at(self, end_offset: Offset) -> VoterSet:
        """The set that counted when the log ended there: what a snapshot of that moment has to say."""
        return next(
            (voters for offset, voters in reversed(self._entries) if offset < end_offset),
            self._initial,
        )

    def written_at(self, end_offset: Offset) -> VoterSet | None:
        """The same, if it stood in the log; nothing for the one the node was set up with."""
        return next(
            (voters for offset, voters in reversed(self._entries) if offset < end_offset), None
        )

    def truncate_to(self, offset: Offset) -> None:
        """The log was cut."""
        while self._entries and self._entries[-1][0] >= offset:
            self._entries.pop()

    def restart(self, voters: VoterSet | None, end_offset: Offset) -> None:
        """The log was replaced by a snapshot that ends there and says this of voters."""
        self._entries.clear()
        if voters is not None:
            self._entries.append((end_offset - 1, voters))
