"""What follows from a decision about a queue: facts for its log, dead letters, deliveries, and what it needs.

A step with ``needs`` is unfinished: before the decision goes on it must know more about these messages. What
the step does say has been decided and is to be carried out.
"""

from enum import StrEnum
from typing import NamedTuple

from millpond.cursor.ack import Delta, Range
from millpond.queue.consumers import Consumer
from millpond.queue.known import Need

# So many messages are dropped in one step for being too old or too many: each is looked at and may become a
# dead letter, and other queues are to have their turns. A queue that is behind goes on in its next turn.
GIVEN_UP_AT_A_TIME = 500
# So many runs of messages are returned in one step from channels that are closed.
RETURNED_AT_A_TIME = 1_000


class DeathReason(StrEnum):
    """Why a message became a dead letter. The values are what RabbitMQ's clients read."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAX_LENGTH = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


class Facts(NamedTuple):
    """What is to be written to a lane's log."""

    lane: int
    delta: Delta


class DeadLetter(NamedTuple):
    """Messages of a lane that were dropped."""

    lane: int
    first: int
    next: int
    reason: DeathReason


class Handout(NamedTuple):
    """Messages for a consumer. ``deliveries`` is 1 for those that were not delivered before."""

    consumer: Consumer
    lane: int
    first: int
    next: int
    deliveries: int

    @property
    def redelivered(self) -> bool:
        return self.deliveries > 1


class Step(NamedTuple):
    """What follows from a decision. ``needs``: what it must know before it can go on."""

    facts: tuple[Facts, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    handouts: tuple[Handout, ...] = ()
    refused: tuple[Range, ...] = ()
    needs: tuple[Need, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.facts or self.dead_letters or self.handouts or self.refused or self.needs)

    @property
    def is_full(self) -> bool:
        """Whether as many messages were dropped as may be at a time: there may be more of them."""
        return sum(one.delta.message_count for one in self.facts) >= GIVEN_UP_AT_A_TIME


NOTHING = Step()


def joined_steps(*steps: Step) -> Step:
    """One step that is all of these, in order."""
    some = [step for step in steps if not step.is_empty]
    if len(some) <= 1:
        return some[0] if some else Step()
    return Step(
        facts=tuple(one for step in some for one in step.facts),
        dead_letters=tuple(one for step in some for one in step.dead_letters),
        handouts=tuple(one for step in some for one in step.handouts),
        refused=tuple(one for step in some for one in step.refused),
        needs=tuple(one for step in some for one in step.needs),
    )
