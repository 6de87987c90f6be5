"""The charts of a report, drawn by matplotlib: as PNG on white, and as SVG in the page's light and dark colours.

No chart speaks by colour alone: series differ in marker and dash too, and their names are at their ends.
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

from benchmarks.report.findings import MAX_WRONGLY_EMPTY, OVERALL, Findings, best_allowed_floor, percent, signed
from benchmarks.report.read import Contribution

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
        with _style():
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
        with _style():
            picture = self._saved("svg", transparent=True, metadata={**self._metadata, "Date": None})
        if not dark:
            return picture
        by_colour = {LIGHT[name]: DARK[name] for name in LIGHT}
        return re.sub(rb"#[0-9a-f]{6}", lambda m: by_colour.get(m[0].decode(), m[0].decode()).encode(), picture)

    @property
    def is_tall(self) -> bool:
        with _style():
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


def styles(found: Findings) -> dict[str, Style]:
    """How each arm looks, in all charts alike: no two of 24 share colour and marker. The baseline is grey."""
    looks = {}
    others = [arm.name for arm in found.arms if arm.name != found.baseline]
    for i, name in enumerate(others):
        cycle, colour = divmod(i, len(SERIES))
        looks[name] = Style(SERIES[colour], MARKERS[(colour + cycle) % len(MARKERS)], DASHES[cycle % len(DASHES)])
    if found.baseline is not None:
        looks[found.baseline] = Style(LIGHT["plain"], "P", DASHES[1])
    return looks


def charts(found: Findings) -> list[Chart]:
    """The charts that the rows are enough for."""
    drawn = (by_budget(found), by_latency(found), by_category(found), abstention(found))
    return [chart for chart in drawn if chart is not None]


def by_budget(found: Findings) -> Chart | None:
    """Evidence found against the size of the block; None where there is one size."""
    arms = [arm for arm in found.scored if len(arm.eib) > 1]
    if not arms:
        return None
    with _style():
        shares = [share.mean for arm in arms for share in arm.eib.values()]
        figure, axes = _axes([arm.name for arm in arms], "characters in the block", "of the evidence found")
        axes.set_xticks(found.budgets, [f"{budget:,}" for budget in found.budgets])
        _share_axis(axes, min(shares), max(shares))
        looks, ends = styles(found), []
        for arm in reversed(arms):
            points = [(budget, share.mean) for budget, share in sorted(arm.eib.items())]
            style = looks[arm.name]
            axes.plot(
                *zip(*points, strict=True), color=style.color, marker=style.marker, linestyle=style.dash, clip_on=False
            )
            ends.append((arm.name, *points[-1]))
        _name_ends(figure, axes, ends, looks)
    best = arms[0]
    values = "; ".join(f"{b:,} characters {percent(p.mean)}" for b, p in sorted(best.eib.items()))
    return Chart(
        "budget",
        "Evidence found, by size of the block",
        f"Share of the evidence in the block, by its characters, for {len(arms)} arms. Highest: {best.name}, {values}.",
        figure,
    )


def by_latency(found: Findings) -> Chart | None:
    """Evidence found against time taken; None where no time was measured."""
    timed = [(arm, arm.latency) for arm in found.scored if arm.latency is not None]
    if not timed:
        return None
    with _style():
        shares = [arm.eib[found.full].mean for arm, _ in timed]
        names = [arm.name for arm, _ in timed]
        figure, axes = _axes(names, "milliseconds, median and 5 to 95 %", "of the evidence found")
        slowest = max(latency.p95 for _, latency in timed) or 1.0
        ticks = _ticks(0.0, slowest, 4)
        axes.set_xticks(ticks, [f"{tick:,.4g}" for tick in ticks])
        axes.set_xlim(-0.03 * ticks[-1], 1.03 * ticks[-1])
        _share_axis(axes, min(shares), max(shares))
        looks, ends = styles(found), []
        for arm, latency in reversed(timed):
            share, style = arm.eib[found.full].mean, looks[arm.name]
            axes.plot((latency.p5, latency.p95), (share, share), color=style.color, linewidth=1.1, clip_on=False)
            axes.plot(latency.p50, share, color=style.color, marker=style.marker, clip_on=False)
            ends.append((arm.name, latency.p95, share))
        _name_ends(figure, axes, ends, looks)
    fastest, took = min(timed, key=lambda pair: pair[1].p50)
    text = f"Fastest: {fastest.name}, {took.p50:,.1f} ms at the median."
    if without := len(found.scored) - len(timed):
        text += f" {without} arm{'s' * (without > 1)} without a latency: none was measured."
    return Chart(
        "latency",
        "Evidence found, by time taken",
        f"Share of the evidence in {found.full:,} characters, by latency, for {len(timed)} arms. {text}",
        figure,
    )


def by_category(found: Findings) -> Chart | None:
    """Each arm minus the baseline, with its interval, by category; None without a baseline."""
    arms = [arm for arm in found.scored if arm.over]
    if not arms:
        return None
    groups = [OVERALL, *(c for c in found.categories if any(c in arm.over for arm in arms))]
    shown = [arm.over[group] for group in groups for arm in arms if group in arm.over]
    ticks = _ticks(min(0.0, *(p.low for p in shown)), max(0.0, *(p.high for p in shown)), 3)
    looks = styles(found)
    left, right = -1.5, PLOT_IN - 0.65 + 0.95  # inches from the axes' left end: where names begin, and where counts end
    with _style():
        from matplotlib.figure import Figure
        from matplotlib.transforms import ScaledTranslation

        figure = Figure()
        axes = figure.add_axes((0, 0, 1, 1))

        def text(inches: float, y: float, words: str, **how: Any) -> None:
            left_end = axes.get_yaxis_transform() + ScaledTranslation(inches, 0, figure.dpi_scale_trans)
            axes.text(0, y, words, transform=left_end, va="center_baseline", **how)

        y = 0.0  # in inches, downwards
        text(right, y, "won / even / lost", ha="right", color=LIGHT["quiet"])
        for group in groups:
            members = [(arm, arm.over[group]) for arm in arms if group in arm.over]
            n = max(over.n for _, over in members)
            title = wrapped(f"{group} · {n:,}" if group == OVERALL else f"{group} · {n:,} questions", 36)
            y += LINE_IN / 2 * (len(title) - 1)
            text(left, y, "\n".join(title), weight="bold")
            y += LINE_IN / 2 * (len(title) - 1)
            top = y + 0.09
            for arm, over in members:
                name, style = wrapped(arm.name, NAME_CHARS), looks[arm.name]
                y += 0.19 + LINE_IN / 2 * (len(name) - 1)
                may_be_chance = over.low <= 0 <= over.high
                text(left + 0.08, y, "\n".join(name), color=style.color)
                axes.plot((over.low, over.high), (y, y), color=style.color, linewidth=1.1)
                face = LIGHT["page"] if may_be_chance else style.color
                axes.plot(over.difference, y, color=style.color, marker=style.marker, markerfacecolor=face)
                text(right, y, f"{over.win:,} / {over.tie:,} / {over.loss:,}", ha="right", color=LIGHT["quiet"])
                y += LINE_IN / 2 * (len(name) - 1)
            lines = [LIGHT["grid" if tick else "zero"] for tick in ticks]
            axes.vlines(ticks, top, y + 0.09, colors=lines, linewidth=0.75, zorder=0)
            y += 0.27
        y -= 0.18
        figure.set_size_inches(PLOT_IN - 0.65, y)
        axes.set(xlim=(ticks[0], ticks[-1]), ylim=(y, 0), yticks=[])
        axes.set_xticks(ticks, [_points(tick) for tick in ticks])
        axes.set_xlabel("points over the baseline, with 95 % interval")
    main = next((arm for arm in arms if arm.name == found.main), arms[0])
    first = main.over[OVERALL]
    return Chart(
        "categories",
        f"Over {found.baseline}, by kind of question",
        f"Difference to {found.baseline} in points, by category. {main.name} on all questions: "
        f"{signed(first.difference)}, interval {signed(first.low)} to {signed(first.high)}.",
        figure,
    )


def abstention(found: Findings) -> Chart | None:
    """How many unanswerable questions stay empty against how many answerable ones; None where none does or could."""
    arms = [arm for arm in found.arms if arm.curve or (arm.now and (arm.now.answerable or arm.now.unanswerable))]
    if not arms:
        return None
    with _style():
        figure, axes = _axes(
            [arm.name for arm in arms], "of the answerable, wrongly left empty", "of the unanswerable, left empty"
        )
        axes.set_xticks((0.0, 0.05, 0.1, 0.15, 0.2), ["0 %", "5 %", "10 %", "15 %", "20 %"])
        _share_axis(axes, 0.0, 1.0)
        axes.axvline(MAX_WRONGLY_EMPTY, color=LIGHT["zero"], linewidth=0.75, linestyle=DASHES[1])
        axes.annotate(
            f"{100 * MAX_WRONGLY_EMPTY:.0f} %",
            (MAX_WRONGLY_EMPTY, 1),
            (3, -3),
            textcoords="offset points",
            va="top",
            color=LIGHT["quiet"],
        )
        looks, ends = styles(found), []
        floors: list[str] = []
        for arm in reversed(arms):
            style = looks[arm.name]
            curve = [(point.answerable, point.unanswerable) for point in arm.curve if point.answerable <= 0.2]
            if len(curve) > 1:
                axes.plot(*zip(*curve, strict=True), color=style.color, linestyle=style.dash)
            if arm.now is not None and arm.now.answerable <= 0.2:
                now = (arm.now.answerable, arm.now.unanswerable)
                axes.plot(*now, color=style.color, marker=style.marker, clip_on=False)
                ends.append((arm.name, *(curve[-1] if len(curve) > 1 else now)))
            if (best := best_allowed_floor(arm.curve)) is not None:
                floors.insert(0, f"{arm.name} could leave {percent(best.unanswerable)} empty")
        _name_ends(figure, axes, ends, looks)
    text = "Marks are the arms as they are."
    if floors:
        text += (
            f" With a floor that costs at most {100 * MAX_WRONGLY_EMPTY:.0f} % of the answerable, {'; '.join(floors)}."
        )
    return Chart(
        "abstention",
        "Knowing when to say nothing",
        f"Share of unanswerable questions that get an empty block, by the share of answerable ones that do. {text}",
        figure,
    )


def contribution(figures: Contribution) -> Chart:
    """Each backend's Shapley value, and what dropping it costs."""
    names = sorted(figures.shapley, key=lambda name: -figures.shapley[name])
    values = [*figures.shapley.values(), *figures.leave_one_out.values()]
    ticks = _ticks(min(0.0, *values), max(0.0, *values), 4)
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(PLOT_IN + 0.4, 0.42 * len(names)))
        axes = figure.add_axes((0, 0, 1, 1))
        rows = range(len(names))
        for offset, label, by_backend, face in (
            (-0.18, "fair share (Shapley)", figures.shapley, LIGHT["quiet"]),
            (0.18, "lost without it", figures.leave_one_out, LIGHT["page"]),
        ):
            bars = axes.barh(
                [row + offset for row in rows],
                [by_backend[name] for name in names],
                height=0.28,
                label=label,
                facecolor=face,
                edgecolor=LIGHT["quiet"],
            )
            axes.bar_label(bars, [signed(by_backend[name]) for name in names], padding=4)
        axes.set_yticks(rows, ["\n".join(wrapped(name, NAME_CHARS)) for name in names], color=LIGHT["text"])
        axes.set_xticks(ticks, [_points(tick) for tick in ticks])
        axes.set(xlim=(ticks[0], ticks[-1]), ylim=(len(names) - 0.5, -0.5), xlabel="points of the evidence found")
        axes.grid(axis="x", clip_on=False)
        axes.axvline(0, color=LIGHT["zero"], linewidth=0.75)
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, frameon=False, labelcolor=LIGHT["quiet"]
        )
    most = names[0]
    return Chart(
        "contribution",
        "What each backend contributes",
        f"Shapley value and leave-one-out loss of {len(names)} backends. Largest share: {most}, "
        f"{signed(figures.shapley[most])} points.",
        figure,
    )


