"""Share groups: what front-ends ask of them and are answered."""

from millpond.engine.share.share_admin import ShareOffset
from millpond.engine.share.share_groups import (
    Acknowledgement,
    Assignment,
    HandedOut,
    ShareHeartbeat,
    ShareMember,
    ShareState,
    ShareWaiter,
)

__all__ = [
    "Acknowledgement",
    "Assignment",
    "HandedOut",
    "ShareHeartbeat",
    "ShareMember",
    "ShareOffset",
    "ShareState",
    "ShareWaiter",
]
