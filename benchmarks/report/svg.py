"""A chart as SVG for the page, which colours it by its style sheet, light or dark."""

from __future__ import annotations

from html import escape

from benchmarks.report.charts import TEXT, WIDTH, Bar, Chart, Line, Mark, Point, Text


def svg(chart: Chart, name: str) -> str:
    """``name`` is unique in the page: the description is referred to by it."""
    return (
        f'<svg class="chart" viewBox="0 0 {_n(WIDTH)} {_n(chart.height)}" role="img" '
        f'aria-labelledby="{escape(name)}-says">'
        f'<desc id="{escape(name)}-says">{escape(chart.says)}</desc>{"".join(map(_mark, chart.marks))}</svg>'
    )


def _mark(mark: Mark) -> str:
    match mark:
        case Line():
            points = " ".join(f"{_n(x)},{_n(y)}" for x, y in mark.points)
            dash = f' stroke-dasharray="{" ".join(map(_n, mark.dash))}"' if mark.dash else ""
            return f'<polyline class="line {mark.ink}" points="{points}" stroke-width="{_n(mark.width)}"{dash}/>'
        case Point():
            hollow = " hollow" * mark.hollow
            tip = f"<title>{escape(mark.tip)}</title>" if mark.tip else ""
            return f'<path class="point {mark.ink}{hollow}" d="{_shape(mark)}">{tip}</path>'
        case Bar():
            size = f'x="{_n(mark.x)}" y="{_n(mark.y)}" width="{_n(mark.width)}" height="{_n(mark.height)}"'
            return f'<rect class="bar {mark.ink}" {size}/>'
        case Text():
            bold = ' font-weight="600"' if mark.bold else ""
            place = f'x="{_n(mark.x)}" y="{_n(mark.y)}" font-size="{_n(TEXT)}" text-anchor="{mark.anchor}"'
            return f'<text class="{mark.ink}" {place}{bold}>{escape(mark.text)}</text>'


def outline(mark: Point) -> list[tuple[float, float]]:
    """The corners of a mark that has some."""
    x, y, r = mark.x, mark.y, mark.size
    if mark.shape == "triangle":
        return [(x, y - 1.15 * r), (x + 1.1 * r, y + 0.85 * r), (x - 1.1 * r, y + 0.85 * r)]
    if mark.shape == "diamond":
        return [(x, y - 1.25 * r), (x + 1.25 * r, y), (x, y + 1.25 * r), (x - 1.25 * r, y)]
    if mark.shape == "cross":
        arm, half = 1.1 * r, 0.35 * r
        corners = quarter = [(half, -arm), (half, -half), (arm, -half)]
        for _ in range(3):
            quarter = [(-b, a) for a, b in quarter]
            corners = corners + quarter
        return [(x + a, y + b) for a, b in corners]
    side = 0.9 * r
    return [(x - side, y - side), (x + side, y - side), (x + side, y + side), (x - side, y + side)]


def _shape(mark: Point) -> str:
    if mark.shape == "dot":
        r = _n(mark.size)
        half = f"a{r},{r} 0 1,0 {_n(2 * mark.size)},0a{r},{r} 0 1,0 {_n(-2 * mark.size)},0z"
        return f"M{_n(mark.x - mark.size)},{_n(mark.y)}{half}"
    return "M" + "L".join(f"{_n(x)},{_n(y)}" for x, y in outline(mark)) + "z"


def _n(value: float) -> str:
    """A tenth of a unit is finer than a pixel."""
    return f"{value:.1f}".rstrip("0").rstrip(".")
