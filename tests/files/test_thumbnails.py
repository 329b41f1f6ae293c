"""Thumbnails: small, upright, and of images that cannot do harm."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.errors import ConfigError, ImageRefused
from crawlframe.files.saved_file import MAX_PIXELS, thumbnail
from crawlframe.testing import run

Image = pytest.importorskip("PIL.Image")


def picture(width: int, height: int, kind: str = "JPEG", mode: str = "RGB", **how: Any) -> BytesIO:
    out = BytesIO()
    Image.new(mode, (width, height), how.pop("color", 200)).save(out, kind, **how)
    out.seek(0)
    return out


@pytest.mark.parametrize(
    ("kind", "mode", "media_type"),
    [
        ("JPEG", "RGB", "image/jpeg"),
        ("JPEG", "CMYK", "image/jpeg"),
        ("PNG", "RGBA", "image/png"),
        ("PNG", "L", "image/jpeg"),
        ("GIF", "P", "image/jpeg"),
        ("WEBP", "RGB", "image/jpeg"),
        ("TIFF", "I;16", "image/jpeg"),
    ],
)
def test_an_image_is_made_small(kind: str, mode: str, media_type: str) -> None:
    color = (9, 9, 9, 9)[: {"RGB": 3, "CMYK": 4, "RGBA": 4}.get(mode, 0)] or 200
    data, found = thumbnail(picture(400, 100, kind, mode, color=color), 200, 200)
    assert found == media_type
    with Image.open(BytesIO(data)) as small:
        assert small.size == (200, 50)


def test_it_is_never_larger_than_the_image() -> None:
    data, _ = thumbnail(picture(40, 30), 200, 200)
    with Image.open(BytesIO(data)) as small:
        assert small.size == (40, 30)


def test_it_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    data, _ = thumbnail(picture(400, 100, exif=exif), 200, 200)
    with Image.open(BytesIO(data)) as small:
        assert small.size == (50, 200)


def bomb(side: int) -> bytes:
    """A PNG that says it is large."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(9)))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    "data",
    [
        b"", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%!PS-Adobe-3.0 EPSF", bomb(8000),
        bomb(10_000), bomb(60_000), bomb(100), picture(400, 400).getvalue()[:500],
    ],
)  # fmt: skip
def test_what_is_no_image_or_too_large_is_refused(data: bytes) -> None:
    assert MAX_PIXELS < 8000 * 8000
    with pytest.raises(ImageRefused):
        thumbnail(BytesIO(data), 200, 200)


@pytest.mark.parametrize("size", [(0, 10), (10, 5000), (10, 1.5)])
def test_sizes_that_are_refused(size: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="pixels a side"):
        thumbnail(picture(9, 9), *size)


def test_the_extra_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ConfigError, match="crawlframe\\[images\\]"):
        thumbnail(BytesIO(), 9, 9)


def test_a_callback_saves_thumbnails() -> None:
    class Pictures(Spider):
        name = "pictures"

        def parse(self, response: Response) -> Iterator[Any]:
            assert response.file is not None
            small = response.file.thumbnail(20, 20)
            with small.open() as file:
                assert file.read(2) == b"\xff\xd8"
            yield {"image": response.file, "small": small}

    request = Request("http://a.example/a.jpg", save=["image/*"])
    body = picture(400, 100).getvalue()
    (item,) = run(Pictures, Response(request.url, 200, {}, body, request)).items
    assert item["image"]["size"] == len(body) > item["small"]["size"]
    assert item["small"]["media_type"] == "image/jpeg"
