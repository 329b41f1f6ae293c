"""Origin: from where a response came, and for which request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawlframe.files.saved_file import SavedFile
    from crawlframe.near_duplicate import NearDuplicate
    from crawlframe.request import Request
    from crawlframe.stored_page import StoredPage


class Origin:
    """What the engine sets of a response. ``not_modified``: the server answered 304, and the page
    is that of the store. ``unchanged``: the body is that of the page as it was kept last; False
    also if that is not known. ``stored``: the page of the store, if nothing was fetched.
    ``near_duplicate``: with the setting near_duplicates, the page that this one is nearly the same
    as."""

    request: Request
    file: SavedFile | None = None  # the body, if it went into the file store
    # Method, URL and headers of the transfer; None: a middleware or the cache made the response.
    sent: tuple[str, str, list[tuple[str, str]]] | None = None
    stored: StoredPage | None = None
    not_modified = False
    unchanged = False
    near_duplicate: NearDuplicate | None = None

    @property
    def meta(self) -> dict[str, Any]:
        return self.request.meta

    @property
    def cb_kwargs(self) -> dict[str, Any]:
        return self.request.cb_kwargs
