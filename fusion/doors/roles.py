"""What each role may do: the role that every route needs, in one table.

A role has all that the roles before it have. A route that is not in the table needs the last one, so that a forgotten
entry refuses and does not admit.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusion.contract import ROLES, Role
from fusion.errors import RoleTooLow

READER, PROPOSER, WRITER, OPERATOR = ROLES

NEEDS: Mapping[tuple[str, str], Role] = {
    # ask and look
    ("POST", "/v1/fuse"): READER,
    ("POST", "/fuse"): READER,
    ("POST", "/v1/pack"): READER,
    ("POST", "/v1/index"): READER,
    ("POST", "/v1/timeline"): READER,
    ("POST", "/v1/records"): READER,
    ("GET", "/v1/why/{ref}"): READER,
    ("POST", "/v1/ask"): READER,
    ("POST", "/v1/replay"): READER,
    ("GET", "/v1/recipes"): READER,
    ("POST", "/v1/compare"): READER,
    ("POST", "/v1/search"): READER,
    ("POST", "/v1/prefix"): READER,
    ("GET", "/v1/documents"): READER,
    ("GET", "/v1/feedback"): READER,
    ("GET", "/v1/comparisons"): READER,
    ("GET", "/v1/receipts"): READER,
    ("GET", "/v1/activity"): READER,
    ("GET", "/v1/backends/history"): READER,
    ("GET", "/v1/receipts/{receipt_id}"): READER,
    ("GET", "/v1/jobs"): READER,
    ("GET", "/v1/jobs/log"): READER,
    ("GET", "/v1/memories"): READER,
    ("GET", "/v1/memories/{ref}"): READER,
    ("GET", "/v1/items/{namespace}/{key}"): READER,
    ("POST", "/v1/items/search"): READER,
    ("POST", "/v1/items/namespaces"): READER,
    ("GET", "/v1/decisions"): READER,
    ("GET", "/v1/trust/{ref}"): READER,
    ("GET", "/v1/plans"): READER,
    ("GET", "/v1/batches"): READER,
    ("GET", "/v1/forgotten"): READER,
    ("GET", "/v1/sources"): READER,
    ("GET", "/v1/session"): READER,
    ("GET", "/v1/episodes/working-set"): READER,
    ("GET", "/v1/episodes/{ref}"): READER,
    ("POST", "/v1/episodes/query"): READER,
    ("POST", "/v1/episodes/search"): READER,
    ("GET", "/v1/facts/current"): READER,
    ("GET", "/v1/facts/timeline"): READER,
    ("GET", "/v1/facts/lint"): READER,
    ("POST", "/v1/facts/pack"): READER,
    ("POST", "/v1/graph/neighbors"): READER,
    ("POST", "/v1/graph/impact"): READER,
    ("POST", "/v1/graph/path"): READER,
    ("POST", "/v1/graph/overview"): READER,
    ("POST", "/v1/graph/match"): READER,
    ("GET", "/v1/graph/pages"): READER,
    ("GET", "/v1/cards"): READER,
    ("GET", "/v1/cards/lint"): READER,
    ("POST", "/hybrid-search"): READER,
    ("POST", "/recall"): READER,
    ("GET", "/v1/backends"): READER,
    ("GET", "/v1/status"): READER,
    ("POST", "/v1/settle"): READER,
    ("GET", "/healthz"): READER,
    ("GET", "/readyz"): READER,
    ("POST", "/v1/tools/memory_search"): READER,
    ("POST", "/v1/tools/memory_get"): READER,
    ("POST", "/v1/tools/daily_logs"): READER,
    ("POST", "/v1/flush/plan"): READER,
    # each tool calls a route, which needs its own role
    ("POST", "/mcp"): READER,
    ("POST", "/mcp/cortex"): READER,
    ("POST", "/mcp/openclaw-mem"): READER,
    ("POST", "/mcp/qmd"): READER,
    ("GET", "/openapi.json"): READER,
    ("GET", "/docs"): READER,
    # propose
    ("POST", "/v1/store/propose"): PROPOSER,
    # it only shows candidates; to queue them needs the role proposer (`routes.proposals`)
    ("POST", "/v1/store/extract"): READER,
    ("GET", "/v1/proposals"): PROPOSER,
    ("GET", "/v1/proposals/{proposal}"): PROPOSER,
    # store and forget
    ("POST", "/v1/feedback"): WRITER,
    ("POST", "/v1/comparisons"): WRITER,
    ("POST", "/v1/memories"): WRITER,
    ("PATCH", "/v1/memories/{ref}"): WRITER,
    ("DELETE", "/v1/memories/{ref}"): WRITER,
    ("PUT", "/v1/items/{namespace}/{key}"): WRITER,
    ("DELETE", "/v1/items/{namespace}/{key}"): WRITER,
    ("POST", "/v1/forget"): WRITER,
    ("POST", "/v1/undo"): WRITER,
    ("POST", "/v1/retire"): WRITER,
    ("POST", "/v1/episodes/append"): PROPOSER,
    ("POST", "/v1/facts"): WRITER,
    ("POST", "/v1/facts/retract"): WRITER,
    ("POST", "/v1/cards/refresh"): WRITER,
    ("POST", "/v1/episodes/embed"): WRITER,
    ("POST", "/v1/episodes/redact"): WRITER,
    ("POST", "/ingest"): WRITER,
    ("POST", "/v1/tools/memory_append"): WRITER,
    # decide and operate
    # what needs a person may quote what is kept out of every answer
    ("GET", "/v1/triage"): OPERATOR,
    ("POST", "/v1/triage"): OPERATOR,
    ("POST", "/v1/proposals/{proposal}/approve"): OPERATOR,
    ("POST", "/v1/proposals/{proposal}/reject"): OPERATOR,
    ("POST", "/v1/state"): OPERATOR,
    ("POST", "/v1/states"): OPERATOR,
    ("POST", "/v1/decisions/undo"): OPERATOR,
    ("POST", "/v1/lifecycle"): OPERATOR,
    ("POST", "/v1/facts/rebuild"): OPERATOR,
    ("POST", "/v1/grade"): OPERATOR,
    ("PATCH", "/v1/episodes/{ref}"): OPERATOR,
    ("POST", "/v1/jobs/{name}/run"): OPERATOR,
    ("POST", "/v1/jobs/{name}/pause"): OPERATOR,
    ("POST", "/v1/jobs/{name}/resume"): OPERATOR,
    ("POST", "/v1/backends/{backend}/{verb}"): OPERATOR,
    ("GET", "/v1/audit"): OPERATOR,
    ("GET", "/v1/export"): OPERATOR,
    ("GET", "/metrics"): OPERATOR,
    ("POST", "/v1/import"): OPERATOR,
}


DECIDES_ON_PROPOSALS = frozenset({"/v1/proposals/{proposal}/approve", "/v1/proposals/{proposal}/reject"})
"""the routes whose role the settings lower to writer: `[proposals] decided_by`"""


def role_of(method: str, path: str, decides: Role = OPERATOR) -> Role:
    """The role that a route needs; ``path`` is its template. Who ``decides`` on proposals is the settings' choice."""
    return decides if path in DECIDES_ON_PROPOSALS else NEEDS.get((method, path), OPERATOR)


def role_of_drop_in(method: str, *, asks: bool) -> Role:
    """The role that a drop-in route of a backend needs: what only asks or reads needs the first."""
    return READER if asks or method == "GET" else WRITER


def require_role(has: Role, needs: Role, what: str) -> None:
    """Raise RoleTooLow if a role is lower than the one that ``what`` needs."""
    if not allows(has, needs):
        raise RoleTooLow(
            f"{what} needs the role {needs}, and this key is a {has}. Use the home's token, or a key with "
            f'role = "{needs}" in [[server.keys]]; nothing was changed'
        )


def allows(has: Role, needs: Role) -> bool:
    """Whether a role has all that another has."""
    return ROLES.index(has) >= ROLES.index(needs)
