"""Serves the files of the page. They hold no memories, so they need no key."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

INSPECTOR = "/inspector"
"""the path of the page"""
PAGE = "index.html"
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
"""by the end of a file's name; a file with another end is not served"""
POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self'; "
    "connect-src 'self'; "
    "worker-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types fusion-worker"
)
"""the Content-Security-Policy of the page: only its own files run, and nothing that a memory says can load or run"""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page as it is sent."""

    media_type: str
    body: bytes
    compressed: bytes
    etag: str


def is_page(path: str) -> bool:
    """Whether a path belongs to the page, or is that of the server itself, which leads to it."""
    return path in ("/", INSPECTOR) or path.startswith(f"{INSPECTOR}/")


async def page_endpoint(request: Request) -> Response:
    """One file of the page; with the tag of the file that the browser has, the reply is 304."""
    file = page_files().get(request.path_params.get("file", PAGE))
    if file is None:
        return Response("The inspector has no such file.\n", 404, media_type="text/plain")
    headers = {
        "content-security-policy": POLICY,
        "cache-control": "no-cache",
        "etag": file.etag,
        "vary": "accept-encoding",
        "cross-origin-opener-policy": "same-origin",
    }
    if request.headers.get("if-none-match") == file.etag:
        return Response(None, 304, headers)
    body = file.body
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["content-encoding"] = file.compressed, "gzip"
    return Response(body, 200, headers, file.media_type)


async def front_endpoint(request: Request) -> Response:
    """`GET /`: a browser is sent to the page, with a slash at the end, so that its relative addresses hold."""
    del request
    return RedirectResponse(f"{INSPECTOR}/", 303)


@cache
def page_files() -> Mapping[str, PageFile]:
    """The files of the page by their path below it. "" is the page itself."""
    found = {name: _read(file) for name, file in _walk(files("fusion.doors.inspector").joinpath("static"), "")}
    return {**found, "": found[PAGE]}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in MEDIA_TYPES:
            found.append((prefix + entry.name, entry))
    return found


def _read(file: Traversable) -> PageFile:
    body = file.read_bytes()
    compressed = gzip.compress(body, 9, mtime=0)
    return PageFile(MEDIA_TYPES[file.name.rpartition(".")[2]], body, compressed, f'"{sha256(body).hexdigest()[:16]}"')
