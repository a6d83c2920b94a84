"""What a dead letter says of its deaths: the headers that RabbitMQ adds, and where it must not go.

Each pair of a queue and a reason has one entry in ``x-death``, the latest death first, with how often it
happened. A dead letter is not delivered to a queue that it has died in before, if no client rejected it
since: such a circle would turn for ever by itself.
"""

from collections.abc import Iterable

from millpond.base.fields import Long, Table, Timestamp, Value
from millpond.queue.steps import DeathReason

DEATHS = "x-death"


def with_death(
    headers: Table,
    *,
    reason: DeathReason,
    queue: str,
    exchange: str,
    routing_keys: Iterable[str],
    time_s: int,
    expiration: str | None = None,
    new_key: bool = False,
) -> Table:
    """The headers of a dead letter. ``exchange`` and keys are those that the message came by.

    ``expiration`` is the message's own, which the dead letter no longer has. ``new_key``: it gets another
    routing key, so that those in ``CC`` count no more.
    """
    deaths = _merged(deaths_of(headers))
    known = next((one for one in deaths if _is_of(one, queue, reason)), None)
    if known is None:
        entry: Table = {
            "count": Long(1),
            "reason": str(reason),
            "queue": queue,
            "time": Timestamp(time_s),
            "exchange": exchange,
            "routing-keys": list(routing_keys),
        }
        if expiration is not None:
            entry["original-expiration"] = expiration
    else:
        entry = {**known, "count": Long(_count(known) + 1)}
    others: list[Value] = [one for one in deaths if one is not known]
    dead_letter = {name: value for name, value in headers.items() if not (new_key and name == "CC")}
    dead_letter[DEATHS] = [entry, *others]
    for when in ("first", "last"):
        if when == "first" and DEATHS in headers:
            continue
        dead_letter[f"x-{when}-death-reason"] = str(reason)
        dead_letter[f"x-{when}-death-queue"] = queue
        dead_letter[f"x-{when}-death-exchange"] = exchange
    return dead_letter


def deaths_of(headers: Table) -> list[Table]:
    """The entries, the latest first; what is no entry is left out."""
    value = headers.get(DEATHS)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _merged(deaths: list[Table]) -> list[Table]:
    """One entry for each queue and reason.

    Brokers before RabbitMQ 3.6 wrote an entry for every death, without a count. The newest of several stays,
    and counts them if it has no count.
    """
    if len(deaths) < 2:
        return deaths
    kept: list[Table] = []
    places: list[tuple[str, str] | None] = []
    times: dict[tuple[str, str] | None, int] = {None: 1}
    for death in deaths:
        queue, reason = death.get("queue"), death.get("reason")
        place = (queue, reason) if isinstance(queue, str) and isinstance(reason, str) else None
        if place is not None and place in times:
            times[place] += 1
            continue
        kept.append(death)
        places.append(place)
        times[place] = 1
    return [
        one if "count" in one else {"count": Long(times[place]), **one}
        for one, place in zip(kept, places, strict=True)
    ]


def is_cycle(headers: Table, queue: str, reason: DeathReason) -> bool:
    """Whether a message that died for this reason may not go to a queue; its death is among the headers."""
    if reason is DeathReason.REJECTED:
        return False
    for one in deaths_of(headers):
        if one.get("reason") == DeathReason.REJECTED:
            return False
        if one.get("queue") == queue:
            return True
    return False


def _is_of(entry: Table, queue: str, reason: DeathReason) -> bool:
    return entry.get("queue") == queue and entry.get("reason") == reason


def _count(entry: Table) -> int:
    count = entry.get("count")
    return count if isinstance(count, int) else 0
