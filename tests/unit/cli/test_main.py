"""The command itself: quick to say what it can do, helpful when asked wrongly."""

import subprocess
import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from millpond import __version__
from millpond.cli import cli

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
    for name in ("up", "doctor", "topic", "produce", "consume", "log", "config"):
        assert f"  {name} " in done.stdout


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
        context = click.Context(command, info_name=path, terminal_width=80, max_content_width=80)
        for line in command.get_help(context).splitlines():
            if len(line) > 80:
                too_long[path] = line
            if line.endswith("...") and not line.startswith("Usage:"):
                cut_short[path] = line

    assert too_long == {}
    assert cut_short == {}


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
