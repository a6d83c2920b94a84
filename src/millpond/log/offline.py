"""Whether a log directory takes writes, and when one that does not is tried again.

A failed write or sync takes the directory offline at once; it is tried after a pause that doubles with each
try that fails. One that fails again soon after its return begins with the pause at which it had arrived.
Times are arguments, in monotonic milliseconds; nothing here touches a disk.
"""

from millpond.base.limits import DISK_PROBE_MS_MAX, DISK_PROBE_MS_MIN, DISK_RELAPSE_MS


class DirectoryState:
    """One directory, online when made."""

    __slots__ = ("_pause_ms", "_returned_ms", "next_try_ms", "reason", "since_ms")

    def __init__(self) -> None:
        # Why it takes no writes; None while it does.
        self.reason: str | None = None
        self.since_ms = 0
        self.next_try_ms = 0
        self._pause_ms = DISK_PROBE_MS_MIN
        self._returned_ms: int | None = None

    @property
    def is_offline(self) -> bool:
        """Whether it takes no writes."""
        return self.reason is not None

    def on_failure(self, reason: str, now_ms: int) -> bool:
        """A write or a sync failed; whether that takes the directory offline (it may be already)."""
        if self.reason is not None:
            return False
        if self._returned_ms is None or now_ms - self._returned_ms >= DISK_RELAPSE_MS:
            self._pause_ms = DISK_PROBE_MS_MIN
        self.reason = reason
        self.since_ms = now_ms
        self.next_try_ms = now_ms + self._pause_ms
        return True

    def on_try_failed(self, reason: str, now_ms: int) -> None:
        """It was tried, and this is what it refused now."""
        assert self.reason is not None
        self.reason = reason
        self._pause_ms = min(2 * self._pause_ms, DISK_PROBE_MS_MAX)
        self.next_try_ms = now_ms + self._pause_ms

    def on_returned(self, now_ms: int) -> None:
        """It takes writes again."""
        assert self.reason is not None
        self.reason = None
        self._returned_ms = now_ms
        self._pause_ms = min(2 * self._pause_ms, DISK_PROBE_MS_MAX)
