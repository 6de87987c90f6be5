"""Exports, imports and merges of whole homes."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fusion.contract import UNSTATED_CONFIDENCE, Place, Provenance, Scope
from fusion.errors import BadInput, NotFound
from fusion.gateway import transfer
from fusion.gateway.gateway import Gateway
from fusion.gateway.transfer import ImportOptions
from fusion.ingest.intake import NewMemory
from fusion.journal import listing, state, tombstones
from fusion.upkeep.job import no_progress
from tests.gateway.helpers import NADIA, OMAR, remember, small

OWNER = "default"
EVERYBODY = Scope(audience="private")


async def export_of(gateway, caller=OWNER, **options) -> bytes:
    return b"".join((await gateway.export(caller, **options)).chunks())


async def import_into(gateway, export, caller=OWNER, moved=None, **options):
    async def keep(tenant: str, old: str, new: str) -> None:
        moved[old] = new

    return await gateway.import_export(caller, io.BytesIO(export), ImportOptions(**options), keep, no_progress)


def counts_of(report):
    """The counts of an import's only tenant that are not 0."""
    (tenant,) = report.tenants
    names = "new known blocked forgotten deleted conflict refused new_refs".split()
    return {name: count for name in names if (count := getattr(tenant, name))}


async def current(gateway) -> list[tuple[object, ...]]:
    """What a home remembers now, without ids and refs."""
    page = await gateway.journal.page(EVERYBODY, 1000)
    events = (record.event for record in page.records)
    return sorted((e.text, e.scope.user_id or "", str(e.place), e.source or "", e.trust) for e in events)


def rows_of(export: bytes) -> list[dict[str, object]]:
    """The rows of an export without the refs and the home's own ids."""
    lines = [json.loads(line) for line in export.splitlines()]
    return [{k: v for k, v in line.items() if k != "ref"} for line in lines[1:-1]]


def altered(export: bytes, change) -> bytes:
    """An export with other lines, and with the header and footer that fit them."""
    lines = [json.loads(line) for line in export.splitlines()]
    changed = change(lines[1:-1])
    header = {**lines[0], "journals": [{**part, "counts": {}} for part in lines[0]["journals"]]}
    body = b"".join(json.dumps(line).encode() + b"\n" for line in [header, *changed])
    footer = {"type": "footer", "lines": 1 + len(changed), "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(footer).encode() + b"\n"


@asynccontextmanager
async def homes(count: int) -> AsyncIterator[list[Gateway]]:
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(Gateway.open(small(Path(folder, str(n))))) for n in range(count)]


@pytest.fixture
async def two() -> AsyncIterator[list[Gateway]]:
    async with homes(2) as opened:
        yield opened


SAID = [
    "The bookings database moves to Postgres in March",
    "Nadia drinks green tea in the mornings, no sugar",
    "The harbour office opens at eight on every weekday",
]
NOTE = NewMemory("The printer on floor two needs a new drum soon", scope=NADIA, source="wiki:printers")


def turn(text: str, position: int, document: str = "talk") -> NewMemory:
    return NewMemory(text, scope=NADIA, kind="turn", place=Place(document, position, position), source="web:chat")


