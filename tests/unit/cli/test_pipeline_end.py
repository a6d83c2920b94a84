"""How `millpond pipeline run` begins and ends, with a Spark that is made up."""

import os
import signal
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")

from py4j.protocol import Py4JNetworkError

from millpond.cli import cli
from millpond.spark.pipelines import running
from millpond.spark.session import build_session
from tests.support.processes.ports import free_port

SESSION = f"{build_session.__module__}.{build_session.__name__}"
LAKE = ("pipeline", "run", "lake", "--from", "clicks", "--to", "lake")


class NoJava:
    """A session, and a pipeline, whose Java has ended."""

    def stop(self) -> None:
        raise Py4JNetworkError("Java is gone")


class Told(NoJava):
    """A pipeline that is told to end while it is waited for."""

    def __init__(self, number: int) -> None:
        self._number = number

    def wait(self, _seconds: float) -> bool:
        os.kill(os.getpid(), self._number)
        return False

    def stats(self) -> list[object]:
        return []


def test_java_that_was_told_to_end_too_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SESSION, lambda *_, **__: NoJava())
    monkeypatch.setattr(running, "start", lambda *_: Told(signal.SIGTERM))

    ended = CliRunner().invoke(
        cli, [*LAKE, "--checkpoint", "state", "-b", f"127.0.0.1:{free_port()}"]
    )

    assert (ended.exit_code, ended.exception) == (0, None)
    assert "done again from the checkpoint" in ended.stderr
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "others hear it again"


def test_a_broker_that_is_away_is_named_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_spark(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(SESSION, no_spark)
    port = free_port()

    ended = CliRunner().invoke(cli, [*LAKE, "--checkpoint", "state", "-b", f"127.0.0.1:{port}"])

    told = ended.stderr.index(f"no broker answers at 127.0.0.1:{port}")
    assert told < ended.stderr.index("Starting Spark")


def test_a_stream_without_a_checkpoint_does_not_start_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SESSION, None)

    refused = CliRunner().invoke(cli, list(LAKE))

    assert refused.exit_code == 1
    assert refused.stderr.endswith("give --checkpoint DIRECTORY\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("clickstream",), "give --to\n"),
        (("dlq", "--action", "report"), "give --to\n"),
        (("dlq", "--action", "replay"), "Starting Spark"),
    ],
)
def test_a_stream_that_would_write_nowhere_does_not_start_spark(
    arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(SESSION, no_spark)
    name, *more = arguments
    given = ["--from", "clicks", "--checkpoint", "state", "-b", f"127.0.0.1:{free_port()}"]

    ended = CliRunner().invoke(cli, ["pipeline", "run", name, *given, *more])

    assert words in ended.stderr
    assert ("Starting Spark" in ended.stderr) == (words == "Starting Spark")


def test_a_pipeline_that_is_not_there_is_told_from_one_that_is() -> None:
    for name, words in (("lakes", "Did you mean 'lake'?"), ("nonsense", "pipeline list")):
        refused = CliRunner().invoke(cli, ["pipeline", "run", name])
        assert refused.exit_code == 2
        assert words in refused.stderr
