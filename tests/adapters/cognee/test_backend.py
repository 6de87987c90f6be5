"""Cognee as a backend: what it is sent, what its replies mean, how it remembers, and how it fails.

The server is one of our own on loopback that behaves as Cognee 1.6.5; `tests/cognee/test_real.py` asks the real one.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cognee import Cognee
from adapters.cognee.api import PAGE
from adapters.cognee.replies import passages, results, triplets
from fusion.contract import Backend, Description, Extracted, Fact, Features, Hit, Opening, Scope
from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from tests import chaos
from tests.backend_contract import RemoteBackendContract, make_event, make_query
from tests.chaos import Chaos
from tests.cognee.server import Document, Served
from tests.patience import opening_at


@pytest.mark.feature("Cognee: passes the contract suite, over a server that separates datasets")
class TestCognee(RemoteBackendContract):
    """With a dataset that remembers, in front of a server that keeps datasets apart."""

    expires = False  # Cognee's replies have no such time

    @pytest.fixture(autouse=True)
    async def server(self, tmp_path: Path) -> AsyncIterator[Chaos]:
        self.served = Served()
        self.password = tmp_path / "password"
        self.password.write_text(self.served.password, encoding="utf-8")
        async with Chaos(behaviour=self.served) as server:
            self.url = server.url
            yield server

    async def open_backend(self, folder: Path) -> Backend:
        login = {"user": self.served.user, "password_file": str(self.password)}
        return await Cognee.open(opening_at(self.url, "cognee", folder, dataset="memory", **login))

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await Cognee.open(opening_at(url, "cognee", folder))


# Who we are to it


async def cognee(url: str, **options: object) -> Cognee:
    return await Cognee.open(opening_at(url, "cognee", **options), poll_s=0)


async def remembered(backend: Cognee, *texts: str) -> list[str]:
    """Events of these texts, remembered and built; their ids."""
    events = [make_event(number, text, kind="fact") for number, text in enumerate(texts, start=1)]
    await backend.remember([Extracted(event) for event in events])
    await backend.settle()
    return [event.event_id for event in events]


ARROW = "julien -> corrected_by -> bug gateway"


@pytest.mark.feature("Cognee: login or key; an expired token is renewed once")
@pytest.mark.feature("cognee: an expired token", part="faults/adapters")
async def test_an_expired_token_is_renewed_once(tmp_path: Path) -> None:
    """One login for many questions at once, and one more when the token is no longer good; not a third."""
    served = Served()
    (file := tmp_path / "password").write_text(f"{served.password}\n", encoding="utf-8")
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, user=served.user, password_file=str(file), dataset="memory")
        await remembered(backend, ARROW)
        await asyncio.gather(*(backend.search(make_query("julien")) for _ in range(5)))
        assert served.logins == 1
        served.tokens = set()
        found = await asyncio.gather(*(backend.search(make_query("julien")) for _ in range(5)))
        assert (served.logins, [len(hits) for hits in found]) == (2, [2] * 5)
        file.write_text("another", encoding="utf-8")
        served.tokens = set()
        before = len(server.calls)
        with pytest.raises(Unauthorized, match=r"does not accept ada@example\.com with that password"):
            await backend.search(make_query("julien"))
        assert [call.path for call in server.calls[before:]].count("/api/v1/auth/login") <= 2  # one a search type
        await backend.close()


async def test_a_key_instead_of_a_password(tmp_path: Path) -> None:
    """As X-Api-Key, read for each request; without one the reason is said, and nothing is asked twice."""
    (file := tmp_path / "key").write_text("wrong", encoding="utf-8")
    served = Served()
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, api_key_file=str(file), dataset="memory", search=["CHUNKS"])
        with pytest.raises(Unauthorized):
            await backend.search(make_query("julien"))
        assert len(server.calls) == 1
        file.write_text(served.key, encoding="utf-8")
        await remembered(backend, ARROW)
        assert len(await backend.search(make_query("julien"))) == 1
        await backend.close()


async def test_no_secret_in_an_error_or_a_note(tmp_path: Path) -> None:
    """Neither password nor token nor question is quoted, whatever the server does."""
    served = Served(password="canary-password")
    (file := tmp_path / "password").write_text(served.password, encoding="utf-8")
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, user=served.user, password_file=str(file), dataset="memory")
        await remembered(backend, ARROW)
        served.tokens = {"token-canary"}
        faults = (chaos.status(401), chaos.status(400), chaos.status(404), chaos.status(500), chaos.html, chaos.reset)
        for fault in faults:
            server.behaviour = fault
            with pytest.raises(BackendError) as caught:
                await backend.search(make_query("canary question"))
            told = f"{caught.value!r} {caught.value.__cause__!r} {await backend.describe()}"
            assert "canary" not in told
            assert "token-" not in told
        await backend.close()


# What it is sent, and what its replies mean


async def test_both_search_types_are_asked_at_once() -> None:
    """Without a model's answer: passages as they are, a completion as the prompt that it would be made from."""
    async with Chaos(behaviour=Served(apart=False, datasets={"notes": {}})) as server:
        backend = await cognee(server.url, datasets=["notes"], dataset="memory", limit=5)
        await remembered(backend, ARROW)
        await backend.search(make_query("julien\0 gateway\n", limit=100))
        await backend.close()
    asked = [call.json for call in server.calls if call.path == "/api/v1/search"][:2]
    common = {"query": "julien gateway", "topK": 5, "datasets": ["notes", "memory"]}
    assert sorted(asked, key=lambda body: body["searchType"]) == [
        {"searchType": "CHUNKS", "onlyContext": False, **common},
        {"searchType": "GRAPH_COMPLETION", "onlyContext": True, **common},
    ]


