"""When a flush is due: each of the seed's numbers by hand, and what forbids it; the words it is run with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import wire
from fusion.errors import BadInput
from fusion.gateway.memory_flush import SAFETY, Access, Context, Reason, Rules, Trigger, plan
from fusion.lib.envelope import UNATTENDED, is_silent, said

NOW = datetime(2026, 3, 4, 22, 30, tzinfo=UTC)
WINDOW = 200_000
DUE = 176_000
"""200,000 − 20,000 − 4,000"""


def planned(rules: Rules = Rules(), window: int = WINDOW, **context: object) -> wire.FlushPlan:  # noqa: B008  # frozen
    return plan(Context(window, **context), rules, NOW, "UTC")  # type: ignore[arg-type]


class TestWhen:
    @pytest.mark.row(
        "A070",
        "`/v1/flush/plan` asks an agent to save what it knows before a compaction, at window − 20,000 − 4,000 tokens",
    )
    @pytest.mark.parametrize(("total", "flush", "reason"), [(DUE - 1, False, "not_yet"), (DUE, True, "tokens")])
    def test_flush_is_due_at_window_minus_both_reserves(self, total: int, flush: bool, reason: Reason) -> None:
        """200,000 − 20,000 − 4,000 = 176,000: one less is not yet."""
        found = planned(total_tokens=total)
        assert (found["flush"], found["reason"], found["threshold_tokens"]) == (flush, reason, DUE)

    @pytest.mark.row("A166", "… the next message is counted", of="`/v1/flush/plan` asks an agent")
    def test_next_message_is_counted(self) -> None:
        """100 short of the threshold, and a message of 400 bytes: 400 / 4 = 100 tokens reach it; 396 do not."""
        assert planned(total_tokens=DUE - 100, incoming="x" * 396)["reason"] == "not_yet"
        found = planned(total_tokens=DUE - 100, incoming="x" * 400)
        assert (found["reason"], found["expected_tokens"]) == ("tokens", DUE)

    @pytest.mark.row("A071", "… at 2 MB of transcript, if configured", of="`/v1/flush/plan` asks an agent")
    def test_flush_is_due_for_a_large_transcript(self) -> None:
        """Off by default; at 2 MB (the seed's 2,097,152 bytes) exactly that many do."""
        two_mb = 2 * 1024 * 1024
        assert planned(total_tokens=0, transcript_bytes=10 * two_mb)["reason"] == "not_yet"
        rules = Rules(force_transcript_bytes=two_mb)
        assert planned(rules, total_tokens=0, transcript_bytes=two_mb - 1)["reason"] == "not_yet"
        found = planned(rules, total_tokens=0, transcript_bytes=two_mb)
        assert (found["flush"], found["reason"]) == (True, "transcript")

    @pytest.mark.row("A072", "… once for each compaction, silently", of="`/v1/flush/plan` asks an agent")
    def test_flush_happens_once_per_compaction(self) -> None:
        """Flushed since the third compaction: not again before the fourth."""
        assert planned(total_tokens=DUE, compactions=3, flushed_at=3)["reason"] == "already_flushed"
        assert planned(total_tokens=DUE, compactions=4, flushed_at=3)["flush"]
        assert planned(total_tokens=DUE, compactions=0, flushed_at=None)["flush"]

    @pytest.mark.row("A166", "… also after the model has refused the context", of="`/v1/flush/plan` asks an agent")
    def test_overflowed_context_is_flushed_immediately(self) -> None:
        """Reactive overflow: whatever was counted, and once a compaction like every other."""
        assert planned(total_tokens=None, overflowed=True)["reason"] == "overflow"
        assert planned(total_tokens=10, overflowed=True)["flush"]
        assert planned(total_tokens=10, overflowed=True, flushed_at=0)["reason"] == "already_flushed"

    @pytest.mark.row("A072", "… not for heartbeats and CLI backends", of="`/v1/flush/plan` asks an agent")
    @pytest.mark.parametrize("trigger", ["heartbeat", "cron", "subagent"])
    def test_unattended_runs_are_not_flushed(self, trigger: Trigger) -> None:
        """Heartbeats, schedules and subagents have nothing of a person's to save."""
        found = planned(total_tokens=DUE, overflowed=True, trigger=trigger)
        assert (found["flush"], found["reason"]) == (False, "unattended")

    @pytest.mark.row("A072", "… not in a read-only workspace", of="`/v1/flush/plan` asks an agent")
    @pytest.mark.parametrize("workspace", ["ro", "none"])
    def test_read_only_workspaces_are_not_flushed(self, workspace: Access) -> None:
        """A sandbox without a writable workspace."""
        assert planned(total_tokens=DUE, workspace=workspace)["reason"] == "read_only"

    @pytest.mark.row("A072", "… not for heartbeats and CLI backends", of="`/v1/flush/plan` asks an agent")
    def test_cli_backends_are_not_flushed(self) -> None:
        """A CLI backend compacts by itself."""
        assert planned(total_tokens=DUE, cli_backend=True)["reason"] == "cli_backend"

    def test_flush_can_be_disabled(self) -> None:
        assert planned(Rules(enabled=False), total_tokens=DUE, overflowed=True)["reason"] == "disabled"

    def test_unknown_tokens_decide_nothing(self) -> None:
        """Without a count or a size, it is an error and not a guess."""
        assert planned()["reason"] == "unknown_tokens"
        assert planned(transcript_bytes=10**9)["reason"] == "unknown_tokens"
        assert planned(Rules(force_transcript_bytes=10), transcript_bytes=9)["reason"] == "not_yet"

    @pytest.mark.row("A166", "… a threshold of zero is refused, with its fix", of="`/v1/flush/plan` asks an agent")
    @pytest.mark.parametrize("window", [1, 16_000, 24_000])
    def test_threshold_of_zero_is_refused(self, window: int) -> None:
        """24,000 − 20,000 − 4,000 = 0 would flush at every turn: an error that names the numbers and the fix."""
        with pytest.raises(BadInput, match=r"reserve_floor_tokens \(20,000\).*lower these two"):
            planned(window=window, total_tokens=1)
        assert planned(window=24_001, total_tokens=1)["flush"]

    @given(
        st.integers(24_001, 10**7),
        st.integers(0, 10**7),
        st.integers(0, 10**7),
        st.text(max_size=50),
        st.integers(0, 3),
    )
    def test_more_tokens_never_prevent_a_flush(
        self, window: int, total: int, more: int, incoming: str, compactions: int
    ) -> None:
        """Once due, due with anything added, until it was done."""
        before = planned(window=window, total_tokens=total, compactions=compactions)
        after = planned(window=window, total_tokens=total + more, incoming=incoming, compactions=compactions)
        assert before["flush"] <= after["flush"]


class TestWords:
    @pytest.mark.row("A073", "… day and time are in the user's time zone", of="`/v1/flush/plan` asks an agent")
    def test_prompt_has_the_day_in_the_users_zone(self) -> None:
        """22:30 UTC on the 4th is 07:30 on the 5th in Tokyo, and still the 4th in New York."""
        for zone, day, clock in (
            ("Asia/Tokyo", "2026-03-05", "07:30"),
            ("America/New_York", "2026-03-04", "17:30"),
            ("UTC", "2026-03-04", "22:30"),
        ):
            found = plan(Context(WINDOW), Rules(), NOW, zone)
            assert found["path"] == f"memory/{day}.md"
            assert f"Store durable memories only in memory/{day}.md" in found["prompt"]
            assert f"{day} {clock} ({zone})" in found["prompt"].splitlines()[-1]
            assert found["prompt"].splitlines()[-1].startswith("Current time: ")
            assert "YYYY" not in found["prompt"] + found["system_prompt"]
            assert (datetime.fromisoformat(found["time"]), found["zone"]) == (NOW, zone)

    def test_empty_zone_is_the_machines(self) -> None:
        """As this computer writes its dates."""
        assert plan(Context(WINDOW), Rules(), NOW)["path"] == f"memory/{NOW.astimezone():%Y-%m-%d}.md"

    @pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "\0", "é"])
    def test_unknown_zone_is_refused(self, zone: str) -> None:
        """Whatever it looks like, with the fix."""
        with pytest.raises(BadInput, match="IANA"):
            plan(Context(WINDOW), Rules(), NOW, zone)

    @pytest.mark.feature("… in the words of OpenClaw's prompts", of="`/v1/flush/plan` asks an agent")
    def test_prompts_have_openclaws_words(self) -> None:
        """Word for word, with the day's date; the time is added to what the agent is asked."""
        found = planned(total_tokens=DUE)
        only = "Store durable memories only in memory/2026-03-04.md (create memory/ if needed).\n"
        untouched = (
            "Treat workspace bootstrap/reference files such as MEMORY.md, SOUL.md, TOOLS.md, and AGENTS.md as "
            "read-only during this flush; never overwrite, replace, or edit them.\n"
        )
        append = (
            "If memory/2026-03-04.md already exists, APPEND new content only and do not overwrite existing entries.\n"
        )
        assert found["system_prompt"] == (
            "Pre-compaction memory flush turn.\n"
            "The session is near auto-compaction; capture durable memories to disk.\n"
            f"{only}{untouched}{append}"
            "You may reply, but usually NO_REPLY is correct."
        )
        assert found["prompt"] == (
            f"Pre-compaction memory flush.\n{only}{untouched}{append}"
            "If nothing to store, reply with NO_REPLY.\n"
            "Current time: Wednesday, 2026-03-04 22:30 (UTC)"
        )

    @pytest.mark.row("A074", "… the three safety lines are in every prompt", of="`/v1/flush/plan` asks an agent")
    def test_every_prompt_has_the_three_safety_lines(self) -> None:
        """In the user's own as well, once each, with the day's name."""
        lines = [line.replace("YYYY-MM-DD", "2026-03-04") for line in SAFETY]
        assert len(lines) == 3
        own = f"Save it. {SAFETY[1]}"
        found = plan(
            Context(WINDOW), Rules(), NOW, "UTC", prompt=own, system_prompt="Overwrite MEMORY.md with YYYY-MM-DD."
        )
        for prompt in (found["prompt"], found["system_prompt"]):
            assert [prompt.count(line) for line in lines] == [1, 1, 1]
        assert found["prompt"].startswith("Save it. ")
        assert found["system_prompt"].startswith("Overwrite MEMORY.md with 2026-03-04.")

    def test_flush_turn_is_never_captured(self) -> None:
        """The agent may answer NO_REPLY; the turn and that answer are no conversation."""
        found = planned(total_tokens=DUE)
        assert "NO_REPLY" in found["prompt"]
        assert said(found["prompt"], "user").reason == UNATTENDED
        assert is_silent("NO_REPLY")
