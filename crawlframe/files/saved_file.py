"""SavedFile: a body that is kept in the file store, as callbacks and items see it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, Protocol

from crawlframe.base.stats import RUNNING
from crawlframe.errors import StoreError


class FileRoom(Protocol):
    """The directory of the files of a response."""

    def open(self, sha256: str) -> BinaryIO: ...

    def keep(self, data: bytes, sha256: str) -> str:
        """Stores another file, which belongs to the same page. Returns its path."""


@dataclass(frozen=True)
class SavedFile:
    """A file of the store. ``path`` is its place there, ``size`` is in bytes; both after
    decompression. ``media_type`` is found by the Content-Type and the first bytes. ``url`` is its
    source, after redirects. It may be the value of a field of an item, which stores these five."""

    url: str
    path: str
    sha256: str
    size: int
    media_type: str

    _room: ClassVar[FileRoom | None] = None

    def open(self) -> BinaryIO:
        """Opens the file for reading, in the worker that saved it. Raises FileGone if it was
        pruned meanwhile, and other kinds of StoreError."""
        return self._opened().open(self.sha256)

    def thumbnail(self, width: int, height: int) -> SavedFile:
        """Makes a small copy of an image, of at most ``width`` by ``height`` pixels, and saves it
        with the page. Needs the extra ``images``. Raises ImageRefused for other files, and for
        images of more than 50 million pixels, and StoreError."""
        from crawlframe.files.thumbnails import thumbnail

        room = self._opened()
        with room.open(self.sha256) as file:
            data, kind = thumbnail(file, width, height)
        sha256 = hashlib.sha256(data).hexdigest()
        path = room.keep(data, sha256)
        small = SavedFile(self.url, path, sha256, len(data), kind).within(room)
        running = RUNNING.get(None)
        of_page: list[SavedFile] | None = getattr(running and running.results, "files", None)
        if of_page is not None:
            of_page.append(small)
        return small

    def within(self, room: FileRoom) -> SavedFile:
        """Returns the same file, which can be opened."""
        object.__setattr__(self, "_room", room)
        return self

    def _opened(self) -> FileRoom:
        if self._room is None:
            raise StoreError(
                f"{self.path} cannot be opened here: only response.file can, in the callback that "
                "receives the response"
            )
        return self._room
