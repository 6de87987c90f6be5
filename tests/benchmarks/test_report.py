"""`python -m benchmarks report`: from rows to a page and pictures, and the page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from benchmarks.__main__ import main
from benchmarks.report.charts import charts, contribution, styles
from benchmarks.report.drawing import DARK, LIGHT, apart, wrapped
from benchmarks.report.findings import Findings, Floor, best_allowed_floor, findings, headline
from benchmarks.report.read import Contribution, source
from benchmarks.report.read import rows as read_rows

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NASTY = '</script><script>document.title="owned"</script><!-- & "quotes\' \u2028 שלום \u202e 🎉'
TOLD = {
    "dataset": "kitchen scattered",
    "n": 4,
    "eib_frac": 0.75,
    "shapley": {"markdown": 0.5, "mem0": 0.25},
    "alone": {"markdown": 0.5, "mem0": 0.25},
    "leave_one_out": {"markdown": 0.5, "mem0": -0.004},
    "saves_ms": {"markdown": 1.2, "mem0": None},
    "verdicts": ["dropping mem0 gains 0.4 points and saves 30 ms"],
}


def row(arm: str, question: int, found: Sequence[bool], **other: Any) -> dict[str, Any]:
    """A row about kettles; ``found`` says which of the gold is in the block."""
    gold = [f"D1:{i}" for i, _ in enumerate(found, start=1)]
    return {
        "dataset": "kitchen",
        "corpus": "attic",
        "question": question,
        "query": f"Where is kettle {question}?",
        "category": "single" if len(found) == 1 else "multi-evidence",
        "arm": arm,
        "recipe": arm,
        "recipe_hash": "" if arm == "bm25" else "aa11bb22cc33",
        "backends": [] if arm == "bm25" else ["markdown", "mem0"],
        "budget": 6000,
        "block": "\n".join(f"Ada: kettle {question}.{i} is red" for i, hit in enumerate(found, start=1) if hit),
        "members": [],
        "ranked": ["D9:9", *gold],
        "gold": gold,
        "found": list(found),
        "eib": sum(found) / len(found) if found else None,
        "took_ms": 0.0 if arm == "bm25" else 10.0 + question,
        "cpu_ms": 1.0,
        "abstained": False,
        "duplicates": 0,
        "evidence": [f"Ada: kettle {question}.{i} is red" for i, _ in enumerate(found, start=1)],
        "best": None if arm == "bm25" else 0.5,
        **other,
    }


ONE = json.dumps(row("default", 0, [True]))


def kitchen() -> list[dict[str, Any]]:
    """Two arms, four questions that count and one that has no answer, at two budgets."""
    made = []
    for budget in (6000, 1500):
        for arm, found in (
            ("default", [[True], [True, True], [True, False], [False]]),
            ("bm25", [[False], [True, False], [True, True], [False]]),
        ):
            made += [row(arm, q, hits, budget=budget) for q, hits in enumerate(found)]
            made.append(row(arm, 4, [], category="unanswerable", budget=budget, best=0.1 if arm == "default" else None))
    return made


Report = Callable[..., Path]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Reports rows, and gives the page's path."""

    def make(rows: Sequence[Mapping[str, Any]], *more: str) -> Path:
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
        out = tmp_path / "out"
        assert main(["report", str(file), "--out", str(out), "--json", *more]) == 0
        assert not list(out.glob("*.part"))
        return out / "report.html"

    return make


def found_in(rows: Sequence[Mapping[str, Any]], tmp_path: Path, baseline: str | None = None) -> Findings:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(r) for r in rows), encoding="utf-8")
    (one,) = findings(read_rows([source(str(file))]), baseline, lambda steps: None)
    return one


