"""The options of mem0, in process and as a server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from adapters.http import Credential, HttpOptions
from fusion.contract import DIMENSIONS, KINDS, Features
from fusion.errors import SettingsError

OPENCLAW = {"collection": "openclaw_mem0", "limit": 5, "dimensions": 1536}
OPENCLAW_PORT = 6334


@dataclass(frozen=True, slots=True)
class Options(HttpOptions):
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
    tenant = "default"                  # whose memories on a server are that this gateway did not store
    preset = ""                         # "openclaw": what its mem0 plugin has (seed 003): collection openclaw_mem0 at
    port = 0                            # …http://127.0.0.1:6334, 1,536 dimensions, cosine, 5 memories; another port
    """

    collection: str = "memories"
    api_key_env: str = ""
    api_key_file: str = ""
    create: bool = False
    dimensions: int = 0
    limit: int = 0
    infer: bool = False
    timeout_ms: int = 5000
    tenant: str = "default"
    preset: str = ""
    port: int = 0

    def __post_init__(self) -> None:
        HttpOptions.__post_init__(self)  # `super()` does not work in a dataclass with slots
        Credential(self.api_key_env, self.api_key_file)
        if not re.fullmatch(r"[\w-]{1,64}", self.collection):
            raise SettingsError("collection is a name of up to 64 letters, digits, - and _")
        if self.preset not in ("", "openclaw"):
            raise SettingsError("preset is openclaw, or is left out")
        if not 0 <= self.port <= 65535:
            raise SettingsError("port is from 1 to 65535")
        if not 0 <= self.limit <= 1000 or not 0 <= self.dimensions <= 65_536:
            raise SettingsError("limit is from 0 to 1000, dimensions from 0 to 65536")
        if not 1 <= self.timeout_ms <= 600_000:
            raise SettingsError("timeout_ms is from 1 to 600000")

    def resolved(self, given: Mapping[str, object]) -> Options:
        """The options with the preset's values for those that the table leaves out."""
        if not self.preset:
            return self
        preset: dict[str, Any] = {**OPENCLAW, "url": f"http://127.0.0.1:{self.port or OPENCLAW_PORT}"}
        return replace(self, **{name: value for name, value in preset.items() if name not in given})

    def key(self) -> str:
        return Credential(self.api_key_env, self.api_key_file).value()

    def headers(self) -> Mapping[str, str]:
        key = self.key()
        return {"api-key": key} if key else {}


@dataclass(frozen=True, slots=True)
class ServerOptions(HttpOptions):
    """The options of mem0's own server.

    url = "http://127.0.0.1:8888"
    api_key_env = "MEM0_API_KEY"        # the environment variable with its key (X-API-Key); or api_key_file
    version = ""                        # the shapes it speaks: "1" or "2"; "" finds out
    limit = 0                           # memories at most; 0: as many as are asked for
    threshold = 0.0                     # the least score (2.x)
    infer = false                       # let mem0 extract facts from memories, by its own model
    timeout_ms = 30000                  # of one request that stores
    connect_ms = 250                    # milliseconds for a new connection
    bound = { user_id = "ada" }         # whose its memories are, where the gateway serves several
    tenant = "default"                  # whose memories there are that this gateway did not store
    """

    url: str = "http://127.0.0.1:8888"
    api_key_env: str = ""
    api_key_file: str = ""
    version: str = ""
    limit: int = 0
    threshold: float = 0.0
    infer: bool = False
    timeout_ms: int = 30_000
    bound: Mapping[str, str] = field(default_factory=dict)
    tenant: str = "default"

    def __post_init__(self) -> None:
        HttpOptions.__post_init__(self)  # `super()` does not work in a dataclass with slots
        Credential(self.api_key_env, self.api_key_file)
        if self.version not in ("", "1", "2"):
            raise SettingsError("version is 1 or 2, or is left out")
        if not 0 <= self.limit <= 1000 or not 0 <= self.threshold <= 1:
            raise SettingsError("limit is from 0 to 1000, threshold from 0 to 1")
        if not 1 <= self.timeout_ms <= 600_000:
            raise SettingsError("timeout_ms is from 1 to 600000")
        if not all(d in DIMENSIONS and isinstance(who, str) for d, who in self.bound.items()):
            raise SettingsError(f"bound gives texts to some of {', '.join(DIMENSIONS)}")

    def headers(self) -> Mapping[str, str]:
        key = Credential(self.api_key_env, self.api_key_file).value()
        return {"X-API-Key": key} if key else {}

    def features(self) -> Features:
        return Features(
            filters=frozenset(d for d in DIMENSIONS if d not in self.bound),
            bound={d: self.bound[d] for d in DIMENSIONS if d in self.bound},
            tenant=self.tenant,
            as_of=True,
            kinds=frozenset(KINDS),
        )