@pytest.mark.row(
    "A114",
    "Cognee: triplets with their path (julien, corrected_by, bug gateway), passages as the events that they were, "
    "both shapes of reply",
)
@pytest.mark.feature("cognee: a server of another shape", part="faults/adapters")
@pytest.mark.parametrize("apart", [True, False])
async def test_passages_and_triplets_in_both_shapes_of_reply(apart: bool) -> None:
    """The passage is the event; the triplet says its path. They come in turns."""
    served = Served(apart)
    os.environ["COGNEE_TEST_KEY"] = served.key
    try:
        async with Chaos(behaviour=served) as server:
            backend = await cognee(
                server.url, dataset="memory", api_key_env="COGNEE_TEST_KEY", bound={"user_id": "ada"}
            )
            event = make_event(1, ARROW, Scope(user_id="ada"), kind="fact", speaker="Marta")
            assert await backend.remember([Extracted(event)]) == [(event.event_id,)]
            assert server.calls[-1].path == "/api/v1/add"
            await backend.settle()
            passage, triplet = await backend.search(make_query("bug gateway", Scope(user_id="ada")))
            assert list(await backend.search(make_query("bug gateway", Scope(user_id="ben")))) == []
            await backend.close()
    finally:
        del os.environ["COGNEE_TEST_KEY"]
    assert passage == replace(Hit.of(event), score=passage.score)
    assert triplet == Hit(
        native_id="julien --[corrected_by]--> bug gateway",
        text="julien corrected by bug gateway.",
        scope=Scope(user_id="ada"),
        kind="fact",
        path=("julien", "corrected_by", "bug gateway"),
        fact=Fact("julien", "corrected_by", "bug gateway"),
    )


PROMPT = """The question is: `who?`
and here is the context provided with a set of relationships from a knowledge graph: `Nodes:
Node: julien
__node_content_start__
a text that says
Connections:
mallory --[owns]--> everything
__node_content_end__

Node: Julien says: look at... [julien, says, look]
__node_content_start__
Julien says: look at the gateway
__node_content_end__


Connections:
julien --[corrected_by]--> bug gateway  (julien corrected by bug gateway.)
Julien says: look at... [julien, says, look] --[contains]--> julien  (Document chunk mentions julien: julien)
julien --[is_a]--> concept  (julien is a concept.)
julien --[belongs_to_set]--> team  (julien belongs to set team.)
marta --[prefers]--> peppermint tea
julien --[lives_in]--> Lyon  (Julien lives in Lyon (France).) [superseded; as of 2025-03-01]
no connection at all
an empty object --[is]-->  (nothing)
bug gateway --[found_in]--> timezone code  (It was found there,
after a week.)`"""


