"""When a message is given up, and what becomes of it: a policy is data.

The cursor applies the policy and names the messages that are to be kept elsewhere as ``DeadLetter``s; where
that is, and what a copy looks like, is the business of whoever owns the cursor. Copy first, then record
the decision: a failure in between makes a second copy, never a lost message.
"""

from dataclasses import dataclass
from enum import Enum


class GiveUp(Enum):
    """What becomes of a message that is given up."""

    DROP = "drop"
    DEAD_LETTER = "dead letter"


class Reason(Enum):
    """Why a message was given up."""

    REJECTED = "rejected"
    DELIVERIES = "deliveries"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPolicy:
    """How often a message is tried (None: for ever) and what is done with one that is given up."""

    deliveries_max: int | None = None
    on_rejected: GiveUp = GiveUp.DROP
    on_deliveries: GiveUp = GiveUp.DROP

    def __post_init__(self) -> None:
        assert self.deliveries_max is None or self.deliveries_max >= 1

    def is_exhausted(self, deliveries: int) -> bool:
        """Whether a message that was handed out this often is not handed out again."""
        return self.deliveries_max is not None and deliveries >= self.deliveries_max

    def action(self, reason: Reason) -> GiveUp:
        return self.on_rejected if reason is Reason.REJECTED else self.on_deliveries


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Messages, ``first`` up to but not including ``next``, that are to be kept as dead letters."""

    first: int
    next: int
    deliveries: int
    reason: Reason
