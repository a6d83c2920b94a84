"""One broker in this process for the commands that talk to one."""

from collections.abc import Callable, Generator

import pytest
from click.testing import CliRunner, Result

from millpond import Broker
from millpond.cli import cli

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def broker() -> Generator[Broker, None, None]:
    with Broker() as running:
        yield running


@pytest.fixture
def run(broker: Broker) -> Run:
    """``run("topic", "list")`` against the broker; standard input and output are pipes."""

    def run_command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        environment = {"MILLPOND_BOOTSTRAP": broker.bootstrap}
        result = CliRunner().invoke(cli, list(arguments), input=stdin, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run_command
