"""The charts, each drawn once as a list of marks, which a page shows as SVG and a PNG as pixels.

Positions are in a box of `WIDTH` units, y downwards: small enough that its text can still be read on a phone. No chart
speaks by colour alone: series have shapes and dashes, and their names stand beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Literal

from benchmarks.report.findings import ALLOWED, OVERALL, Arm, Findings, allowed, percent, signed
from benchmarks.report.read import Contribution
from fusion.compare.verdict import Paired

WIDTH = 400.0
TEXT = 13.0
"""units a line of text is high"""
LINE = 14.0
"""units from one line of text to the next"""
NAME = 20
"""characters in a line of a series' name"""
NAMES = 153.0
"""units that are kept for the names of series"""

Shape = Literal["dot", "square", "triangle", "diamond", "cross"]
Anchor = Literal["start", "middle", "end"]
Ink = str
"""what a mark is drawn with, for the renderer to colour: text, quiet, grid, zero, plain, or s0 to s5"""

SHAPES: tuple[Shape, ...] = ("dot", "square", "triangle", "diamond")
DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 3), (9, 3, 2, 3))
COLOURS = 6


@dataclass(frozen=True, slots=True)
class Line:
    points: tuple[tuple[float, float], ...]
    ink: Ink
    width: float = 2.0
    dash: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    ink: Ink
    shape: Shape = "dot"
    hollow: bool = False
    """it may be chance: an interval holds 0"""
    size: float = 4.5
    """half its width"""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    ink: Ink


@dataclass(frozen=True, slots=True)
class Text:
    x: float
    y: float
    text: str
    ink: Ink = "text"
    anchor: Anchor = "start"
    bold: bool = False


Mark = Line | Point | Bar | Text


@dataclass(frozen=True, slots=True)
class Chart:
    """``says`` is what the picture shows, in words."""

    name: str
    title: str
    says: str
    height: float
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Style:
    ink: Ink
    shape: Shape
    dash: tuple[float, ...]


def styles(found: Findings) -> dict[str, Style]:
    """How each arm looks, in all charts alike: no two of 24 share colour and shape. The baseline is plain."""
    out = {}
    others = [arm.name for arm in found.arms if arm.name != found.baseline]
    for i, name in enumerate(others):
        turn, colour = divmod(i, COLOURS)
        out[name] = Style(f"s{colour}", SHAPES[(colour + turn) % len(SHAPES)], DASHES[turn % len(DASHES)])
    if found.baseline is not None:
        out[found.baseline] = Style("plain", "cross", (4, 3))
    return out


def charts(found: Findings) -> list[Chart]:
    """Those that the rows are enough for."""
    drawn = (by_budget(found), by_latency(found), by_category(found), abstention(found))
    return [chart for chart in drawn if chart is not None]


# The charts ------------------------------------------------------------------------------------------------------


def by_budget(found: Findings) -> Chart | None:
    """Evidence found against the size of the block; None where there is one size."""
    arms = [arm for arm in found.scored if len(arm.eib) > 1]
    if not arms:
        return None
    shares = [p for arm in arms for p in arm.eib.values()]
    frame = _Frame.of(
        (min(found.budgets), max(found.budgets)),
        (min(p.mean for p in shares), max(p.mean for p in shares)),
        [arm.name for arm in arms],
        ticks=found.budgets,
        x_text=lambda x: f"{x:,.0f}",
        x_title="characters in the block",
    )
    look = styles(found)
    marks: list[Mark] = frame.grid()
    for arm in reversed(arms):
        style = look[arm.name]
        places = [(frame.x(b), frame.y(p.mean)) for b, p in sorted(arm.eib.items())]
        marks.append(Line(tuple(places), style.ink, dash=style.dash))
        for (x, y), (budget, share) in zip(places, sorted(arm.eib.items()), strict=True):
            tip = f"{arm.name}: {percent(share.mean)} in {budget:,} characters"
            marks.append(Point(x, y, style.ink, style.shape, tip=tip))
    ends = [(arm.name, frame.x(max(arm.eib)), frame.y(arm.eib[max(arm.eib)].mean)) for arm in arms]
    marks += frame.names(ends, look)
    first = arms[0]
    says = "; ".join(f"{b:,} characters {percent(p.mean)}" for b, p in sorted(first.eib.items()))
    return Chart(
        "budget",
        "Evidence found, by size of the block",
        f"Share of the evidence in the block, by its characters, for {len(arms)} arms. Highest: {first.name}, {says}.",
        frame.height,
        tuple(marks),
    )


