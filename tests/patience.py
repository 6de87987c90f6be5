"""Settings and options with long deadlines, so that no test depends on the speed or load of the machine.

The default deadlines (one second for a backend, one and a half for a question) are made for users. A test about a
deadline sets its own.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fusion import settings
from fusion.contract import Embedder, LanguageModel, Opening
from fusion.home import config_root
from fusion.settings import BackendSettings, Settings

PATIENT_MS = 60_000
DEFAULT_MS: int = BackendSettings.model_fields["deadline_ms"].default


def opening_at(
    url: str,
    name: str = "subject",
    folder: Path = Path("unused"),
    embedder: Embedder | None = None,
    model: LanguageModel | None = None,
    **options: object,
) -> Opening:
    """The arguments for opening a backend over HTTP or Bolt, with a minute for a connection to its server."""
    return Opening(name, folder, {"url": url, "connect_ms": PATIENT_MS, **options}, embedder, model)


def load(config: Path | None = None, *, home: Path | None = None, **overrides: Any) -> Settings:
    """`fusion.settings.load`, with a minute for each backend and question without a deadline of its own."""
    return patient(settings.load(config, home=home, **overrides))


def patient(impatient: Settings) -> Settings:
    """The same settings with the long deadlines."""
    backends = {
        name: one.model_copy(update={"deadline_ms": PATIENT_MS}) if one.deadline_ms == DEFAULT_MS else one
        for name, one in impatient.backends.items()
    }
    changes: dict[str, Any] = {"backends": backends}
    if impatient.recipes_folder is None and not (impatient.home / "recipes" / "default.toml").exists():
        changes["recipes_folder"] = Path(_recipes().name)
    return impatient.model_copy(update=changes)


@lru_cache(maxsize=1)
def _recipes() -> TemporaryDirectory[str]:
    """The default recipe with the long deadline, in a folder that is deleted with the process."""
    folder = TemporaryDirectory(prefix="patient-")
    shipped = (config_root() / "recipes" / "default.toml").read_text(encoding="utf-8")
    text = shipped.replace("[gather]\n", f"[gather]\ntimeout_ms = {PATIENT_MS}\n")
    Path(folder.name, "default.toml").write_text(text, encoding="utf-8")
    return folder
