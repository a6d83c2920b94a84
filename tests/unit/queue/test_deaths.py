"""What a letter says of its first death and of its last."""

from millpond.base.fields import Table
from millpond.queue.deaths import DeathReason, with_death


def died(headers: Table, queue: str, reason: DeathReason, exchange: str = "") -> Table:
    return with_death(
        headers, reason=reason, queue=queue, exchange=exchange, routing_keys=(queue,), time_s=1
    )


def said(headers: Table, when: str) -> tuple[object, object, object]:
    names = (f"x-{when}-death-{name}" for name in ("reason", "queue", "exchange"))
    reason, queue, exchange = (headers[name] for name in names)
    return reason, queue, exchange


def test_the_first_death_stays_and_the_last_is_the_newest() -> None:
    once = died({}, "a", DeathReason.EXPIRED, "events")
    assert said(once, "first") == said(once, "last") == ("expired", "a", "events")
    twice = died(once, "b", DeathReason.REJECTED, "letters")
    assert said(twice, "first") == ("expired", "a", "events")
    assert said(twice, "last") == ("rejected", "b", "letters")
    again = died(twice, "a", DeathReason.EXPIRED, "letters")
    assert said(again, "first") == ("expired", "a", "events")
    assert said(again, "last") == ("expired", "a", "letters")
