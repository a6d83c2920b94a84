"""Whether a log directory accepts writes, and when a failed one is probed again.

A failed write or sync takes the directory offline at once; it is probed after a delay that doubles with each
failed probe. A directory that fails again soon after its return begins with its last delay. Times are
arguments, in monotonic milliseconds; nothing here touches a disk.
"""

from millpond.base.limits import DISK_PROBE_MS_MAX, DISK_PROBE_MS_MIN, DISK_RELAPSE_MS


class DirectoryState:
    """One directory, online when made."""

    __slots__ = ("_pause_ms", "_returned_ms", "next_try_ms", "reason", "since_ms")

    def __init__(self) -> None:
        # Why it accepts no writes; None while it does.
        self.reason: str | None = None
        self.since_ms = 0
        self.next_try_ms = 0
        self._pause_ms = DISK_PROBE_MS_MIN
        self._returned_ms: int | None = None

    @property
    def is_offline(self) -> bool:
        """Whether it accepts no writes."""
        return self.reason is not None

    def on_failure(self, reason: str, now_ms: int) -> bool:
        """Note a failed write or sync. Return whether that takes the directory offline (it may be
        already).
        """
        if self.reason is not None:
            return False
        if self._returned_ms is None or now_ms - self._returned_ms >= DISK_RELAPSE_MS:
            self._pause_ms = DISK_PROBE_MS_MIN
        self.reason = reason
        self.since_ms = now_ms
        self.next_try_ms = now_ms + self._pause_ms
        return True

    def on_try_failed(self, reason: str, now_ms: int) -> None:
        """Note a failed probe, with its reason."""
        assert self.reason is not None
        self.reason = reason
        self._pause_ms = min(2 * self._pause_ms, DISK_PROBE_MS_MAX)
        self.next_try_ms = now_ms + self._pause_ms

    def on_returned(self, now_ms: int) -> None:
        """Note that the directory accepts writes again."""
        assert self.reason is not None
        self.reason = None
        self._returned_ms = now_ms
        self._pause_ms = min(2 * self._pause_ms, DISK_PROBE_MS_MAX)
