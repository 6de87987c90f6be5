"""A filter of a question: folder, tag, property, kind, speaker and time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fusion.client import AsyncClient
from fusion.contract import Moment, Scope
from fusion.errors import BadInput
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.doors.contract import Checked
from tests.doors.fakes import app_over
from tests.gateway.helpers import NADIA
from tests.patience import load

PATIENCE_MS = 50_000
NOTES = {
    "customers/acme.md": "---\ntype: customer\ntags: [vip, region/north]\n---\n# Acme\n\nPumps for ships.\n",
    "customers/bolt.md": "---\ntype: customer\n---\n# Bolt\n\nScrews and pumps. Their #reefer leaks.\n",
    "projects/2026/pump.md": "---\ntype: Project\ntags: region/north\n---\n# Pump\n\nA better pump for Acme.\n",
    "inbox.md": "# Inbox\n\nCall about the pump, issue #12.\n",
}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    for name, text in NOTES.items():
        path = tmp_path / "vault" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    settings = load(home=tmp_path / "home", embedder={"adapter": ""}, notes={"paths": [str(tmp_path / "vault")]})
    async with Gateway.open(settings) as gateway:
        at = Moment(datetime(2026, 3, 2, 12, tzinfo=UTC))
        await gateway.remember(
            [
                NewMemory("We decided that the pump gets a filter", scope=NADIA, kind="decision", at=at),
                NewMemory("The pump is loud", scope=NADIA, speaker="Ada Lovelace", at=at),
                NewMemory("A pump for the aquarium", scope=NADIA, stated=(("tag", "hobby"),)),
            ]
        )
        await gateway.settle()
        yield gateway


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[AsyncClient]:
    async with AsyncClient.over(Checked(app_over(gateway))) as client:  # type: ignore[arg-type]  # a gateway, not a fake
        yield client


async def shown(client: AsyncClient, where: dict[str, Any], query: str = "pump") -> set[str]:
    """The documents in the block, and the texts of memories without one."""
    fused = await client.fuse(query, where=where, all_users=True, timeout_ms=PATIENCE_MS, max_results=50)
    return {
        (excerpt["document"] or member["text"]).removeprefix("vault/")
        for excerpt in fused["memories"]
        for member in excerpt["members"]
    }


ACME, BOLT, PUMP, INBOX = NOTES
DECIDED, LOUD, AQUARIUM = "We decided that the pump gets a filter", "The pump is loud", "A pump for the aquarium"


@pytest.mark.feature(
    "a question may be asked of a part of the memories: by folder, tag, property of a note, kind, speaker and time"
)
@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"folder": "customers"}, {ACME, BOLT}),
        ({"folder": "projects/2026"}, {PUMP}),
        ({"folder": ["customers", "2026"]}, {ACME, BOLT, PUMP}),
        ({"folder": "custom"}, set()),
        ({"tag": "vip"}, {ACME}),
        ({"tag": "#Reefer"}, {BOLT}),
        ({"tag": "region"}, {ACME, PUMP}),
        ({"tag": "12"}, set()),
        ({"tag": "hobby"}, {AQUARIUM}),
        ({"property": {"type": "customer"}}, {ACME, BOLT}),
        ({"property": {"Type": ["project", "person"]}}, {PUMP}),
        ({"property": {"type": "customer"}, "tag": "region/north"}, {ACME}),
        ({"kind": "decision"}, {DECIDED}),
        ({"speaker": "ada"}, {LOUD}),
        ({"after": "2026-03-01", "before": "2026-03-02"}, {DECIDED, LOUD}),
        ({"before": "2026-03-01"}, set()),
    ],
)
async def test_where_leaves_out_what_is_not_like_that(
    client: AsyncClient, where: dict[str, Any], found: set[str]
) -> None:
    """Whatever backend finds it: the block has only what fits, and what fits is found without a common word."""
    assert await shown(client, where) == found
    if found and not set(where) - {"folder", "tag", "property"}:
        assert await shown(client, where, "zebra crossing") <= found


async def test_search_of_one_backend_has_a_filter(client: AsyncClient) -> None:
    found = await client.search("markdown", "pump", where={"property": {"type": "customer"}}, all_users=True)
    assert {hit["place"]["document"].removeprefix("vault/") for hit in found["hits"]} == {ACME, BOLT}
    assert "properties" not in found["hits"][0]
    tool = await client.memory_search("pump", where={"tag": "vip"}, all_users=True)
    assert {result["path"].removeprefix("vault/") for result in tool["results"]} == {ACME}


async def test_changed_front_matter_changes_what_fits(gateway: Gateway, client: AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "vault" / INBOX).write_text("---\ntype: customer\n---\n# Inbox\n\nA pump.\n", encoding="utf-8")
    (tmp_path / "vault" / ACME).write_text("# Acme\n\nPumps for ships.\n", encoding="utf-8")
    await gateway.guarded["markdown"].backend.refresh()  # type: ignore[attr-defined]
    await gateway.settle()
    assert await shown(client, {"property": {"type": "customer"}}) == {INBOX, BOLT}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"foldr": "x"}, "folder, tag, property, kind, speaker, after, before"),
        ({"kind": "notes"}, "'note'"),
        ({"after": "soon"}, "ISO 8601"),
        ({"tag": ""}, "empty"),
        ({"property": "customer"}, "dictionary"),
    ],
)
async def test_filter_that_does_not_exist_is_refused_with_the_names_that_do(
    client: AsyncClient, where: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        await client.fuse("pump", where=where)


async def test_private_note_stays_private_under_a_filter(gateway: Gateway) -> None:
    """A filter only narrows."""
    scope = Scope(user_id="omar", audience="private")
    assert DECIDED not in (await gateway.fuse("pump", scope=scope, timeout_ms=PATIENCE_MS)).block


@pytest.mark.feature("a question says which memories it wants: `#tag`, all notes of a type, in a folder, of a kind")
@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("#vip", [ACME]),
        ("list our customers", [ACME, BOLT]),
        ("List all customers.", [ACME, BOLT]),
        ("all notes of type customer", [ACME, BOLT]),
        ("show me all notes with type: project", [PUMP]),
        ("list the notes in the folder projects", [PUMP]),
        ("list all notes tagged region/north", [ACME, PUMP]),
        ("zeige alle Notizen vom Typ customer", [ACME, BOLT]),
        ("what are our decisions?", [DECIDED]),
        ("list everything tagged nonsense", None),
        ("list all suppliers", None),
    ],
)
async def test_list_has_one_line_for_each_that_fits(gateway: Gateway, question: str, found: list[str] | None) -> None:
    """The whole set by name, whatever its words; what names nothing here is a question as any other."""
    fused = await gateway.fuse(question, scope=Scope(audience="private"), all_users=True, timeout_ms=PATIENCE_MS)
    lines = [line for line in fused.block.split("\n") if line.startswith("[")]
    if found is None:
        assert not any("(vault/" in line for line in lines)
    else:
        assert len(lines) == len(found)
        assert all(name in line for name, line in zip(found, lines, strict=True)), lines
        assert [len(excerpt.members) for excerpt in fused.memories] == [1] * len(found)
        documents = [excerpt.document for excerpt in fused.memories]
        assert documents == [None if name == DECIDED else f"vault/{name}" for name in found]


async def test_question_with_a_tag_is_about_what_has_it(gateway: Gateway) -> None:
    fused = await gateway.fuse(
        "which pump is #reefer about?", scope=Scope(audience="private"), all_users=True, timeout_ms=PATIENCE_MS
    )
    assert {excerpt.document for excerpt in fused.memories} == {f"vault/{BOLT}"}
    other = await gateway.fuse(
        "pump #12", scope=Scope(audience="private"), all_users=True, timeout_ms=PATIENCE_MS, fill=True
    )
    assert len(other.memories) > 1


@pytest.mark.feature("… a list that does not fit the budget says how many more there are", of="a question says which")
async def test_list_that_does_not_fit_says_how_many_more(gateway: Gateway, tmp_path: Path) -> None:
    folder = tmp_path / "vault" / "people"
    folder.mkdir()
    for n in range(60):
        (folder / f"person {n:02}.md").write_text(f"---\ntype: person\n---\n# Person {n:02}\n\nLikes tea.\n")
    await gateway.guarded["markdown"].backend.refresh()  # type: ignore[attr-defined]
    await gateway.settle()
    scope = Scope(audience="private")
    whole = await gateway.fuse("list all persons", scope=scope, all_users=True, timeout_ms=PATIENCE_MS)
    assert [n for n in range(60) if f"Person {n:02}" in whole.block] == list(range(60))
    assert "more" not in whole.block
    some = await gateway.fuse(
        "list all persons", scope=scope, all_users=True, budget_chars=1000, timeout_ms=PATIENCE_MS
    )
    shown = sum(f"Person {n:02}" in some.block for n in range(60))
    assert 0 < shown < 60
    assert f"… and {60 - shown} more\n" in some.block
    assert len(some.block) <= 1000
    few = await gateway.fuse("list all persons", scope=scope, all_users=True, max_results=2, timeout_ms=PATIENCE_MS)
    assert "… and 58 more\n" in few.block
    assert whole.receipt_id