# What the charts share -------------------------------------------------------------------------------------------


@contextmanager
def _style() -> Iterator[None]:
    from matplotlib import rc_context

    with rc_context(STYLE), warnings.catch_warnings():
        # The PNG draws a name in a script that the font lacks as boxes; the page has it right.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        yield


def _axes(names: Sequence[str], x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """Axes with horizontal grid lines, high enough for all names at the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PLOT_IN, max(2.2, 0.1 + sum(map(_height_in, names)))))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.grid(axis="y", clip_on=False)
    axes.set_xlabel(x_label)
    axes.set_title(y_label, loc="left", size=FONT_PT, color=LIGHT["quiet"], x=-0.21, pad=10)
    return figure, axes


def _share_axis(axes: Axes, low: float, high: float) -> None:
    """Round ticks in per cent that enclose the shares; a flat line is drawn in the middle, and not as if it rose."""
    if high - low < 0.01:
        low, high = max(0.0, low - 0.05), min(1.0, high + 0.05)
    ticks = [tick for tick in _ticks(low, high, 5) if -1e-9 <= tick <= 1 + 1e-9]
    axes.set_yticks(ticks, [f"{100 * tick:.4g} %" for tick in ticks])
    axes.set_ylim(ticks[0], ticks[-1])


def _name_ends(
    figure: Figure, axes: Axes, ends: Sequence[tuple[str, float, float]], looks: Mapping[str, Style]
) -> None:
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


def _ticks(low: float, high: float, intervals: int) -> list[float]:
    """Round values that enclose low to high, in about so many steps."""
    from matplotlib.ticker import MaxNLocator

    return [float(tick) for tick in MaxNLocator(intervals, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]


def _points(share: float) -> str:
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
