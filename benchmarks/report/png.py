"""A chart as PNG, on white, for slides and pull requests. matplotlib takes a second to import; it waits until then."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from benchmarks.report.charts import TEXT, WIDTH, Bar, Chart, Line, Mark, Point, Text, wrapped
from benchmarks.report.svg import outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

SCALE = 3
"""pixels a unit"""
MARGIN = 16.0
TITLE = 22.0
INKS = {
    "text": "#1b1f24",
    "quiet": "#57606a",
    "grid": "#dfe3e8",
    "zero": "#6b7480",
    "plain": "#4d5560",
    "s0": "#0b5cad",
    "s1": "#b3470b",
    "s2": "#0b7285",
    "s3": "#a3247f",
    "s4": "#6246c4",
    "s5": "#7a6000",
}
"""the page's colours in the light; each has a contrast of 4.5 to white, the grid aside"""
POINTS = 72 / 100
"""of a printer, in a unit: a figure has 100 units an inch"""


def png(chart: Chart) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    title = wrapped(chart.title, 48)
    above = MARGIN + TITLE * len(title)
    width, height = WIDTH + 2 * MARGIN, above + chart.height + MARGIN
    figure = Figure(figsize=(width / 100, height / 100), dpi=100 * SCALE, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(-MARGIN, WIDTH + MARGIN)
    axes.set_ylim(chart.height + MARGIN, -above)
    for i, line in enumerate(reversed(title)):
        _text(axes, Text(0, -TITLE * (i + 1) + 8, line, bold=True), TEXT * 1.2)
    for order, mark in enumerate(chart.marks, start=2):
        _draw(axes, mark, order)
    out = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the page has it right.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        figure.savefig(out, format="png", metadata={"Title": chart.title, "Description": chart.says})
    return out.getvalue()


def _draw(axes: Axes, mark: Mark, order: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Polygon, Rectangle

    ink = INKS[mark.ink]
    match mark:
        case Line():
            xs, ys = zip(*mark.points, strict=True)
            line = Line2D(xs, ys, color=ink, linewidth=mark.width * POINTS, zorder=order)
            if mark.dash:
                line.set_dashes([d / mark.width for d in mark.dash])
            axes.add_line(line)
        case Point():
            dot = mark.shape == "dot"
            patch: Patch = Circle((mark.x, mark.y), mark.size) if dot else Polygon(outline(mark))
            face = "white" if mark.hollow else ink
            patch.set(facecolor=face, edgecolor=ink, linewidth=1.75 * POINTS, zorder=order)
            axes.add_patch(patch)
        case Bar():
            axes.add_patch(Rectangle((mark.x, mark.y), mark.width, mark.height, color=ink, linewidth=0, zorder=order))
        case Text():
            _text(axes, mark, TEXT, order)


def _text(axes: Axes, mark: Text, size: float, order: int = 2) -> None:
    align = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
    axes.text(
        mark.x,
        mark.y,
        mark.text,
        color=INKS[mark.ink],
        fontsize=size * POINTS * 0.94,  # DejaVu is wider than what browsers use
        fontweight="bold" if mark.bold else "normal",
        horizontalalignment=align,
        verticalalignment="baseline",
        parse_math=False,  # a name may have dollars
        zorder=order,
    )
