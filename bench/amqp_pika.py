"""pika as a client in its own process: `python -m bench.amqp_pika <what> <port> <queue> …` prints JSON.

round-trip   persistent messages published one by one, each waiting for its confirm
flow         many transient messages published, then all of them consumed and acknowledged in hundreds
route        many transient messages published to an exchange, each with another of its routing keys
"""

from __future__ import annotations

import argparse
import json
import time

import pika
from pika.adapters.blocking_connection import BlockingChannel

from bench.model import Values, percentile

TIMEOUT_S = 60
KEY_STEP = 7_919


def routing_key(number: int) -> str:
    """Return the routing key of a binding; patterns of topics append to it."""
    return f"shop.{number}.sold"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("round-trip", "flow", "route"))
    parser.add_argument("port", type=int)
    parser.add_argument("queue")
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--size", type=int, default=1_024)
    parser.add_argument("--exchange", default="")
    parser.add_argument("--keys", type=int, default=1, help="routing keys of the exchange")
    options = parser.parse_args()
    parameters = pika.ConnectionParameters("127.0.0.1", options.port, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        if options.what == "route":
            values = route(channel, options.exchange, options.queue, options.count, options.keys)
        else:
            work = round_trips if options.what == "round-trip" else flow
            values = work(channel, options.queue, options.count, options.size)
        print(json.dumps(values))


def round_trips(channel: BlockingChannel, queue: str, count: int, size: int) -> Values:
    channel.confirm_delivery()
    body, properties = b"x" * size, pika.BasicProperties(delivery_mode=2)
    times = []
    for _turn in range(count + count // 5):
        started = time.perf_counter()
        channel.basic_publish("", queue, body, properties)
        times.append(time.perf_counter() - started)
    ordered = sorted(times[count // 5 :])
    return {
        "p50_us": 1e6 * percentile(ordered, 0.50),
        "p99_us": 1e6 * percentile(ordered, 0.99),
        "messages": float(len(times)),
    }


def flow(channel: BlockingChannel, queue: str, count: int, size: int) -> Values:
    body, properties = b"x" * size, pika.BasicProperties(delivery_mode=1)
    started = time.perf_counter()
    for _turn in range(count):
        channel.basic_publish("", queue, body, properties)
    sent = time.perf_counter()
    channel.basic_qos(prefetch_count=500)
    came = channel.consume(queue, inactivity_timeout=TIMEOUT_S)
    for got, (method, _properties, _body) in enumerate(came, 1):
        if method is None:
            raise SystemExit(f"only {got - 1} of {count} messages came")
        if got % 100 == 0 or got == count:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if got == count:
            break
    ended = time.perf_counter()
    return {
        "sent_per_s": count / (sent - started),
        "received_per_s": count / (ended - sent),
        "messages": float(count),
    }


def route(channel: BlockingChannel, exchange: str, queue: str, count: int, keys: int) -> Values:
    """Publish and stop the clock when all of them are in the queue."""
    properties = pika.BasicProperties(delivery_mode=1)
    # A step that shares no factor with the number of keys visits each of them, in no order.
    names = [routing_key(turn * KEY_STEP % keys) for turn in range(count)]
    started = time.perf_counter()
    for name in names:
        channel.basic_publish(exchange, name, b"x" * 12, properties)
    deadline = started + TIMEOUT_S
    while (
        found := channel.queue_declare(queue, passive=True).method.message_count
    ) < count and time.perf_counter() < deadline:
        time.sleep(0.01)
    if found < count:
        raise SystemExit(f"only {found} of {count} messages were routed")
    return {"sent_per_s": count / (time.perf_counter() - started), "messages": float(count)}


if __name__ == "__main__":
    main()
