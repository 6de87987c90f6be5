"""Chooses the embedder: the model on this machine, a provider's server, or none.

    [embedder]
    provider = "local"   # embed-serve, openai, gemini, voyage, mistral, ollama, lmstudio, compatible, auto or none, too

Texts leave this machine only if the configuration says so: a key in the environment alone does not suffice, because the
default is ``local``. ``auto`` is the user's consent: it takes the first available of local, openai, gemini, voyage,
mistral (seed 001), where a provider is available if its key is in its usual variable. It never takes Ollama. A named
provider that is not available is an error at the start, without a fallback. If a provider stops answering later, its
vectors are filled in when it answers again, and search uses words meanwhile.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.embedders.compatible import COMPATIBLE, LM_STUDIO
from adapters.embedders.gemini import GEMINI
from adapters.embedders.local import LocalEmbedder, model_of
from adapters.embedders.mistral import MISTRAL
from adapters.embedders.ollama import OLLAMA
from adapters.embedders.openai import OPENAI
from adapters.embedders.options import Options
from adapters.embedders.provider_spec import ProviderSpec
from adapters.embedders.served import NAME as SERVED
from adapters.embedders.served import ServedEncoder
from adapters.embedders.voyage import VOYAGE
from adapters.http import checked
from fusion.contract import Embedder, EncodesLater, Media, TokenVectors, VerifiesOptions
from fusion.errors import ModelMissing, SettingsError, Unauthorized

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adapters.embedders.http_embedder import HttpEmbedder

log = logging.getLogger(__name__)

LOCAL, AUTO = "local", "auto"
PRIORITY = (OPENAI, GEMINI, VOYAGE, MISTRAL)
APIS: Mapping[str, ProviderSpec] = {api.name: api for api in (*PRIORITY, OLLAMA, LM_STUDIO, COMPATIBLE)}


class Providers:
    """Opens the embedder that ``[embedder]`` chooses. SettingsError and ModelMissing say how to fix them."""

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """The choice, as a text. Sends no request."""
        if (served := _served(options)) is not None:
            return f"{model_of(options).identity} at {checked(served.url)}: texts are sent there"
        api, chosen = choose(options)
        if api is None:
            return f"{LocalEmbedder.verify(options)}, on this machine"
        return f"{api.name}/{chosen.model} at {checked(chosen.url)}: texts are sent there"

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> Embedder:
        if (served := _served(options)) is not None:
            log.info("the model runs at %s: texts are sent there", checked(served.url))
            return await LocalEmbedder.open_over(lambda model: ServedEncoder(model, served), folder, options)
        api, chosen = choose(options)
        if api is None:
            return await LocalEmbedder.open(folder, options)
        from adapters.embedders.http_embedder import HttpEmbedder

        dense = await HttpEmbedder.open(api, folder, chosen)
        log.info("embeddings come from %s: texts are sent to %s", dense.identity, checked(chosen.url))
        if options.get("alone"):  # another embedder of the home has the local model
            return Composed(dense, None)
        try:
            local = await LocalEmbedder.open(folder, {**options, "model": ""})  # the model named is the provider's
        except ModelMissing:
            local = None
        return Composed(dense, local)


def _served(options: Mapping[str, object]) -> Options | None:
    """The options of `fusion embed-serve`, if the settings choose it. Raises SettingsError without its url."""
    given = Options.of(options)
    if given.provider != SERVED:
        return None
    if not given.url:
        raise SettingsError('[embedder] provider = "embed-serve" needs url = …, as `fusion embed-serve` prints it')
    checked(given.url)
    return given


class Composed:
    """Dense vectors of ``dense``, and token vectors of ``local`` to compare a query with its candidates.

    So the provider gets the query and nothing else. Without ``local`` there are no token vectors.
    """

    def __init__(self, dense: HttpEmbedder, local: Embedder | None) -> None:
        self.identity, self.dimensions = dense.identity, dense.dimensions
        self.local = local
        self.sees = dense.sees
        self._dense = dense

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        """See the port. Texts that are stored get their token vectors in the background."""
        vectors = await self._dense.embed(texts, keep=keep)
        if keep and isinstance(self.local, EncodesLater):
            tokens = await self.local.tokens(texts, 0)
            self.local.encode_later([text for text, found in zip(texts, tokens, strict=True) if found is None])
        return vectors

    async def embed_media(self, media: Sequence[Media]) -> NDArray[np.float32]:
        return await self._dense.embed_media(media)

    async def query_tokens(self, text: str) -> TokenVectors:
        return await self._late().query_tokens(text)

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        return await self._late().tokens(texts, deadline_s)

    async def forget(self, texts: Sequence[str]) -> None:
        await self._dense.forget(texts)
        if self.local is not None:
            await self.local.forget(texts)

    async def close(self) -> None:
        await self._dense.close()
        if self.local is not None:
            await self.local.close()

    def _late(self) -> Embedder:
        if self.local is None:
            raise ModelMissing("only the local model gives a vector a token, and it is not installed")
        return self.local


def choose(
    options: Mapping[str, object], *, local: type[VerifiesOptions] = LocalEmbedder
) -> tuple[ProviderSpec | None, Options]:
    """The provider, or None for the local model, and the complete options to open it with.

    Raises SettingsError if the named provider is not available.
    """
    given = Options.of(options)
    if given.provider == LOCAL:
        return None, given
    api = _first(given, options, local) if given.provider == AUTO else APIS.get(given.provider)
    if api is None:
        if given.provider == AUTO:
            return None, given
        names = ", ".join((LOCAL, SERVED, *APIS, AUTO, "none"))
        raise SettingsError(f"[embedder] provider = {given.provider!r}: there are {names}")
    chosen = replace(
        given,
        model=given.model or api.model,
        url=given.url or api.url,
        api_key_env=given.api_key_env or ("" if given.api_key_file else api.key_env),
    )
    for name, value in (("url", chosen.url), ("model", chosen.model)):
        if not value:
            raise SettingsError(f"[embedder] provider = {api.name!r} needs {name} = …")
    checked(chosen.url)
    try:
        chosen.key()
    except Unauthorized as error:
        fix = f"set {chosen.api_key_env}" if chosen.api_key_env else "fix it"
        raise SettingsError(
            f"[embedder] provider = {api.name!r}: {error}: {fix}, or name the file that has the key by api_key_file; "
            'provider = "local" needs none'
        ) from None
    return api, chosen


def _first(given: Options, options: Mapping[str, object], local: type[VerifiesOptions]) -> ProviderSpec | None:
    """The first available provider, in the order of seed 001; ``None`` is the local model."""
    if given.model or given.url or given.api_key_env or given.api_key_file or given.dimensions:
        raise SettingsError(
            '[embedder] provider = "auto" takes each provider as it is: name one, or leave out model, url, dimensions, '
            "api_key_env and api_key_file"
        )
    try:
        local.verify(options)
    except ModelMissing as missing:
        for api in PRIORITY:
            if os.environ.get(api.key_env, "").strip():
                return api
        keys = ", ".join(api.key_env for api in PRIORITY)
        raise SettingsError(f'[embedder] provider = "auto" finds none of {keys}, and {missing}') from None
    return None
