"""The observations of sessions: `fusion mem episodes …`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.mem.rows import appended, listed, without_payloads
from fusion.doors.terminal import plain
from fusion.errors import BadInput
from fusion.lib.observation import EpisodeType, Lane, SearchMode

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

ScopeName = Annotated[str | None, typer.Option("--scope", help="The project, which openclaw-mem calls the scope.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Only of this type: tool.result. Repeatable.")]
Lanes = Annotated[list[str] | None, typer.Option("--lane", help="Only of this lane: documents. Repeatable.")]
After = Annotated[str | None, typer.Option(help="Only since this time: 2026-01-31, or 2026-01-31T15:00.")]
Before = Annotated[str | None, typer.Option(help="Only until this time; a date is the end of that day.")]
Payload = Annotated[bool, typer.Option("--include-payload", help="With what was said, called or returned.")]
AllUsers = Annotated[bool, typer.Option("--all-users", help="Those of all users and agents.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and show what would be done.")]
PAGE = 500
EXPORTED = "observations.jsonl"
LATEST = "latest.json"

app = typer.Typer(
    help="The observations of sessions: evidence beside the memories, never among them.",
    no_args_is_help=True,
    add_completion=False,
)


@command()
async def append(
    summary: Annotated[str, typer.Argument(help="One line that says what happened.")],
    *,
    kind: Annotated[EpisodeType, typer.Option("--type", help="What it is.")],
    scope: ScopeName = None,
    payload_json: Annotated[str | None, typer.Option(help="What was said, called or returned, as JSON.")] = None,
    payload_file: Annotated[Path | None, typer.Option(help="The same, from a file.")] = None,
    refs_json: Annotated[str | None, typer.Option(help="What it belongs to, as an object of JSON.")] = None,
    refs_file: Annotated[Path | None, typer.Option(help="The same, from a file.")] = None,
    event_id: Annotated[str | None, typer.Option(help="Its id; the same one is stored once.")] = None,
    tool: Annotated[str | None, typer.Option(help="The name of the tool.")] = None,
    ts: Annotated[str | None, typer.Option(help="When it happened, if not now.")] = None,
    lane: Annotated[Lane | None, typer.Option(help="By default that of its tool, else episodes.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Keep one observation."""
    body = {
        **_scope(owner, scope),
        "type": kind,
        "summary": summary,
        "payload": _json("--payload", payload_json, payload_file),
        "refs": _json("--refs", refs_json, refs_file),
        "event_id": event_id,
        "tool": tool,
        "ts": ts,
        "lane": lane,
    }
    async with target.client() as client:
        kept = await client.append_episodes({name: value for name, value in body.items() if value is not None})
    (one,) = kept["episodes"]
    shown = appended(one, owner, scope, kind, summary, body["payload"], body["refs"])
    target.show(shown, " ".join(filter(None, (one["status"], one["ref"], one["reason"]))))


@command()
async def query(
    *,
    scope: ScopeName = None,
    types: Types = None,
    lanes: Lanes = None,
    after: After = None,
    before: Before = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE)] = 50,
    newest_first: Annotated[bool, typer.Option("--newest-first", help="The latest first.")] = False,
    include_payload: Payload = False,
    cursor: Annotated[str | None, typer.Option(help="Next page: the cursor that the last page printed.")] = None,
    all_users: AllUsers = False,
    owner: Owner,
    target: Target,
) -> None:
    """List episodes in the order of their times."""
    async with target.client() as client:
        page = await client.query_episodes(
            types=types or (),
            lanes=lanes or (),
            after=after,
            before=before,
            limit=limit,
            newest_first=newest_first,
            include_payload=True,
            cursor=cursor,
            all_users=all_users or None,
            **_scope(owner, scope),
        )
    if not include_payload:
        page["episodes"] = without_payloads(page["episodes"])
    more = [f"more: --cursor {page['next_cursor']}"] if page["next_cursor"] else []
    shown = listed(page, scope, owner.session, types or (), limit, payload=include_payload)
    target.show(shown, "\n".join([*map(_line, page["episodes"]), *more]) or "no episodes")


