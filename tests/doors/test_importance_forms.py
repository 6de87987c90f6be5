"""Importance in all older forms, at the doors that take it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.contract import Scope
from fusion.doors.http.app import create_app
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.stated_fields import stated_values
from fusion.sources.readers import read
from tests.gateway.helpers import small

FORMS: list[tuple[Any, float]] = [
    (0.86, 0.86),
    ("86%", 0.86),
    ("８６％", 0.86),
    ("86/100", 0.86),
    ("must_remember", 0.8),
    ("medium", 0.5),
    ({"score": 0.7, "label": "nice_to_have"}, 0.7),
    ({"label": "ignore"}, 0.0),
]


@pytest.mark.row(
    "A127", "older forms of importance are taken over HTTP, by remember and by state, and a grade is shown"
)
async def test_http_takes_every_form(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        transport = httpx.ASGITransport(create_app(gateway, gateway.settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            for number, (form, score) in enumerate(FORMS):
                body = {"text": f"Ferry {number} has {number} decks", "importance": form}
                ref = (await http.post("/v1/memories", json=body)).json()["memories"][0]["ref"]
                shown = (await http.get(f"/v1/memories/{ref}")).json()["grade"]
                assert (shown["score"], shown["method"]) == (score, "manual")
            for form, score in FORMS:
                await http.post("/v1/state", json={"ref": ref, "importance": form, "why": "it matters"})
                assert (await http.get(f"/v1/memories/{ref}")).json()["grade"]["score"] == score
            await http.post("/v1/state", json={"ref": ref, "importance": "unknown"})
            unknown = (await http.get(f"/v1/memories/{ref}")).json()["grade"]
            assert (unknown["score"], unknown["label"]) == (None, "unknown")


@pytest.mark.row("A127", "older forms of importance are taken in a line of JSONL")
def test_jsonl_takes_every_form(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": "Tea", "importance": form}) + "\n" for form, _ in FORMS))
    found = [one for one in read([file], Scope(user_id="ada")) if isinstance(one, NewMemory)]
    assert [stated_values(one.stated)["importance"] for one in found] == [score for _, score in FORMS]
