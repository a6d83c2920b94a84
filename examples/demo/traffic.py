"""A shop's generated traffic: visitors who click, services that log, and typical faults.

Records come in the order of their arrival. Some are sent twice, some arrive late, some are too late to count,
some are no events at all; and for three minutes the payment service has errors. ``Truth`` is the result of a
perfect pipeline, computed here from the same events and nothing else.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

SESSION_GAP_S = 600
LATENESS_S = 600
LOG_LATENESS_S = 300
ALERT_ERRORS_MIN = 5
ALERT_SHARE = 0.2
FUNNEL = ("view", "cart", "checkout", "purchase")
_SPAN_S = 5400

_PAGES = (
    "/",
    "/search",
    "/product/17",
    "/product/23",
    "/product/42",
    "/product/99",
    "/offers",
    "/help",
)
_PAGE_WEIGHTS = (20, 18, 14, 9, 16, 4, 12, 3)
_SERVICES = ("web", "search", "basket", "payments", "mail")
_ERRORS = {
    "web": "template {n} not rendered: missing key user_{n}",
    "search": "shard {n} timed out after {n} ms",
    "basket": "basket {n} changed by two requests at once",
    "payments": "card processor answered 503 for order {n}",
    "mail": "mailbox of customer {n} is full",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """One record to send: its topic, and its arrival by the clock of the story (ms)."""

    topic: str
    key: bytes | None
    value: bytes | None
    arrives_ms: int


@dataclass(slots=True)
class Truth:
    """What is in the traffic. Times are milliseconds, as in the events."""

    sent: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)
    counted: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    views: Counter[str] = field(default_factory=Counter)
    click_dead_letters: Counter[str] = field(default_factory=Counter)
    log_dead_letters: Counter[str] = field(default_factory=Counter)
    levels: Counter[tuple[str, str]] = field(default_factory=Counter)
    minutes: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    without_id: int = 0
    doubled: int = 0
    late: int = 0

    @property
    def visits(self) -> list[list[tuple[int, str]]]:
        """Return visits: a visitor's events (time, action) without a gap of ten minutes or more."""
        found = []
        for events in map(sorted, self.counted.values()):
            starts = [0]
            for number, ((before, _), (after, _)) in enumerate(pairwise(events), start=1):
                if after - before >= SESSION_GAP_S * 1000:
                    starts.append(number)
            found += [events[a:b] for a, b in pairwise([*starts, len(events)])]
        return found

    @property
    def sessions(self) -> int:
        """The number of visits."""
        return len(self.visits)

    @property
    def funnel(self) -> dict[str, int]:
        """Return how many visits got to each step, the steps before it taken in their order."""
        reached: Counter[str] = Counter()
        for visit in self.visits:
            since = visit[0][0]
            for step in FUNNEL:
                first = min((at for at, action in visit if action == step), default=None)
                if first is None or first < since:
                    break
                reached[step] += 1
                since = first
        return dict(reached)

    @property
    def alerts(self) -> set[tuple[int, str]]:
        """Return the minutes (by their start) and services with many errors, absolutely and for their
        lines.
        """
        lines: Counter[tuple[int, str]] = Counter()
        errors: Counter[tuple[int, str]] = Counter()
        for (minute, service, level), count in self.minutes.items():
            lines[minute, service] += count
            errors[minute, service] += count if level == "ERROR" else 0
        return {
            place
            for place, count in errors.items()
            if count >= ALERT_ERRORS_MIN and count >= lines[place] * ALERT_SHARE
        }

    @property
    def events(self) -> int:
        """The number of distinct click events that count."""
        return sum(map(len, self.counted.values()))


def traffic(seed: int, clicks: int, lines: int, end_ms: int) -> tuple[list[Sent], Truth]:
    """Return clicks and log lines over an hour and a half that ends at ``end_ms``, and the truth about them.

    The last record of each topic comes a long time after the others, so that every earlier window and session
    is closed.
    """
    chance = random.Random(seed)
    truth = Truth()
    start_s = end_ms / 1000 - _SPAN_S - 4 * 3600
    records = [*_clicks(chance, clicks, start_s, truth), *_lines(chance, lines, start_s, truth)]
    records.sort(key=lambda record: record.arrives_ms)
    closing = end_ms / 1000
    last = _event("closing-bell", "nobody", "/", "view", closing)
    truth.ids.add("closing-bell")
    records.append(Sent("clicks", b"nobody", last, end_ms))
    line = f'time={_iso(closing)} level=info service=bell msg="closing time"'
    records.append(Sent("logs", b"bell", line.encode(), end_ms))
    truth.sent.update(record.topic for record in records)
    return records, truth


# --- clicks ---------------------------------------------------------------------------------------


def _clicks(chance: random.Random, count: int, start_s: float, truth: Truth) -> Iterator[Sent]:
    made = 0
    visitor = 0
    while made < count:
        visitor += 1
        at = start_s + chance.random() * _SPAN_S
        for page, action in _visit(chance):
            made += 1
            at += chance.expovariate(1 / 35)
            if at > start_s + _SPAN_S:
                break
            yield from _click(chance, f"u{visitor}", f"c{made}", page, action, at, truth)


