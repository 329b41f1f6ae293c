"""The file that a node makes of the body of a Response, without a file store."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from io import BytesIO
from typing import BinaryIO, Literal

from crawlframe.base.media_type import HEAD, essence_of, is_wanted, media_type
from crawlframe.errors import FileRefused
from crawlframe.files.saved_file import SavedFile
from crawlframe.files.store import path_of
from crawlframe.response.response import Response


class Memory:
    """Files by their hash."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def open(self, sha256: str) -> BinaryIO:
        return BytesIO(self._files[sha256])

    def keep(self, data: bytes, sha256: str) -> str:
        self._files[sha256] = data
        return path_of(sha256)


def saved(response: Response, wanted: Literal[True] | Collection[str]) -> SavedFile:
    """Raises FileRefused for a type that is not wanted."""
    body = response.body
    kind = media_type(essence_of(response.headers.get("Content-Type", "")), body[:HEAD])
    if wanted is not True and not is_wanted(kind, wanted):
        raise FileRefused(
            f"{response.url}: the file is {kind}; the request saves {', '.join(wanted)}"
        )
    sha256 = hashlib.sha256(body).hexdigest()
    room = Memory()
    return SavedFile(response.url, room.keep(body, sha256), sha256, len(body), kind).within(room)
