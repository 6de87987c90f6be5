"""`fusion embed-serve`: one local model for any number of gateways."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.connect import print_json
from fusion.errors import SettingsError

KEY = "FUSION_EMBED_KEY"
"""the variable with the key that requests need"""


@command(without=["home", "config", "direct"])
def embed_serve(
    *,
    model: Annotated[str, typer.Option(help="A model that `fusion models` lists.")] = "minilm",
    host: Annotated[
        str, typer.Option(help=f"Address to listen on. An address other than loopback needs a key in {KEY}.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8766,
    threads: Annotated[
        int, typer.Option(min=0, help="Requests that are encoded at once; 0: one for each processor, at most four.")
    ] = 0,
    target: Target,
) -> None:
    """Serve a local embedding model to many gateways.

    It keeps no text. Gateways use it with provider = "embed-serve" and its url in their settings; other programs by the
    API of OpenAI (/v1/embeddings) or of Text Embeddings Inference (/embed).
    """
    from fusion.doors.http.embed_serve import serve
    from fusion.local_models.registry import named

    key = os.environ.get(KEY, "").strip()
    chosen = named(model)
    if chosen.kind != "embedder":
        raise SettingsError(
            f"{chosen.name} is a {chosen.kind} and makes no vectors: choose an embedder of fusion models"
        )

    def ready(url: str) -> None:
        if target.as_json:
            print_json({"url": url, "model": chosen.name, "identity": chosen.identity})
        else:
            print(f"{chosen.name} is served on {url}", file=sys.stderr, flush=True)

    serve(chosen, host, port, threads, key, ready)
