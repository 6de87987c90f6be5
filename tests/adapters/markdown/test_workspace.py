"""A workspace as agents and people keep one: long-term memory, daily logs, topics, a vault; and how it is searched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.index.lexical import Lexical
from adapters.markdown import Markdown
from adapters.markdown.ranking import Ranking
from fusion.contract import Hit, Opening, Query, Scope
from fusion.errors import SettingsError, StoreDamaged
from tests.adapters.markdown.test_backend import PRIVATE, ask, first, opened, remarks
from tests.backend_contract import make_event, make_extracted
from tests.fakes import FakeEmbedder

NOW = datetime(2026, 3, 31, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    return folder


def documents(hits: Sequence[Hit]) -> list[str]:
    return [hit.place.document.removeprefix("workspace/") for hit in hits if hit.place]


async def asked(backend: Markdown, text: str) -> list[str]:
    return documents(await backend.search(Query(text, PRIVATE, NOW)))


# The files


@pytest.mark.row(
    "A054",
    "A055",
    "A056",
    "Markdown: the layout of a workspace is known: long-term memory, a log for each day, topics, other folders",
)
async def test_the_layout_of_a_workspace(tmp_path: Path, workspace: Path) -> None:
    """MEMORY.md, a log for each day, topics without a day, and other folders."""
    for name in ("MEMORY.md", "memory/2026-03-24.md", "memory/network.md", "notes/deep/kestrel.md"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"A kestrel in {name}.")
    async with opened(tmp_path / "home", workspace) as backend:
        hits = {hit.place.document: hit for hit in await ask(backend, "kestrel") if hit.place}
        assert len(hits) == 4
        days = {name: hit.at.utc.date().isoformat() for name, hit in hits.items() if hit.at}
        assert days == {"workspace/memory/2026-03-24.md": "2026-03-24"}


@pytest.mark.feature(
    "… DREAMS.md is found like any file, with its comments, and never written",
    of="the origins owner, agent, tool",
)
async def test_what_was_dreamt_is_found_and_never_written(tmp_path: Path, workspace: Path) -> None:
    """DREAMS.md is a file as any other: its comments are text, and after a search and a note it is what it was."""
    dreams = workspace / "DREAMS.md"
    dreams.write_text("## Deep\n\n<!-- importance: 8 -->\nThe kestrel hovers over the harbour.\n")
    before = dreams.read_bytes(), dreams.stat().st_mtime_ns
    async with opened(tmp_path / "home", workspace) as backend:
        await backend.remember([make_extracted(make_event(1, "a note beside it"))])
        [hit] = await ask(backend, "kestrel harbour")
        assert "<!-- importance: 8 -->" in hit.text
        assert await asked(backend, "importance") == ["DREAMS.md"]
    assert (dreams.read_bytes(), dreams.stat().st_mtime_ns) == before


@pytest.mark.row("A056", "Markdown: MEMORY.md takes precedence over memory.md, and the status says so")
async def test_memory_in_capitals_takes_precedence(tmp_path: Path, workspace: Path) -> None:
    """Where both are, memory.md is left out and that is said; alone it counts, and is as private."""
    (workspace / "memory.md").write_text("kestrel, small")
    async with opened(tmp_path / "home", workspace) as backend:
        assert await asked(backend, "kestrel") == ["memory.md"]
        assert await ask(backend, "kestrel", Scope()) == []
        (workspace / "MEMORY.md").write_text("kestrel, capital")
        if len(list(workspace.glob("*.md"))) == 1:
            pytest.skip("this file system does not tell the two names apart")
        assert await asked(backend, "kestrel") == ["MEMORY.md"]
        assert await remarks(backend) == ["workspace/memory.md: skipped: MEMORY.md in the same folder is read instead"]
        (workspace / "MEMORY.md").unlink()
        assert await asked(backend, "kestrel") == ["memory.md"]


async def test_patterns_leave_out_and_take_back(tmp_path: Path, workspace: Path) -> None:
    """As in .gitignore, in addition to what is never read: .obsidian, .git, .trash, node_modules."""
    names = [
        ".obsidian/a.md",
        ".trash/a.md",
        "node_modules/a.md",
        "drafts/a.md",
        "drafts/keep.md",
        "deep/b.tmp.md",
        "c.md",
    ]
    for name in names:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("kestrel")
    async with opened(tmp_path / "home", workspace, ignore=["drafts/*", "!keep.md", "*.tmp.md"]) as backend:
        assert sorted(await asked(backend, "kestrel")) == ["c.md", "drafts/keep.md"]


async def test_a_pattern_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    """The error names the key."""
    with pytest.raises(SettingsError, match="ignore has a pattern"):
        await Markdown.open(Opening("markdown", tmp_path, {"ignore": ["[z-a].md"]}))


VAULT_NOTE = """---
title: Orders service
aliases: [order desk, "bestellungen"]
tags:
  - backend/storage
