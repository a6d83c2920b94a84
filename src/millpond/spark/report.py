"""A report as one self-contained HTML page: figures, charts and tables.

Charts are SVG made here: a page that is opened in ten years, from a mail or a build's artefacts, still shows
the same. Colours follow the reader's light or dark setting; every mark carries its value as a tooltip.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TypeAlias, TypeGuard

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 28, 12, 34
_BAR_HEIGHT, _BAR_GAP, _BAR_LABEL = 18, 8, 190
_TICKS = 4

# Distinguishable with colour blindness, on light and on dark background.
_PALETTE = ("#2a78d6", "#d9480f", "#2b8a3e", "#9c36b5", "#b08800", "#0b7285")

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line, by x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One important number; ``good`` says whether it is as it should be, if that can be said."""

    name: str
    value: str
    note: str = ""
    good: bool | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, an introduction, and charts and tables as HTML."""

    title: str
    text: str
    body: Sequence[str]


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_unit: str = "s",
    x_end: float = 0.0,
    y_unit: str = "",
    filled: bool = False,
) -> str:
    """Return a chart of values over time. Both axes begin at zero, so that charts can be compared.

    ``x_end`` is how far the x axis goes at least.
    """
    drawn = [one for one in series if one.points]
    if not drawn:
        return _empty(title)
    x_max = max([x for one in drawn for x, _y in one.points] + [x_end]) or 1
    y_ticks = _ticks(max(y for one in drawn for _x, y in one.points))
    y_max = y_ticks[-1] or 1

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + x / x_max * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - y / y_max * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [_grid(y, at(0, y)[1]) for y in y_ticks]
    for x in (tick for tick in _ticks(x_max) if tick <= x_max):
        left, base = at(x, 0)
        parts.append(
            f'<text x="{left:.1f}" y="{base + 18:.1f}" class="tick" text-anchor="middle">'
            f"{_number(x)} {escape(x_unit)}</text>"
        )
    for number, one in enumerate(drawn):
        colour = _PALETTE[number % len(_PALETTE)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in one.points))
        if filled:
            first, last = at(one.points[0][0], 0), at(one.points[-1][0], 0)
            area = f"{first[0]:.1f},{first[1]:.1f} {path} {last[0]:.1f},{last[1]:.1f}"
            parts.append(f'<polygon points="{area}" fill="{colour}" opacity="0.12"/>')
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in one.points:
            left, top = at(x, y)
            label = f"{one.name}: {_number(y)} {y_unit} at {_number(x)} {x_unit}"
            parts.append(
                f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="{colour}" class="dot">'
                f"<title>{escape(label)}</title></circle>"
            )
    legend = _legend([one.name for one in drawn]) if len(drawn) > 1 else ""
    unit = f" <span>({escape(y_unit)})</span>" if y_unit else ""
    return _frame(f"{escape(title)}{unit}", legend, parts, _HEIGHT)


def bar_chart(title: str, bars: Sequence[tuple[str, float]], *, unit: str = "") -> str:
    """Return a bar chart in the given order; names on the left, values at the ends."""
    if not bars:
        return _empty(title)
    largest = max(value for _name, value in bars) or 1
    room = _WIDTH - _BAR_LABEL - 90
    parts = []
    for number, (name, value) in enumerate(bars):
        top = number * (_BAR_HEIGHT + _BAR_GAP) + 4
        width = max(1.0, value / largest * room)
        middle = top + _BAR_HEIGHT / 2 + 4
        short = name if len(name) <= 25 else f"{name[:24]}…"
        parts.append(
            f'<text x="{_BAR_LABEL - 8}" y="{middle}" class="name" text-anchor="end">{escape(short)}</text>'
            f'<rect x="{_BAR_LABEL}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT}" rx="2" '
            f'fill="{_PALETTE[0]}"><title>{escape(name)}: {_number(value)} {escape(unit)}</title></rect>'
            f'<text x="{_BAR_LABEL + width + 6:.1f}" y="{middle}" class="tick">{_number(value)}</text>'
        )
    height = len(bars) * (_BAR_HEIGHT + _BAR_GAP) + 8
    unit_text = f" <span>({escape(unit)})</span>" if unit else ""
    return _frame(f"{escape(title)}{unit_text}", "", parts, height)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table; numbers and their headings are aligned right."""
    rows = list(rows)
    first = rows[0] if rows else [None] * len(columns)
    head = "".join(
        f"<th{' class=n' if _is_number(cell) else ''}>{escape(column)}</th>"
        for column, cell in zip(columns, first, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    body = body or f'<tr><td colspan="{len(columns)}">nothing</td></tr>'
    return (
        f"<figure><figcaption>{escape(title)}</figcaption><div class=scroll><table><thead><tr>{head}</tr>"
        f"</thead><tbody>{body}</tbody></table></div></figure>"
    )


def page(title: str, lead: str, figures: Sequence[Figure], sections: Sequence[Section]) -> str:
    """Return the whole report."""
    tiles = "".join(
        f'<div class="tile{_verdict(figure.good)}"><b>{escape(figure.value)}</b>'
        f"<span>{escape(figure.name)}</span><small>{escape(figure.note)}</small></div>"
        for figure in figures
    )
    bodies = "".join(
        f"<section><h2>{escape(section.title)}</h2><p>{escape(section.text)}</p>"
        f"<div class=charts>{''.join(section.body)}</div></section>"
        for section in sections
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style><main><h1>{escape(title)}</h1>"
        f"<p class=lead>{escape(lead)}</p><div class=tiles>{tiles}</div>{bodies}</main></html>"
    )


# --- parts ----------------------------------------------------------------------------------------


def _verdict(good: bool | None) -> str:
    return "" if good is None else (" good" if good else " bad")


def _is_number(value: Cell) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Cell) -> str:
    if _is_number(value):
        return f"<td class=n>{_number(value)}</td>"
    return f"<td>{escape('' if value is None else str(value))}</td>"


def _grid(value: float, height: float) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" class="grid"/>'
        f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" class="tick" text-anchor="end">{_number(value)}</text>'
    )


