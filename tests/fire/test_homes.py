"""Nothing escapes from a hostile home in a cloned repository."""

from __future__ import annotations

import pytest
import typer

from fusion.doors.cli import app
from fusion.trust import why_refused
from tests.fire.homes import AFTER_ALLOWING, DOORS, HOMES, Door, attack, attack_allowed, world

BY_NAME = {door.name: door for door in DOORS}


@pytest.mark.parametrize("home", HOMES)
def test_hostile_home_is_not_opened(home: str) -> None:
    """Neither found by its folder nor named; all that it needs is looked at in this process."""
    with world() as (made, listener):
        HOMES[home](made)
        assert why_refused(made.home)
        assert why_refused(made.home, named=True)
        assert not made.marker.exists()
        assert listener.heard == []


@pytest.mark.feature(
    "nothing escapes from a hostile home in a cloned repository: every home × command × hook × client by `python "
    "-m benchmarks fire homes`"
)
@pytest.mark.parametrize(
    ("home", "door"),
    [
        ("a_module_in_the_repository", "hook session-start"),
        ("a_journal_that_speaks", "hook user-prompt-submit"),
        ("server_elsewhere_with_a_token_of_its_own", "hook stop"),
        ("a_link_at_server_log", "hook session-end"),
        ("server_elsewhere", "mcp"),
        ("embedder_with_a_key_of_another_program", "client"),
        ("notes_of_the_users_private_folder", "open"),
        ("pickle_in_a_local_qdrant", "fuse --direct"),
        ("a_link_at_lock", "remember"),
        ("a_process_to_stop", "stop"),
        ("a_module_in_a_package_of_the_repository", "help"),
        ("escapes_for_the_terminal", "allow"),
        ("the_folder_itself_a_link", "init"),
        ("a_fifo_at_lock", "doctor"),
        ("hooks_of_git", "allow --dry-run"),
        ("recipes_elsewhere", "allow"),
        ("the_folder_itself_a_link", "allow"),
    ],
)
def test_hostile_home_reaches_nothing_through_any_door(home: str, door: str) -> None:
    """A real process of a user with an empty home folder; the figure has every home and door."""
    assert attack(home, BY_NAME[door]) == []


@pytest.mark.feature(
    "… links, keys of other programs and strangers' servers do not work even if the user has allowed the home",
    of="nothing escapes from a hostile home",
)
@pytest.mark.parametrize(
    ("home", "door"),
    [
        ("server_elsewhere_with_a_token_of_its_own", "hook user-prompt-submit"),
        ("embedder_with_a_key_of_another_program", "fuse"),
        ("a_link_at_server_log", "fuse"),
        ("a_process_to_stop", "stop"),
    ],
)
def test_attacks_that_fail_in_an_allowed_home(home: str, door: str) -> None:
    """Somebody agreed without looking: no link is followed, no key of another program sent, no stranger asked."""
    assert attack_allowed(home, next(one for one in AFTER_ALLOWING if one.name == door)) == []


def test_attacks_cover_every_command() -> None:
    """A new command is a new door."""
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # a group's
    assert commands <= {door.arguments[0] for door in DOORS if door.arguments}


def test_attacks_find_what_an_allowed_home_does() -> None:
    """The canaries work: a module of the repository runs where the user has allowed it."""
    door = Door("fuse", ["fuse", "what is it?", "--direct"])
    assert "ran code" in attack_allowed("a_module_in_the_repository", door)