class TestRoundTrip:
    @pytest.mark.row("A163", "a home is exported and imported: memories, edits, what was forgotten, the audit")
    async def test_import_into_an_empty_home_restores_everything(self, two):
        here, there = two
        refs = await remember(here, *SAID)
        await here.remember([NOTE, turn("We meet on Monday", 1), turn("Fine with me", 2)])
        await here.remember([turn("We meet on Tuesday", 1)])
        await here.forget(refs[1], NADIA)
        export = await export_of(here)
        assert counts_of(await import_into(there, export, trust="keep")) == {"new": 6, "deleted": 1}
        assert rows_of(await export_of(there)) == rows_of(export)
        assert (await there.memory(refs[0], NADIA))["text"] == SAID[0]
        assert [entry.ref for entry in (await there.forgotten(NADIA))["forgotten"]] == [refs[1]]
        await there.settle()
        assert "Postgres" in (await there.fuse("where does the bookings database move", scope=NADIA)).block

    async def test_second_import_changes_nothing(self, two):
        here, there = two
        await remember(here, *SAID)
        await here.remember([turn("We meet on Monday", 1)])
        export = await export_of(here)
        await import_into(there, export)
        before = rows_of(await export_of(there))
        assert counts_of(await import_into(there, export)) == {"known": 4}
        assert rows_of(await export_of(there)) == before

    async def test_own_export_is_known(self, two):
        here, _ = two
        await remember(here, *SAID)
        report = await import_into(here, await export_of(here))
        assert counts_of(report) == {"known": 3}
        assert report.tenants[0].trust == "kept"

    async def test_text_of_a_forgotten_memory_is_not_in_the_export(self, two):
        here, _ = two
        refs = await remember(here, *SAID)
        await here.forget(refs[1], NADIA)
        assert b"green tea" not in await export_of(here)

    async def test_forgotten_statement_of_a_file_is_not_in_the_export(self, two):
        here, there = two
        piece = Place("a.md", 1, 2, "line")
        both = "The printer needs a new drum soon\nThe harbour office opens at eight o'clock"
        first = NewMemory(both, scope=NADIA, place=piece, source="file:a.md", revision="1")
        alone = NewMemory(
            both.split("\n", maxsplit=1)[0], scope=NADIA, place=Place("a.md", 1, 1, "line"), source="file:a.md"
        )
        await here.remember([first])
        (short,) = await here.remember([alone])
        await here.forget(short.ref, NADIA)
        export = await export_of(here)
        assert b"printer" not in export
        await import_into(there, export, trust="keep")
        assert [text for text, *_ in await current(there)] == ["The harbour office opens at eight o'clock"]

    async def test_dry_run_counts_and_writes_nothing(self, two):
        here, there = two
        await remember(there, SAID[0])
        refs = await remember(here, *SAID)
        await here.forget(refs[0], NADIA)
        before = rows_of(await export_of(there))
        report = await import_into(there, await export_of(here), dry_run=True)
        assert report.dry_run
        assert counts_of(report) == {"new": 2, "forgotten": 1, "deleted": 1, "new_refs": 2}
        assert rows_of(await export_of(there)) == before
        assert counts_of(await import_into(there, await export_of(here))) == counts_of(report)

    async def test_export_of_one_user_has_nothing_of_another(self, two):
        here, there = two
        await remember(here, SAID[0])
        (ref,) = await remember(here, SAID[1], scope=OMAR)
        await here.forget(ref, OMAR)
        export = await export_of(here, user_id="nadia")
        assert b"omar" not in export
        await import_into(there, export)
        assert [text for text, *_ in await current(there)] == [SAID[0]]

    async def test_states_and_their_log_are_restored_and_can_be_undone(self, two):
        here, there = two
        await remember(here, SAID[0])
        (record,) = (await here.journal.page(EVERYBODY, 9)).records
        await here.journal.decide({record.event.event_id: {"importance": 0.9}}, "nadia", "it matters")
        await import_into(there, await export_of(here), trust="keep")
        (restored,) = (await there.journal.page(EVERYBODY, 9)).records
        assert restored.state.importance == 0.9
        (decision,) = await there.journal.read(state.log, EVERYBODY, 9)
        assert (decision.who, decision.why) == ("nadia", "it matters")
        await there.journal.undo_decision(decision.name, EVERYBODY, "nadia")
        (undone,) = (await there.journal.page(EVERYBODY, 9)).records
        assert undone.state.importance is None