created: 2026-02-11
---

Intro with a [[Kestrel project|the bird]] and #architecture/decision. ^block-1

## Storage

| engine | why |
|--------|-----|
| PostgreSQL | familiar |
| MongoDB | rejected |

### How to restore

1. Stop the writer
   - run `systemctl stop orders-writer`
     - wait for *quiesced*
2. Then:

```python
# not a heading
def restore_backup(path): ...
```

> [!warning] Never on Fridays

![[diagram.png]] %% hidden remark %%
"""


@pytest.mark.feature(
    "Markdown: front matter, aliases, wiki links, tags, tables, nested lists, code, callouts are found under their "
    "headings",
)
@pytest.mark.parametrize(
    ("question", "heading", "within"),
    [
        ("order desk", (), "aliases"),
        ("bestellungen", (), "aliases"),
        ("kestrel project", (), "[[Kestrel project"),
        ("architecture decision", (), "#architecture"),
        ("backend storage tag", (), "backend/storage"),
        ("MongoDB rejected", ("Storage",), "| MongoDB"),
        ("quiesced", ("Storage", "How to restore"), "quiesced"),
        ("restore_backup", ("Storage", "How to restore"), "def restore_backup"),
        ("never on fridays", ("Storage", "How to restore"), "[!warning]"),
        ("diagram.png", ("Storage", "How to restore"), "![[diagram"),
    ],
)
async def test_a_note_of_a_vault(
    tmp_path: Path, workspace: Path, question: str, heading: tuple[str, ...], within: str
) -> None:
    """Front matter, links, tags, tables, lists, code, callouts: each is found, under its headings, in its lines."""
    (workspace / "orders.md").write_text(VAULT_NOTE)
    async with opened(tmp_path / "home", workspace) as backend:
        item = (await backend.find(Query(question, PRIVATE, NOW)))[0]
        assert item.headings == heading
        assert within in item.hit.text
        assert item.hit.place is not None
        lines = VAULT_NOTE.split("\n")[item.hit.place.start - 1 : item.hit.place.end]
        assert item.hit.text == "\n".join(lines)
        assert item.hit.at is not None
        assert item.hit.at.utc.date().isoformat() == "2026-02-11"


@pytest.mark.row("A055", "Markdown: a daily log is found by its day, in any notation")
@pytest.mark.parametrize(
    "question", ["2026-03-05", "5 March 2026", "what happened on 5 March 2026?", "notes of March 5, 2026"]
)
async def test_a_day_is_found_however_it_is_written(tmp_path: Path, workspace: Path, question: str) -> None:
    """The name of a daily log is all that says its day: it is spelled out where it is searched, and not shown."""
    for day in ("2026-03-04", "2026-03-05", "2026-04-05"):
        (workspace / "memory" / f"{day}.md").write_text("# Log\n\nNothing new.")
    async with opened(tmp_path / "home", workspace) as backend:
        hit = await first(backend, question)
        assert documents([hit]) == ["memory/2026-03-05.md"]
        assert hit.text == "# Log\n\nNothing new."


# The search


@pytest.mark.row("A064", "… off by default", of="decay: after 7 days 85.07 % remain")
async def test_half_life_by_setting(tmp_path: Path, workspace: Path) -> None:
    """Five files that say the same have one score. With 30 days: 100 % for what is evergreen and for today's log (its
    name counts, not when it was written), a week leaves 85.07 %, 20 days of the file itself 63 %, 90 days 12.5 %."""
    left = {
        "memory/topic.md": 1.0,
        "memory/2026-03-31.md": 1.0,
        "memory/2026-03-24.md": 0.8507,
        "elsewhere/note.md": 0.63,
        "memory/2025-12-31.md": 0.125,
    }
    written = (NOW - timedelta(days=20)).timestamp()
    for name in left:
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("---\ntitle: bird\n---\nkestrel")
        os.utime(workspace / name, (written, written))
    async with opened(tmp_path / "home", workspace, merge="weighted") as backend:
        (score,) = {hit.score for hit in await backend.search(Query("kestrel", PRIVATE, NOW))}
    assert score
    async with opened(tmp_path / "home", workspace, merge="weighted", half_life_days=30) as backend:
        while not all(known.signature for known in backend._sync.table.documents.values()):
            await backend.refresh()  # what was written a moment ago may be written again within the same tick
        found = await backend.search(Query("kestrel", PRIVATE, NOW))
        shares = [(hit.score or 0) / score for hit in found]
        assert dict(zip(documents(found), shares, strict=True)) == pytest.approx(left, abs=1e-3)
        assert shares == sorted(shares, reverse=True)


async def test_mmr_by_setting(tmp_path: Path, workspace: Path) -> None:
    """Three days repeat one note: the one note that says something else comes second instead of last."""
    same = "kestrel stand-up: tests green, nothing blocked, release on Friday"
    for day in ("2026-03-01", "2026-03-02", "2026-03-03"):
        (workspace / "memory" / f"{day}.md").write_text(same)
    (workspace / "memory" / "bird.md").write_text("The kestrel is a small falcon that hovers over fields and roads.")
    async with opened(tmp_path / "home", workspace, merge="weighted") as backend:
        assert (await asked(backend, "kestrel stand-up release"))[3] == "memory/bird.md"
    async with opened(tmp_path / "home", workspace, merge="weighted", mmr_lambda=0.3) as backend:
        assert (await asked(backend, "kestrel stand-up release"))[1] == "memory/bird.md"


@pytest.mark.feature(
    "… also in a vault searched by words alone: asking for the mill finds the person that its note names",
    of="Markdown: a note that the best",
)
async def test_the_second_note_of_a_question_rises(tmp_path: Path, workspace: Path) -> None:
    """Asked where the mill's owner was born: of the notes in which somebody is born, the one on whom the mill's note
    names comes before those that have more of the question's words. Off by setting."""
    (workspace / "The old mill.md").write_text("The owner of the mill is [[Ada Brook]].")
    (workspace / "Ada Brook.md").write_text("She was born in Lund, far from any river.")
    for n in range(4):
        (workspace / f"{n}.md").write_text(f"Whose owner was born there was told {n} times.")
    question = "where was the owner of the mill born?"
    async with opened(tmp_path / "home", workspace, mention_lift=0) as backend:
        assert (await asked(backend, question))[-1] == "Ada Brook.md"
    async with opened(tmp_path / "home", workspace, mention_lift=1) as backend:
        assert set((await asked(backend, question))[:2]) == {"The old mill.md", "Ada Brook.md"}


