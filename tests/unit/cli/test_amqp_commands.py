"""The commands that administer AMQP, against a broker in this process."""

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millpond import Broker
from millpond.cli import cli
from millpond.cli.output import Exit
from tests.support.processes.ports import free_port

Run = Callable[..., Result]
LISTENERS = "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0,MANAGEMENT://127.0.0.1:0"


@pytest.fixture(scope="module")
def broker() -> Generator[Broker, None, None]:
    with Broker(listeners=LISTENERS) as running:
        yield running


def invoke(management: str, *arguments: str, stdin: str | bytes | None = None) -> Result:
    environment = {"MILLPOND_MANAGEMENT": management}
    result = CliRunner().invoke(cli, list(arguments), input=stdin, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def run(broker: Broker) -> Run:
    def run_command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return invoke(broker.management[0], *arguments, stdin=stdin)

    return run_command


@pytest.fixture
def done(run: Run) -> Callable[..., str]:
    """What a command prints that must work."""

    def run_command(*arguments: str, stdin: str | bytes | None = None) -> str:
        result = run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run_command


def rows(table: str) -> dict[str, list[str]]:
    """A table in a pipe, by what stands in its first column."""
    return {line.split("\t")[0]: line.split("\t")[1:] for line in table.splitlines()[1:]}


Done = Callable[..., str]


def test_a_queue_from_its_declaration_to_its_end(done: Done) -> None:
    done("queue", "declare", "work", "-a", "x-max-length=10", "--type", "quorum")
    done("queue", "publish", "work", "hello", "-H", "n=7", "-p", "content_type=text/plain")
    done("queue", "publish", "work", stdin=b"\x00\xff")
    listed = rows(done("queue", "list"))["work"]
    assert listed[:5] == ["quorum", "2", "0", "0", "0"]
    assert json.loads(listed[6]) == {"x-max-length": 10, "x-queue-type": "quorum"}
    (first,) = json.loads(done("queue", "get", "work", "--json"))
    assert (first["payload"], first["properties"]["headers"]["n"]) == ("hello", 7)
    assert (
        done("queue", "get", "work", "-n", "9", "--take")
        .encode("utf-8", "surrogateescape")
        .startswith(b"hello\n")
    )
    assert rows(done("queue", "list"))["work"][1] == "0"
    done("queue", "publish", "work", "again")
    done("queue", "purge", "work")
    done("queue", "delete", "work", "--if-empty", "--if-unused")
    assert "work" not in rows(done("queue", "list"))


def test_exchanges_and_bindings(done: Done, run: Run) -> None:
    done("exchange", "declare", "events", "topic")
    done("exchange", "declare", "inner", "fanout", "--internal")
    done("queue", "declare", "bound")
    done("binding", "add", "events", "bound", "--key", "a.#")
    done("binding", "add", "events", "bound", "--key", "b", "-a", "reason=test")
    done("binding", "add", "events", "inner", "--to-exchange", "--key", "c")
    assert rows(done("exchange", "list"))["inner"][:4] == ["fanout", "yes", "no", "yes"]
    found = json.loads(done("binding", "list", "--json"))
    assert {(one["destination"], one["routing_key"]) for one in found} == {
        ("bound", "a.#"),
        ("bound", "b"),
        ("inner", "c"),
    }
    done("queue", "publish", "a.b", "one", "--exchange", "events")
    assert done("queue", "get", "bound", "--take") == "one\n"
    wrong = run("binding", "remove", "events", "bound", "--key", "b")
    assert wrong.exit_code == 1
    assert "keys that it is bound with: 'a.#', 'b'" in wrong.stderr
    done("binding", "remove", "events", "bound", "--key", "b", "-a", "reason=test")
    nowhere = run("queue", "publish", "b", "lost", "--exchange", "events")
    assert (nowhere.exit_code, "no binding that takes it with the key b" in nowhere.stderr) == (
        1,
        True,
    )
    done("exchange", "delete", "events", "inner")
    assert json.loads(done("binding", "list", "--json")) == []


def test_a_policy_changes_a_queue_at_once(done: Done, run: Run) -> None:
    done("queue", "declare", "long")
    for number in range(5):
        done("queue", "publish", "long", str(number))
    done("policy", "set", "short", "^long$", "max-length=2", "--apply-to", "queues")
    assert rows(done("policy", "list"))["short"][:3] == ["^long$", "queues", "0"]
    listed = rows(done("queue", "list"))["long"]
    assert (listed[1], listed[5]) == ("2", "short")
    assert done("queue", "get", "long", "-n", "5") == "3\n4\n"
    wrong = run("policy", "set", "bad", "^long$", "max-lenght=2")
    assert (wrong.exit_code, wrong.stderr) == (
        1,
        "error: 'max-lenght' is not a recognised policy setting\n",
    )
    done("policy", "delete", "short")
    assert run("policy", "delete", "short").exit_code == 1


def test_users_and_what_they_may_do(done: Done, run: Run) -> None:
    done("vhost", "add", "shop", "--description", "orders")
    done("user", "add", "ann", "--new-password", "one", "--tag", "management")
    assert run("user", "add", "ann", "--new-password", "x").exit_code == 1
    me = ("--user", "ann", "--password", "one", "--vhost", "shop")
    done("user", "tags", "ann")
    assert "millpond amqp user tags ann management" in run("queue", "list", *me).stderr
    done("user", "tags", "ann", "management")
    assert "not authorised to access virtual host" in run("queue", "list", *me).stderr
    done("user", "permit", "ann", "--vhost", "shop", "--configure", "^mine")
    done("queue", "declare", "mine.1", *me)
    assert "Access refused" in run("queue", "declare", "yours", *me).stderr
    done("user", "passwd", "ann", stdin="two\ntwo\n")
    stale = run("queue", "list", *me)
    assert (stale.exit_code, "user ann cannot log in" in stale.stderr) == (1, True)
    done("user", "tags", "ann", "monitoring")
    ann = next(one for one in json.loads(done("user", "list", "--json")) if one["name"] == "ann")
    assert ann["tags"] == ["monitoring"]
    assert ann["permissions"][0]["configure"] == "^mine"
    done("queue", "list", "--user", "ann", "--password", "two", "--vhost", "shop")
    done("user", "permit", "ann", "--vhost", "shop", "--none")
    assert "no user bob" in run("user", "permit", "bob").stderr
    done("user", "delete", "ann")
    done("vhost", "delete", "shop")
    assert "shop" not in rows(done("vhost", "list"))


def test_definitions_go_out_and_come_in(done: Done, run: Run, tmp_path: Path) -> None:
    done("queue", "declare", "kept", "-a", "x-expires=60000")
    file = tmp_path / "definitions.json"
    assert " queue" in done("definitions", "export", str(file))
    assert "kept" in {one["name"] for one in json.loads(file.read_text())["queues"]}
    done("queue", "delete", "kept")
    done("definitions", "import", str(file))
    assert "kept" in rows(done("queue", "list"))
    done("queue", "delete", "kept")
    alone = done("definitions", "export", "--only-vhost")
    assert "users" not in json.loads(alone)
    done("definitions", "import", "-", "--only-vhost", stdin=file.read_text())
    file.write_text("{bad")
    assert "not JSON" in run("definitions", "import", str(file)).stderr
    assert "No such file" in run("definitions", "import", str(tmp_path / "none")).stderr


def test_a_name_that_is_not_there_brings_the_nearest(done: Done, run: Run) -> None:
    done("queue", "declare", "orders")
    wrong = run("queue", "delete", "ordres", "orders")
    assert wrong.exit_code == 1
    assert wrong.stderr == (
        "error: there is no queue ordres in virtual host /. Did you mean orders?\n"
    )
    assert "orders: deleted" in wrong.stdout
    assert "there is no queue nothing" in run("queue", "get", "nothing").stderr
    empty = run("queue", "declare", "", "orders")
    assert empty.stderr == "error: a queue has a name; an empty one was given\n"
    assert (empty.exit_code, empty.stdout) == (1, "orders: declared (topic orders)\n")
    done("queue", "delete", "orders")


def test_a_virtual_host_that_is_not_there(done: Done, run: Run) -> None:
    done("vhost", "add", "shop")
    said = "error: there is no virtual host shpo. Did you mean shop?\n"
    for command in (
        ("queue", "list"),
        ("queue", "declare", "x"),
        ("queue", "delete", "x"),
        ("exchange", "declare", "x", "topic"),
        ("policy", "set", "x", ".*", "max-length=1"),
    ):
        wrong = run(*command, "--vhost", "shpo")
        assert (wrong.exit_code, wrong.stderr) == (1, said), command
    assert run("vhost", "delete", "shpo").stderr == said
    done("vhost", "delete", "shop")


def test_what_a_new_queue_needs_is_what_is_missing(run: Run) -> None:
    wrong = run("queue", "declare", "s", "--type", "stream", "-a", "x-millpond-topic=nothing")
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("error: s: ")
    assert "no queue s" not in wrong.stderr
    assert "nothing" in wrong.stderr


def test_a_mistyped_argument_is_pointed_at(done: Done, run: Run) -> None:
    odd = run("queue", "declare", "odd", "-a", "x-max-lenght=3", "-a", "x-of-our-own=1")
    assert odd.exit_code == 0
    assert (
        odd.stderr
        == "x-max-lenght has no effect: it is no argument of queues. Did you mean x-max-length?\n"
    )
    done("queue", "delete", "odd")


def test_people_read_arguments_as_they_are_written(
    done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("-a", "x-max-length=100000", "-a", "x-overflow=reject-publish")
    done("queue", "declare", "work", "--type", "quorum", *arguments)
    for module in ("management", "output", "queue"):
        monkeypatch.setattr(f"millpond.cli.{module}.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    shown = done("queue", "list")
    assert "\n  work: x-max-length=100000, x-overflow=reject-publish\n" in shown
    done("queue", "delete", "work")


def test_nobody_answers(broker: Broker) -> None:
    port = free_port()
    result = invoke(f"127.0.0.1:{port}", "queue", "list")
    assert result.exit_code == 3
    assert "Start the broker with `millpond up --amqp`" in result.stderr
    # Kafka's port is somebody, but not the right one.
    other = invoke(broker.bootstrap, "queue", "list", "--timeout", "2")
    assert other.exit_code == 3
    amqp = invoke(broker.amqp[0], "queue", "list", "--timeout", "2")
    assert amqp.exit_code == 3
    assert "is for AMQP; the management API has a port of its own" in amqp.stderr
    assert invoke("ftp://x", "queue", "list").exit_code == 2


def test_a_declared_queue_says_which_topic_holds_its_messages(
    broker: Broker, done: Done, run: Run
) -> None:
    assert done("queue", "declare", "fresh") == "fresh: declared (topic fresh)\n"
    assert done("topic", "create", "taken", "--bootstrap", broker.bootstrap)
    result = run("queue", "declare", "taken")
    assert result.exit_code == 0
    assert result.stdout == "taken: declared (topic amqp---2f--taken)\n"
    assert "apart from those of topic taken" in result.stderr
    assert "x-millpond-topic=TOPIC" in result.stderr
    listed = rows(done("queue", "list"))
    assert listed["fresh"][7] == "fresh"
    assert listed["taken"][7] == "amqp---2f--taken"
    shown = json.loads(done("queue", "list", "--json"))
    assert {row["name"]: row["topic"] for row in shown}["taken"] == "amqp---2f--taken"


def test_publishers_that_an_alarm_blocks_are_told_so() -> None:
    full = {"disk_free_limit.absolute": "900000TB"}
    with Broker(listeners=LISTENERS, settings=full) as low:
        result = invoke(low.management[0], "queue", "publish", "work", "x", "--timeout", "1")
        assert result.exit_code == Exit.NO_BROKER
        assert "did not answer within 1 s" in result.stderr
        assert "publishers are blocked: low on disk space on millpond@1" in result.stderr
        assert "millpond up --amqp" not in result.stderr
