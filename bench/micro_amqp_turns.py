"""Measures a consumer with a prefetch of one while a publisher sends as fast as it can.

    python -m bench.micro_amqp_turns                  a broker, a flooding process, a consuming one
    python -m bench.micro_amqp_turns --source DIR     another tree's ``src``, in turn with this one
    python -m bench.micro_amqp_turns --rounds 5 --seconds 3 --size 1024

Raw sockets, transient messages. ``publishes a delivery`` is the consumer's waiting time in a unit that a busy
machine does not change; the publisher's own rate and the broker's CPU for each message show its cost.
``alone`` is the same publisher without a consumer, ``auto`` with a consumer that acknowledges nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import free_port

from bench.machine import cpu_seconds_of
from millpond.wire.amqp.client import ClientConnection
from millpond.wire.amqp.content import content_frames, method_frame
from millpond.wire.amqp.events import ChannelOpened, ContentReceived, MethodReceived, OpenRequested
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from millpond.wire.amqp.properties import Properties, encode_properties
from millpond.wire.shape import received

QUEUE = "turns"
TAG = "c"
FRAME_MAX = 131_072
# Like a client's own buffer: many small messages go to the socket in one piece.
PIECE_BYTES = 64 * 1024
WARM_UP_S = 0.5
KINDS = ("alone", "auto", "beside")
BLOCK = encode_properties(Properties(delivery_mode=1))


class Client:
    """A blocking connection with one channel."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wire = ClientConnection()
        self._until(OpenRequested)
        self._wire.open_channel(1)
        self._until(ChannelOpened)

    def ask(self, method: Method, answer: type[Method]) -> None:
        self._wire.send(1, method)
        self._until(answer)

    def events(self) -> list[object]:
        return list(received(self._wire, self.socket.recv(256 * 1024)))

    def _until(self, wanted: type) -> None:
        while True:
            self.socket.sendall(b"".join(self._wire.data_to_send()))
            for event in self.events():
                said = event.method if isinstance(event, MethodReceived) else event
                if isinstance(said, wanted):
                    return


def publish(port: int, size: int, report: Connection) -> None:
    """Publish for ever; report the number of messages on request."""
    client = Client(port)
    client.ask(QueueDeclare(queue=QUEUE), QueueDeclareOk)
    method = method_frame(1, BasicPublish(exchange="", routing_key=QUEUE))
    one = method + content_frames(1, BLOCK, b"x" * size, FRAME_MAX)
    count = max(1, PIECE_BYTES // len(one))
    piece, sent = one * count, 0
    report.send(0)
    while True:
        client.socket.sendall(piece)
        sent += count
        if report.poll():
            report.recv()
            report.send(sent)


def consume(port: int, size: int, prefetch: int, report: Connection) -> None:
    """Consume for ever and acknowledge each message, unless ``prefetch`` is 0."""
    client = Client(port)
    client.ask(QueueDeclare(queue=QUEUE), QueueDeclareOk)
    client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
    client.ask(BasicConsume(queue=QUEUE, consumer_tag=TAG, no_ack=not prefetch), BasicConsumeOk)
    deliver = BasicDeliver(consumer_tag=TAG, delivery_tag=1, exchange="", routing_key=QUEUE)
    whole = len(method_frame(1, deliver)) + len(content_frames(1, BLOCK, b"x" * size, FRAME_MAX))
    client.socket.settimeout(1.0)
    got = came = 0
    report.send(0)
    while True:
        try:
            if prefetch:
                for event in client.events():
                    if isinstance(event, ContentReceived):
                        got += 1
                        client.socket.sendall(method_frame(1, BasicAck(delivery_tag=got)))
            else:
                came += len(client.socket.recv(1024 * 1024))
                got = came // whole
        except TimeoutError:
            pass
        if report.poll():
            report.recv()
            report.send(got)


def measure(source: Path, kind: str, *, size: int, seconds: float) -> dict[str, float]:
    """Return the rates of one run, with its own broker."""
    with tempfile.TemporaryDirectory(prefix="millpond-turns-") as directory:
        broker = MillpondProcess(Path(directory))
        broker.source, port = source, free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{broker.port},AMQP://127.0.0.1:{port}"
        broker.properties["listeners"] = listeners
        with broker:
            workers: list[tuple[Callable[..., None], tuple[int, ...]]] = [(publish, (port, size))]
            if kind != "alone":
                workers.insert(0, (consume, (port, size, 1 if kind == "beside" else 0)))
            pipes, processes = [], []
            for work, arguments in workers:
                mine, theirs = multiprocessing.Pipe()
                process = multiprocessing.Process(target=work, args=(*arguments, theirs))
                process.start()
                mine.recv()
                pipes.append(mine)
                processes.append(process)
            time.sleep(WARM_UP_S)
            before, cpu, began = counts(pipes), cpu_seconds_of(broker.pid), time.perf_counter()
            time.sleep(seconds)
            taken, used = time.perf_counter() - began, cpu_seconds_of(broker.pid) - cpu
            moved = [now - then for now, then in zip(counts(pipes), before, strict=True)]
            for process in processes:
                process.kill()
                process.join()
        values = {"sent_per_s": moved[-1] / taken, "cpu_us": 1e6 * used / max(1, moved[-1])}
        if kind != "alone":
            values["received_per_s"] = moved[0] / taken
            values["publishes a delivery"] = moved[-1] / max(1, moved[0])
        return values


def counts(pipes: Iterable[Connection]) -> list[int]:
    found = []
    for pipe in pipes:
        pipe.send(None)
        found.append(pipe.recv())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro_amqp_turns")
    parser.add_argument("--source", type=Path, action="append", default=[])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=KINDS, action="append")
    options = parser.parse_args()
    sources = [*options.source, Path(__file__).resolve().parents[1] / "src"]
    for kind in options.only or KINDS:
        runs: dict[Path, list[dict[str, float]]] = {source: [] for source in sources}
        for _round in range(options.rounds):
            for source in sources:
                runs[source].append(
                    measure(source, kind, size=options.size, seconds=options.seconds)
                )
        for source, values in runs.items():
            middle = {key: median(one[key] for one in values) for key in values[0]}
            words = ", ".join(f"{key} {value:,.1f}" for key, value in middle.items())
            print(f"{kind} {source}: {words}", flush=True)


if __name__ == "__main__":
    main()