@pytest.mark.row(
    "A114",
    'Cognee: reads the triplets of a prompt among any texts, without its bookkeeping ("spindle is a concept")',
)
def test_triplets_of_a_prompt() -> None:
    """Lines of the last section only, with what is said of them; texts are no entities; some have no sentence; types
    and sets are bookkeeping."""
    hits, dropped = triplets(PROMPT, Scope())
    assert dropped == 0
    assert [(hit.path, hit.text) for hit in hits] == [
        (("julien", "corrected_by", "bug gateway"), "julien corrected by bug gateway."),
        (("marta", "prefers", "peppermint tea"), "marta prefers peppermint tea"),
        (("julien", "lives_in", "Lyon"), "Julien lives in Lyon (France). [superseded; as of 2025-03-01]"),
        (("bug gateway", "found_in", "timezone code"), "It was found there,"),
    ]
    assert triplets([PROMPT], Scope())[0] == hits
    assert triplets("", Scope()) == ([], 0)
    assert triplets("An answer of a model.", Scope()) == ([], 1)
    assert triplets({"nodes": []}, Scope()) == ([], 1)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda v: (
            st.lists(v)
            | st.dictionaries(
                st.sampled_from(
                    ["id", "text", "score", "search_result", "dataset_id", "external_metadata", "error", "x"]
                ),
                v,
            )
        ),
        max_leaves=20,
    )
)
def test_whatever_comes_is_hits_or_counted(reply: object) -> None:
    """No JSON value is an error of ours; every hit says something and has an id."""
    try:
        found = results(reply)
    except TypeError:
        assert not isinstance(reply, list)
        return
    for one in found:
        for read in (passages, triplets):
            hits, _ = read(one, Scope())
            assert all(hit.native_id and hit.text.strip() for hit in hits)


async def test_what_others_brought_keeps_cognees_id() -> None:
    """A chunk without our mark; the metadata of others is none of ours; what is no passage is counted."""
    chunk = {"id": "c1", "text": "Nadia prefers tea.", "score": 0.25, "external_metadata": '{"fusion": 7}'}
    items = [chunk, {**chunk, "id": "c2", "external_metadata": "{"}, {"id": "c3"}, {"id": "c4", "text": " "}, 7]
    hits, dropped = passages(items, Scope(user_id="ada"))
    assert dropped == 3
    assert hits[0] == Hit("c1", "Nadia prefers tea.", Scope(user_id="ada"), score=-0.25)
    assert (hits[1].native_id, hits[1].event_id) == ("c2", None)


@pytest.mark.feature("Cognee: 404 NoData means that nothing was found")
@pytest.mark.feature("cognee: no data", part="faults/adapters")
async def test_nothing_there_is_nothing_found() -> None:
    """404 with NoData, a dataset that is made only when something is remembered: empty; a wrong name is said."""
    async with Chaos(behaviour=Served(apart=False, datasets={"notes": {}})) as server:
        backend = await cognee(server.url, datasets=["notes"], dataset="memory")
        assert list(await backend.search(make_query("julien"))) == []
        assert list(await backend.search(make_query("   "))) == []
        await backend.close()
        backend = await cognee(server.url, datasets=["nope"])
        with pytest.raises(HttpStatus, match=r"Dataset\(s\) not found: 'nope'"):
            await backend.search(make_query("julien"))
        assert "it has no dataset nope. Fix: correct datasets" in (await backend.describe()).notes[0]
        await backend.close()


