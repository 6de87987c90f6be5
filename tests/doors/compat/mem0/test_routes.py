"""mem0's routes over the fused memory: what its server and its package's client find there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import ROLES, Scope
from fusion.doors.http.mem0 import REFUSED
from fusion.doors.http.serve import own_ports
from fusion.ingest.intake import NewMemory
from tests.doors.compat.mem0.port import PORT, Port, open_port
from tests.doors.compat.openclaw_mem.client import key_of, keyed

TEA = "Ada prefers green tea in the morning."
QUESTION = "What does Ada drink?"
NO_NAME = "/v2/entities/user/%20/"
OWNERS = {"user_id": "ada", "agent_id": None, "run_id": None}


@pytest.fixture
async def port(home: Path) -> AsyncIterator[Port]:
    async with open_port(keyed(home, asks_all="operator")) as opened:
        yield opened


async def test_a_memory_is_added_and_found_by_the_routes_of_its_server(port: Port) -> None:
    id_ = await port.added(TEA, metadata={"topic": "drinks"})
    for path in ("/search", "/v3/memories/search/"):
        body = {"query": QUESTION, "filters": {"user_id": "ada"}, "top_k": 5}
        (found,) = (await port.result("POST", path, body))["results"]
        assert (found["id"], found["memory"], found["metadata"]) == (id_, TEA, {"topic": "drinks"})
        assert {name: found[name] for name in OWNERS} == OWNERS
        assert 0 < found["score"] <= 1
        assert found["backends"] == ["one"]
    got = await port.result("GET", f"/memories/{id_}")
    assert (got["memory"], got["user_id"]) == (TEA, "ada")
    assert got["created_at"] == got["updated_at"]


async def test_messages_are_turns_without_instructions_and_notes_if_nothing_is_to_be_inferred(port: Port) -> None:
    said = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": TEA},
        {"role": "assistant", "content": [{"type": "text", "text": "Noted: green tea."}]},
    ]
    made = await port.result("POST", "/v3/memories/add/", {"messages": said, "filters": {"user_id": "ada"}})
    assert [(one["memory"], one["event"]) for one in made["results"]] == [(TEA, "ADD"), ("Noted: green tea.", "ADD")]
    kept = [await port.gateway.memory(one["id"], Scope(audience="private")) for one in made["results"]]
    assert [(one["kind"], one["speaker"], one["origin"]) for one in kept] == [
        ("turn", "user", "owner"),
        ("turn", "assistant", "agent"),
    ]
    again = await port.result("POST", "/memories", {"messages": TEA, "user_id": "ada", "infer": False})
    assert [one["event"] for one in again["results"]] in (["NONE"], ["ADD"])


@pytest.mark.feature("a memory keeps its id for mem0's clients when it is updated, and has its history")
async def test_an_update_keeps_the_id_and_shows_in_the_history(port: Port) -> None:
    id_ = await port.added(TEA)
    updated = await port.result("PUT", f"/v1/memories/{id_}/", {"text": "Ada prefers coffee."})
    assert (updated["id"], updated["memory"]) == (id_, "Ada prefers coffee.")
    await port.result("PUT", f"/memories/{id_}", {"text": "Ada prefers cocoa."})
    await port.gateway.settle()
    got = await port.result("GET", f"/v1/memories/{id_}/")
    assert (got["id"], got["memory"]) == (id_, "Ada prefers cocoa.")
    (listed,) = (await port.result("GET", "/memories", user_id="ada"))["results"]
    assert (listed["id"], listed["memory"]) == (id_, "Ada prefers cocoa.")
    (found,) = (await port.result("POST", "/search", {"query": "Ada prefers", "user_id": "ada"}))["results"]
    assert (found["id"], found["memory"]) == (id_, "Ada prefers cocoa.")
    changes = await port.result("GET", f"/memories/{id_}/history")
    assert [(one["event"], one["old_memory"], one["new_memory"]) for one in changes] == [
        ("ADD", None, TEA),
        ("UPDATE", TEA, "Ada prefers coffee."),
        ("UPDATE", "Ada prefers coffee.", "Ada prefers cocoa."),
    ]
    assert {one["memory_id"] for one in changes} == {id_}
    await port.result("DELETE", f"/memories/{id_}")
    for path in (f"/memories/{id_}", f"/memories/{id_}/history"):
        assert (await port.send("GET", path)).status_code == 404
    assert (await port.result("GET", "/memories", user_id="ada"))["results"] == []


async def test_lists_are_paged_and_filtered(port: Port) -> None:
    for number in range(3):
        await port.added(f"Ada has {number + 2} boats.", metadata={"number": number})
    await port.added("Bob has a kite.", user_id="bob")
    first = await port.result("POST", "/v3/memories/", {"filters": {"user_id": "ada"}}, page=1, page_size=2)
    assert (first["count"], len(first["results"]), first["previous"]) == (3, 2, None)
    second = await port.result("POST", first["next"], {"filters": {"user_id": "ada"}})
    assert (second["count"], len(second["results"]), second["next"]) == (3, 1, None)
    by_and = {"filters": {"AND": [{"user_id": "ada"}, {"metadata": {"number": 1}}]}}
    assert [one["memory"] for one in (await port.result("POST", "/v2/memories/", by_and))["results"]] == [
        "Ada has 3 boats."
    ]
    found = await port.result("POST", "/v2/memories/search/", {"query": "boats", **by_and})
    assert [one["memory"] for one in found["results"]] == ["Ada has 3 boats."]


async def test_what_names_no_owner_needs_a_key_for_all_users(port: Port) -> None:
    """A writer reads and deletes the memories of an owner that it names, and learns of no other."""
    await port.added(TEA)
    await port.added("Bob has a kite.", user_id="bob")
    everybody: list[tuple[str, str, Any]] = [
        ("GET", "/memories", None),
        ("GET", "/memories?user_id=*", None),
        ("GET", "/v1/memories/?user_id=*&agent_id=bot", None),
        ("POST", "/v2/memories/", {"filters": {"user_id": "*"}}),
        ("POST", "/v3/memories/", {"filters": {"metadata": {"topic": "drinks"}}}),
        ("GET", "/v1/entities/", None),
    ]
    for method, path, body in everybody:
        refused = await port.send(method, path, body)
        assert (refused.status_code, "all_users needs" in refused.json()["detail"]) == (422, True), path
        assert (await port.send(method, path, body, role="operator")).status_code == 200
    assert (await port.result("GET", "/memories", user_id="*", role="operator"))["count"] == 2
    for role in ROLES:
        assert (await port.send("DELETE", "/v2/entities/user/*/", role=role)).status_code in (403, 422)
    assert (await port.result("GET", "/memories", user_id="bob"))["count"] == 1


async def test_delete_all_forgets_one_owner_and_nobody_else(port: Port) -> None:
    await port.added(TEA)
    await port.added("Ada asked the butler for tea.", agent_id="butler")
    bob = await port.added("Bob prefers tea.", user_id="bob")
    for given in ({}, {"user_id": "*"}):
        refused = await port.send("DELETE", "/v1/memories/", **given)
        assert refused.status_code == 422
        assert "Say whose memories" in refused.json()["detail"]
    await port.result("DELETE", "/v1/memories/", user_id="ada", agent_id="butler")
    assert [one["memory"] for one in (await port.result("GET", "/memories", user_id="ada"))["results"]] == [TEA]
    await port.result("DELETE", "/memories", user_id="ada")
    assert (await port.result("GET", "/memories", user_id="ada"))["results"] == []
    assert (await port.result("GET", f"/memories/{bob}"))["memory"] == "Bob prefers tea."


async def test_an_owner_without_a_name_is_refused(port: Port) -> None:
    """An empty owner is a variable that was never set, and not the memories without a user."""
    [nobodys] = await port.gateway.remember([NewMemory("The office opens at nine.")])
    for path in ("/memories?user_id=", "/memories?user_id=%20", "/v1/memories/?user_id=ada&agent_id=", NO_NAME):
        refused = await port.send("DELETE", path)
        assert (refused.status_code, "is empty" in refused.json()["detail"]) == (422, True), path
    for body in ({"user_id": ""}, {"filters": {"AND": [{"user_id": " "}]}}):
        assert (await port.send("POST", "/v2/memories/", body)).status_code == 422
    assert (await port.result("GET", f"/memories/{nobodys.ref}"))["memory"] == "The office opens at nine."


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", "/reset", {}, "not reset by one request"),
        ("POST", "/configure", {"version": "v1.1"}, "fusion.toml"),
    ],
)
async def test_a_home_is_neither_reset_nor_configured(port: Port, method: str, path: str, body: Any, says: str) -> None:
    reply = await port.send(method, path, body, role="operator")
    assert reply.status_code == 403
    assert says in reply.json()["detail"]


WRONG: list[tuple[str, str, Any, str]] = [
    ("POST", "/memories", {"messages": [{"role": "user", "content": TEA}]}, "whose memory"),
    ("POST", "/memories", {"messages": TEA, "user_id": "*"}, "one owner"),
    ("POST", "/memories", {"messages": [], "user_id": "ada"}, "nothing to add"),
    ("POST", "/memories", {"messages": [7], "user_id": "ada"}, "each is a text"),
    ("POST", "/memories", {"messages": [{"content": [{"type": "image_url"}]}], "user_id": "ada"}, "no text"),
    ("POST", "/memories", {"messages": TEA, "user_id": "ada", "metadata": []}, "metadata must be an object"),
    ("POST", "/memories", {"messages": TEA, "user_id": "ada", "timestamp": 1e300}, "timestamp must be a time"),
    ("POST", "/memories", {"messages": TEA, "user_id": "ada", "filters": {"user_id": "bob"}}, "given twice"),
    ("POST", "/search", {"filters": {"user_id": "ada"}}, "query is missing"),
    ("POST", "/search", {"query": "tea", "user_id": "ada", "threshold": 7}, "threshold"),
    ("POST", "/search", {"query": "tea", "user_id": "ada", "top_k": 0}, "top_k"),
    ("POST", "/search", {"query": "tea", "filters": {"OR": [{"user_id": "ada"}]}}, "OR is no filter"),
    ("POST", "/search", {"query": "tea", "filters": {"AND": {"user_id": "ada"}}}, "AND must have a list"),
    ("POST", "/search", {"query": "tea", "filters": {"AND": [{"AND": [{"AND": []}]}]}}, "no AND in it"),
    ("POST", "/search", {"query": "tea", "filters": {"created_at": {"gte": "2026"}}}, "no equal here"),
    ("POST", "/search", {"query": "tea", "filters": {"app_id": "x"}}, "app_id"),
    ("POST", "/search", {"query": "tea", "filters": []}, "filters must be an object"),
    ("POST", "/v3/memories/", {"page": "x"}, "page must be a whole number"),
    ("PUT", "/memories/m1", {}, "what to change"),
    ("PUT", "/memories/m1", {"metadata": {"a": 1}}, "cannot be changed here"),
    ("PUT", "/memories/m1", [1], "must be a JSON object"),
]


@pytest.mark.parametrize(("method", "path", "body", "says"), WRONG)
async def test_a_wrong_request_is_refused_with_the_fix(
    port: Port, method: str, path: str, body: Any, says: str
) -> None:
    reply = await port.send(method, path, body)
    assert reply.status_code == 422, reply.text
    assert reply.headers["content-type"].startswith("application/json")
    assert says in reply.json()["detail"]


async def test_a_request_without_a_key_is_refused_and_the_server_s_own_header_is_a_key(port: Port) -> None:
    refused = await port.http.get("/v1/ping/")
    assert (refused.status_code, "token" in refused.json()["detail"]) == (401, True)
    good = await port.http.get("/v1/ping/", headers={"X-API-Key": key_of("reader")})
    assert good.json()["status"] == "ok"


async def test_a_reader_adds_and_deletes_nothing(port: Port) -> None:
    id_ = await port.added(TEA)
    body = {"messages": "x", "user_id": "ada"}
    for method, path, sent in (
        ("POST", "/memories", body),
        ("PUT", f"/memories/{id_}", {"text": "y"}),
        ("DELETE", f"/memories/{id_}", None),
        ("DELETE", "/memories?user_id=ada", None),
    ):
        reply = await port.send(method, path, sent, role="reader")
        assert reply.status_code == 403, (method, path)
        assert "needs the role writer" in reply.json()["detail"]
    assert (await port.send("GET", f"/memories/{id_}", role="reader")).status_code == 200


async def test_what_is_quarantined_is_in_no_reply(port: Port) -> None:
    id_ = await port.added(TEA)
    await port.gateway.settle()
    state = {"ref": id_, "trust": "quarantined", "why": "a stranger's"}
    done = await port.http.post(
        "http://127.0.0.1:8765/v1/state", json=state, headers={"Authorization": f"Bearer {key_of('operator')}"}
    )
    assert done.status_code == 200
    assert (await port.send("GET", f"/memories/{id_}")).status_code == 404
    assert (await port.result("GET", "/memories", user_id="ada"))["count"] == 0
    assert (await port.result("POST", "/search", {"query": QUESTION, "user_id": "ada"}))["results"] == []
    assert TEA not in (await port.send("GET", f"/memories/{id_}/history")).text


def test_it_has_a_port_of_its_own_if_asked(home: Path) -> None:
    assert [*own_ports(keyed(home, mem0={"port": PORT}))] == [("mem0.port", PORT, "/mem0")]


@pytest.mark.feature("mem0's clients update and delete several memories at once, all or none")
async def test_a_batch_changes_all_or_none(port: Port) -> None:
    """An id that is unknown or there twice, or a change that is refused, leaves every memory as it was."""
    ids = [await port.added(TEA), await port.added("Ada has a boat.")]
    for wrong, status in (
        ([{"memory_id": ids[0], "text": "No."}, {"memory_id": "mzzzzzz", "text": "No."}], 404),
        ([{"memory_id": ids[0], "text": "No."}, {"memory_id": ids[1], "metadata": {"a": 1}}], 422),
        ([{"memory_id": ids[0], "text": "No."}] * 2, 422),
        ([{"memory_id": ids[0], "text": "No."}, {"memory_id": ids[1]}], 422),
        ([{"memory_id": ids[0], "text": "No."}, {"memory_id": ids[1], "expiration_date": "soon"}], 422),
        ([{"text": "No."}], 422),
        (["No."], 422),
        ([], 422),
    ):
        reply = await port.send("PUT", "/v1/batch/", {"memories": wrong})
        assert reply.status_code == status, reply.text
    reply = await port.send("DELETE", "/v1/batch/", {"memories": [{"memory_id": ids[0]}, {"memory_id": "mzzzzzz"}]})
    assert reply.status_code == 404
    assert [(await port.result("GET", f"/memories/{id_}"))["memory"] for id_ in ids] == [TEA, "Ada has a boat."]
    changes = [{"memory_id": id_, "text": f"New {number}."} for number, id_ in enumerate(ids)]
    await port.result("PUT", "/v1/batch/", {"memories": changes})
    assert [(await port.result("GET", f"/memories/{id_}"))["memory"] for id_ in ids] == ["New 0.", "New 1."]
    await port.result("DELETE", "/v1/batch/", {"memories": [{"memory_id": id_} for id_ in ids]})
    assert (await port.result("GET", "/memories", user_id="ada"))["count"] == 0


async def test_a_batch_that_is_refused_at_its_end_is_taken_back(port: Port) -> None:
    """The last memory is one that its owner alone may change. What was taken back can be said again."""
    tea, boat = await port.added(TEA), await port.added("Ada has a boat.")
    [trusted] = await port.gateway.remember([NewMemory("Ada is the owner.", trust="trusted")])
    changes = [{"memory_id": tea, "text": "Ada prefers cocoa."}, {"memory_id": boat, "text": "Ada has a barn."}]
    last = {"memory_id": trusted.ref, "text": "Bob is the owner."}
    refused = await port.send("PUT", "/v1/batch/", {"memories": [*changes, last]})
    assert (refused.status_code, "is trusted" in refused.json()["detail"]) == (422, True)
    assert [(await port.result("GET", f"/memories/{id_}"))["memory"] for id_ in (tea, boat)] == [TEA, "Ada has a boat."]
    assert [one["event"] for one in await port.result("GET", f"/memories/{tea}/history")] == ["ADD"]
    await port.result("PUT", "/v1/batch/", {"memories": changes})
    assert (await port.result("GET", f"/memories/{tea}"))["memory"] == "Ada prefers cocoa."


async def test_a_batch_has_no_memory_by_two_of_its_ids(port: Port) -> None:
    first = await port.added(TEA)
    await port.result("PUT", f"/memories/{first}", {"text": "Ada prefers coffee."})
    listed = await port.gateway.memories(Scope(audience="private", user_id="ada"))
    newest = listed["memories"][0]["ref"]
    assert newest != first
    twice = [{"memory_id": id_, "text": f"Ada prefers {id_}."} for id_ in (first, newest)]
    refused = await port.send("PUT", "/v1/batch/", {"memories": twice})
    assert (refused.status_code, "two of its ids" in refused.json()["detail"]) == (422, True)
    assert (await port.result("GET", f"/memories/{first}"))["memory"] == "Ada prefers coffee."


@pytest.mark.feature("mem0's clients list the users, agents and runs that have memories, and delete what one has")
async def test_entities_are_the_owners_of_memories(port: Port) -> None:
    await port.added(TEA, agent_id="bot")
    await port.added("Ada has a boat.")
    await port.added("Bob has a kite.", user_id="bob", run_id="r1")
    found = (await port.result("GET", "/v1/entities/", role="operator"))["results"]
    assert {(one["type"], one["name"], one["total_memories"]) for one in found} == {
        ("user", "ada", 2),
        ("user", "bob", 1),
        ("agent", "bot", 1),
        ("run", "r1", 1),
    }
    assert all(one["created_at"] <= one["updated_at"] for one in found)
    for path, status in (("user/nobody", 404), ("app/x", 422)):
        assert (await port.send("DELETE", f"/v2/entities/{path}/")).status_code == status
    await port.result("DELETE", "/v2/entities/agent/bot/")
    assert [one["memory"] for one in (await port.result("GET", "/memories", user_id="ada"))["results"]] == [
        "Ada has a boat."
    ]


@pytest.mark.feature("mem0's clients say whether a memory was useful, which is feedback on the last answer with it")
async def test_feedback_is_kept_with_the_last_answer(port: Port) -> None:
    """Each verdict changes the vote on its memory alone; one on a memory of no answer is refused."""
    tea, black = await port.added(TEA), await port.added("Ada prefers black tea in the evening.")
    verdict = {"memory_id": tea, "feedback": "POSITIVE", "feedback_reason": "It was right."}
    assert (await port.send("POST", "/v1/feedback/", verdict)).status_code == 422
    found = await port.result("POST", "/search", {"query": "Which tea does Ada prefer?", "user_id": "ada"})
    assert {one["id"] for one in found["results"]} == {tea, black}
    await port.gateway.settle()
    await port.result("POST", "/v1/feedback/", verdict)
    await port.result("POST", "/v1/feedback/", {"memory_id": black, "feedback": "VERY_NEGATIVE"})
    votes = {label["ref"]: label["useful"] for label in (await port.gateway.labels("default"))["labels"]}
    assert votes == {tea: True, black: False}
    assert (await port.send("POST", "/v1/feedback/", {"memory_id": tea, "feedback": None})).status_code == 422
    assert (await port.send("POST", "/v1/feedback/", {**verdict, "memory_id": "mzzzzzz"})).status_code == 404


async def test_other_calls_are_refused_with_another_way(port: Port) -> None:
    for (method, path), reason in REFUSED.items():
        reply = await port.send(method, path.replace("{id}", "home").replace("{org}", "memory-fusion"), {})
        assert (reply.status_code, reply.json()["detail"]) == (403, reason)
