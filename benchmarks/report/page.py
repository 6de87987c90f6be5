"""Makes the page of a report: one HTML file that requests nothing over the network and runs only its own script.

Names and texts come from memories, which anyone may have written: names are escaped in the markup, and the texts of
questions are in a JSON island that the script reads and shows as text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

import orjson

from benchmarks.report.drawing import Chart
from benchmarks.report.findings import (
    MAX_CASES,
    MAX_WRONGLY_EMPTY,
    OVERALL,
    Arm,
    Case,
    Findings,
    Share,
    best_allowed_floor,
    headline,
    percent,
    signed,
)
from benchmarks.report.read import Contribution
from fusion.compare.verdict import RESAMPLES, Paired

FOLDER = Path(__file__).parent

MEANING = {
    "Evidence found (EIB)": """
        Of the memories that hold a question's answer, the share that is in the block which the agent gets; then
        the mean over questions. It looks at what is delivered, not at what was ranked.""",
    "Interval": f"""
        95 % of the means of {RESAMPLES:,} redraws of the questions, with replacement (percentile bootstrap). Against
        the baseline the differences, question by question, are redrawn. Where it holds 0, chance will do as an
        explanation, and the mark is hollow; a full mark, or ▲ and ▼, says that it does not. Each interval is of one
        comparison: among many arms and kinds of question some leave out 0 by luck. Questions are taken as independent
        of each other, also those about the same conversation.""",
    "Won, even, lost": """
        Questions on which an arm has more of the evidence in its block than the baseline, as much, or less.""",
    "Latency": """
        The line goes from 5 % to 95 % of the answers, the mark is the median. A replayed arm took what its slowest
        backend took when it was recorded, plus ranking and packing.""",
    "Left empty": f"""
        Questions that got an empty block. For one without an answer in memory that is right; for another it is an
        error, and a floor should cost at most {100 * MAX_WRONGLY_EMPTY:.0f} % of those. The curve has every floor that
        could be set on the best candidate's score; the mark is the arm as it is.""",
    "Probability": """
        That a memory helps to answer the question, as the answer says. The curve has the first 50 memories of each
        question, in groups of like probability; a group above the dashed line helps more often than it was said to.""",
    "Fair share (Shapley)": """
        What a backend adds on average over all orders in which the backends could join. “Lost without it” is what the
        others cannot make up for.""",
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """One data set with its charts."""

    found: Findings
    charts: tuple[Chart, ...]


def page(sets: Sequence[Drawn], shares: tuple[Contribution, Chart] | None, files: Sequence[str], made: date) -> str:
    """The whole file, ready to be written as UTF-8."""
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    several = len(sets) > 1
    cases = [case for one in sets for case in one.found.cases]
    title = "Recall report: " + ", ".join(one.found.dataset for one in sets)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    rows = sum(arm.questions for one in sets for arm in one.found.arms)
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_text(title)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        '<a class="skip" href="#questions">To the questions one by one</a>',
        '<header class="top">',
        f"<h1>{_text(title)}</h1>",
        *(f'<p class="headline">{_text(_prefixed(one.found, several))}</p>' for one in sets),
        f'<p class="made">Made on {made.isoformat()} of {rows:,} answers in {_text(", ".join(files))}.</p>',
        _navigation(sets, shares is not None),
        "</header>",
        "<main>",
        *(_dataset(one, i, several) for i, one in enumerate(sets)),
        _contribution(*shares) if shares else "",
        _questions(sets, cases),
        _meaning(),
        "</main>",
        "<footer>Every figure and text of this page is inside it; it asks for nothing over the network.</footer>",
        f'<script type="application/json" id="data">{_island(sets, cases)}</script>',
        f"<script>{script}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _prefixed(found: Findings, several: bool) -> str:
    return f"{found.dataset}: {headline(found)}" if several else headline(found)