class TestRefs:
    async def test_refs_are_kept_in_an_empty_home(self, two):
        here, there = two
        refs = await remember(here, *SAID)
        moved: dict[str, str] = {}
        await import_into(there, await export_of(here), moved=moved, refs=True)
        assert [(await there.memory(ref, NADIA))["text"] for ref in refs] == SAID
        assert not moved

    async def test_taken_refs_are_replaced_and_reported(self, two):
        here, there = two
        refs = await remember(here, *SAID)
        await remember(there, "Another home has this under the first ref")
        moved: dict[str, str] = {}
        report = await import_into(there, await export_of(here), moved=moved, refs=True)
        assert counts_of(report) == {"new": 3, "new_refs": 3}
        assert [(await there.memory(moved[ref], NADIA))["text"] for ref in refs] == SAID

    async def test_numbers_left_out_are_no_loss(self, two):
        here, there = two
        await remember(here, SAID[0], scope=OMAR)
        await remember(here, SAID[1])
        await import_into(there, await export_of(here, user_id="nadia"))
        assert await there.journal.deleted_externally() == 0
        assert await there.health.compare() == {}


class TestForgotten:
    async def test_what_this_home_forgot_stays_forgotten(self, two):
        here, there = two
        await remember(here, *SAID)
        export = await export_of(here)
        await import_into(there, export)
        ref = next(r.ref for r in (await there.journal.page(NADIA, 9)).records if r.event.text == SAID[0])
        await there.forget(ref, NADIA)
        assert counts_of(await import_into(there, export)) == {"known": 2, "blocked": 1}
        assert SAID[0] not in [text for text, *_ in await current(there)]

    async def test_same_words_of_another_home_stay_forgotten(self, two):
        here, there = two
        await remember(here, SAID[0])
        (ref,) = await remember(there, SAID[0])
        export = await export_of(here)
        await there.forget(ref, NADIA)
        assert counts_of(await import_into(there, export)).items() >= {"blocked": 1}.items()
        assert await current(there) == []

    async def test_what_the_other_home_forgot_is_forgotten_here_in_every_backend(self, two):
        here, there = two
        await remember(there, SAID[0])
        (ref, _, _) = await remember(here, *SAID)
        await here.forget(ref, NADIA)
        report = await import_into(there, await export_of(here))
        assert counts_of(report)["forgotten"] == 1
        await there.settle()
        assert SAID[0] not in [text for text, *_ in await current(there)]
        answer = await there.search("one", "bookings database Postgres", NADIA)
        assert SAID[0] not in [hit.text for hit in answer.hits]
        assert "import" in [entry.by for entry in (await there.forgotten(NADIA))["forgotten"]]

    async def test_words_remembered_again_after_that_are_kept(self, two):
        here, there = two
        (ref,) = await remember(here, SAID[0])
        await here.forget(ref, NADIA)
        export = await export_of(here)
        await remember(there, SAID[0])
        await import_into(there, export)
        assert [text for text, *_ in await current(there)] == [SAID[0]]
        await import_into(here, await export_of(there))
        assert [text for text, *_ in await current(here)] == [SAID[0]]

    async def test_earlier_version_goes_with_what_this_home_forgot(self, two):
        here, there = two
        await here.remember([turn("We meet on Monday at nine in the office", 1)])
        await here.remember([turn("We meet on Tuesday at nine in the office", 1)])
        export = await export_of(here)
        await import_into(there, export)
        (record,) = (await there.journal.page(NADIA, 9)).records
        await there.forget(record.ref, NADIA)
        await import_into(there, export)
        counts = await there.journal.read(listing.counts, OWNER)
        assert (counts["current"], counts["superseded"]) == (0, 0)


