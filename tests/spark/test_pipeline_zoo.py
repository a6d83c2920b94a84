"""Bad records never stop a pipeline: a zoo of ugly ones goes through every pipeline, by its command.

Each is either used or a letter with a reason, and a good one among them comes through.
"""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from millpond.cli import cli
from millpond.client.blocking import BlockingClient
from tests.spark.reading import TIME_MS
from tests.support.kafka.committed import read_committed
from tests.support.processes.broker_process import MillpondProcess

INT64_MAX = 2**63 - 1
GOOD = {"id": "1", "user": "ann", "page": "/", "action": "view", "time": "2023-11-14T22:13:20Z"}


def event(**other: Any) -> bytes:
    """The good event with other fields."""
    return json.dumps(GOOD | other).encode()


def animal(
    value: bytes | None,
    *,
    key: bytes | None = b"k",
    ms: int = TIME_MS,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> tuple[Any, ...]:
    return (ms, key, value, headers)


ZOO = {
    "good": animal(event()),
    "empty": animal(b""),
    "null": animal(None),
    "nothing at all": animal(None, key=None),
    "keyless": animal(event(id="2"), key=None),
    "no text": animal(b"\xff\xfe\x00\x80", key=b"\xff\xfe"),
    "zeros": animal(b"\x00" * 1000),
    "a list": animal(b"[1, 2]"),
    "a text": animal(b'"text"'),
    "a number": animal(b"7"),
    "a null": animal(b"null"),
    "half": animal(b'{"id": "3", "user'),
    "doubled field": animal(b'{"id": "4", "id": "5"}'),
    "wrong types": animal(event(id={"a": [1]}, user=[], page=3.5, action=True)),
    "nulls": animal(event(id=None, user=None, page=None, action=None, time=None)),
    "deep": animal(b'{"id":' * 5000 + b"1" + b"}" * 5000),
    "half deep": animal(b"[" * 100_000),
    "no numbers": animal(b'{"id": NaN, "time": Infinity, "level": -Infinity}'),
    "large number": animal(b'{"id": ' + b"9" * 2000 + b', "time": 1e400}'),
    "number as time": animal(event(id="6", time=1e20)),
    "NaN as time": animal(event(id="7", time="NaN")),
    "end of time": animal(event(id="8", time="+294247-01-10T04:00:54.775807Z")),
    "long field": animal(event(id="9", page="/" * 100_000)),
    "huge": animal(event(id="10", page="/" * 1_500_000)),
    "huge key": animal(b"x", key=b"k" * 1_500_000),
    "last timestamp": animal(event(id="11"), ms=INT64_MAX),
    "first timestamp": animal(event(id="12"), ms=-INT64_MAX),
    "before 1970": animal(event(id="13"), ms=-1),
    "strange headers": animal(
        b"x", headers=(("", b""), ("none", None), ("large", b"h" * 1_100_000), ("id", b"\xff"))
    ),
    "forged letter": animal(
        b"x",
        headers=(
            ("__dlq.replays", b"2147483647"),
            ("__dlq.errors.topic", b"no such topic/.."),
            ("__dlq.errors.partition", b"99999999999"),
            ("__dlq.errors.offset", b"-"),
            ("__dlq.errors.timestamp", b"9223372036854775807"),
            ("__dlq.errors.stack", b"Caused by: " + b"a/" * 50_000),
        ),
    ),
    "internal letter": animal(b"x", headers=(("__dlq.errors.topic", b"__consumer_offsets"),)),
}
LARGE = {"max.message.bytes": "3000000", "message.timestamp.after.max.ms": str(INT64_MAX)}

# Those of which a pipeline makes letters, by reason.
NO_JSON = "empty|zeros|half|half deep|strange headers|huge key|forged letter|internal letter"
NO_OBJECT = "a list|a text|a number|a null"
NO_VALUE = "null|nothing at all"
NO_ID = f"{NO_VALUE}|{NO_JSON}|{NO_OBJECT}|no text|deep|doubled field|large number|no numbers|nulls"
LETTERS: dict[str, dict[str, str]] = {
    "lake": {
        "NOT_UTF8": "no text",
        "MALFORMED_JSON": f"{NO_JSON}|deep|doubled field|large number|no numbers",
    },
    "clickstream": {
        "EMPTY": NO_VALUE,
        "NOT_UTF8": "no text",
        "MALFORMED_JSON": f"{NO_JSON}|{NO_OBJECT}|deep|large number",
        "MISSING_FIELD": "doubled field|no numbers|nulls",
        "TOO_LONG": "huge|long field",
        "BAD_TIME": "NaN as time|end of time|first timestamp|last timestamp|number as time",
        "AHEAD": "before 1970",
    },
    "logs": {
        "EMPTY": NO_VALUE,
        "NOT_UTF8": "no text",
        "TOO_LONG": "huge",
        "BAD_TIME": "first timestamp|last timestamp",
        "AHEAD": "before 1970",
    },
    "dedup": {"NO_ID": NO_ID},
    "audit": {"NO_ID": NO_ID},
}


@pytest.fixture(scope="module")
def zoo(client: BlockingClient) -> str:
    """A topic with all of them."""
    client.create_topic("zoo", partitions=1, configs=LARGE)
    for one in ZOO.values():
        client.produce_batch("zoo", 0, [one])
    return "zoo"


def command(broker: MillpondProcess, name: str, *arguments: str) -> Any:
    """What ``millpond pipeline run`` answers."""
    done = CliRunner().invoke(
        cli,
        ["pipeline", "run", name, "--bootstrap", broker.bootstrap, "--json", *arguments],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def letters_of(name: str) -> dict[str, set[str]]:
    return {reason: set(names.split("|")) for reason, names in LETTERS[name].items()}


def left_by(name: str) -> int:
    """How many a pipeline can use."""
    return len(ZOO) - sum(map(len, letters_of(name).values()))


def reasons(broker: MillpondProcess, topic: str) -> dict[str, set[str]]:
    """Which animals are in a topic of letters, by reason."""
    names = list(ZOO)
    found: dict[str, set[str]] = {}
    for letter in read_committed(broker.bootstrap, topic):
        notes = dict(letter.headers())
        assert notes["__dlq.errors.topic"] == b"zoo"
        reason = notes["__dlq.errors.reason"].decode()
        found.setdefault(reason, set()).add(names[int(notes["__dlq.errors.offset"])])
    return found


def run_in_zoo(broker: MillpondProcess, name: str, to: str, *arguments: str) -> Any:
    """What a pipeline says about the zoo, having written the letters that it should."""
    letters = f"zoo-{name}.dlq"
    told = command(
        broker, name, "--batch", "--from", "zoo", "--to", to, "--dead-letters", letters, *arguments
    )
    assert reasons(broker, letters) == letters_of(name)
    return told


@pytest.mark.usefixtures("in_shared_session")
class TestTheZoo:
    """Every pipeline, by its command."""

    def test_in_a_lake_that_duckdb_reads(
        self, broker: MillpondProcess, zoo: str, tmp_path: Path
    ) -> None:
        """The query is that of docs/pipelines/lake.md."""
        lake = tmp_path / "lake"
        told = run_in_zoo(broker, "lake", str(lake), "--value", "json")
        assert sum(row["rows"] for row in told) == left_by("lake")
        (found,) = duckdb.execute(
            f"select topic, count(*) from read_parquet('{lake}/**/*.parquet', hive_partitioning=true)"
            " group by 1"
        ).fetchall()
        assert found == (zoo, left_by("lake"))

    def test_as_clicks(self, broker: MillpondProcess, zoo: str, tmp_path: Path) -> None:
        place = str(tmp_path / "out")
        (step,) = run_in_zoo(broker, "clickstream", place, "--results", f"{zoo}.results")
        assert (step["step"], step["sessions"]) == ("view", 1)
        views = duckdb.execute(f"select sum(views) from '{place}/pages/**/*.parquet'").fetchall()
        assert views == [(left_by("clickstream"),)]

    def test_as_logs(self, broker: MillpondProcess, zoo: str, tmp_path: Path) -> None:
        place = str(tmp_path / "out")
        assert run_in_zoo(broker, "logs", place) == []
        found = duckdb.execute(
            f"select sum(lines), max(length(service)) from '{place}/levels/**/*.parquet'"
        )
        assert found.fetchall() == [(left_by("logs"), 200)]

    def test_without_doubles(
        self, broker: MillpondProcess, client: BlockingClient, zoo: str
    ) -> None:
        client.create_topic(f"{zoo}.clean", partitions=1, configs=LARGE)
        (told,) = run_in_zoo(broker, "dedup", f"{zoo}.clean")
        assert (told["records"], told["kept"]) == (len(ZOO), left_by("dedup"))

    def test_against_a_record_of_what_was_sent(
        self, broker: MillpondProcess, zoo: str, tmp_path: Path
    ) -> None:
        sends = tmp_path / "sends.jsonl"
        sends.write_text(
            '{"key": "k", "id": 1}\n{"key": "k", "id": "gone"}\n{"key": "k"}\nno json\n'
        )
        told = run_in_zoo(broker, "audit", "", "--sends-files", str(sends))
        of_k = next(row for row in told if row.get("key") == "k")
        assert (of_k["sent"], of_k["lost"], of_k["unknown"]) == (3, 1, left_by("audit") - 2)
        assert sum(row["without_id"] for row in told) == len(ZOO) - left_by("audit") + 2

    def test_as_letters_that_go_back_if_they_can(
        self, broker: MillpondProcess, client: BlockingClient, zoo: str, tmp_path: Path
    ) -> None:
        client.produce_batch(
            zoo, 0, [animal(b"back", headers=(("__dlq.errors.topic", b"zoo.back"),))]
        )
        told = command(
            broker,
            "dlq",
            *("--batch", "--from", zoo, "--action", "replay", "--checkpoint", str(tmp_path)),
        )
        assert sum(row["letters"] for row in told) == len(ZOO) + 1
        (back,) = read_committed(broker.bootstrap, "zoo.back")
        assert back.value() == b"back"

    def test_banked_replayed_and_spread(
        self, broker: MillpondProcess, client: BlockingClient, zoo: str, tmp_path: Path
    ) -> None:
        bank = str(tmp_path / "bank")
        (told,) = command(broker, "bank", "--batch", "--from", zoo, "--to", bank)
        held = told["records"]
        assert held >= len(ZOO)
        for name in ("again", "timed", "spread"):
            client.create_topic(f"{zoo}.{name}", partitions=2, configs=LARGE)
        (told,) = command(broker, "replay", "--batch", "--bank", bank, "--to", f"{zoo}.again")
        assert told["records"] == held == len(read_committed(broker.bootstrap, f"{zoo}.again"))
        command(
            *(broker, "replay", "--bank", bank, "--to", f"{zoo}.timed"),
            *("--speed", "1000", "--slice-s", "0.2", "--idle-max-s", "0.2"),
            *("--checkpoint", str(tmp_path / "checkpoint")),
        )
        assert len(read_committed(broker.bootstrap, f"{zoo}.timed")) == held
        spread = ("--to", f"{zoo}.spread", "--partitions", "2")
        told = command(broker, "redistribute", "--batch", "--from", zoo, *spread)
        assert sum(row["records"] for row in told) == held