def _navigation(sets: Sequence[Drawn], shares: bool) -> str:
    links = [(f"set-{i}", one.found.dataset if len(sets) > 1 else "The arms") for i, one in enumerate(sets)]
    links += [("contribution", "What each backend contributes")] * shares
    links += [("questions", "Question by question"), ("meaning", "What the figures mean")]
    items = "".join(f'<li><a href="#{anchor}">{_text(name)}</a></li>' for anchor, name in links)
    return f'<nav aria-label="Sections"><ul>{items}</ul></nav>'


# One data set ----------------------------------------------------------------------------------------------------


def _dataset(drawn: Drawn, place: int, several: bool) -> str:
    found = drawn.found
    title = found.dataset if several else "The arms"
    figures = [_figure(chart, f"set-{place}-{chart.name}") for chart in drawn.charts]
    missing = []
    if found.baseline is None and len(found.arms) == 1:
        missing.append("One arm alone: there is nothing to compare it with. Measure another one too (--arms).")
    elif found.baseline is None:
        missing.append("None of its arms is the baseline: nothing is compared.")
    if all(arm.now is None for arm in found.arms):
        missing.append("No question is unanswerable: abstaining cannot be judged.")
    if not found.alike:
        missing.append(
            "The arms were not all asked the same questions: their shares are of those that each was asked, "
            "differences of those that both were."
        )
    return "\n".join(
        [
            f'<section id="set-{place}" aria-labelledby="set-{place}-title">',
            f'<h2 id="set-{place}-title">{_text(title)}</h2>',
            _arms(found, place),
            *(f'<p class="note">{_text(note)}</p>' for note in missing),
            f'<div class="charts">{"".join(figures)}</div>' if figures else "",
            _by_category(found, place),
            "</section>",
        ]
    )


