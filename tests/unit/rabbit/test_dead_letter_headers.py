"""What a letter says of its first death and of its last."""

from millpond.base.fields import Long, Table
from millpond.queue.steps import DeathReason
from millpond.rabbit.dead_letter_headers import with_death


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


def test_entries_that_were_not_counted_become_one_that_is() -> None:
    """What RabbitMQ does is the scene "rejected with deaths that were not counted"."""
    here: Table = {"queue": "a", "reason": "expired"}
    elsewhere: Table = {"queue": "b", "reason": "expired"}
    letter = died(
        {"x-death": [elsewhere, here, elsewhere, here, elsewhere]}, "a", DeathReason.EXPIRED
    )
    assert letter["x-death"] == [{**here, "count": Long(3)}, {**elsewhere, "count": Long(3)}]
    assert "x-first-death-reason" not in letter


def test_entries_that_make_no_sense_stay_as_they_are() -> None:
    odd: list[Table] = [{"queue": [1], "reason": "expired"}, {"queue": {}, "reason": None}, {}]
    letter = died({"x-death": [*odd, *odd]}, "a", DeathReason.EXPIRED)
    deaths = letter["x-death"]
    assert isinstance(deaths, list)
    assert [one.get("queue") for one in deaths if isinstance(one, dict)] == [
        *("a", [1], {}, None, [1], {}, None)
    ]
