"""Joins and syncs that wait for an answer.

A request is parked under a ticket with a callback, which is called once. A client that goes away withdraws
its ticket; its member stays in the group until its session ends.
"""

from collections.abc import Callable
from typing import Any

from millpond.base.errors import MillpondError, NotCoordinator
from millpond.engine.coordinators.durable import Durable, when_durable
from millpond.group.messages import ErrorClass, Join, JoinAnswer, Outbox, Sync, SyncAnswer, Ticket


class ParkedRequests:
    """The callbacks of all joins and syncs that have not been answered."""

    def __init__(self) -> None:
        self._waiting: dict[Ticket, Callable[[Any], None]] = {}
        self._next_ticket = 0

    def issue(self, done: Callable[[Any], None]) -> Ticket:
        """Park a request; ``done`` is called with its answer."""
        self._next_ticket += 1
        self._waiting[self._next_ticket] = done
        return self._next_ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Forget a request whose client does not wait any more."""
        self._waiting.pop(ticket, None)

    def refuse(self, command: Join | Sync, error: ErrorClass) -> None:
        """Answer one request with an error."""
        if isinstance(command, Join):
            self._answer(command.ticket, JoinAnswer(error=error, member_id=command.member_id))
        else:
            self._answer(command.ticket, SyncAnswer(error=error))

    def answer(self, out: Outbox) -> None:
        """Give the answers of a decision to the requests that wait for them."""
        for ticket, answer in out.joins:
            self._answer(ticket, answer)
        for ticket, assignment in out.syncs:
            self._answer(ticket, assignment)

    def answer_with_error(self, out: Outbox, error: ErrorClass) -> None:
        """Give an error to all requests that a decision answers."""
        for ticket, _answer in out.joins:
            self._answer(ticket, JoinAnswer(error=error))
        for ticket, _assignment in out.syncs:
            self._answer(ticket, SyncAnswer(error=error))

    def answer_when(self, durable: Durable, out: Outbox) -> None:
        """Give the answers of a decision once its records are committed."""
        if not out.joins and not out.syncs:
            return

        def answer(error: MillpondError | None) -> None:
            if error is None:
                self.answer(out)
            else:
                self.answer_with_error(out, NotCoordinator)

        when_durable(durable, answer)

    def _answer(self, ticket: Ticket, answer: JoinAnswer | SyncAnswer) -> None:
        done = self._waiting.pop(ticket, None)
        if done is not None:
            done(answer)