def _arms(found: Findings, place: int) -> str:
    arms = [*found.scored, *(arm for arm in found.arms if found.full not in arm.eib)]
    compared = any(arm.over for arm in arms)
    timed = any(arm.latency for arm in arms)
    abstaining = any(arm.now for arm in arms)
    heads = ["arm"]
    heads += ["questions<small>that count</small>"] * (not found.alike)
    heads += [f"evidence in {budget:,}<small>share, 95 % interval</small>" for budget in reversed(found.budgets)]
    heads += ["all of it<small>share of questions</small>"]
    if compared:
        heads += [f"over {_text(found.baseline or '')}<small>points, won / even / lost</small>"]
    heads += ["p50 / p95<small>ms</small>"] * timed
    heads += ["left empty<small>unanswerable / answerable</small>"] * abstaining
    lines = []
    for arm in arms:
        kind = ' class="baseline"' if arm.name == found.baseline else ""
        cells = [f"{arm.questions:,}"] * (not found.alike)
        cells += [_share(arm.eib.get(budget)) for budget in reversed(found.budgets)]
        cells += [percent(arm.whole) if arm.whole is not None else "–"]
        if compared:
            over = arm.over.get(OVERALL)
            cells += [_over(over) if over else "baseline" if arm.name == found.baseline else "–"]
        if timed:
            cells += [f"{arm.latency.p50:,.1f} / {arm.latency.p95:,.1f}" if arm.latency else "–"]
        if abstaining:
            cells += [_emptied(arm)]
        made = f"{arm.recipe} {arm.recipe_hash}" if arm.recipe_hash else "a plain baseline"
        about = " · ".join(filter(None, [" + ".join(arm.backends), made]))
        name = f'<th scope="row"><bdi>{_name(arm.name)}</bdi><small>{_text(about)}</small></th>'
        lines.append(f"<tr{kind}>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    n = max((arm.questions for arm in arms), default=0)
    counted = f"{n:,} question{'s' * (n != 1)} that count" if found.alike else "not all asked the same questions"
    caption = f"{len(arms)} arm{'s' * (len(arms) != 1)}, {counted}; the best first"
    return _table(heads, lines, caption, f"Arms of {found.dataset}", place)


def _share(share: Share | None) -> str:
    if share is None:
        return "–"
    return f"{percent(share.mean)}<small>{100 * share.low:.1f} to {100 * share.high:.1f}</small>"


def _over(over: Paired) -> str:
    tone, sign = ("good", "▲ ") if over.low > 0 else ("bad", "▼ ") if over.high < 0 else ("", "")
    interval = f"<small>{signed(over.low)} to {signed(over.high)}</small>"
    counts = f"<small>{over.win:,} / {over.tie:,} / {over.loss:,}</small>"
    return f'<span class="{tone}">{sign}{signed(over.difference)}</span>{interval}{counts}'


def _emptied(arm: Arm) -> str:
    if arm.now is None:
        return "–"
    text = f"{percent(arm.now.unanswerable)} / {percent(arm.now.answerable)}"
    if (best := best_allowed_floor(arm.curve)) is not None:
        text += f"<small>by floor: {percent(best.unanswerable)} / {percent(best.answerable)}</small>"
    return text


def _by_category(found: Findings, place: int) -> str:
    """The figures of the chart by category, for who reads tables, or hears them."""
    arms = [arm for arm in found.scored if arm.over]
    if not arms:
        return ""
    lines = []
    for category in (OVERALL, *found.categories):
        name = f'<th scope="row"><bdi>{_text(category)}</bdi></th>'
        cells = []
        for arm in arms:
            over = arm.over.get(category)
            cells.append(f"<td>{_over(over) if over else '–'}</td>")
        lines.append(f"<tr>{name}{''.join(cells)}</tr>")
    caption = f"Points over {found.baseline}, their 95 % interval, and questions won / even / lost"
    heads = ["kind of question", *(f"<bdi>{_name(arm.name)}</bdi>" for arm in arms)]
    table = _table(heads, lines, caption, f"Kinds of question of {found.dataset}", f"{place}-kinds")
    return f"<details><summary>The kinds of question as a table</summary>{table}</details>"


def _table(heads: Sequence[str], lines: Sequence[str], caption: str, label: str, name: object) -> str:
    row = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{_text(label)}" id="table-{name}">'
        f"<table><caption>{_text(caption)}</caption><thead><tr>{row}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _figure(chart: Chart, name: str) -> str:
    """The chart in the light and the dark colours; its description is the caption."""
    light, dark = (f"data:image/svg+xml;base64,{base64.b64encode(chart.svg(dark=d)).decode()}" for d in (False, True))
    size = "tall" if chart.is_tall else "short"
    return (
        f'<figure class="{size}"><h3>{_text(chart.title)}</h3>'
        f'<picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img class="chart" src="{light}" alt="{_text(chart.title)}" aria-describedby="{name}-caption"></picture>'
        f'<figcaption id="{name}-caption">{_text(chart.description)}</figcaption></figure>'
    )


# The backends ----------------------------------------------------------------------------------------------------


def _contribution(shares: Contribution, chart: Chart) -> str:
    lines = []
    for name in sorted(shares.shapley, key=lambda n: -shares.shapley[n]):
        saved = shares.saves_ms[name]
        cells = [signed(shares.shapley[name]), signed(shares.leave_one_out[name]), percent(shares.alone[name])]
        cells.append("–" if saved is None else f"{saved:,.0f}".replace("-", "−"))
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row"><bdi>{_text(name)}</bdi></th>{row}</tr>')
    heads = [
        "backend",
        "fair share<small>points, Shapley</small>",
        "lost without it<small>points</small>",
        "alone<small>evidence found</small>",
        "saved without it<small>ms</small>",
    ]
    caption = f"{shares.dataset}, {shares.n:,} questions; all together find {percent(shares.eib_frac)} of the evidence"
    table = _table(heads, lines, caption, "Backends", "backends")
    verdicts = "".join(f"<li>{_text(sentence[:1].upper() + sentence[1:])}.</li>" for sentence in shares.verdicts)
    return "\n".join(
        [
            '<section id="contribution" aria-labelledby="contribution-title">',
            '<h2 id="contribution-title">What each backend contributes</h2>',
            f"<ul>{verdicts}</ul>" if verdicts else "",
            f'<div class="charts beside">{_figure(chart, "contribution-chart")}{table}</div>',
            "</section>",
        ]
    )


# The questions ---------------------------------------------------------------------------------------------------


def _questions(sets: Sequence[Drawn], cases: Sequence[Case]) -> str:
    title = '<h2 id="questions">Question by question</h2>'
    if not cases:
        return f"<section>{title}<p>No arm missed anything, and none differs from its baseline.</p></section>"
    shown = min(len(cases), MAX_CASES)
    note = "Questions on which an arm missed evidence, or differed from the baseline; what was lost against it first."
    if shown < len(cases):
        note += f" The first {shown:,} of {len(cases):,} are here; the rows have them all."
    outcomes = {case.outcome for case in cases[:shown]}
    first = next((one.found.main for one in sets if one.found.main != one.found.baseline), "")
    lost = any(c.arm == first and c.outcome == "lost" for c in cases[:shown])
    fields = [
        _select("dataset", "Data set", [(s.found.dataset, s.found.dataset) for s in sets]) if len(sets) > 1 else "",
        _select("arm", "Arm", [(name, name) for name in dict.fromkeys(c.arm for c in cases)], chosen=first),
        _select("category", "Kind of question", [(name, name) for name in sorted({c.category for c in cases})]),
        _select(
            "outcome",
            "Against the baseline",
            [("missed", "any that missed evidence"), *((k, v) for k, v in _OUTCOMES.items() if k in outcomes)],
            chosen="lost" if lost else "missed",
        ),
        '<label>Words in any text<input type="search" name="words" autocomplete="off"></label>',
        '<button type="reset">Reset</button>',
    ]
    return "\n".join(
        [
            "<section>",
            title,
            f'<p class="note">{note}</p>',
            f'<form id="filters" class="filters" role="search" aria-label="Questions">{"".join(fields)}</form>',
            '<p id="count" role="status"></p>',
            '<div id="cases"></div>',
            '<button id="more" type="button" hidden>Show more</button>',
            "<noscript><p>The list of questions needs JavaScript; everything above does not.</p></noscript>",
            "</section>",
        ]
    )


_OUTCOMES = {"lost": "lost", "won": "won", "even": "even, with evidence missed"}


def _select(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str = "") -> str:
    shares = "".join(
        f'<option value="{_text(value)}"{" selected" * (value == chosen)}>{_text(text)}</option>'
        for value, text in options
    )
    return f'<label>{label}<select name="{name}"><option value="">all</option>{shares}</select></label>'


def _island(sets: Sequence[Drawn], cases: Sequence[Case]) -> str:
    """The questions as JSON, each block once. No character in it can end the element around it."""
    baselines = {one.found.dataset: one.found.baseline for one in sets}
    blocks: dict[str, int] = {}
    listed: list[dict[str, Any]] = []
    for case in cases[:MAX_CASES]:
        theirs = case.baseline_block
        listed.append(
            {
                "dataset": _shown(case.dataset),
                "corpus": case.corpus,
                "question": case.question,
                "query": case.query,
                "category": _shown(case.category),
                "arm": _shown(case.arm),
                "baseline": baselines[case.dataset],
                "over": case.over,
                "outcome": case.outcome,
                "block": blocks.setdefault(case.block, len(blocks)),
                "theirs": None if theirs is None else blocks.setdefault(theirs, len(blocks)),
                "evidence": [asdict(gold) for gold in case.evidence],
            }
        )
    data = orjson.dumps({"datasets": len(sets), "blocks": list(blocks), "cases": listed}).decode()
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _meaning() -> str:
    items = "".join(f"<dt>{_text(term)}</dt><dd>{_text(text)}</dd>" for term, text in MEANING.items())
    return f'<section><h2 id="meaning">What the figures mean</h2><dl>{items}</dl></section>'


def _text(text: str) -> str:
    return escape(_shown(text))


def _name(text: str) -> str:
    """An arm's name, which a line may end before a part of."""
    return re.sub("(?=[@+])", "<wbr>", _text(text))


def _shown(text: str) -> str:
    """A name in one line, without the control characters that HTML cannot hold."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
