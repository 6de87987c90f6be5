"""A group of commands that lists what there is when none of them is named."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class ListFirst(TyperGroup):
    """Reads `fusion jobs` as `fusion jobs list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        helps = {"--help", "-h"} & {*args}
        return super().parse_args(ctx, args if helps or (args and not args[0].startswith("-")) else ["list", *args])
