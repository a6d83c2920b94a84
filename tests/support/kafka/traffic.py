"""Made-up traffic that behaves like real traffic: visitors of a shop, and the services behind it.

The same seed gives the same messages. Among them are messages that were sent twice, events that come late or
far too late, and poison: broken JSON, bytes that are no text, missing fields. A ``Truth`` beside them says
how many there are of each, so that whoever sends the traffic can check what came out at the other end.
Messages come in the order of their arrival; ``timestamp_ms`` is the arrival, the event's own time is in its
value.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

PAGES = ("/", "/mills", "/mills/wind", "/mills/water", "/grain", "/flour", "/about", "/search")
SERVICES = ("cart", "catalog", "pay", "search", "users")
_STEPS = ("view", "cart", "checkout", "purchase")
_GOES_ON = (1.0, 0.35, 0.6, 0.7)  # how many visitors who are at a step take the next one
_POISON = (
    b'{"id": "broken", "user":',
    b"\xff\xfe\x00not text",
    b'{"id": "nobody", "page": "/", "action": "view", "time": "2026-01-01T00:00:00Z"}',
    b'{"id": "when", "user": "u", "page": "/", "action": "view", "time": "yesterday"}',
)
_ERRORS = (
    "timeout after {n} ms talking to 10.0.{s}.{n}:9092",
    "card {n} declined by issuer",
    "cannot read '/var/lib/shop/{n}': no space left on device",
)
_SECOND = 1000


@dataclass(frozen=True, slots=True)
class Message:
    """What a producer is to send."""

    key: bytes
    value: bytes
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(slots=True)
class Truth:
    """What a stream of messages holds; complete when the stream has ended."""

    messages: int = 0
    events: int = 0  # different ones that are good and in time
    doubles: int = 0
    late: int = 0  # late, but in time
    too_late: int = 0
    poison: int = 0
    users: set[str] = field(default_factory=set)
    actions: Counter[str] = field(default_factory=Counter)
    levels: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How traffic looks."""

    per_second: float = 50.0
    doubles: float = 0.02
    late: float = 0.03
    late_ms: int = 120 * _SECOND
    too_late: float = 0.005
    too_late_ms: int = 3600 * _SECOND
    poison: float = 0.005
    users: int = 200


def clicks(
    count: int, *, seed: int, start_ms: int, truth: Truth, shape: Shape | None = None
) -> Iterator[Message]:
    """``count`` clicks of visitors who come, look around, perhaps buy, and go. Doubles come on top."""
    shape = shape or Shape()
    chance = random.Random(seed)
    step_of: dict[str, int] = {}
    for number in range(count):
        arrival = start_ms + int(number * _SECOND / shape.per_second)
        user = f"u{int(shape.users * chance.random() ** 2):05d}"  # few visit often, many seldom
        kind = chance.random()
        if kind < shape.poison:
            truth.messages += 1
            truth.poison += 1
            yield Message(user.encode(), _POISON[number % len(_POISON)], arrival)
            continue
        step = step_of.get(user, 0)
        event = {
            "id": f"c{seed}-{number}",
            "user": user,
            "page": PAGES[int(len(PAGES) * chance.random() ** 2)],
            "action": _STEPS[step],
            "time": _iso(arrival - _delay(kind, shape, truth, chance)),
        }
        step_of[user] = (step + 1) % len(_STEPS) if chance.random() < _GOES_ON[step] * 0.5 else 0
        yield from _sent(event, user, arrival, chance, shape, truth)
        if kind >= shape.poison + shape.too_late:
            truth.events += 1
            truth.users.add(user)
            truth.actions[_STEPS[step]] += 1


def service_logs(
    count: int, *, seed: int, start_ms: int, truth: Truth, shape: Shape | None = None
) -> Iterator[Message]:
    """``count`` lines of services, in several formats; one of the services has a bad minute in the middle."""
    shape = shape or Shape()
    chance = random.Random(seed)
    length_ms = count * _SECOND / shape.per_second
    trouble = (start_ms + length_ms * 0.4, start_ms + length_ms * 0.6)
    for number in range(count):
        arrival = start_ms + int(number * _SECOND / shape.per_second)
        place = int(len(SERVICES) * chance.random())
        service = SERVICES[place]
        truth.messages += 1
        if chance.random() < shape.poison:
            truth.poison += 1
            yield Message(service.encode(), b"\xff\xfe\x80", arrival)
            continue
        is_bad = service == "pay" and trouble[0] <= arrival < trouble[1]
        is_error = chance.random() < (0.6 if is_bad else 0.02)
        level = "ERROR" if is_error else ("WARN" if chance.random() < 0.05 else "INFO")
        numbers = {"n": int(chance.random() * 250), "s": place}
        message = (
            _ERRORS[1 if is_bad else place % len(_ERRORS)].format(**numbers)
            if is_error
            else f"handled request in {numbers['n']} ms"
        )
        truth.events += 1
        truth.levels[service, level] += 1
        line = _LINES[number % len(_LINES)](service, level, message, arrival)
        yield Message(service.encode(), line.encode(), arrival)


def _sent(
    event: dict[str, str],
    user: str,
    arrival: int,
    chance: random.Random,
    shape: Shape,
    truth: Truth,
) -> Iterator[Message]:
    """An event as its producer sends it: once, or twice when the first answer did not come."""
    value = json.dumps(event).encode()
    truth.messages += 1
    yield Message(user.encode(), value, arrival)
    if chance.random() < shape.doubles:
        truth.messages += 1
        truth.doubles += 1
        yield Message(user.encode(), value, arrival)


def _delay(kind: float, shape: Shape, truth: Truth, chance: random.Random) -> int:
    """How long before its arrival an event happened."""
    if kind < shape.poison + shape.too_late:
        truth.too_late += 1
        return shape.too_late_ms
    if kind < shape.poison + shape.too_late + shape.late:
        truth.late += 1
        return int(shape.late_ms * (0.2 + 0.8 * chance.random()))
    return 0


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _json_line(service: str, level: str, message: str, at_ms: int) -> str:
    return json.dumps({"time": _iso(at_ms), "service": service, "level": level, "message": message})


def _logfmt_line(service: str, level: str, message: str, at_ms: int) -> str:
    return f'time={_iso(at_ms)} level={level.lower()} service={service} msg="{message}"'


def _syslog_line(service: str, level: str, message: str, at_ms: int) -> str:
    severity = {"ERROR": 3, "WARN": 4, "INFO": 6}[level]
    return f"<{16 * 8 + severity}>1 {_iso(at_ms)} shop-1 {service} 42 - - {message}"


_LINES = (_json_line, _logfmt_line, _syslog_line)
