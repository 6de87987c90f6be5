"""The contract between the gateway and everything outside it: values, and the ports of backends and models.

A memory system becomes a backend by implementing ``Backend`` (``open``, ``search``, ``close``) and those capabilities
that it has: ``Remembers``, ``Forgets``, ``FindsNeighbours``, ``ReadsDocuments``, ``TracksUse``, ``Describes`` and the
others of `fusion.contract.backends`. Each capability is a small protocol, recognised by its methods. An adapter
inherits the tests of `tests/backend_contract.py`; `adapters/inmemory.py` is the reference implementation.
`fusion.extension` declares the commands and routes that an adapter may add. Import all names from this package.

Values are immutable. Times are timezone-aware UTC. Ranks start at 1. Scores are comparable within one answer only.
"""

from fusion.contract.backends import *  # noqa: F403
from fusion.contract.memories import *  # noqa: F403
from fusion.contract.models import *  # noqa: F403
from fusion.contract.queries import *  # noqa: F403
