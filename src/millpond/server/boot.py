"""Which boot of the machine this is."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Return the id of the machine's present boot; None where the system has none (not Linux)."""
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None
