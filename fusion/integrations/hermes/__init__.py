"""Memory for Hermes Agent: the memory provider `memory-fusion`, with any number of Hermes' own providers behind it.

    python -m fusion.integrations.hermes install     # in the Python environment of Hermes
    hermes config set memory.provider memory-fusion

Hermes takes one external memory provider. This one recalls from memory-fusion and keeps what is said there, and it
hands everything on to the providers that `memory-fusion.json` names, so that they all work at once: `provider` has the
class that Hermes calls, `others` the providers behind it, and `joined_block` makes one block of what all recall.

Hermes finds providers in folders of `plugins` alone, so `__main__` writes one whose module imports `register`.
"""

from __future__ import annotations

from typing import Any


def register(context: Any) -> None:
    """Give Hermes the provider; the folder of the plugin has this function."""
    from fusion.integrations.hermes.provider import FusionProvider

    context.register_memory_provider(FusionProvider())
