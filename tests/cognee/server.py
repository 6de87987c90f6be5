"""A loopback server that behaves as Cognee's: its routes, credentials, two shapes of replies, and its lateness.

What is added waits until ``cognify``; its "model" reads arrows (``A -> relation -> B``) as triplets, as the real one
does that `start.py` runs. Shapes are those of 1.6.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import NAMESPACE_OID, uuid5

from adapters.inmemory import InMemory
from fusion.contract import Event, Extracted, Query, Scope
from fusion.lib.bm25 import terms
from tests.backend_contract import NOW
from tests.chaos import Call

ARROW = re.compile(r"^\s*(.+?) -> (.+?) -> (.+?)\s*$", re.MULTILINE)
PROMPT = (
    "The question is: `{question}`\nand here is the context provided with a set of relationships from a knowledge "
    "graph separated by \\n---\\n each represented as node1 -- relation -- node2 triplet: `{context}`"
)


@dataclass
class Document:
    id: str
    name: str
    label: str
    text: str
    metadata: Any
    built: bool = False


@dataclass
class Served:
    """The state of a server. ``apart``: it keeps datasets apart, and then wants to know who asks."""

    apart: bool = True
    user: str = "ada@example.com"
    password: str = "secret"
    key: str = "key-of-ada"
    tokens: set[str] = field(default_factory=set)
    logins: int = 0
    datasets: dict[str, dict[str, Document]] = field(default_factory=dict)
    broken: bool = False
    """its model fails: nothing that is added is ever built"""

    async def __call__(self, call: Call) -> None:
        status, reply = await self.answer(call)
        await call.reply(json.dumps(reply).encode(), status)

    async def answer(self, call: Call) -> tuple[int, Any]:
        address = urlsplit(call.path)
        route, query = (call.method, address.path.removeprefix("/api/v1")), parse_qs(address.query)
        if route == ("GET", "/health"):
            return 200, {"status": "ready", "health": "healthy", "version": "1.6.5"}
        if route == ("POST", "/auth/login"):
            return self.login(parse_qs(call.body.decode()))
        bearer = call.headers.get("authorization", "").removeprefix("Bearer ")
        if self.apart and bearer not in self.tokens and call.headers.get("x-api-key") != self.key:
            return 401, {"detail": "Authentication required (auth posture: default (no env vars set))."}
        match route:
            case ("GET", "/datasets"):
                return 200, [{"id": identity(name), "name": name} for name in self.datasets]
            case ("GET", "/datasets/status"):
                states = "DATASET_PROCESSING_" + ("ERRORED" if self.broken else "COMPLETED")
                return 200, {identity(name): states for name in self.datasets if identity(name) in query["dataset"]}
            case ("POST", "/add"):
                return self.add(call)
            case ("POST", "/cognify"):
                for name in call.json["datasets"]:
                    for document in self.datasets[name].values():
                        document.built = not self.broken
                return 200, {identity(name): {"status": "PipelineRunStarted"} for name in call.json["datasets"]}
            case ("POST", "/search"):
                return await self.search(call.json)
            case (method, path):
                return self.documents(method, path, query)

    def login(self, form: dict[str, list[str]]) -> tuple[int, Any]:
        if (form.get("username"), form.get("password")) != ([self.user], [self.password]):
            return 400, {"detail": "LOGIN_BAD_CREDENTIALS"}
        self.logins += 1
        token = f"token-{self.logins}"
        self.tokens = {token}
        return 200, {"access_token": token, "token_type": "bearer"}

    def documents(self, method: str, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        _, _, dataset, *rest = path.split("/")
        held = next((held for name, held in self.datasets.items() if identity(name) == dataset), None)
        if held is None:
            return 404, {"detail": "Not Found"}
        match method, rest:
            case "GET", ["data"]:
                first, most = int(query["offset"][0]), int(query["limit"][0])
                listed = list(held.values())[first : first + most]
                return 200, [{"id": one.id, "name": one.name, "label": one.label} for one in listed]
            case "GET", ["data", "count"]:
                return 200, {"count": len(held)}
            case "GET", ["processing-status"]:
                pending = sum(not one.built for one in held.values())
                return 200, {"total": len(held), "completed": len(held) - pending, "pending": pending, "items": []}
            case "DELETE", ["data", document]:
                held.pop(document, None)
                return 200, None
        return 404, {"detail": "Not Found"}

    def add(self, call: Call) -> tuple[int, Any]:
        fields, files = form(call)
        held = self.datasets.setdefault(fields["datasetName"], {})
        labels, metadata = json.loads(fields["labels"]), json.loads(fields["external_metadata"])
        done: list[dict[str, Any]] = []
        for (name, text), label, about in zip(files, labels, metadata, strict=True):
            # One content is one document, whatever it is called.
            data_id = next((one.id for one in held.values() if one.text == text), identity(f"{len(held)} {text}"))
            held.setdefault(data_id, Document(data_id, name.removesuffix(".txt"), label, text, about))
            done.append({"run_info": {"status": "PipelineRunCompleted"}, "data_id": data_id})
        return 200, {"status": "PipelineRunCompleted", "data_ingestion_info": done}

    async def search(self, asked: dict[str, Any]) -> tuple[int, Any]:
        names = asked.get("datasets", list(self.datasets))
        if missing := [name for name in names if name not in self.datasets]:
            listed = ", ".join(f"'{name}'" for name in missing)
            return 404, {"detail": f"Dataset(s) not found: {listed}. Dataset names resolve… [DatasetNotFoundError]"}
        kinds = ("CHUNKS", "CHUNKS_LEXICAL", "GRAPH_COMPLETION")
        if asked["searchType"] not in kinds:
            return 400, {"detail": [{"type": "enum", "msg": f"Input should be {kinds}"}], "body": asked}
        if not any(one.built for name in names for one in self.datasets[name].values()):
            return 404, {"detail": "The knowledge graph is empty. [NoDataError]"}
        graph = asked["searchType"] == "GRAPH_COMPLETION"
        found = [(name, await (self.prompt if graph else self.chunks)(name, asked)) for name in names]
        if self.apart:
            return 200, [{"dataset_id": identity(n), "dataset_name": n, "search_result": one} for n, one in found]
        return 200, [one for _, one in found] if graph else [chunk for _, chunks in found for chunk in chunks]

    async def chunks(self, name: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
        store = InMemory()
        built = {one.id: one for one in self.datasets[name].values() if one.built}
        await store.remember([Extracted(Event(one.id, one.text, NOW)) for one in built.values()])
        hits = await store.search(Query(asked["query"], Scope(), NOW, asked["topK"]))
        return [
            {
                "id": identity(f"chunk of {hit.native_id}"),
                "type": "IndexSchema",
                "text": hit.text,
                "document_id": hit.native_id,
                "document_name": built[hit.native_id].name,
                "chunk_index": 0,
                "external_metadata": json.dumps(built[hit.native_id].metadata),
                "score": 1 - 1 / (1 + rank),
            }
            for rank, hit in enumerate(hits)
        ]

    async def prompt(self, name: str, asked: dict[str, Any]) -> str:
        arrows = [arrow for one in self.datasets[name].values() if one.built for arrow in ARROW.findall(one.text)]
        words = set(terms(asked["query"]))
        wanted = [arrow for arrow in arrows if words & set(terms(" ".join(arrow)))][: asked["topK"]]
        return prompt(asked["query"], wanted) if wanted else ""


def prompt(question: str, arrows: Sequence[tuple[str, str, str]]) -> str:
    names = dict.fromkeys(name for subject, _, object_ in arrows for name in (subject, object_))
    nodes = "\n".join(f"Node: {name}\n__node_content_start__\n{name}\n__node_content_end__\n" for name in names)
    lines = "\n".join(f"{a} --[{r}]--> {b}  ({a} {r.replace('_', ' ')} {b}.)" for a, r, b in arrows)
    return PROMPT.format(question=question, context=f"Nodes:\n{nodes}\n\nConnections:\n{lines}")


def identity(name: str) -> str:
    return str(uuid5(NAMESPACE_OID, name))


def form(call: Call) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The fields and the files of a multipart form."""
    head = f"Content-Type: {call.headers['content-type']}\r\n\r\n".encode()
    fields: dict[str, str] = {}
    files: list[tuple[str, str]] = []
    for part in BytesParser(policy=HTTP).parsebytes(head + call.body).iter_parts():
        text = part.get_payload(decode=True).decode()
        if (name := part.get_filename()) is not None:
            files.append((name, text))
        else:
            fields[str(part.get_param("name", header="content-disposition"))] = text
    return fields, files