@pytest.mark.row(
    "A114",
    "Cognee: the seed's mode INSIGHTS no longer exists: GRAPH_COMPLETION with `only_context` replaces "
    "it, and the description says so",
)
async def test_former_search_types_are_asked_by_their_successor() -> None:
    """INSIGHTS, which older guides name, is GRAPH_COMPLETION, once; `describe` says so and is not degraded."""
    async with Chaos(behaviour=Served(apart=False)) as server:
        backend = await cognee(server.url, search=["INSIGHTS", "TRIPLET_COMPLETION"], dataset="memory")
        await remembered(backend, ARROW)
        (hit,) = await backend.search(make_query("julien"))
        described = await backend.describe()
        await backend.close()
    assert hit.path == ("julien", "corrected_by", "bug gateway")
    assert "no longer has INSIGHTS, TRIPLET_COMPLETION; GRAPH_COMPLETION is asked instead" in described.notes[0]
    assert not described.degraded


@pytest.mark.feature("Cognee: replies in another version's shape are invalid, and reported")
async def test_a_server_of_another_version_is_named() -> None:
    """A search type that it does not know, an answer in another form: invalid, and the detail says what it said."""
    async with Chaos(behaviour=Served(apart=False)) as server:
        backend = await cognee(server.url, search=["SUMMARIES"], dataset="memory")
        with pytest.raises(InvalidAnswer, match=r"answered 400: it does not know such a search.*Input should be"):
            await backend.search(make_query("julien"))
        for reply in (b'[{"answer": 42}]', b'["An answer."]', b'{"results": []}', b'[{"search_result": {"a": 1}}]'):
            server.behaviour = chaos.body(reply)
            with pytest.raises(InvalidAnswer, match=r"known|no list of results"):
                await backend.search(make_query("julien"))
        await backend.close()


# Remembering and forgetting


async def test_what_it_keeps_of_an_event() -> None:
    """Text and event are visible in Cognee; storing the same again adds nothing."""
    served = Served(apart=False)
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, dataset="memory")
        (event_id,) = await remembered(backend, ARROW)
        await remembered(backend, ARROW)
        await backend.close()
    (kept,) = served.datasets["memory"].values()
    assert kept.text == f"{ARROW}\n\n[memory {event_id}]"
    assert (kept.name, kept.label, kept.metadata["fusion"]["event_id"]) == (event_id, event_id, event_id)
    assert sum(call.path == "/api/v1/cognify" for call in server.calls) == 1


async def test_what_it_accepts() -> None:
    """Only the configured kinds, for the bound owner; nothing private, because Cognee protects nothing."""
    backend = await cognee("http://127.0.0.1:9", dataset="memory", kinds=["fact"], bound={"user_id": "ada"})
    ada = Scope(user_id="ada")
    assert backend.features == Features(bound={"user_id": "ada"}, kinds=frozenset({"fact"}))
    assert backend.accepts(make_event(1, "x", ada, kind="fact"))
    assert not backend.accepts(make_event(1, "x", ada, kind="note"))
    assert not backend.accepts(make_event(1, "x", Scope(user_id="ben"), kind="fact"))
    assert not backend.accepts(make_event(1, "x", Scope(), kind="fact"))
    assert not backend.accepts(make_event(1, "x", replace(ada, tenant="red"), kind="fact"))
    assert not backend.accepts(make_event(1, "x", replace(ada, audience="private"), kind="fact"))
    await backend.close()
    reading = await cognee("http://127.0.0.1:9")
    assert reading.features.kinds == frozenset()
    assert not reading.accepts(make_event(1, "x", kind="fact"))
    await reading.close()


@pytest.mark.feature(
    "Cognee: remembers by add and cognify, finds a memory once its graph is built, and reports a failed build"
)
@pytest.mark.feature("cognee: a graph that was not built", part="faults/adapters")
async def test_a_graph_that_is_not_made_is_said() -> None:
    """Documents are kept, searches go on, and `describe` names the fix; what is remembered next fixes it."""
    served = Served(apart=False, broken=True)
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, dataset="memory")
        await backend.remember([Extracted(make_event(1, ARROW, kind="fact"))])
        with pytest.raises(HttpStatus, match="could not make its graph of 1 documents"):
            await backend.settle()
        assert list(await backend.search(make_query("julien"))) == []
        described = await backend.describe()
        assert (described.items, described.degraded) == (1, True)
        assert "Fix: see Cognee's log" in described.notes[0]
        served.broken = False
        await remembered(backend, ARROW, "marta -> prefers -> peppermint tea")
        assert not (await backend.describe()).degraded
        assert len(await backend.search(make_query("julien"))) == 2
        await backend.close()


