"""Measures routing as bindings grow: `python -m bench.micro_routing`."""

from time import process_time

from millpond.base.fields import Table
from millpond.rabbit.exchange_types import EXCHANGE_TYPES, Routed
from millpond.rabbit.records import Binding, Exchange
from millpond.rabbit.routing import Router

COUNTS = (10, 1_000, 100_000)
MESSAGES = 20_000
_SHARED = "headers, one shared"


def binding(kind: str, number: int) -> Binding:
    """Return one of many bindings, each for its own messages."""
    keys = {
        "direct": f"key.{number}",
        "topic": f"site.{number % 317}.*.{number}.#",
    }
    arguments: Table = {}
    if kind == "headers":
        arguments = {"x-match": "all", "user": number}
    elif kind == _SHARED:
        arguments = {"x-match": "all", "type": "order", "user": number}
    return Binding(
        vhost="/",
        source="x",
        destination=f"q{number}",
        routing_key=keys.get(kind, ""),
        arguments=arguments,
    )


def message(kind: str, number: int) -> Routed:
    if kind == "direct":
        return Routed((f"key.{number}",))
    if kind == "topic":
        return Routed((f"site.{number % 317}.event.{number}.more.words",))
    return Routed(("",), {"type": "order", "user": number, "other": "value"})


def measure(kind: str, count: int) -> tuple[float, float]:
    """Return microseconds for a message with a new routing key, and seconds to bind."""
    router = Router("/", EXCHANGE_TYPES)
    router.add_exchange(Exchange(vhost="/", name="x", type=kind.partition(",")[0]))
    started = process_time()
    for number in range(count):
        router.add_queue(f"q{number}")
        router.add_binding(binding(kind, number))
    bound = process_time() - started
    messages = [message(kind, number * 7919 % count) for number in range(MESSAGES)]
    best = float("inf")
    for _round in range(3):
        started = process_time()
        for one in messages:
            found, _by_key_only = router._follow(
                "x", one
            )  # what `route` does for a new routing key
            assert len(found) == 1
        best = min(best, process_time() - started)
    return 1e6 * best / MESSAGES, bound


def remembered() -> float:
    """Return microseconds for a message with a cached route."""
    router = Router("/", EXCHANGE_TYPES)
    router.add_exchange(Exchange(vhost="/", name="x", type="topic"))
    router.add_queue("q1")
    router.add_binding(binding("topic", 1))
    one = message("topic", 1)
    started = process_time()
    for _message in range(MESSAGES):
        router.route("x", one)
    return 1e6 * (process_time() - started) / MESSAGES


def main() -> None:
    print(f"{'µs a message':<20}" + "".join(f"{count:>12,} bindings" for count in COUNTS))
    for kind in ("direct", "topic", "headers", _SHARED):
        cells = [measure(kind, count) for count in COUNTS]
        print(f"{kind:<20}" + "".join(f"{cost:>21.2f}" for cost, _bound in cells))
        print(f"{'  bind all, s':<20}" + "".join(f"{bound:>21.2f}" for _cost, bound in cells))
    print(f"remembered by key: {remembered():.2f}")


if __name__ == "__main__":
    main()
