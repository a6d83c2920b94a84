"""Adds up what the lives of clusters came to, and prints it at the end of the run."""

from collections import Counter

import pytest

FIGURES = "cluster lives"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One table for all lives, whichever process lived them."""
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, figures in getattr(report, "user_properties", ()):
                if name == FIGURES and report.when == "call":
                    total.update(figures)
    if not total:
        return
    terminalreporter.section("simulated clusters")
    faults = {name: n for name, n in total.items() if name.startswith("fault: ")}
    for name in sorted(total.keys() - faults.keys()):
        terminalreporter.write_line(f"{name:28} {total[name]:>12,}")
    terminalreporter.write_line(f"{'faults':28} {sum(faults.values()):>12,}")
    for name, count in sorted(faults.items(), key=lambda one: -one[1]):
        terminalreporter.write_line(f"  {name.removeprefix('fault: '):26} {count:>12,}")
