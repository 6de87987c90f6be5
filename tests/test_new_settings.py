"""Single settings of a `fusion.toml` are changed; everything else in it stays as its owner wrote it."""

from __future__ import annotations

import tomllib

import pytest

from fusion.errors import SettingsError
from fusion.new_settings import new_file, with_settings

URL = "postgresql://ana@db/x"
THERE = {"url": URL, "url_env": ""}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", f'[database]\nurl = "{URL}"\n'),
        ("# mine\nrecipe = 'deep' # why\n", f"# mine\nrecipe = 'deep' # why\n\n[database]\nurl = \"{URL}\"\n"),
        (
            '[database] # here\n# url = ""\nconnections = 4\n[server]\nport = 1\n',
            f'[database] # here\n# url = ""\nurl = "{URL}"\nconnections = 4\n[server]\nport = 1\n',
        ),
        ('[database]\nurl_env = "A"\n', f'[database]\nurl = "{URL}"\n# url_env = "A"\n'),
        ('[database]\nurl = "postgresql://old"\n', f'[database]\nurl = "{URL}"\n'),
    ],
)
def test_a_setting_is_written_below_its_table(text: str, changed: str) -> None:
    assert with_settings(text, "database", THERE) == changed


def test_what_is_taken_away_becomes_a_comment_and_can_be_written_again() -> None:
    there = with_settings(new_file([], "Mine."), "database", THERE)
    without = with_settings(there, "database", {"url": "", "url_env": ""})
    assert tomllib.loads(without) == {**tomllib.loads(there), "database": {}}
    assert with_settings(without, "database", THERE).count(f'\nurl = "{URL}"\n') == 1


@pytest.mark.parametrize(
    "text", ["database = {connections = 4}\n", "database.connections = 4\n", "prompt = '''\n[database]\nurl = 1\n'''\n"]
)
def test_a_file_in_another_form_is_left_to_its_owner(text: str) -> None:
    with pytest.raises(SettingsError, match=r"\[database\] are written in a form that no program changes"):
        with_settings(text, "database", THERE)
