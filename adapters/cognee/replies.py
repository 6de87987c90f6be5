"""Reads Cognee's replies as hits, and writes events as its documents. Pure functions.

A search answers in two shapes: a list of results, or, where the server keeps datasets apart, a list of
``{dataset_id, dataset_name, search_result}``. A result is either a list of passages (CHUNKS and its like), or the
prompt that Cognee would send to its model (the completions), in which each triplet is a line:

    julien --[corrected_by]--> bug gateway  (julien corrected by bug gateway.)

Seen on 1.6.5, whose prompt first describes the connected nodes; other versions leave out the part in brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from adapters.hits import hit_of
from fusion.contract import Extracted, Fact, Hit, Scope

LABEL = "fusion"
"""the key of the event in a document's metadata"""
_MARK = re.compile(r"\[(?:memory ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:, |\]\Z)|file [a-z0-9-]+\]\Z)")
_BOOKKEEPING = frozenset({"is_a", "belongs_to_set"})
"""relations to the type and to the sets that each entity has: "spindle is a concept" answers no question, and
occurs next to every triplet that answers one"""
_STATUS = re.compile(r" \[((?:current|superseded|disputed|contested|as of)\b[^\[\]]*)\]\Z")


def document(extracted: Extracted) -> tuple[str, dict[str, Any]]:
    """An event as a document for Cognee: its text, and its metadata.

    The last line names the event, because no other data of a chunk survives in every version; without it, two events
    of one text would be one document. Speaker and date are for the model that extracts the graph.
    """
    event = extracted.event
    about = [f"memory {event.event_id}"]
    if event.speaker:
        about.append(f"said by {' '.join(event.speaker.split())}")
    if event.at:
        about.append(f"on {event.at.utc:%Y-%m-%d}")
    said = orjson.loads(orjson.dumps(Hit.of(event)))
    kept = {name: value for name, value in said.items() if value and name not in ("native_id", "text", "score")}
    return f"{event.text}\n\n[{', '.join(about)}]", {LABEL: kept}


def section(name: str, text: str) -> str:
    """A section of a file as a document. Its last line keeps the same text of two files two documents."""
    return f"{text}\n\n[file {name}]"


def results(reply: object) -> list[Any]:
    """The result of each dataset: a list of passages, a prompt, or another form. Raises TypeError for no list.

    Entries that report a failed dataset are left out.
    """
    if not isinstance(reply, list):
        raise TypeError("a reply is a list")
    if any(isinstance(entry, dict) and "search_result" in entry for entry in reply):
        entries = [entry if isinstance(entry, dict) else {} for entry in reply]
        return [entry.get("search_result") for entry in entries if not entry.get("error")]
    if all(isinstance(entry, dict) for entry in reply):
        return [reply]
    return reply


def apart(reply: Sequence[Any]) -> bool:
    """Whether the server separates datasets: then each result names its dataset."""
    return all(isinstance(entry, dict) and "dataset_id" in entry for entry in reply)


def passages(result: object, assumed: Scope) -> tuple[list[Hit], int]:
    """The passages of one dataset, best first, and how many items were none."""
    if result is None:
        return [], 0
    if not isinstance(result, list):
        return [], 1
    hits: list[Hit] = []
    dropped = 0
    for item in result:
        try:
            hit = passage(item, assumed)
        except (KeyError, TypeError, ValueError, OverflowError):
            dropped += 1
            continue
        if hit is not None:
            hits.append(hit)
    return hits, dropped