def by_latency(found: Findings) -> Chart | None:
    """Evidence found against time taken; None where none was."""
    timed = [(arm, arm.latency) for arm in found.scored if arm.latency is not None]
    if not timed:
        return None
    shares = [arm.eib[found.full].mean for arm, _ in timed]
    slowest = max(latency.p95 for _, latency in timed) or 1.0
    frame = _Frame.of(
        (0.0, slowest),
        (min(shares), max(shares)),
        [arm.name for arm, _ in timed],
        ticks=_nice(0.0, slowest, 3),
        x_text=lambda x: f"{x:,.4g}",
        x_title="milliseconds, median and 5 to 95 %",
    )
    look = styles(found)
    marks: list[Mark] = frame.grid()
    ends = []
    for arm, latency in reversed(timed):
        style, y = look[arm.name], frame.y(arm.eib[found.full].mean)
        marks.append(Line(((frame.x(latency.p5), y), (frame.x(latency.p95), y)), style.ink, 1.5))
        tip = f"{arm.name}: p50 {latency.p50:,.1f} ms, p95 {latency.p95:,.1f} ms"
        marks.append(Point(frame.x(latency.p50), y, style.ink, style.shape, tip=tip))
        ends.append((arm.name, frame.x(latency.p95), y))
    marks += frame.names(ends, look)
    quick, took = min(timed, key=lambda pair: pair[1].p50)
    left_out = len(found.scored) - len(timed)
    says = f"Quickest: {quick.name}, {took.p50:,.1f} ms at the median."
    if left_out:
        says += f" {left_out} arm{'s' * (left_out > 1)} without a latency: none was taken."
    return Chart(
        "latency",
        "Evidence found, by time taken",
        f"Share of the evidence in {found.full:,} characters, by latency, for {len(timed)} arms. {says}",
        frame.height,
        tuple(marks),
    )


def by_category(found: Findings) -> Chart | None:
    """Each arm over the baseline, with its interval, by category; None without a baseline."""
    arms = [arm for arm in found.scored if arm.over]
    if not arms:
        return None
    left, right, row = NAMES, 312.0, 19.0
    groups = [OVERALL, *(c for c in found.categories if any(c in arm.over for arm in arms))]
    shown = [arm.over[g] for g in groups for arm in arms if g in arm.over]
    ticks = _nice(min(0.0, *(p.low for p in shown)), max(0.0, *(p.high for p in shown)), 3)
    low, high = ticks[0], ticks[-1]

    def x(share: float) -> float:
        return left + (share - low) / (high - low) * (right - left)

    look = styles(found)
    marks: list[Mark] = [Text(WIDTH, 12, "won / even / lost", "quiet", "end")]
    y = 12.0
    for group in groups:
        members = [(arm, arm.over[group]) for arm in arms if group in arm.over]
        n = max(over.n for _, over in members)
        title = wrapped(f"{group} · {n:,}" if group == OVERALL else f"{group} · {n:,} questions", 36)
        marks += [Text(0, y + i * LINE, line, bold=True) for i, line in enumerate(title)]
        top = at = y + (len(title) - 1) * LINE + 5
        rows: list[Mark] = []
        for arm, over in members:
            rows += _interval(arm, over, look[arm.name], x, at + row - 5)
            at += row + (len(wrapped(arm.name, NAME)) - 1) * LINE
        marks += [Line(((x(t), top), (x(t), at)), "grid" if t else "zero", 1.0) for t in ticks]
        marks += rows
        y = at + 22
    y -= 5
    marks += [Text(x(t), y, points(t), "quiet", "middle") for t in ticks]
    marks.append(Text(WIDTH, y + 17, "points over the baseline, with 95 % interval", "quiet", "end"))
    main = next((arm for arm in arms if arm.name == found.main), arms[0])
    first = main.over[OVERALL]
    return Chart(
        "categories",
        f"Over {found.baseline}, by kind of question",
        f"Difference to {found.baseline} in points, by category. {main.name} on all questions: "
        f"{signed(first.difference)}, interval {signed(first.low)} to {signed(first.high)}.",
        y + 22,
        tuple(marks),
    )


def _interval(arm: Arm, over: Paired, style: Style, x: Callable[[float], float], y: float) -> list[Mark]:
    """One arm's row, from its first line on: a hollow mark says that the interval holds 0."""
    sure = over.low > 0 or over.high < 0
    tip = f"{arm.name}: {signed(over.difference)} points, {signed(over.low)} to {signed(over.high)}"
    middle = y - TEXT / 3
    return [
        *(Text(8, y + i * LINE, line, style.ink) for i, line in enumerate(wrapped(arm.name, NAME))),
        Line(((x(over.low), middle), (x(over.high), middle)), style.ink, 1.5),
        Point(x(over.difference), middle, style.ink, style.shape, not sure, tip=tip),
        Text(WIDTH, y, f"{over.win:,} / {over.tie:,} / {over.loss:,}", "quiet", "end"),
    ]


