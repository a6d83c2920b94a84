"""``python -m examples.demo.check REPORT``: checks that the demo's report is complete.

The page is parsed as a browser would. Every section and every chart must be there with data in it, and every
line of the last table must have its tick.
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import click

PARTS = {
    "In and through": ("Input rate", "Lag", "From a client's send", "Median time of a batch"),
    "Clicks": ("Sessions", "How far visits went", "Events of a visit", "Top pages"),
    "Service logs": ("Errors", "Lines by level", "Errors by pattern", "Alerts"),
    "Dead letters": ("By reason", "Causes"),
    "Sent against found": ("Checks",),
}
# Without alerts the section may be empty.
MAY_BE_EMPTY = frozenset({"Alerts"})


@dataclass(slots=True)
class Chart:
    """One figure of the page: its caption, the number of its data marks, and its table's cells."""

    title: str = ""
    marks: int = 0
    rows: list[list[str]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return self.marks == 0 and not any(len(row) > 1 for row in self.rows)


class _Page(HTMLParser):
    """The page's figures by their section."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: dict[str, list[Chart]] = {}
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside.append(tag)
        if tag == "figure":
            self._charts().append(Chart())
        elif tag in {"polyline", "rect"}:
            self._charts()[-1].marks += 1
        elif tag == "tr":
            self._charts()[-1].rows.append([])
        elif tag == "td":
            self._charts()[-1].rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._inside[-1] if self._inside else ""
        if inside == "h2":
            self.sections[data] = []
        elif inside == "figcaption":
            self._charts()[-1].title += data
        elif inside == "td":
            self._charts()[-1].rows[-1][-1] += data

    def _charts(self) -> list[Chart]:
        return list(self.sections.values())[-1]


def problems(html: str) -> list[str]:
    """Return what is missing or wrong; empty for a complete report."""
    page = _Page()
    page.feed(html)
    found = []
    for section, titles in PARTS.items():
        if section not in page.sections:
            found.append(f"no section {section!r}")
            continue
        charts = page.sections[section]
        for title in titles:
            chart = next((one for one in charts if one.title.startswith(title)), None)
            if chart is None:
                found.append(f"{section}: no chart {title!r}")
            elif chart.is_empty and title not in MAY_BE_EMPTY:
                found.append(f"{section}: nothing in {title!r}")
    checks = [row for chart in page.sections.get("Sent against found", []) for row in chart.rows]
    found += [f"does not hold: {' | '.join(row[1:])}" for row in checks if row and row[0] != "✓"]
    return found


@click.command(help=__doc__)
@click.argument("report", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(report: Path) -> None:
    found = problems(report.read_text(encoding="utf-8"))
    for problem in found:
        click.echo(f"{report}: {problem}", err=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