class TestFindings:
    def test_the_figures_are_those_of_the_rows(self, tmp_path: Path) -> None:
        """default (1 + 1 + ½ + 0)/4 = .625, bm25 (0 + ½ + 1 + 0)/4 = .375: 25 points, two won, one lost, one even."""
        one = found_in(kitchen(), tmp_path)
        first, second = one.scored
        assert (one.baseline, first.name, second.name) == ("bm25", "default", "bm25")
        assert (first.eib[6000].mean, second.eib[6000].mean) == (0.625, 0.375)
        over = first.over["all questions"]
        assert (over.difference, over.win, over.tie, over.loss) == (0.25, 2, 1, 1)
        assert second.over == {}
        assert first.whole == 0.5
        assert headline(one).startswith(
            "default finds 62.5 % of the evidence in 6,000 characters, 25.0 points more than bm25 (95 % interval"
        )

    def test_a_difference_that_may_be_chance_is_called_so(self, tmp_path: Path) -> None:
        """One won, one lost: the interval holds 0."""
        rows = [row("a", 0, [True]), row("a", 1, [False]), row("bm25", 0, [False]), row("bm25", 1, [True])]
        assert "it may be chance" in headline(found_in(rows, tmp_path))

    @pytest.mark.feature("… its first sentence is about the main arm", of="losses can be searched and expanded")
    def test_the_headline_is_about_the_main_arm(self, tmp_path: Path) -> None:
        """The first, whoever else is better: ½ of two against 0 of the baseline, where hook has both.

        As the baseline of several it is beside nobody: its own interval is told.
        """
        rows = [row(arm, q, [q < n]) for arm, n in (("default", 1), ("hook", 2), ("bm25", 0)) for q in range(2)]
        one = found_in(rows, tmp_path)
        assert (one.main, one.scored[0].name) == ("default", "hook")
        assert "default finds 50.0 % of the evidence in 6,000 characters, 50.0 points more than bm25" in headline(one)
        told = headline(found_in(rows, tmp_path, "default"))
        assert told.startswith("default finds 50.0 % of the evidence in 6,000 characters (95 % interval ")
        assert told.endswith(", 2 questions).")
        lost = found_in([row("default", 0, [False]), row("bm25", 0, [True])], tmp_path)
        assert "default finds 0.0 % of the evidence in 6,000 characters, 100.0 points fewer than bm25" in headline(lost)

    def test_the_headline_has_no_points_where_all_are_even(self, tmp_path: Path) -> None:
        """Neither wins a question: as much, and nothing of chance."""
        one = found_in([row("default", 0, [True]), row("bm25", 0, [True])], tmp_path)
        assert headline(one).endswith(" characters, as much as bm25, question by question.")

    @pytest.mark.feature(
        "… a report compares only rows of the same questions, and says so", of="benchmarks: a kept home holds"
    )
    def test_arms_that_were_asked_other_questions_are_compared_on_those_of_both(
        self, report: Report, tmp_path: Path
    ) -> None:
        """bm25 was asked question 0 alone, and found it (1.0); default found it too, and one of three others (.5).

        By its own mean bm25 leads by 50 points, on the question of both they are even: only that is said, and each
        arm's count stands in the table.
        """
        rows = [row("default", q, [q in (0, 1)]) for q in range(4)] + [row("bm25", 0, [True])]
        told = headline(found_in(rows, tmp_path))
        assert told == (
            "The arms were not all asked the same questions. Of the 1 that both were asked, default finds as much as "
            "bm25, question by question."
        )
        text = report(rows).read_text(encoding="utf-8")
        assert ("<td>4</td>" in text, "<td>1</td>" in text, "not all asked the same questions" in text) == (True,) * 3
        apart = [row("default", 1, [True]), row("bm25", 0, [True])]
        told = headline(found_in(apart, tmp_path))
        assert told.endswith(": default shares none that counts with the baseline bm25.")

    def test_losses_come_first_with_the_missed_evidence_and_its_rank(self, tmp_path: Path) -> None:
        """default lost question 2 by half: D1:2 stood at rank 3, and the baseline had it."""
        case = found_in(kitchen(), tmp_path).cases[0]
        assert (case.arm, case.question, case.over, case.outcome) == ("default", 2, -0.5, "lost")
        hit, miss = case.evidence
        assert (hit.found, miss.found, miss.baseline, miss.rank) == (True, False, True, 3)
        assert miss.text == "Ada: kettle 2.2 is red"

    def test_the_curve_has_every_floor(self, tmp_path: Path) -> None:
        """Best .5 of all answerable, .1 of the unanswerable: a floor between leaves empty only what should be."""
        one = found_in(kitchen(), tmp_path)
        arm = one.scored[0]
        assert arm.now == Floor(0.0, 0.0)
        assert arm.curve == (Floor(0.0, 0.0), Floor(0.0, 1.0), Floor(1.0, 1.0))
        assert best_allowed_floor(arm.curve) == Floor(0.0, 1.0)
        assert one.scored[1].curve == ()


