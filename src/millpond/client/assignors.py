"""Which member of a group reads which partition: pure functions of who is there and what there is.

``range`` and ``roundrobin`` look at the present only; ``sticky`` moves as little as it can;
``cooperative-sticky`` decides the same, but takes nothing from a member before that member has let go
(KIP-429), so that the others read on while a group rebalances.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from millpond.base.ids import TopicPartition
from millpond.client.errors import BadConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What a member wants, and what it had in which generation."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    instance_id: str | None = None


Members: TypeAlias = Mapping[str, MemberSubscription]
Plan: TypeAlias = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """An assignor of your own is an object with these."""

    @property
    def name(self) -> str:
        """What members agree on."""
        ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they have while the group rebalances."""
        ...

    def assign(self, members: Members, partition_counts: Mapping[str, int]) -> Plan:
        """A plan with every partition of every subscribed topic given to one of its subscribers."""
        ...


def assign_range(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """Topic by topic: members in order get neighbouring partitions, the first ones one more each."""
    plan: Plan = {member: [] for member in members}
    for topic in sorted(partition_counts):
        readers = [name for name in _in_order(members) if topic in members[name].topics]
        if not readers:
            continue
        share, extra = divmod(partition_counts[topic], len(readers))
        start = 0
        for index, reader in enumerate(readers):
            stop = start + share + (index < extra)
            plan[reader] += [TopicPartition(topic, number) for number in range(start, stop)]
            start = stop
    return plan


def assign_round_robin(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """All partitions in order, dealt out like cards; a member that does not want one is passed over."""
    plan: Plan = {member: [] for member in members}
    order = _in_order(members)
    turn = 0
    for place in _all_partitions(members, partition_counts):
        while place.topic not in members[order[turn % len(order)]].topics:
            turn += 1
        plan[order[turn % len(order)]].append(place)
        turn += 1
    return plan


def assign_sticky(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """As even as subscriptions allow, and of all such plans one that keeps most where it was.

    Members keep what they had; what nobody has goes to whoever has least; then partitions move from those
    with two more than another subscriber of theirs, until there is no such pair.
    """
    plan: Plan = {member: [] for member in members}
    places = _all_partitions(members, partition_counts)
    owners = _owners(members, set(places))
    for place, owner in owners.items():
        plan[owner].append(place)
    readers = {
        topic: [name for name in _in_order(members) if topic in members[name].topics]
        for topic in {place.topic for place in places}
    }
    free = [place for place in places if place not in owners]
    for place in sorted(free, key=lambda place: (len(readers[place.topic]), place)):
        least = min(readers[place.topic], key=lambda name: len(plan[name]))
        plan[least].append(place)
    _even_out(plan, readers, set(owners))
    return {name: sorted(given) for name, given in plan.items()}


def assign_cooperative(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """The sticky plan without what still belongs to somebody else: it comes in the next round."""
    plan = assign_sticky(members, partition_counts)
    owners = _owners(members, set(_all_partitions(members, partition_counts)))
    return {
        name: [place for place in given if owners.get(place, name) == name]
        for name, given in plan.items()
    }


def _even_out(
    plan: Plan, readers: Mapping[str, Sequence[str]], settled: set[TopicPartition]
) -> None:
    """Move partitions while that makes two members more equal; newly given ones before settled ones."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(plan, key=lambda name: -len(plan[name])):
            for place in sorted(plan[giver], key=lambda place: (place in settled, place)):
                taker = min(readers[place.topic], key=lambda name: len(plan[name]))
                if len(plan[giver]) - len(plan[taker]) >= 2:
                    plan[giver].remove(place)
                    plan[taker].append(place)
                    moved = True


def _owners(members: Members, places: set[TopicPartition]) -> dict[TopicPartition, str]:
    """Who has what already; if two say so, the one of the later generation is right, else neither is."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for name in _in_order(members):
        member = members[name]
        for place in member.owned:
            if place in places and place.topic in member.topics:
                claims[place].append((member.generation, name))
    owners = {}
    for place, found in claims.items():
        found.sort()
        if len(found) == 1 or found[-1][0] > found[-2][0]:
            owners[place] = found[-1][1]
    return owners


def _in_order(members: Members) -> list[str]:
    """Static members by their own names, which outlive restarts, then the others by id."""
    return sorted(
        members,
        key=lambda name: (members[name].instance_id is None, members[name].instance_id or name),
    )


def _all_partitions(members: Members, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    wanted = {topic for member in members.values() for topic in member.topics}
    return [
        TopicPartition(topic, number)
        for topic in sorted(wanted)
        for number in range(partition_counts.get(topic, 0))
    ]


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    is_cooperative: bool
    assign: Callable[[Members, Mapping[str, int]], Plan]


RANGE = _Named("range", False, assign_range)
ROUND_ROBIN = _Named("roundrobin", False, assign_round_robin)
STICKY = _Named("sticky", False, assign_sticky)
COOPERATIVE_STICKY = _Named("cooperative-sticky", True, assign_cooperative)

_KNOWN = {item.name: item for item in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
_JAVA = {"cooperativesticky": COOPERATIVE_STICKY} | _KNOWN


def assignors_of(given: Sequence[Any]) -> list[Assignor]:
    """Assignors by name (ours or Java's class) or as they are; by default those of Java's consumer."""
    if not given:
        return [RANGE, COOPERATIVE_STICKY]
    found: list[Assignor] = []
    for item in given:
        if not isinstance(item, str):
            found.append(item() if isinstance(item, type) else item)
            continue
        short = item.rsplit(".", 1)[-1].lower().removesuffix("assignor")
        if short not in _JAVA:
            raise BadConfig(f"no assignor is called {item!r}; known are {', '.join(_KNOWN)}")
        found.append(_JAVA[short])
    return found