def abstention(found: Findings) -> Chart | None:
    """How many unanswerable questions stay empty against how many answerable ones; None where none does or could."""
    arms = [arm for arm in found.arms if arm.curve or (arm.now and (arm.now.answerable or arm.now.unanswerable))]
    if not arms:
        return None
    look = styles(found)
    frame = _Frame.of(
        (0.0, 0.2), (0.0, 1.0), [arm.name for arm in arms], ticks=(0.0, 0.05, 0.1, 0.15, 0.2), x_text=percent_tick,
        x_title="of the answerable, wrongly left empty", y_title="of the unanswerable, left empty",
    )  # fmt: skip
    marks: list[Mark] = frame.grid()
    edge = frame.x(ALLOWED)
    marks += [
        Line(((edge, frame.top), (edge, frame.bottom)), "zero", 1.0, (4, 3)),
        Text(edge + 4, frame.top + 10, f"{100 * ALLOWED:.0f} %", "quiet"),
    ]
    ends, said = [], []
    for arm in arms:
        style = look[arm.name]
        inside = [point for point in arm.curve if point.answerable <= 0.2]
        if len(inside) > 1:
            places = tuple((frame.x(p.answerable), frame.y(p.unanswerable)) for p in inside)
            marks.append(Line(_thinned(places), style.ink, dash=style.dash))
        here = arm.now
        if here is not None and here.answerable <= 0.2:
            tip = f"{arm.name} as it is: {percent(here.unanswerable)} and {percent(here.answerable)}"
            spot = (frame.x(here.answerable), frame.y(here.unanswerable))
            marks.append(Point(*spot, style.ink, style.shape, tip=tip))
            last = inside[-1] if len(inside) > 1 else here
            ends.append((arm.name, frame.x(last.answerable), frame.y(last.unanswerable)))
        if (best := allowed(arm.curve)) is not None:
            said.append(f"{arm.name} could leave {percent(best.unanswerable)} empty")
    marks += frame.names(ends, look)
    text = "Marks are the arms as they are."
    if said:
        text += f" With a floor that costs at most {100 * ALLOWED:.0f} % of the answerable, {'; '.join(said)}."
    return Chart(
        "abstention",
        "Knowing when to say nothing",
        f"Share of unanswerable questions that get an empty block, by the share of answerable ones that do. {text}",
        frame.height,
        tuple(marks),
    )


def contribution(told: Contribution) -> Chart:
    """Each backend's Shapley value, what dropping it costs, and what it has alone."""
    left, right = 84.0, WIDTH - 44
    kinds = (("fair share (Shapley)", told.shapley, 13.0), ("lost without it", told.leave_one_out, 5.0))
    values = [value for _, by_backend, _ in kinds for value in by_backend.values()]
    ticks = _nice(min(0.0, *values), max(0.0, *values), 4)
    low, high = ticks[0], ticks[-1]

    def x(share: float) -> float:
        return left + (share - low) / (high - low) * (right - left)

    marks: list[Mark] = []
    y = 8.0
    for title, _, thick in kinds:
        marks += [Bar(left, y + (13 - thick) / 2, 14, thick, "quiet"), Text(left + 20, y + 11, title, "quiet")]
        y += 17
    y += 10
    top = y - 6
    bars: list[Mark] = []
    for name in sorted(told.shapley, key=lambda n: -told.shapley[n]):
        lines = wrapped(name, 11)
        first = y + (18 if len(lines) == 1 else 11)
        bars += [Text(left - 8, first + i * LINE, line, anchor="end") for i, line in enumerate(lines)]
        for place, (_, by_backend, thick) in enumerate(kinds):
            value, at = by_backend[name], y + 15 * place
            start, end = sorted((x(0), x(value)))
            bars.append(Bar(start, at + (13 - thick) / 2, max(end - start, 0.5), thick, "quiet"))
            bars.append(Text(end + 5, at + 11, signed(value), "text"))
        y += max(40.0, LINE * len(lines) + 10)
    for tick in ticks:
        marks.append(Line(((x(tick), top), (x(tick), y)), "zero" if tick == 0 else "grid", 1.0))
        marks.append(Text(x(tick), y + 15, points(tick), "quiet", "middle"))
    marks.append(Text((left + right) / 2, y + 32, "points of the evidence found", "quiet", "middle"))
    most = max(told.shapley, key=lambda n: told.shapley[n])
    return Chart(
        "contribution",
        "What each backend contributes",
        f"Shapley value and leave-one-out loss of {len(told.shapley)} backends. Largest share: {most}, "
        f"{signed(told.shapley[most])} points.",
        y + 38,
        (*marks, *bars),
    )


