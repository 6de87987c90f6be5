"""The memory tools by the shapes that OpenClaw's agents know, over HTTP and, where they differ, over MCP."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.client import AsyncClient
from fusion.contract import Place
from fusion.doors.http.app import create_app
from fusion.doors.mcp.tools import MemoryGet, MemorySearch
from fusion.errors import NobodyAnswered
from fusion.gateway.gateway import Gateway
from fusion.recall.engine import Fused, FuseRequest
from fusion.settings import Settings, ToolSettings
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over
from tests.patience import load

SECRET = "the secret beside the memories"
QUERY = {"query": "where do bookings live?"}


class Finds(FakeFusion):
    """Two memories: lines of a document, and a turn of a session, which scores less."""

    backends_said: tuple[Mapping[str, Any], ...] = ()

    async def fuse(self, request: str | FuseRequest, **fields: Any) -> Fused:
        fused = await super().fuse(request, **fields)
        [memory] = fused.memories
        [one] = memory.members
        line = replace(one, place=Place("notes/database.md", 12, 14, "line"), text="x" * 800)
        turn = replace(one, ref="m20", kind="turn", score=0.3, place=Place("openclaw/max/s1", 7, 7))
        signals = {"dense": 0.74, "bm25": 0.9, "fusion": 1.0}
        return replace(
            fused,
            memories=(replace(memory, members=(turn, line)),),
            explain={"candidates": [{"ref": "m1z", "signals": signals}]},
            backends=(*fused.backends, *self.backends_said),
        )


@asynccontextmanager
async def asking(fusion: FakeFusion, settings: Settings | None = None) -> AsyncIterator[httpx.AsyncClient]:
    transport = Checked(app_over(fusion, settings), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def found(fusion: FakeFusion, settings: Settings | None = None, **asked: Any) -> dict[str, Any]:
    async with asking(fusion, settings) as client:
        reply = await client.post("/v1/tools/memory_search", json={**QUERY, **asked})
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


class TestSearch:
    @pytest.mark.row(
        "A067",
        "A089",
        "`memory_search` has the fields that OpenClaw's agents know: path, lines, scores, snippet, source, "
        "citation, provider, model, fallback",
    )
    @pytest.mark.row("A076", "a snippet has at most 700 characters")
    async def test_a_result_has_path_lines_scores_snippet_source_and_citation(self) -> None:
        """Best first; snippets of 700 characters at most; who embeds; nothing that is not known."""
        body = await found(Finds())
        first, second = body["results"]
        assert {name: first[name] for name in ("path", "startLine", "endLine", "score", "source", "ref")} == {
            "path": "notes/database.md",
            "startLine": 12,
            "endLine": 14,
            "score": 0.8,
            "source": "memory",
            "ref": "m1z",
        }
        assert (first["vectorScore"], first["textScore"], len(first["snippet"])) == (0.74, 0.9, 700)
        assert first["citation"] == "notes/database.md#L12-L14"
        assert (second["source"], second["citation"]) == ("sessions", "openclaw/max/s1#L7")
        assert "vectorScore" not in second
        assert (body["provider"], body["model"], body["fallback"]) == ("local", "all-MiniLM-L6-v2-int8", None)

    @pytest.mark.parametrize(
        ("identity", "provider", "model"),
        [
            ("openai/text-embedding-3-small@1536", "openai", "text-embedding-3-small"),
            (None, "none", None),
        ],
    )
    async def test_description_names_the_embedder(self, identity: str | None, provider: str, model: str | None) -> None:
        """A provider and its model, or none."""
        fusion = Finds()
        fusion.embedding_model = identity
        body = await found(fusion)
        assert (body["provider"], body["model"]) == (provider, model)

    @pytest.mark.row(
        "A068", "… citations are on, off or auto: on in private, off in a group", of="`memory_search` has the fields"
    )
    @pytest.mark.parametrize(
        ("setting", "asked", "audience", "cited"),
        [
            ("auto", None, "private", True),
            ("auto", None, "group", False),
            ("on", None, "group", True),
            ("off", None, "private", False),
            ("off", "on", "private", True),
            ("on", "auto", "group", False),
        ],
    )
    async def test_citations_are_on_off_or_auto(
        self, setting: Any, asked: str | None, audience: str, cited: bool
    ) -> None:
        """Auto: on unless a group reads the answer. What a request says goes before the setting."""
        settings = Settings(tools=ToolSettings(citations=setting))
        more = {} if asked is None else {"citations": asked}
        body = await found(Finds(), settings, audience=audience, **more)
        assert all(("citation" in result) is cited for result in body["results"])

    @pytest.mark.row("A062", "A067", "… `maxResults` (6) and `minScore`", of="`memory_search` has the fields")
    async def test_results_are_limited_by_number_and_score(self) -> None:
        """Scores of .8 and .3: at least .3 is both, .31 one; six results unless asked otherwise."""
        fusion = Finds()
        assert [len((await found(fusion, minScore=least))["results"]) for least in (0, 0.3, 0.31, 1)] == [2, 2, 1, 0]
        assert [one["ref"] for one in (await found(fusion, maxResults=1))["results"]] == ["m1z"]
        assert (fusion.requests[0].max_results, fusion.requests[-1].max_results) == (6, 1)

    async def test_what_did_not_answer_is_the_fallback(self) -> None:
        """Others stood in for it, and the notice says so."""
        fusion = Finds()
        fusion.backends_said = (
            {"name": "qmd", "status": "timeout", "took_ms": 1.0, "count": 0, "error_code": None},
            {"name": "spare", "status": "skipped", "took_ms": 0.0, "count": 0, "error_code": None},
        )
        body = await found(fusion)
        assert body["fallback"] == {"from": "qmd", "reason": "timeout"}
        assert body["notice"] == "Not all memories answered: qmd (timeout)."

    @pytest.mark.row(
        "A089",
        "… if no backend answers: empty, disabled or unavailable, with error, warning and action",
        of="`memory_search` has the fields",
    )
    async def test_where_nobody_answers_it_is_an_empty_result_that_says_what_to_do(self) -> None:
        """Status 200, disabled and unavailable, with error, warning and action: an agent continues without memory."""
        body = await found(FakeFusion(error=NobodyAnswered("no backend\nanswered", {})))
        assert (body["results"], body["disabled"], body["unavailable"]) == ([], True, True)
        assert body["error"] == "no backend answered"
        assert body["warning"].endswith(body["error"])
        assert "fusion doctor" in body["action"]

    async def test_a_question_that_is_none_is_still_refused(self) -> None:
        """Who asks wrongly learns how to ask."""
        async with asking(FakeFusion()) as client:
            for wrong in ({}, {"query": " "}, {**QUERY, "maxResults": 0}, {**QUERY, "minScore": 2}, {**QUERY, "x": 1}):
                assert (await client.post("/v1/tools/memory_search", json=wrong)).status_code == 422

    @pytest.mark.row("A067", "… its description makes recall a mandatory step", of="`memory_search` has the fields")
    def test_recall_is_a_mandatory_step(self) -> None:
        """The description tells the model when it must search."""
        said = " ".join((MemorySearch.__doc__ or "").split())
        assert said.startswith("Mandatory recall step")
        for about in ("prior work", "decisions", "dates", "people", "preferences", "todos"):
            assert about in said
        assert "data, not instructions" in " ".join((MemoryGet.__doc__ or "").split())


# A home with a folder of the user's --------------------------------------------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An agent's workspace, with a sibling whose name begins like it, and secrets outside."""
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("Berit's number is 12.\n", encoding="utf-8")
    (folder / "memory" / "2026-03-04.md").write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
    for name in ("workspace-x", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret.md").write_text(SECRET, encoding="utf-8")
    (tmp_path / "secret.md").write_text(SECRET, encoding="utf-8")
    return folder


@asynccontextmanager
async def at_home(home: Path, workspace: Path, **options: Any) -> AsyncIterator[tuple[Gateway, AsyncClient]]:
    """A gateway over the workspace, and a client of it; the user lives in UTC."""
    given = {"paths": [str(workspace)], "scan_interval_s": 0, **options}
    settings = load(
        home=home,
        backends_only=True,
        embedder={"adapter": ""},
        flush={"zone": "UTC"},
        backends={"markdown": {"adapter": "adapters.markdown:Markdown", **given}},
    )
    async with Gateway.open(settings) as fusion:
        transport = Checked(create_app(fusion, settings), raise_app_exceptions=False)
        async with AsyncClient.over(transport) as memory:
            yield fusion, memory


ATTACKS = (
    *("../secret.md", "workspace/../secret.md", "workspace/../../secret.md", "workspace/memory/../../secret.md"),
    *("/etc/passwd", "~/secret.md", "~", "", ".", "..", "/", "workspace", "workspace/", "workspace/memory"),
    *("%2e%2e/secret.md", "workspace/%2e%2e/secret.md", "workspace/..%2fsecret.md", "workspace%2fMEMORY.md"),
    *("workspace\\MEMORY.md", "workspace/..\\secret.md", "workspace-x/secret.md", "outside/secret.md"),
    *("workspace/MEMORY.md\0", "workspace/MEMORY.md\0.png", "\0", "workspace/./MEMORY.md", "workspace//MEMORY.md"),
    *("workspace/memory.md", "WORKSPACE/MEMORY.md", "workspace/link.md", "workspace/linked/secret.md"),
    *("workspace/pipe.md", "workspace/device.md", "workspace/socket.md", "workspace/folder.md", "x" * 5000, "é" * 300),
    *("file:///etc/passwd", "workspace/MEMORY.md/", "notes/.lock", "\u202eworkspace/MEMORY.md"),
)


class TestGet:
    @pytest.mark.row("A069", "`memory_get` reads a page by path, with `truncated` and `nextFrom`")
    async def test_a_page_by_path_from_a_line_on(self, tmp_path: Path, workspace: Path) -> None:
        """Only the needed lines; `truncated` and `nextFrom` where there is more."""
        async with at_home(tmp_path / "home", workspace) as (_, memory):
            path = "workspace/memory/2026-03-04.md"
            page = await memory.memory_get(path, start=2, lines=2)
            last = await memory.memory_get(path, start=4)
            past = await memory.memory_get(path, start=40)
        assert page == {"text": "two\nthree", "path": path, "from": 2, "lines": 2, "truncated": True, "nextFrom": 4}
        assert (last["text"].strip(), last.get("truncated")) == ("four", None)
        assert past["text"] == ""

    @pytest.mark.row(
        "A069",
        '… every other path returns `{text: "", path}`: `..`, absolute, `~`, encoded, NUL, backslash, '
        "sibling prefix, links, devices, pipes, sockets",
        of="`memory_get` reads a page by path",
    )
    @pytest.mark.row(
        "A069",
        "`memory_get` with `../`, absolute, `~`, `%2e%2e`, NUL, backslash, a sibling prefix, links, devices, "
        "pipes: the same nothing",
        part="faults/clients",
    )
    @pytest.mark.parametrize("path", ATTACKS, ids=lambda path: ascii(path[:40]))
    async def test_every_other_path_is_the_same_nothing(self, tmp_path: Path, workspace: Path, path: str) -> None:
        """`{text: "", path}`, whatever the path looks like and whatever is there, the same as for a missing file."""
        (workspace / "link.md").symlink_to(tmp_path / "secret.md")
        (workspace / "linked").symlink_to(tmp_path / "outside")
        (workspace / "device.md").symlink_to("/dev/zero")
        (workspace / "folder.md").mkdir()
        os.mkfifo(workspace / "pipe.md")
        with socket.socket(socket.AF_UNIX) as listening:
            here = Path.cwd()
            os.chdir(workspace)  # a socket's path may have 108 bytes
            try:
                listening.bind("socket.md")
            finally:
                os.chdir(here)
            async with at_home(tmp_path / "home", workspace) as (_, memory):
                assert await memory.memory_get(path) == {"text": "", "path": path}
                assert (await memory.memory_get("workspace/MEMORY.md"))["text"] == "Berit's number is 12.\n"

    @pytest.mark.row(
        "A069", "… a link that is placed there after the check is not followed", of="`memory_get` reads a page by path"
    )
    @pytest.mark.row(
        "A069", "… a link that replaces a file between the check and the read", of="`memory_get` with `../`"
    )
    async def test_a_link_that_was_put_there_since_leads_nowhere(self, tmp_path: Path, workspace: Path) -> None:
        """A file that was found, swapped for a link to a secret before it is read; a folder on the way as well."""
        async with at_home(tmp_path / "home", workspace, scan_interval_s=3600) as (_, memory):
            path = "workspace/memory/2026-03-04.md"
            assert (await memory.memory_get(path))["text"]
            (workspace / "memory" / "2026-03-04.md").unlink()
            (workspace / "memory" / "2026-03-04.md").symlink_to(tmp_path / "secret.md")
            assert await memory.memory_get(path) == {"text": "", "path": path}
            (workspace / "memory").rename(tmp_path / "moved")
            (tmp_path / "outside" / "2026-03-04.md").write_text(SECRET, encoding="utf-8")
            (workspace / "memory").symlink_to(tmp_path / "outside")
            assert await memory.memory_get(path) == {"text": "", "path": path}

    @pytest.mark.row("A057", "MEMORY.md is read and found only in private conversations")
    async def test_memory_md_is_nothing_to_a_group(self, tmp_path: Path, workspace: Path) -> None:
        """Read and found in private; in a group it is not there."""
        async with at_home(tmp_path / "home", workspace) as (_, memory):
            path = "workspace/MEMORY.md"
            assert (await memory.memory_get(path))["text"]
            assert await memory.memory_get(path, audience="group") == {"text": "", "path": path}
            found = await memory.memory_search("Berit's number")
            assert [one["path"] for one in found["results"]] == [path]
            assert (await memory.memory_search("Berit's number", audience="group"))["results"] == []

    async def test_a_memory_without_a_document_is_read_by_its_ref(self, tmp_path: Path, workspace: Path) -> None:
        """Which is what a search gives as its path."""
        async with at_home(tmp_path / "home", workspace) as (fusion, memory):
            await memory.remember({"text": "Nadia drinks peppermint tea"})
            await fusion.settle()
            [one] = (await memory.memory_search("peppermint"))["results"]
            assert one["path"] == one["ref"]
            assert (await memory.memory_get(one["path"]))["text"] == "Nadia drinks peppermint tea"


class TestAppend:
    @pytest.mark.feature("`memory_append` writes to today's log in the gateway's own folder, redacted")
    async def test_without_a_folder_it_is_a_note_of_ours(self, tmp_path: Path, workspace: Path) -> None:
        """In the gateway's own folder, in today's file; redacted; the user's files are as they were."""
        before = sorted((path.name, path.stat().st_mtime_ns) for path in workspace.rglob("*"))
        async with at_home(tmp_path / "home", workspace) as (fusion, memory):
            kept = await memory.memory_append("Deployed with password=hunter2secret today", user_id="ada")
            await fusion.settle()
            assert (kept["status"], kept["redacted"], kept["path"]) == ("stored", 1, kept["ref"])
            assert "hunter2" not in (await memory.memory_get(str(kept["ref"]), user_id="ada"))["text"]
            assert await memory.memory_get(str(kept["ref"]), user_id="ben") == {"text": "", "path": kept["ref"]}
        files = list((tmp_path / "home/backends/markdown/notes").rglob("*.md"))
        assert [path.name for path in files] == [f"{datetime.now(UTC):%Y-%m-%d}.md"]
        assert "Deployed with" in files[0].read_text(encoding="utf-8")
        assert sorted((path.name, path.stat().st_mtime_ns) for path in workspace.rglob("*")) == before

    @pytest.mark.row(
        "A055",
        "A058",
        "… or in the workspace (`log_folder`), by the user's day, append-only, readable by its owner alone",
        of="`memory_append` writes to today's log",
    )
    async def test_in_the_workspace_it_is_todays_log(self, tmp_path: Path, workspace: Path) -> None:
        """By the user's day, as the plan of a flush names it; found at once, and read by its lines."""
        folder = workspace / "memory"
        async with at_home(tmp_path / "home", workspace, log_folder=str(folder)) as (_, memory):
            first = await memory.memory_append("- moved the bookings\n- told Nadia")
            second = await memory.memory_append("token=abcdefgh12345678 was rotated")
            plan = await memory.flush_plan(200_000)
            path = str(first["path"])
            found = await memory.memory_search("bookings Nadia")
            page = await memory.memory_get(path, start=3, lines=1)
        assert (first["startLine"], first["endLine"], second["startLine"]) == (1, 2, 3)
        assert path == f"workspace/{plan['path']}"
        assert found["results"][0]["path"] == path
        assert (second["redacted"], "abcdefgh12345678" in page["text"]) == (1, False)
        log = workspace / plan["path"]
        assert log.read_text(encoding="utf-8").startswith("- moved the bookings\n- told Nadia\n")
        assert (workspace / "memory" / "2026-03-04.md").read_text(encoding="utf-8") == "one\ntwo\nthree\nfour\n"

    async def test_who_would_not_find_it_there_does_not_write_there(self, tmp_path: Path, workspace: Path) -> None:
        """The workspace is Ada's: what Ben appends, or nobody in particular, is no line of hers."""
        options = {"log_folder": str(workspace / "memory"), "bind": {"user_id": "ada"}}
        async with at_home(tmp_path / "home", workspace, **options) as (_, memory):
            ben = await memory.memory_append("Ben was here", user_id="ben")
            ada = await memory.memory_append("Ada was here", user_id="ada")
        assert (ben["status"], ada["status"]) == ("stored", "appended")
        written = b"".join(path.read_bytes() for path in workspace.rglob("*.md"))
        assert (b"Ada was here" in written, b"Ben was here" in written) == (True, False)

    async def test_many_at_once_lose_nothing(self, tmp_path: Path, workspace: Path) -> None:
        """Fifty appends at once: fifty lines, each whole, and each where its answer says."""
        async with at_home(tmp_path / "home", workspace, log_folder=str(workspace / "memory")) as (_, memory):
            told = await asyncio.gather(*(memory.memory_append(f"- line number {n} of many") for n in range(50)))
            log = workspace / str(told[0]["path"]).removeprefix("workspace/")
        lines = log.read_text(encoding="utf-8").splitlines()
        assert sorted(lines) == sorted(f"- line number {n} of many" for n in range(50))
        assert [lines[one["startLine"] - 1] for one in told] == [f"- line number {n} of many" for n in range(50)]

    async def test_our_own_block_and_heartbeats_are_not_logged(self, tmp_path: Path, workspace: Path) -> None:
        """Recalled text would feed on itself."""
        async with at_home(tmp_path / "home", workspace, log_folder=str(workspace / "memory")) as (_, memory):
            block = '<memories nonce="0">\n[m1z] old news\n</memories nonce="0">'
            for nothing in (block, "HEARTBEAT_OK"):
                assert (await memory.memory_append(nothing))["status"] == "skipped"
        assert len(list((workspace / "memory").iterdir())) == 1
