"""What random lives of groups with epochs have in common, be they of consumers or of streams applications."""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millpond.base.errors import MillpondError
from millpond.group import kinds
from millpond.group.consumer.group import ConsumerGroup
from millpond.group.streams.group import StreamsGroup
from tests.support.kafka.group_host import GROUP, Desk

GroupT = TypeVar("GroupT", ConsumerGroup, StreamsGroup)


class EpochGroupLife(RuleBasedStateMachine, Generic[GroupT]):
    """One group at a desk. After every step epochs have not gone back, and the log tells what memory does.

    ``begin`` comes first.
    """

    # What the log must tell of the group, by the names of its attributes.
    told: ClassVar[tuple[str, ...]]
    # Epochs of members that are on their way out or in: they count for nothing.
    absent_epochs: ClassVar[frozenset[int]] = frozenset()

    def begin(self, desk: Desk, reader: GroupT) -> None:
        self.desk = desk
        self.epoch = 0
        self.member_epochs: dict[str, int] = {}
        # The group as someone who only reads the log sees it, and how far that one has read.
        self.reader: GroupT = reader
        self.read = 0

    @property
    def group(self) -> GroupT | None:
        group = self.desk.coordinator.groups.get(GROUP)
        assert group is None or isinstance(group, type(self.reader))
        return group

    def try_to(self, act: Callable[[], Any]) -> bool:
        try:
            act()
        except MillpondError:
            return False
        return True

    # --- the world --------------------------------------------------------------------------------

    @rule()
    def broker_restarts(self) -> None:
        self.desk.broken = False
        self.desk = self.desk.restart()

    @rule(broken=st.booleans())
    def log_refuses(self, broken: bool) -> None:
        self.desk.broken = broken

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def epochs_do_not_go_back(self) -> None:
        group = self.group
        if group is None:
            return
        assert group.epoch >= self.epoch
        assert group.target_epoch <= group.epoch
        self.epoch = group.epoch
        for member_id, member in group.members.items():
            epoch = member.current.epoch
            if epoch not in self.absent_epochs:
                assert epoch >= self.member_epochs.get(member_id, 0)
                assert epoch <= group.target_epoch
                self.member_epochs[member_id] = epoch

    @invariant()
    def the_log_tells_the_same(self) -> None:
        group = self.group
        if group is None:
            return
        for key, value in self.desk.log[self.read :]:
            self.reader.apply(kinds.decode(key, value))  # type: ignore[arg-type]
        self.read = len(self.desk.log)
        for name in self.told:
            assert getattr(self.reader, name) == getattr(group, name), name
