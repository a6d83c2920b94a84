"""The policy for messages that are given up.

The cursor applies the policy and returns the messages to keep elsewhere as ``DeadLetter``s; the owner of the
cursor decides where that is and what a copy looks like. It copies first, then records the decision: a failure
in between makes a second copy, never a lost message.
"""

from dataclasses import dataclass
from enum import Enum


class GiveUp(Enum):
    """What to do with a message that is given up."""

    DROP = "drop"
    DEAD_LETTER = "dead letter"


class Reason(Enum):
    """Why a message was given up."""

    REJECTED = "rejected"
    DELIVERIES = "deliveries"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPolicy:
    """How often a message is delivered (None: without limit) and what to do with one that is given up."""

    deliveries_max: int | None = None
    on_rejected: GiveUp = GiveUp.DROP
    on_deliveries: GiveUp = GiveUp.DROP

    def __post_init__(self) -> None:
        assert self.deliveries_max is None or self.deliveries_max >= 1

    def is_exhausted(self, deliveries: int) -> bool:
        """Return whether a message with this many deliveries is not delivered again."""
        return self.deliveries_max is not None and deliveries >= self.deliveries_max

    def action(self, reason: Reason) -> GiveUp:
        return self.on_rejected if reason is Reason.REJECTED else self.on_deliveries


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Messages, ``first`` up to but not including ``next``, to keep as dead letters."""

    first: int
    next: int
    deliveries: int
    reason: Reason
