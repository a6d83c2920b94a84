"""How records make and end groups whose image is folded from many records: consumer and streams groups."""

from abc import abstractmethod
from typing import Generic, TypeVar

from millpond.group.epoch_records import Tombstone
from millpond.group.kind import Group, GroupKind
from millpond.group.messages import GroupSettings
from millpond.group.records import GroupRecord

RecordT = TypeVar("RecordT", bound=GroupRecord)
GroupT = TypeVar("GroupT", bound=Group)


class EpochGroupKind(GroupKind[RecordT], Generic[RecordT, GroupT]):
    """A kind whose groups exist from their first record to the tombstone of their epoch."""

    @abstractmethod
    def own(self, group: Group | None) -> GroupT | None:
        """Return the group if it is of this kind."""

    @abstractmethod
    def make(self, group_id: str) -> GroupT:
        """Return a group without records."""

    @abstractmethod
    def fold(self, group: GroupT, record: RecordT) -> None:
        """Apply a record to the image of the group."""

    def replay(self, record: RecordT, group: Group | None, settings: GroupSettings) -> Group | None:
        del settings
        mine = self.own(group)
        if isinstance(record, Tombstone):
            if mine is None:
                return group
            self.fold(mine, record)
            return None if record.ends_group else mine
        if mine is None:
            mine = self.make(record.group_id)
        self.fold(mine, record)
        return mine
