"""SavedFile: a body that is kept in the file store, as callbacks and items see it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol

from crawlframe.base.stats import RUNNING
from crawlframe.errors import ConfigError, ImageRefused, StoreError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP")
MAX_PIXELS = 50_000_000  # of an image, which has 3 or 4 bytes for each when it is decoded
MAX_SIDE = 4096  # pixels of a thumbnail
QUALITY = 85  # of JPEG


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
        from crawlframe.files.saved_file import thumbnail

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


def thumbnail(file: BinaryIO, width: int, height: int) -> tuple[bytes, str]:
    """An image that fits into ``width`` by ``height`` pixels, and its media type: JPEG, or PNG for
    one with transparency. Of an animation, the first picture. It is never larger than the original.
    Raises ImageRefused, and ConfigError without Pillow."""
    _check_side(width)
    _check_side(height)
    image_of, refusals = _pillow()
    try:
        with image_of(file, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ImageRefused(
                    f"the image has {image.width} x {image.height} pixels, more than {MAX_PIXELS:,}"
                )
            return _made(image, width, height)
    except refusals as error:
        raise ImageRefused(f"it is no image that can be read: {error}") from None


def _check_side(side: object) -> None:
    if not isinstance(side, int) or not 0 < side <= MAX_SIDE:
        raise ValueError(f"a thumbnail has 1 to {MAX_SIDE} pixels a side, not {side!r}")


def _made(image: Image.Image, width: int, height: int) -> tuple[bytes, str]:
    from PIL import ImageOps

    image.draft("RGB", (width, height))  # of a JPEG, fewer pixels are decoded
    upright = ImageOps.exif_transpose(image)
    transparent = upright.has_transparency_data
    small = upright.convert("RGBA" if transparent else "RGB")
    small.thumbnail((width, height))
    out = BytesIO()
    if transparent:
        small.save(out, "PNG", optimize=True)
        return out.getvalue(), "image/png"
    small.save(out, "JPEG", quality=QUALITY)
    return out.getvalue(), "image/jpeg"


def _pillow() -> tuple[Any, tuple[type[Exception], ...]]:
    """Pillow's function that opens an image, and its errors for a bad one."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ConfigError(
            "thumbnails need the extra images: pip install 'crawlframe[images]'"
        ) from None
    bomb = Image.DecompressionBombError
    return Image.open, (UnidentifiedImageError, bomb, OSError, SyntaxError, ValueError, EOFError)