# What they are made of -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Frame:
    """Two axes; y is a share. The names of series stand at the right."""

    xs: tuple[float, float]
    ys: tuple[float, ...]
    ticks: tuple[float, ...]
    x_text: Callable[[float], str]
    x_title: str
    y_title: str
    height: float
    left: float = 40.0
    right: float = WIDTH - NAMES
    top: float = 24.0

    @classmethod
    def of(
        cls,
        xs: tuple[float, float],
        ys: tuple[float, float],
        names: Sequence[str],
        *,
        ticks: Sequence[float],
        x_text: Callable[[float], str],
        x_title: str,
        y_title: str = "of the evidence found",
    ) -> _Frame:
        if ys[1] - ys[0] < 0.01:  # a flat line is drawn in the middle, and not as if it rose
            ys = (max(0.0, ys[0] - 0.05), min(1.0, ys[1] + 0.05))
        shares = tuple(t for t in _nice(*ys, 5) if -1e-9 <= t <= 1 + 1e-9)
        low, high = min(xs[0], *ticks), max(xs[1], *ticks)
        tall = 70 + sum(_tall(name) for name in names)
        return cls((low, high), shares, tuple(ticks), x_text, x_title, y_title, max(280.0, tall))

    @property
    def bottom(self) -> float:
        return self.height - 38

    def x(self, value: float) -> float:
        low, high = self.xs
        inner = 10.0  # a mark on the edge is whole
        return self.left + inner + (value - low) / ((high - low) or 1.0) * (self.right - self.left - 2 * inner)

    def y(self, share: float) -> float:
        low, high = self.ys[0], self.ys[-1]
        return self.bottom - (share - low) / ((high - low) or 1.0) * (self.bottom - self.top)

    def grid(self) -> list[Mark]:
        marks: list[Mark] = [Text(0, 10, self.y_title, "quiet")]
        for share in self.ys:
            marks.append(Line(((self.left, self.y(share)), (self.right, self.y(share))), "grid", 1.0))
            marks.append(Text(self.left - 6, self.y(share) + 4, percent_tick(share), "quiet", "end"))
        marks += [Text(self.x(t), self.bottom + 17, self.x_text(t), "quiet", "middle") for t in self.ticks]
        marks.append(Text((self.left + self.right) / 2, self.height - 4, self.x_title, "quiet", "middle"))
        return marks

    def names(self, ends: Sequence[tuple[str, float, float]], look: dict[str, Style]) -> list[Mark]:
        """Each series' name beside its end, moved apart where they would cover each other, with a line to it."""
        ordered = sorted(ends, key=lambda end: end[2])
        places = apart([end[2] for end in ordered], [_tall(end[0]) for end in ordered], 0.0, self.bottom + 8)
        marks: list[Mark] = []
        for (name, x, y), at in zip(ordered, places, strict=True):
            style, lines = look[name], wrapped(name, NAME)
            top = at + 4.5 - (len(lines) - 1) * LINE / 2
            marks.append(Line(((x + 6, y), (self.right, at), (self.right + 6, at)), style.ink, 0.75, (1, 2)))
            marks.append(Point(self.right + 13, at, style.ink, style.shape, size=4))
            marks += [Text(self.right + 21, top + i * LINE, line, style.ink) for i, line in enumerate(lines)]
        return marks


def _tall(name: str) -> float:
    """Units that a series' name takes, and what keeps it from the next."""
    return LINE * len(wrapped(name, NAME)) + 3


def apart(places: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Ascending middles of so high things, moved as little as need be that none covers another, within bounds if they
    fit."""
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


def _thinned(places: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Without the points that no eye could tell from those before them."""
    kept = [places[0]]
    for place in places[1:]:
        if abs(place[0] - kept[-1][0]) + abs(place[1] - kept[-1][1]) > 0.5:
            kept.append(place)
    return tuple(kept)


def _nice(low: float, high: float, most: int) -> tuple[float, ...]:
    """At most ``most`` + 2 round ticks that enclose low to high."""
    span = (high - low) or 0.1
    step = 10 ** floor(log10(span / most))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if span / (step * factor) <= most)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return tuple(round(i * step, 10) for i in range(first, max(last, first + 1) + 1))


def points(share: float) -> str:
    """Of a tick, as short as it can be: half a dozen stand side by side."""
    return f"{100 * share:+.4g}".replace("-", "−") if share else "0"


def percent_tick(share: float) -> str:
    return f"{100 * share:.4g} %"


def wrapped(name: str, most: int) -> list[str]:
    """A name whole, in lines of at most so many characters, parted where its own parts begin if they are that short."""
    lines = [""]
    for part in re.findall(r"[ @+(]*[^ @+(]*", " ".join(name.split())):
        if lines[-1] and len(lines[-1] + part) > most:
            lines.append("")
            part = part.lstrip()
        *whole, last = [(lines[-1] + part)[i : i + most] for i in range(0, max(1, len(lines[-1] + part)), most)]
        lines[-1:] = [*whole, last]
    return lines