class TestCharts:
    @given(st.lists(st.tuples(st.floats(0, 300), st.integers(1, 25)), max_size=12).map(sorted))
    def test_names_never_cover_each_other(self, names: list[tuple[float, int]]) -> None:
        """Twelve names of at most 25 units fit 300, whole, and keep their order."""
        heights = [height for _, height in names]
        moved = apart([place for place, _ in names], heights, 0, 300)
        edges = [(at - height / 2, at + height / 2) for at, height in zip(moved, heights, strict=True)]
        assert all(below >= above - 1e-6 for (_, above), (below, _) in pairwise(edges))
        assert all(top >= -1e-6 and bottom <= 300 + 1e-6 for top, bottom in edges)

    @pytest.mark.feature(
        "… each mark has one meaning, and every arm is named in full", of="losses can be searched and expanded"
    )
    @given(st.text(), st.integers(1, 30))
    def test_a_wrapped_name_is_whole(self, name: str, most: int) -> None:
        """In lines of at most so many characters; only spaces are lost between them."""
        lines = wrapped(name, most)
        assert all(len(line) <= most for line in lines)
        assert "".join("".join(lines).split()) == "".join(name.split())

    def test_a_name_is_wrapped_before_its_parts(self) -> None:
        """Where an arm names its backends or its run."""
        assert wrapped("default@markdown+cortex+mem0", 20) == ["default@markdown", "+cortex+mem0"]
        assert wrapped("default (before the change)", 20) == ["default (before the", "change)"]

    @pytest.mark.feature(
        "… each mark has one meaning, and every arm is named in full", of="losses can be searched and expanded"
    )
    def test_a_mark_means_one_thing(self, tmp_path: Path) -> None:
        """Of 24 arms and a baseline no two share colour and marker; only what may be chance is drawn hollow."""
        rows = [row(f"arm{i}", q, [q > i % 3]) for i in range(24) for q in range(4)]
        one = found_in([*rows, *(row("bm25", q, [False]) for q in range(4))], tmp_path)
        assert len({(style.color, style.marker) for style in styles(one).values()}) == 25
        for chart in charts(one):
            lines = [line for line in chart.figure.axes[0].lines if line.get_marker() not in ("None", "", None)]
            hollow = {line.get_markerfacecolor() == LIGHT["page"] for line in lines}
            assert hollow == ({True, False} if chart.name == "categories" else {False})

    @pytest.mark.feature("… it draws the reliability of probabilities", of="losses can be searched and expanded")
    def test_reliability_compares_probabilities_with_what_helps(self, tmp_path: Path) -> None:
        """Said: .9 for what helps in three of four questions, .1 for what never does."""
        rows = [row("default", q, [q > 0], probabilities=[0.1, 0.9]) for q in range(4)]
        rows[0]["gold"] = ["D7:7"]
        one = found_in([*rows, *(row("bm25", q, [False], gold=rows[q]["gold"]) for q in range(4))], tmp_path)
        curves = {arm.name: [(g.probability, g.helps, g.size) for g in arm.reliability] for arm in one.arms}
        assert curves == {"default": [(pytest.approx(0.1), 0.0, 4), (pytest.approx(0.9), 0.75, 4)], "bm25": []}
        (chart,) = [chart for chart in charts(one) if chart.name == "reliability"]
        assert "said to help with 90.0 %, 75.0 % do" in chart.description
        assert not [chart for chart in charts(found_in(kitchen(), tmp_path)) if chart.name == "reliability"]

    @pytest.mark.feature("… it draws evidence against characters used", of="losses can be searched and expanded")
    def test_characters_are_those_that_the_blocks_have(self, tmp_path: Path) -> None:
        rows = [row("default", 0, [True], budget=budget, block="x" * used) for budget, used in ((6000, 40), (1500, 20))]
        one = found_in(rows, tmp_path)
        assert one.arms[0].characters == {6000: 40, 1500: 20}
        (chart,) = [chart for chart in charts(one) if chart.name == "characters"]
        assert "default 100.0 % in 40" in chart.description

    @pytest.mark.feature("… no text of a chart overlaps another or is cut", of="losses can be searched and expanded")
    def test_chart_texts_do_not_cover_each_other(self, tmp_path: Path) -> None:
        """Twenty arms with long names: the rectangles of all texts are disjoint, and inside what is saved."""
        rows = [row(f"recipe-{i}@markdown+cortex", q, [q % 3 > i % 3]) for i in range(20) for q in range(6)]
        drawn = [*charts(found_in(rows, tmp_path)), contribution(Contribution(**{**TOLD, "verdicts": ()}))]
        every = ["budget", "characters", "latency", "categories", "contribution"]
        assert [chart.name for chart in drawn] == every[-len(drawn) :]
        for chart in drawn:
            chart.figure.draw_without_rendering()
            picture = chart.figure.get_tightbbox().transformed(chart.figure.dpi_scale_trans)
            texts = [text for text in chart.figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
            boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_in_layout()]
            for i, (name, box) in enumerate(boxes):
                assert picture.x0 - 1 <= box.x0 <= box.x1 <= picture.x1 + 1, (chart.name, name)
                assert picture.y0 - 1 <= box.y0 <= box.y1 <= picture.y1 + 1, (chart.name, name)
                for other, beside in boxes[i + 1 :]:
                    width = min(box.x1, beside.x1) - max(box.x0, beside.x0)
                    height = min(box.y1, beside.y1) - max(box.y0, beside.y0)
                    assert width <= 1 or height <= 1, (chart.name, name, other)

    def test_charts_have_the_colours_of_the_page(self, tmp_path: Path) -> None:
        """The SVG in the dark has no colour of the light that differs, and draws names as text in any script."""
        rows = [row(arm, q, [q > 0]) for arm in ("default", "שלום 电") for q in range(2)]
        (categories,) = [chart for chart in charts(found_in(rows, tmp_path)) if chart.name == "categories"]
        light, dark = (
            set(re.findall("#[0-9a-f]{6}", categories.svg(dark=is_dark).decode())) for is_dark in (False, True)
        )
        assert {LIGHT["s0"], LIGHT["quiet"], LIGHT["zero"]} <= light <= set(LIGHT.values())
        assert {DARK["s0"], DARK["quiet"], DARK["zero"]} <= dark <= set(DARK.values())
        assert ">שלום 电</text>" in categories.svg().decode()

    def test_colours_contrast_with_the_background(self) -> None:
        """Text has a contrast of 4.5 to its background (WCAG 2.2, 1.4.3), in the light and in the dark."""
        for colours in (LIGHT, DARK):
            for name in ("text", "quiet", "link", "good", "bad", "plain", *(f"s{n}" for n in range(6))):
                for background in ("page", "raised"):
                    assert contrast(colours[name], colours[background]) >= 4.5, (name, background)
            assert contrast(colours["zero"], colours["page"]) >= 3
            assert contrast(colours["text"], colours["mark"]) >= 4.5


