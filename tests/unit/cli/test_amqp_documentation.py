"""docs/amqp.md: its commands run, its example routes, and its tables leave nothing out."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millpond import Broker
from millpond.cli import cli
from millpond.rabbit.arguments import COMPARED
from millpond.rabbit.exchange_types import EXCHANGE_TYPES, Routed
from millpond.rabbit.records import Binding
from millpond.wire.amqp import methods
from tests.unit.cli.test_amqp_commands import LISTENERS

PAGE = Path(__file__).parents[3] / "docs" / "amqp.md"


def run_example(word: str, changed: Callable[[str], str] = str) -> dict[str, Any]:
    """Run the one example that has a word in it; what it defines."""
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (example,) = (text for text in examples if word in text)
    names: dict[str, Any] = {}
    exec(compile(changed(example), "docs/amqp.md", "exec"), names)
    return names


def test_its_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text().replace("\\\n", " "), re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    commands = [words[1:] for words in lines if words[:1] == ["millpond"] and words[1] != "up"]
    assert len(commands) >= 15
    with Broker(listeners=LISTENERS) as broker:
        environment = {"MILLPOND_MANAGEMENT": broker.management[0]}
        for command in commands:
            result = CliRunner().invoke(cli, command, env=environment)
            assert result.exit_code == 0, (command, result.output)


def test_its_login_by_token_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jwt")
    pytest.importorskip("pika")
    monkeypatch.chdir(tmp_path)
    (begin,) = re.findall(r"^openssl .*", PAGE.read_text(), re.MULTILINE)
    subprocess.run(begin, shell=True, check=True, capture_output=True)
    (command,) = re.findall(r"^millpond up .*\\\n.*", PAGE.read_text(), re.MULTILINE)
    words = shlex.split(command)
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    with Broker(listeners=LISTENERS, settings=settings) as broker:
        host, port = broker.amqp[0].split(":")

        def elsewhere(example: str) -> str:
            assert example.count(f'("{host}", ') == 1
            return example.replace(f'("{host}", ', f'("{host}", {port}, ')

        connection = run_example("update_secret", elsewhere)["connection"]
        assert connection.is_open
        connection.close()
        listed = CliRunner().invoke(
            cli, ["queue", "list"], env={"MILLPOND_MANAGEMENT": broker.management[0]}
        )
    assert "letters" in listed.output


def test_its_exchange_type_routes() -> None:
    names = run_example("class Divided")
    table = names["Divided"]().make_table({})
    for divisor in ("2", "3"):
        table.add(Binding(vhost="/", source="x", destination=f"by-{divisor}", routing_key=divisor))
    ways = {
        number: [target.name for target in table.match(Routed(("",), {"number": number}))]
        for number in (4, 6, 7)
    }
    assert ways == {4: ["by-2"], 6: ["by-2", "by-3"], 7: []}


def test_every_argument_type_and_class_is_named() -> None:
    text = PAGE.read_text()
    named = set(re.findall(r"`(x-[a-z-]+)`", text))
    # One that stands for a topic of Kafka's is told of in docs/envelope.md.
    assert {name for name in COMPARED if name.startswith("x-")} - named <= {"x-millpond-topic"}
    assert all(f"`{name}`" in text for name in EXCHANGE_TYPES.names)
    said = [
        value.name
        for value in vars(methods).values()
        if isinstance(value, type)
        and issubclass(value, methods.Method)
        and value is not methods.Method
    ]
    rows = dict(re.findall(r"^\| ([a-z, ]+) \| (.*) \|$", text, re.MULTILINE))
    table = {kind: row for kinds, row in rows.items() for kind in kinds.split(", ")}
    for method in said:
        kind, _dot, verb = method.partition(".")
        verb = verb.removesuffix("_ok").removesuffix("_empty").replace("_", "-")
        assert verb in table[kind], method
