"""The command itself: quick to say what it can do, helpful when asked wrongly."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from millpond import __version__
from millpond.cli import GROUPS, cli
from millpond.server.protocols import protocols

# What means the same wherever it is an option.
_SHARED = {"--json", "--timeout", "--management", "--password", "--vhost", "--yes"}


def test_help_lists_the_commands_and_imports_none_of_them() -> None:
    code = (
        "import sys\n"
        "from millpond.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = [m for m in sys.modules if m.startswith(('millpond.', 'asyncio', 'rich'))]\n"
        "assert sorted(m for m in heavy if not m.startswith('millpond.cli')) == [], heavy\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )

    assert done.returncode == 0, done.stderr
    for name in ("up", "doctor", "kafka", "amqp", "log", "config"):
        assert f"  {name} " in done.stdout
    assert "  topic, produce, consume, group, timer\n" in done.stdout
    assert "  queue, exchange, binding, policy, vhost, user, definitions\n" in done.stdout


def test_version() -> None:
    assert CliRunner().invoke(cli, ["--version"]).stdout.strip().endswith(__version__)


def test_a_misspelt_command_brings_the_nearest() -> None:
    result = CliRunner().invoke(cli, ["topics"])

    assert result.exit_code == 2
    assert "Did you mean 'topic'?" in result.stderr


def test_up_explains_itself() -> None:
    result = CliRunner().invoke(cli, ["up", "--help"])

    assert result.exit_code == 0
    for option in ("--listen", "--data", "--set", "--config", "--log-format"):
        assert option in result.stdout


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it; pipelines are left out, since they need Spark to say their options."""
    yield path, command
    if isinstance(command, click.Group) and path != "millpond pipeline run":
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, f"{path} {name}")


def test_every_help_page_is_whole_and_fits_a_terminal() -> None:
    too_long, cut_short = {}, {}
    for path, command in _commands(cli, "millpond"):
        for line in _help(command, path).splitlines():
            if len(line) > 80:
                too_long[path] = line
            if line.endswith("...") and not line.startswith("Usage:"):
                cut_short[path] = line

    assert too_long == {}
    assert cut_short == {}


def test_every_help_page_fits_a_screen() -> None:
    lines = {
        path: _help(command, path).count("\n") + 1 for path, command in _commands(cli, "millpond")
    }
    assert {path: count for path, count in lines.items() if count > 25} == {}
    assert {"millpond", "millpond kafka", "millpond amqp queue list"} <= set(lines)


def test_groups_have_the_names_of_protocols() -> None:
    assert set(GROUPS) <= {protocol.name for protocol in protocols()}


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, rows in GROUPS.items() for name in rows]
)
def test_commands_are_found_with_their_group_and_without_it(group: str, name: str) -> None:
    context = click.Context(cli)
    within = cli.get_command(context, group)
    assert isinstance(within, click.Group)
    assert within.get_command(context, name) is cli.get_command(context, name)
    for words in ([group, name], [name]):
        result = CliRunner().invoke(cli, [*words, "--help"], prog_name="millpond")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: millpond {' '.join(words)} ")


def test_a_misspelt_command_of_a_group_brings_the_nearest() -> None:
    result = CliRunner().invoke(cli, ["amqp", "queues"])

    assert result.exit_code == 2
    assert "Did you mean 'queue'?" in result.stderr


def _help(command: click.Command, path: str) -> str:
    context = click.Context(command, info_name=path, terminal_width=80, max_content_width=80)
    return command.get_help(context)


def test_options_of_one_name_say_the_same_everywhere() -> None:
    told: dict[str, set[str | None]] = {}
    for _, command in _commands(cli, "millpond"):
        for option in command.params:
            if isinstance(option, click.Option) and option.opts[0] in _SHARED:
                told.setdefault(option.opts[0], set()).add(option.help)

    assert set(told) == _SHARED
    assert {name: texts for name, texts in told.items() if len(texts) != 1} == {}


def test_up_takes_one_file_only() -> None:
    result = CliRunner().invoke(cli, ["up", "a.toml", "--config", "b.toml"])

    assert result.exit_code == 2
    assert "give one" in result.stderr


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