@command()
async def search(
    question: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    *,
    query_en: Annotated[str | None, typer.Option(help="The same question in English.")] = None,
    scope: ScopeName = None,
    mode: Annotated[SearchMode, typer.Option(help="By words, by meaning, or both.")] = "lexical",
    lanes: Lanes = None,
    types: Types = None,
    after: After = None,
    before: Before = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="The most sessions.")] = 5,
    per_session_limit: Annotated[int, typer.Option(min=1, max=20, help="The most episodes of one.")] = 3,
    search_limit: Annotated[int, typer.Option(min=1, max=100, help="The most episodes that are looked at.")] = 40,
    include_payload: Payload = False,
    trace: Annotated[bool, typer.Option("--trace", help="With the rank of each by words and by vectors.")] = False,
    all_users: AllUsers = False,
    owner: Owner,
    target: Target,
) -> None:
    """Search episodes, best first, by session; other lanes only if they are named."""
    from fusion.doors.compat.openclaw_mem import episode_receipts

    async with target.client() as client:
        found = await client.search_episodes(
            f"{question} {query_en}" if query_en else question,
            mode=mode,
            lanes=lanes or ("episodes",),
            types=types or (),
            after=after,
            before=before,
            limit=search_limit,
            include_payload=True,
            trace=True,
            all_users=all_users or None,
            **_scope(owner, scope),
        )
    if not include_payload:
        found["episodes"] = without_payloads(found["episodes"])
    asked = episode_receipts.SessionSearch(
        question, query_en, scope, mode, limit, per_session_limit, search_limit, include_payload, trace
    )
    shown = episode_receipts.searched(found, asked)
    status = [] if found["vector_status"] in ("ok", "not asked") else [f"vectors: {found['vector_status']}"]
    target.show(shown, "\n".join([*map(_line, shown["episodes"]), *status]) or "no episodes")


@command(without=("session",))
async def replay(
    session: Annotated[str, typer.Argument(help="The session.")],
    *,
    scope: ScopeName = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE)] = 200,
    include_payload: Payload = False,
    owner: Owner,
    target: Target,
) -> None:
    """Show what happened in a session, in order."""
    from fusion.doors.compat.openclaw_mem.episode_receipts import replayed

    named = {**_scope(owner, scope), "session_id": session}
    async with target.client() as client:
        page = await client.query_episodes(limit=limit, include_payload=True, **named)
    if not include_payload:
        page["episodes"] = without_payloads(page["episodes"])
    shown = replayed(page, scope, session, limit, payload=include_payload)
    target.show(shown, "\n".join(map(_line, page["episodes"])) or "no episodes")


@command()
async def embed(
    *,
    scope: ScopeName = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 200,
    all_users: AllUsers = False,
    owner: Owner,
    target: Target,
) -> None:
    """Make the vectors that episodes lack, for searches by meaning."""
    from fusion.doors.compat.openclaw_mem.episode_receipts import embedded

    async with target.client() as client:
        done = await client.embed_episodes(limit=limit, all_users=all_users or None, **_scope(owner, scope))
    shown = embedded(done, scope, limit)
    target.show(shown, f"embedded {done['embedded']:,}, left {done['left']:,} ({done['model']})")


@command()
async def redact(
    refs: Annotated[list[str] | None, typer.Argument(help="The episodes, as ep:7; none: all of --session.")] = None,
    *,
    event_id: Annotated[str | None, typer.Option(help="The episode with this id, which its append printed.")] = None,
    scope: ScopeName = None,
    dry_run: DryRun = False,
    owner: Owner,
    target: Target,
) -> None:
    """Replace what was said in episodes; they stay in their places."""
    from fusion.doors.compat.openclaw_mem.episode_receipts import redacted

    named, at = list(refs or ()), _scope(owner, scope)
    async with target.client() as client:
        if event_id is not None:
            every = _every(client, at, all_users=not at)
            named += [one["ref"] async for one in every if one["event_id"] == event_id]
        if event_id is not None and not named:
            done: wire.EpisodesRedacted = {"redacted": 0, "dry_run": dry_run}
        else:
            done = await client.redact_episodes(refs=named, dry_run=dry_run, **at)
    shown = redacted(done, scope, owner.session, event_id)
    target.show(shown, f"{'would redact' if dry_run else 'redacted'} {done['redacted']:,}")


@command()
async def grade(
    ref: Annotated[str, typer.Argument(help="The episode, as ep:7.")],
    importance: Annotated[str, typer.Argument(help="0 to 1, 86%, must_remember, nice_to_have, ignore, unknown.")],
    *,
    why: Annotated[str, typer.Option(help="The reason, which the episode shows.")] = "",
    scope: ScopeName = None,
    owner: Owner,
    target: Target,
) -> None:
    """Set the importance of an episode by hand; no harvest changes it."""
    async with target.client() as client:
        graded = await client.grade_episode(ref, importance, why=why, **_scope(owner, scope))
    found = graded["importance"] or {}
    before = (found.get("replaces") or {}).get("label", "unknown")
    target.show(graded, f"{graded['ref']}  {found['label']}, before: {before}")


