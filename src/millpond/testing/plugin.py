"""The pytest plugin. Loaded by every pytest run where Millpond is installed, so it imports pytest and nothing
else until a fixture is used.

``millpond``            a broker of the test's own, empty, stopped at its end.
``millpond_session``    one broker for all tests that ask for it; they share its topics. Fastest.
``millpond_factory``    call it for brokers with other settings; all are stopped at the test's end.
``millpond_cluster``    three nodes, each a process of its own, for all tests of the run that ask for it.

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
    """Settings for every broker of the run."""
    parser.addini(
        "millpond_settings",
        "Settings of every broker that the millpond fixtures start: lines of name=value.",
        type="linelist",
        default=[],
    )


class _AsWritten:
    """Finds Millpond's modules before pytest does.

    pytest rewrites the asserts of every distribution that brings a plugin: those of a whole broker here, in
    seconds, in each run that finds no bytecode (CI).
    """

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of Millpond's is; nothing of others."""
        return PathFinder.find_spec(name, path, target) if name.startswith("millpond.") else None


def pytest_load_initial_conftests() -> None:
    """Before anything of the user's imports Millpond."""
    if _AsWritten not in sys.meta_path:
        sys.meta_path.insert(0, _AsWritten)


def pytest_unconfigure() -> None:
    """Leave imports as they were."""
    if _AsWritten in sys.meta_path:
        sys.meta_path.remove(_AsWritten)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "millpond(**settings): settings of the broker that the `millpond` fixture starts, by Kafka's names "
        "with underscores for dots, or as a mapping with dots.",
    )


@pytest.fixture
def millpond(request: pytest.FixtureRequest, millpond_factory: "Callable[..., Broker]") -> "Broker":
    """A fresh broker for this test; ``millpond.bootstrap`` is where to connect."""
    settings: dict[str, object] = {}
    # The nearest marker wins, so the farthest is laid down first.
    for marker in reversed(list(request.node.iter_markers("millpond"))):
        for mapping in marker.args:
            settings.update(mapping)
        settings.update({name.replace("_", "."): value for name, value in marker.kwargs.items()})
    return millpond_factory(settings=settings)


@pytest.fixture(scope="session")
def millpond_session(pytestconfig: pytest.Config) -> "Generator[Broker]":
    """One broker for the whole run. Tests share its topics: give them names of their own."""
    from millpond.server.embedded import Broker

    with Broker(settings=_ini_settings(pytestconfig)) as broker:
        yield broker


@pytest.fixture(scope="session")
def millpond_cluster(pytestconfig: pytest.Config) -> "Generator[LocalCluster]":
    """Three nodes for the whole run; ``millpond_cluster.bootstrap`` names them all."""
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
