"""What follows from a verb of a queue: facts for its log, letters, messages that are handed out."""

from typing import NamedTuple

from millpond.cursor.ack import Delta, Range
from millpond.queue.consumers import Consumer
from millpond.rabbit.dead_letter_headers import DeathReason

# So many messages are given up in one step for being too old or too many: each is looked at and may become a
# letter, and others are to have their turns. Who is behind goes on in the next step.
GIVEN_UP_AT_A_TIME = 500
# So many runs of messages come back in one step from channels that are gone.
RETURNED_AT_A_TIME = 1_000


class Facts(NamedTuple):
    """What a lane's log is told."""

    lane: int
    delta: Delta


class DeadLetter(NamedTuple):
    """Messages of a lane that were given up."""

    lane: int
    first: int
    next: int
    reason: DeathReason


class Handout(NamedTuple):
    """Messages for a consumer. ``deliveries`` is 1 for those that nobody had before."""

    consumer: Consumer
    lane: int
    first: int
    next: int
    deliveries: int

    @property
    def redelivered(self) -> bool:
        return self.deliveries > 1


class Step(NamedTuple):
    """What follows from a verb."""

    facts: tuple[Facts, ...] = ()
    letters: tuple[DeadLetter, ...] = ()
    handouts: tuple[Handout, ...] = ()
    refused: tuple[Range, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.facts or self.letters or self.handouts or self.refused)

    @property
    def is_full(self) -> bool:
        """Whether as much was given up as may be at a time: there may be more of it."""
        return sum(one.delta.message_count for one in self.facts) >= GIVEN_UP_AT_A_TIME


NOTHING = Step()


def joined_steps(*steps: Step) -> Step:
    """One step that is all of these, in order."""
    some = [step for step in steps if not step.is_empty]
    if len(some) <= 1:
        return some[0] if some else Step()
    return Step(
        facts=tuple(one for step in some for one in step.facts),
        letters=tuple(one for step in some for one in step.letters),
        handouts=tuple(one for step in some for one in step.handouts),
        refused=tuple(one for step in some for one in step.refused),
    )