@command()
async def gc(
    *,
    scope: Annotated[
        str | None, typer.Option(help="With --policy or --now: only in this project; the job works on every one.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Other days than the settings': tool.result=7, ops.alert=forever. Repeatable."),
    ] = None,
    now: Annotated[str | None, typer.Option(help="Count the days back from this time.")] = None,
    dry_run: DryRun = False,
    owner: Owner,
    target: Target,
) -> None:
    """Take in what was captured, and delete what is past its days: the job `episodes`.

    With --policy or --now, instead, delete what is past these days in one project, or of one user, agent or session.
    """
    from time import time_ns

    from fusion.doors.compat.openclaw_mem import episode_gc, episode_receipts

    days = target.settings().episodes.kept_days
    async with target.client() as client:
        if policy is None and now is None:
            done = await client.run_job("episodes", dry_run=dry_run)
            shown = episode_receipts.expired(done, scope, days, time_ns() // 1_000_000)
        else:
            asked = episode_gc.Policy.of(days, policy or (), now)
            deleted = await episode_gc.delete_past(client, _scope(owner, scope), asked, dry_run=dry_run)
            shown = episode_receipts.deleted(deleted, scope, asked.days, asked.now_ms)
    target.show(shown, f"{'would delete' if dry_run else 'deleted'} {shown['deleted_total']:,}")


@command()
async def export(
    *,
    scope: ScopeName = None,
    to: Annotated[Path | None, typer.Option(help="A folder for a file an agent, and its latest.json.")] = None,
    all_users: AllUsers = False,
    owner: Owner,
    target: Target,
) -> None:
    """Print episodes as lines {observationId, kind, text, ts}, or write them into a folder."""
    by_agent: dict[str, list[dict[str, Any]]] = {}
    count = 0
    async with target.client() as client:
        async for one in _every(client, _scope(owner, scope), all_users=all_users):
            count += 1
            if to is None:
                print(json.dumps(exported(one), ensure_ascii=False))
            else:
                by_agent.setdefault(one["agent_id"] or "main", []).append(exported(one))
    if to is not None:
        for agent, lines in by_agent.items():
            write_export(to, agent, lines)
        target.show({"exported": count, "agents": sorted(by_agent), "to": str(to)}, f"exported {count:,} to {to}")


async def _every(client: AsyncClient, scope: Mapping[str, Any], *, all_users: bool) -> AsyncIterator[Mapping[str, Any]]:
    cursor: str | None = None
    while True:
        page = await client.query_episodes(
            limit=PAGE, include_payload=True, cursor=cursor, all_users=all_users or None, **scope
        )
        for one in page["episodes"]:
            yield one
        if (cursor := page["next_cursor"]) is None:
            return


def exported(episode: Mapping[str, Any]) -> dict[str, Any]:
    """An episode as openclaw-mem exchanges it; the same episode always gives the same line."""
    payload = episode.get("payload")
    text = payload if isinstance(payload, str) else None if payload is None else json.dumps(payload, ensure_ascii=False)
    return {
        "observationId": episode["event_id"],
        "kind": episode["type"],
        "text": text or episode["summary"],
        "ts": episode["ts"],
    }


def write_export(folder: Path, agent: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the lines of one agent, and its last one as latest.json; each file is replaced as a whole."""
    from fusion.store.private_files import write_atomically

    if agent in (".", "..") or "/" in agent or "\0" in agent:
        raise BadInput(f"the agent {agent!r} cannot be the name of a folder; export it alone, without --to")
    place = folder / agent
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_atomically(place / EXPORTED, written.encode())
    write_atomically(place / LATEST, json.dumps(lines[-1], ensure_ascii=False).encode() + b"\n")


def _scope(owner: Owner, project: str | None) -> dict[str, Any]:
    """The scope of a request, without what is not named."""
    return {name: value for name, value in {**owner.ids(), "project": project}.items() if value is not None}


def _json(option: str, text: str | None, file: Path | None) -> Any:
    """The JSON of an option, or of the file that another one names. Raises BadInput."""
    if text is not None and file is not None:
        raise BadInput(f"{option}-json or {option}-file: give one of the two")
    try:
        text = text if file is None else file.read_text(encoding="utf-8")
        return None if text is None else json.loads(text)
    except OSError as error:
        raise BadInput(f"{option}-file: {file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadInput(f"{option}-{'json' if file is None else 'file'}: give JSON") from None


def _line(episode: Mapping[str, Any]) -> str:
    score = f"{episode['score']:.2f}  " if "score" in episode else ""
    tool = f" {episode['tool']}" if episode["tool"] else ""
    found = f"{score}{episode['ref']}  {episode['ts'][:16]}  {episode['type']}{tool}  {episode['summary']}"
    return plain(found if "payload" not in episode else f"{found}\n    {json.dumps(episode['payload'])}")


for one in (append, query, search, replay, embed, redact, grade, gc, export):
    app.command(one.__name__)(one)
