"""``make demo``: a broker, a click stream, a kill -9 in the middle, and nothing lost.

Starts a real broker process, writes clicks with librdkafka (Confluent's client, unmodified), kills the
broker half-way with SIGKILL and starts it again, reads everything back with two members of a consumer
group, and checks every click that was acknowledged. About half a minute; leaves nothing behind.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

TOPIC = "clicks"
PARTITIONS = 6
CLICKS = 100_000
PAGES = ("/", "/search", "/product", "/basket", "/checkout", "/help")
START_SECONDS_MAX = 15
READ_SECONDS_MAX = 60

console = Console()


@dataclass
class Sent:
    """What the broker said about the clicks."""

    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    failed: int = 0

    def on_delivery(self, error: object, message: Message) -> None:
        """librdkafka's word on one click: where it stands in the log, or why it does not."""
        if error is not None:
            self.failed += 1
            return
        place = (message.partition(), message.offset())
        self.acknowledged[place] = json.loads(message.value())["id"]


class BrokerProcess:
    """``millpond up`` as a person would run it, on a free port."""

    def __init__(self, data: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; answers the seconds until it took connections."""
        began = time.monotonic()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "millpond",
                "up",
                "--data",
                self._data,
                "--listen",
                self.address,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while time.monotonic() - began < START_SECONDS_MAX:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return time.monotonic() - began
            if self._process.poll() is not None:
                raise SystemExit(f"the broker ended with code {self._process.returncode}")
            time.sleep(0.01)
        raise SystemExit(f"the broker did not start within {START_SECONDS_MAX} s")

    def kill(self) -> None:
        """The worst that can happen to a process."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ask it to stop."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(10)


@contextmanager
def running_broker(data: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(data)
    try:
        console.print(f"[bold]1.[/] broker up in {broker.start():.2f} s at {broker.address}")
        yield broker
    finally:
        broker.stop()


def create_topic(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result()
    console.print(f"[bold]2.[/] topic {TOPIC} with {PARTITIONS} partitions")


def write_clicks(broker: BrokerProcess) -> Sent:
    """Write all clicks; in the middle the broker dies and comes back."""
    sent = Sent()
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,  # it would tell of the lost connection, which is the point here
        }
    )
    began = time.monotonic()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("writing", total=CLICKS)
        for number in range(CLICKS):
            click = {"id": number, "user": number % 997, "page": PAGES[number * 7 % len(PAGES)]}
            _produce(producer, click, sent)
            if number == CLICKS // 2:
                broker.kill()
                progress.console.print("[bold]3.[/] [red]kill -9[/] with writes in flight")
                progress.console.print(f"   back in {broker.start():.2f} s")
            if number % 1000 == 0:
                progress.update(bar, completed=number)
        left = producer.flush(30)
    seconds = time.monotonic() - began
    console.print(
        f"[bold]4.[/] {len(sent.acknowledged):,} clicks acknowledged, {sent.failed + left} failed, "
        f"in {seconds:.1f} s including the crash"
    )
    return sent


def _produce(producer: Producer, click: dict[str, object], sent: Sent) -> None:
    while True:
        try:
            producer.produce(
                TOPIC,
                key=str(click["user"]),
                value=json.dumps(click),
                on_delivery=sent.on_delivery,
            )
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return


def read_clicks(broker: BrokerProcess, wanted: int) -> tuple[dict[tuple[int, int], int], list[int]]:
    """Read the topic with two members of one group, up to what is wanted."""
    members = [
        Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "demo",
                "auto.offset.reset": "earliest",
            }
        )
        for _ in range(2)
    ]
    found: dict[tuple[int, int], int] = {}
    shares = [0, 0]
    try:
        for member in members:
            member.subscribe([TOPIC])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while len(found) < wanted and time.monotonic() < deadline:
            for index, member in enumerate(members):
                for message in member.consume(2000, timeout=0.1):
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    click = json.loads(message.value())
                    found[message.partition(), message.offset()] = click["id"]
                    shares[index] += 1
    finally:
        for member in members:
            member.close()
    return found, shares


def show(found: dict[tuple[int, int], int], shares: list[int], data: Path) -> None:
    pages = Counter(PAGES[number * 7 % len(PAGES)] for number in found.values())
    table = Table(title="Clicks by page")
    table.add_column("page")
    table.add_column("clicks", justify="right")
    table.add_column("")
    for page, count in pages.most_common():
        table.add_row(page, f"{count:,}", "█" * round(40 * count / max(pages.values())))
    console.print(table)
    console.print(f"group members read {shares[0]:,} and {shares[1]:,} clicks")
    size = sum(path.stat().st_size for path in data.rglob("*.log"))
    console.print(f"{size / 1e6:.1f} MB of Kafka-format segments, checked byte by byte:")
    subprocess.run([sys.executable, "-m", "millpond", "log", "verify", data], check=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="millpond-demo-") as folder:
        data = Path(folder) / "data"
        with running_broker(data) as broker:
            create_topic(broker)
            sent = write_clicks(broker)
            found, shares = read_clicks(broker, wanted=len(sent.acknowledged))
        lost = {place for place, click in sent.acknowledged.items() if found.get(place) != click}
        twice = len(found) - len(set(found.values()))
        show(found, shares, data)
    if lost or twice or sent.failed:
        console.print(f"[bold red]{len(lost)} lost, {twice} twice, {sent.failed} failed[/]")
        return 1
    console.print(
        f"[bold green]{len(sent.acknowledged):,} clicks acknowledged, every one read back once, "
        "where it was acknowledged.[/]"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
