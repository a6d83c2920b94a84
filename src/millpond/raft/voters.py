"""The voters. The set is itself in the log, so that it can change while the quorum runs (KIP-853).

The newest set in the log counts from the moment it is written, committed or not, as Raft's one-at-a-time
changes require: two neighbouring sets differ by one voter, so any two of their majorities overlap.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from millpond.base.ids import NodeId, Offset
from millpond.raft.messages import ReplicaKey


class Endpoint(NamedTuple):
    """The address that a voter listens on for the other voters."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter and its endpoints."""

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
        """The node ids of the voters."""
        return frozenset(self._voters)

    @property
    def majority(self) -> int:
        """The number of voters that decide."""
        return len(self._voters) // 2 + 1

    def get(self, node: NodeId) -> Voter | None:
        """Return the voter on a node."""
        return self._voters.get(node)

    def has(self, key: ReplicaKey) -> bool:
        """Return whether this very replica is a voter. A voter with unknown directory matches every replica
        of its node.
        """
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        known = voter.key.directory
        return known is None or key.directory is None or known == key.directory

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Return the set with one more voter."""
        return VoterSet([*self._voters.values(), voter])

    def without(self, node: NodeId) -> "VoterSet":
        """Return the set with one voter fewer."""
        return VoterSet(voter for voter in self._voters.values() if voter.key.id != node)


class VoterHistory:
    """The voter sets in the log, by offset; before the first of them the set from the node's
    configuration.
    """

    __slots__ = ("_entries", "_initial")

    def __init__(self, initial: VoterSet) -> None:
        self._initial = initial
        self._entries: list[tuple[Offset, VoterSet]] = []

    @property
    def latest(self) -> VoterSet:
        """The set that counts now."""
        return self._entries[-1][1] if self._entries else self._initial

    @property
    def latest_offset(self) -> Offset:
        """The offset of the latest set; -1 for the one from the node's configuration."""
        return self._entries[-1][0] if self._entries else -1

    def add(self, offset: Offset, voters: VoterSet) -> None:
        """Note a voter set at an offset."""
        assert offset > self.latest_offset
        self._entries.append((offset, voters))

    def at(self, end_offset: Offset) -> VoterSet:
        """Return the set that counted when the log ended there: a snapshot up to that offset must
        contain it.
        """
        return next(
            (voters for offset, voters in reversed(self._entries) if offset < end_offset),
            self._initial,
        )

    def written_at(self, end_offset: Offset) -> VoterSet | None:
        """Return the same set if it is in the log; None for the one from the node's configuration."""
        return next(
            (voters for offset, voters in reversed(self._entries) if offset < end_offset), None
        )

    def truncate_to(self, offset: Offset) -> None:
        """Forget the sets from this offset on: the log was truncated."""
        while self._entries and self._entries[-1][0] >= offset:
            self._entries.pop()

    def restart(self, voters: VoterSet | None, end_offset: Offset) -> None:
        """Start again from a snapshot that ends at ``end_offset`` and contains this voter set."""
        self._entries.clear()
        if voters is not None:
            self._entries.append((end_offset - 1, voters))
