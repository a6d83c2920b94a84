"""The demo's books: what its generator says is in the traffic is what a reader of the records finds."""

import json
from collections import Counter
from datetime import datetime

from examples.demo.traffic import LATENESS_S, LOG_LATENESS_S, Sent, Truth, traffic

END_MS = 1_769_835_600_000
MINUTE = 60_000


def a_day(seed: int = 7) -> tuple[list[Sent], Truth]:
    return traffic(seed, 6_000, 2_000, END_MS)


def test_the_same_seed_gives_the_same_day() -> None:
    assert a_day() == a_day()
    assert a_day()[0] != a_day(8)[0]


def test_records_come_in_the_order_of_their_arrival_and_the_closing_bell_is_last() -> None:
    records, truth = a_day()
    arrivals = [record.arrives_ms for record in records]
    assert arrivals == sorted(arrivals)
    assert [record.key for record in records[-2:]] == [b"nobody", b"bell"]
    assert truth.sent == Counter(record.topic for record in records)


def test_clicks_are_booked_as_a_reader_would_count_them() -> None:
    records, truth = a_day()
    clicks = [record for record in records if record.topic == "clicks" and record.key != b"nobody"]
    reasons: Counter[str] = Counter()
    views: Counter[str] = Counter()
    seen: set[str] = set()
    doubled = 0
    for record in clicks:
        reason, event = judged(record)
        if reason:
            reasons[reason] += 1
        elif event["id"] in seen:
            doubled += 1
        else:
            views[event["page"]] += 1
        if "id" in event:
            seen.add(event["id"])
    assert reasons == truth.click_dead_letters
    assert set(reasons) == {
        "EMPTY",
        "NOT_UTF8",
        "MALFORMED_JSON",
        "MISSING_FIELD",
        "BAD_TIME",
        "LATE",
    }
    assert views == truth.views
    assert doubled == truth.doubled > 0
    assert seen | {"closing-bell"} == truth.ids
    assert truth.events == sum(views.values())
    assert truth.without_id == sum(
        reasons[name] for name in ("EMPTY", "NOT_UTF8", "MALFORMED_JSON")
    )


def judged(record: Sent) -> tuple[str, dict[str, str]]:
    """What is wrong with a click, and what is in it."""
    if record.value is None:
        return "EMPTY", {}
    try:
        event = json.loads(record.value.decode())
    except UnicodeDecodeError:
        return "NOT_UTF8", {}
    except ValueError:
        return "MALFORMED_JSON", {}
    if "page" not in event:
        return "MISSING_FIELD", event
    if not event["time"].endswith("Z"):
        return "BAD_TIME", event
    is_late = record.arrives_ms - milliseconds(event["time"]) > LATENESS_S * 1000
    return ("LATE" if is_late else ""), event


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_log_lines_are_booked_with_their_minutes() -> None:
    records, truth = a_day()
    logs = [record for record in records if record.topic == "logs"]
    assert len(logs) == sum(truth.levels.values()) + sum(truth.log_dead_letters.values()) + 1
    by_level: Counter[tuple[str, str]] = Counter()
    for (minute, service, level), count in truth.minutes.items():
        assert minute % MINUTE == 0
        by_level[service, level] += count
    assert by_level == truth.levels
    assert truth.log_dead_letters["LATE"] > 0
    payments = [record for record in logs if record.key == b"payments"]
    lines = [json.loads(r.value) for r in payments if r.value and r.value.startswith(b"{")]
    late = sum(
        record.arrives_ms - milliseconds(json.loads(record.value)["time"]) > LOG_LATENESS_S * 1000
        for record in payments
        if record.value and record.value.startswith(b"{")
    )
    counted = sum(count for (service, _), count in truth.levels.items() if service == "payments")
    assert len(lines) - late == counted


def test_the_payment_service_is_in_trouble_and_nobody_else() -> None:
    _, truth = traffic(7, 100, 10_000, END_MS)
    assert {service for _, service in truth.alerts} == {"payments"}
    assert 3 <= len(truth.alerts) <= 4  # three minutes, which need not begin with one


def test_a_visit_ends_with_ten_quiet_minutes() -> None:
    truth = Truth()
    truth.counted["u1"] = [(10 * MINUTE, "view"), (0, "view"), (19 * MINUTE, "view")]
    truth.counted["u2"] = [(0, "view"), (10 * MINUTE - 1, "view")]
    assert sorted(map(len, truth.visits)) == [1, 2, 2]
    assert truth.sessions == 3


def test_a_funnel_counts_steps_in_their_order_only() -> None:
    truth = Truth()
    truth.counted["buys"] = [(1, "view"), (2, "cart"), (3, "checkout"), (4, "purchase")]
    truth.counted["looks"] = [(1, "view"), (2, "view")]
    truth.counted["jumps"] = [(1, "view"), (2, "checkout"), (3, "purchase")]
    truth.counted["turned round"] = [(1, "cart"), (2, "view")]
    truth.counted["from outside"] = [(1, "cart"), (2, "checkout")]
    assert truth.funnel == {"view": 4, "cart": 1, "checkout": 1, "purchase": 1}


def test_an_alert_needs_many_errors_and_a_share_of_the_lines() -> None:
    truth = Truth()
    truth.minutes.update(
        {
            (0, "few", "ERROR"): 4,
            (0, "many", "ERROR"): 5,
            (0, "many", "INFO"): 20,
            (0, "busy", "ERROR"): 5,
            (0, "busy", "INFO"): 21,
            (MINUTE, "few", "ERROR"): 4,
        }
    )
    assert truth.alerts == {(0, "many")}
