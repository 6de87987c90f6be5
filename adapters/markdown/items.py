"""Splits a file into searchable items."""

from __future__ import annotations

import re
from calendar import month_name
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath

from adapters.index import Entry
from adapters.markdown.catalogue import Document, Item, keyed
from adapters.markdown.files import Content, Root, Seen, Unreadable
from adapters.markdown.media import SUFFIX as MEDIA
from adapters.markdown.media import handle, mime_of, shown
from adapters.markdown.options import Options
from adapters.markdown.own_notes import parse
from fusion.contract import FILE_PREFIX, TAG, Event, Hit, Moment, Place, Property, Scope
from fusion.lib.chunk import chunks
from fusion.lib.dated_notes import day_of_path, noted_day
from fusion.lib.front_matter import front_matter, read
from fusion.lib.ignore import matcher
from fusion.lib.passages import is_long, spoken_passages
from fusion.lib.words import content_hash

PROPERTY_CHARS = 100
"""characters of a property's value; a longer one is a text, and no filter names it"""
MAX_PROPERTIES = 64

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def document_of(file: Seen, content: Content, options: Options) -> Document:
    """The document that a file is now. Raises ``Unreadable`` where it is not text.

    Markers count only in the gateway's own folder; in a file of the user they have no effect.
    """
    if options.media and not file.root.own and (mime := mime_of(file.path)):
        return _media_document(file, content, mime, options)
    if b"\0" in content.data and not file.root.own:
        raise Unreadable("skipped: binary, or not UTF-8")
    text = content.data.decode("utf-8-sig", "replace")
    remarks: list[str] = []
    if broken := text.count("\ufffd") - content.data.count("\ufffd".encode()):
        remarks.append(f"{broken} characters were not UTF-8 and are shown as \ufffd")
    items: list[Item] = []
    if file.root.own:
        page = parse(text)
        remarks += [f"the entry at line {line} cannot be read: fix or delete its marker" for line in page.unread]
        copies: Counter[str] = Counter()
        for note in page.notes:
            copies[note.event.event_id] += 1
            items.append(note_item(file.document, note.event, options, copies[note.event.event_id]))
        text = page.rest
    items += _chunk_items(file, text, options)
    return Document(file.document, items, content.settled, content.digest, tuple(remarks))


def _media_document(file: Seen, content: Content, mime: str, options: Options) -> Document:
    """A picture or recording as one item: its words are only shown; it is found by the vector of its bytes."""
    if not content.data:
        raise Unreadable("skipped: it is empty")
    scope, native = scope_of(file.root, file.path, options), file.document + MEDIA
    text = shown(file.document, mime, len(content.data))
    hit = Hit(native, text, scope, at=day_of_path(file.document))
    entry = keyed(native, scope, handle(file.document, mime, content.digest))
    return Document(file.document, [Item(hit, (entry,))], content.settled, content.digest)


def text_of(root: Root, data: bytes) -> str:
    """The user's text in a file: the lines of the gateway's entries are blank."""
    text = data.decode("utf-8-sig", "replace")
    return parse(text).rest if root.own else text


def scope_of(root: Root, path: str, options: Options) -> Scope:
    """The scope of a file at that path."""
    private = not root.own and matcher(options.private)(path, False)
    return replace(options.bind, audience="private") if private else options.bind


def note_item(name: str, event: Event, options: Options, copy: int = 1) -> Item:
    """An entry of the gateway; a copy of it within its file has its own id."""
    native = f"{name}#{event.event_id}" + (f".{copy}" if copy > 1 else "")
    entry = Entry.of_memory("", event.scope, event.text, event.speaker)
    return Item(Hit.of(event, native), (keyed(native, entry.scope, entry.text, entry.passages),))


def _chunk_items(file: Seen, text: str, options: Options) -> list[Item]:
    """A text's chunks: each is searched under its title and headings, and given back as its bare lines.

    The vectors of a long chunk are those of its passages without the headings, which its words have: a heading before
    every passage makes them more alike, and the ranking compares the passages as they are shown.
    """
    if not text.strip():
        return []
    stem = PurePosixPath(file.path).stem
    matter = front_matter(text)
    day = day_of_path(file.document)
    title = matter.get("title") or (_spelled(day) if day else "" if _DAY.match(stem) or file.root.own else stem)
    scope = scope_of(file.root, file.path, options)
    properties = properties_of(text)
    items: list[Item] = []
    for chunk in chunks(text, options.chunk_tokens, options.chunk_overlap):
        native = f"{file.document}#L{chunk.start}-L{chunk.end}" + (f".{chunk.part}" if chunk.part else "")
        place = Place(file.document, chunk.start, chunk.end, "line")
        way = " › ".join(dict.fromkeys(filter(None, [title, *chunk.headings])))
        searched = f"{way}\n{chunk.searched}" if way else chunk.searched
        at = noted_day(file.document, chunk.headings, matter)
        stated_by = f"{FILE_PREFIX}{file.root.folder / file.path}"
        hit = Hit(native, chunk.text, scope, at=at, place=place, stated_by=stated_by, properties=properties)
        passages = spoken_passages(chunk.text, None) if is_long(chunk.text, None) else ()
        items.append(Item(hit, (keyed(native, scope, searched, passages),), chunk.headings))
    return items


def properties_of(text: str) -> tuple[Property, ...]:
    """The properties of a note's front matter, each value by itself; its tags are named `TAG`."""
    found: dict[Property, None] = {}
    for name, values in read(text)[0]:
        name = name.lower()
        if name in ("tags", TAG):
            tags = (tag.strip("#") for value in values for tag in value.replace(",", " ").split())
            found |= dict.fromkeys((TAG, tag) for tag in tags if tag)
        else:
            found |= dict.fromkeys((name, value) for value in values if len(value) <= PROPERTY_CHARS)
    return tuple(islice(found, MAX_PROPERTIES))


def _spelled(day: Moment) -> str:
    """A day as people ask for it: "2026-03-05, 5 March 2026"."""
    return f"{day.utc:%Y-%m-%d}, {day.utc.day} {month_name[day.utc.month]} {day.utc.year}"


def reading(roots: Sequence[Root], options: Options) -> str:
    """A hash of how files become items; a table with another one must be written again."""
    probe = Content(_PROBE.encode(), (0, 0, 0, 0))
    made = [document_of(Seen(root, "2026-01-02.md", probe.signature), probe, options).items for root in roots[:2]]
    whole = options.chunk_tokens, options.chunk_overlap, options.max_bytes, options.private, options.bind, options.media
    return content_hash(repr((made, [(root.name, root.folder, root.only) for root in roots], whole)))


_PROBE = """---
title: A probe
tags: [one, two]
---
# Heading

Text with [[links]] and a #tag, of 東京.

## Below

| a | b |
|---|---|
| 1 | 2 |

- item
  - nested

## 2026-03-04 A dated section

Text.

```python
code = 1
```

<!-- memory {"event_id":"probe","lines":1,"recorded_at":"2026-03-04T09:12:00+00:00"} -->
## 2026-03-04 09:12 UTC

A note.
<!-- /memory -->
""" + "\n\n".join(f"Paragraph {n} {'of many words ' * 12}" for n in range(30))