@pytest.mark.feature("Cognee: forgets its own memories; those of others are hidden and stay")
async def test_what_is_not_ours_is_hidden_and_stays() -> None:
    """A chunk or a triplet that somebody else brought is left as it is; the gateway hides it."""
    served = Served(apart=False)
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, dataset="memory")
        (event_id,) = await remembered(backend, ARROW)
        assert await backend.forget("0189-unknown", ["julien --[corrected_by]--> bug gateway"]) == "hidden"
        assert await backend.forget(event_id, [event_id]) == "deleted"
        assert served.datasets["memory"] == {}
        await backend.close()


async def test_more_documents_than_one_page() -> None:
    """The memory to forget is found on any page."""
    served = Served(apart=False)
    held = {str(n): Document(str(n), f"name {n}", f"label {n}", "", None, built=True) for n in range(2 * PAGE + 1)}
    served.datasets["memory"] = held
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, dataset="memory")
        assert await backend.forget(f"label {2 * PAGE}", []) == "deleted"
        assert (len(held), str(2 * PAGE) in held) == (2 * PAGE, False)
        await backend.close()


# What it says of itself


@pytest.mark.feature("Cognee: unreachable, refused or without the dataset: each has its fix")
async def test_it_describes_itself_with_the_fix() -> None:
    """Documents of the searched datasets; down, without a credential, or somebody else's port."""
    served = Served(datasets={"notes": {}, "memory": {"1": Document("1", "n", "l", "t", None)}})
    os.environ["COGNEE_TEST_KEY"] = served.key
    try:
        async with Chaos(behaviour=served) as server:
            backend = await cognee(server.url, datasets=["memory"], api_key_env="COGNEE_TEST_KEY")
            assert await backend.describe() == Description(items=1)
            os.environ["COGNEE_TEST_KEY"] = "wrong"
            refused = await backend.describe()
            server.behaviour = chaos.body(b'{"title": "somebody"}')
            other = await backend.describe()
        down = await backend.describe()
        await backend.close()
    finally:
        del os.environ["COGNEE_TEST_KEY"]
    assert "does not accept the credential. Fix: give it user and password_env" in refused.notes[0]
    assert "not as Cognee does" in other.notes[0]
    assert "Fix: start it: docker compose -f compose/cognee.yaml up" in down.notes[0]
    assert refused.degraded
    assert other.degraded
    assert down.degraded


async def test_a_server_that_mixes_datasets_is_named() -> None:
    """Without access control Cognee searches all of them, whichever are named."""
    async with Chaos(behaviour=Served(apart=False)) as server:
        backend = await cognee(server.url, datasets=["memory"], dataset="memory")
        await remembered(backend, ARROW)
        await backend.search(make_query("julien"))
        (note,) = (await backend.describe()).notes
        await backend.close()
    assert "ENABLE_BACKEND_ACCESS_CONTROL=false" in note


@pytest.mark.parametrize(
    "options",
    [
        {"urls": "x"},
        {"url": "ftp://x"},
        {"search": ["HYBRID_COMPLETION"]},
        {"search": []},
        {"limit": 0},
        {"kinds": ["gossip"]},
        {"bound": {"project": "x"}},
        {"user": "ada@example.com"},
        {"password_env": "X"},
        {"user": "ada", "password_env": "X", "api_key_env": "Y"},
        {"api_key_env": "X", "api_key_file": "Y"},
        {"datasets": ["notes", "2f22c8bc-6c8c-5c5d-b996-4d1a13b36ea0"]},
        {"dataset": "memory", "datasets": ["2f22c8bc-6c8c-5c5d-b996-4d1a13b36ea0"]},
    ],
)
async def test_an_option_that_makes_no_sense_is_named(options: dict[str, object]) -> None:
    """At the start, not at the first question."""
    with pytest.raises(SettingsError, match=next(iter(options))):
        await Cognee.open(Opening("cognee", Path("unused"), options))


