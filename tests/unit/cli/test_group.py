"""`millpond group` against a broker in this process, with members of librdkafka."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from millpond import Broker
from tests.support.processes.ports import wait_until
from tests.unit.cli.conftest import Run


@contextmanager
def reading(broker: Broker, topic: str, *, group: str) -> Iterator[Consumer]:
    """A member that has been assigned something."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        wait_until(
            lambda: consumer.poll(0.05) is not None or bool(consumer.assignment()),
            timeout_s=60,
            what="the member has partitions",
        )
        yield consumer
    finally:
        consumer.close()


def fill(run: Run, topic: str, count: int, *, partitions: int = 1) -> None:
    run("topic", "create", topic, "--partitions", str(partitions))
    text = "".join(f"{number}\n" for number in range(count))
    assert run("produce", topic, stdin=text).exit_code == 0


def test_a_group_is_listed_described_reset_and_deleted(broker: Broker, run: Run) -> None:
    fill(run, "orders", 20)
    with reading(broker, "orders", group="billing") as member:
        wait_until(lambda: commit(member, 12), timeout_s=60, what="the commit is stored")
        described = run("group", "describe", "billing")
        assert described.exit_code == 0
        head, columns, row = described.stdout.splitlines()
        assert head.startswith("billing: Stable, 1 member, 8 messages behind (")
        assert head.endswith("assignor range")
        assert columns.split("\t") == [
            *("topic", "partition", "committed", "end", "lag", "lag_bytes", "lag_seconds"),
            *("client", "host", "member"),
        ]
        cells = row.split("\t")
        assert cells[:5] == ["orders", "0", "12", "20", "8"]
        assert int(cells[5]) > 0
        assert float(cells[6]) >= 0
        assert cells[7:9] == ["reader", "127.0.0.1"]

        refused = run("group", "delete", "billing")
        assert refused.exit_code == 1
        assert "has members" in refused.stderr
        refused = run("group", "reset", "billing", "--to", "earliest")
        assert refused.exit_code == 1
        assert "has members" in refused.stderr

    assert "billing\n" in run("group", "list").stdout
    assert "billing" in [item["group"] for item in listed(run, "--state", "Empty")]
    assert "billing" not in [item["group"] for item in listed(run, "--state", "Stable")]

    planned = run("group", "reset", "billing", "--to", "-5", "--dry-run")
    assert planned.stdout.splitlines()[1] == "orders\t0\t12\t15"
    assert "Nothing was set" in planned.stderr
    done = run("group", "reset", "billing", "--to", "3", "--topic", "orders", "--json")
    assert json.loads(done.stdout) == [
        {"topic": "orders", "partition": 0, "before": 12, "after": 3}
    ]
    (document,) = json.loads(run("group", "describe", "billing", "--json").stdout)
    assert (document["state"], document["lag"], document["members"]) == ("Empty", 17, [])

    deleted = run("group", "delete", "billing", "--yes")
    assert (deleted.exit_code, deleted.stdout) == (0, "billing: deleted\n")
    assert "billing\n" not in run("group", "list").stdout


def commit(member: Consumer, offset: int) -> bool:
    from confluent_kafka import TopicPartition

    member.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    return True


def listed(run: Run, *options: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(run("group", "list", "--json", *options).stdout)
    return found


def test_a_reset_asks_first_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(run, "asked", 30)
    reset = ("group", "reset", "careful", "--topic", "asked", "--to", "7")

    def committed() -> list[int]:
        (document,) = json.loads(run("group", "describe", "careful", "--json").stdout)
        return [item["committed"] for item in document["partitions"]]

    assert run(*reset).exit_code == 0  # a script
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _stream: True)
    refused = run(*reset[:-1], "9", stdin="n\n")
    assert refused.exit_code == 1
    assert "  asked 0: 7 -> 9\nSet these positions of group careful? [y/N]" in refused.stderr
    assert committed() == [7]
    assert run(*reset[:-1], "9", stdin="y\n").exit_code == 0
    assert committed() == [9]
    assert run(*reset[:-1], "11", "--yes").exit_code == 0
    assert committed() == [11]


def test_a_group_that_never_read_can_be_placed(run: Run) -> None:
    fill(run, "backlog", 30, partitions=2)
    refused = run("group", "reset", "newcomer", "--to", "latest")
    assert refused.exit_code == 1
    assert "--topic" in refused.stderr
    placed = run("group", "reset", "newcomer", "--topic", "backlog", "--to", "latest", "--json")
    assert sum(item["after"] for item in json.loads(placed.stdout)) == 30
    (document,) = json.loads(run("group", "describe", "newcomer", "--json").stdout)
    assert (document["lag"], document["lag_bytes"], document["lag_seconds"]) == (0, 0, 0)
    assert [item["partition"] for item in document["partitions"]] == [0, 1]


@pytest.mark.parametrize("command", [("describe",), ("delete", "--yes")])
def test_a_group_that_is_not_there(run: Run, command: tuple[str, ...]) -> None:
    result = run("group", command[0], "nobody", *command[1:])
    assert result.exit_code == 1
    assert "nobody: there is no such group (GROUP_ID_NOT_FOUND)" in result.stderr


def test_a_place_that_is_none(run: Run) -> None:
    fill(run, "places", 1)
    result = run("group", "reset", "anyone", "--topic", "places", "--to", "yesterday")
    assert result.exit_code == 2
    assert "--to" in result.stderr
    result = run("group", "reset", "anyone", "--topic", "nosuch", "--to", "earliest")
    assert result.exit_code == 1


def test_an_offset_beyond_the_end_is_shown_as_such(broker: Broker, run: Run) -> None:
    """As after the loss of a log: the topic is deleted and made anew, and the group has read more."""
    from confluent_kafka import TopicPartition

    fill(run, "short", 5)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ahead"})
    consumer.commit(offsets=[TopicPartition("short", 0, 100)], asynchronous=False)
    consumer.close()
    told = run("group", "describe", "ahead")
    assert "beyond the end of the log in 1 partition," in told.stdout
    assert "0 messages behind" not in told.stdout
    assert "short\t0\t100\t5\tbeyond the end\t-\t-" in told.stdout
    assert "millpond kafka group reset" in told.stderr
    (document,) = json.loads(run("group", "describe", "ahead", "--json").stdout)
    (partition,) = document["partitions"]
    assert (partition["lag"], partition["beyond_end"]) == (None, True)
    fill(run, "usual", 5)
    run("group", "reset", "ahead", "--topic", "usual", "--to", "2")
    told = run("group", "describe", "ahead")
    assert ": Empty, 0 members, 3 messages behind (" in told.stdout
    assert ", beyond the end of the log in 1 partition," in told.stdout
