"""Results as JSON, as the table of docs/benchmarks.md, and as a bar chart. Standard library only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from math import log
from pathlib import Path
from statistics import median

from bench.brokers import KAFKA, MILLPOND, RABBITMQ
from bench.model import Cell, Metric, Ratio, Results

BEGIN, END = "<!-- bench:begin (written by `make bench`) -->", "<!-- bench:end -->"
NOISY_SHARE = 0.10
# Versions among the facts of a run, and their labels.
_VERSIONS = {
    "kafka": "Apache Kafka",
    "librdkafka": "librdkafka",
    "rabbitmq": "RabbitMQ",
    "perf_test": "perf-test",
    "pika": "pika",
}
TITLES = {KAFKA: "Apache Kafka", RABBITMQ: "RabbitMQ"}

_DOCUMENT = f"""# Benchmarks

Millpond beside Apache Kafka: the same workload, the same client, the same machine, one run, alternating.
`make bench` writes everything between the marks anew; `make bench` options are in `bench/__main__.py`.

{BEGIN}
{END}
"""


def write_json(results: Results, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = directory / f"{stamp}-{results.scale}.json"
    path.write_text(json.dumps(dataclasses.asdict(results), indent=1) + "\n")
    return path


def write_document(
    results: Results, cells: list[Cell], path: Path, *, source: str, suite: str | None = None
) -> None:
    """Replace the text between the marks of the suite; everything around them is kept."""
    text = path.read_text() if path.exists() else _DOCUMENT
    begin, end = (BEGIN, END) if suite is None else _marks(suite)
    if begin not in text:
        text = f"{text.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    chart = path.with_name(f"{path.stem}{f'-{suite}' if suite else ''}.svg")
    chart.write_text(bar_chart(results, cells))
    body = markdown(results, cells, source=source, chart=chart.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{begin}\n{body}{end}{after}")


def _marks(suite: str) -> tuple[str, str]:
    return (
        f"<!-- bench:{suite}:begin (written by `python -m bench {suite}`) -->",
        f"<!-- bench:{suite}:end -->",
    )


def markdown(results: Results, cells: list[Cell], *, source: str, chart: str) -> str:
    peer = TITLES[results.peer]
    lines = [*_preamble(results, source), "", f"![Millpond relative to {peer}]({chart})", ""]
    for section, members in groupby(cells, key=lambda cell: cell.section):
        rows = [row for cell in members for row in _rows(results, cell)]
        if rows:
            lines += [f"### {section}", "", *_table(rows, peer), ""]
    if results.skipped:
        lines += ["Skipped: " + "; ".join(results.skipped) + ".", ""]
    return "\n".join(lines)


def _preamble(results: Results, source: str) -> list[str]:
    machine = results.machine
    noise = [sample.others_cpu for sample in results.samples if sample.round]
    noisy = sum(share > NOISY_SHARE for share in noise)
    versions = ", ".join(
        f"{title} {machine[key]}" for key, title in _VERSIONS.items() if key in machine
    )
    setting = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}, data on {machine['filesystem']}. "
        f"Python {machine['python']} (uvloop {machine['packages']['uvloop']}), {machine['java']}, "
        f"{versions}. "
        f"Millpond at {machine['commit']}, {machine['date']}."
    )
    reading = (
        f"Scale `{results.scale}`, {results.rounds} rounds, {results.seconds / 60:.0f} minutes. "
        "Figures are medians, in brackets the lowest and highest round. The ratio is Millpond's median "
        f"divided by {TITLES[results.peer]}'s, in brackets its spread over the rounds; bold is the better "
        "side of 1. "
        f"In {noisy} of {len(noise)} runs other processes (the kernel's write-back and the idle peer "
        f"included) used more than {NOISY_SHARE:.0%} of the machine. Raw samples: `{source}`."
    )
    return [setting, "", reading]


def _rows(results: Results, cell: Cell) -> Iterable[list[str]]:
    for number, metric in enumerate(cell.metrics):
        cells = [_figure(results, cell, metric, system) for system in (MILLPOND, results.peer)]
        if cells == ["", ""]:
            continue
        ratio = (
            None
            if metric.of_itself
            else results.ratio(cell.name, metric.key, MILLPOND, results.peer)
        )
        judged = _own(results, cell, metric) if metric.of_itself else ratio.value if ratio else None
        yield [
            cell.title if number == 0 else "",
            f"{metric.label}, {metric.unit}",
            *cells,
            _ratio(ratio, metric),
            _target(judged, metric),
        ]


def _figure(results: Results, cell: Cell, metric: Metric, system: str) -> str:
    values = results.of(cell.name, system, metric.key)
    if not values:
        error = results.error_of(cell.name, system)
        return "failed" if error else ""
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))}-{number(max(values))})"


def _ratio(ratio: Ratio | None, metric: Metric) -> str:
    if ratio is None:
        return ""
    text = f"{ratio.value:.2f}"
    if (ratio.value >= 1) == metric.higher_is_better:
        text = f"**{text}**"
    return f"{text} ({ratio.lowest:.2f}-{ratio.highest:.2f})"


def _own(results: Results, cell: Cell, metric: Metric) -> float | None:
    values = results.of(cell.name, MILLPOND, metric.key)
    return median(values) if values else None


def _target(value: float | None, metric: Metric) -> str:
    if metric.target is None:
        return ""
    sign = "≥" if metric.higher_is_better else "≤"
    if value is None:
        return f"{sign} {metric.target}"
    met = value >= metric.target if metric.higher_is_better else value <= metric.target
    return f"{sign} {metric.target}: {'met' if met else 'missed'}"


def _table(rows: list[list[str]], peer: str) -> list[str]:
    head = ["workload", "figure", "Millpond", peer, "ratio", "target"]
    return [
        "| " + " | ".join(head) + " |",
        "|---|---|--:|--:|--:|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def number(value: float) -> str:
    """Format with three significant digits and separators of thousands."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def bar_chart(results: Results, cells: list[Cell]) -> str:
    """Return a chart of each figure's ratio to its peer's, on a logarithmic scale around 1."""
    bars = []
    for cell in cells:
        for metric in cell.metrics:
            ratio = results.ratio(cell.name, metric.key, MILLPOND, results.peer)
            if metric.charted and ratio is not None and ratio.value > 0:
                better = ratio.value if metric.higher_is_better else 1 / ratio.value
                bars.append((f"{cell.section}: {cell.title} ({metric.label})", better))
    return _draw(bars, TITLES[results.peer])


