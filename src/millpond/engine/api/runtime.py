"""Fair turns of the event loop and calls when futures are done, as front-ends use them."""

from millpond.engine.runtime.futures import failure_of, when_all_done, when_all_succeed
from millpond.engine.runtime.turns import LITTLE_COUNT, LITTLE_TIMES, SHORT_NS, Timed, Turns

__all__ = [
    "LITTLE_COUNT",
    "LITTLE_TIMES",
    "SHORT_NS",
    "Timed",
    "Turns",
    "failure_of",
    "when_all_done",
    "when_all_succeed",
]
