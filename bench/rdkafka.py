"""Drives librdkafka hard enough that the broker, not Python, is what is measured.

confluent-kafka makes a Python object for each message, which costs more than a broker spends on it. So the
same shared library that its wheel carries is called through ctypes: `rd_kafka_produce_batch` with thousands
of messages at a time that all point to one payload, and `rd_kafka_consume_batch_queue`. Settings stay
librdkafka's defaults except those below. Runs as its own process and prints one JSON object:

    python -m bench.rdkafka produce 127.0.0.1:9092 TOPIC --count 1000000 --size 100 --acks 1
    python -m bench.rdkafka consume 127.0.0.1:9092 TOPIC --count 1000000 --partitions 12
    python -m bench.rdkafka group 127.0.0.1:9092 TOPIC --count 1000000 --partitions 12 --members 3
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import sys
import threading
import time
import uuid
from importlib.metadata import files
from typing import Any

PRODUCER, CONSUMER = 0, 1
PARTITION_UNASSIGNED = -1
OFFSET_BEGINNING = -2
BATCH_MESSAGES = 5_000
STALL_SECONDS_MAX = 30.0

# The settings of librdkafka's own performance example, so that its queues are not measured: with the defaults
# a consumer whose queue is full does not fetch for a whole second.
PRODUCER_SETTINGS = {"queue.buffering.max.messages": "500000"}
CONSUMER_SETTINGS = {
    "queued.min.messages": "1000000",
    "fetch.queue.backoff.ms": "10",
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "group.id": "bench-not-used",  # a name is required; partitions are assigned manually
}


class Message(ctypes.Structure):
    """`rd_kafka_message_t`, the public part of librdkafka's ABI."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


def load_library() -> ctypes.CDLL:
    """The librdkafka inside the confluent-kafka wheel."""
    for file in files("confluent-kafka") or ():
        if file.name.startswith("librdkafka") and ".so" in file.name:
            break
    else:
        raise SystemExit("confluent-kafka is installed without a bundled librdkafka")
    library = ctypes.CDLL(str(file.locate()))
    pointers = (
        "conf_new",
        "new",
        "topic_new",
        "queue_get_consumer",
        "topic_partition_list_new",
        "topic_partition_list_add",
        "consumer_poll",
    )
    for name in pointers:
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    library.rd_kafka_version_str.restype = ctypes.c_char_p
    library.rd_kafka_err2str.restype = ctypes.c_char_p
    library.rd_kafka_consume_batch_queue.restype = ctypes.c_ssize_t
    library.rd_kafka_message_destroy.argtypes = [ctypes.c_void_p]
    library.rd_kafka_message_destroy.restype = None
    return library


def version() -> str:
    text: bytes = load_library().rd_kafka_version_str()
    return text.decode()


def open_handle(library: ctypes.CDLL, kind: int, settings: dict[str, str]) -> ctypes.c_void_p:
    return create(library, kind, configure(library, settings))


def configure(library: ctypes.CDLL, settings: dict[str, str]) -> ctypes.c_void_p:
    conf = ctypes.c_void_p(library.rd_kafka_conf_new())
    errors = ctypes.create_string_buffer(512)
    for name, value in settings.items():
        if library.rd_kafka_conf_set(conf, name.encode(), value.encode(), errors, len(errors)) != 0:
            raise SystemExit(f"librdkafka: {errors.value.decode()}")
    return conf


def create(library: ctypes.CDLL, kind: int, conf: ctypes.c_void_p) -> ctypes.c_void_p:
    errors = ctypes.create_string_buffer(512)
    handle = library.rd_kafka_new(kind, conf, errors, len(errors))
    if not handle:
        raise SystemExit(f"librdkafka: {errors.value.decode()}")
    return ctypes.c_void_p(handle)


