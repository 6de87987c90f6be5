"""The options of a Qdrant server and of its collections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters.http import KeyedOptions, checked
from adapters.options import choice, features_of, number, owner, table
from adapters.qdrant.client import Client
from fusion.contract import DIMENSIONS, Features
from fusion.errors import SettingsError

FIELDS = (
    "text",
    *DIMENSIONS,
    "tenant",
    "project",
    "audience",
    "kind",
    "speaker",
    "at",
    "recorded_at",
    "event_id",
)
"""what a payload may say of a memory"""
MEM0 = {
    "text": "data",
    "user_id": "user_id",
    "agent_id": "agent_id",
    "run_id": "run_id",
    "recorded_at": "created_at",
    "speaker": "actor_id",
}
DISTANCES = ("Cosine", "Dot", "Euclid", "Manhattan")


@dataclass(frozen=True, slots=True)
class Server(KeyedOptions):
    """The address and the settings of a server. ``consistency`` is Qdrant's own read consistency."""

    url: str = "http://127.0.0.1:6333"
    consistency: str = ""
    merge: str = choice("rrf", ("rrf", "dbsf"))

    def __post_init__(self) -> None:
        KeyedOptions.__post_init__(self)
        if not re.fullmatch(r"majority|quorum|all|[1-9]\d?|", self.consistency):
            raise SettingsError("consistency is majority, quorum, all or a number of replicas")

    def client(self, write: str = "wait=true") -> Client:
        """A client of this server; ``write`` is the query string of its writes."""
        read = f"consistency={self.consistency}" if self.consistency else ""
        return Client(self.http(self._headers), read, write)

    def reached(self) -> str:
        """The address and whether a key is sent, as a text. Raises Unauthorized if the key cannot be read."""
        return f"{checked(self.url)}, {'with a key' if self._headers() else 'without a key'}"

    def _headers(self) -> Mapping[str, str]:
        return self.key_header("api-key")


@dataclass(frozen=True, slots=True)
class Theirs(Server):
    """The options of an external collection, which is only read.

    vector = ""                         # the name of its dense vector; "" is the one without a name
    sparse = ""                         # of its sparse one, made as fastembed's Qdrant/bm25 does; "" asks for none
    distance = "Cosine"                 # what it compares vectors by
    fields = { text = "data", user_id = "userId" }  # where a payload says what; all of `MEM0` unless said otherwise
    filter = { must = [{ key = "type", match = { value = "fact" } }] }  # Qdrant's; always asked for as well
    limit = 0                           # hits at most; 0: as many as are asked for
    min_score = 0.0                     # of a search by vectors alone
    bound = { user_id = "ada" }         # the owner of its memories, if the payload does not say
    tenant = "default"                  # the tenant, unless ``fields`` names the payload key of it
    """

    collection: str = ""
    vector: str = ""
    sparse: str = ""
    distance: str = choice("Cosine", DISTANCES)
    fields: Mapping[str, str] = table(FIELDS, MEM0)
    filter: Mapping[str, Any] = field(default_factory=dict)
    limit: int = number(0, 0, 1000)
    min_score: float = 0.0
    bound: Mapping[str, str] = owner()

    def __post_init__(self) -> None:
        Server.__post_init__(self)
        if not self.collection:
            raise SettingsError("collection is missing; write its name")
        if "text" not in self.fields or not all(self.fields.values()):
            raise SettingsError("fields must give the payload key of text, and no empty one")

    def features(self) -> Features:
        filters = self.fields.keys() - self.bound.keys()
        return features_of(filters, self.bound, self.tenant, tenants="tenant" in self.fields)


@dataclass(frozen=True, slots=True)
class Ours(Server):
    """The options of the gateway's own memories, for one gateway alone.

    collection = "memories"             # prefix of its collection's name; the rest names the embedding model
    shards = 1                          # parts that a collection is divided into, over the nodes of a cluster
    replicas = 1                        # nodes that store each part
    write_consistency = 1               # replicas that must confirm a write
    ordering = "weak"                   # of writes: weak, medium or strong (Qdrant's own words)
    on_disk = false                     # vectors on disk: slower, and little memory for millions of them
    """

    collection: str = "memories"
    shards: int = number(1, 1, 256)
    replicas: int = number(1, 1, 16)
    write_consistency: int = 1
    ordering: str = choice("weak", ("weak", "medium", "strong"))
    on_disk: bool = False

    def __post_init__(self) -> None:
        Server.__post_init__(self)
        if not re.fullmatch(r"[\w-]{1,64}", self.collection):
            raise SettingsError("collection is a name of up to 64 letters, digits, - and _")
        if not 1 <= self.write_consistency <= self.replicas:
            raise SettingsError("write_consistency is from 1 to the number of replicas")
