"""Measures whether anything answers a memory that was decided against: expired, archived, lost, merged and so on.

A server with the four default memories is filled over HTTP, as a client does it. Half of the memories get a fate by the
door that users have for it, and the lifecycle decides the rest. Then questions in the words of these memories are asked
in every way that answers: `/fuse`, the search of each backend, and the cortex's recall.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from benchmarks.progress import Advance, bar
from benchmarks.server_processes import Child, serving
from benchmarks.synthetic_text import sentence, word
from fusion.client.aio import AsyncClient

BACKENDS = ("markdown", "mem0", "triples", "cortex")
USER = "ada"
BATCH = 100
AT_ONCE = 4
TIMEOUT_S = 600.0
POLL_S = 5.0
TIMEOUT_MS = 60_000
"""long, because it is measured what is answered, not how soon"""
LONG_AGO, OVER = "2020-01-01T00:00:00Z", "2024-01-01T00:00:00Z"
BY_HAND: Mapping[str, Mapping[str, Any]] = {
    "expired": {"lifetime": "ttl"},
    "decayed": {"lifetime": "session"},
    "archived": {"archived": True},
    "quarantined": {"trust": "quarantined"},
    "updated": {},
}
"""by fate, the state that is set by hand; the lifecycle decides the rest"""
SHORT_HOURS = 1e-6
"""a lifetime that is over when the lifecycle runs"""
WINDOW = 20
"""memories of which the first are decided about, and the others stay current"""

Body = dict[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class Case:
    """One name with what is said of it. One of ``texts`` is decided against, except that of a current memory."""

    fate: str
    name: str
    texts: tuple[str, ...]
    refs: list[str] = field(default_factory=list)
    against: dict[str, str] = field(default_factory=dict)
    """by ref, the texts that were decided against"""


FATES: Mapping[str, int] = {
    "expired": 1,
    "decayed": 1,
    "retired": 1,
    "archived": 1,
    "quarantined": 1,
    "lost": 2,
    "merged": 2,
    "updated": 1,
}
"""by fate, the number of memories of a case: a conflict and a repetition need two"""


def cases(memories: int) -> Iterator[Case]:
    """The cases for so many memories: of each `WINDOW`, each fate once, and the rest current."""
    draw, names = Random("decided"), set[str]()
    decided = sum(FATES.values())
    for _ in range(max(1, memories // WINDOW)):
        for fate in (*FATES, *["current"] * (WINDOW - decided)):
            name = f"{word(draw)} {word(draw)}".title()
            while name in names:
                name = f"{word(draw)} {word(draw)}".title()
            names.add(name)
            yield Case(fate, name, _texts(fate, name, draw))


def _texts(fate: str, name: str, draw: Random) -> tuple[str, ...]:
    thing, room = f"{word(draw)} {word(draw)}", f"{word(draw)} {word(draw)}"
    match fate:
        case "lost":
            return f"{name} lives in {thing.title()}.", f"{name} lives in {room.title()}."
        case "merged":
            return f"{name} keeps the {thing} in the {room}.", f"In the {room} {name} keeps the {thing}."
        case "current":
            return (f"About {name}: {sentence(draw, 60)}",)
        case _:
            return (f"{name} keeps the {thing} in the {room}.",)


async def decided(memories: int, questions: int) -> dict[str, Any]:
    """The figures: how many memories were decided against, by fate, and how many of these were answered."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        patient = "".join(f"[backends.{name}]\ndeadline_ms = {TIMEOUT_MS}\n" for name in BACKENDS)
        (home / "fusion.toml").write_text(f'log_level = "warning"\n{patient}', encoding="utf-8")
        command = ["-m", "fusion", "serve", "--home", str(home), "--port", "0", "--idle-exit", "600", "--json"]
        with serving(command) as server:
            return await _Measurement(server, list(cases(memories))).figures(questions)


def _body(case: Case, text: str) -> Body:
    """A memory as it is sent."""
    body: Body = {"text": text, "user_id": USER, "kind": "note" if case.fate == "current" else "fact"}
    return body | {"valid_from": LONG_AGO, "valid_to": OVER} if case.fate == "retired" else body


def _question(case: Case, turn: int) -> str:
    """A question that the memories of a case answer: by name, in all words, or by some words."""
    text = case.texts[turn % len(case.texts)].rstrip(".")
    return (f"what do we know about {case.name}?", text, f"tell me about {' '.join(text.split()[-4:])}")[turn % 3]


