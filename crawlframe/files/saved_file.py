"""SavedFile: a body that is kept in the file store, as callbacks and items see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, ClassVar, Protocol

from crawlframe.errors import StoreError


class Opener(Protocol):
    """What a file can be read from, such as a file store."""

    def open(self, sha256: str) -> BinaryIO: ...


@dataclass(frozen=True)
class SavedFile:
    """A file of the store. ``path`` is its place there, ``size`` is in bytes; both are those of the
    content after decompression. ``media_type`` is what the Content-Type and the first bytes say.
    ``url`` is where it was downloaded from, after redirects. It may be the value of a field of an
    item, which stores these five."""

    url: str
    path: str
    sha256: str
    size: int
    media_type: str

    _store: ClassVar[Opener | None] = None

    def open(self) -> BinaryIO:
        """Opens the file for reading, in the worker that saved it. Raises StoreError."""
        if self._store is None:
            raise StoreError(
                f"{self.path} cannot be opened here: only response.file can, in the callback that "
                "receives the response"
            )
        return self._store.open(self.sha256)

    def within(self, store: Opener) -> SavedFile:
        """Returns the same file, which can be opened."""
        object.__setattr__(self, "_store", store)
        return self
