"""Finds pictures and recordings in the folders by the vectors of a multimodal model.

In the index such a file is an entry whose text is a handle: it begins with a NUL, which no text of a user's file has,
so it has no words. Its vector is that of the file's bytes; `MediaEmbedder` reads them when the entry is embedded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from fusion.contract import Embedder, EmbedsMedia, Media, TokenVectors
from fusion.errors import InvalidAnswer, SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MIMES = {
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".heic": "image/heic",
    ".heif": "image/heif",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".opus": "audio/opus",
    ".m4a": "audio/mp4",
    ".aac": "audio/aac",
    ".flac": "audio/flac",
}
SUFFIX = "#media"
"""ends the native id of a picture or recording"""
_MARK = "\0media"


def mime_of(path: str) -> str | None:
    """The MIME type of a file that may be embedded, by its name."""
    return MIMES.get(PurePosixPath(path).suffix.lower())


def handle(document: str, mime: str, digest: bytes) -> str:
    """The text of a file in the index, unique to its content."""
    return f"{_MARK} {mime} {digest.hex()} {document}"


def is_handle(text: str) -> bool:
    return text.startswith(_MARK)


def shown(document: str, mime: str, size: int) -> str:
    """The text that represents the file in an answer, which has words only."""
    kind = "Picture" if mime.startswith("image/") else "Recording"
    return f"{kind}: {document} ({mime}, {max(1, size >> 10):,} kB)"


class MediaEmbedder:
    """The `Embedder` port for texts and handles; ``read`` gives a document's bytes if they have that digest still.

    Raises SettingsError where ``embedder`` takes texts only. The cached vector of a handle is found without reading.
    """

    def __init__(self, embedder: Embedder, read: Callable[[str, bytes], bytes]) -> None:
        if not isinstance(embedder, EmbedsMedia) or not embedder.sees:
            raise SettingsError(
                f"[backends.markdown] media = true: {embedder.identity} takes texts only; write [embedder] "
                'provider = "gemini", model = "gemini-embedding-2", or leave media out'
            )
        self.identity, self.dimensions = embedder.identity, embedder.dimensions
        self._embedder, self._sight, self._read = embedder, embedder, read

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        plain = [text for text in texts if not is_handle(text)]
        if len(plain) == len(texts):
            return await self._embedder.embed(texts, keep=keep)
        found: dict[str, Floats] = {}
        if plain:
            found |= zip(plain, await self._embedder.embed(plain, keep=keep), strict=True)
        handles = [text for text in texts if is_handle(text)]
        found |= zip(handles, await self._sight.embed_media([self._media(text) for text in handles]), strict=True)
        return np.stack([found[text] for text in texts])

    async def query_tokens(self, text: str) -> TokenVectors:
        return await self._embedder.query_tokens(text)

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        return await self._embedder.tokens(texts, deadline_s)

    async def forget(self, texts: Sequence[str]) -> None:
        await self._embedder.forget(texts)

    async def close(self) -> None:
        await self._embedder.close()

    def _media(self, text: str) -> Media:
        try:
            _, mime, digest, document = text.split(" ", 3)
            expected = bytes.fromhex(digest)
        except ValueError:
            raise InvalidAnswer("an entry of the index is a handle of no file") from None
        return Media(text, mime, lambda: self._read(document, expected))
