"""Fair turns of the event loop, as front-ends use them."""

from millpond.engine.runtime.turns import LITTLE_COUNT, LITTLE_TIMES, SHORT_NS, Timed, Turns

__all__ = [
    "LITTLE_COUNT",
    "LITTLE_TIMES",
    "SHORT_NS",
    "Timed",
    "Turns",
]
