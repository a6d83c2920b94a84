"""A group of any kind as a list of groups shows it."""

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
