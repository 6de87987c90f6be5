"""A client of the parts of Cognee's HTTP API that the backend uses: login, datasets, documents and graph building."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from adapters.http import Credential, HttpOptions
from adapters.http.exchange import Request
from fusion.errors import HttpStatus, InvalidAnswer, Unauthorized

PAGE = 1000
"""documents of a dataset that are listed at once: the maximum that Cognee gives"""


@dataclass(frozen=True, slots=True)
class Login:
    """The credentials for Cognee: an API key, or a user and a password; neither for a server without authentication."""

    key: Credential
    user: str
    password: Credential


class Api:
    """A client of one server. Failures raise the fitting `BackendError`; deadlines, in seconds, include logging in."""

    def __init__(self, options: HttpOptions, login: Login) -> None:
        self._login, self._token = login, ""
        self._http = options.http(self._headers)
        self._turn = asyncio.Lock()
        self.server = self._http.server

    def _headers(self) -> Mapping[str, str]:
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        return {"X-Api-Key": key} if (key := self._login.key.value()) else {}

    async def ask(self, request: Request, deadline_s: float) -> tuple[int, Any]:
        """See `Http.exchange`; logs in first, and once more if the token has expired."""
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline_s
        token = self._token
        if self._login.user and not token:
            await self._log_in(token, deadline_s)
            token = self._token
        try:
            return await self._http.exchange(request, _left(until, loop))
        except Unauthorized:
            if not self._login.user:
                raise
        await self._log_in(token, _left(until, loop))
        return await self._http.exchange(request, _left(until, loop))

    async def _log_in(self, stale: str, deadline_s: float) -> None:
        """Replace the token ``stale``; concurrent callers with the same stale token log in once."""
        async with self._turn:
            if self._token != stale:
                return
            self._token = ""
            form = urlencode({"username": self._login.user, "password": self._login.password.value()}).encode()
            # Without a user of that name and password it answers 400.
            login = Request("POST", "/api/v1/auth/login", form, "application/x-www-form-urlencoded", (400,))
            status, reply = await self._http.exchange(login, deadline_s)
            if status == 400:
                raise Unauthorized(f"{self.server}: it does not accept {self._login.user} with that password")
            token = reply.get("access_token") if isinstance(reply, dict) else None
            if not isinstance(token, str) or not token:
                raise InvalidAnswer(f"{self.server}: logging in gave no token; is it Cognee?")
            self._token = token

    async def version(self, deadline_s: float) -> str:
        """Its version, or "" if it gives none. Raises InvalidAnswer if it is not Cognee or not healthy."""
        _, health = await self._http.exchange(Request("GET", "/health", accept=(503,)), deadline_s)
        if not isinstance(health, dict) or not {"health", "status"} & set(health):
            raise InvalidAnswer(f"{self.server} answers, but not as Cognee does")
        if health.get("health", "healthy") not in ("healthy", "degraded"):
            raise InvalidAnswer(f"{self.server} says that it is {str(health['health'])[:40]}")
        return str(health.get("version", ""))[:40]

    async def datasets(self, deadline_s: float) -> dict[str, str]:
        """The readable datasets: id by name."""
        _, reply = await self.ask(Request("GET", "/api/v1/datasets"), deadline_s)
        try:
            return {str(one["name"]): str(one["id"]) for one in reply}
        except (KeyError, TypeError):
            raise InvalidAnswer(f"{self.server}: the list of datasets is none") from None

    async def count(self, dataset: str, deadline_s: float) -> int:
        """The number of documents in a dataset; 0 if the server cannot count them."""
        path = f"/api/v1/datasets/{quote(dataset, safe='')}/data/count"
        _, reply = await self.ask(Request("GET", path, accept=(404, 405)), deadline_s)
        count = reply.get("count") if isinstance(reply, dict) else None
        return count if isinstance(count, int) else 0

    async def documents(self, dataset: str, deadline_s: float) -> dict[str, set[str]]:
        """The documents of a dataset: id to label and name, of which an older server keeps the name alone."""
        found: dict[str, set[str]] = {}
        while True:
            page = urlencode({"limit": PAGE, "offset": len(found)})
            path = f"/api/v1/datasets/{quote(dataset, safe='')}/data?{page}"
            _, reply = await self.ask(Request("GET", path), deadline_s)
            before = len(found)
            try:
                found |= {str(one["id"]): {str(one.get("label")), str(one["name"])} for one in reply}
            except (AttributeError, KeyError, TypeError):
                raise InvalidAnswer(f"{self.server}: the list of documents is none") from None
            # An older server returns all of them regardless of the request.
            if len(reply) < PAGE or len(found) == before:
                return found

    async def add(self, dataset: str, named: Sequence[tuple[str, str, Mapping[str, Any]]], deadline_s: float) -> None:
        """Add documents: name, text and metadata of each. Existing ones stay unchanged."""
        fields = {
            "datasetName": dataset,
            "labels": orjson.dumps([name for name, _, _ in named]).decode(),
            "external_metadata": orjson.dumps([metadata for _, _, metadata in named]).decode(),
        }
        form, content_type = _multipart(fields, [(f"{name}.txt", text) for name, text, _ in named])
        _, reply = await self.ask(Request("POST", "/api/v1/add", form, content_type), deadline_s)
        if not isinstance(reply, dict) or not _done(reply):
            raise InvalidAnswer(f"{self.server}: it did not say that the documents were added")
        for one in reply.get("data_ingestion_info") or ():
            if not _done(one.get("run_info") if isinstance(one, dict) else None):
                raise HttpStatus(f"{self.server}: it could not add a document; its log says why", 500)

    async def delete(self, dataset: str, document: str, deadline_s: float) -> None:
        """Delete one document, and the parts of the graph that only it asserts."""
        path = f"/api/v1/datasets/{quote(dataset, safe='')}/data/{quote(document, safe='')}"
        await self.ask(Request("DELETE", path, accept=(404,)), deadline_s)

    async def build(self, dataset: str, deadline_s: float) -> None:
        """Start building the graph of the added documents, without waiting for it."""
        body = orjson.dumps({"datasets": [dataset], "runInBackground": True})
        await self.ask(Request("POST", "/api/v1/cognify", body), deadline_s)

    async def building(self, dataset: str, deadline_s: float) -> tuple[str, int | None]:
        """The state of its last graph build ("", STARTED, COMPLETED, ERRORED), and the number of waiting documents.

        The number is None for an older server, which does not count them.
        """
        path = f"/api/v1/datasets/status?{urlencode({'dataset': dataset})}"
        _, reply = await self.ask(Request("GET", path), deadline_s)
        state = reply.get(dataset) if isinstance(reply, dict) else None
        path = f"/api/v1/datasets/{quote(dataset, safe='')}/processing-status"
        status, reply = await self.ask(Request("GET", path, accept=(404, 405)), deadline_s)
        pending = reply.get("pending") if status == 200 and isinstance(reply, dict) else None
        last = state.rpartition("_")[2] if isinstance(state, str) else ""
        return last, pending if isinstance(pending, int) else None

    async def close(self) -> None:
        await self._http.close()


def _left(until: float, loop: asyncio.AbstractEventLoop) -> float:
    """The remaining seconds, above 0, because aiohttp reads 0 as no limit."""
    return max(0.001, until - loop.time())


def _done(run: object) -> bool:
    return isinstance(run, dict) and run.get("status") in ("PipelineRunCompleted", "PipelineRunAlreadyCompleted")


def _multipart(fields: Mapping[str, str], files: Sequence[tuple[str, str]]) -> tuple[bytes, str]:
    """A form with text files under ``data``, and its content type (RFC 7578)."""
    boundary = token_hex(16)
    parts = [f'form-data; name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
    parts += [
        f'form-data; name="data"; filename="{name}"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}'
        for name, text in files
    ]
    body = "".join(f"--{boundary}\r\nContent-Disposition: {part}\r\n" for part in parts)
    return f"{body}--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
