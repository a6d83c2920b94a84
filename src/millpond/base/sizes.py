"""Sizes as users write them in RabbitMQ's settings: ``2GB``, ``512MiB``, ``1048576``."""

import re

from millpond.base.errors import InvalidConfig

_SIZE = re.compile(r"(\d+)\s*([A-Za-z]*)")
# A suffix without "B" is a power of two, as in RabbitMQ.
_UNITS = {
    "": 1,
    "k": 2**10,
    "kib": 2**10,
    "kb": 10**3,
    "m": 2**20,
    "mib": 2**20,
    "mb": 10**6,
    "g": 2**30,
    "gib": 2**30,
    "gb": 10**9,
    "t": 2**40,
    "tib": 2**40,
    "tb": 10**12,
}


def parse_size(text: str) -> int:
    """Return the number of bytes. Raises ``InvalidConfig``."""
    match = _SIZE.fullmatch(text.strip())
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        raise InvalidConfig(f"{text!r} is not a size; write a number of bytes, or 512MiB, or 2GB")
    return int(match[1]) * unit