class TestHostile:
    async def test_another_home_s_export_is_at_most_unknown(self, two):
        here, there = two
        await remember(here, SAID[0])
        trusted = altered(await export_of(here), lambda lines: [_set(x, trust="trusted") for x in lines])
        await import_into(there, trusted)
        assert [trust for *_, trust in await current(there)] == ["unknown"]

    @pytest.mark.parametrize("claimed", ["trusted", "unknown", "untrusted", "quarantined"])
    async def test_trust_is_never_raised(self, two, claimed):
        here, there = two
        await remember(here, SAID[0])
        export = altered(await export_of(here), lambda lines: [_set(x, trust=claimed) for x in lines])
        await import_into(there, export, trust="untrusted")
        found = await there.journal.read(lambda db: [row["trust"] for row in db.execute("select trust from event")])
        assert found == [claimed if claimed == "quarantined" else "untrusted"]

    async def test_state_raises_neither_trust_nor_importance(self, two):
        here, there = two
        await remember(here, SAID[0])
        raised = {"trust": "trusted", "importance": 1.0, "confidence": 1.0, "reinforced_count": 99}
        await import_into(there, altered(await export_of(here), lambda lines: [_set(x, state=raised) for x in lines]))
        (record,) = (await there.journal.page(EVERYBODY, 9)).records
        assert (record.trust, record.state.importance, record.state.reinforced_count) == ("unknown", None, 0)
        assert record.state.confidence == UNSTATED_CONFIDENCE

    @pytest.mark.parametrize(
        ("sent", "kept"),
        [
            ({"kind": "url", "ref": "https://example.org/a"}, Provenance("url", "https://example.org/a")),
            ({"kind": "url", "ref": "not an address"}, None),
            ({"kind": "opaque", "ref": "two\nlines"}, None),
            ({"kind": "opaque", "ref": "AKIAIOSFODNN7EXAMPLE"}, None),
        ],
    )
    async def test_provenance_is_kept_if_a_door_would_take_it(self, two, sent, kept):
        here, there = two
        await remember(here, SAID[0])
        state = {"provenance": sent, "priority": "P0"}
        await import_into(there, altered(await export_of(here), lambda lines: [_set(x, state=state) for x in lines]))
        (record,) = (await there.journal.page(EVERYBODY, 9)).records
        assert (record.state.provenance, record.state.priority) == (kept, None)

    async def test_sources_of_readers_become_claims(self, two):
        here, there = two
        await here.remember(
            [NewMemory(SAID[0], scope=NADIA, source="file:/notes/a.md", place=Place("a", 1, 1, "line"))]
        )
        export = await export_of(here)
        await import_into(there, export)
        assert [source for *_, source, _ in await current(there)] == ["claimed:file:/notes/a.md"]
        assert counts_of(await import_into(there, export)) == {"known": 1}

    async def test_secrets_are_masked_again(self, two):
        here, there = two
        await remember(here, SAID[0])
        secret = "the key is AKIAIOSFODNN7EXAMPLE"
        for trust in ("unknown", "keep"):
            export = altered(await export_of(here), lambda lines: [_set(x, text=secret) for x in lines])
            await import_into(there, export, trust=trust)
            assert b"AKIAIOSFODNN7EXAMPLE" not in await export_of(there)

    async def test_another_text_under_a_known_id_is_a_conflict(self, two):
        here, there = two
        await remember(here, *SAID)
        export = await export_of(here)
        await import_into(there, export)
        other = altered(export, lambda lines: [_set(x, text="Something else") for x in lines])
        assert counts_of(await import_into(there, other)) == {"conflict": 3}
        assert [text for text, *_ in await current(there)] == sorted(SAID)

    async def test_another_user_s_memory_is_not_superseded(self, two):
        here, there = two
        await remember(there, SAID[0], scope=OMAR)
        (record,) = (await there.journal.page(OMAR, 9)).records
        await remember(here, SAID[1])
        target = record.event.event_id
        export = altered(await export_of(here), lambda lines: [_set(x, supersedes=target) for x in lines])
        await import_into(there, export)
        assert sorted(text for text, *_ in await current(there)) == sorted(SAID[:2])

    async def test_import_of_another_home_can_be_undone(self, two):
        here, there = two
        await remember(there, SAID[0])
        await remember(here, SAID[1], SAID[2])
        await import_into(there, await export_of(here))
        assert (await there.undo(EVERYBODY)).undone == 2
        assert [text for text, *_ in await current(there)] == [SAID[0]]


