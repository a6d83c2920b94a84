"""What all Spark tests share: one session, one broker process, and names of their own.

The whole folder is skipped, with the reason, where PySpark or Java is missing; in CI that is a failure (see
``tests/conftest.py``). So test modules import PySpark inside functions, not at their top.
"""

import importlib.util
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond.client import BlockingClient
from millpond.spark.errors import NoJava
from millpond.spark.java import find_java
from tests.support.processes import java_tools
from tests.support.processes.broker_process import MillpondProcess

HERE = Path(__file__).parent

# Starting a JVM on a machine that is busy with other tests takes its time.
_SECONDS_MAX = 400

# Pipelines are made of Spark's functions, so their tests import it at their top.
collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ["test_pipeline_*.py"]

# A life of a few minutes is too short for the optimising compiler, and data this small for its fruits.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

CONNECTOR = HERE / "connector" / "pom.xml"

_numbers = itertools.count(1)


def connector_jars() -> list[str]:
    """The official connector and its companions, if ``make interop-deps`` has brought them."""
    found = sorted(map(str, java_tools.jars(CONNECTOR, "spark-connector").glob("*.jar")))
    return found if len(found) == 4 else []


def missing_reason() -> str | None:
    """Why Spark tests cannot run here."""
    for module in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: pip install '.[spark]' in a clone"
    try:
        find_java()
    except NoJava as error:
        return str(error)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a Spark test."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(_SECONDS_MAX))
            # PySpark leaves sockets to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


@pytest.fixture(autouse=True, scope="session")
def _needs_spark() -> None:
    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def spark(_needs_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one session. Tests must not stop it, and give their queries and views names of their own."""
    from millpond.spark.session import build_session

    directory = tmp_path_factory.mktemp("spark")
    session = build_session(
        "millpond tests",
        "local[2]",
        **{
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
            **({"spark.jars": jars} if (jars := ",".join(connector_jars())) else {}),
        },
    )
    yield session
    session.stop()


@pytest.fixture
def in_shared_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that make a session of their own get the one that is there, and cannot stop it."""
    monkeypatch.setattr("millpond.spark.session.build_session", lambda *_, **__: Unstoppable(spark))


class Unstoppable:
    """A session that is not its user's to stop."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        """The other tests need it."""


@pytest.fixture(scope="session")
def broker(
    _needs_spark: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MillpondProcess]:
    """A broker for all tests that leave it running. It keeps records, however long ago they say they are."""
    with MillpondProcess(
        tmp_path_factory.mktemp("broker"),
        properties={"group.initial.rebalance.delay.ms": "0", "log.retention.hours": "-1"},
    ) as process:
        yield process


@pytest.fixture(scope="session")
def client(broker: MillpondProcess) -> Iterator[BlockingClient]:
    """A client of the shared broker."""
    with BlockingClient(broker.bootstrap) as connected:
        yield connected


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; the topic itself is the test's to make."""
    return f"{re.sub(r'[^a-zA-Z0-9-]+', '-', request.node.name)[:60].strip('-')}-{next(_numbers)}"
