"""Draws the charts of a report.

No chart speaks by colour alone: series differ in marker and dash too, and their names are at their ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.report.drawing import (
    DASHES,
    LIGHT,
    LINE_IN,
    MARKERS,
    NAME_CHARS,
    PLOT_IN,
    SERIES,
    Chart,
    Style,
    chart_style,
    name_ends,
    named_axes,
    points,
    round_ticks,
    scale_shares,
    wrapped,
)
from benchmarks.report.findings import MAX_WRONGLY_EMPTY, OVERALL, Findings, best_allowed_floor, percent, signed
from benchmarks.report.read import Contribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    drawn = (
        by_budget(found),
        by_characters(found),
        by_latency(found),
        by_category(found),
        abstention(found),
        reliability(found),
    )
    return [chart for chart in drawn if chart is not None]


def by_budget(found: Findings) -> Chart | None:
    """Evidence found against the size of the block; None where there is one size."""
    arms = [arm for arm in found.scored if len(arm.eib) > 1]
    if not arms:
        return None
    with chart_style():
        shares = [share.mean for arm in arms for share in arm.eib.values()]
        figure, axes = named_axes([arm.name for arm in arms], "characters in the block", "of the evidence found")
        axes.set_xticks(found.budgets, [f"{budget:,}" for budget in found.budgets])
        scale_shares(axes, min(shares), max(shares))
        points = {arm.name: [(float(budget), share.mean) for budget, share in sorted(arm.eib.items())] for arm in arms}
        _draw(figure, axes, points, styles(found))
    best = arms[0]
    values = "; ".join(f"{b:,} characters {percent(p.mean)}" for b, p in sorted(best.eib.items()))
    return Chart(
        "budget",
        "Evidence found, by size of the block",
        f"Share of the evidence in the block, by its characters, for {len(arms)} arms. Highest: {best.name}, {values}.",
        figure,
    )


def by_characters(found: Findings) -> Chart | None:
    """Evidence found against the characters that the blocks have, which a cut makes fewer than the budget allows."""
    arms = [arm for arm in found.scored if len(arm.characters) > 1]
    if not arms:
        return None
    with chart_style():
        shares = [share.mean for arm in arms for share in arm.eib.values()]
        figure, axes = named_axes([arm.name for arm in arms], "characters used, on average", "of the evidence found")
        ticks = round_ticks(0.0, max(max(arm.characters.values()) for arm in arms), 4)
        axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axes.set_xlim(0.0, ticks[-1])
        scale_shares(axes, min(shares), max(shares))
        points = {
            arm.name: [(arm.characters[budget], share.mean) for budget, share in sorted(arm.eib.items())]
            for arm in arms
        }
        _draw(figure, axes, points, styles(found))
    values = "; ".join(
        f"{arm.name} {percent(arm.eib[found.full].mean)} in {arm.characters[found.full]:,.0f}" for arm in arms
    )
    return Chart(
        "characters",
        "Evidence found, by characters used",
        "Share of the evidence in the block, by the characters that it has on average, at each budget. At the "
        f"largest: {values}.",
        figure,
    )


def _draw(
    figure: Figure, axes: Axes, points: Mapping[str, Sequence[tuple[float, float]]], looks: Mapping[str, Style]
) -> None:
    """Draws a line for each arm, the first one on top, and writes its name at its end."""
    behind_first = [*points.items()][::-1]
    for name, line in behind_first:
        style = looks[name]
        axes.plot(*zip(*line, strict=True), color=style.color, marker=style.marker, linestyle=style.dash, clip_on=False)
    name_ends(figure, axes, [(name, *line[-1]) for name, line in behind_first], looks)


def by_latency(found: Findings) -> Chart | None:
    """Evidence found against time taken; None where no time was measured."""
    timed = [(arm, arm.latency) for arm in found.scored if arm.latency is not None]
    if not timed:
        return None
    with chart_style():
        shares = [arm.eib[found.full].mean for arm, _ in timed]
        names = [arm.name for arm, _ in timed]
        figure, axes = named_axes(names, "milliseconds, median and 5 to 95 %", "of the evidence found")
        slowest = max(latency.p95 for _, latency in timed) or 1.0
        ticks = round_ticks(0.0, slowest, 4)
        axes.set_xticks(ticks, [f"{tick:,.4g}" for tick in ticks])
        axes.set_xlim(-0.03 * ticks[-1], 1.03 * ticks[-1])
        scale_shares(axes, min(shares), max(shares))
        looks, ends = styles(found), []
        for arm, latency in reversed(timed):
            share, style = arm.eib[found.full].mean, looks[arm.name]
            axes.plot((latency.p5, latency.p95), (share, share), color=style.color, linewidth=1.1, clip_on=False)
            axes.plot(latency.p50, share, color=style.color, marker=style.marker, clip_on=False)
            ends.append((arm.name, latency.p95, share))
        name_ends(figure, axes, ends, looks)
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
    ticks = round_ticks(min(0.0, *(p.low for p in shown)), max(0.0, *(p.high for p in shown)), 3)
    looks = styles(found)
    left, right = -1.5, PLOT_IN - 0.65 + 0.95  # inches from the axes' left end: where names begin, and where counts end
    with chart_style():
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
        axes.set_xticks(ticks, [points(tick) for tick in ticks])
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
    with chart_style():
        figure, axes = named_axes(
            [arm.name for arm in arms], "of the answerable, wrongly left empty", "of the unanswerable, left empty"
        )
        axes.set_xticks((0.0, 0.05, 0.1, 0.15, 0.2), ["0 %", "5 %", "10 %", "15 %", "20 %"])
        scale_shares(axes, 0.0, 1.0)
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
        name_ends(figure, axes, ends, looks)
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


def reliability(found: Findings) -> Chart | None:
    """How many of the memories help that were said to help with a probability; None without probabilities."""
    arms = [arm for arm in found.scored if arm.reliability]
    if not arms:
        return None
    with chart_style():
        names = [arm.name for arm in arms]
        figure, axes = named_axes(names, "probability that a memory helps", "of these memories help")
        axes.set_xticks((0.0, 0.25, 0.5, 0.75, 1.0), ["0 %", "25 %", "50 %", "75 %", "100 %"])
        scale_shares(axes, 0.0, 1.0)
        axes.plot((0, 1), (0, 1), color=LIGHT["zero"], linewidth=0.75, linestyle=DASHES[1])
        points = {arm.name: [(group.probability, group.helps) for group in arm.reliability] for arm in arms}
        _draw(figure, axes, points, styles(found))
    first = arms[0]
    most = max(first.reliability, key=lambda group: group.probability)
    return Chart(
        "reliability",
        "Do probabilities hold?",
        "Share of the memories that are evidence, by the probability that they help; on the dashed line both are the "
        f"same. Of the {most.size:,} most probable of {first.name}, said to help with {percent(most.probability)}, "
        f"{percent(most.helps)} do.",
        figure,
    )


def contribution(figures: Contribution) -> Chart:
    """Each backend's Shapley value, and what dropping it costs."""
    names = sorted(figures.shapley, key=lambda name: -figures.shapley[name])
    values = [*figures.shapley.values(), *figures.leave_one_out.values()]
    ticks = round_ticks(min(0.0, *values), max(0.0, *values), 4)
    with chart_style():
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
        axes.set_xticks(ticks, [points(tick) for tick in ticks])
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