def _set(line, **fields):
    return {**line, **fields} if line["type"] == "event" else line


class TestDamaged:
    async def test_cut_export_is_refused_and_partly_imported_on_demand(self, two):
        here, there = two
        await remember(here, *SAID)
        lines = (await export_of(here)).splitlines(keepends=True)
        cut = b"".join(lines[:4])
        with pytest.raises(BadInput, match=r"lacks the footer.*1 of 3 event lines.*--partial"):
            await import_into(there, cut)
        assert await current(there) == []
        report = await import_into(there, cut, partial=True)
        assert counts_of(report) == {"new": 2}
        assert report.missing[1] == "1 of 3 event lines of default"

    async def test_changed_export_is_refused(self, two):
        here, there = two
        await remember(here, *SAID)
        changed = (await export_of(here)).replace(b"Postgres", b"Mongo")
        with pytest.raises(BadInput, match="checksum"):
            await import_into(there, changed)

    @pytest.mark.parametrize(
        ("broken", "why"),
        [
            (b"{", "line 3: "),
            (b'{"type":"event"}', "line 3: event.ref: field required"),
            (b'{"type":"nothing"}', "line 3: "),
            (b'{"type":"tombstone","key":5,"event_id":"x"}', "line 3: tombstone.key: "),
        ],
    )
    async def test_broken_line_is_named(self, two, broken, why):
        here, there = two
        await remember(here, SAID[0])
        lines = (await export_of(here)).splitlines(keepends=True)
        export = b"".join([*lines[:2], broken + b"\n", *lines[2:]])
        with pytest.raises(BadInput, match=why):
            await import_into(there, export)
        report = await import_into(there, export, partial=True)
        assert (report.broken, counts_of(report)) == (1, {"new": 1})

    async def test_newer_format_names_who_reads_it(self, two):
        here, _ = two
        export = (await export_of(here)).replace(b'"version":2,"program":"0.1.0"', b'"version":3,"program":"9.1"')
        with pytest.raises(BadInput, match=r"format 2.*memory-fusion 9\.1"):
            await import_into(here, export)

    @pytest.mark.parametrize(
        ("content", "advice"),
        [
            (b"", "empty"),
            (b"SQLite format 3\0rest", "fusion import FOLDER"),
            (gzip.compress(b"{}", mtime=0), "gunzip"),
            (b'{"event":{"event_id":"a"},"state":{}}\n', "fusion cortex import"),
            (b'{"results":[{"memory":"likes tea"}]}\n', "Mem0.*fusion ingest"),
            (b'{"id":"1","scope":"permanent","content":"tea"}\n', "openclaw-cortex.*fusion ingest"),
            (b'{"role":"user","content":"tea"}\n', "fusion ingest"),
            (b"# notes\n", "fusion ingest"),
        ],
    )
    async def test_another_format_is_named_with_what_reads_it(self, two, content, advice):
        with pytest.raises(BadInput, match=advice):
            await import_into(two[0], content)


class TestTenants:
    async def test_owner_exports_and_imports_every_tenant(self, two):
        here, there = two
        await remember(here, SAID[0])
        await here.remember([NewMemory(SAID[1], scope=Scope("acme", user_id="nadia"))], tenant="acme")
        report = await import_into(there, await export_of(here))
        assert [(one.tenant, one.new) for one in report.tenants] == [("default", 1), ("acme", 1)]
        found = await there.memories(Scope("acme", audience="private"))
        assert [memory["text"] for memory in found["memories"]] == [SAID[1]]

    async def test_key_of_a_tenant_reaches_its_own_alone(self, two):
        here, there = two
        await remember(here, SAID[0])
        await here.remember([NewMemory(SAID[1], scope=Scope("acme"))], tenant="acme")
        export = await export_of(here, "acme")
        assert SAID[0].encode() not in export
        with pytest.raises(BadInput, match="another tenant"):
            await export_of(here, "acme", tenant="default")
        report = await import_into(there, await export_of(here), "acme")
        assert [one.tenant for one in report.tenants] == ["acme"]
        assert await current(there) == []
        with pytest.raises(BadInput, match="owner"):
            await import_into(there, export, "acme", trust="keep")
        with pytest.raises(BadInput, match="no memories of the tenant 'other'"):
            await import_into(there, export, "other")

    async def test_dry_run_for_a_new_tenant_makes_no_folder(self, two):
        here, there = two
        await here.remember([NewMemory(SAID[1], scope=Scope("acme"))], tenant="acme")
        report = await import_into(there, await export_of(here), dry_run=True)
        assert [one.new for one in report.tenants] == [0, 1]
        assert transfer.tenants_of(there.settings.home) == []

    async def test_unknown_tenant_is_named(self, two):
        with pytest.raises(NotFound, match="there are default"):
            await export_of(two[0], tenant="acme")


