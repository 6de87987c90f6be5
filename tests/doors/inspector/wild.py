"""What hostile memories, ids and backends say, in every field that the inspector shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from adapters.inmemory import InMemory
from fusion.client import Client
from fusion.contract import Description, Hit, Opening, Query

WORD = "zqx"
"""stands in every hostile text, and in nothing else"""
HTML = f"<img src=x onerror=alert(1)><script>alert(2)</script><a href='javascript:alert(3)'>{WORD}</a> <b>{WORD}</b>"
TEXTS = {
    "html": HTML,
    "loading": f"{WORD} <link rel=stylesheet href=//evil.example/a.css><iframe src=https://evil.example></iframe> "
    "![x](https://evil.example/a.png) <svg/onload=alert(4)> <meta http-equiv=refresh content='0;url=//evil.example'>",
    "ansi": f"{WORD} \u001b[31mred\u001b[0m \u0007 \u009b2J \u001b]8;;https://evil.example\u0007link\u001b]8;;\u0007",
    "bidi": f"{WORD} \u202egnirts desrever\u202c \u2066isolate\u2069 \u200binvisible \u200emark",
    "wide": f"{WORD} {'W' * 99_000}",
    "template": f"{WORD} ${{alert(1)}} {{{{constructor.constructor('alert(1)')()}}}} </textarea></script> __proto__",
}
"""by what is hostile about them"""
NAME = f"<img src=x onerror=alert(5)>{WORD}"
"""an id as a caller may choose it: one line of visible characters"""
OWNED = f"{WORD} <script>alert(6)</script>"


class Wild(InMemory):
    """Says hostile things about itself, and cites ids and documents that are markup."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return await super().open(opening)

    async def describe(self) -> Description:
        return Description(items=1, notes=tuple(TEXTS.values()), degraded=True)

    async def search(self, query: Query) -> Sequence[Hit]:
        found = await super().search(query)
        return [*found, *(replace(hit, native_id=f"{hit.native_id} {HTML}", event_id=None) for hit in found[:2])]


SETTINGS = f"""
[backends.wild]
adapter = "{__name__}:Wild"
deadline_ms = 60000
[jobs]
start_after_s = 3600
"""


def fill(memory: Client) -> list[str]:
    """Put hostile words into every field that takes them. Returns the refs of the memories."""
    items = [
        {"text": text, "source": NAME, "speaker": NAME, "tags": [NAME[:60]], "document": NAME, "position": n,
         "agent_id": NAME, "session_id": NAME}
        for n, text in enumerate(TEXTS.values())
    ]  # fmt: skip
    kept = memory.remember([*items, {"text": HTML, "kind": "plan", "due": "2020-01-01"}])["memories"]
    memory.settle(60)
    refs = [str(one["ref"]) for one in kept]
    memory.assert_fact(NAME, "owns", OWNED, sources=refs[:1])
    for ref, text in zip(refs, TEXTS.values(), strict=False):
        memory.set_state(ref, importance=0.5, why=text[:300])
    memory.propose([{"text": text[:2000], "reason": text[:300]} for text in TEXTS.values()])
    for text in TEXTS.values():
        memory.fuse(text[:2000], asker={"session_id": NAME, "agent_id": NAME})
    return refs
