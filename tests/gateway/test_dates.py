"""Questions that name a time: what is of that time comes first, and a day's log is whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import Moment, Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import Fused, FuseRequest
from tests.gateway.helpers import NADIA, small
from tests.patience import load

NIGHT = datetime(2026, 11, 24, 23, 30, tzinfo=UTC)  # the 25th in Berlin
BERLIN = {"timezone": "Europe/Berlin", "now": NIGHT}
PATIENCE_MS = 50_000


def write(folder: Path, notes: dict[str, str]) -> None:
    for name, text in notes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def asked(gateway: Gateway, question: str, scope: Scope | None = None, **fields: Any) -> Fused:
    fields = {**BERLIN, "timeout_ms": PATIENCE_MS, "all_users": scope is None, **fields}
    return await gateway.fuse(FuseRequest(question, scope or Scope(audience="private"), **fields))


def documents(fused: Fused) -> list[str | None]:
    return [excerpt.document for excerpt in fused.memories]


LOG = (
    "## Morning\n\nPainted the boat with {who}.\n\n## Noon\n\nLunch: {food}.\n\n## Evening\n\nRead {book} until late.\n"
)
DAYS = {
    21: LOG.format(who="Ada", food="soup", book="a novel"),
    22: LOG.format(who="Bo", food="rice", book="a thriller"),
    23: LOG.format(who="Carmen", food="bread", book="a comic"),
    24: LOG.format(who="Dmitri", food="beans", book="a manual"),
    25: LOG.format(who="Esther", food="kale", book="the news"),
}
LAYOUTS = ["2026-11-{}.md", "202611{}.md", "{}-11-2026.md", "2026/11/{}.md"]


@pytest.mark.feature("a question about a day finds that day's note by its file name, and shows it whole, in order")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("followed", [True, False], ids=["notes", "markdown"])
async def test_yesterday_is_the_note_of_that_day_in_the_zone_of_who_asks(
    tmp_path: Path, layout: str, followed: bool
) -> None:
    """At 23:30 UTC it is the 25th in Berlin. Followed by the gateway, a note is in the journal as well."""
    write(tmp_path / "diary", {layout.format(day): text for day, text in DAYS.items()})
    paths = [str(tmp_path / "diary")]
    given: dict[str, Any] = {"notes": {"paths": paths}} if followed else {"backends": {"markdown": {"paths": paths}}}
    async with Gateway.open(load(home=tmp_path / "home", embedder={"adapter": ""}, **given)) as gateway:
        await gateway.settle()
        for question, day in (
            ("What did I do yesterday?", 24),
            ("Was habe ich gestern gemacht?", 24),
            ("what happened today?", 25),
            ("2026-11-22", 22),
            ("Qu'est-ce que j'ai fait dimanche ?", 22),
        ):
            fused = await asked(gateway, question)
            assert documents(fused) == [f"diary/{layout.format(day)}"], question
            at = [fused.block.find(line) for line in DAYS[day].split("\n") if line]
            assert -1 not in at, question
            assert at == sorted(at), question
        utc = await asked(gateway, "What did I do yesterday?", timezone="UTC")
        assert documents(utc) == [f"diary/{layout.format(23)}"]


async def test_topic_of_a_day_comes_from_that_day_first(tmp_path: Path) -> None:
    """Each day has the same words; one of another day is not lost, only later."""
    write(tmp_path / "diary", {f"2026-11-{day}.md": text for day, text in DAYS.items()})
    async with Gateway.open(
        load(home=tmp_path / "home", embedder={"adapter": ""}, notes={"paths": [str(tmp_path / "diary")]})
    ) as gateway:
        await gateway.settle()
        for question, day in (("With whom did I paint the boat on Sunday?", 22), ("lunch three days ago", 22)):
            assert documents(await asked(gateway, question))[0] == f"diary/2026-11-{day}.md", question


async def test_dated_section_of_a_log_is_of_its_day(tmp_path: Path) -> None:
    """One file for a month, with a heading a day."""
    text = "# November\n\n" + "\n\n".join(f"## 2026-11-{day}\n\nLunch was number {day}." for day in DAYS)
    write(tmp_path / "diary", {"log.md": text})
    paths = [str(tmp_path / "diary")]
    async with Gateway.open(load(home=tmp_path / "home", embedder={"adapter": ""}, notes={"paths": paths})) as gateway:
        await gateway.settle()
        block = (await asked(gateway, "What did I do yesterday?")).block
    assert [day for day in DAYS if f"number {day}" in block] == [24]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "home")) as gateway:
        yield gateway


async def test_week_is_read_in_the_order_of_its_days(gateway: Gateway) -> None:
    """All days of it, however many excerpts the recipe allows, and nothing else."""
    first = datetime(2026, 11, 1, tzinfo=UTC)
    notes = [
        NewMemory(f"Walk number {n:02}", scope=NADIA, at=Moment(first + timedelta(days=n), "day")) for n in range(24)
    ]
    await gateway.remember([*reversed(notes), NewMemory("The walk of my life", scope=NADIA)])
    await gateway.settle()
    block = (await asked(gateway, "What happened last week?", NADIA)).block
    assert [n for n in range(24) if f"number {n:02}" in block] == list(range(15, 22))
    at = [block.find(f"number {n}") for n in range(15, 22)]
    assert at == sorted(at)
    month = await asked(gateway, "What happened between 1 and 20 November?", NADIA)
    assert [n for n in range(24) if f"number {n:02}" in month.block] == list(range(20))
    few = await asked(gateway, "What happened between 1 and 20 November?", NADIA, max_results=3)
    assert len(few.memories) == 3


async def test_day_of_which_nothing_is_known_falls_back_on_the_words(gateway: Gateway) -> None:
    """A memory without a date may say it in its text."""
    await gateway.remember([NewMemory("On 3 May 2026 the old harbour burnt down", scope=NADIA)])
    await gateway.settle()
    assert "harbour" in (await asked(gateway, "what happened on 3 May 2026?", NADIA)).block


async def test_question_in_german_without_a_further_word_is_asked(gateway: Gateway) -> None:
    await gateway.remember([NewMemory("Kuchen gebacken", scope=NADIA, at=Moment(NIGHT - timedelta(days=1)))])
    await gateway.settle()
    assert "Kuchen" in (await asked(gateway, "Was war gestern?", NADIA)).block


async def test_embedded_backends_are_asked_for_times(tmp_path: Path) -> None:
    """An external file of Markdown that shares no word with the question is among the hits of its day."""
    write(tmp_path / "diary", {f"2026-11-{day}.md": text for day, text in DAYS.items()})
    backends = {"markdown": {"paths": [str(tmp_path / "diary")]}}
    settings = load(home=tmp_path / "home", embedder={"adapter": ""}, backends=backends)
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        answer = await gateway.search("markdown", "on 22 November 2026", Scope(audience="private"), all_users=True)
        assert "diary/2026-11-22.md" in {hit.place.document for hit in answer.hits if hit.place}


@pytest.mark.feature("a hook stays silent for a prompt that only arranges a time, whatever daily notes there are")
async def test_hook_shows_the_log_of_a_day_that_is_asked_for_and_not_of_one_that_is_arranged(tmp_path: Path) -> None:
    write(tmp_path / "diary", {f"2026-11-{day}.md": text for day, text in DAYS.items()})
    notes = {"paths": [str(tmp_path / "diary")]}
    async with Gateway.open(load(home=tmp_path / "home", embedder={"adapter": ""}, notes=notes)) as gateway:
        await gateway.settle()
        for prompt in ("do it on Monday", "let's meet on Monday", "mach das am Montag", "ok, not yesterday"):
            fused = await asked(gateway, prompt, recipe="hook")
            assert (fused.block, fused.abstained) == ("", "silent: the prompt names no subject"), prompt
        for prompt in ("what did I do on Monday?", "show me last Monday"):
            assert documents(await asked(gateway, prompt, recipe="hook")) == ["diary/2026-11-23.md"], prompt


@pytest.mark.feature("before we moved: an event gives a question its time if the memories of it agree on the day")
async def test_question_that_gives_its_time_by_an_event(tmp_path: Path) -> None:
    """The receipt names the memory; an event of which the memories disagree gives no time."""
    notes = {**{f"2026-11-{day}.md": text for day, text in DAYS.items()}}
    notes["2026-11-23.md"] += "\nWe moved to the mill.\n"
    write(tmp_path / "diary", notes)
    settings = load(home=tmp_path / "home", embedder={"adapter": ""}, notes={"paths": [str(tmp_path / "diary")]})
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        for question, right in (
            ("Whom did I paint the boat with after we moved?", {24, 25}),
            ("Whom did I paint the boat with since we moved?", {23, 24, 25}),
            ("Whom did I paint the boat with before we moved?", {21, 22}),
        ):
            fused = await asked(gateway, question, explain=True)
            shown = [int((name or "")[-5:-3]) for name in documents(fused)]
            assert set(shown[: len(right)]) == right, question
            assert fused.explain is not None
            assert fused.explain["event"]["ref"], question
        log = await asked(gateway, "What happened after we moved?")
        assert set(documents(log)) == {"diary/2026-11-24.md", "diary/2026-11-25.md"}, "nothing else"
        assert 0 < log.block.find("Dmitri") < log.block.find("Esther"), "the days in their order"
        unclear = await asked(gateway, "What did I read before I painted the boat?", explain=True)
        assert unclear.explain is not None
        assert "event" not in unclear.explain
