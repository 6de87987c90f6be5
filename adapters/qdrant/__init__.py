"""A Qdrant server as a backend, over its REST interface: a collection of yours, or the memories of this gateway.

    [backends.facts]                    # read only: what is there, as it is
    adapter = "adapters.qdrant:Collection"
    collection = "openclaw_mem0"

    [backends.qdrant]                   # stores the gateway's memories
    adapter = "adapters.qdrant:Qdrant"
    replicas = 2

Options of both (those of one alone are in `adapters.qdrant.options`):

    url = "http://127.0.0.1:6333"       # of REST; 6334 is usually gRPC, which is not spoken here
    api_key_env = "QDRANT_API_KEY"      # the environment variable with its key; or api_key_file, read for each request
    consistency = ""                    # how many replicas a search asks: majority, quorum, all or a number; "" is one
    connect_ms = 250                    # milliseconds for a new connection
    merge = "rrf"                       # how Qdrant merges vectors and words: rrf or dbsf

Qdrant 1.13 or newer. It needs no package: nothing of Qdrant's own client is installed or imported.
"""

from adapters.qdrant.collection import Collection
from adapters.qdrant.memories import Qdrant

__all__ = ["Collection", "Qdrant"]
