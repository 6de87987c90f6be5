"""What one tenant does changes no reply to another, on any route, in any field: statistics, refs, totals, order."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fastapi.routing import APIRoute
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from tests.doors.fakes import FakeFusion, app_over
from tests.fire.tenants import PLANTED, TOPICS, Act, compared, differing, open_home, oracle, plain

WORDS_ONLY = {"embedder": {"adapter": ""}}
KINDS = ("remember", "forget", "ask", "observe", "assert", "propose")
acts = st.builds(Act, st.sampled_from(KINDS), st.sampled_from(TOPICS), st.integers(0, 99))
rare = st.builds(Act, st.sampled_from((*KINDS, "flood")), st.sampled_from((*TOPICS, *PLANTED[:3])), st.integers(0, 99))
pairs = st.sampled_from([("acme", "globex"), ("default", "globex"), ("acme", "default")])


# An example asks 300 questions of two homes: to shrink one that fails would take minutes.
@pytest.mark.feature(
    "… no field of a reply to one tenant depends on what another does: scores, refs, totals, order",
    of="each tenant has its own journal",
)
@pytest.mark.timeout(600)  # a dozen seconds of CPU, which a busy machine gives in minutes
@settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(who=pairs, mine=st.lists(acts, min_size=2, max_size=6), theirs=st.lists(rare, min_size=1, max_size=6))
def test_replies_do_not_depend_on_another_tenant(who: tuple[str, str], mine: list[Act], theirs: list[Act]) -> None:
    """Two homes in which one tenant does the same; another works in one of them. All replies of all routes are equal
    except for durations, the time of day, sizes of files and random ids."""
    with TemporaryDirectory() as folder:
        different, replies = asyncio.run(compared(Path(folder), who, mine, theirs, TOPICS[:2], **WORDS_ONLY))
    assert different == []
    assert replies > 40


async def test_replies_with_vectors_do_not_depend_on_another_tenant(tmp_path: Path) -> None:
    """The same with the local model, a flood and a forgotten memory."""
    mine = [Act("remember", "harbour", 1), Act("remember", "bees", 30), Act("ask", "bees")]
    theirs = [Act("flood", "harbour"), Act("remember", "quillon", 2), Act("forget", "harbour", 3)]
    different, _ = await compared(tmp_path, ("acme", "globex"), mine, theirs, TOPICS[:2])
    assert different == []


@pytest.mark.feature("… no reply reveals how common another tenant's words are", of="each tenant has its own journal")
async def test_replies_do_not_reveal_words_of_another_tenant(tmp_path: Path) -> None:
    """Of forty words that another tenant uses: no score, count or expansion of a query shows one."""
    assert await oracle(tmp_path, ("acme", "globex"), **WORDS_ONLY) == []


async def test_tenant_comparison_calls_every_route(tmp_path: Path) -> None:
    """A route that is added later must be compared, too."""
    async with open_home(tmp_path / "home", ("acme",), **WORDS_ONLY) as (me,):
        await me.act(Act("remember", "harbour", 0))
        asked = {re.sub(r"[{\[?].*", "", name).strip() for name in await me.replies(["harbour"])}
    routes = {
        (method, route.path)
        for route in app_over(FakeFusion())._app.routes  # type: ignore[attr-defined]
        if isinstance(route, Route | APIRoute)
        for method in (route.methods or ()) - {"HEAD", "DELETE"}  # to delete is one of the acts
    }
    missing = {
        (method, path)
        for method, path in routes
        if not any(re.fullmatch(f"{method} {re.sub(r'{[^/]*}', '.+', path)}", name) for name in asked)
    }
    assert missing == set()


@pytest.mark.parametrize("field", ["score", "ref", "items"])
def test_tenant_comparison_finds_a_difference(field: str) -> None:
    """One number or ref that moved is a difference; a duration, an id that is random and the clock are none."""
    one = {"took_ms": 1.0, "at": "2026-11-22T10:00:00Z", "rows": [{"score": 0.5, "ref": "m1", "items": 3}], "id": ID_A}
    two = {"took_ms": 2.0, "at": "2026-11-22T10:00:09Z", "rows": [{"score": 0.5, "ref": "m1", "items": 3}], "id": ID_B}
    assert list(differing(plain(one), plain(two))) == []
    two["rows"][0][field] = {"score": 0.5001, "ref": "m2", "items": 4}[field]  # type: ignore[index]
    assert len(list(differing(plain(one), plain(two)))) == 1


ID_A, ID_B = "01a203a8-fb34-70a7-9198-961b1f74c005", "01a203a8-fb34-70a7-9198-961b1f74c006"
