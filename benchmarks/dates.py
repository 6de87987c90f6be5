"""Questions that name a date, over daily notes: is the first thing shown of the right day?

Three homes of ninety daily notes each, made here from lists of words with a fixed clock: other layouts of the files,
languages and time zones. Each day draws its people, places and things from the same few, so that only its date tells it
from the others. The first two homes are for tuning; the third one is reported besides.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from benchmarks.figures import commit
from benchmarks.fill_stores import BACKENDS
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.recall.engine import FuseRequest
from fusion.settings import load

NOTES = 90
SCOPE = Scope(audience="private")
TIMEOUT_MS = 20_000


@dataclass(frozen=True, slots=True)
class Language:
    """The words of a home's notes. ``{who}``, ``{where}`` and ``{what}`` are drawn for each line."""

    headings: tuple[str, ...]
    lines: tuple[str, ...]
    who: tuple[str, ...]
    where: tuple[str, ...]
    what: tuple[str, ...]
    other: str
    """a note of no day on each thing"""


ENGLISH = Language(
    headings=("Morning", "Work", "Evening"),
    lines=(
        "Met {who} at {where} and talked about {what}.",
        "Worked on {what} for two hours, then called {who}.",
        "Long walk to {where} with {who}; it rained.",
        "{who} wants to sell {what}. Will think about it.",
        "Lunch with {who} at {where}.",
        "Could not sleep, read about {what} until late.",
        "Paid the bill for {what} and wrote to {who}.",
    ),
    who=("Ada", "Bo", "Carmen", "Dmitri", "Esther", "Farid"),
    where=("the harbour", "the library", "the old mill", "the market", "the station"),
    what=("the boat", "the tax return", "the garden fence", "the novel", "the choir", "the kitchen"),
    other="Everything about {what}: plans, prices, and whom to ask. {who} knows more, at {where}.",
)
GERMAN = Language(
    headings=("Vormittag", "Arbeit", "Abend"),
    lines=(
        "{who} bei {where} getroffen, wir sprachen über {what}.",
        "Zwei Stunden an {what} gearbeitet, danach {who} angerufen.",
        "Langer Spaziergang mit {who}, es regnete.",
        "{who} will mir {what} abkaufen. Ich überlege noch.",
        "Mittagessen mit {who} bei {where}.",
        "Konnte nicht schlafen und las bis spät über {what}.",
        "Rechnung für {what} bezahlt und {who} geschrieben.",
    ),
    who=("Anke", "Bernd", "Christa", "Detlef", "Elif", "Frieder"),
    where=("der Werft", "der Bücherei", "der alten Mühle", "der Markthalle", "der Post"),
    what=("das Segelboot", "die Steuer", "den Gartenzaun", "den Roman", "den Chor", "die Küche"),
    other="Alles über {what}: Pläne, Preise, wen man fragt. {who} weiß mehr, bei {where}.",
)
FRENCH = Language(
    headings=("Matin", "Travail", "Soir"),
    lines=(
        "Vu {who} à {where}, nous avons parlé : {what}.",
        "Deux heures de travail, {what}, puis un appel à {who}.",
        "Longue promenade avec {who} sous la pluie.",
        "{who} veut acheter {what}. À réfléchir.",
        "Déjeuner avec {who} à {where}.",
        "Pas dormi, lu jusqu'à tard : {what}.",
        "Facture payée ({what}), lettre à {who}.",
    ),
    who=("Agathe", "Basile", "Colette", "Didier", "Edwige", "Fabien"),
    where=("la gare", "la bibliothèque", "la piscine", "la mairie", "la ferme"),
    what=("le voilier", "les impôts", "la clôture", "le roman", "la chorale", "la cuisine"),
    other="Tout savoir : {what}, plans, prix, à qui demander. Voir {who}, à {where}.",
)


@dataclass(frozen=True, slots=True)
class DateQuestion:
    """A question, and the days that answer it, as days before the one on which it is asked.

    ``{what}`` is a thing that the first of these days writes about; with it only those of the days that do are right.
    """

    text: str
    days: Sequence[int]
    about: str = ""

    @property
    def whole(self) -> bool:
        """Whether it asks for all of one day."""
        return not self.about and len(self.days) == 1