def _visit(chance: random.Random) -> Iterator[tuple[str, str]]:
    for _ in range(1 + int(chance.expovariate(1 / 6))):
        yield chance.choices(_PAGES, _PAGE_WEIGHTS)[0], "view"
    for action, page, share in (
        ("cart", "/basket", 0.35),
        ("checkout", "/checkout", 0.6),
        ("purchase", "/thanks", 0.7),
    ):
        if chance.random() > share:
            return
        yield page, action


def _click(
    chance: random.Random,
    user: str,
    identifier: str,
    page: str,
    action: str,
    at: float,
    truth: Truth,
) -> Iterator[Sent]:
    at = round(at, 3)
    fate = chance.random()
    key = user.encode()
    if fate < 0.004:
        value, reason = _poison(chance, identifier, user, page, action, at)
        truth.click_dead_letters[reason] += 1
        if reason in {"EMPTY", "NOT_UTF8", "MALFORMED_JSON"}:
            truth.without_id += 1
        else:
            truth.ids.add(identifier)
        yield Sent("clicks", key, value, _ms(at))
        return
    value = _event(identifier, user, page, action, at)
    truth.ids.add(identifier)
    if fate < 0.008:
        # A phone without network for too long.
        truth.click_dead_letters["LATE"] += 1
        truth.late += 1
        yield Sent("clicks", key, value, _ms(at + LATENESS_S + 60 + chance.random() * 1800))
        return
    delay = chance.random() * 360 if fate < 0.04 else chance.random()
    truth.counted[user].append((round(at * 1000), action))
    truth.views[page] += 1
    yield Sent("clicks", key, value, _ms(at + delay))
    if chance.random() < 0.02:
        truth.doubled += 1
        yield Sent("clicks", key, value, _ms(at + delay + chance.random() * 20))


def _poison(
    chance: random.Random, identifier: str, user: str, page: str, action: str, at: float
) -> tuple[bytes | None, str]:
    event = {"id": identifier, "user": user, "page": page, "action": action, "time": _iso(at)}
    match chance.randrange(5):
        case 0:
            return None, "EMPTY"
        case 1:
            return b"\xff\xfe" + identifier.encode(), "NOT_UTF8"
        case 2:
            return json.dumps(event)[:-9].encode(), "MALFORMED_JSON"
        case 3:
            del event["page"]
            return json.dumps(event).encode(), "MISSING_FIELD"
        case _:
            return json.dumps(event | {"time": "yesterday"}).encode(), "BAD_TIME"


def _event(identifier: str, user: str, page: str, action: str, at: float) -> bytes:
    event = {"id": identifier, "user": user, "page": page, "action": action, "time": _iso(at)}
    return json.dumps(event).encode()


# --- logs -----------------------------------------------------------------------------------------


def _lines(chance: random.Random, count: int, start_s: float, truth: Truth) -> Iterator[Sent]:
    trouble = start_s + _SPAN_S * 0.6
    for _ in range(count):
        at = round(start_s + chance.random() * _SPAN_S, 3)
        service = chance.choice(_SERVICES)
        in_trouble = service == "payments" and trouble <= at < trouble + 180
        level = chance.choices(
            ("INFO", "WARN", "ERROR"), (30, 10, 60) if in_trouble else (93, 5, 2)
        )[0]
        fate = chance.random()
        if fate < 0.002:
            truth.log_dead_letters["NOT_UTF8"] += 1
            yield Sent("logs", service.encode(), b"\xc3\x28 garbage", _ms(at))
            continue
        line = _line(chance, service, level, at)
        if fate < 0.004:
            truth.log_dead_letters["LATE"] += 1
            yield Sent("logs", service.encode(), line, _ms(at + LOG_LATENESS_S + 60))
            continue
        truth.levels[service, level] += 1
        truth.minutes[int(at) // 60 * 60_000, service, level] += 1
        yield Sent("logs", service.encode(), line, _ms(at + chance.random() * 30))


def _line(chance: random.Random, service: str, level: str, at: float) -> bytes:
    number = chance.randrange(1, 100_000)
    message = _ERRORS[service].format(n=number) if level == "ERROR" else f"request {number} served"
    match _SERVICES.index(service):
        case 0:
            status = {"INFO": 200, "WARN": 404, "ERROR": 500}[level]
            when = datetime.fromtimestamp(int(at), UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
            return f'10.0.0.{number % 250} - - [{when}] "GET /p/{number} HTTP/1.1" {status} 512'.encode()
        case 1:
            severity = {"INFO": 134, "WARN": 132, "ERROR": 131}[level]
            return f"<{severity}>1 {_iso(at)} node1 {service} 77 - - {message}".encode()
        case 2:
            return (
                f'time={_iso(at)} level={level.lower()} service={service} msg="{message}"'.encode()
            )
        case _:
            line = {"time": _iso(at), "level": level, "service": service, "message": message}
            return json.dumps(line).encode()


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ms(at: float) -> int:
    return int(at * 1000)
