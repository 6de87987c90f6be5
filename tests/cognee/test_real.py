"""The adapter in front of a real Cognee, offline: `make test-cognee` installs one and runs this.

Two servers: an open one with a graph that a program built through ``add_data_points``, and one that keeps datasets
apart and has to be logged in to. Their embedder counts words and their model reads arrows (`start.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from adapters.cognee import Cognee
from fusion.contract import Event, Extracted, Fact, Hit, Moment, Place, Scope
from fusion.errors import InvalidAnswer, Unauthorized
from tests.backend_contract import NOW, SAMPLES, make_event, make_query
from tests.cognee.servers import start_cognee
from tests.patience import opening_at

pytestmark = [pytest.mark.cognee, pytest.mark.timeout(300)]

GRAPH = (
    ("julien", "corrected_by", "bug gateway"),
    ("bug gateway", "found_in", "timezone code"),
    ("marta", "prefers", "peppermint tea"),
)
USER, PASSWORD = "ada@example.com", "correct horse battery staple"
POLL_S = 0.2


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Both at once: each takes its fifteen seconds to import itself."""
    with ThreadPoolExecutor() as threads:
        opened = threads.submit(
            *(start_cognee, tmp_path_factory.mktemp("open"), GRAPH), ENABLE_BACKEND_ACCESS_CONTROL="false"
        )
        closed = threads.submit(
            *(start_cognee, tmp_path_factory.mktemp("closed")), DEFAULT_USER_EMAIL=USER, DEFAULT_USER_PASSWORD=PASSWORD
        )
    try:
        yield SimpleNamespace(open=opened.result().url, closed=closed.result().url)
    finally:
        for process in (opened, closed):
            if process.exception() is None:
                process.result().stop()


@pytest.fixture
def password(tmp_path: Path) -> str:
    (file := tmp_path / "password").write_text(PASSWORD, encoding="utf-8")
    return str(file)


async def cognee(url: str, **options: object) -> Cognee:
    return await Cognee.open(opening_at(url, "cognee", **options), poll_s=POLL_S)


@pytest.mark.row(
    "A114",
    "Cognee: a real Cognee 1.6.5 (`make test-cognee`) returns triplets with paths from a graph built "
    "by `add_data_points`",
)
async def test_triplets_of_a_graph_that_a_program_built(servers: SimpleNamespace) -> None:
    """julien, corrected_by, bug gateway: its path and its sentence, before what has less to do with the question.

    There are no chunks: that half answers 404 NoData, which is nothing found.
    """
    backend = await cognee(servers.open)
    hits = await backend.search(make_query("Who was corrected by the bug gateway?"))
    paths = [hit.path for hit in hits]
    assert hits[0] == Hit(
        native_id="julien --[corrected_by]--> bug gateway",
        text="julien corrected by bug gateway.",
        kind="fact",
        path=("julien", "corrected_by", "bug gateway"),
        fact=Fact("julien", "corrected_by", "bug gateway"),
    )
    assert ("bug gateway", "found_in", "timezone code") in paths
    assert len(await backend.search(make_query("bug gateway", limit=1))) == 1
    for question in ("'; MATCH (n) DETACH DELETE n //", "a\0b", "東京 🤷", "x" * 4000):
        await backend.search(make_query(question))
    assert [hit.path for hit in await backend.search(make_query("Who was corrected by the bug gateway?"))] == paths
    assert (await backend.describe()).notes == ()
    await backend.close()


@pytest.mark.feature("Cognee: with the real server, 404 is empty, and a missing login is unauthorized")
async def test_what_nothing_was_added_to_is_empty(servers: SimpleNamespace, password: str) -> None:
    """An empty server, a dataset that is not there yet: nothing found, and no error."""
    login = {"user": USER, "password_file": password}
    for options in (
        {"dataset": "not_yet"},
        {"datasets": [], "dataset": "not_yet"},
        {"dataset": "x", "search": ["CHUNKS"]},
    ):
        backend = await cognee(servers.closed, **login, **options)
        assert list(await backend.search(make_query("julien"))) == []
        assert await backend.forget("unknown", []) == "absent"
        await backend.close()


async def test_who_does_not_log_in_gets_nothing(servers: SimpleNamespace, tmp_path: Path) -> None:
    """No credential, a wrong password, a wrong key: unauthorized, and `describe` names the fix."""
    (file := tmp_path / "wrong").write_text("wrong", encoding="utf-8")
    for options in ({}, {"user": USER, "password_file": str(file)}, {"api_key_file": str(file)}):
        backend = await cognee(servers.closed, **options)
        with pytest.raises(Unauthorized):
            await backend.search(make_query("julien"))
        described = await backend.describe()
        assert described.degraded
        assert "Fix: " in described.notes[0]
        await backend.close()


async def test_a_key_of_its_own(servers: SimpleNamespace, tmp_path: Path) -> None:
    """One that Cognee gave out opens it as a login does."""
    async with httpx.AsyncClient(base_url=f"{servers.closed}/api/v1/auth", trust_env=False, timeout=60) as http:
        form = {"username": USER, "password": PASSWORD}
        token = (await http.post("/login", data=form)).json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        key = (await http.post("/api-keys", json={"name": "fusion"}, headers=headers)).json()["key"]
    (file := tmp_path / "key").write_text(key, encoding="utf-8")
    backend = await cognee(servers.closed, api_key_file=str(file))
    assert not (await backend.describe()).degraded
    await backend.close()


