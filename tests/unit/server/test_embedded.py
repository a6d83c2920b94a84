"""A broker inside this process: from synchronous code and from asyncio, leaving nothing behind."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import millpond
from millpond.base.errors import TopicExists
from millpond.base.ids import TopicPartition
from millpond.client.blocking import BlockingClient
from millpond.client.errors import ClientError
from millpond.server.config import InvalidSettings
from millpond.server.failures import ExitCode, StartFailed

ROOT = Path(__file__).resolve().parents[3]


def produce(broker: millpond.Broker, topic: str, *values: bytes) -> list[int]:
    with BlockingClient(broker.bootstrap) as client:
        return [
            client.produce_batch(topic, 0, [(0, None, value, ())]).base_offset for value in values
        ]


def thread_names() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("millpond-")}


def test_it_takes_messages_and_leaves_nothing_behind() -> None:
    with millpond.Broker() as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        broker.create_topic("orders")
        assert produce(broker, "orders", b"one", b"two") == [0, 1]
        data = broker.data
        assert (data / "orders-0").is_dir()

    assert not data.exists()
    assert "millpond-broker" not in thread_names()
    assert not broker.is_running


def test_messages_in_a_directory_of_ours_survive(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with millpond.Broker(data=data) as broker:
        broker.create_topic("orders")
        produce(broker, "orders", b"kept")

    with millpond.Broker(data=data) as broker:
        assert produce(broker, "orders", b"next") == [1]
    assert data.exists()


def test_the_same_object_can_be_started_again() -> None:
    broker = millpond.Broker()
    for _ in range(2):
        with broker:
            broker.create_topic("orders")
            assert produce(broker, "orders", b"x") == [0]


def test_several_brokers_at_once() -> None:
    with millpond.Broker() as first, millpond.Broker() as second:
        assert first.bootstrap != second.bootstrap
        first.create_topic("here")
        with BlockingClient(second.bootstrap) as client:
            assert [topic.name for topic in client.list_topics()] == []


def test_from_asyncio_without_blocking_the_loop() -> None:
    async def story() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            ticker = tasks.create_task(tick())
            async with millpond.Broker() as broker:
                await asyncio.to_thread(broker.create_topic, "orders")
                assert await asyncio.to_thread(produce, broker, "orders", b"x") == [0]
            ticker.cancel()
        assert ticks > 10

    asyncio.run(story())


def test_settings_by_keyword_and_by_kafkas_names() -> None:
    broker = millpond.Broker(num_partitions=3, settings={"delete.topic.enable": False})
    with broker, BlockingClient(broker.bootstrap) as client:
        broker.create_topic("orders")
        broker.create_topic("letters", partitions=2)
        assert len(client.describe_topic("orders").partitions) == 3
        assert len(client.describe_topic("letters").partitions) == 2
        assert broker.settings.values["delete.topic.enable"] is False


def test_a_misspelt_setting_fails_where_it_is_written() -> None:
    with pytest.raises(InvalidSettings, match=r"Did you mean num\.partitions"):
        millpond.Broker(num_partitons=3)


def test_the_environment_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_NUM_PARTITIONS", "many")

    with millpond.Broker() as broker:
        assert broker.is_running


def test_why_it_did_not_start_is_raised_in_the_callers_thread(tmp_path: Path) -> None:
    with millpond.Broker(data=tmp_path / "data") as running:
        port = int(running.bootstrap.rpartition(":")[2])

        with pytest.raises(StartFailed) as taken:
            millpond.Broker(port=port).start()
        with pytest.raises(StartFailed) as locked:
            millpond.Broker(data=tmp_path / "data").start()

    assert taken.value.code is ExitCode.ADDRESS
    assert "port=0 for any free one" in str(taken.value)
    assert locked.value.code is ExitCode.DATA
    assert "a directory of its own with data=" in str(locked.value)
    assert "--" not in str(taken.value) + str(locked.value), (
        "there is no command whose option to give"
    )
    assert "process" in locked.value.what


def test_a_failed_start_removes_its_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with millpond.Broker() as running:
        port = int(running.bootstrap.rpartition(":")[2])
        with pytest.raises(StartFailed):
            millpond.Broker(port=port).start()

    assert list(tmp_path.iterdir()) == []


def test_an_address_is_known_only_while_it_runs() -> None:
    broker = millpond.Broker()

    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap
    broker.stop()


def test_a_topic_that_exists_is_the_callers_mistake() -> None:
    with millpond.Broker() as broker:
        broker.create_topic("orders", config={"retention.ms": 1000, "preallocate": False})
        with pytest.raises(TopicExists):
            broker.create_topic("orders")
        with BlockingClient(broker.bootstrap) as client:
            assert client.describe_configs("orders")["retention.ms"].value == "1000"


def test_a_long_poll_does_not_hold_up_the_stop() -> None:
    ended = threading.Event()
    with millpond.Broker() as broker:
        broker.create_topic("quiet")
        client = BlockingClient(broker.bootstrap, timeout_s=1)
        batches = client.fetch_batches({TopicPartition("quiet", 0): 0}, max_wait_ms=600_000)

        def read() -> None:
            with contextlib.suppress(ClientError):
                next(batches, None)
            ended.set()

        threading.Thread(target=read, daemon=True).start()
        assert not ended.wait(0.2)

    assert "millpond-broker" not in thread_names()
    client.close()


def test_a_program_that_forgets_to_stop_its_broker_still_ends_and_cleans_up(tmp_path: Path) -> None:
    program = "import millpond; print(millpond.Broker().start().data)"

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


class TestLimits:
    """What one broker takes from the network, with real sockets."""

    def test_connections_beyond_the_limit_are_closed_and_make_room_again(self) -> None:
        with millpond.Broker(max_connections=2) as broker:
            with connect(broker), connect(broker), connect(broker) as third:
                assert is_closed(third)

            def is_let_in() -> bool:
                with connect(broker) as another:
                    return not is_closed(another, seconds=0.05)

            assert any(is_let_in() for _ in range(100))

    def test_an_idle_connection_is_closed(self) -> None:
        broker = millpond.Broker(settings={"connections.max.idle.ms": 100})
        with broker, connect(broker) as client:
            assert is_closed(client)

    def test_a_request_that_announces_too_much_is_refused_before_it_comes(self) -> None:
        settings = {"socket.request.max.bytes": 10_000, "message.max.bytes": 1_000}
        broker = millpond.Broker(settings=settings)
        with broker, connect(broker) as client:
            client.sendall((10_001).to_bytes(4, "big"))

            assert is_closed(client)


def connect(broker: millpond.Broker) -> socket.socket:
    host, _, port = broker.bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def is_closed(client: socket.socket, seconds: float = 60) -> bool:
    """Whether the broker ends the connection within the time."""
    client.settimeout(seconds)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_other_protocols_are_arguments() -> None:
    with millpond.Broker(amqp=True) as broker:
        (amqp,) = broker.addresses("amqp")
        (http,) = broker.addresses("http")
        assert broker.addresses() == [broker.bootstrap]
        assert (broker.amqp, broker.management) == ([amqp], [http])
        assert len({amqp, http, broker.bootstrap}) == 3
    with millpond.Broker(amqp=False, http=None) as broker:
        assert broker.addresses("amqp") == broker.addresses("http") == []
        with pytest.raises(KeyError):
            broker.addresses("smoke signals")
    with pytest.raises(InvalidSettings, match="--amqp"):
        millpond.Broker(amqp="nowhere")
