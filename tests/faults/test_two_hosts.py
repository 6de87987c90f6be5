"""Two hosts that run the jobs of one workspace at the same time, each with a home of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN = "# Memory\n\nMy own words.\n"
FACTS = {
    "one": ("Mia is allergic to peanuts.", "The harbour office opens at nine.", "Nadia plays the cello."),
    "two": ("The router is behind the sofa.", "Ada was born in Lisbon.", "The bakery sells rye bread."),
}
DECISIONS = {
    "one": ("We decided to go with Postgres.", "We decided to paint the fence.", "We decided to hire a cook."),
    "two": ("We decided to leave on Friday.", "We decided to sell the boat.", "We decided to keep the old logo."),
}

HOST = """
import asyncio, sys
from pathlib import Path
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.patience import load

name, folder, facts, decisions = sys.argv[1], Path(sys.argv[2]), sys.argv[3:6], sys.argv[6:]
mine = {"scope": Scope(audience="private"), "origin": "owner"}

async def main():
    settings = load(
        home=folder / name, backends_only=True, embedder={"adapter": ""},
        backends={"memory": {"adapter": "adapters.inmemory:InMemory"}},
        workspace={"write": True, "root_folder": str(folder / "workspace")}, jobs={"zone": "UTC", "start_after_s": 1e6},
    )
    async with Gateway.open(settings) as gateway:
        print("ready", flush=True)
        sys.stdin.readline()
        for fact, decision in zip(facts, decisions):
            await gateway.remember([
                NewMemory(fact, kind="fact", **mine),
                NewMemory(decision, kind="turn", speaker="user", **mine),
            ])
            for job in ("extract", "distill"):
                run = await gateway.jobs().run(job)  # it fails if the other host wrote at every of its tries
                print(job, run.status, run.receipt.get("faults"), flush=True)
        print("over", flush=True)
        sys.stdin.readline()
        for job in ("extract", "distill"):
            run = await gateway.jobs().run(job)
            assert run.status == "done", run.receipt

asyncio.run(main())
"""


@pytest.mark.feature("two hosts that run the jobs of one workspace at once lose nothing of each other, nor of a person")
@pytest.mark.timeout(600)
def test_two_hosts_at_once_lose_nothing(tmp_path: Path) -> None:
    """Both begin at once; a run that came too late three times is made up for by a last one of each."""
    folder = tmp_path.resolve()
    (folder / "workspace").mkdir()
    memory = folder / "workspace" / "MEMORY.md"
    memory.write_text(OWN)
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", HOST, name, str(folder), *FACTS[name], *DECISIONS[name]],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    said = []
    for host in hosts:
        assert host.stdout is not None
        assert host.stdout.readline() == "ready\n"
    for host in hosts:
        assert host.stdin is not None
        host.stdin.write("go\n")
        host.stdin.flush()
    for host in hosts:
        assert host.stdout is not None
        while (line := host.stdout.readline()) != "over\n":
            assert line, "the host ended"
            said.append(line)
    for host in hosts:  # one after the other
        rest, _ = host.communicate("go\n")
        assert host.returncode == 0, rest
    assert len(said) == 12
    text = memory.read_text()
    interactions = (folder / "workspace" / "memory" / "interactions.md").read_text()
    for name in ("one", "two"):
        for fact, decision in zip(FACTS[name], DECISIONS[name], strict=True):
            assert text.count(fact) == 1, said
            assert interactions.count(decision) == 1, said
    assert text.startswith(OWN.rstrip())
    files = {str(one.relative_to(folder / "workspace")) for one in (folder / "workspace").rglob("*") if one.is_file()}
    kept = {"MEMORY.md", "memory/interactions.md"}
    assert kept <= files
    assert all(one.startswith(".daily-raw/20") and one.endswith(".md") for one in files - kept), files