def passage(item: Any, assumed: Scope) -> Hit | None:
    """A chunk or summary as a hit; None if it has only the last line of a document. Raises like `hit_of` if invalid.

    A document from the gateway has its event's id; all others have Cognee's id.
    """
    if not isinstance(item, Mapping):
        raise TypeError("a passage is an object")
    text, distance = item["text"], item.get("score")
    if not isinstance(text, str):
        raise TypeError("a passage is a text")
    text, marked = _unmarked(text)
    said = _said(item.get("external_metadata"))
    event_id = marked or said.get("event_id")
    if item["text"].strip() and not text:
        return None
    if not text.strip():
        raise ValueError("a passage says something")
    # Cognee gives the distance, cosine's unless configured otherwise: less is nearer.
    score = -distance if isinstance(distance, int | float) and not isinstance(distance, bool) else None
    if event_id is None:
        return hit_of({"native_id": item["id"], "text": text, "score": score}, assumed)
    return hit_of({**said, "native_id": event_id, "event_id": event_id, "text": text, "score": score}, assumed)


def _unmarked(text: str) -> tuple[str, str | None]:
    """A text without the last line that `document` or `section` added, and the event that this line names."""
    written = text.rstrip()
    if written.endswith("]") and (mark := _MARK.search(written, written.rfind("\n") + 1)):
        return text[: mark.start()].rstrip(), mark[1]
    return text, None


def _triplet(line: str) -> tuple[str, str, str] | None:
    """The parts of ``subject --[relation]--> object``."""
    if (arrow := line.find(" --[", 1)) < 0:
        return None
    relation, _, object_ = line[arrow + 4 :].partition("]--> ")
    return (line[:arrow], relation, object_) if object_ else None


def _is_excerpt(name: str) -> bool:
    """Whether a node is a whole text: a prompt names it by its first words, then by its most frequent ones."""
    return name.endswith("]") and "... [" in name[name.rfind("]", 0, -1) + 1 : -1]


def _said(metadata: object) -> dict[str, Any]:
    """The event in a document's metadata; empty for an external document."""
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except (ValueError, RecursionError):
            return {}
    said = metadata.get(LABEL) if isinstance(metadata, dict) else None
    return said if isinstance(said, dict) else {}


def triplets(result: object, assumed: Scope) -> tuple[list[Hit], int]:
    """The triplets in the prompt of one dataset, best first, and how many results were no prompt.

    Edges from a text to its entities, and from an entity to its type and its sets, are Cognee's bookkeeping: they add
    nothing to the text and the other triplets.
    """
    if isinstance(result, list) and all(isinstance(one, str) for one in result):
        result = "\n".join(result)
    if result is None or result == "":
        return [], 0
    if not isinstance(result, str):
        return [], 1
    # The texts of nodes come first, and may hold anything; no line of theirs is taken for a connection.
    _, begun, lines = result.rpartition("\nConnections:\n")
    if not begun:
        return [], 1
    return list(_connections(lines, assumed)), 0


def _connections(lines: str, assumed: Scope) -> Iterator[Hit]:
    for line in lines.removesuffix("`").split("\n"):
        parts = _triplet(line)
        if parts is None:
            continue  # the rest of a description that has line ends
        subject, relation = parts[0].strip(), parts[1].strip()
        object_, _, description = f" {parts[2]}".partition("  (")
        state = _STATUS.search(description or object_)
        if state and description:
            description = description[: state.start()]
        elif state:
            object_ = object_[: state.start()]
        object_, description = object_.strip(), description.removesuffix(")").strip()
        if not subject or not object_ or _is_excerpt(subject) or _is_excerpt(object_):
            continue
        if relation in _BOOKKEEPING:
            continue
        text = description or f"{subject} {relation.replace('_', ' ')} {object_}"
        yield Hit(
            native_id=f"{subject} --[{relation}]--> {object_}",
            text=f"{text} [{state[1]}]" if state else text,
            scope=assumed,
            kind="fact",
            path=(subject, relation, object_),
            fact=Fact(subject, relation, object_),
        )


def woven(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Several lists as one: the first of each, then the second of each; repeated items are left out."""
    found: dict[str, Hit] = {}
    for rank in range(max(map(len, lists), default=0)):
        for one in lists:
            if rank < len(one):
                found.setdefault(one[rank].native_id, one[rank])
    return list(found.values())