def produce(options: argparse.Namespace) -> dict[str, Any]:
    library = load_library()
    settings = {"bootstrap.servers": options.bootstrap, "acks": options.acks} | PRODUCER_SETTINGS
    handle = open_handle(library, PRODUCER, settings)
    topic = ctypes.c_void_p(library.rd_kafka_topic_new(handle, options.topic.encode(), None))
    payload = ctypes.create_string_buffer(random.Random(7).randbytes(options.size), options.size)
    messages = (Message * BATCH_MESSAGES)()
    for message in messages:
        message.payload = ctypes.cast(payload, ctypes.c_void_p)
        message.len = options.size
    if options.warmup:
        _produce_all(library, handle, topic, messages, options.warmup)
    started, cpu_started = time.perf_counter(), _own_cpu_seconds()
    _produce_all(library, handle, topic, messages, options.count)
    elapsed = time.perf_counter() - started
    return _summary(options, elapsed, _own_cpu_seconds() - cpu_started)


def _produce_all(
    library: ctypes.CDLL,
    handle: ctypes.c_void_p,
    topic: ctypes.c_void_p,
    messages: ctypes.Array[Message],
    count: int,
) -> None:
    """Queue everything, then wait until every message was acknowledged."""
    left, moved_at = count, time.perf_counter()
    while left:
        wanted = min(left, len(messages))
        queued = library.rd_kafka_produce_batch(
            topic, PARTITION_UNASSIGNED, 0, ctypes.byref(messages), wanted
        )
        left -= queued
        if queued:
            moved_at = time.perf_counter()
        elif time.perf_counter() - moved_at > STALL_SECONDS_MAX:
            raise SystemExit("librdkafka: nothing was accepted for 30 s")
        if queued < wanted:  # The queue is full: let the sender work.
            library.rd_kafka_poll(handle, 1)
    if library.rd_kafka_flush(handle, int(STALL_SECONDS_MAX * 1000)) != 0:
        raise SystemExit("librdkafka: not everything was acknowledged in 30 s")


def consume(options: argparse.Namespace) -> dict[str, Any]:
    library = load_library()
    settings = {"bootstrap.servers": options.bootstrap} | CONSUMER_SETTINGS
    handle = open_handle(library, CONSUMER, settings)
    library.rd_kafka_poll_set_consumer(handle)
    wanted = ctypes.c_void_p(library.rd_kafka_topic_partition_list_new(options.partitions))
    for partition in range(options.partitions):
        library.rd_kafka_topic_partition_list_add(wanted, options.topic.encode(), partition)
        library.rd_kafka_topic_partition_list_set_offset(
            wanted, options.topic.encode(), partition, ctypes.c_int64(OFFSET_BEGINNING)
        )
    queue = ctypes.c_void_p(library.rd_kafka_queue_get_consumer(handle))
    library.rd_kafka_assign(handle, wanted)
    messages = (ctypes.c_void_p * BATCH_MESSAGES)()
    destroy, take = library.rd_kafka_message_destroy, library.rd_kafka_consume_batch_queue
    left, started, first_at, cpu_started = options.count, 0.0, 0.0, 0.0
    moved_at = started = time.perf_counter()
    cpu_started = _own_cpu_seconds()
    while left > 0:
        got = take(queue, 100, messages, BATCH_MESSAGES)
        now = time.perf_counter()
        if got <= 0:
            if now - moved_at > STALL_SECONDS_MAX:
                raise SystemExit(f"librdkafka: no message for 30 s, {left} missing")
            continue
        moved_at = now
        first_at = first_at or now
        error = Message.from_address(messages[0] or 0).err
        if error:
            text: bytes = library.rd_kafka_err2str(error)
            raise SystemExit(f"librdkafka: {text.decode()}")
        left -= got
        for index in range(got):
            destroy(messages[index])
    elapsed = time.perf_counter() - first_at
    summary = _summary(options, elapsed, _own_cpu_seconds() - cpu_started)
    summary["seconds_to_first"] = first_at - started
    return summary


REBALANCE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
ASSIGN_PARTITIONS = -175
JOIN_SECONDS_MAX = 60.0


