"""What a question says of the memories that it wants: "#reefer", "all notes of type customer", "list our customers".

`read` takes the words apart by rules for English, German, French, Spanish and Italian. Whether a noun names anything
in the home is for the caller to look up: each of the `candidates` is a filter that the words may mean, the likeliest
first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusion.contract import KINDS, Kind, Where, inline_tags

MAX_CHARS = 200
"""characters of a question that may ask for a part of the memories by its words; a longer one only by its #tags"""
_VERB = (
    r"(?:please |bitte )?(?:list|show|enumerate|name|give|what are|which are|who are|liste|zeige?|nenne|montre|donne|"
    r"lister|lista|muestra|enumera|elenca|mostra)(?:[ -](?:me|mir|moi|up|all))?"
)
_EACH = r"(?:all|every|each|alle|tous|toutes|todos|todas|tutti|tutte)"
_OUR = (
    r"(?:of |the |our |my |your |their |unsere |meine |die |les |nos |mes |los |las |nuestros |nuestras |mis |i |gli |"
    r"le |nostri |nostre |miei )"
)
_NOUN = r"(?P<noun>#?\w[\w/#-]*(?: [\w/#:=-]+){0,6}?)"
_LIST = re.compile(rf"\s*(?:{_VERB} (?:{_EACH} )?|{_EACH} ){_OUR}*{_NOUN}(?: auf)?\s*[?.!]*\s*", re.IGNORECASE)
_NOTES = r"(?:notes?|notizen?|memories|files|documents|pages|fiches|notas|appunti)"
_OF_PROPERTY = re.compile(
    rf"{_NOTES} (?:of|with|whose|where|vom|mit|de|del|di|con) (?:the |le |la )?(?P<name>\w+)"
    r"(?: is | ist |: ?| ?= ?| )(?P<value>[\w/-]+)",
    re.IGNORECASE,
)
_OF_FOLDER = re.compile(
    rf"{_NOTES} (?:in|im|dans|en|nel|nella)(?: the| le| la)? (?:folder |ordner |dossier |carpeta |cartella )?"
    r"(?P<folder>[\w/-]+?)(?: folder)?",
    re.IGNORECASE,
)
_OF_TAG = re.compile(rf"{_NOTES} (?:tagged|with the tag|with tag)(?: with| as)? #?(?P<tag>[\w/-]+)", re.IGNORECASE)
_ADJECTIVE = re.compile(rf"(?P<value>[\w/-]+) {_NOTES}", re.IGNORECASE)
KIND_PROPERTIES = ("type", "kind", "category")
"""the properties whose value says what a note is"""
_PROPERTY = {"typ": "type", "tipo": "type", "kategorie": "category"}
"""properties that are named in another language"""
_KINDS: dict[str, Kind] = {kind: kind for kind in KINDS if kind not in ("note", "turn")}
_KINDS |= {f"{kind}s": kind for kind in _KINDS.values()}


@dataclass(frozen=True, slots=True)
class Structure:
    """The filters that a question may mean, and whether it asks for the whole set."""

    candidates: tuple[Where, ...] = ()
    whole: bool = False


def read(text: str) -> Structure:
    """What a question says of the memories that it wants; nothing for most questions."""
    tags = tuple(dict.fromkeys(inline_tags(text)))
    listed = _LIST.fullmatch(text) if len(text) <= MAX_CHARS else None
    if listed is None:
        whole = bool(tags) and text.strip().lstrip("#") in tags
        return Structure(tuple(Where(tag=(tag,)) for tag in tags[:1]), whole)
    noun = " ".join(listed["noun"].split())
    return Structure(tuple(dict.fromkeys(_meant(noun))), whole=True)


def _meant(noun: str) -> Iterator[Where]:
    if noun.startswith("#"):
        yield Where(tag=(noun.removeprefix("#"),))
    elif found := _OF_TAG.fullmatch(noun):
        yield Where(tag=(found["tag"],))
    elif found := _OF_PROPERTY.fullmatch(noun):
        name = found["name"].lower()
        yield Where(property=((_PROPERTY.get(name, name), found["value"]),))
    elif found := _OF_FOLDER.fullmatch(noun):
        yield Where(folder=(found["folder"],))
    else:
        if found := _ADJECTIVE.fullmatch(noun):
            noun = found["value"]
        if kind := _KINDS.get(noun.lower()):
            yield Where(kind=(kind,))
        names = tuple(_forms(noun))
        for name in KIND_PROPERTIES:
            yield Where(property=tuple((name, value) for value in names))
        yield Where(folder=names)
        yield Where(tag=names)


def _forms(noun: str) -> Iterator[str]:
    """A noun as it is, and without the ending of its plural: customers, customer."""
    yield noun
    for ending, instead in (("ies", "y"), ("es", ""), ("s", ""), ("en", ""), ("n", ""), ("e", "")):
        if noun.lower().endswith(ending) and len(noun) > len(ending) + 2:
            yield noun[: -len(ending)] + instead


def fits_all(where: Where, given: Where) -> Where:
    """Both filters at once: what the words mean, where the request does not say it itself."""
    changes = {name: getattr(where, name) for name in ("folder", "tag", "property", "kind") if not getattr(given, name)}
    return replace(given, **changes)
