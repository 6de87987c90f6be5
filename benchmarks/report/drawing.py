"""The parts that the charts of a report share: palette, axes, names of series, and the picture as PNG and SVG.

matplotlib draws both: the PNG on white, the SVG in the light or the dark colours of the page.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes a second to import
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", colours))
    for colours in re.findall(r":root \{(.*?)\}", (Path(__file__).parent / "page.css").read_text("utf-8"), re.DOTALL)
)
"""colours by name, of the page's style sheet: "s0" to "s5" are those of series"""
SERIES = [LIGHT[f"s{n}"] for n in range(6)]
MARKERS = ("o", "s", "^", "D")
DASHES: tuple[Any, ...] = ("-", (0, (3.5, 1.5)), (0, (1, 1.5)), (0, (4.5, 1.5, 1, 1.5)))
FONT_PT = 9.4
LINE_IN = 0.155
"""inches from one line of text to the next"""
PLOT_IN = 2.3
"""inches between the axes' ends"""
NAME_CHARS = 20
"""characters in a line of a series' name"""
STYLE: dict[Any, Any] = {
    "font.size": FONT_PT,
    "font.family": "DejaVu Sans",
    "text.color": LIGHT["text"],
    "text.parse_math": False,  # a name may have dollars
    "axes.edgecolor": LIGHT["quiet"],
    "axes.labelcolor": LIGHT["quiet"],
    "axes.unicode_minus": True,
    "xtick.color": LIGHT["quiet"],
    "ytick.color": LIGHT["quiet"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 6,
    "grid.color": LIGHT["grid"],
    "axes.axisbelow": True,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.spines.bottom": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 6.5,
    "svg.fonttype": "none",  # text stays text: a name in any script is drawn by the reader's own fonts
    "svg.hashsalt": "report",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and, in ``description``, what it shows in words."""

    name: str
    title: str
    description: str
    figure: Figure

    def png(self) -> bytes:
        """On white and with its title, for slides and pull requests."""
        with chart_style():
            width, height = self.figure.get_size_inches()
            box = self.figure.get_tightbbox()
            lines = "\n".join(wrapped(self.title, 48))
            title = self.figure.text(
                box.x0 / width, (box.y1 + 0.12) / height, lines, va="bottom", weight="bold", size=FONT_PT * 1.2
            )
            picture = self._saved("png", facecolor="white", dpi=300, metadata=self._metadata)
            title.remove()
            return picture

    def svg(self, *, dark: bool = False) -> bytes:
        """Without a background and without its title, which the page has."""
        with chart_style():
            picture = self._saved("svg", transparent=True, metadata={**self._metadata, "Date": None})
        if not dark:
            return picture
        by_colour = {LIGHT[name]: DARK[name] for name in LIGHT}
        return re.sub(rb"#[0-9a-f]{6}", lambda m: by_colour.get(m[0].decode(), m[0].decode()).encode(), picture)

    @property
    def is_tall(self) -> bool:
        with chart_style():
            return bool(self.figure.get_tightbbox().height > 5)

    @property
    def _metadata(self) -> dict[str, str | None]:
        return {"Title": self.title, "Description": self.description}

    def _saved(self, kind: str, **options: Any) -> bytes:
        out = io.BytesIO()
        self.figure.savefig(out, format=kind, bbox_inches="tight", pad_inches=0.12, **options)
        return out.getvalue()


@dataclass(frozen=True, slots=True)
class Style:
    color: str
    marker: str
    dash: Any


@contextmanager
def chart_style() -> Iterator[None]:
    from matplotlib import rc_context

    with rc_context(STYLE), warnings.catch_warnings():
        # The PNG draws a name in a script that the font lacks as boxes; the page has it right.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        yield


def named_axes(names: Sequence[str], x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """Axes with horizontal grid lines, high enough for all names at the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PLOT_IN, max(2.2, 0.1 + sum(map(_height_in, names)))))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.grid(axis="y", clip_on=False)
    axes.set_xlabel(x_label)
    axes.set_title(y_label, loc="left", size=FONT_PT, color=LIGHT["quiet"], x=-0.21, pad=10)
    return figure, axes