class GroupMember:
    """A consumer that waits until all members of its group have their partitions."""

    def __init__(self, library: ctypes.CDLL, options: argparse.Namespace, group: str) -> None:
        self._library = library
        self.assigned = 0
        self._on_rebalance = REBALANCE(self._rebalanced)  # a reference for librdkafka's callback
        settings = {"bootstrap.servers": options.bootstrap} | CONSUMER_SETTINGS
        settings |= {"group.id": group, "group.protocol": "consumer"}
        conf = configure(library, settings)
        library.rd_kafka_conf_set_rebalance_cb(conf, self._on_rebalance)
        self._handle = create(library, CONSUMER, conf)
        library.rd_kafka_poll_set_consumer(self._handle)
        self._queue = ctypes.c_void_p(library.rd_kafka_queue_get_consumer(self._handle))
        wanted = ctypes.c_void_p(library.rd_kafka_topic_partition_list_new(1))
        library.rd_kafka_topic_partition_list_add(wanted, options.topic.encode(), -1)
        library.rd_kafka_subscribe(self._handle, wanted)

    def _rebalanced(self, handle: int, code: int, partitions: int, _: object) -> None:
        library, client, parts = (
            self._library,
            ctypes.c_void_p(handle),
            ctypes.c_void_p(partitions),
        )
        count = PartitionList.from_address(partitions).count
        if code == ASSIGN_PARTITIONS:
            library.rd_kafka_incremental_assign(client, parts)
            library.rd_kafka_pause_partitions(client, parts)
            self.assigned += count
        else:
            library.rd_kafka_incremental_unassign(client, parts)
            self.assigned -= count

    def wait(self) -> None:
        """Serve callbacks for a moment."""
        message = self._library.rd_kafka_consumer_poll(self._handle, 20)
        if message:
            self._library.rd_kafka_message_destroy(ctypes.c_void_p(message))

    def go(self) -> None:
        assigned = ctypes.c_void_p()
        self._library.rd_kafka_assignment(self._handle, ctypes.byref(assigned))
        self._library.rd_kafka_resume_partitions(self._handle, assigned)

    def read(self, left: list[int], first_at: list[float], lock: threading.Lock) -> None:
        """Consume until all members together have enough messages."""
        messages = (ctypes.c_void_p * BATCH_MESSAGES)()
        destroy = self._library.rd_kafka_message_destroy
        while left[0] > 0:
            got = self._library.rd_kafka_consume_batch_queue(
                self._queue, 100, messages, BATCH_MESSAGES
            )
            if got > 0:
                with lock:
                    first_at.append(time.perf_counter())
                    left[0] -= got
                for index in range(got):
                    destroy(messages[index])


class PartitionList(ctypes.Structure):
    """The head of `rd_kafka_topic_partition_list_t`."""

    _fields_ = (("count", ctypes.c_int),)


def consume_in_group(options: argparse.Namespace) -> dict[str, Any]:
    """Join with all members, then read; the clock starts with the first message."""
    library = load_library()
    group = f"bench-{uuid.uuid4()}"
    started = time.perf_counter()
    members = [GroupMember(library, options, group) for _ in range(options.members)]
    share = options.partitions // options.members
    while any(member.assigned != share for member in members):
        for member in members:
            member.wait()
        if time.perf_counter() - started > JOIN_SECONDS_MAX:
            raise SystemExit(f"librdkafka: the group has not settled in {JOIN_SECONDS_MAX} s")
    joined, cpu_started = time.perf_counter(), _own_cpu_seconds()
    left, lock = [options.count], threading.Lock()
    first_at: list[float] = []
    for member in members:
        member.go()
    threads = [threading.Thread(target=one.read, args=(left, first_at, lock)) for one in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STALL_SECONDS_MAX * 2)
    if left[0] > 0:
        raise SystemExit(f"librdkafka: {left[0]} messages are missing")
    elapsed = time.perf_counter() - first_at[0]
    summary = _summary(options, elapsed, _own_cpu_seconds() - cpu_started)
    summary["join_s"] = joined - started
    return summary


def _own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _summary(options: argparse.Namespace, elapsed: float, cpu: float) -> dict[str, Any]:
    return {
        "seconds": elapsed,
        "msgs_per_s": options.count / elapsed,
        "mb_per_s": options.count * options.size / elapsed / 1e6,
        "client_cpu_s": cpu,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rdkafka")
    parser.add_argument("verb", choices=("produce", "consume", "group"))
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--acks", default="1")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=0)
    options = parser.parse_args()
    verbs = {"produce": produce, "consume": consume, "group": consume_in_group}
    sys.stdout.write(json.dumps(verbs[options.verb](options)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # without waiting for consumers to leave their groups


if __name__ == "__main__":
    main()