class _Measurement:
    """One server, with what is known about its memories."""

    def __init__(self, server: Child, known: Sequence[Case]) -> None:
        address = server.address
        self._client = AsyncClient(address.url, api_key=address.token, timeout_s=TIMEOUT_S)
        self._cases = known

    async def figures(self, questions: int) -> dict[str, Any]:
        async with self._client:
            await self._fill()
            await self._decide()
            await self._each("states", [case for case in self._cases if case.fate != "current"], self._look)
            counts = Counter(case.fate for case in self._cases for _ in case.against)
            faults, answers = await self._ask(questions)
            return {
                "memories": sum(len(case.refs) for case in self._cases),
                "decided_against": counts.total(),
                "decided_by_fate": dict(counts),
                "undecided": sum(case.fate != "current" and not case.against for case in self._cases),
                "questions": questions,
                "answers": answers.total(),
                "memories_answered": dict(answers),
                "decided_but_answered": len(faults),
                "faults": faults[:10],
            }

    # Filling

    async def _fill(self) -> None:
        every = [(case, _body(case, text)) for case in self._cases for text in case.texts]
        with bar("memories", len(every)) as advance:
            for start in range(0, len(every), BATCH):
                some = every[start : start + BATCH]
                kept = (await self._client.remember([body for _, body in some]))["memories"]
                for (case, _), one in zip(some, kept, strict=True):
                    case.refs.append(one["ref"])
                advance(len(some))
        await self._settle()

    async def _settle(self) -> None:
        """Wait until the backends have everything, and all statements are compared."""
        total = sum(len(case.refs) for case in self._cases)
        with bar("delivered and compared", total) as advance:
            there = 0
            while not (state := await self._client.settle(POLL_S))["settled"]:
                missing = max(one["backlog"] + one["vectors_pending"] for one in state["backends"])
                advance(max(0, total - missing - there))
                there = max(there, total - missing)
            advance(total - there)
        for one in state["backends"]:
            if one["status"] != "ready" or not one["items"]:
                raise RuntimeError(f"{one['name']} does not have the memories: {one}")

    # Deciding

    async def _decide(self) -> None:
        await self._each("decisions", [case for case in self._cases if case.fate in BY_HAND], self._decide_by_hand)
        await self._client.lifecycle(ttl_hours=SHORT_HOURS, idle_hours=SHORT_HOURS, user_id=USER)
        await self._settle()

    async def _decide_by_hand(self, case: Case) -> None:
        if case.fate == "updated":
            await self._client.update(case.refs[0], f"{case.name} gave it away.", user_id=USER)
        else:
            await self._client.set_state(case.refs[0], user_id=USER, **BY_HAND[case.fate])

    async def _look(self, case: Case) -> None:
        """Note which memories of a case the journal says are decided against."""
        for ref, text in zip(case.refs, case.texts, strict=True):
            memory = await self._client.memory(ref, user_id=USER)
            state = memory.get("state", {})
            ended = state.get("ended_at") or state.get("merged_into") or state.get("trust") == "quarantined"
            if ended or not memory["current"]:
                case.against[ref] = text

    # Asking

    async def _ask(self, questions: int) -> tuple[list[str], Counter[str]]:
        """What was answered though it was decided against, and how many memories each way answered in all."""
        by_fate: dict[str, list[Case]] = {}
        for case in self._cases:
            if case.against:
                by_fate.setdefault(case.fate, []).append(case)
        fate_of = {ref: case.fate for found in by_fate.values() for case in found for ref in case.against}
        faults: list[str] = []
        answers: Counter[str] = Counter()

        async def ask(number: int) -> None:
            turn, fate = divmod(number, len(by_fate))
            of_fate = list(by_fate.values())[fate]
            case = of_fate[turn % len(of_fate)]
            for way, found in (await self._answers(_question(case, turn))).items():
                answers[way] += len(found)
                for ref, text in found:
                    wrong = [text] if ref in fate_of else [one for one in case.against.values() if one in text]
                    faults.extend(f"{way}: {fate_of.get(ref, case.fate)} {ref}: {one}" for one in wrong)

        await self._each("questions", range(questions), ask)
        return faults, answers

    async def _answers(self, question: str) -> dict[str, list[tuple[str, str]]]:
        """Ref and text of each memory in the answers to a question, by the way it was asked."""
        found: dict[str, list[tuple[str, str]]] = {}
        for recipe in ("default", "hook"):
            fused = await self._client.fuse(question, user_id=USER, recipe=recipe, timeout_ms=TIMEOUT_MS)
            members = [member for excerpt in fused["memories"] for member in excerpt["members"]]
            found[f"fuse {recipe}"] = [(one["ref"], one["text"]) for one in members] + [("", fused["block"])]
        for name in BACKENDS:
            hits = (await self._client.search(name, question, limit=20, user_id=USER))["hits"]
            found[f"search {name}"] = [(hit["ref"], hit["text"]) for hit in hits]
        recalled = await self._client.do("cortex", "recall", {"message": question}, user_id=USER)
        found["cortex recall"] = [("", recalled["context"])] if recalled["context"] else []
        return found

    async def _each(self, title: str, items: Sequence[T], work: Callable[[T], Awaitable[object]]) -> None:
        """Do something for each item, `AT_ONCE` of them at a time."""
        left = iter(items)

        async def some(advance: Advance) -> None:
            for item in left:
                await work(item)
                advance(1)

        with bar(title, len(items)) as advance:
            await asyncio.gather(*(some(advance) for _ in range(AT_ONCE)))
