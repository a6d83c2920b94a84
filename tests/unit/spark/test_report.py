"""The report: one page that needs nothing else, and shows what it was given."""

from xml.etree import ElementTree

from millpond.spark.report import Figure, Section, Series, bar_chart, line_chart, page, table


def _svg(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart[chart.index("<svg") : chart.index("</svg>") + 6])


def test_a_line_goes_through_its_points_and_starts_from_zero() -> None:
    svg = _svg(
        line_chart("rate", [Series("in", [(0, 0), (10, 50), (20, 100)])], y_unit="records/s")
    )
    (line,) = svg.findall("polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert [x for x, _y in points] == sorted(x for x, _y in points)
    heights = [y for _x, y in points]
    assert heights[0] - heights[1] == heights[1] - heights[2] > 0, "twice the value, twice as high"
    titles = [title.text for title in svg.iter("title")]
    assert "in: 50 records/s at 10 s" in titles


def test_time_is_counted_from_zero_in_round_steps_as_far_as_the_other_charts_go() -> None:
    svg = _svg(line_chart("latency", [Series("p50", [(70.012, 5), (90, 6)])], x_end=142.7))
    ticks = [text for text in svg.findall("text") if text.attrib["text-anchor"] == "middle"]
    assert [text.text for text in ticks] == ["0 s", "50 s", "100 s"]
    (line,) = svg.findall("polyline")
    first = float(line.attrib["points"].split(",")[0])
    zero, fifty, hundred = (float(text.attrib["x"]) for text in ticks)
    assert fifty < first < hundred
    assert hundred - fifty == fifty - zero


def test_bars_are_as_long_as_their_values() -> None:
    svg = _svg(bar_chart("pages", [("/home", 200), ("/cart", 50)]))
    first, second = (float(bar.attrib["width"]) for bar in svg.findall("rect"))
    assert first == 4 * second


def test_what_people_typed_is_shown_and_never_run() -> None:
    evil = "<script>alert(1)</script>"
    whole = page(
        evil,
        evil,
        [Figure(evil, evil, evil, good=False)],
        [
            Section(
                evil,
                evil,
                [
                    table(evil, [evil], [[evil]]),
                    bar_chart(evil, [(evil, 1)]),
                    line_chart(evil, [Series(evil, [(0, 1)]), Series(evil, [(0, 2)])]),
                ],
            )
        ],
    )
    assert "<script" not in whole
    assert "&lt;script&gt;" in whole


def test_nothing_is_said_to_be_nothing() -> None:
    assert "no data" in line_chart("rate", [Series("in", [])])
    assert "no data" in bar_chart("pages", [])
    assert "nothing" in table("errors", ["service"], [])


def test_numbers_are_written_for_people() -> None:
    rows = table("t", ["n"], [[1234567], [0.0213], [12345], [1.0], [None], ["x"]])
    for shown in ("1.23 M", "0.021", "12,345", "<td class=n>1</td>", "<td></td>", "<td>x</td>"):
        assert shown in rows


def test_the_heads_of_numbers_stand_over_them() -> None:
    head = table("t", ["service", "lines"], [["web", 3]])
    assert "<th>service</th><th class=n>lines</th>" in head


def test_the_page_loads_nothing() -> None:
    whole = page("t", "l", [], [])
    assert "http" not in whole
    assert "src=" not in whole
