"""Link filters: which of the requests that a callback yields are followed, and why others are not.
Their list is made once per crawl, of what the crawl uses."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from crawlframe.budgets import ALIAS, DEPTH_LIMIT, LAYERS, NOFOLLOW
from crawlframe.downloaders import BROWSER
from crawlframe.errors import BadRequest, SpiderError
from crawlframe.outcome import Outcome
from crawlframe.proxies.place import place_of
from crawlframe.request import Request, make_rid

if TYPE_CHECKING:
    from crawlframe.aliases.fetched_once import KnownByRules
    from crawlframe.aliases.rule import Alias
    from crawlframe.response import Response

MAX_DELAY = 366 * 24 * 3600  # seconds by which a request may be delayed

# Reasons beside those of budgets.py, which are counted by their names.
DUPLICATE = "duplicate"  # counted as such: the task has the request already
# Not counted: its host is none of allowed_domains; the spider's own ``follow`` dropped it; its page
# is visited by itself.
OFFSITE, DROPPED, WATCHED = UNCOUNTED = "offsite", "dropped", "watched"

Follow = Callable[[Request, "Response | None"], Request | None]


class Link:
    """A request that a callback yields. ``fingerprint`` is known from the filter Known on;
    ``alias``: what it is known by in place of its URL."""

    __slots__ = ("alias", "fingerprint", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.fingerprint = b""
        self.alias: Alias | None = None


Keep = Callable[[Link], str | None]  # the reason for which a link is not followed
Note = Callable[[Link, str | None], None]


@dataclass(slots=True)
class LinkPage:
    """What a callback gets, and yields links of. ``depth`` and ``priority`` are those of the links;
    ``known`` are fingerprints of the task that the ledger has recorded. ``ends``: the task takes no
    more requests. ``nofollow``: the page says so. ``route`` returns through which proxies a request
    goes. ``before``: so many of its links are recorded already; ``here`` are the fingerprints of
    others. ``notes`` are called with each link, and the reason for which it is not followed."""

    outcome: Outcome
    depth: int = 0
    priority: int = 0
    response: Response | None = None
    known: tuple[Container[bytes], Container[bytes]] = ((), ())
    ends: bool = False
    nofollow: bool = False
    route: Callable[[Request], str] | None = None
    before: int = 0
    here: set[bytes] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)

    @property
    def taken(self) -> int:
        """How many of its links are followed."""
        return self.before + len(self.outcome.follow_ups)

    def place(self, request: Request) -> str:
        """Where a link waits. Raises BadRequest."""
        if self.route is None:
            return request.host
        return place_of(request.host, self.route(request))


class LinkFilter(Protocol):
    """One of a crawl."""

    def of_page(self, page: LinkPage) -> Keep | None:
        """Returns the function that filters the links of a page; None: it keeps all of them."""


class SpiderFollow:
    """The spider's own ``follow``: it may change a request, or drop it."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow

    def of_page(self, page: LinkPage) -> Keep:
        def keep(link: Link) -> str | None:
            link.request.depth = page.depth
            changed = self._follow(link.request, page.response)
            if changed is None:
                return DROPPED
            if not isinstance(changed, Request):
                raise SpiderError(
                    f"follow returned {type(changed).__name__} {str(changed)[:80]!r}; return the "
                    "request, another one, or None to drop it"
                )
            link.request = changed
            return None

        return keep


class Repeated:
    """Notes all requests, so that a callback need not run again on the same page."""

    def of_page(self, page: LinkPage) -> Keep | None:
        outcome, requests = page.outcome, page.outcome.requests
        if requests is None:
            return None

        def keep(link: Link) -> None:
            requests.append(link.request.encode())
            if link.request.delay:  # a record does not have it
                outcome.signature = b""

        return keep


class Ended:
    """Refuses the requests of ``closed``."""

    def of_page(self, page: LinkPage) -> Keep | None:
        return _refuse_all if page.ends else None


def _refuse_all(link: Link) -> str | None:
    raise SpiderError(
        f"closed yielded a Request for {link.request.url}; the task has ended: yield items, or "
        "submit a new task"
    )


class Domains:
    """The hosts of ``allowed_domains``."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        """``allows`` returns whether a URL may be followed."""
        self._allows = allows

    def of_page(self, page: LinkPage) -> Keep:
        def keep(link: Link) -> str | None:
            request = link.request
            return None if request.dont_filter or self._allows(request.url) else OFFSITE

        return keep


class PageLimits:
    """Pages none of whose links are followed: they are too deep, or say so themselves. 0: no
    limit."""

    def __init__(self, depth_limit: int = 0, layers: int = 0) -> None:
        self._depth_limit = depth_limit
        self._layers = layers

    def of_page(self, page: LinkPage) -> Keep | None:
        if 0 < self._depth_limit < page.depth:
            return lambda link: DEPTH_LIMIT
        if 0 < self._layers < page.depth:
            return lambda link: LAYERS
        return (lambda link: NOFOLLOW) if page.nofollow else None


class RenderedFragments:
    """The fragments of links tell pages apart that the browser renders."""

    def of_page(self, page: LinkPage) -> Keep:
        def keep(link: Link) -> None:
            request = link.request
            if request.fragment and request.downloader is None:
                request.downloader = BROWSER

        return keep


class Known:
    """The requests that the task has already, by the page that yields them or by the ledger."""

    def __init__(self, aliases: KnownByRules | None = None) -> None:
        """``aliases``: which URLs are the same page."""
        self._aliases = aliases

    def of_page(self, page: LinkPage) -> Keep:
        (recorded, too), here, outcome = page.known, page.here, page.outcome

        def keep(link: Link) -> str | None:
            request, alias = link.request, link.alias
            fingerprint = request.fingerprint(None if alias is None else alias.key)
            if request.dont_filter:
                fingerprint += b"\0%s%d" % (outcome.rid, page.taken)
            link.fingerprint = fingerprint
            if fingerprint in recorded or fingerprint in too or fingerprint in here:
                return DUPLICATE if alias is None else ALIAS
            if alias is None:
                here.add(fingerprint)
            return None

        if self._aliases is None:
            return keep
        aliases = self._aliases

        def keep_alias(link: Link) -> str | None:
            link.alias = aliases.find(link.request)
            return keep(link)

        def note(link: Link, reason: str | None) -> None:
            if link.alias is None:
                return
            if reason == ALIAS:
                aliases.tell(link.alias, link.request.url)
            elif reason in (None, WATCHED):
                # Only now: of a URL that is refused, another one of its page may be none.
                here.add(link.fingerprint)
                outcome.aliased.add(make_rid(outcome.task, link.fingerprint))

        page.notes.append(note)
        return keep_alias


def check_delay(request: Request) -> None:
    """Raises BadRequest for a delay that is none."""
    if not request.delay <= MAX_DELAY:
        raise BadRequest(
            f"request {request.url}: delay is {request.delay!r}; it must be a number of "
            f"seconds up to {MAX_DELAY}"
        )