@pytest.mark.feature("Cognee: with the real server, a memory is added, cognified and deleted, with login")
async def test_the_life_of_a_memory(servers: SimpleNamespace, password: str) -> None:
    """Added, found once the graph is made, with its event and its triplet; forgotten, and gone from both."""
    backend = await cognee(servers.closed, user=USER, password_file=password, dataset="life", bound={"user_id": "ada"})
    ada = Scope(user_id="ada")

    def captured(number: int, text: str, **fields: object) -> Extracted:
        return Extracted(make_event(number, text, ada, kind="fact", **fields))

    whole: Event = make_event(
        *(1, "Zoë wrote “naïve café” – 東京で会う 👍🏽\n\tnadia -> lives_in -> Lisbon", ada),
        kind="fact",
        speaker="Zoë Ünal",
        at=Moment(NOW, "minute", "Asia/Tokyo"),
        place=Place("diary", 4, 4, "turn"),
        trust="trusted",
        origin="agent",
    )
    batch = [
        Extracted(whole),
        captured(2, "otto -> borrowed -> telescope"),
        captured(3, "otto -> borrowed -> telescope"),
    ]
    ids = await backend.remember(batch)
    await backend.settle()
    assert ids == [(one.event.event_id,) for one in batch]
    assert await backend.remember(batch) == ids
    await backend.settle()
    assert (await backend.describe()).items == 3

    first, *others = await backend.search(make_query("Where does nadia live? lives_in Lisbon, wrote Zoë", ada))
    assert first == replace(Hit.of(whole), score=first.score)
    assert ("nadia", "lives_in", "Lisbon".lower()) in [tuple(map(str.lower, hit.path)) for hit in others]
    both = {hit.event_id for hit in await backend.search(make_query("otto borrowed a telescope", ada)) if hit.event_id}
    assert {batch[1].event.event_id, batch[2].event.event_id} <= both

    assert await backend.forget(whole.event_id, ids[0]) == "deleted"
    assert await backend.forget(whole.event_id, ids[0]) == "absent"
    left = await backend.search(make_query("Where does nadia live? lives_in Lisbon", ada))
    assert whole.event_id not in {hit.event_id for hit in left}
    assert not [hit for hit in left if "nadia" in f"{hit.path} {hit.text}".lower()]
    assert [hit for hit in left if "otto" in hit.path]
    await backend.close()


async def test_quoted_memories_come_first(servers: SimpleNamespace, password: str) -> None:
    """The suite's twelve memories, by each of the types that answer passages."""
    login = {"user": USER, "password_file": password}
    batch = [Extracted(make_event(n, text, kind="fact")) for n, (text, _) in enumerate(SAMPLES, start=1)]
    writing = await cognee(servers.closed, **login, dataset="twelve")
    await writing.remember(batch)
    await writing.settle()
    await writing.close()
    for way in ("CHUNKS", "CHUNKS_LEXICAL"):
        backend = await cognee(servers.closed, **login, datasets=["twelve"], search=[way])
        found = [(await backend.search(make_query(one.event.text)))[0].event_id for one in batch]
        assert found == [one.event.event_id for one in batch], way
        assert (await backend.describe()).items == len(batch)
        await backend.close()


async def test_a_search_type_that_this_version_does_not_have(servers: SimpleNamespace) -> None:
    """INSIGHTS is refused by the server itself, which is why it is asked for by another name."""
    backend = await cognee(servers.open)
    with pytest.raises(InvalidAnswer, match="answered 400: it does not know such a search"):
        await backend._results({"query": "x", "searchType": "INSIGHTS"}, 30)
    await backend.close()
    former = await cognee(servers.open, search=["INSIGHTS"])
    assert (await former.search(make_query("marta prefers")))[0].path == ("marta", "prefers", "peppermint tea")
    await former.close()


@pytest.mark.feature(
    "Cognee: a real Cognee is sent sections of files, lists them, and deletes them with their triplets"
)
async def test_sections_of_files(servers: SimpleNamespace, password: str) -> None:
    # Without a list of datasets Cognee searches those of the other tests, too.
    options = {"user": USER, "password_file": password, "dataset": "files", "datasets": ["files"], "workspace": True}
    backend = await cognee(servers.closed, **options)
    anna, bjorn = "MEMORY.md › People\n\nanna -> mentors -> bjorn", "MEMORY.md › Boats\n\nselma -> sails -> cutter"
    for _ in range(2):
        await backend.add_sections({"memory-fusion-ab12cd-1": anna, "memory-fusion-ab12cd-2": bjorn})
    await backend.settle()
    assert list(await backend.sections("memory-fusion-ab12cd-")) == [
        "memory-fusion-ab12cd-1",
        "memory-fusion-ab12cd-2",
    ]
    asked = replace(make_query("Whom does anna mentor?"), scope=Scope(audience="private"))
    hits = await backend.search(asked)
    assert ("anna", "mentors", "bjorn") in [hit.path for hit in hits]
    assert {hit.scope.audience for hit in hits} == {"private"}
    await backend.delete_sections(["memory-fusion-ab12cd-1"])
    assert list(await backend.sections("memory-fusion-ab12cd-")) == ["memory-fusion-ab12cd-2"]
    assert ("anna", "mentors", "bjorn") not in [hit.path for hit in await backend.search(asked)]
    await backend.close()
