"""The members of a classic group in the order in which they joined, static ones by instance id, one leader.

Keeps count of the protocols that members have, so that a join costs the same in a group of two and of two
thousand. Knows nothing of phases, deadlines or answers.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping

from millpond.base.errors import MalformedData, MemberFenced, UnknownMember
from millpond.group.classic import subscription
from millpond.group.classic.records import StoredMember
from millpond.group.messages import NEVER_MS, ErrorClass, Join, JoinedMember, Protocols


class Member:
    """One member of the group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_due_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # A member that has joined but never been part of a generation.
        self.is_new = False
        self.session_due_ms = NEVER_MS

    @classmethod
    def joining(cls, command: Join, member_id: str) -> "Member":
        """The member that a join makes."""
        return cls(
            member_id=member_id,
            instance_id=command.instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            session_timeout_ms=command.session_timeout_ms,
            protocols=command.protocols,
        )

    @classmethod
    def restored(cls, stored: StoredMember, protocol: str | None) -> "Member":
        """Return the member that a stored generation describes; it keeps one protocol, the chosen one."""
        return cls(
            member_id=stored.member_id,
            instance_id=stored.instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            session_timeout_ms=stored.session_timeout_ms,
            protocols=((protocol or "", stored.subscription),),
            assignment=stored.assignment,
        )

    def succeeded_by(self, command: Join, member_id: str) -> "Member":
        """Return the same static member after its client came back, with another id and what it says now."""
        assert self.instance_id is not None
        return Member(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            session_timeout_ms=command.session_timeout_ms,
            protocols=command.protocols,
            assignment=self.assignment,
        )

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata that the member sent for this protocol, which it has."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not have protocol {protocol}")

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        """Return what the log keeps of the member."""
        return StoredMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )


class Roster:
    """The members of one group and their leader."""

    __slots__ = ("_protocol_counts", "leader", "members", "protocol_type", "static_members")

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        # Instance id → member id.
        self.static_members: dict[str, str] = {}
        self.leader: str | None = None
        self.protocol_type: str | None = None
        self._protocol_counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.members

    # --- changes ------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """A new member; the first one leads until there is an election."""
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Take a member out; if it led, the one that has been here longest does now."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def succeed(self, old_member_id: str, successor: Member) -> None:
        """Put a static member's successor in its place: the same in the order, and leading if it led."""
        old = self.members[old_member_id]
        assert old.instance_id is not None
        assert old.instance_id == successor.instance_id
        self._count(old, -1)
        self._count(successor, 1)
        self.members = {
            (successor.member_id if member is old else member_id): (
                successor if member is old else member
            )
            for member_id, member in self.members.items()
        }
        self.static_members[old.instance_id] = successor.member_id
        if self.leader == old_member_id:
            self.leader = successor.member_id

    def update(self, member: Member, command: Join) -> None:
        """Take over what a member says that joins again."""
        self._count(member, -1)
        member.protocols = command.protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = command.rebalance_timeout_ms
        member.session_timeout_ms = command.session_timeout_ms

    def elect_leader(self, joined: Container[str]) -> bool:
        """Keep the leader if it has joined, or take the first that has. False if none has."""
        if self.leader is not None and self.leader in joined:
            return True
        for member_id in self.members:
            if member_id in joined:
                self.leader = member_id
                return True
        return False

    # --- questions ----------------------------------------------------------------------------------

    def check(self, member_id: str, instance_id: str | None) -> ErrorClass | None:
        """Return why this is not a member, or not the present incarnation of a static one."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return UnknownMember
            if current != member_id:
                return MemberFenced
        return None if member_id in self.members else UnknownMember

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether all members have one of these protocols."""
        everyone = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._protocol_counts[name] == everyone for name, _ in protocols
        )

    def select_protocol(self, *, instead: Mapping[str, Protocols] | None = None) -> str:
        """The protocol with the most votes; ``instead`` of what some members have, if they had that.

        Each member votes for the first of its protocols that all members have. A join is only let in
        with a protocol that all others have, so there is always one.
        """
        instead = instead or {}
        ballots = [
            [name for name, _ in instead.get(member.member_id, member.protocols)]
            for member in self.members.values()
        ]
        common = set(ballots[0]).intersection(*ballots[1:])
        votes = Counter(next(name for name in names if name in common) for names in ballots)
        return votes.most_common(1)[0][0]

    def joined(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """The members as their leader sees them."""
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata(protocol),
            )
            for member in self
        )

    def subscribed_topics(self, protocol: str | None) -> frozenset[str] | None:
        """The topics the members read; None if they are no consumers or cannot be parsed."""
        if self.protocol_type != subscription.PROTOCOL_TYPE:
            return None
        if self.members and protocol is None:
            return None
        try:
            return _union(
                subscription.subscribed_topics(member.metadata(protocol)) for member in self
            )
        except MalformedData:
            # The members understand each other; the coordinator does not have to.
            return None

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of any member."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def _count(self, member: Member, step: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._protocol_counts[name] += step
            if not self._protocol_counts[name]:
                del self._protocol_counts[name]


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
