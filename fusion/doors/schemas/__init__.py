"""The requests of the HTTP API, declared once as pydantic models.

FastAPI validates requests with them and writes them into `/openapi.json`; tests compare the MCP tools, the client and
the command line with them. Every model is strict and closed: a wrong type or an unknown field is an error that names
the field. Replies are declared in `fusion.wire`.
"""

from fusion.doors.schemas.agent_tools import *  # noqa: F403
from fusion.doors.schemas.arguments import *  # noqa: F403
from fusion.doors.schemas.audit import *  # noqa: F403
from fusion.doors.schemas.base import *  # noqa: F403
from fusion.doors.schemas.comparisons import *  # noqa: F403
from fusion.doors.schemas.episodes import *  # noqa: F403
from fusion.doors.schemas.facts import *  # noqa: F403
from fusion.doors.schemas.graph import *  # noqa: F403
from fusion.doors.schemas.home import *  # noqa: F403
from fusion.doors.schemas.items import *  # noqa: F403
from fusion.doors.schemas.memories import *  # noqa: F403
from fusion.doors.schemas.packs import *  # noqa: F403
from fusion.doors.schemas.prefix import *  # noqa: F403
from fusion.doors.schemas.proposals import *  # noqa: F403
from fusion.doors.schemas.questions import *  # noqa: F403
from fusion.doors.schemas.recall_steps import *  # noqa: F403
from fusion.doors.schemas.triage import *  # noqa: F403