def contrast(one: str, other: str) -> float:
    """Of two colours, 1 to 21: WCAG 2.2, "contrast ratio"."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


class TestFiles:
    @pytest.mark.feature("rows become one HTML page with charts")
    def test_a_page_and_its_pictures(self, report: Report, capsys: pytest.CaptureFixture[str]) -> None:
        """One row of JSON says what was written; the pictures are PNGs with the charts' words in them."""
        page = report(kitchen())
        figures = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert figures["report"] == str(page)
        assert figures["datasets"]["kitchen"]["arms"] == {"default": 0.625, "bm25": 0.375}
        pictures = [Path(file) for file in figures["charts"]]
        assert {file.stem for file in pictures} == {"budget", "characters", "latency", "categories", "abstention"}
        for file in pictures:
            content = file.read_bytes()
            assert content.startswith(b"\x89PNG\r\n")
            assert b"Description" in content

    def test_the_page_requests_nothing_and_runs_only_its_own_script(self, report: Report) -> None:
        """No address in it at all; nothing but one hashed script and style sheet may run."""
        text = report(kitchen()).read_text(encoding="utf-8")
        assert not re.search(r"https?://|//cdn|@import|url\(", text)
        policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])  # type: ignore[index]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe" not in policy
        assert 'style="' not in text
        assert text.count('<img class="chart" src="data:image/svg+xml;base64,') == 5
        assert not re.search(r"<[^>]* on\w+=", text.partition('<script type="application/json"')[0])

    @pytest.mark.feature("… memories cannot inject content into it", of="rows become one HTML page with")
    def test_memories_cannot_write_the_page(self, report: Report) -> None:
        """Markup in every text that comes from outside stays text, and comes back as it was."""
        rows = [{**r, "query": NASTY, "block": NASTY, "evidence": [NASTY for _ in r["gold"]]} for r in kitchen()]
        for r in rows:
            r.update(dataset=NASTY, corpus=NASTY, category=NASTY, arm=r["arm"] + NASTY)
        text = report(rows).read_text(encoding="utf-8")
        assert text.count("</script>") == 2
        assert "<script>document" not in text
        island = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
        assert island is not None
        data = json.loads(island[1])
        assert data["blocks"] == [NASTY]
        assert data["cases"][0]["evidence"][0]["text"] == NASTY

    def test_a_contribution_is_shown_with_the_arms(self, report: Report, tmp_path: Path) -> None:
        """What `contribution` printed, its table before the line of JSON or not."""
        file = tmp_path / "contribution.json"
        file.write_text(f"│ figure │\n{json.dumps({**TOLD, 'recipe': 'default'})}\n", encoding="utf-8")
        page = report(kitchen(), "--contribution", str(file))
        assert "Dropping mem0 gains 0.4 points and saves 30 ms." in page.read_text(encoding="utf-8")
        assert (page.parent / "contribution.png").exists()

    def test_one_arm_alone_has_nothing_to_be_compared_with(self, report: Report) -> None:
        """The page says so, and shows what there is."""
        rows = [r for r in kitchen() if r["arm"] == "default" and r["budget"] == 6000]
        page = report(rows)
        text = page.read_text(encoding="utf-8")
        assert "One arm alone" in text
        assert {file.stem for file in page.parent.glob("*.png")} == {"latency", "abstention"}

    def test_several_data_sets_are_never_averaged(self, report: Report) -> None:
        """Each has its own headline, table and pictures."""
        page = report([*kitchen(), *({**r, "dataset": "garden"} for r in kitchen())])
        text = page.read_text(encoding="utf-8")
        assert text.count('class="headline"') == 2
        assert "garden: default finds 62.5 %" in text
        assert (page.parent / "budget-2.png").exists()

    def test_two_runs_of_the_same_arm_are_compared(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The caller names the runs: the effect of a change is one arm against another."""
        for name, hit in (("old", False), ("new", True)):
            lines = [json.dumps(row("default", q, [hit or q > 0])) for q in range(3)]
            (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        runs = [f"before={tmp_path}/old.jsonl", f"after={tmp_path}/new.jsonl"]
        assert main(["report", *runs, "--out", str(tmp_path / "out"), "--baseline", "default (before)", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["datasets"]["kitchen"]
        assert told["arms"] == {"default (after)": 1.0, "default (before)": 0.6667}
        assert "33.3 points more than default (before)" in told["headline"]

    def test_of_two_runs_the_first_is_the_baseline(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Not a plain baseline of either: what changed is asked for. With one arm of its own, the hand-set one is."""
        for name in ("old", "new"):
            lines = [json.dumps(row(arm, 0, [True], recipe_hash="")) for arm in ("handset", "bm25")]
            (tmp_path / f"{name}.jsonl").write_text("\n".join([ONE, *lines]), encoding="utf-8")
        runs = [f"before={tmp_path}/old.jsonl", f"after={tmp_path}/new.jsonl"]
        for files, baseline in ((runs, "default (before)"), (runs[1:], "handset (after)")):
            assert main(["report", *files, "--out", str(tmp_path / "out"), "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["datasets"]["kitchen"]["baseline"] == baseline

    def test_rows_without_a_question_that_counts(self, report: Report) -> None:
        """Only unanswerable ones: the page says it instead of dividing by zero."""
        rows = [row("default", q, [], category="unanswerable", abstained=True) for q in range(2)]
        assert "No question of these rows counts for recall" in report(rows).read_text(encoding="utf-8")

    def test_rows_without_the_text_of_the_evidence(self, report: Report) -> None:
        """Rows of before there was a field for it: the ids are shown."""
        rows = [{k: v for k, v in r.items() if k not in {"evidence", "best"}} for r in kitchen()]
        assert '"id":"D1:2","text":""' in report(rows).read_text(encoding="utf-8")


class TestMistakes:
    @pytest.mark.feature("a report of broken rows names the line and keeps an earlier report")
    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("{", "line 2: not JSON"),
            ("[1]", "line 2: "),
            ('{"eib": NaN}', "line 2: not JSON"),
            (json.dumps({**row("default", 1, [True]), "eib": "1"}), "line 2: 'eib'"),
            (json.dumps({**row("default", 1, [True]), "eib": 2}), "line 2: 'eib' must be a share"),
            (json.dumps({**row("default", 1, [True]), "found": []}), "line 2: 'found' has 0 entries for 1"),
            (json.dumps({**row("default", 1, [True]), "budget": 0}), "line 2: 'budget'"),
            (json.dumps({**row("default", 1, [True]), "took_ms": -1}), "line 2: 'took_ms'"),
            (json.dumps({k: v for k, v in row("default", 1, [True]).items() if k != "arm"}), "line 2: 'arm'"),
            (json.dumps(row("default", 0, [True])), "line 1 has a row of the same question"),
            (json.dumps(row("bm25", 0, [True], query="And then?")), "question 0 of attic asks something else than in"),
            (json.dumps(row("bm25", 0, [True], gold=["D7:1"])), "looks for other evidence than in"),
        ],
    )
    def test_a_broken_line_is_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, complaint: str
    ) -> None:
        """Exit code 2, file and line, and an earlier report is as it was."""
        file, out = tmp_path / "rows.jsonl", tmp_path / "out"
        out.mkdir()
        (out / "report.html").write_text("earlier")
        file.write_text(json.dumps(row("default", 0, [True])) + "\n" + line + "\n", encoding="utf-8")
        assert main(["report", str(file), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert f"{file}, line 2: " in error
        assert complaint in error
        assert [(f.name, f.read_text()) for f in out.iterdir()] == [("report.html", "earlier")]

    def test_a_line_may_hold_what_other_programs_split_at(self, tmp_path: Path) -> None:
        """U+2028 and U+0085 end no line of JSON."""
        file = tmp_path / "rows.jsonl"
        file.write_text(json.dumps(row("a", 0, [True], query="x\u2028y\u0085z"), ensure_ascii=False), encoding="utf-8")
        assert read_rows([source(str(file))])[0].query == "x\u2028y\u0085z"

    @pytest.mark.parametrize(
        ("content", "more", "complaint"),
        [
            ("", (), "no rows in"),
            ("\n\n", (), "no rows in"),
            (ONE, ("--baseline", "nobody"), "no arm is called 'nobody'; there are default"),
            (ONE, ("--contribution", "missing.json"), "missing.json cannot be read"),
        ],
    )
    def test_rows_that_cannot_be_reported_are_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, more: tuple[str, ...], complaint: str
    ) -> None:
        """Exit code 2, and no folder is made."""
        file = tmp_path / "rows.jsonl"
        file.write_text(content, encoding="utf-8")
        assert main(["report", str(file), "--out", str(tmp_path / "out"), *more]) == 2
        assert complaint in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("content", ["", "{}", json.dumps({**TOLD, "alone": {}}), "no JSON"])
    def test_a_file_that_is_no_contribution_is_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
    ) -> None:
        file, told = tmp_path / "rows.jsonl", tmp_path / "contribution.json"
        file.write_text(json.dumps(row("default", 0, [True])), encoding="utf-8")
        told.write_text(content, encoding="utf-8")
        assert main(["report", str(file), "--out", str(tmp_path / "out"), "--contribution", str(told)]) == 2
        assert str(told) in capsys.readouterr().err

    def test_an_output_folder_that_is_a_file_is_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "rows.jsonl"
        file.write_text(json.dumps(row("default", 0, [True])), encoding="utf-8")
        assert main(["report", str(file), "--out", str(file)]) == 2
        assert "cannot be written" in capsys.readouterr().err
        assert file.read_text(encoding="utf-8").startswith("{")