@dataclass(frozen=True, slots=True)
class DiaryHome:
    """A home of daily notes: ``layout`` is the path of a day's note, ``clock`` the time of its owner."""

    name: str
    layout: str
    language: Language
    clock: datetime
    tuned: bool
    questions: Sequence[DateQuestion] = field(default_factory=tuple)
    events: Mapping[int, str] = field(default_factory=dict)
    """what happened once, as a line of the note of so many days ago"""


def _month(first: int, clock: datetime) -> list[int]:
    """The days of the calendar month that the day ``first`` days ago is in."""
    day = clock.date() - timedelta(days=first)
    return [n for n in range(NOTES) if (clock.date() - timedelta(days=n)).replace(day=1) == day.replace(day=1)]


def _since(last: int) -> range:
    return range(last + 1)


NIGHT = datetime(2026, 11, 25, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))  # a Wednesday; the 24th in UTC
EVENING = datetime(2026, 6, 17, 21, 15, tzinfo=ZoneInfo("America/Los_Angeles"))  # a Wednesday; the 18th in UTC
MORNING = datetime(2027, 3, 10, 7, 45, tzinfo=ZoneInfo("Asia/Tokyo"))  # a Wednesday; the 9th in UTC
HOMES = (
    DiaryHome(
        "english, 2026-11-24.md",
        "{:%Y-%m-%d}.md",
        ENGLISH,
        NIGHT,
        True,
        (
            DateQuestion("What did I do yesterday?", [1]),
            DateQuestion("what happened today?", [0]),
            DateQuestion("show me my notes of the day before yesterday", [2]),
            DateQuestion("What did I do last Friday?", [5]),
            DateQuestion("What happened on Monday?", [2]),
            DateQuestion("What did I write on 3 November 2026?", [22]),
            DateQuestion("What did I do two weeks ago?", [14]),
            DateQuestion("2026-10-02", [54]),
            DateQuestion("what went on on October 9th?", [47]),
            DateQuestion("Whom did I meet yesterday?", [1], "meet"),
            DateQuestion("What did I note about {what} last Friday?", [5], "what"),
            DateQuestion("Who called about {what} three days ago?", [3], "what"),
            DateQuestion("Did I pay for {what} on 12 November?", [13], "what"),
            DateQuestion("what about {what} on November 5, 2026?", [20], "what"),
            DateQuestion("Where was I with {who} on Sunday?", [3], "who"),
            DateQuestion("What happened last week?", range(3, 10)),
            DateQuestion("What happened in September?", range(56, 86)),
            DateQuestion("What did I do with {what} in October?", _month(40, NIGHT), "what"),
            DateQuestion("everything about {who} since 20 November", _since(5), "who"),
            DateQuestion("What did I do between 10 and 12 November?", [15, 14, 13]),
            DateQuestion("What happened after we moved?", range(6)),
            DateQuestion("everything about {who} since we moved", range(7), "who"),
            DateQuestion("Whom did I meet before the cellar flooded?", range(71, NOTES), "meet"),
            DateQuestion("What about {what} since we moved?", range(7), "what"),
        ),
        {6: "We moved to the house by the river.", 70: "The cellar flooded, everything is wet."},
    ),
    DiaryHome(
        "german, 2026/06/16.md",
        "{:%Y/%m/%d}.md",
        GERMAN,
        EVENING,
        True,
        (
            DateQuestion("Was habe ich gestern gemacht?", [1]),
            DateQuestion("Was war heute los?", [0]),
            DateQuestion("Was ist vorgestern passiert?", [2]),
            DateQuestion("Was habe ich letzten Freitag gemacht?", [5]),
            DateQuestion("Was habe ich am Montag gemacht?", [2]),
            DateQuestion("Was geschah am 3. Mai 2026?", [45]),
            DateQuestion("Was haben wir vor zwei Wochen unternommen?", [14]),
            DateQuestion("11.06.2026", [6]),
            DateQuestion("Was war am 9. April?", [69]),
            DateQuestion("Wen habe ich gestern getroffen?", [1], "meet"),
            DateQuestion("Was habe ich letzten Freitag über {what} notiert?", [5], "what"),
            DateQuestion("Wer rief vor drei Tagen wegen {what} an?", [3], "what"),
            DateQuestion("Habe ich am 12. Mai {what} bezahlt?", [36], "what"),
            DateQuestion("{what}, 5. Juni 2026", [12], "what"),
            DateQuestion("Wo war ich am Sonntag mit {who}?", [3], "who"),
            DateQuestion("Was ist letzte Woche passiert?", range(3, 10)),
            DateQuestion("Was war im April?", _month(60, EVENING)),
            DateQuestion("Was habe ich im Mai mit {what} gemacht?", _month(30, EVENING), "what"),
            DateQuestion("alles über {who} seit dem 12. Juni", _since(5), "who"),
            DateQuestion("Was habe ich vom 2. bis 4. Juni gemacht?", [15, 14, 13]),
        ),
    ),
    DiaryHome(
        "french, 09-03-2027.md",
        "journal/{:%d-%m-%Y}.md",
        FRENCH,
        MORNING,
        False,
        (
            DateQuestion("Qu'est-ce que j'ai fait hier ?", [1]),
            DateQuestion("Que s'est-il passé aujourd'hui ?", [0]),
            DateQuestion("Qu'avons-nous fait avant-hier ?", [2]),
            DateQuestion("Qu'est-ce que j'ai fait vendredi dernier ?", [5]),
            DateQuestion("¿Qué hice el lunes?", [2]),
            DateQuestion("Que s'est-il passé le 3 février 2027 ?", [35]),
            DateQuestion("Qu'ai-je fait il y a deux semaines ?", [14]),
            DateQuestion("cosa ho fatto ieri?", [1]),
            DateQuestion("¿Qué pasó el 9 de enero?", [60]),
            DateQuestion("Qui ai-je vu hier ?", [1], "meet"),
            DateQuestion("Qu'ai-je noté sur {what} vendredi dernier ?", [5], "what"),
            DateQuestion("Qui a appelé pour {what} il y a trois jours ?", [3], "what"),
            DateQuestion("Ai-je payé {what} le 12 février ?", [26], "what"),
            DateQuestion("{what}, il 5 marzo 2027", [5], "what"),
            DateQuestion("Où étais-je dimanche avec {who} ?", [3], "who"),
            DateQuestion("Que s'est-il passé la semaine dernière ?", range(3, 10)),
            DateQuestion("cosa è successo a gennaio?", _month(50, MORNING)),
            DateQuestion("Qu'ai-je fait avec {what} en février ?", _month(20, MORNING), "what"),
            DateQuestion("tout sur {who} depuis le 5 mars", _since(5), "who"),
            DateQuestion("Qu'ai-je fait du 22 au 24 février ?", [16, 15, 14]),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Day:
    """A daily note, and what its lines were drawn from."""

    date: date
    text: str
    drawn: Mapping[str, Sequence[str]]


def diary(home: DiaryHome) -> list[Day]:
    """The daily notes of a home, the day on which it is asked first."""
    draw, found = Random(home.name), []
    for n in range(NOTES):
        drawn: dict[str, list[str]] = {"who": [], "what": [], "where": [], "meet": []}
        parts = []
        for heading in home.language.headings:
            lines = [_line(home.language, line, draw, drawn) for line in draw.sample(home.language.lines, 2)]
            parts.append(f"## {heading}\n\n" + "\n".join(f"- {line}" for line in lines))
        if n in home.events:
            parts.append(f"## Night\n\n- {home.events[n]}")
        found.append(Day(home.clock.date() - timedelta(days=n), "\n\n".join(parts) + "\n", drawn))
    return found


def _line(language: Language, line: str, draw: Random, drawn: dict[str, list[str]]) -> str:
    chosen = {name: draw.choice(getattr(language, name)) for name in ("who", "where", "what")}
    for name, value in chosen.items():
        if f"{{{name}}}" in line:
            drawn[name].append(value)
    if line in (language.lines[0], language.lines[4]):
        drawn["meet"].append(chosen["who"])
    return line.format(**chosen)


def asked(question: DateQuestion, days: Sequence[Day]) -> tuple[str, set[date]]:
    """A question's text, and the days that are right."""
    among = [days[n] for n in question.days if n < len(days)]
    if not question.about:
        return question.text, {day.date for day in among}
    said = next((day.drawn[question.about][0] for day in among if day.drawn[question.about]), "")
    right = {day.date for day in among if question.about == "meet" or said in day.drawn[question.about]}
    return question.text.format(**{question.about: said}), right


def write_diary(home: DiaryHome, days: Sequence[Day], folder: Path) -> None:
    """Write the notes of the days, and a note of no day about each thing."""
    for day in days:
        path = folder / home.layout.format(day.date)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(day.text, encoding="utf-8")
    words, draw = home.language, Random(home.name + " others")
    for n, what in enumerate(words.what):
        text = words.other.format(what=what, who=draw.choice(words.who), where=draw.choice(words.where))
        (folder / f"topic {n}.md").write_text(f"# {what}\n\n{text}\n", encoding="utf-8")


def run(homes: Sequence[DiaryHome] = HOMES) -> dict[str, Any]:
    """By home and in all: the share of questions of which the first excerpt is of a right day, and of which a whole
    day is shown; and the questions that fail."""
    rows = [row for home in homes for row in asyncio.run(_ask(home))]
    return {
        "questions": len(rows),
        "notes": NOTES,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "by_home": {home.name: figures([row for row in rows if row["home"] == home.name]) for home in homes},
        "tuned": figures([row for row in rows if row["tuned"]]),
        "reported": figures([row for row in rows if not row["tuned"]]),
        "all": figures(rows),
        "failed": [f"{row['question']} → {row['first']}" for row in rows if not row["right"]],
    }


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Shares of the questions: right day first, the day shown whole, excerpts of other days, empty blocks."""
    whole = [row["whole"] for row in rows if row["whole"] is not None]

    def mean(values: Sequence[float]) -> float:
        return round(sum(values) / len(values), 4) if values else 0.0

    return {
        "right_day_first": mean([row["right"] for row in rows]),
        "day_whole": mean(whole),
        "other_days": mean([row["other"] for row in rows]),
        "empty": mean([row["empty"] for row in rows]),
    }


def show(found: Mapping[str, Any]) -> None:
    """Print the figures of each home."""
    print(f"{'':28} right day first   day whole   other days   empty")
    for name, one in {**found["by_home"], "all": found["all"]}.items():
        shares = "   ".join(f"{one[key]:{width}.2f}" for key, width in _COLUMNS.items())
        print(f"{name:28} {shares}")
    for line in found["failed"]:
        print(f"  {line}")


_COLUMNS = {"right_day_first": 15, "day_whole": 9, "other_days": 10, "empty": 5}


async def _ask(home: DiaryHome) -> list[dict[str, Any]]:
    days = diary(home)
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        vault = Path(folder) / "diary"
        vault.mkdir()
        write_diary(home, days, vault)
        backends = {name: {"deadline_ms": TIMEOUT_MS} for name in BACKENDS}
        settings = load(home=Path(folder) / "home", notes={"paths": [str(vault)]}, backends=backends)
        async with Gateway.open(settings) as gateway:
            await gateway.settle()
            return [await _row(gateway, home, question, days) for question in home.questions]


async def _row(gateway: Gateway, home: DiaryHome, question: DateQuestion, days: Sequence[Day]) -> dict[str, Any]:
    text, right = asked(question, days)
    fused = await gateway.fuse(
        FuseRequest(
            text,
            SCOPE,
            timezone=str(home.clock.tzinfo),
            now=home.clock.astimezone(UTC),
            timeout_ms=TIMEOUT_MS,
            all_users=True,
        )
    )
    shown = [_day(excerpt.document, home, days) for excerpt in fused.memories]
    day = days[question.days[0]] if question.whole else None
    return {
        "home": home.name,
        "tuned": home.tuned,
        "question": text,
        "first": str(shown[0]) if shown else "nothing",
        "right": bool(shown) and shown[0] in right,
        "whole": None if day is None else all(line in fused.block for line in day.text.split("\n") if "- " in line),
        "other": sum(day not in right for day in shown) / len(shown) if shown else 0.0,
        "empty": not fused.block,
    }


def _day(document: str | None, home: DiaryHome, days: Sequence[Day]) -> date | None:
    return next((day.date for day in days if (document or "").endswith(home.layout.format(day.date))), None)
