"""Backends that no tenant owns alone keep tenants apart: Qdrant, PostgreSQL, and the user's folders of Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.home import tenant_folder
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings, load
from tests.postgres.servers import PostgreSQL

MARKDOWN = "adapters.markdown:Markdown"
PATIENT = {"deadline_ms": 60_000}
PAIRS = (("acme", "globex"), ("default", "globex"), ("acme", "default"))
"""the tenant that asks, and the tenant that writes as well"""
MINE = ("the harbour opens at six", "Marta keeps bees", "the bridge is closed", "bees like the harbour")
THEIRS = (*(f"the harbour of bees number {n}" for n in range(40)), "quillon is the name of the plan")
WORDS = ("harbour", "bees", "the bridge", "quillon", "quillons")


def settings_of(home: Path, name: str, **options: object) -> Settings:
    """A home with one backend, without a model."""
    return load(home=home, embedder={"adapter": ""}, backends_only=True, backends={name: {**PATIENT, **options}})


async def write(gateway: Gateway, tenant: str, texts: tuple[str, ...]) -> list[str]:
    kept = [row for text in texts for row in await gateway.remember([NewMemory(text)], tenant=tenant)]
    await gateway.settle(tenant)
    return [row.ref for row in kept]


async def seen(gateway: Gateway, tenant: str, backend: str) -> Mapping[str, Any]:
    """What a tenant is shown of a backend: hits with their scores, in order, and totals."""
    found = {}
    for word in WORDS:
        answer = await gateway.search(backend, word, Scope(tenant, audience="private"), 100)
        assert answer.status in ("ok", "empty"), answer
        found[word] = [(hit.text, hit.score) for hit in answer.hits]
    [state] = await gateway.backends(tenant)
    return {**found, "items": state["items"], "status": state["status"]}


@pytest.mark.skipif(find_spec("qdrant_client") is None, reason="the server is made of qdrant-client's local mode")
@pytest.mark.feature(
    "… on a Qdrant server each tenant has its own collection, so its word statistics, totals and refs are its own",
    of="each tenant has its own journal",
)
@pytest.mark.parametrize(("me", "other"), PAIRS)
async def test_qdrant_collection_of_a_tenant_is_not_affected_by_another(home: Path, me: str, other: str) -> None:
    """The same memories with and without another tenant on the same server: equal scores, order, totals and refs."""
    from tests.qdrant_server import Qdrant

    observed = []
    for crowded in (False, True):
        async with Qdrant() as server:
            chosen = settings_of(
                home / str(crowded), "qdrant", adapter="adapters.qdrant:Qdrant", url=server.url, connect_ms=60_000
            )
            async with Gateway.open(chosen) as gateway:
                if crowded:
                    await write(gateway, other, THEIRS)
                refs = await write(gateway, me, MINE)
                if crowded:
                    await write(gateway, other, ("one more of the harbour",))
                observed.append((refs, await seen(gateway, me, "qdrant")))
            assert len(server.client.get_collections().collections) == 1 + crowded
    alone, crowd = observed
    assert alone == crowd
    assert alone[1]["items"] == len(MINE)
    assert [text for text, _ in alone[1]["bees"]] != []


@pytest.mark.skipif(find_spec("psycopg") is None, reason="needs the extra `postgres`")
@pytest.mark.feature(
    "… in PostgreSQL each tenant has its own schema, so its word statistics, totals and refs are its own",
    of="each tenant has its own journal",
)
@pytest.mark.parametrize(("me", "other"), PAIRS)
async def test_postgres_schema_of_a_tenant_is_not_affected_by_another(
    home: Path, postgres: PostgreSQL, me: str, other: str
) -> None:
    observed = []
    for crowded in (False, True):
        with postgres.database() as database:
            password = str(urlsplit(database.url).password)
            (file := home.parent / "password").write_text(password)
            chosen = settings_of(
                home / str(crowded),
                "postgres",
                adapter="adapters.postgres:Postgres",
                url=database.url.replace(f":{password}@", "@"),
                password_file=str(file),
                connect_ms=60_000,
            )
            async with Gateway.open(chosen) as gateway:
                if crowded:
                    await write(gateway, other, THEIRS)
                await write(gateway, me, MINE)
                if crowded:
                    await write(gateway, other, ("one more of the harbour",))
                observed.append(await seen(gateway, me, "postgres"))
    alone, crowd = observed
    assert alone == crowd
    assert alone["items"] == len(MINE)


@pytest.mark.feature(
    "… only the tenant that `bind` names reads the folders of Markdown",
    of="each tenant has its own journal",
)
@pytest.mark.parametrize(("bound", "other"), [("acme", "globex"), ("acme", "default"), ("default", "globex")])
async def test_markdown_folders_are_read_for_the_bound_tenant_only(
    home: Path, tmp_path: Path, bound: str, other: str
) -> None:
    """The tenant that ``bind`` names finds the notes; of the other no score, total or ref moves with them."""
    (notes := tmp_path / "notes").mkdir()
    observed = []
    for crowded in (False, True):
        if crowded:
            (notes / "plan.md").write_text("\n\n".join(f"# {n}\n\n{text}" for n, text in enumerate(THEIRS)))
        options: dict[str, Any] = {"paths": [str(notes)], "bind": {"tenant": bound}}
        async with Gateway.open(settings_of(home / str(crowded), "markdown", adapter=MARKDOWN, **options)) as gateway:
            mine = await seen(gateway, bound, "markdown")
            assert bool(mine["quillon"]) is crowded
            observed.append((await write(gateway, other, MINE), await seen(gateway, other, "markdown")))
    alone, crowd = observed
    assert alone == crowd
    assert alone[1]["items"] == len(MINE)


@pytest.mark.parametrize("bind", [{}, {"tenant": "globex", "user_id": "ada"}])
async def test_notes_written_by_a_tenant_are_its_own(home: Path, bind: Mapping[str, str]) -> None:
    """A line that somebody adds by hand to a tenant's folder is that tenant's, whatever ``bind`` says of folders."""
    folder = tenant_folder(home, "acme") / "backends" / "markdown" / "notes"
    async with Gateway.open(settings_of(home, "markdown", adapter=MARKDOWN, bind=bind)) as gateway:
        await write(gateway, "acme", MINE[:1])
    (folder / "own.md").write_text("The lantern hangs in the hall.\n")
    async with Gateway.open(settings_of(home, "markdown", adapter=MARKDOWN, bind=bind)) as gateway:
        for tenant, found in (("acme", ["The lantern hangs in the hall."]), ("globex", []), ("default", [])):
            scope = Scope(tenant, audience="private")
            answer = await gateway.search("markdown", "lantern", scope)
            assert [hit.text.strip() for hit in answer.hits] == found, tenant


def test_long_collection_names_with_equal_prefixes_are_separate() -> None:
    """Two backends of one server: the name of a tenant's collection is cut, and still says whose of both it is."""
    from adapters.qdrant.memories import of_tenant
    from adapters.qdrant.options import Ours

    one, two = (of_tenant(Ours(collection="x" * 41 + end), "acme").collection for end in "ab")
    assert one != two
    assert max(len(one), len(two)) <= 64
    assert of_tenant(Ours(collection="memories"), "acme").collection.startswith("memories-t")
