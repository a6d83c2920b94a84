"""The command itself: quick to say what it can do, helpful when asked wrongly."""

import subprocess
import sys

from click.testing import CliRunner

from millpond import __version__
from millpond.cli import cli


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


def test_up_takes_one_file_only() -> None:
    result = CliRunner().invoke(cli, ["up", "a.toml", "--config", "b.toml"])

    assert result.exit_code == 2
    assert "give one" in result.stderr


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
