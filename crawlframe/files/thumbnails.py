"""Thumbnails of saved images, by Pillow (the extra ``images``). Images come from any site, so their
formats and sizes are limited before anything is decoded."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

from crawlframe.errors import ConfigError, ImageRefused

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP")
MAX_PIXELS = 50_000_000  # of an image, which has 3 or 4 bytes for each when it is decoded
MAX_SIDE = 4096  # pixels of a thumbnail
QUALITY = 85  # of JPEG


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
