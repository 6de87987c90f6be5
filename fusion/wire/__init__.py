"""The replies of the HTTP API, declared once as typed dictionaries of their JSON.

The client returns them, the command line prints them, and the OpenAPI document describes them. Requests are declared in
`fusion.doors.schemas`. `Hit`, `Moment` and `Place` are the JSON of the classes of that name in `fusion.contract`.
"""

from fusion.wire.agent_tools import *  # noqa: F403
from fusion.wire.answers import *  # noqa: F403
from fusion.wire.audit import *  # noqa: F403
from fusion.wire.comparisons import *  # noqa: F403
from fusion.wire.episodes import *  # noqa: F403
from fusion.wire.facts import *  # noqa: F403
from fusion.wire.graph import *  # noqa: F403
from fusion.wire.home import *  # noqa: F403
from fusion.wire.items import *  # noqa: F403
from fusion.wire.memories import *  # noqa: F403
from fusion.wire.packs import *  # noqa: F403
from fusion.wire.prefix import *  # noqa: F403
from fusion.wire.proposals import *  # noqa: F403
from fusion.wire.recall_steps import *  # noqa: F403
from fusion.wire.receipts import *  # noqa: F403
from fusion.wire.triage import *  # noqa: F403
from fusion.wire.why import *  # noqa: F403
