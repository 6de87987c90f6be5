"""The settings of Memory Cortex in OpenClaw's settings: each of the seed's keys, and what is left out."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fusion.discover.memory_cortex import FILE, CortexBlock, cortex_block, read_block

SEED = {
    "enabled": True,
    "middlewareHost": "localhost",
    "middlewarePort": 8300,
    "autoIngest": True,
    "autoRecall": False,
    "recallTimeoutMs": 200,
    "recallMaxTokens": 500,
    "recallMaxFacts": 15,
    "synthesisCacheTtlMs": 300000,
    "skipHeartbeat": True,
    "embedHost": "localhost",
    "embedPort": 8105,
    "llmHost": "172.17.96.1",
    "llmPort": 8301,
    "hwMonitorHost": "172.17.96.1",
    "hwMonitorPort": 8085,
    "hwMonitorEnabled": True,
}
"""the block as the seed has it, but for autoRecall"""


def block(**changes: Any) -> CortexBlock:
    return read_block(Path("openclaw.json"), changes)


@pytest.mark.row(
    "A102", "`fusion init` takes the block `memoryCortex` of `openclaw.json` as settings, each of its keys"
)
def test_every_key_of_the_seed_is_a_setting() -> None:
    found = read_block(Path("openclaw.json"), SEED)
    assert found.left_out == {}
    assert {f"{table}.{name}": value for (table, name), value in found.settings.items()} == {
        "memory_cortex.enabled": True,
        "memory_cortex.port": 8300,
        "memory_cortex.auto_ingest": True,
        "memory_cortex.auto_recall": False,
        "memory_cortex.skip_heartbeat": True,
        "memory_cortex.synthesis_ttl_s": 300.0,
        "memory_cortex.hw_monitor_url": "http://172.17.96.1:8085/",
        "hooks.recall_timeout_ms": 200,
        "hooks.budget_tokens": 500,
        "hooks.max_items": 15,
        "hooks.format": "long-term",
        "embedder.provider": "compatible",
        "embedder.model": "nomic-embed-text",
        "embedder.url": "http://localhost:8105",
        "model.adapter": "adapters.models.gateway:Gateway",
        "model.model": "qwen3-8b",
        "model.base_url": "http://172.17.96.1:8301/v1",
    }


def test_servers_that_are_not_named_are_not_set() -> None:
    assert block(enabled=True).settings == {("memory_cortex", "enabled"): True}
    assert block(llmHost="127.0.0.1").settings["model", "base_url"] == "http://127.0.0.1:8301/v1"
    assert ("memory_cortex", "hw_monitor_url") not in block(hwMonitorPort=1, hwMonitorEnabled=False).settings


def test_unknown_keys_and_wrong_values_are_named() -> None:
    found = block(recallMaxFact=15, enabled="yes", recallTimeoutMs=0, llmPort="8301", synthesisCacheTtlMs=-5)
    assert found.settings == {}
    assert sorted(found.left_out) == ["enabled", "llmPort", "recallMaxFact", "recallTimeoutMs", "synthesisCacheTtlMs"]


def test_seconds_of_a_synthesis_are_taken_from_milliseconds() -> None:
    assert block(synthesisCacheTtlMs=90_500).settings == {("memory_cortex", "synthesis_ttl_s"): 90.5}


@pytest.mark.parametrize("host", ["memory.example.org", "8.8.8.8", "localhost/x@evil", 7, ""])
def test_servers_elsewhere_are_left_out(host: object) -> None:
    """A file of another program must not make this one send memories to the internet."""
    found = block(llmHost=host, embedHost=host)
    assert found.settings == {}
    assert sorted(found.left_out) == ["embedHost", "llmHost"]


def write(user: Path, text: str) -> Path:
    (user / FILE).parent.mkdir(exist_ok=True)
    (user / FILE).write_text(text)
    return user


def test_block_is_found_at_both_places_with_comments(tmp_path: Path) -> None:
    """The fork has it below infrastructure. OpenClaw's file is JSON5: comments and trailing commas."""
    text = '{\n  // mine\n  "infrastructure": {"memoryCortex": {"autoIngest": false, /* http://x */ },},\n}'
    found = cortex_block(write(tmp_path, text))
    assert found is not None
    assert found.settings == {("memory_cortex", "auto_ingest"): False}
    plain = cortex_block(write(tmp_path, json.dumps({"memoryCortex": {"enabled": False}})))
    assert plain is not None
    assert plain.settings == {("memory_cortex", "enabled"): False}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"memoryCortex": 7}', '{"infrastructure": []}', "{}"])
def test_file_without_a_block_is_none(tmp_path: Path, text: str) -> None:
    assert cortex_block(write(tmp_path, text)) is None
    assert cortex_block(tmp_path / "nobody") is None


def test_port_that_another_program_has_is_left_out(tmp_path: Path) -> None:
    """Memory Cortex still runs there: the server could not start."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        found = cortex_block(write(tmp_path, json.dumps({"memoryCortex": {"middlewarePort": port}})))
    assert found is not None
    assert found.settings == {}
    assert "another program answers" in found.left_out["middlewarePort"]
