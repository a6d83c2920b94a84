"""Let Python look for cycles of garbage less often.

A broker's memory is freed by counting references; what is in cycles is little. Python looks for it after
every 700 objects that are more than before, and a thousand messages on their way through the broker are more
than that: a fifth of the time of small messages went there, and a tenth of the start. What was made before
the start was over stays as long as the process and is not looked at any more.

Only for a process that is a broker: a program that embeds one keeps its own settings.
"""

import gc

# So many new objects before the young ones are looked at; a look at as many takes about a millisecond.
YOUNG_OBJECTS_MAX = 20_000


def collect_seldom() -> None:
    """Called once, before the broker is loaded."""
    _young, middle, old = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS_MAX, middle, old)


def keep_what_is_here() -> None:
    """Called once, when the broker is ready."""
    gc.freeze()
