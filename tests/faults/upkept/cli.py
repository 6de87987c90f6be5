"""The lifecycle of an `Upkept`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fusion.extension import Call


@dataclass(frozen=True)
class Lifecycle:
    """Wait while there is the file that UPKEPT_HOLD names."""

    dry_run: Annotated[bool, "Only count."] = False

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        while Path(os.environ["UPKEPT_HOLD"]).exists():  # noqa: ASYNC110 — another process removes it
            await asyncio.sleep(0.01)
        return {"expired": 1}


VERBS = {"lifecycle": Lifecycle}
