"""The options of a Qdrant server and of its collections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters.http import Credential, HttpOptions, checked
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
class Server(HttpOptions):
    """The address and the settings of a server. ``consistency`` is Qdrant's own read consistency."""

    url: str = "http://127.0.0.1:6333"
    api_key_env: str = ""
    api_key_file: str = ""
    consistency: str = ""
    merge: str = "rrf"

    def __post_init__(self) -> None:
        HttpOptions.__post_init__(self)  # `super()` does not work in a dataclass with slots
        Credential(self.api_key_env, self.api_key_file)
        if not re.fullmatch(r"majority|quorum|all|[1-9]\d?|", self.consistency):
            raise SettingsError("consistency is majority, quorum, all or a number of replicas")
        if self.merge not in ("rrf", "dbsf"):
            raise SettingsError("merge is rrf or dbsf")

    def client(self, write: str = "wait=true") -> Client:
        """A client of this server; ``write`` is the query string of its writes."""
        read = f"consistency={self.consistency}" if self.consistency else ""
        return Client(self.http(self._headers), read, write)

    def reached(self) -> str:
        """The address and whether a key is sent, as a text. Raises Unauthorized if the key cannot be read."""
        return f"{checked(self.url)}, {'with a key' if self._headers() else 'without a key'}"

    def _headers(self) -> Mapping[str, str]:
        key = Credential(self.api_key_env, self.api_key_file).value()
        return {"api-key": key} if key else {}


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
    bound = { user_id = "ada" }         # whose it is, where its payload does not say
    tenant = "default"                  # whose, unless ``fields`` names where a payload says it
    """

    collection: str = ""
    vector: str = ""
    sparse: str = ""
    distance: str = "Cosine"
    fields: Mapping[str, str] = field(default_factory=lambda: dict(MEM0))
    filter: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 0
    min_score: float = 0.0
    bound: Mapping[str, str] = field(default_factory=dict)
    tenant: str = "default"

    def __post_init__(self) -> None:
        Server.__post_init__(self)
        if not self.collection:
            raise SettingsError("collection is missing; write its name")
        if self.distance not in DISTANCES:
            raise SettingsError(f"distance is one of {', '.join(DISTANCES)}")
        if "text" not in self.fields or not self.fields.keys() <= set(FIELDS) or not _texts(self.fields):
            raise SettingsError(
                f"fields must give the payload key of text, and may give those of {', '.join(FIELDS[1:])}"
            )
        if not self.bound.keys() <= set(DIMENSIONS) or not _texts(self.bound):
            raise SettingsError(f"bound gives texts to some of {', '.join(DIMENSIONS)}")
        if not 0 <= self.limit <= 1000:
            raise SettingsError("limit is from 0 to 1000")

    def features(self) -> Features:
        return Features(
            filters=frozenset(d for d in DIMENSIONS if d in self.fields and d not in self.bound),
            bound={d: self.bound[d] for d in DIMENSIONS if d in self.bound},
            tenants="tenant" in self.fields,
            tenant=self.tenant,
        )


@dataclass(frozen=True, slots=True)
class Ours(Server):
    """The options of the gateway's own memories, for one gateway alone.

    collection = "memories"             # begins the name of its collection, which goes on with the embedding model's
    shards = 1                          # parts that a collection is divided into, over the nodes of a cluster
    replicas = 1                        # nodes that each part is kept on
    write_consistency = 1               # replicas that must have a write before it counts
    ordering = "weak"                   # of writes: weak, medium or strong (Qdrant's own words)
    on_disk = false                     # vectors on disk: slower, and little memory for millions of them
    """

    collection: str = "memories"
    shards: int = 1
    replicas: int = 1
    write_consistency: int = 1
    ordering: str = "weak"
    on_disk: bool = False

    def __post_init__(self) -> None:
        Server.__post_init__(self)
        if not re.fullmatch(r"[\w-]{1,64}", self.collection):
            raise SettingsError("collection is a name of up to 64 letters, digits, - and _")
        if not 1 <= self.shards <= 256 or not 1 <= self.replicas <= 16:
            raise SettingsError("shards is from 1 to 256, replicas from 1 to 16")
        if not 1 <= self.write_consistency <= self.replicas:
            raise SettingsError("write_consistency is from 1 to the number of replicas")
        if self.ordering not in ("weak", "medium", "strong"):
            raise SettingsError("ordering is weak, medium or strong")


def _texts(table: Mapping[str, object]) -> bool:
    return all(isinstance(value, str) and value for value in table.values())
