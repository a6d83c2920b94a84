"""The commands as processes: on a terminal, in pipes, interrupted."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Generator

import pytest

from millpond import Broker
from millpond.base.ids import TopicPartition
from millpond.cli import output
from millpond.cli.output import Exit
from millpond.client import BlockingClient, Consumer, Groups
from tests.unit.cli.conftest import Run


def start(broker: Broker, *arguments: str, **options: object) -> "subprocess.Popen[bytes]":
    environment = os.environ | {
        "MILLPOND_BOOTSTRAP": broker.bootstrap,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COLUMNS": "100",
        "TERM": "xterm",
    }
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "millpond", *arguments], env=environment, **options
    )


@pytest.fixture
def terminal() -> Generator[tuple[int, int], None, None]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def read_all(descriptor: int) -> str:
    """What a process wrote to its terminal until it ended."""
    data = b""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # Linux says so when the other end is closed
            piece = b""
        if not piece:
            return data.decode()
        data += piece


def on_terminal(broker: Broker, terminal: tuple[int, int], *arguments: str) -> tuple[int, str]:
    ours, theirs = terminal
    process = start(broker, *arguments, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = read_all(ours)
    return process.wait(90), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_people_get_a_table(run: Run, broker: Broker, terminal: tuple[int, int]) -> None:
    run("topic", "create", "shown", "--partitions", "3")
    code, shown = on_terminal(broker, terminal, "topic", "list")
    assert code == 0
    assert re.search(r"Topic\s+Partitions\s+Replication factor", shown)
    assert re.search(r"shown\s+3\s+1", shown)


def test_messages_cannot_steer_the_terminal(
    run: Run, broker: Broker, terminal: tuple[int, int]
) -> None:
    run("topic", "create", "steering")
    with BlockingClient(broker.bootstrap) as client:
        client.produce_batch("steering", 0, [(1, None, b"\x1b]0;owned\x07 text", ())])
    ours, theirs = terminal
    process = start(broker, "consume", "steering", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = read_all(ours)
    assert process.wait(90) == 0
    assert "\x1b]0" not in shown
    assert "owned� text" in shown
    assert "1 record" in shown


def test_deleting_asks_first(run: Run, broker: Broker, terminal: tuple[int, int]) -> None:
    run("topic", "create", "kept")
    ours, theirs = terminal
    process = start(broker, "topic", "delete", "kept", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"n\n")
    assert "Delete kept with all messages?" in read_all(ours)
    assert process.wait(90) == 1
    assert "kept\n" in run("topic", "list").stdout


@pytest.mark.parametrize(
    "asked", [("queue", "delete"), ("queue", "purge"), ("vhost", "delete")], ids=" ".join
)
def test_what_loses_messages_of_amqp_asks_first(
    asked: tuple[str, str], broker: Broker, terminal: tuple[int, int]
) -> None:
    ours, theirs = terminal
    process = start(broker, *asked, "kept", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"n\n")
    shown = read_all(ours)
    assert "kept" in shown
    assert "messages" in shown
    assert "error" not in shown  # the broker, which is none of AMQP's, was not asked
    assert process.wait(20) == 1


def test_a_slow_pipe_is_not_waited_for(run: Run, broker: Broker) -> None:
    run("topic", "create", "slow")
    reader = start(
        broker, "consume", "slow", "--follow", "--from", "earliest", stdout=subprocess.PIPE
    )
    writer = start(broker, "produce", "slow", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None
    assert writer.stdin is not None
    for line in (b"first\n", b"second\n"):
        writer.stdin.write(line)
        writer.stdin.flush()
        # The writer's input is still open; the line is there all the same.
        assert reader.stdout.readline() == line
    writer.stdin.close()
    assert writer.wait(90) == 0
    reader.send_signal(signal.SIGINT)
    assert reader.wait(90) == 130
    reader.stdout.close()
    assert writer.stderr is not None
    writer.stderr.close()


def test_ctrl_c_ends_a_producer_that_waits_for_its_input(run: Run, broker: Broker) -> None:
    run("topic", "create", "waiting")
    writer = start(broker, "produce", "waiting", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    with BlockingClient(broker.bootstrap) as client:
        assert writer.stdin is not None
        writer.stdin.write(b"one\n")
        writer.stdin.flush()
        assert next(client.fetch_batches({TopicPartition("waiting", 0): 0})).records()
    writer.send_signal(signal.SIGINT)
    _, said = writer.communicate(timeout=90)
    assert writer.returncode == 130
    assert b"Traceback" not in said
    assert b"Fatal" not in said


def test_a_reader_that_goes_away_is_no_failure(run: Run, broker: Broker) -> None:
    run("topic", "create", "long")
    run("produce", "long", stdin="x" * 1000 + "\n" + ("y" * 1000 + "\n") * 3000)
    process = start(broker, "consume", "long", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"xxx")
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(90) == 0


def members_of(broker: Broker, group: str) -> int:
    with BlockingClient(broker.bootstrap) as client:
        return len(client.run(lambda cluster: Groups(cluster).describe(group)).members)


def committed_by(broker: Broker, group: str) -> dict[TopicPartition, int]:
    with BlockingClient(broker.bootstrap) as client:
        return client.run(lambda cluster: Groups(cluster).offsets(group))


def follow_in_group(broker: Broker, topic: str, group: str) -> "subprocess.Popen[bytes]":
    """A member that has printed one message and waits for more."""
    member = start(
        broker,
        *("consume", topic, "--group", group, "--from-beginning", "--follow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert member.stdout is not None
    assert member.stdout.readline() == b"one\n"
    return member


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_member_that_is_told_to_end_leaves_its_group(
    run: Run, broker: Broker, number: signal.Signals, code: int
) -> None:
    topic = group = f"told-{number.name}"
    run("topic", "create", topic)
    run("produce", topic, stdin="one\n")
    member = follow_in_group(broker, topic, group)

    member.send_signal(number)

    assert member.communicate(timeout=90) == (b"", b"")
    assert member.returncode == code
    assert members_of(broker, group) == 0, "nobody has to wait for its session to time out"
    assert committed_by(broker, group) == {TopicPartition(topic, 0): 1}


def test_a_member_whose_reader_goes_away_leaves_its_group(run: Run, broker: Broker) -> None:
    """`| head -1`, and no message comes by which it would notice."""
    run("topic", "create", "unread")
    run("produce", "unread", stdin="one\n")
    member = follow_in_group(broker, "unread", "unread")
    assert member.stdout is not None
    assert member.stderr is not None

    member.stdout.close()

    assert member.stderr.read() == b""
    member.stderr.close()
    assert member.wait(90) == 0
    assert members_of(broker, "unread") == 0


def test_what_was_printed_is_committed_though_the_end_comes_in_between(
    run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topic", "create", "between")
    run("produce", "between", stdin="one\ntwo\n")
    commit = Consumer.commit
    told: list[signal.Signals] = []

    async def told_meanwhile(consumer: Consumer) -> None:
        has_printed = any([await consumer.position(at) for at in consumer.assignment()])
        if has_printed and not told:
            told.append(signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()  # until it hears of it
        await commit(consumer)

    monkeypatch.setattr(Consumer, "commit", told_meanwhile)
    monkeypatch.setattr(output, "_STOP_S_MAX", 60.0)  # it is this process that would be ended
    ended = run("consume", "between", "--group", "between", "--from-beginning", "--follow")
    assert (ended.exit_code, told) == (Exit.TERMINATED, [signal.SIGTERM])
    assert ended.stdout == "one\ntwo\n"
    assert committed_by(broker, "between") == {TopicPartition("between", 0): 2}
    assert members_of(broker, "between") == 0


def test_a_command_whose_output_nobody_reads_ends_when_it_is_told_to(
    run: Run, broker: Broker
) -> None:
    """`| less`: the pipe is full, so that the command waits in the middle of a write."""
    run("topic", "create", "full")
    run("produce", "full", stdin=("y" * 1000 + "\n") * 3000)
    process = start(broker, "consume", "full", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"y"
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) == 143
    process.communicate()
