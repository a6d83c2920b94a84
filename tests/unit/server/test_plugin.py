"""The pytest plugin, as its users meet it: a project of their own with a few tests."""

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that has Millpond's plugin and no other."""
    source = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    monkeypatch.setenv("PYTHONPATH", source)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\naddopts = -p millpond.testing.plugin --strict-markers\n")
    return pytester


def test_each_test_has_a_broker_of_its_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import socket
        import pytest

        seen = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_fresh(millpond, number):
            host, port = millpond.bootstrap.split(":")
            socket.create_connection((host, int(port))).close()
            millpond.create_topic("orders")  # would fail the second time on a shared broker
            seen.append(millpond.data)

        def test_gone():
            assert len(set(seen)) == 2
            assert not any(path.exists() for path in seen)
        """
    )

    project.runpytest_subprocess().assert_outcomes(passed=3)


def test_the_session_broker_is_shared(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        seen = set()

        def test_one(millpond_session):
            seen.add(millpond_session.bootstrap)

        def test_two(millpond_session):
            seen.add(millpond_session.bootstrap)
            assert len(seen) == 1
        """
    )

    project.runpytest_subprocess().assert_outcomes(passed=2)


def test_settings_by_marker_by_factory_and_by_ini(project: pytest.Pytester) -> None:
    project.makeini(
        """
        [pytest]
        addopts = -p millpond.testing.plugin --strict-markers
        millpond_settings =
            num.partitions = 2
            log.retention.hours = 1
        """
    )
    project.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.millpond({"num.partitions": 3})

        def partitions(broker):
            return broker.settings.values["num.partitions"]

        @pytest.mark.millpond(num_partitions=4)
        def test_the_nearest_marker_wins(millpond):
            assert partitions(millpond) == 4
            assert millpond.settings.values["log.retention.hours"] == 1

        def test_the_modules_marker(millpond):
            assert partitions(millpond) == 3

        def test_the_factory(millpond_factory):
            assert partitions(millpond_factory()) == 2
            assert partitions(millpond_factory(num_partitions=7)) == 7
            assert partitions(millpond_factory(settings={"num.partitions": 8})) == 8
        """
    )

    project.runpytest_subprocess().assert_outcomes(passed=3)


def test_a_mistake_in_the_settings_is_shown_as_such(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.millpond(num_partitons=4)
        def test_it(millpond):
            pass
        """
    )

    result = project.runpytest_subprocess()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*settings: Unknown*Did you mean num.partitions*"])


def test_the_plugin_costs_nothing_to_those_who_do_not_use_it(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_it():
            loaded = [name for name in sys.modules if name.startswith("millpond")]
            assert sorted(loaded) == ["millpond", "millpond.testing", "millpond.testing.plugin"]
            assert "asyncio" not in sys.modules
        """
    )

    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_broker_is_not_rewritten_by_pytest(project: pytest.Pytester) -> None:
    # What pytest does by itself for a distribution with a plugin, if it was not installed as editable.
    project.makeconftest("import pytest\npytest.register_assert_rewrite('millpond')\n")
    project.makepyfile(
        """
        import sys

        def test_as_written(millpond):
            loaders = {
                type(module.__spec__.loader).__name__
                for name, module in sys.modules.items()
                if name.startswith("millpond.") and name != "millpond.testing.plugin"
            }
            assert "SourceFileLoader" in loaders
            assert "AssertionRewritingHook" not in loaders
        """
    )

    project.runpytest_subprocess().assert_outcomes(passed=1)
