"""Prompts that nobody planned for, over a whole home with the model: huge, empty, code, and in unknown scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.ingest.intake import NewMemory
from tests.faults.home import door, settings_of
from tests.gateway.helpers import NADIA
from tests.patience import PATIENT_MS

pytestmark = pytest.mark.model

RECIPES = ("default", "hook", "deep")
KEY = "Ada keeps the key of the boathouse under the blue mat"
QUESTION = "Where does Ada keep the key of the boathouse?"
AMHARIC = {
    "key": "አበበ ቁልፉን ከምንጣፉ ስር ያስቀምጣል",
    "bakery": "ዳቦ ቤቱ ሰኞ ዝግ ነው",
    "doctor": "ሐኪሙ የስልክ ቁጥሩን ቀየረ",
    "cat": "ድመቷ ትናንት ጠፋች",
}
CODE = '  File "app.py", line 17, in rows\n    return [int(x) for x in line.split(",")]\n'


@pytest.fixture
async def client(home: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The server of a home with the local model, and some memories in it."""
    settings = settings_of(home, "adapters.embedders.providers:Providers", cortex="adapters.cortex:Cortex")
    async with door(settings) as (gateway, client):
        texts = [KEY, "The bakery is closed on Mondays", "Julia was born in March", *AMHARIC.values()]
        await gateway.remember([NewMemory(text, scope=NADIA) for text in texts])
        await gateway.settle()
        yield client


async def ask(client: httpx.AsyncClient, prompt: str, recipe: str = "default") -> httpx.Response:
    return await client.post(
        "/fuse", json={"query": prompt, "user_id": "nadia", "timeout_ms": PATIENT_MS, "recipe": recipe}
    )


async def best_of(client: httpx.AsyncClient, prompts: Mapping[str, str]) -> dict[str, str]:
    """The best memory for each prompt, by the prompt's name and recipe; "" for none."""
    found = {}
    for name, prompt in prompts.items():
        for recipe in RECIPES:
            reply = await ask(client, prompt, recipe)
            assert reply.status_code == 200, (name, reply.text)
            found[f"{name}, {recipe}"] = next(iter(_texts(reply.json())), "")
    return found


def _texts(reply: dict[str, Any]) -> list[str]:
    return [member["text"] for excerpt in reply["memories"] for member in excerpt["members"]]


@pytest.mark.feature(
    "a prompt of code, one endless word, emoji or an unknown script gets no memory", part="faults/clients"
)
async def test_prompt_that_asks_for_nothing_stored_gets_nothing(client: httpx.AsyncClient) -> None:
    """Each is answered, by every recipe, and with an empty block."""
    found = await best_of(
        client,
        {
            "code": CODE * 300,
            "one word": "x" * 30_000,
            "combining marks": "Z\u0351\u036b\u0343\u036a" * 2_000,
            "invisible": "\u202e\u2066\u200b" * 500 + "?",
            "emoji": "🙂🦄" * 400,
            "brackets": "((((" * 2_000 + "))))" * 2_000,
            "unknown script": "የባንኩ ሒሳብ ስንት ነበር",
            "a script that no memory has": "ᎠᏴ ᏂᎯ ᎢᏳᏍᏗ",
        },
    )
    assert found == dict.fromkeys(found, "")


@pytest.mark.feature("a question in a huge prompt, or with code, is answered", part="faults/clients")
async def test_question_beside_what_was_pasted_is_answered(client: httpx.AsyncClient) -> None:
    """A log, a traceback or code before or after the question does not hide what is asked."""
    found = await best_of(
        client,
        {
            "log": "INFO worker 17 done in 3 ms\n" * 1_000 + QUESTION,
            "traceback": f"{QUESTION}\n\n" + CODE * 250,
            "code": f"```python\n{CODE * 20}```\n{QUESTION}",
        },
    )
    assert found == dict.fromkeys(found, KEY)


@pytest.mark.feature("a question in a script that the model does not know is answered by its words")
async def test_question_in_an_unknown_script_is_answered_by_its_words(client: httpx.AsyncClient) -> None:
    """Every memory is found, so none was merged into another; and the right one leads."""
    prompts = {"cat": "ድመቷ", "doctor": "ሐኪሙ ምን ቀየረ", "bakery": "ዳቦ ቤቱ መቼ ዝግ ነው", "key": "ቁልፉን ከምንጣፉ"}
    found = await best_of(client, prompts)
    assert found == {f"{name}, {recipe}": AMHARIC[name] for name in prompts for recipe in RECIPES}


async def test_empty_and_oversized_prompts_are_refused(client: httpx.AsyncClient) -> None:
    found = [(await ask(client, prompt)).status_code for prompt in ("", " \n\t ", "why " * 8_001)]
    assert found == [422, 422, 413]