def _legend(names: Sequence[str]) -> str:
    marks = "".join(
        f'<span><i style="background:{_PALETTE[number % len(_PALETTE)]}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f"<div class=legend>{marks}</div>"


def _frame(title: str, legend: str, parts: Sequence[str], height: float) -> str:
    return (
        f"<figure><figcaption>{title}</figcaption>{legend}"
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg></figure>'
    )


def _empty(title: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption><p>no data</p></figure>"


def _ticks(largest: float) -> list[float]:
    """Return round numbers from zero to a little above the largest value."""
    if largest <= 0:
        return [0, 1]
    rough = largest / _TICKS
    power = 10 ** floor(log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough)
    return [step * number for number in range(ceil(largest / step) + 1)]


def _number(value: float) -> str:
    """Format a number for readers: 12,345, 1.5, 0.02."""
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:,.2f}".rstrip("0").rstrip(".") + " M"
    if value == int(value):
        return f"{int(value):,}"
    text = f"{value:,.3f}" if abs(value) < 1 else f"{value:,.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_STYLE = """
:root{color-scheme:light dark;--ink:#1c2126;--soft:#5c6770;--line:#e3e7eb;--card:#fff;--ground:#f6f7f9;
--good:#2b8a3e;--bad:#c92a2a}
@media(prefers-color-scheme:dark){:root{--ink:#e8ecef;--soft:#9aa5ae;--line:#2d343a;--card:#1b2025;
--ground:#12161a;--good:#51cf66;--bad:#ff6b6b}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1380px;margin:0 auto;padding:32px 24px 64px}h1{margin:0;font-size:28px}
h2{margin:36px 0 4px;font-size:20px}p{margin:0 0 14px;color:var(--soft);max-width:80ch}.lead{font-size:17px}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:12px;margin-top:20px}
.tile,figure{background:var(--card);border:1px solid var(--line);border-radius:8px}
.tile{padding:14px 16px;display:flex;flex-direction:column;border-left:4px solid var(--line)}
.tile b{font-size:24px;font-variant-numeric:tabular-nums}.tile small{color:var(--soft)}
.tile.good{border-left-color:var(--good)}.tile.bad{border-left-color:var(--bad)}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,520px),1fr));gap:14px}
.charts>figure:only-child{grid-column:1/-1}
figure{margin:0;padding:14px 16px;min-width:0}figcaption{font-weight:600;margin-bottom:6px}
figcaption span{font-weight:400;color:var(--soft)}svg{width:100%;height:auto;display:block}
.grid{stroke:var(--line)}.tick{fill:var(--soft);font-size:12px}.name{fill:var(--ink);font-size:12.5px}
.dot{opacity:0}.dot:hover{opacity:1}
.legend{display:flex;gap:14px;flex-wrap:wrap;
color:var(--soft);font-size:13px}
.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;color:var(--soft);font-weight:500;
border-bottom:1px solid var(--line);padding:5px 10px 5px 0}
td{border-bottom:1px solid var(--line);padding:5px 10px 5px 0;vertical-align:top}
.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
""".strip()
