"""`millpond produce` and `millpond consume` against a broker in this process."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from millpond import Broker
from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.cli import consume
from millpond.client import BlockingAdmin, BlockingClient, Groups, OffsetAndMetadata
from millpond.record import Compression, NewRecord
from tests.unit.cli.conftest import Run

NOON = 1_700_000_000_000
NOON_ISO = datetime.fromtimestamp(NOON / 1000, UTC).isoformat()


def write(broker: Broker, topic: str, *records: NewRecord, partition: int = 0) -> None:
    with BlockingClient(broker.bootstrap) as client:
        client.produce_batch(topic, partition, records)


def read(broker: Broker, topic: str, partition: int = 0) -> list[tuple[object, ...]]:
    at = TopicPartition(topic, partition)
    with BlockingClient(broker.bootstrap) as client:
        end = client.list_offsets({at: -1})[at]
        assert not isinstance(end, Exception)
        return [
            (record.key, record.value, record.headers)
            for batch in client.fetch_batches({at: 0}, until={at: end.offset})
            for record in batch.records()
        ]


class TestProduce:
    def test_lines_of_standard_input(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "lines")
        result = run("produce", "lines", stdin="one\ntwo\r\n\nlast without an end")
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        assert result.stderr.startswith("4 records to lines in ")
        assert [value for _, value, _ in read(broker, "lines")] == [
            b"one", b"two", b"", b"last without an end",
        ]  # fmt: skip

    def test_a_topic_that_came_with_the_first_message_is_named(self, run: Run) -> None:
        assert "newcomer was not there" in run("produce", "newcomer", "a").stderr
        assert "was not there" not in run("produce", "newcomer", "b").stderr

    def test_arguments(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "arguments")
        run("produce", "arguments", "a", "größe", "--key", "k", "--header", "h=1", "--header", "g=")
        headers = (("h", b"1"), ("g", b""))
        assert read(broker, "arguments") == [
            (b"k", b"a", headers),
            (b"k", "größe".encode(), headers),
        ]

    def test_a_file(self, run: Run, broker: Broker, tmp_path: Path) -> None:
        run("topic", "create", "file")
        path = tmp_path / "messages"
        path.write_bytes(b"".join(b"%d %s\n" % (n, b"x" * 100) for n in range(10_000)))
        result = run("produce", "file", "--file", str(path), "--compression", "zstd", "--json")
        report = json.loads(result.stdout)
        assert (report["topic"], report["records"]) == ("file", 10_000)
        values = [value for _, value, _ in read(broker, "file")]
        assert values == path.read_bytes().splitlines()

    def test_keys_in_lines(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "keyed")
        run("produce", "keyed", "--key-separator", "=>", stdin="a=>1\nb=>2=>3\n=>empty key\n")
        assert [(key, value) for key, value, _ in read(broker, "keyed")] == [
            (b"a", b"1"),
            (b"b", b"2=>3"),
            (b"", b"empty key"),
        ]

    def test_formats(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "formats")
        run(
            "produce", "formats", "--key-separator", ":", "--key-format", "hex",
            "--value-format", "base64", "--null-value", "NULL", stdin="00ff:aGk=\n01:NULL\n",
        )  # fmt: skip
        run("produce", "formats", "--value-format", "json", '{"a":  1}')
        assert [(key, value) for key, value, _ in read(broker, "formats")] == [
            (b"\x00\xff", b"hi"),
            (b"\x01", None),
            (None, b'{"a":  1}'),
        ]

    @pytest.mark.parametrize(
        ("options", "stdin", "reason"),
        [
            (["--value-format", "json"], '{"fine": 1}\n{broken\n', "line 2: not JSON: "),
            (["--value-format", "hex"], "zz\n", "line 1: not hexadecimal"),
            (["--value-format", "base64"], "?\n", "line 1: not base64"),
            (
                ["--key-separator", ":"],
                "a:1\nb2\n",
                "line 2: no separator ':' in 'b2'; the 1 before it were written",
            ),
            (["--key-separator", ""], "", "empty"),
            (["--key-separator", ":", "--key", "k"], "", "not both"),
            (["--idempotent", "--acks", "1"], "", "--acks all"),
            (["--timestamp", "yesterday"], "", "'yesterday' is no time"),
            (["--header", "h"], "", "NAME=VALUE"),
            (["--key", "x", "--key-format", "hex"], "", "not hexadecimal"),
            (["--compression", "brotli"], "", "brotli"),
            (["--file", "/no/such/file"], "", "does not exist"),
        ],
    )
    def test_what_is_asked_wrongly(
        self, run: Run, options: list[str], stdin: str, reason: str
    ) -> None:
        run("topic", "create", "wrong", "--if-not-exists")
        result = run("produce", "wrong", *options, stdin=stdin)
        assert result.exit_code == 2
        assert reason in result.stderr

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    @pytest.mark.parametrize("codec", [codec.name.lower() for codec in Compression])
    def test_acks_and_codecs(self, run: Run, broker: Broker, acks: str, codec: str) -> None:
        topic = f"acks-{acks}-{codec}"
        run("topic", "create", topic)
        assert (
            run("produce", topic, "x" * 50, "--acks", acks, "--compression", codec).exit_code == 0
        )
        assert (
            run("consume", topic, "--follow", "--from", "0", "--max", "1").stdout == "x" * 50 + "\n"
        )

    def test_idempotent_to_one_partition_at_a_given_time(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "placed", "--partitions", "3")
        result = run(
            "produce", "placed", "x", "--partition", "2", "--timestamp", NOON_ISO, "--idempotent", "-q"
        )  # fmt: skip
        assert (result.exit_code, result.stderr) == (0, "")
        [line] = run("consume", "placed", "--json").stdout.splitlines()
        record = json.loads(line)
        assert (record["partition"], record["timestamp"]) == (2, NOON)

    def test_a_topic_is_made_as_the_broker_is_set_up_to(self, run: Run) -> None:
        assert run("produce", "made-by-writing", "x").exit_code == 0
        assert run("consume", "made-by-writing").stdout == "x\n"

    def test_a_partition_that_is_not_there(self, run: Run) -> None:
        run("topic", "create", "small")
        result = run("produce", "small", "x", "--partition", "9")
        assert result.exit_code == 1
        assert "UNKNOWN_TOPIC_OR_PARTITION" in result.stderr

    def test_a_message_that_is_too_large(self, run: Run) -> None:
        run("topic", "create", "tight", "--config", "max.message.bytes=1000")
        result = run("produce", "tight", "x" * 2000)
        assert result.exit_code == 1
        assert "MESSAGE_TOO_LARGE" in result.stderr

    def test_nothing_to_write_is_fine(self, run: Run) -> None:
        result = run("produce", "nothing", stdin="")
        assert result.exit_code == 0
        assert result.stderr.startswith("0 records")


@pytest.fixture(scope="module")
def numbers(broker: Broker) -> None:
    """Ten messages, one each minute, in two partitions."""
    with BlockingClient(broker.bootstrap) as client:
        client.create_topic("numbers", partitions=2)
    for number in range(10):
        write(
            broker,
            "numbers",
            (NOON + number * 60_000, b"key %d" % number, b"%d" % number, [("h", b"x")]),
            partition=number % 2,
        )


@pytest.mark.usefixtures("numbers")
class TestConsume:
    def values(self, run: Run, *options: str) -> list[int]:
        result = run("consume", "numbers", *options)
        assert result.exit_code == 0, result.stderr
        return sorted(int(line) for line in result.stdout.splitlines())

    def test_everything_that_is_there(self, run: Run) -> None:
        assert self.values(run) == list(range(10))

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            ("earliest", list(range(10))),
            ("latest", []),
            ("3", [6, 7, 8, 9]),
            ("99", []),
            ("-1", [8, 9]),
            ("-99", list(range(10))),
            (str(NOON + 5 * 60_000), [5, 6, 7, 8, 9]),
            (str(NOON + 5 * 60_000 + 1), [6, 7, 8, 9]),
            (str(NOON + 10**9), []),
            (NOON_ISO, list(range(10))),
            ("2023-11-14T22:17:20Z", [4, 5, 6, 7, 8, 9]),
        ],
    )
    def test_from_somewhere(self, run: Run, where: str, expected: list[int]) -> None:
        assert self.values(run, "--from", where) == expected

    def test_one_partition(self, run: Run) -> None:
        assert self.values(run, "--partition", "1") == [1, 3, 5, 7, 9]
        assert self.values(run, "--partition", "1", "--partition", "0") == list(range(10))

    def test_no_more_than(self, run: Run) -> None:
        assert self.values(run, "--max", "3", "--partition", "0") == [0, 2, 4]

    def test_following_ends_when_nothing_comes(self, run: Run) -> None:
        assert self.values(run, "--follow", "--idle", "0.1", "--from", "4") == [8, 9]
        assert self.values(run, "--follow", "--idle", "0.1") == []

    def test_what_is_printed_beside_the_value(self, run: Run) -> None:
        options = ("--partition", "0", "--max", "1")
        plain = run("consume", "numbers", *options, "--print", "all").stdout
        assert plain == "numbers-0@0\t2023-11-14T22:13:20.000Z\th=x\tkey 0\t0\n"
        assert run("consume", "numbers", *options, "--print", "key").stdout == "key 0\t0\n"
        assert (
            run("consume", "numbers", *options, "--print", "offsets").stdout == "numbers-0@0\t0\n"
        )

    def test_json_lines(self, run: Run) -> None:
        [line] = run(
            "consume", "numbers", "--json", "--partition", "1", "--max", "1"
        ).stdout.splitlines()
        assert json.loads(line) == {
            "topic": "numbers",
            "partition": 1,
            "offset": 0,
            "timestamp": NOON + 60_000,
            "key": "key 1",
            "value": "1",
            "headers": [["h", "x"]],
        }

    def test_formats(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "shapes")
        write(
            broker,
            "shapes",
            (NOON, b"\xff\x00", b'{"a": [1, 2]}', [("n", None), ("b", b"\xfe")]),
            (NOON, None, None, ()),
        )
        text = run("consume", "shapes", "--print", "key", "--key-format", "hex").stdout
        assert text == 'ff00\t{"a": [1, 2]}\nnull\tnull\n'
        coded = run("consume", "shapes", "--value-format", "base64", "--max", "1").stdout
        assert coded == "eyJhIjogWzEsIDJdfQ==\n"
        lines = run("consume", "shapes", "--json", "--value-format", "json").stdout.splitlines()
        first, second = (json.loads(line) for line in lines)
        assert first["value"] == {"a": [1, 2]}
        assert first["headers"] == [["n", None], ["b", "�"]]
        assert (second["key"], second["value"]) == (None, None)

    def test_bytes_come_out_as_they_went_in(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "raw")
        write(broker, "raw", (NOON, None, b"\x00\xff\x1b[31m", ()))
        assert run("consume", "raw").stdout_bytes == b"\x00\xff\x1b[31m\n"

    def test_after_records_were_deleted(self, run: Run, broker: Broker) -> None:
        run("topic", "create", "trimmed")
        for number in range(4):
            write(broker, "trimmed", (NOON, None, b"%d" % number, ()))
        at = TopicPartition("trimmed", 0)
        with BlockingClient(broker.bootstrap) as client:
            from millpond.client import Admin

            client.run(lambda cluster: Admin(cluster).delete_records({at: 2}))
        assert run("consume", "trimmed", "--from", "0").stdout == "2\n3\n"

    @pytest.mark.parametrize(
        ("arguments", "code", "reason"),
        [
            (["nosuch"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
            (["numbers", "--partition", "9"], 1, "there is no partition 9; the topic has 2"),
            (["numbers", "--from", "soon"], 2, "'soon' is neither"),
            (["numbers", "--max", "0"], 2, "--max"),
            (["numbers", "--from", "0", "--from-beginning"], 2, "give one"),
            (["numbers", "--group", "g", "--from", "0"], 2, "leave out --from and --partition"),
            (
                ["numbers", "--group", "g", "--partition", "0"],
                2,
                "leave out --from and --partition",
            ),
            (["nosuch", "--group", "g"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
            (["numbers", "--print", "nonsense"], 2, "nonsense"),
            (["numbers", "-b", "127.0.0.1:1"], 3, "no broker answers"),
        ],
    )
    def test_what_does_not_work(
        self, run: Run, arguments: list[str], code: int, reason: str
    ) -> None:
        result = run("consume", *arguments)
        assert result.exit_code == code
        assert reason in result.stderr
        assert result.stdout == ""


@pytest.mark.usefixtures("numbers")
class TestConsumeInAGroup:
    def values(self, run: Run, group: str, *options: str, topic: str = "numbers") -> list[int]:
        result = run("consume", topic, "--group", group, *options)
        assert result.exit_code == 0, result.stderr
        return sorted(int(line) for line in result.stdout.splitlines())

    def committed(self, broker: Broker, group: str) -> int:
        with BlockingClient(broker.bootstrap) as client:
            return sum(client.run(lambda cluster: Groups(cluster).offsets(group)).values())

    def test_it_goes_on_where_the_group_is(self, run: Run, broker: Broker) -> None:
        first = self.values(run, "thirds", "--from-beginning", "--max", "3")
        assert (len(first), self.committed(broker, "thirds")) == (3, 3)
        rest = self.values(run, "thirds", "--from-beginning")
        assert sorted(first + rest) == list(range(10))
        assert self.values(run, "thirds", "--from-beginning") == []
        assert self.committed(broker, "thirds") == 10

    def test_a_new_group_begins_at_the_end_and_misses_nothing_from_there_on(
        self, run: Run, broker: Broker
    ) -> None:
        run("topic", "create", "arrivals", "--partitions", "2")
        write(broker, "arrivals", (NOON, None, b"1", ()))
        assert self.values(run, "late", topic="arrivals") == []
        for partition in range(2):
            write(
                broker, "arrivals", (NOON, None, b"%d" % (partition + 2), ()), partition=partition
            )
        assert self.values(run, "late", topic="arrivals") == [2, 3]

    def test_what_retention_has_left_is_read_though_the_group_was_before_it(
        self, run: Run, broker: Broker
    ) -> None:
        run("topic", "create", "kept", "--partitions", "1")
        write(broker, "kept", *((NOON, None, b"%d" % number, ()) for number in range(10)))
        assert self.values(run, "slow", "--from-beginning", "--max", "2", topic="kept") == [0, 1]
        with BlockingAdmin(broker.bootstrap) as admin:
            admin.delete_records({TopicPartition("kept", 0): 5})
        assert self.values(run, "slow", topic="kept") == [5, 6, 7, 8, 9]

    def test_it_waits_for_no_word_about_partitions_without_messages(self) -> None:
        """Another member has the second one, and commits nothing of it."""
        full, empty = TopicPartition("half", 0), TopicPartition("half", 1)

        class Group:
            async def committed(self, *_partitions: object) -> dict[TopicPartition, object]:
                return {full: OffsetAndMetadata(1)}

        group: Any = Group()
        assert asyncio.run(consume._has_read(group, {full: 0, empty: 7}, {full: 1, empty: 7}))
        assert not asyncio.run(consume._has_read(group, {full: 0, empty: 6}, {full: 1, empty: 7}))

    def test_following_ends_when_nothing_comes(self, run: Run) -> None:
        options = ("--from-beginning", "--follow", "--idle", "0.1")
        assert self.values(run, "followers", *options) == list(range(10))

    def test_without_a_group_from_beginning_is_from_the_earliest(self, run: Run) -> None:
        result = run("consume", "numbers", "--follow", "--idle", "0.1", "--from-beginning")
        assert len(result.stdout.splitlines()) == 10

    def test_what_could_not_be_printed_is_not_committed(
        self, run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def nobody_reads(_printer: object) -> None:
            raise MillpondError("the pipe is broken")

        with monkeypatch.context() as broken:
            broken.setattr("millpond.cli.consume._Printer.flush", nobody_reads)
            assert run("consume", "numbers", "--group", "again", "--from-beginning").exit_code == 1
        assert self.committed(broker, "again") == 0
        assert self.values(run, "again", "--from-beginning") == list(range(10))
