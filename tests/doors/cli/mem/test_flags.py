"""The flags of openclaw-mem's commands under our names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.doors.cli.mem.flags import FILES, in_our_words, in_place
from fusion.errors import BadInput

APPEND = "episodes append --scope aurora --session-id s1 --agent-id main --type tool.result --summary it_works --json"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (APPEND, "episodes append --scope aurora --session s1 --agent main --type tool.result it_works --json"),
        ("episodes append --summary=it_works --ts-ms 0", "episodes append it_works --ts 1970-01-01T00:00:00+00:00"),
        ("episodes query --global --limit 5", "episodes query --scope global --limit 5"),
        ("episodes query --from-ts-ms=1000", "episodes query --after 1970-01-01T00:00:01+00:00"),
        ("episodes search psql --model m --mode hybrid", "episodes search psql --mode hybrid"),
        ("graph fact current --subject x --as-of 2026-01-31", "graph fact current --subject x --at 2026-01-31"),
        (
            "graph fact assert --subject x --source-ref obs:1 --assertion-ref receipt:1",
            "graph fact assert --subject x --source-ref obs:1",
        ),
        ("pack --query x --pack-lifecycle-shadow off --graph-take=3", "pack --query x"),
        ("store x --workspace /w --no-file-write", "store x --no-file-write"),
        ("harvest --no-embed --embed-limit 5 --source s", "harvest --source s"),
        ("search --as-of 2026-01-31 aurora", "search --as-of 2026-01-31 aurora"),
        ("store --summary", "store --summary"),
        ("pack --query x -- --session-id", "pack --query x -- --session-id"),
        ("episodes append --summary", "episodes append"),
        ("get 1 --agent-id= --json", "get 1 --agent  --json"),
    ],
)
def test_flags_of_openclaw_mem_get_our_names(given: str, read: str) -> None:
    assert in_our_words(given.split(" ")) == read.split(" ")


@pytest.mark.parametrize("time", ["now", "", "9" * 30, "1e3"])
def test_a_time_that_is_none_is_refused(time: str) -> None:
    with pytest.raises(BadInput, match="--ts-ms: give milliseconds"):
        in_our_words(["episodes", "append", "--ts-ms", time])


@given(st.lists(st.text(alphabet="abc -=1", max_size=6) | st.sampled_from(["--json", "--", "get"])))
def test_what_is_no_flag_of_openclaw_mem_stays(words: list[str]) -> None:
    """No word is lost or changed but the ``--json`` that moves."""
    read = in_our_words(in_place(words))
    assert [word for word in read if word != "--json"] == [word for word in words if word != "--json"]


@pytest.mark.parametrize("flag", FILES)
def test_a_file_of_openclaw_mem_is_refused(flag: str) -> None:
    for words in ([flag, "x", "get"], ["get", f"{flag}=x"]):
        with pytest.raises(BadInput, match="--home FOLDER"):
            in_place(words)