async def test_the_tools_floor_keeps_hits_of_words_alone(tmp_path: Path, workspace: Path) -> None:
    """Weighed with the seed's numbers a code is .3 × text score < .35, though nothing else has it: it stays, last."""
    for n in range(30):
        (workspace / f"{n}.md").write_text(f"the gateway was started again, {n} times")
    (workspace / "code.md").write_text("E0417 means that the disk is full")
    embedder = FakeEmbedder(synonyms={"e0417": "zebra", "means": "zebra"})
    async with opened(tmp_path / "home", workspace, embedder=embedder) as backend:
        seed = Ranking("weighted", min_score=0.35)
        found = await backend.find(Query("gateway started again E0417", PRIVATE, NOW), seed)
        assert all(0 <= (item.hit.score or 0) <= 1 for item in found)
        assert "code.md" in documents([item.hit for item in found])


@pytest.mark.feature(
    "… also beyond one page of candidates (a page of 100 replaces candidateMultiplier, which would "
    "make the order depend on k)",
    of="Markdown: the pipeline is merge",
)
@pytest.mark.parametrize("merge", ["convex", "rrf", "weighted"])
async def test_the_best_k_are_the_first_of_the_best_k_plus_one(tmp_path: Path, workspace: Path, merge: str) -> None:
    """Also beyond the candidates of one page: 230 notes, asked for 1 to 230 of them."""
    for n in range(230):
        (workspace / f"{n:03}.md").write_text(f"kestrel {n % 7} " + "and more " * (n % 11))
    async with opened(tmp_path / "home", workspace, embedder=FakeEmbedder(), merge=merge) as backend:
        whole = [hit.native_id for hit in await ask(backend, "kestrel 3 more", limit=230)]
        assert len(set(whole)) == 230
        for k in (1, 6, 20, 99, 100, 101, 150, 200, 229):
            assert [hit.native_id for hit in await ask(backend, "kestrel 3 more", limit=k)] == whole[:k]


