"""The options of [backends.markdown], and the folders that the gateway hands down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.markdown import Markdown
from adapters.markdown.options import Options
from fusion.contract import NoteFolders, Opening, Scope
from fusion.errors import SettingsError
from fusion.gateway.gateway import Gateway
from fusion.lib.ignore import ALWAYS
from fusion.settings import Settings, load
from tests.adapters.markdown.test_backend import ask

NOTES = NoteFolders((Path("/notes"),), ("drafts/",), Scope(user_id="ada"), 60.0)


def test_options_without_paths_take_the_folders_of_notes() -> None:
    """With the owner, the patterns and the interval; the backend's own settings win, its own patterns are added."""
    options = Options.of({"paths": [], "ignore": []}, NOTES)
    assert options.paths == NOTES.paths
    assert options.ignore == (*ALWAYS, "drafts/")
    assert options.bind == Scope(user_id="ada")
    assert options.interval_s == 60.0
    own = Options.of({"ignore": ["*.tmp.md"], "bind": {"project": "x"}, "interval_s": 5}, NOTES)
    assert own.ignore == (*ALWAYS, "drafts/", "*.tmp.md")
    assert own.bind == Scope(user_id="ada", project="x")
    assert own.interval_s == 5
    assert Options.of({"bind": {"user_id": "bob"}}, NOTES).bind == Scope(user_id="bob")
    with pytest.raises(SettingsError, match="bind must give texts"):
        Options.of({"bind": "x"}, NOTES)


@pytest.mark.feature(
    "… `bind` of the backend is added to the owner of `[notes]`", of="`[notes]`: every backend answers"
)
async def test_bind_next_to_notes_keeps_their_owner(tmp_path: Path) -> None:
    """The note is found once by a question without a user and by its owner's, not by another user's."""
    (notes := tmp_path / "notes").mkdir()
    (notes / "bike.md").write_text("The bike is blue.")
    folders = NoteFolders((notes,), scope=Scope(user_id="ada"))
    options = {"watch": False, "bind": {"project": "x"}}
    backend = await Markdown.open(Opening("markdown", tmp_path / "home", options, notes=folders))
    [hit] = await ask(backend, "bike")
    assert (hit.scope.user_id, hit.scope.project) == ("ada", "x")
    assert len(await ask(backend, "bike", Scope(user_id="ada"))) == 1
    assert await ask(backend, "bike", Scope(user_id="bob")) == []
    await backend.close()


def test_options_with_paths_of_their_own_ignore_those_of_notes() -> None:
    """A home whose settings name the folder twice keeps what it says."""
    options = Options.of({"paths": ["/vault"], "ignore": ["*.tmp.md"]}, NOTES)
    assert options == Options.of({"paths": ["/vault"], "ignore": ["*.tmp.md"]})


async def test_a_backend_that_is_opened_with_notes_searches_them(tmp_path: Path) -> None:
    (notes := tmp_path / "notes").mkdir()
    (notes / "bike.md").write_text("The bike is blue.")
    (notes / "bike.tmp.md").write_text("The bike is a draft.")
    opening = Opening("markdown", tmp_path / "home", {"watch": False}, notes=NoteFolders((notes,), ("*.tmp.md",)))
    backend = await Markdown.open(opening)
    assert [hit.text for hit in await ask(backend, "bike")] == ["The bike is blue."]
    await backend.close()
    backend = await Markdown.open(replace(opening, notes=NoteFolders()))
    assert await ask(backend, "bike") == []
    await backend.close()


def settings_of(home: Path, **tables: Any) -> Settings:
    plain = {"backends_only": True, "embedder": {"adapter": ""}}
    markdown = {"adapter": "adapters.markdown:Markdown", "watch": False, **tables.pop("markdown", {})}
    return load(home=home, backends={"markdown": markdown}, **plain, **tables)


@pytest.mark.feature(
    "… a folder is named once, in `paths` of `[notes]`; the Markdown backend searches the same files",
    of="`[notes]`: every backend answers",
)
@pytest.mark.parametrize("twice", [False, True])
async def test_a_folder_of_notes_is_named_once_and_answered_once(tmp_path: Path, twice: bool) -> None:
    """Also where `[backends.markdown]` names it too: one hit a note, from its own file, without a copy of it."""
    (notes := tmp_path / "notes").mkdir()
    (notes / "bike.md").write_text("The bike is blue.")
    paths = {"paths": [str(notes)]}
    settings = settings_of(tmp_path / "home", notes=paths, markdown=paths if twice else {})
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        answer = await gateway.search("markdown", "bike", Scope())
        [hit] = answer.hits
        assert (hit.text, hit.stated_by) == ("The bike is blue.", f"file:{notes / 'bike.md'}")
        assert len((await gateway.memories(Scope()))["memories"]) == 1
    assert not list((tmp_path / "home/backends/markdown/notes").rglob("*.md"))


async def test_notes_of_the_owner_are_not_handed_to_another_tenant(tmp_path: Path) -> None:
    (notes := tmp_path / "notes").mkdir()
    (notes / "bike.md").write_text("The bike is blue.")
    async with Gateway.open(settings_of(tmp_path / "home", notes={"paths": [str(notes)]})) as gateway:
        for scope, found in ((Scope(), ["The bike is blue."]), (Scope("acme"), [])):
            answer = await gateway.search("markdown", "bike", scope)
            assert [hit.text for hit in answer.hits] == found
