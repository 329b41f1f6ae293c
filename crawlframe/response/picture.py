"""Picture: a screenshot of a page, as it is kept with the request."""

from __future__ import annotations

from typing import NamedTuple

from crawlframe.files.saved_file import SavedFile

SCREENSHOT, PDF, FAILURE = "screenshot", "pdf", "failure"
MEDIA_TYPES = {SCREENSHOT: "image/jpeg", PDF: "application/pdf", FAILURE: "image/jpeg"}


class Picture(NamedTuple):
    """A picture. ``kind``: by an action, or FAILURE, the page of a request that failed. ``file``:
    in the file store; then ``data`` is not needed any more."""

    kind: str
    data: bytes
    file: SavedFile | None = None