@pytest.mark.row("A061", 'Markdown: `merge = "seed001"` has four candidates of each list per result, or 1 to 20')
async def test_the_seeds_merge_has_four_candidates_per_result(tmp_path: Path, workspace: Path) -> None:
    """Eight notes with the word, of which h.md is the shortest and so the best by BM25, then g.md, and so on. By words
    each scores 1, so the order is that of the names: of four candidates for one result (h, g, f, e) e.md is first, of
    eight a.md, of one h.md."""
    for n, name in enumerate("abcdefgh", 1):
        (workspace / f"{name}.md").write_text("kestrel" + " harbour" * 4 * (8 - n))
    for given, best in (({}, "e.md"), ({"candidate_multiplier": 8}, "a.md"), ({"candidate_multiplier": 1}, "h.md")):
        async with opened(tmp_path / "home", workspace, merge="seed001", mention_lift=0, **given) as backend:
            found = await ask(backend, "kestrel", limit=1)
            assert (documents(found), [hit.score for hit in found]) == ([best], [1.0])
            assert len(await ask(backend, "kestrel", limit=8)) == 8


async def test_a_number_of_candidates_that_the_seed_does_not_take_is_refused(tmp_path: Path) -> None:
    """The error names the setting and its bounds."""
    with pytest.raises(SettingsError, match=r"candidate_multiplier = 21 must be a whole number.* 20"):
        await Markdown.open(Opening("markdown", tmp_path, {"candidate_multiplier": 21}))


async def test_a_short_name_in_any_form(tmp_path: Path, workspace: Path) -> None:
    """A file's name, text and question may be composed or not: one and the same."""
    (workspace / "Cafe\u0301.md").write_text("Das Cafe\u0301 am Platz, 東京タワーの近く 🗼")
    async with opened(tmp_path / "home", workspace) as backend:
        for question in ("café", "CAFE\u0301", "cafe", "東京タワー", "🗼"):
            assert (await first(backend, question)).text.startswith("Das Caf")


# What is left when something does not work


class Broken(Lexical):
    def search(self, text: str, tags: Sequence[int] | None, limit: int) -> list[tuple[str, float]]:
        raise StoreDamaged("cut off")


@pytest.mark.row("A088", "degradation is graceful: words alone, vectors alone, then an error; always reported")
async def test_the_ladder_down(tmp_path: Path, workspace: Path) -> None:
    """No embedder: words alone, which is said and is no fault. No words: vectors alone, degraded. Neither: an error
    that says so, and not an empty answer that looks like nothing found."""
    (workspace / "a.md").write_text("kestrel")
    async with opened(tmp_path / "one", workspace) as backend:
        about = await backend.describe()
        assert about.notes[0] == "found by words only: no embedding model is set up ([embedder])"
        assert not about.degraded
        assert await asked(backend, "what was the kestrel?") == ["a.md"]
        backend._index._files.lexical.__class__ = Broken
        with pytest.raises(StoreDamaged, match="cut off"):
            await asked(backend, "kestrel")
    async with opened(tmp_path / "two", workspace, embedder=FakeEmbedder()) as backend:
        backend._index._files.lexical.__class__ = Broken
        assert await asked(backend, "kestrel") == ["a.md"]
        about = await backend.describe()
        assert about.degraded
        assert "search by words does not work: cut off" in about.notes


@pytest.mark.row("A088", "… an embedder that hangs costs only its half", of="degradation is graceful: words")
async def test_an_embedder_that_hangs_costs_its_half_alone(tmp_path: Path, workspace: Path) -> None:
    """Words answer within the deadline, and the description says what is missing."""
    (workspace / "a.md").write_text("kestrel")
    embedder = FakeEmbedder(gate=asyncio.Event())
    assert embedder.gate is not None
    embedder.gate.set()
    async with opened(tmp_path / "home", workspace, embedder=embedder) as backend:
        embedder.gate.clear()
        hits = await backend.search(Query("which kestrel", PRIVATE, NOW, deadline_s=0.05))
        assert documents(hits) == ["a.md"]
        about = await backend.describe()
        assert about.degraded
        assert "search by vectors does not work: the question had no vector in time" in about.notes
        embedder.gate.set()
        await asked(backend, "kestrel")
        assert not (await backend.describe()).degraded