def _draw(bars: list[tuple[str, float]], peer: str) -> str:
    row, left, width, top = 18, 430, 420, 34
    height = top + row * len(bars) + 30
    edge = max([2.0, *(max(value, 1 / value) for _, value in bars)])
    middle = left + width / 2

    def x(value: float) -> float:
        return middle + width / 2 * log(value) / log(edge)

    title = f"Millpond relative to {peer}: right is better, 1 is equal"
    size = f'width="{left + width + 70}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{middle}" y="16" text-anchor="middle" font-size="12">{title}</text>',
        f'<line x1="{middle}" y1="{top - 8}" x2="{middle}" y2="{height - 20}" stroke="#555"/>',
    ]
    for index, (label, value) in enumerate(bars):
        y, start, end = top + row * index, min(middle, x(value)), max(middle, x(value))
        colour = "#2a9d8f" if value >= 1 else "#e76f51"
        anchor, at = ("start", end + 4) if value >= 1 else ("end", start - 4)
        parts += [
            f'<text x="{left - 60}" y="{y + 11}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{start:.1f}" y="{y}" width="{end - start:.1f}" height="{row - 5}" fill="{colour}"/>',
            f'<text x="{at:.1f}" y="{y + 11}" text-anchor="{anchor}">{value:.2f}x</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