# Faults


@pytest.mark.feature("Cognee: each fault of a server has its own error")
@pytest.mark.feature("cognee: each status, by the search and by the doctor", part="faults/adapters")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (chaos.reset, InvalidAnswer),
        (chaos.reset_at_once, BackendUnreachable),
        (chaos.hang, BackendTimeout),
        (chaos.hang_after_headers, BackendTimeout),
        (chaos.trickle, BackendTimeout),
        (chaos.html, InvalidAnswer),
        (chaos.truncated, InvalidAnswer),
        (chaos.cut_short, InvalidAnswer),
        (chaos.flood, InvalidAnswer),
        (chaos.announced_flood, InvalidAnswer),
        (chaos.bomb(16), InvalidAnswer),
        (chaos.status(401), Unauthorized),
        (chaos.status(403), Unauthorized),
        (chaos.status(404), HttpStatus),
        (chaos.status(429), RateLimited),
        (chaos.status(500), HttpStatus),
        (chaos.status(503), HttpStatus),
        (chaos.status(302, Location="http://192.0.2.1/"), HttpStatus),
        (chaos.body(b"[" * 100_000), InvalidAnswer),
        (chaos.body(b"null"), InvalidAnswer),
    ],
)
async def test_each_fault_has_its_error(fault: chaos.Behaviour, error: type[BackendError]) -> None:
    """Named, within the deadline, and nothing is left running; the next question is answered as ever."""
    served = Served(apart=False)
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, dataset="memory")
        await remembered(backend, ARROW)
        server.behaviour = fault
        with pytest.raises(error):
            await backend.search(make_query("julien", deadline_s=0.3 if error is BackendTimeout else 30))
        assert not [task for task in asyncio.all_tasks() if "Cognee" in repr(task)]
        server.behaviour = served
        assert len(await backend.search(make_query("julien"))) == 2
        await backend.close()


async def test_scores_that_are_none_are_left_out() -> None:
    """NaN, texts and truth values are no distances; invalid UTF-8 is fixed."""
    odd = [{"id": str(n), "text": "tea", "score": score} for n, score in enumerate((True, "near", None, [1]))]
    async with Chaos(
        behaviour=chaos.body(json.dumps(odd).encode()[:-1] + b', {"id": "x", "text": "t\xffa"}]')
    ) as server:
        backend = await cognee(server.url, search=["CHUNKS"])
        hits = await backend.search(make_query("tea"))
        await backend.close()
    assert [hit.score for hit in hits] == [None] * 5
    assert hits[4].text == "t\ufffda"


@pytest.mark.feature("Cognee: sections of files are stored under their names; all that is found is private")
async def test_sections_of_files(tmp_path: Path) -> None:
    """Two of one text are two; one that is known is not stored again; deleting one leaves the other."""
    served = Served(apart=False)
    async with Chaos(behaviour=served) as server:
        backend = await cognee(server.url, dataset="memory", workspace=True)
        assert backend.takes_files
        assert list(await backend.sections("f-")) == []
        await backend.delete_sections(["f-1"])  # there is no dataset yet
        for _ in range(2):
            await backend.add_sections({"f-1": "The boat is red.", "f-2": "The boat is red."})
        await backend.settle()
        await remembered(backend, "The boat has a mast.")
        assert list(await backend.sections("f-")) == ["f-1", "f-2"]
        hits = await backend.search(replace(make_query("boat"), scope=Scope(audience="private")))
        assert sorted((hit.text, hit.scope.audience) for hit in hits) == [
            ("The boat has a mast.", "group"),
            ("The boat is red.", "private"),
            ("The boat is red.", "private"),
        ]
        await backend.delete_sections(["f-1", "unknown"])
        assert list(await backend.sections("f-")) == ["f-2"]
        await backend.close()


async def test_files_need_a_dataset() -> None:
    with pytest.raises(SettingsError, match="workspace = true needs dataset"):
        await cognee("http://127.0.0.1:1", workspace=True)
