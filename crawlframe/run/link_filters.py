"""Link filters: decide which of a callback's requests are followed, and why others are not. Their
list is made once per crawl, for the settings of the crawl."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from crawlframe.aliases.rule import Alias, Aliases, AliasRule
from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.limits import (
    ALIAS,
    DEPTH_LIMIT,
    HOST_BYTE_LIMIT,
    LAYERS,
    LINKS_PER_PAGE,
    NOFOLLOW,
    QUERY_PERMUTATIONS,
    REPEATED_SEGMENTS,
    TEMPLATE,
    TRAP,
    URL_LENGTH,
    ByteBudget,
)
from crawlframe.base.urls import canonical, host_of
from crawlframe.errors import BadRequest, SpiderError
from crawlframe.proxies.place import place_of
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.request import Request, make_rid
from crawlframe.run.outcome import Outcome

if TYPE_CHECKING:
    from crawlframe.noise.followed_once import FollowedOnce
    from crawlframe.spider.settings import SpiderSettings

MAX_DELAY = 366 * 24 * 3600  # longest delay of a request in seconds

SHORT_PATH = 8  # segments; a path without more is not examined for repeated ones: loops grow
PATHS = 10_000  # with a query, that a worker remembers of a task
SIEVE_SIZE = 100_000  # fingerprints; two generations are kept, the older one is dropped as a whole
SAMPLES = 3  # links of each rule that the log names

# More reasons, besides base/limits.py, which are counted by their names.
DUPLICATE = "duplicate"  # counted as such: the task has the request already
# Not counted: its host is none of allowed_domains; the spider's own ``follow`` dropped it; its page
# is visited by itself.
OFFSITE, DROPPED, WATCHED = UNCOUNTED = "offsite", "dropped", "watched"

Follow = Callable[[Request, Any], Request | None]


class NewRequest:
    """A request that a callback yields. ``fingerprint`` is known from KnownFilter on, where
    ``key`` takes the place of its URL."""

    __slots__ = ("fingerprint", "key", "request")

    request: Request
    fingerprint: bytes
    key: str | None


Keep = Callable[[NewRequest], str | None]  # the reason for which a link is not followed
Note = Callable[[NewRequest, str | None], None]


@dataclass(slots=True)
class LinkPage:
    """The page of a callback that yields links. ``depth`` and ``priority``: of the links; ``known``
    are fingerprints of the task that the ledger has recorded. ``ends``: the task takes no more
    requests. ``nofollow``: the page says so. ``again``: its links have passed the spider's
    ``follow`` before. ``failed``: an errback yields them. ``route`` returns the proxies of a
    request. ``before``: so many of its links are recorded already; ``here``: the fingerprints of
    others. ``notes`` are called with each link, and the reason for which it is not followed;
    ``done`` when all of the page was taken."""

    outcome: Outcome
    depth: int = 0
    priority: int = 0
    response: Any = None  # a Response, or None
    known: tuple[Container[bytes], Container[bytes]] = ((), ())
    ends: bool = False
    nofollow: bool = False
    again: bool = False
    failed: bool = False
    route: Callable[[Request], str] | None = None
    before: int = 0
    here: set[bytes] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    done: list[Callable[[], None]] = field(default_factory=list)

    @property
    def taken(self) -> int:
        """The number of its links that are followed."""
        return self.before + len(self.outcome.results.follow_ups)

    def place(self, request: Request) -> str:
        """The host, with a route, at which a link waits. Raises BadRequest."""
        if self.route is None:
            return request.host
        return place_of(request.host, self.route(request))


class LinkFilter(Protocol):
    """A filter of one crawl."""

    def of_page(self, page: LinkPage) -> Keep | None:
        """Returns the function that filters the links of a page; None: it keeps all of them."""


class SpiderFollow:
    """The spider's own ``follow``: it may change a request, or drop it."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow

    def of_page(self, page: LinkPage) -> Keep | None:
        if page.again:
            return None

        def keep(link: NewRequest) -> str | None:
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
        outcome, requests = page.outcome, page.outcome.results.requests
        if requests is None:
            return None

        def keep(link: NewRequest) -> None:
            requests.append(link.request.encode())
            if link.request.delay:  # a record does not have it
                outcome.results.signature = b""

        return keep


