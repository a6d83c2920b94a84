"""Decides whether a machine runs low on memory or disk, as RabbitMQ's alarms do."""

from dataclasses import dataclass

MEMORY, DISK = "memory", "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The memory in use and the free disk space."""

    resident_bytes: int
    disk_free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds for readings."""

    memory_bytes_max: int
    paging_bytes_max: int
    disk_free_bytes_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """What runs low, in the order of their names in RabbitMQ's reasons."""

    low_on: tuple[str, ...] = ()
    is_paging: bool = False

    @property
    def reason(self) -> str:
        """The reason that a blocked client is told."""
        return f"low on {' & '.join(self.low_on)}"


NONE = Pressure()


def decide(readings: Readings, limits: Limits) -> Pressure:
    """Return what runs low."""
    low_on = []
    if readings.resident_bytes > limits.memory_bytes_max:
        low_on.append(MEMORY)
    if readings.disk_free_bytes < limits.disk_free_bytes_min:
        low_on.append(DISK)
    return Pressure(
        low_on=tuple(low_on), is_paging=readings.resident_bytes > limits.paging_bytes_max
    )
