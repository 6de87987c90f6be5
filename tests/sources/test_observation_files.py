"""Files of observations that other programs write: harvested once, read on as they grow, and never written."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
import zstandard

from fusion.contract import Scope
from fusion.gateway.episodes import EpisodeQuery
from fusion.gateway.gateway import Gateway
from fusion.settings import Settings
from tests.gateway.helpers import small

GLOBAL = EpisodeQuery(Scope(project="global", audience="private"))


def settings(home: Path, *files: Path) -> Settings:
    plain = small(home)
    return plain.model_copy(update={"episodes": plain.episodes.model_copy(update={"paths": files})})


def record(text: str, **more: object) -> bytes:
    return orjson.dumps({"ts": "2026-02-01T10:00:00Z", "kind": "tool", "tool_name": "Bash", "summary": text, **more})


async def summaries(gateway: Gateway, query: EpisodeQuery = GLOBAL) -> list[str]:
    return [one["summary"] for one in (await gateway.query_episodes(query))["episodes"]]


@pytest.mark.row("A124", "a file of openclaw-mem is harvested once and read on as it grows; a bad record stops nothing")
async def test_a_file_is_harvested_once_and_read_on(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "observations.jsonl"
    file.write_bytes(record("one") + b"\n{broken\n" + record("two", scope="bookings") + b"\n" + record("half")[:20])
    before = file.read_bytes()
    async with Gateway.open(settings(home, file)) as gateway:
        done = await gateway.harvest_episodes()
        assert (done.stored, done.rejected) == (2, 1)
        assert (await gateway.harvest_episodes()).read == 0
        assert file.read_bytes() == before
        assert await summaries(gateway) == ["one"]
        assert await summaries(gateway, EpisodeQuery(Scope(project="bookings", audience="private"))) == ["two"]
    file.write_bytes(before + record("half")[20:] + b"\n" + record("one") + b"\n")
    async with Gateway.open(settings(home, file)) as gateway:
        done = await gateway.harvest_episodes()
        assert (done.stored, done.duplicate) == (1, 1)
        assert await summaries(gateway) == ["one", "half"]
        letters = (home / "observations" / "dead-letters.jsonl").read_bytes()
        assert b"file:observations.jsonl:2" in letters
        assert b"broken" not in letters, "a dead letter has no text"


async def test_a_file_that_was_replaced_is_read_anew(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "observations.jsonl"
    file.write_bytes(record("one") + b"\n")
    async with Gateway.open(settings(home, file)) as gateway:
        await gateway.harvest_episodes()
        file.unlink()
        file.write_bytes(record("other and longer than before") + b"\n" + record("one") + b"\n")
        done = await gateway.harvest_episodes()
        assert (done.stored, done.duplicate) == (1, 1)


@pytest.mark.row("A149", "an archive that is cut gives what can be read of it, and the rest is counted as rejected")
async def test_an_archive_that_is_cut_gives_what_it_has(home: Path, tmp_path: Path) -> None:
    packed = zstandard.ZstdCompressor().compress(b"".join(record(os.urandom(40).hex()) + b"\n" for _ in range(20_000)))
    file = tmp_path / "old.jsonl.zst"
    file.write_bytes(packed[: len(packed) // 2])
    async with Gateway.open(settings(home, file)) as gateway:
        done = await gateway.harvest_episodes()
        assert 0 < done.stored < 20_000
        assert (await gateway.harvest_episodes()).read == 0
        file.write_bytes(packed)
        again = await gateway.harvest_episodes()
        assert done.stored + again.stored == 20_000


async def test_a_record_cannot_name_another_user(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "observations.jsonl"
    file.write_bytes(record("one", user_id="omar", tenant="acme") + b"\n")
    async with Gateway.open(settings(home, file)) as gateway:
        await gateway.harvest_episodes()
        assert await summaries(gateway, EpisodeQuery(Scope(user_id="omar", audience="private"))) == []
        assert await summaries(gateway) == ["one"]


@pytest.mark.parametrize("bad", ["a folder", "a pipe", "a link", "nothing", "a binary"])
async def test_what_is_no_file_of_jsonl_stops_nothing(home: Path, tmp_path: Path, bad: str) -> None:
    good, other = tmp_path / "good.jsonl", tmp_path / "other.jsonl"
    good.write_bytes(record("one") + b"\n")
    match bad:
        case "a folder":
            other.mkdir()
        case "a pipe":
            os.mkfifo(other)
        case "a link":
            other.symlink_to("/dev/zero")
        case "a binary":
            other.write_bytes(os.urandom(100_000) + b"\n")
    async with Gateway.open(settings(home, other, good)) as gateway:
        assert (await gateway.harvest_episodes()).stored == 1
