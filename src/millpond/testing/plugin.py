"""The pytest plugin. Loaded by every pytest run where Millpond is installed, so it imports only pytest until
a fixture is used.

  ``millpond``            a new broker for the test, stopped at its end.
  ``millpond_session``    one broker for all tests that use it; they share its topics. Fastest.
  ``millpond_factory``    starts brokers with other settings; all are stopped at the test's end.
  ``millpond_cluster``    three nodes, each its own process, for all tests of the run that use it.

Settings: ``@pytest.mark.millpond(num_partitions=3)`` for the ``millpond`` of one test, class or module, and
the ini option ``millpond_settings`` (lines of ``name=value``) for all of them.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from millpond.server.embedded import Broker
    from millpond.testing.cluster import LocalCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for settings of every broker of the run."""
    parser.addini(
        "millpond_settings",
        "Settings of every broker that the millpond fixtures start: lines of name=value.",
        type="linelist",
        default=[],
    )


class _AsWritten:
    """Finds Millpond's modules before pytest does.

    pytest rewrites the asserts of every distribution that has a plugin: here those of a whole broker, which
    takes seconds in each run that finds no bytecode (CI).
    """

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the location of a module of Millpond; None for others."""
        return PathFinder.find_spec(name, path, target) if name.startswith("millpond.") else None


def pytest_load_initial_conftests() -> None:
    """Install the finder before the user's tests import Millpond."""
    if _AsWritten not in sys.meta_path:
        sys.meta_path.insert(0, _AsWritten)


def pytest_unconfigure() -> None:
    """Restore the imports."""
    if _AsWritten in sys.meta_path:
        sys.meta_path.remove(_AsWritten)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "millpond(**settings): settings of the broker that the `millpond` fixture starts, by Kafka's names "
        "with underscores for dots, or as a mapping with dots.",
    )


@pytest.fixture
def millpond(request: pytest.FixtureRequest, millpond_factory: "Callable[..., Broker]") -> "Broker":
    """Start a new broker for this test; clients connect to ``millpond.bootstrap``."""
    settings: dict[str, object] = {}
    # The nearest marker wins, so the farthest is applied first.
    for marker in reversed(list(request.node.iter_markers("millpond"))):
        for mapping in marker.args:
            settings.update(mapping)
        settings.update({name.replace("_", "."): value for name, value in marker.kwargs.items()})
    return millpond_factory(settings=settings)


@pytest.fixture(scope="session")
def millpond_session(pytestconfig: pytest.Config) -> "Generator[Broker]":
    """Start one broker for the whole run. Tests share its topics: use distinct names."""
    from millpond.server.embedded import Broker

    with Broker(settings=_ini_settings(pytestconfig)) as broker:
        yield broker


@pytest.fixture(scope="session")
def millpond_cluster(pytestconfig: pytest.Config) -> "Generator[LocalCluster]":
    """Start three nodes for the whole run; ``millpond_cluster.bootstrap`` has the addresses of all."""
    from millpond.testing.cluster import LocalCluster

    settings = {"group.initial.rebalance.delay.ms": 0, **_ini_settings(pytestconfig)}
    with LocalCluster(settings=settings) as cluster:
        yield cluster


@pytest.fixture
def millpond_factory(pytestconfig: pytest.Config) -> "Generator[Callable[..., Broker]]":
    """Start brokers with the arguments of ``millpond.Broker``; all are stopped at the end of the test."""
    from contextlib import ExitStack

    from millpond.server.embedded import Broker

    with ExitStack() as brokers:

        def start(*, settings: dict[str, object] | None = None, **arguments: object) -> Broker:
            chosen = {**_ini_settings(pytestconfig), **(settings or {})}
            return brokers.enter_context(Broker(settings=chosen, **arguments))  # type: ignore[arg-type]

        yield start


def _ini_settings(config: pytest.Config) -> dict[str, object]:
    lines: list[str] = config.getini("millpond_settings")
    settings: dict[str, object] = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"millpond_settings: {line!r} must be name=value")
        settings[name.strip()] = value.strip()
    return settings
