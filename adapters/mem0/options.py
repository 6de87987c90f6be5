"""The options of mem0, in process and as a server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from adapters.http import KeyedOptions
from adapters.options import choice, features_of, number, owner
from fusion.contract import DIMENSIONS, KINDS, Features
from fusion.errors import SettingsError

OPENCLAW = {"collection": "openclaw_mem0", "limit": 5, "dimensions": 1536}
OPENCLAW_PORT = 6334


@dataclass(frozen=True, slots=True)
class Options(KeyedOptions):
    """The options of the library in process.

    collection = "memories"             # begins the names of its collections in the backend's own folder; on a server,
                                        # the name of the one that there is
    url = ""                            # a Qdrant server's REST interface; "" is a folder of our own
    api_key_env = "QDRANT_API_KEY"      # the environment variable with the server's key; or api_key_file
    create = false                      # make the collection on the server where it is missing
    dimensions = 0                      # that its vectors must have; 0 is as many as the embedder's
    limit = 0                           # memories at most; 0: as many as are asked for
    infer = false                       # let mem0 extract facts from memories, by the model of [model]
    timeout_ms = 5000                   # of one request to the server
    connect_ms = 250                    # milliseconds for a new connection to it
    tenant = "default"                  # the owner of memories on a server that this gateway did not store
    preset = ""                         # "openclaw": what its mem0 plugin has (seed 003): collection openclaw_mem0 at
    port = 0                            # …http://127.0.0.1:6334, 1,536 dimensions, cosine, 5 memories; another port
    """

    collection: str = "memories"
    create: bool = False
    dimensions: int = number(0, 0, 65_536)
    limit: int = number(0, 0, 1000)
    infer: bool = False
    timeout_ms: int = number(5000, 1, 600_000)
    preset: str = choice("", ("", "openclaw"))
    port: int = number(0, 0, 65_535)

    def __post_init__(self) -> None:
        KeyedOptions.__post_init__(self)
        if not re.fullmatch(r"[\w-]{1,64}", self.collection):
            raise SettingsError("collection is a name of up to 64 letters, digits, - and _")

    def resolved(self, given: Mapping[str, object]) -> Options:
        """The options with the preset's values for those that the table leaves out."""
        if not self.preset:
            return self
        preset: dict[str, Any] = {**OPENCLAW, "url": f"http://127.0.0.1:{self.port or OPENCLAW_PORT}"}
        return replace(self, **{name: value for name, value in preset.items() if name not in given})

    def headers(self) -> Mapping[str, str]:
        return self.key_header("api-key")


@dataclass(frozen=True, slots=True)
class ServerOptions(KeyedOptions):
    """The options of mem0's own server.

    url = "http://127.0.0.1:8888"
    api_key_env = "MEM0_API_KEY"        # the environment variable with its key (X-API-Key); or api_key_file
    version = ""                        # the shapes it speaks: "1" or "2"; "" finds out
    limit = 0                           # memories at most; 0: as many as are asked for
    threshold = 0.0                     # the least score (2.x)
    infer = false                       # let mem0 extract facts from memories, by its own model
    timeout_ms = 30000                  # of one request that stores
    connect_ms = 250                    # milliseconds for a new connection
    bound = { user_id = "ada" }         # the owner of its memories, if the gateway serves several
    tenant = "default"                  # the owner of memories there that this gateway did not store
    """

    url: str = "http://127.0.0.1:8888"
    version: str = choice("", ("", "1", "2"))
    limit: int = number(0, 0, 1000)
    threshold: float = number(0.0, 0, 1)
    infer: bool = False
    timeout_ms: int = number(30_000, 1, 600_000)
    bound: Mapping[str, str] = owner()

    def headers(self) -> Mapping[str, str]:
        return self.key_header("X-API-Key")

    def features(self) -> Features:
        filters = set(DIMENSIONS) - set(self.bound)
        return features_of(filters, self.bound, self.tenant, as_of=True, kinds=frozenset(KINDS))
