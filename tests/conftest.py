"""Settings that every test shares.

Hypothesis profiles: ``dev`` (default, quick), ``ci`` (more examples, the same every run) and ``night``
(as many as patience allows). Choose with ``HYPOTHESIS_PROFILE``.

A test that needs a tool of the real system (marker ``interop``), Apache Spark (``spark``) or something of the
machine (``chaos``, ``crash``) may skip where that is missing; in CI (``CI`` set) such a skip is a failure, so
that the matrix cannot shrink unseen.

A test that is a coroutine runs on a loop with virtual time.
"""

import inspect
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.time.virtual_loop import run

_NEEDED = ("interop", "spark", "chaos", "crash")

_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("dev", max_examples=50, **_COMMON)
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **_COMMON)
settings.register_profile("night", max_examples=5_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, turn the skip of a test that needs a real tool into a failure."""
    report = yield
    skipped = report.skipped and not hasattr(report, "wasxfail")
    needed = any(item.get_closest_marker(name) for name in _NEEDED)
    if skipped and os.environ.get("CI") and needed:
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {call.excinfo and call.excinfo.value}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, on a loop with virtual time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
