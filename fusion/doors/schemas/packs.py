"""The requests for context packs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.functional_validators import AfterValidator

from fusion.doors.schemas.base import QueryText, printable
from fusion.doors.schemas.recall_body import RecallBody
from fusion.gateway.graph_lane import HARD_MS, SOFT_MS, GraphMode
from fusion.gateway.packing import PackRequest
from fusion.lib.budget import MAX_BUDGET_TOKENS
from fusion.recall.context_pack import BUDGET_TOKENS, MAX_ITEMS
from fusion.recall.fresh_tail import MAX_ITEMS as TAIL_ITEMS
from fusion.recall.pack_evidence import LaneName
from fusion.recall.pack_layers import MAX_L2_ITEMS, Layer

MAX_PACK_ITEMS = 100


class PackBody(RecallBody):
    """A question that a context pack answers."""

    query: QueryText = Field(
        description="Beyond 4,000 characters it is searched by its first and last 2,000.",
    )
    budget_tokens: int = Field(
        default=BUDGET_TOKENS,
        ge=1,
        le=MAX_BUDGET_TOKENS,
        description="estimated tokens of bundle_text at most, its frame included",
    )
    max_items: int = Field(default=MAX_ITEMS, ge=1, le=MAX_PACK_ITEMS, description="lines at most, the tail's included")
    layer: Layer | None = Field(
        default=None, description="show all long memories in one layer: L0 one line, L1 a few sentences, L2 in detail"
    )
    max_l2: int = Field(
        default=MAX_L2_ITEMS, ge=0, le=MAX_PACK_ITEMS, description="long memories that may be shown in detail"
    )
    tail_text: Annotated[str, AfterValidator(printable)] = Field(
        default="",
        description="the last turns of the conversation, one a line: plain, or JSON with role and content; of a long "
        "text the end is read",
    )
    tail_max_items: int = Field(default=TAIL_ITEMS, ge=0, le=MAX_PACK_ITEMS, description="turns of the tail at most")
    tail_budget_tokens: int | None = Field(
        default=None,
        ge=1,
        le=MAX_BUDGET_TOKENS,
        description="tokens that the tail takes first; 240 by default, and in a small pack half of it",
    )
    graph: GraphMode = Field(
        default="off",
        description="current facts and paths of the graph first: on if the query names an entity, auto if it also asks "
        "for relations or has facts",
    )
    graph_soft_ms: int = Field(default=SOFT_MS, ge=0, le=60_000, description="after which paths are left out")
    graph_hard_ms: int = Field(default=HARD_MS, ge=0, le=60_000, description="after which the graph is left out")
    trace: bool = Field(default=False, description="also why each candidate is in the pack or not")
    lanes: tuple[LaneName, ...] = Field(
        default=(),
        max_length=3,
        strict=False,
        description="lanes to search besides warm: hot adds what the session did lately, cold episodes as evidence; "
        "cold is also searched where no memory answers",
    )
    include_archived: bool = Field(default=False, description="also memories that were archived")

    def request(self, tenant: str) -> PackRequest:
        return self._recall(PackRequest, tenant)