# In a browser ----------------------------------------------------------------------------------------------------

DRIVEN = """
const say = (name, value) => document.body.setAttribute("data-" + name, value);
const form = document.getElementById("filters");
const set = (name, value) => {
  form.elements[name].value = value;
  form.dispatchEvent(new Event("input", {bubbles: true}));
};
say("first", document.querySelectorAll("details.case").length);
set("arm", ""); set("outcome", "");
say("all", document.querySelectorAll("details.case").length);
set("words", "KETTLE 2.2");
say("searched", document.querySelectorAll("details.case").length);
document.querySelector("details.case summary").click();
say("wide", document.documentElement.scrollWidth - document.documentElement.clientWidth);
"""


def browse(page: Path, folder: Path, *flags: str) -> tuple[str, list[str]]:
    """The page as the browser has it when its script has run, and what its console said."""
    assert CHROMIUM is not None
    quiet = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=5000 --dump-dom"
    )
    command = [CHROMIUM, *quiet.split(), f"--user-data-dir={folder}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
class TestInABrowser:
    @pytest.mark.feature("… it opens from disk without a browser error", of="rows become one HTML page with")
    def test_the_page_opens_from_a_file_without_an_error(self, report: Report, tmp_path: Path) -> None:
        """Nothing in the console; the list of questions is there, those that were lost first."""
        document, console = browse(report(kitchen()), tmp_path / "profile")
        assert console == []
        assert "1 question<" in document
        assert "▼ lost: 50 points fewer than bm25" in document

    @pytest.mark.feature(
        "… it requests nothing over the network, and runs only its own script", of="rows become one HTML page with"
    )
    def test_the_page_runs_no_other_script(self, report: Report, tmp_path: Path) -> None:
        """A script that got into the page all the same is refused; and the console is where we hear of it."""
        page = report(kitchen())
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("<main>", '<main><script>document.title = "owned"</script>'), encoding="utf-8")
        document, console = browse(page, tmp_path / "profile")
        assert "<title>owned" not in document
        assert len(console) == 1
        assert "Content Security Policy" in console[0]

    @pytest.mark.feature("losses can be searched and expanded, with the missed evidence, also on a phone")
    def test_questions_are_found_and_unfolded_on_a_phone(self, report: Report, tmp_path: Path) -> None:
        """Filters, search and unfolding, on texts that would break out; at 390 pixels nothing scrolls sideways."""
        rows = [{**r, "query": r["query"] + NASTY, "arm": r["arm"] + "-" + "x" * 60} for r in kitchen()]
        page = report(rows)
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
        page.write_text(text.replace("</body>", f"<script>{DRIVEN}</script></body>"), encoding="utf-8")
        document, console = browse(page, tmp_path / "profile", "--window-size=390,844")
        assert console == []
        said = dict(re.findall(r' data-(\w+)="([^"]*)"', document))
        assert said["first"] == "1"
        assert said["all"] == "7"  # default: two won, one lost, one missed; bm25: three missed
        assert said["searched"] == "1"
        assert said["wide"] == "0"
        assert "1 of 2 missed" in document
        assert "<mark>Ada: kettle 2.1 is red</mark>" in document
        assert "<title>owned" not in document
