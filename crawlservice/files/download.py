"""The answer that hands out a saved file. Its content comes from any site: browsers must neither
show it as a page of ours nor guess its type."""

from __future__ import annotations

import mimetypes
import re
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.http import FileResponse

from crawlframe.files.store import FileStore, open_store
from crawlframe.response.picture import FAILURE, SCREENSHOT
from crawlservice.models import PageFile

PNG = b"\x89PNG\r\n\x1a\n"
IMAGES = {b"\xff\xd8\xff": "image/jpeg", PNG: "image/png"}  # by the first bytes
SHOWN = (SCREENSHOT, FAILURE)
NAME = 120  # characters of a file name
_UNSAFE = re.compile(r"[^\w.,()+@-]+|^[.-]+")


def answer(row: PageFile) -> FileResponse:
    """Raises StoreError."""
    response = FileResponse(
        store().open(row.file_id),
        as_attachment=True,
        filename=name_of(row.url, row.file.media_type, row.file_id),
        content_type="application/octet-stream",
    )
    response.headers["Content-Length"] = str(row.file.size)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


def picture(row: PageFile) -> FileResponse | None:
    """A picture that may be shown; None for other files than JPEG and PNG. Raises StoreError."""
    file = store().open(row.file_id)
    head = file.read(len(PNG))
    kind = next((kind for magic, kind in IMAGES.items() if head.startswith(magic)), None)
    if kind is None:
        file.close()
        return None
    file.seek(0)
    response = FileResponse(file, content_type=kind)
    response.headers["Content-Length"] = str(row.file.size)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response.headers["Cache-Control"] = "private, max-age=3600"
    return response


def name_of(url: str, media_type: str, sha256: str) -> str:
    """A harmless file name, from the last part of the URL."""
    name = _UNSAFE.sub("_", PurePosixPath(unquote(urlsplit(url).path)).name).strip("_")
    name = name or sha256[:12]
    suffix = mimetypes.guess_extension(media_type) or ""
    if "." not in name:
        name += suffix
    return name if len(name) <= NAME else f"{name[: NAME - 20]}{name[-20:]}"


@cache
def store() -> FileStore:
    return open_store(settings.CRAWLFRAME)
