"""The errors of code, settings, the frontier and callbacks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CrawlframeError(Exception):
    """Something in Crawlframe went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(CrawlframeError):
    """A setting is wrong. Raised at start-up; the message names the setting and how to fix
    it."""


class TablesMissing(ConfigError):
    """The database lacks tables of this version. Raised at start-up; a supervisor recognises it by
    the exit code."""

    exit_code = 4


class SpiderError(CrawlframeError):
    """A spider breaks the contract: bad settings, unknown callback, an item or request that cannot
    be stored. The message names the part of the spider to change."""


class UnknownSpider(SpiderError):
    """No loaded spider has this name."""


class UnknownCallback(SpiderError):
    """The spider has no method of this name."""


class FieldError(CrawlframeError):
    """A given ``field`` has a value that it cannot have."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ArgumentError(CrawlframeError):
    """A spider argument is unknown, missing or of the wrong type."""


class BadRequest(CrawlframeError):
    """A request cannot be made: its URL, method, body or other field is wrong."""


class MissingCode(BadRequest):
    """The code that a queued request needs is missing on this node; another version may have it."""


class FrontierError(CrawlframeError):
    """Redis refused or failed a verb of the frontier."""


class Fenced(FrontierError):
    """This generation was declared dead, and its requests belong to others. Start a new one."""


class EraChanged(Fenced):
    """Redis lost data and was, or is being, filled again from the database. The requests that this
    process holds belong to others now."""


class DropItem(CrawlframeError):
    """Raised by a pipeline: the item is not stored.

    ``reason`` is a short, fixed text; the task shows how many items were dropped for it."""

    def __init__(self, reason: str = "no reason given") -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class PipelineFailed(DropItem):
    """A pipeline raised the cause of this: its item is left out, and the page ends as an error."""


class UnfitItem(DropItem):
    """The item does not fit the class of the items."""


class CloseTask(CrawlframeError):
    """Raised by a callback or a pipeline: the task ends early, as finished.

    Requests in flight end, the rest is cancelled. ``reason`` is shown with the outcome; 200
    characters of it are kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class NotJson(CrawlframeError, ValueError):
    """The body of a response is not JSON."""


class PageClosed(CrawlframeError):
    """The page of a browser is used where there is none: its response was not rendered, its request
    did not keep it, or its callback has ended."""


class UnparsablePage(CrawlframeError):
    """Parsing the page would take too long, so it was not started.

    ``reason`` is the short stable word stored in the ledger."""

    reason = "too_complex"


class TooComplex(UnparsablePage):
    """The page has too many tags, attributes, names or unclosed elements for a parser."""


class TooDeep(UnparsablePage):
    """The elements of the page, or the parts of its JSON, are nested too deeply for a parser."""

    reason = "too_deep"


class MiddlewareError(SpiderError):
    """A middleware breaks its contract: it changes the callback of a request, or does not return a
    Response."""


class HostChanged(MiddlewareError):
    """A middleware sends a request to another host, which would bypass that host's limits. Yield a
    Request for it instead."""


class ImageRefused(CrawlframeError):
    """A file is no image that can be read, or is too large to be decoded."""


class StoreError(CrawlframeError):
    """The file store cannot be used."""


class FileGone(StoreError):
    """A file is not in the store any more. A page whose callback ends with it, for a file of its
    own, is fetched again."""

    def __init__(self, message: str, sha256: str = "") -> None:
        super().__init__(message)
        self.sha256 = sha256


class PageDamaged(CrawlframeError):
    """A kept page cannot be read."""


class ArchiveError(StoreError):
    """The archive of kept pages cannot be used."""


class RecordGone(ArchiveError):
    """The segment of a kept page is not in the archive any more."""


class RecordElsewhere(ArchiveError):
    """The segment of a kept page is on another node until it is uploaded."""


class CacheUnusable(CrawlframeError):
    """The development cache cannot be read or written."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` if a known word is close, otherwise ``""``."""
    near = difflib.get_close_matches(word, [*known], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
