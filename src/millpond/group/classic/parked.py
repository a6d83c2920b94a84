"""Joins and syncs of a classic group that wait for their answers.

A member waits for one answer of each kind at most, and each ticket is answered once.
"""

from millpond.group.messages import (
    NO_MEMBER_ID,
    ErrorClass,
    JoinAnswer,
    Outbox,
    SyncAnswer,
    Ticket,
)


class Parked:
    """Tickets by member id."""

    __slots__ = ("joins", "syncs")

    def __init__(self) -> None:
        self.joins: dict[str, Ticket] = {}
        self.syncs: dict[str, Ticket] = {}

    def __contains__(self, member_id: str) -> bool:
        """Whether a request of this member is parked."""
        return member_id in self.joins or member_id in self.syncs

    def answer_join(self, member_id: str, answer: JoinAnswer, out: Outbox) -> None:
        """Answer the member's join if it is parked."""
        ticket = self.joins.pop(member_id, None)
        if ticket is not None:
            out.joins.append((ticket, answer))

    def answer_sync(self, member_id: str, answer: SyncAnswer, out: Outbox) -> bool:
        """Answer the member's sync if it is parked. Return whether it was."""
        ticket = self.syncs.pop(member_id, None)
        if ticket is not None:
            out.syncs.append((ticket, answer))
        return ticket is not None

    def refuse(
        self, member_id: str, error: ErrorClass, out: Outbox, *, known_as: str = NO_MEMBER_ID
    ) -> None:
        """Answer the member's parked requests with an error; a join is told the id it is ``known_as``."""
        self.answer_join(member_id, JoinAnswer(error=error, member_id=known_as), out)
        self.answer_sync(member_id, SyncAnswer(error=error), out)

    def refuse_all(self, error: ErrorClass, out: Outbox) -> None:
        """Answer every parked request with an error."""
        for member_id in [*self.joins, *self.syncs]:
            self.refuse(member_id, error, out, known_as=member_id)
