"""Write the types of the TypeScript client, integrations/typescript/api.d.ts, from the server's OpenAPI document.

    python -m tests.typescript                   # writes the file
    python -m tests.typescript --check           # says whether it is as it would be written
    python -m tests.typescript --declarations    # also writes the types of the client's own modules, by tsc from npm

Each schema of the document becomes a type, and each route an entry of ``Routes``: the values of its path, its query,
its body and its reply. Routes that reply with lines of JSON alone (`/v1/export`) are left out.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fusion.doors.http.openapi import JSON, document

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "integrations" / "typescript"
FILE = FOLDER / "api.d.ts"
BY_HAND = ("api.d.ts", "types.d.ts")
"""the declarations that tsc reads; it writes the others from the comments of the modules"""
LOCK = ROOT / "tests" / "hosts" / "typescript"
"""the compiler and the runtimes, by version and hash"""
TOOLS = ROOT / ".cache" / "typescript"
HEAD = "// The types of memory-fusion's HTTP API. Written by `python -m tests.typescript`: do not edit.\n"
WIDTH = 120
INDENT = "  "

Schema = Mapping[str, Any]
_PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_ANNOTATIONS = frozenset({"title", "description", "default", "examples"})
"""keywords that say nothing about the type"""
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")


def page(openapi: Mapping[str, Any]) -> str:
    """The whole file for an OpenAPI document."""
    schemas = openapi["components"]["schemas"]
    types = [_declaration(type_name(name), schemas[name]) for name in sorted(schemas)]
    routes = [
        entry
        for path, item in openapi["paths"].items()
        for method, operation in item.items()
        if (entry := _route(f"{method.upper()} {path}", operation))
    ]
    comment = "/** What each route takes and replies, by method and path. */\n"
    return "\n".join([HEAD, *types, f"{comment}export interface Routes {{\n{''.join(routes)}}}\n"])


def type_name(name: str) -> str:
    """The name of a schema as an identifier: Moment-Input → MomentInput."""
    return re.sub(r"\W", "", name)


def type_of(schema: Schema | bool, indent: str = "") -> str:
    """The TypeScript type of a JSON schema; ``indent`` is that of the line on which it begins."""
    if isinstance(schema, bool) or schema.keys() <= _ANNOTATIONS:
        return "unknown"
    if "$ref" in schema:
        return type_name(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return _union(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _union(type_of(one, indent) for one in schema[several])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union(type_of({**schema, "type": one}, indent) for one in kind)
    if kind == "array":
        items = type_of(schema.get("items", True), indent)
        return f"({items})[]" if " | " in items and not items.startswith("{") else f"{items}[]"
    if kind == "object":
        return _object(schema, indent)
    if kind not in _PRIMITIVES:
        raise ValueError(f"a schema that this cannot write as a type: {schema}")
    return _PRIMITIVES[kind]


def _union(types: Iterator[str]) -> str:
    """A union without repeats, in the order in which they come."""
    return " | ".join(dict.fromkeys(types))


def _object(schema: Schema, indent: str) -> str:
    if "properties" in schema:
        return f"{{\n{_members(schema, indent + INDENT)}{indent}}}"
    values = schema.get("additionalProperties", True)
    return f"Record<string, {type_of(values, indent)}>" if values is not False else "Record<string, never>"


def _members(schema: Schema, indent: str) -> str:
    required = schema.get("required", ())
    return "".join(
        f"{_comment(one.get('description', ''), indent)}{indent}{_member(name, optional=name not in required)}"
        f" {type_of(one, indent)};\n"
        for name, one in schema["properties"].items()
    )


def _member(name: str, *, optional: bool) -> str:
    written = name if _IDENTIFIER.fullmatch(name) else json.dumps(name)
    return f"{written}{'?' if optional else ''}:"


def _declaration(name: str, schema: Schema) -> str:
    comment = _comment(schema.get("description", ""), "")
    if schema.get("type") == "object" and "properties" in schema:
        return f"{comment}export interface {name} {type_of(schema)}\n"
    return f"{comment}export type {name} = {type_of(schema)};\n"


def _route(route: str, operation: Mapping[str, Any]) -> str:
    """The entry of a route; "" for one that never replies with JSON."""
    replies = [
        type_of(reply["content"][JSON]["schema"], INDENT * 2)
        for status, reply in operation["responses"].items()
        if status.startswith("2") and JSON in reply["content"]
    ]
    if not replies:
        return ""
    sent = operation.get("requestBody", {}).get("content", {}).get(JSON)
    body = type_of(sent["schema"], INDENT * 2) if sent else "undefined"
    members = [f"path: {_parameters(operation, 'path')}", f"query: {_parameters(operation, 'query')}"]
    members += [f"body: {body}", f"reply: {_union(iter(replies))}"]
    lines = "".join(f"{INDENT * 2}{member};\n" for member in members)
    return f"{_comment(operation['summary'], INDENT)}{INDENT}{json.dumps(route)}: {{\n{lines}{INDENT}}};\n"


def _parameters(operation: Mapping[str, Any], place: str) -> str:
    """The type of the parameters of a route in its path or in its query."""
    found = [one for one in operation.get("parameters", ()) if one["in"] == place]
    if not found:
        return "{}"
    schema = {
        "type": "object",
        "properties": {one["name"]: {**one["schema"], "description": one.get("description", "")} for one in found},
        "required": [one["name"] for one in found if one.get("required")],
    }
    return type_of(schema, INDENT * 2)


def _comment(text: str, indent: str) -> str:
    """A description as a comment on lines of its own; "" without one."""
    words = " ".join(text.split()).replace("*/", "*\\/")
    if not words:
        return ""
    if len(indent) + len(words) + len("/**  */") <= WIDTH:
        return f"{indent}/** {words} */\n"
    lines = textwrap.wrap(words, WIDTH - len(indent) - len(" * "))
    return f"{indent}/**\n" + "".join(f"{indent} * {line}\n" for line in lines) + f"{indent} */\n"


def tools() -> Path:
    """The folder with the commands of `LOCK`: tsc, deno and bun. They are installed once for each version of it.

    A process that finds another one at it waits for it.
    """
    lock, installed = (LOCK / "package-lock.json").read_text(encoding="utf-8"), TOOLS / "installed.json"
    TOOLS.parent.mkdir(exist_ok=True)
    with (TOOLS.parent / "typescript.lock").open("w") as one_at_a_time:
        flock(one_at_a_time, LOCK_EX)
        if not installed.is_file() or installed.read_text(encoding="utf-8") != lock:
            npm = shutil.which("npm")
            if npm is None:
                raise FileNotFoundError("npm is not installed")
            shutil.rmtree(TOOLS, ignore_errors=True)
            shutil.copytree(LOCK, TOOLS)
            subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=TOOLS, check=True, capture_output=True)
            installed.write_text(lock, encoding="utf-8")
    return TOOLS / "node_modules" / ".bin"


def declarations() -> dict[str, str]:
    """The declarations of the client's modules by file name, as tsc writes them. Raises ValueError with its errors."""
    tsc = tools() / "tsc"
    with TemporaryDirectory(dir=TOOLS) as made:
        folder, out = Path(made, "client"), Path(made, "out")
        shutil.copytree(FOLDER, folder, ignore=lambda _, names: {n for n in names if n.endswith(".d.ts")} - {*BY_HAND})
        done = subprocess.run([tsc, "-p", folder, "--outDir", out], check=False, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stdout)
        return {file.name: file.read_text(encoding="utf-8") for file in sorted(out.glob("*.d.ts"))}


def main(arguments: Sequence[str]) -> int:
    text = page(document())
    if "--check" in arguments:
        if FILE.is_file() and FILE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{FILE.name} is not what the OpenAPI document gives: python -m tests.typescript\n")
        return 1
    FILE.write_text(text, encoding="utf-8")
    if "--declarations" in arguments:
        for name, declared in declarations().items():
            (FOLDER / name).write_text(declared, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
