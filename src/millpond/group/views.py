"""A group of any kind as a list of groups shows it."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from millpond.group.kind import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as a list shows it."""

    group_id: str
    state: str
    protocol_type: str
    kind: str


def listing(group: Group) -> GroupListing:
    """Return the row of a group as it is now."""
    return GroupListing(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        kind=group.kind,
    )


def listings(
    groups: Iterable[Group], states: Collection[str], types: Collection[str]
) -> Iterator[GroupListing]:
    """Yield the rows of groups in one of these states and of one of these types, in any case.

    No states and no types stand for all of them.
    """
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    for group in groups:
        row = listing(group)
        is_in_state = not wanted_states or row.state.lower() in wanted_states
        if is_in_state and (not wanted_types or row.kind in wanted_types):
            yield row