async def test_interrupted_import_is_run_again(two):
    here, there = two
    texts = [f"Fact number {n} of the harbour is this one here" for n in range(1200)]
    for start in range(0, len(texts), 100):
        await here.remember([NewMemory(text, scope=NADIA) for text in texts[start : start + 100]])
    export = await export_of(here)

    def stop(done: int, total: int | None) -> None:
        raise asyncio.CancelledError

    async def moved(*refs: str) -> None: ...

    with pytest.raises(asyncio.CancelledError):
        await there.import_export(OWNER, io.BytesIO(export), ImportOptions(), moved, stop)
    assert len((await there.journal.page(EVERYBODY, 9999)).records) == transfer.STEP_ROWS
    report = await import_into(there, export)
    assert counts_of(report) == {"new": 700, "known": 500}
    assert [row["text"] for row in rows_of(await export_of(there)) if row["type"] == "event"] == texts


async def test_large_export_with_tombstones_is_imported_whole(two):
    here, there = two
    texts = [f"Fact number {n} of the harbour is this one here" for n in range(1200)]
    for start in range(0, len(texts), 100):
        await here.remember([NewMemory(text, scope=NADIA) for text in texts[start : start + 100]])
    await here.forget((await here.journal.page(EVERYBODY, 1)).records[0].ref, NADIA)
    export = await export_of(here)
    assert counts_of(await import_into(there, export, dry_run=True)) == {"new": 1199, "deleted": 1}
    assert counts_of(await import_into(there, export)) == {"new": 1199, "deleted": 1}
    assert counts_of(await import_into(there, export)) == {"known": 1200}


async def test_copy_of_an_interrupted_dry_run_is_removed_at_the_next_start(tmp_path):
    async with Gateway.open(small(tmp_path / "home")):
        left = tmp_path / "home" / f"{transfer.DRY_RUN}x"
        left.mkdir()
        (left / "journal.sqlite").write_text("copy")
    async with Gateway.open(small(tmp_path / "home")):
        assert not left.exists()


async def test_home_that_is_served_is_exported_from_copies(two):
    here, there = two
    refs = await remember(here, *SAID)
    await here.forget(refs[0], NADIA)
    await here.remember([NewMemory(SAID[1], scope=Scope("acme"))], tenant="acme")
    file = io.BytesIO()
    transfer.export_closed_home(here.settings.home, file)
    assert rows_of(file.getvalue()) == rows_of(await export_of(here))
    await import_into(there, file.getvalue())
    assert len(await current(there)) == 2


async def test_withheld_statements_of_both_homes_are_withheld(two):
    here, there = two
    piece = NewMemory(SAID[0], scope=NADIA, place=Place("a.md", 1, 1, "line"), source="file:a.md")
    (kept,) = await here.remember([piece])
    await here.forget(kept.ref, NADIA)
    await import_into(there, await export_of(here), trust="keep")
    held = await there.journal.read(tombstones.withheld_documents, OWNER)
    assert [one["document"] for one in held] == ["a.md"]
