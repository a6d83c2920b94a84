"""When memory or disk run low: publishers stop, consumers go on, and messages are not kept in memory.

The rules are RabbitMQ's alarms. Over the high watermark of memory, or under the limit of free disk space,
connections that publish are blocked until it is over; from a share of the watermark on, what can be read
from the log again is not kept in memory. ``base.pressure`` decides what runs low; the server reads the
machine, and front-ends block their connections.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from millpond.base.pressure import NONE, Limits, Pressure, Readings, decide
from millpond.base.sizes import parse_size

log = logging.getLogger(__name__)

# The interval of reading. No client fills a gigabyte much faster in Python.
LOOK_S = 1.0


def limits_of(setting: Callable[[str], Any], total_bytes: int) -> Limits:
    """Return the limits by the settings on a machine with so much memory."""
    absolute = setting("vm_memory_high_watermark.absolute")
    if absolute is None:
        memory = int(total_bytes * setting("vm_memory_high_watermark.relative"))
    else:
        memory = parse_size(absolute)
    relative = setting("disk_free_limit.relative")
    if relative is None:
        disk = parse_size(setting("disk_free_limit.absolute"))
    else:
        disk = int(total_bytes * relative)
    paging = int(memory * setting("vm_memory_high_watermark_paging_ratio"))
    return Limits(memory_bytes_max=memory, paging_bytes_max=paging, disk_free_bytes_min=disk)


class Machine(Protocol):
    """Reads the memory and the disk of a machine."""

    total_bytes: int

    def read(self) -> Readings: ...

    def give_back(self) -> None:
        """Give free memory of this process back to the kernel."""
        ...


class PressureWatch:
    """Reads the machine at an interval and reports changes."""

    def __init__(
        self,
        machine: Machine,
        setting: Callable[[str], Any],
        on_change: Callable[[Pressure], None],
    ) -> None:
        self._machine = machine
        self._setting = setting
        self._on_change = on_change
        self.pressure = NONE
        # The last reading, and the limits that it was compared with.
        self.seen: tuple[Readings, Limits] | None = None

    async def watch_forever(self) -> None:
        """Read and decide until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Read, decide and report a change. Settings may have changed since the last time."""
        limits = limits_of(self._setting, self._machine.total_bytes)
        readings = self._machine.read()
        self.seen = readings, limits
        found = decide(readings, limits)
        before, self.pressure = self.pressure, found
        if found.low_on or found.is_paging > before.is_paging:
            self._machine.give_back()
        if found == before:
            return
        _say(before, found, readings, limits)
        self._on_change(found)


def _say(before: Pressure, found: Pressure, readings: Readings, limits: Limits) -> None:
    if found.low_on and found.low_on != before.low_on:
        log.warning(
            "%s: publishers are blocked (memory %d of at most %d bytes, disk free %d of at least %d)",
            found.reason,
            readings.resident_bytes,
            limits.memory_bytes_max,
            readings.disk_free_bytes,
            limits.disk_free_bytes_min,
        )
    elif before.low_on and not found.low_on:
        log.warning("memory and disk suffice again: publishers go on")
    if found.is_paging != before.is_paging:
        log.info(
            "messages are %s in memory (%d bytes, paging from %d)",
            "not kept" if found.is_paging else "kept",
            readings.resident_bytes,
            limits.paging_bytes_max,
        )
