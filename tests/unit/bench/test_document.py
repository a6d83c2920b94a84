"""Which runs may write docs/benchmarks.md: those that measured everything, beside the peer."""

import argparse
from pathlib import Path

import pytest
from bench import amqp, cluster
from bench.__main__ import _options
from bench.run import REPOSITORY, document_of

TABLES = REPOSITORY / "docs" / "benchmarks.md"
PARTIAL = [["--quick"], ["--only", "round-trip"], ["--no-kafka"], ["--no-millpond"]]


def options_of(
    suite: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> argparse.Namespace:
    match suite:
        case "amqp":
            return amqp._options(arguments)
        case "cluster":
            return cluster._options(arguments)
        case _:
            monkeypatch.setattr("sys.argv", ["bench", suite, *arguments])
            return _options()


@pytest.mark.parametrize("suite", ["all", "groups", "amqp", "cluster"])
def test_a_whole_run_writes_the_tables(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert document_of(options_of(suite, [], monkeypatch)) == TABLES


@pytest.mark.parametrize(
    ("suite", "arguments"),
    [
        *((suite, arguments) for suite in ("all", "groups") for arguments in PARTIAL),
        *(("amqp", arguments) for arguments in (["--quick"], ["--only", "x"], ["--no-rabbitmq"])),
        *(("cluster", arguments) for arguments in (["--quick"], ["--no-kafka"])),
    ],
)
def test_a_part_leaves_them_alone_unless_a_document_is_named(
    suite: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert document_of(options_of(suite, arguments, monkeypatch)) is None
    named = [*arguments, "--document", "here.md"]
    assert document_of(options_of(suite, named, monkeypatch)) == Path("here.md")
