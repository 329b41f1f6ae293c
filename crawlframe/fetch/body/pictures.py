"""PictureStore: keeps a browser's pictures in the file store, for the page of the request."""

from __future__ import annotations

import asyncio
import hashlib
import logging

from crawlframe.conf import Settings
from crawlframe.errors import FetchError, StoreError
from crawlframe.files.saved_file import SavedFile
from crawlframe.files.store import StoreRoom, open_store
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.picture import FAILURE, MEDIA_TYPES, PDF, SCREENSHOT, Picture
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict

MAX_SIZE = 8 << 20  # bytes of one that is kept

log = logging.getLogger(__name__)


def pictures_of(got: Response | FetchError) -> list[Picture]:
    """Pictures of a page: by its actions, and in case that its request fails."""
    if isinstance(got, FetchError):
        given = [(FAILURE, got.picture)]
    elif isinstance(got, RenderedResponse):
        rendered = got.rendered
        given = [(SCREENSHOT, rendered.screenshot), (PDF, rendered.pdf)]
        given.append((FAILURE, rendered.picture))
    else:
        return []
    return [Picture(kind, data) for kind, data in given if data]


class PictureStore:
    """The pictures of one worker."""

    def __init__(self, settings: Settings) -> None:
        self._room = StoreRoom(open_store(settings))

    async def keep(self, outcome: Outcome) -> Outcome:
        """Stores the pictures of an outcome that fit its verdict, and drops the others. One that
        cannot be stored does not fail the request."""
        taken, outcome.results.pictures = outcome.results.pictures, []
        for picture in taken:
            if outcome.verdict is not (Verdict.ERROR if picture.kind == FAILURE else Verdict.DONE):
                continue
            size = len(picture.data)
            if size > MAX_SIZE:
                log.warning(
                    "the %s of %s is not shown in the admin: it has %d bytes, more than %d",
                    *(picture.kind, outcome.url, size, MAX_SIZE),
                )
                continue
            try:
                file = await asyncio.to_thread(self._stored, outcome.url, picture)
            except (StoreError, OSError) as error:
                log.warning("the %s of %s is not kept: %s", picture.kind, outcome.url, error)
                continue
            outcome.results.pictures.append(Picture(picture.kind, b"", file))
        return outcome

    def _stored(self, url: str, picture: Picture) -> SavedFile:
        sha256 = hashlib.sha256(picture.data).hexdigest()
        path = self._room.keep(picture.data, sha256)
        return SavedFile(url, path, sha256, len(picture.data), MEDIA_TYPES[picture.kind])