def scale_shares(axes: Axes, low: float, high: float) -> None:
    """Round ticks in per cent that enclose the shares; a flat line is drawn in the middle, and not as if it rose."""
    if high - low < 0.01:
        low, high = max(0.0, low - 0.05), min(1.0, high + 0.05)
    ticks = [tick for tick in round_ticks(low, high, 5) if -1e-9 <= tick <= 1 + 1e-9]
    axes.set_yticks(ticks, [f"{100 * tick:.4g} %" for tick in ticks])
    axes.set_ylim(ticks[0], ticks[-1])


def name_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[str, float, float]], looks: Mapping[str, Style]) -> None:
    """Writes each series' name at the right, moved apart where names would cover each other, with a line to its end."""
    height = figure.get_size_inches()[1]
    low, high = axes.get_ylim()
    ordered = sorted(ends, key=lambda end: end[2])
    wanted = [(y - low) / (high - low) * height for _, _, y in ordered]
    placed = apart(wanted, [_height_in(name) for name, _, _ in ordered], 0.0, height)
    for (name, x, y), inches in zip(ordered, placed, strict=True):
        style, at = looks[name], inches / height
        axes.annotate(
            "",
            (x, y),
            (1.06, at),
            textcoords="axes fraction",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": style.color,
                "linewidth": 0.6,
                "linestyle": ":",
                "shrinkA": 0,
                "shrinkB": 6,
            },
        )
        axes.plot(1.08, at, color=style.color, marker=style.marker, transform=axes.transAxes, clip_on=False)
        axes.annotate(
            "\n".join(wrapped(name, NAME_CHARS)),
            (1.12, at),
            xycoords="axes fraction",
            va="center_baseline",
            color=style.color,
            annotation_clip=False,
        )


def _height_in(name: str) -> float:
    """Inches that a series' name takes, with the gap to the next."""
    return LINE_IN * len(wrapped(name, NAME_CHARS)) + 0.03


def apart(places: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Moves ascending middles of things of these heights as little as needed that none covers another, and keeps them
    within bounds where they fit."""
    out = list(places)
    gaps = [(a + b) / 2 for a, b in pairwise(heights)]
    if out:
        low, high = low + heights[0] / 2, high - heights[-1] / 2
    for i, gap in enumerate(gaps, start=1):
        out[i] = max(out[i], out[i - 1] + gap)
    if out and out[-1] > high:
        out[-1] = high
        for i in range(len(out) - 2, -1, -1):
            out[i] = min(out[i], out[i + 1] - gaps[i])
    if out and out[0] < low:
        out[0] = low
        for i, gap in enumerate(gaps, start=1):
            out[i] = max(out[i], out[i - 1] + gap)
    return out


def round_ticks(low: float, high: float, intervals: int) -> list[float]:
    """Round values that enclose low to high, in about so many steps."""
    from matplotlib.ticker import MaxNLocator

    return [float(tick) for tick in MaxNLocator(intervals, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]


def points(share: float) -> str:
    """A tick in points, as short as it can be."""
    return f"{100 * share:+.4g}".replace("-", "−") if share else "0"


def wrapped(name: str, most: int) -> list[str]:
    """The whole name, in lines of at most so many characters, broken before its own parts where they are that short."""
    lines = [""]
    for part in re.findall(r"[ @+(]*[^ @+(]*", " ".join(name.split())):
        if lines[-1] and len(lines[-1] + part) > most:
            lines.append("")
            part = part.lstrip()
        *whole, last = [(lines[-1] + part)[i : i + most] for i in range(0, max(1, len(lines[-1] + part)), most)]
        lines[-1:] = [*whole, last]
    return lines
