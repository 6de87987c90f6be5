"""Synthesis cards: compiled, cited, stale as soon as a new one would differ, and gone with what they quote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, NotFound
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.temporal_facts import FactRequest
from fusion.journal import cards
from tests.gateway.helpers import NADIA, OMAR, remember, small
from tests.gateway.test_graph import TEXTS, with_graph
from tests.gateway.test_graph_lane import ASKED, graph_of


async def with_card(gateway: Gateway) -> tuple[str, str]:
    """A card about Postgres 16: the refs of the memory and of the assertion that it is made of."""
    (source, *_) = await remember(gateway, "The databases were looked at on Monday.", *TEXTS)
    fact = await gateway.assert_fact(FactRequest("Postgres 16", "status", "in production", (source,), NADIA))
    await gateway.refresh_card(NADIA, "Postgres 16")
    return source, fact["fact"]["id"]


@pytest.mark.row("A137", "what the graph synthesised comes first in a pack, while it is fresh")
async def test_a_fresh_card_comes_first_and_a_stale_one_is_left_out_and_said(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        source, fact = await with_card(gateway)
        card = await gateway.card(NADIA, "Postgres 16")
        assert card["fresh"]
        assert {line["ref"] for line in card["lines"]} >= {fact, f"obs:{source}"}
        pack = await gateway.pack(ASKED)
        assert (pack.items[0].type, pack.items[0].recordRef) == ("synthesis_card", fact)
        assert f"Postgres 16 has the status in production ({fact})" in pack.items[0].text
        assert [item.type for item in pack.items].count("temporal_fact") == 0, "the card has it"
        await gateway.assert_fact(FactRequest("Postgres 16", "status", "retired", (source,), NADIA))
        later = await gateway.pack(ASKED)
        assert later.items[0].type == "temporal_fact"
        assert graph_of(later)["stale_cards"] == ["entity:postgres-16"]
        stale = await gateway.card(NADIA, "Postgres 16")
        assert (stale["fresh"], stale["lines"]) == (False, [])
        assert f"{fact} does not say any more what the card cites" in stale["reasons"]
        assert not (await gateway.lint_cards(NADIA))["ok"]
        assert (await gateway.refresh_card(NADIA, "Postgres 16"))["fresh"]
        assert await gateway.lint_cards(NADIA) == {"ok": True, "cards": 1, "stale": []}


async def test_a_card_goes_with_a_memory_that_it_quotes(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        source, _ = await with_card(gateway)
        await gateway.forget(source, NADIA)
        with pytest.raises(NotFound, match="no card"):
            await gateway.card(NADIA, "Postgres 16")
        left = await gateway.journal.read(lambda db: db.execute("select count(*) from card_source").fetchone()[0])
        assert left == 0


async def test_a_quarantined_source_makes_a_card_stale_and_its_lines_unseen(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        source, _ = await with_card(gateway)
        await gateway.set_state(StateRequest(source, NADIA, trust="quarantined"))
        card = await gateway.card(NADIA, "Postgres 16")
        assert (card["fresh"], card["lines"]) == (False, [])
        assert "looked at on Monday" not in (await gateway.pack(ASKED)).bundle_text


async def test_a_card_is_of_one_owner_and_audience(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        await with_card(gateway)
        for scope in (OMAR, replace(NADIA, audience="group")):
            with pytest.raises(NotFound):
                await gateway.card(scope, "Postgres 16")
        (theirs,) = await remember(gateway, "Omar looked, too.", scope=OMAR)
        await gateway.assert_fact(FactRequest("Postgres 16", "status", "old", (theirs,), OMAR))
        with pytest.raises(BadInput, match="several users"):
            await gateway.refresh_card(Scope(audience="private"), "Postgres 16")
        with pytest.raises(NotFound, match="nothing holds"):
            await gateway.refresh_card(NADIA, "Mars")
        assert await gateway.journal.read(cards.find, OMAR, "entity:postgres-16") is None


@pytest.mark.feature("the graph can be exported as pages of Markdown, the same for the same facts")
async def test_pages_have_links_validity_sources_and_no_private_path(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (source,) = await remember(gateway, "We looked at it.")
        facts = [
            FactRequest("shop", "uses", "entity:db", (source,), NADIA),
            FactRequest("shop", "configured_as", "see /home/nadia/secret/shop.toml [x](y)", (source,), NADIA),
            FactRequest("db", "status", "live", (source,), NADIA),
        ]
        for one in facts:
            await gateway.assert_fact(one)
        pages = (await gateway.export_graph(NADIA))["pages"]
        assert list(pages) == ["db.md", "index.md", "shop.md"]
        assert "- **uses**: [[db]] (since " in pages["shop.md"]
        assert f"obs:{source})" in pages["shop.md"]
        assert "/home/nadia" not in pages["shop.md"]
        assert r"\[x\](y)" in pages["shop.md"]
        assert (await gateway.export_graph(NADIA))["pages"] == pages
        assert (await gateway.export_graph(OMAR))["pages"] == {"index.md": "# Index\n\n"}
