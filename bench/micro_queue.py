"""Measures a queue's decisions for each message, short and long: `python -m bench.micro_queue`."""

from collections.abc import Callable
from time import process_time

from millpond.queue.consumers import Consumer
from millpond.queue.queue_state import QueueState
from millpond.queue.settings import QueueSettings
from millpond.rabbit.channel import Deliveries, Held, grouped

MESSAGES = 20_000


def run(
    backlog: int, *, batch: int, prefetch: int, no_ack: bool = False, consumers: int = 1
) -> float:
    """Return microseconds for a message: published, delivered, settled."""
    line = QueueState(QueueSettings(), now_ms=0)
    end = backlog
    if backlog:
        line.published(0, 0, backlog)
    for number in range(consumers):
        line.consume(
            Consumer(owner=f"c/{number}", channel="c", tag="t", prefetch=prefetch, no_ack=no_ack),
            0,
        )
    channel = Deliveries()
    done = 0
    started = process_time()
    line.published(0, end, end + batch)
    end += batch
    while done < MESSAGES:
        step = line.deliver(0)
        tags = []
        for handout in step.handouts:
            for offset in range(handout.first, handout.next):
                held = Held("q", handout.consumer.owner, handout.lane, offset)
                tags.append(channel.add(None if no_ack else held))
        done += len(tags)
        if not no_ack and tags:
            for group in grouped(channel.take(tags[-1], multiple=True)):
                line.settle(group.lane, group.ranges, group.owner, 0)
        if not backlog:
            line.published(0, end, end + batch)
            end += batch
    return 1e6 * (process_time() - started) / done


def one_by_one(backlog: int) -> float:
    """Return the same with a prefetch of 100 and an acknowledgement for each message."""
    line = QueueState(QueueSettings(), now_ms=0)
    line.published(0, 0, backlog + MESSAGES)
    line.consume(Consumer(owner="c/1", channel="c", tag="t", prefetch=100), 0)
    channel = Deliveries()
    started = process_time()
    done = 0
    tags: list[int] = []
    while done < MESSAGES:
        for handout in line.deliver(0).handouts:
            for offset in range(handout.first, handout.next):
                held = Held("q", handout.consumer.owner, handout.lane, offset)
                tags.append(channel.add(held))
        (held,) = channel.take(tags[done], multiple=False)
        line.settle(held.lane, [(held.offset, held.offset + 1)], held.owner, 0)
        done += 1
    return 1e6 * (process_time() - started) / done


def best(act: Callable[[], float]) -> float:
    return min(act() for _round in range(3))


def main() -> None:
    print(f"{'µs a message':<52}{'empty':>10}{'10 M waiting':>14}")
    for name, how in {
        "no acks, 100 at a time": {"batch": 100, "prefetch": 0, "no_ack": True},
        "acks by 100, prefetch 100": {"batch": 100, "prefetch": 100},
        "acks by 100, prefetch 100, 4 consumers": {"batch": 100, "prefetch": 100, "consumers": 4},
        "acks one by one, prefetch 1": {"batch": 1, "prefetch": 1},
    }.items():
        empty = best(lambda how=how: run(0, **how))  # type: ignore[misc]
        full = best(lambda how=how: run(10_000_000, **how))  # type: ignore[misc]
        print(f"{name:<52}{empty:>10.2f}{full:>14.2f}")
    print(
        f"{'acks one by one, prefetch 100':<52}{best(lambda: one_by_one(0)):>10.2f}"
        f"{best(lambda: one_by_one(10_000_000)):>14.2f}"
    )


if __name__ == "__main__":
    main()
