"""Mem0: the real ``mem0ai`` library, in process, on a local Qdrant folder or a Qdrant server; or mem0's own server.

    [backends.mem0]                     # the default: a folder of our own
    adapter = "adapters.mem0:Mem0"

    [backends.mem0]                     # what OpenClaw's plugin has; every option is in `adapters.mem0.options`
    adapter = "adapters.mem0:Mem0"
    preset = "openclaw"
    port = 6333

    [backends.mem0]
    adapter = "adapters.mem0:Mem0Server"
    url = "http://127.0.0.1:8888"

Four things about the library shape the first (measured with mem0ai 2.2.1, qdrant-client in local mode):

- Local Qdrant is not safe under concurrency: 300 adds during 100 searches lost 16 memories. So everything that touches
  it runs on one thread, which is the lock; `EmbeddedMem0` lives there, `Mem0` is its asynchronous front.
- ``Memory.add`` gives each memory a random id, takes one event a call, and copies its text into a history database that
  no forgetting reaches. Events go through ``Memory.vector_store.insert`` instead, as the library's own batches do, in
  the library's payload and with the event id as the memory's id: a retry is an upsert, a batch is one call, 0.4 ms CPU
  an event. ``Memory.search``, ``get``, ``get_all`` and ``delete`` see them like their own.
- qdrant-client's local mode keeps each point as a pickle, which runs what it says when it is read. Points are kept as
  numbers and JSON instead (`adapters.mem0.local`), below the same engine; an existing folder is migrated once.
- A filter costs local Qdrant 7 µs a point, because each is tested in Python. A condition that every stored
  memory meets is left out: where a home has one user, a search of 2,000 memories takes 5 ms instead of 24.

Vectors of two models are never in one collection: its name carries the embedder's identity. What is stored without a
vector waits in a collection of its own, is searched by its words meanwhile, and moves over when the model is there.

mem0ai's own ``nlp`` extra would make the library fetch a spaCy model; this project does not install it.
"""

from adapters.mem0.backend import BATCH, Mem0
from adapters.mem0.library import Bridge, library
from adapters.mem0.server import Mem0Server
from adapters.qdrant.payload import hit_of, payload_of

__all__ = ["BATCH", "Bridge", "Mem0", "Mem0Server", "hit_of", "library", "payload_of"]