class Ended:
    """Refuses the requests of ``closed``."""

    def of_page(self, page: LinkPage) -> Keep | None:
        return _refuse_all if page.ends else None


def _refuse_all(link: NewRequest) -> str | None:
    raise SpiderError(
        f"closed yielded a Request for {link.request.url}; the task has ended: yield items, or "
        "submit a new task"
    )


class DomainFilter:
    """Allows the hosts of ``allowed_domains``."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        """``allows`` returns whether a URL may be followed."""
        self._allows = allows

    def of_page(self, page: LinkPage) -> Keep:
        def keep(link: NewRequest) -> str | None:
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


class TemplateOnce:
    """Links of the template of a host: each is followed once."""

    def __init__(self, followed: FollowedOnce) -> None:
        self._followed = followed

    def of_page(self, page: LinkPage) -> Keep | None:
        template = None
        if page.response is not None and not page.failed:
            template = self._followed.page(page.response)
        if template is None:
            return None

        def keep(link: NewRequest) -> str | None:
            request = link.request
            filtered = not (request.dont_filter or request.body)
            return TEMPLATE if filtered and template.refuses(request.url) else None

        def note(link: NewRequest, reason: str | None) -> None:
            if reason in (None, ALIAS, DUPLICATE, WATCHED):
                template.take(link.request.url)

        page.notes.append(note)
        page.done.append(template.done)
        return keep


class RenderedFragments:
    """The fragments of links tell pages apart that the browser renders."""

    def of_page(self, page: LinkPage) -> Keep:
        def keep(link: NewRequest) -> None:
            request = link.request
            if request.fragment and request.downloader is None:
                request.downloader = BROWSER

        return keep


class Sieve:
    """Fingerprints that the ledger has recorded, in bounded sets by task, so that known links never
    become requests. Filled by the commit thread, read by the loop.

    A fingerprint is added only after the commit that recorded it (or after Redis reported it as
    admitted, which is later still), so dropping a link that is in here never loses it."""

    def __init__(self, size: int = SIEVE_SIZE) -> None:
        self._size = size
        self._count = 0
        self._young: dict[int, set[bytes]] = {}
        self._old: dict[int, set[bytes]] = {}

    def of(self, task: int) -> tuple[Set[bytes], Set[bytes]]:
        """The fingerprints of one task, in two sets that may both grow meanwhile."""
        return self._young.get(task, _NONE), self._old.get(task, _NONE)

    def add(self, task: int, fingerprints: Iterable[bytes]) -> None:
        """Remembers fingerprints that the ledger has recorded."""
        young = self._young.setdefault(task, set())
        before = len(young)
        young.update(fingerprints)
        self._count += len(young) - before
        if self._count > self._size:
            self._old, self._young, self._count = self._young, {}, 0


_NONE: Set[bytes] = frozenset()


class KnownFilter:
    """The requests that the task has already, by the page that yields them or by the ledger."""

    def of_page(self, page: LinkPage) -> Keep:
        (recorded, too), here, outcome = page.known, page.here, page.outcome

        def keep(link: NewRequest) -> str | None:
            request = link.request
            fingerprint = request.fingerprint(link.key)
            if request.dont_filter:
                fingerprint += b"\0%s%d" % (outcome.rid, page.taken)
            link.fingerprint = fingerprint
            if fingerprint in recorded or fingerprint in too or fingerprint in here:
                return DUPLICATE if link.key is None else ALIAS
            if link.key is None:
                here.add(fingerprint)
            return None

        return keep


class KnownByRules:
    """Used by one thread. ``say`` is called with a line for the log of the task for the first links
    that are not fetched by a rule."""

    def __init__(self, rules: Iterable[AliasRule], say: Callable[[str], None]) -> None:
        self._aliases = Aliases(rules)
        self._say = say
        self._logged: Counter[tuple[str, ...]] = Counter()

    def of_page(self, page: LinkPage) -> Keep:
        """As LinkFilter has it; before KnownFilter."""
        found: Alias | None = None
        aliased = page.outcome.results.aliased = page.outcome.results.aliased or set()

        def keep(link: NewRequest) -> None:
            nonlocal found
            found = self.find(link.request)
            link.key = None if found is None else found.key

        def note(link: NewRequest, reason: str | None) -> None:
            if found is None:
                return
            if reason == ALIAS:
                self.tell(found, link.request.url)
            elif reason in (None, WATCHED):
                # Only now: if this URL is refused, another URL of its page may not be.
                page.here.add(link.fingerprint)
                aliased.add(make_rid(page.outcome.task, link.fingerprint))

        page.notes.append(note)
        return keep

    def find(self, request: Request) -> Alias | None:
        """Return the alias of a request; None if no rule is about it."""
        if request.dont_filter or request.method != "GET" or request.body is not None:
            return None
        return self._aliases.find(canonical(request.url))

    def tell(self, alias: Alias, url: str) -> None:
        """Logs that a link is not fetched, because the task has the page already."""
        identity = alias.rule.identity
        self._logged[identity] += 1
        if self._logged[identity] <= SAMPLES:
            self._say(
                f"{url} is not fetched: it is {alias.key} by the rule of {alias.rule.origin}: "
                f"{alias.rule}"
            )


class KnownTraps(Protocol):
    """The traps that were seen in a task."""

    def stops(self, url: str) -> bool: ...


class LinkLimits:
    """The limits of one task in this worker: most URLs pass with a few comparisons of lengths.
    ``limits``: whether there are any."""

    def __init__(
        self, settings: SpiderSettings, budget: ByteBudget | None, traps: KnownTraps | None
    ) -> None:
        self._most = settings.links_per_page or sys.maxsize
        self._length = settings.url_length or sys.maxsize
        self._repeats = settings.repeated_segments
        # "https://host/a/a" has two slashes more than segments.
        self.slashes = SHORT_PATH + 2 if self._repeats else sys.maxsize
        self._permutations = settings.query_permutations
        self._names: BoundedDict[str, set[tuple[str, ...]]] = BoundedDict(PATHS)  # by path
        self._budget = budget if budget and budget.host_limit else None
        self._traps = traps if settings.traps == "stop" else None
        any_url = settings.links_per_page or self._permutations or self._budget or self._traps
        self.length = -1 if any_url else self._length
        self.limits = bool(any_url or settings.url_length or self._repeats)

    def of_page(self, page: LinkPage) -> Keep:
        length, slashes = self.length, self.slashes

        def keep(link: NewRequest) -> str | None:
            url = link.request.url
            if len(url) <= length and url.count("/") <= slashes:
                return None
            return self.refuses(url, page.taken) or None

        return keep

    def refuses(self, url: str, taken: int) -> str:
        """Returns the reason for which a new URL is not followed, "" if it is. ``taken``: requests
        that were taken from the same page."""
        if len(url) > self._length:
            return URL_LENGTH
        if url.count("/") > self.slashes and self._repeats_a_segment(url):
            return REPEATED_SEGMENTS
        if self._traps is not None and self._traps.stops(url):
            return TRAP
        if self._budget is not None and self._budget.is_spent(host_of(url)):
            return HOST_BYTE_LIMIT
        if taken >= self._most:
            return LINKS_PER_PAGE
        if self._permutations and "?" in url and self._is_one_more(url):
            return QUERY_PERMUTATIONS
        return ""

    def _repeats_a_segment(self, url: str) -> bool:
        segments = url.partition("?")[0].split("/")[3:]
        different = set(segments)
        if len(segments) - len(different) < self._repeats:
            return False
        different.discard("")
        return any(segments.count(segment) > self._repeats for segment in different)

    def _is_one_more(self, url: str) -> bool:
        """Whether the names of its query are a further set of them, and the path has had enough.
        Their order does not matter: it makes no other request."""
        path, _, query = url.partition("?")
        names = tuple(sorted(part.partition("=")[0] for part in query.split("&")))
        if (known := self._names.use(path)) is None:
            known = self._names[path] = set()
        if names in known:
            return False
        if len(known) >= self._permutations:
            return True
        known.add(names)
        return False


def bad_delay(request: Request) -> BadRequest:
    """The error of a request whose delay is not at most MAX_DELAY, or no number."""
    return BadRequest(
        f"request {request.url}: delay is {request.delay!r}; it must be a number of "
        f"seconds up to {MAX_DELAY}"
    )
