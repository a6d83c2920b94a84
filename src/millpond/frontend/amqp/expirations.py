"""A message's own time to live: a number of milliseconds in a text, read as RabbitMQ reads it."""

import re

# Ten years, as for queues.
_MS_MAX = 315_360_000_000
_NUMBER = re.compile(r"[+-]?[0-9]+")


def expiration_ms(text: str | None) -> int | None:
    """Return how long a message may wait; None if there is no limit, or no valid one."""
    return None if text is None or wrong_expiration(text) is not None else int(text)


def wrong_expiration(text: str) -> str | None:
    """Return what is wrong with a text, in RabbitMQ's words; None if nothing is."""
    found = _NUMBER.match(text)
    if found is None:
        return "no_integer"
    left = text[found.end() :]
    if left:
        return f'{{leftover_string,"{left}"}}'
    value = int(text)
    if value < 0:
        return f"{{value_negative,{value}}}"
    return f"{{value_too_large,{value}}}" if value > _MS_MAX else None
