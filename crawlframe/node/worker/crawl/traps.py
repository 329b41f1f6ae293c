"""Traps: many URLs of one form that bring nothing new, such as calendars without an end, session
ids, and filters in all combinations. A worker looks at a sample of its pages, and at the pages of a
form the more often the less it finds in them."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.limits import TrapSighting

log = logging.getLogger(__name__)

PAGE_STRIDE = 5  # one of so many pages is looked at; coprime to months and days of a week
SUSPECT_STRIDE = 2  # the same while the last page brought nothing new
MANY_PAGES = 80  # pages of one form, from which on their contents are compared
LATEST_PAGES = 24  # compared pages that judge a form
FEW_PAGES = 2  # of them that may bring something new in a trap
MAX_STRIDE = 24  # the largest number of pages looked at for one compared
FORMS = 1_000  # that a worker counts of a task
COMPARED_PAGES = 16  # pages whose contents it compares
STRINGS = 2_048  # remembered of a form; one that has more is no trap
SEGMENTS = 8  # of a path that a form names
BODY = 128 << 10  # bytes that are compared
NUMBERS = 3  # different ones that make a page with no new words new
MAX_STOPPED = 200  # forms of a task that are not followed
SAID_EVERY = 300  # pages of a known trap, after which they are reported

# The varying parts in URLs of one form, the longest first.
_VARIES = re.compile(
    r"(?P<session>(?<=;jsessionid=)[^/?;]+)"
    r"|(?P<id>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})"
    r"|(?P<date>(?<!\d)(?:\d{4}([-_.])\d\d?\4\d\d?|\d\d?[-_.]\d\d?[-_.]\d{4})(?!\d))"
    r"|(?P<hex>(?<![0-9a-z])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}(?![0-9a-z]))"
    r"|(?P<token>(?<![0-9a-z])(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{16,}(?![0-9a-z]))"
    r"|(?P<n>\d+)",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d|;jsessionid=", re.IGNORECASE)
_NUMBER = re.compile(rb"\d+")
_YEAR = re.compile(rb"(?:1[89]|2[01])\d\d")
_DIGITS = b"0123456789"


def form_of(url: str) -> str:
    """Returns the form of a normalised URL: host, path and names of the query, with numbers, dates
    and ids replaced by their kind."""
    rest, _, query = url.partition("?")
    host, slash, path = rest[rest.index("//") + 2 :].partition("/")
    if _DIGIT.search(path):
        path = _VARIES.sub(_kind, path)
    segments = path.split("/")
    if len(segments) > SEGMENTS:
        path = f"{segments[0]}/…"
    elif len(segments) > len(set(segments)):
        path = "/".join([*filter(None, dict.fromkeys(segments)), "…"])
    if not query:
        return host + slash + path
    names = sorted({part.partition("=")[0] for part in query.split("&")})
    return f"{host}{slash}{path}?{_VARIES.sub(_kind, '&'.join(names))}"


def _kind(match: re.Match[str]) -> str:
    return f"{{{match.lastgroup}}}"


class _Form:
    """The compared pages of one form."""

    def __init__(self) -> None:
        self.interval = 2  # pages looked at for one compared
        self.wait = 0  # until the next one
        self.words: set[int] = set()
        self.numbers: set[int] = set()
        self.latest: deque[bool] = deque(maxlen=LATEST_PAGES)  # whether they were new
        self.contents = 0

    def compare(self, url: str, body: bytes, items: Iterable[bytes]) -> None:
        # An item counts without the page's own URL, which is different on each page of a trap.
        found = [item.replace(url.encode(), b"") for item in items]
        is_new = _add(self.words, found) or self._is_new(url, body)
        self.contents += is_new
        self.latest.append(is_new)
        # The less it brings, the more often it is compared, and the other way round.
        longer, shorter = self.interval + 1 + self.interval // 4, self.interval // 2
        self.interval = min(MAX_STRIDE, longer) if is_new else max(1, shorter)
        self.wait = self.interval
        if len(self.words) + len(self.numbers) > STRINGS:
            self.words.clear()
            self.numbers.clear()
            self.latest.clear()

    def _is_new(self, url: str, body: bytes) -> bool:
        """Whether the page has words that no compared page had, or several numbers. Years and
        numbers next to its URL's are in every calendar and list; the rest is finite."""
        text = _without_scripts(body[:BODY].lower())
        strings = _strings(text.translate(None, _DIGITS)) if b"<" in text else None
        if not strings:  # data, or an image
            return _add(self.words, [text])
        address = url.lower().encode()
        words = [
            word
            for word in strings
            if hash(word) not in self.words and word.strip(b" /") not in address
        ]
        _add(self.words, words)
        if words:
            return True
        near = {b"%d" % (int(n) + step) for n in _NUMBER.findall(address)[:20] if len(n) < 19
                for step in (-1, 0, 1)}  # fmt: skip
        numbers = {
            n for string in _strings(text) for n in _NUMBER.findall(string)
            if n.lstrip(b"0") not in near and n not in near and not _YEAR.fullmatch(n)
        }  # fmt: skip
        before = len(self.numbers)
        self.numbers.update(map(hash, numbers))
        return len(self.numbers) - before >= NUMBERS

    @property
    def is_trap(self) -> bool:
        return len(self.latest) == LATEST_PAGES and sum(self.latest) <= FEW_PAGES


def _strings(text: bytes) -> set[bytes]:
    """The texts between tags."""
    strings = {part.partition(b">")[2].strip() for part in text.split(b"<")}
    strings.discard(b"")
    return strings


def _add(known: set[int], strings: Iterable[bytes]) -> bool:
    """Adds strings; returns whether one was new."""
    before = len(known)
    known.update(map(hash, strings))
    return len(known) > before


def _without_scripts(text: bytes) -> bytes:
    """The page, in lower case, without its scripts: they may hold a new token in each page."""
    at = text.find(b"<script")
    if at < 0:
        return text
    parts, last = [], 0
    while at >= 0:
        parts.append(text[last:at])
        last = text.find(b"</script", at)
        if last < 0:
            return b"".join(parts)
        at = text.find(b"<script", last)
    return b"".join([*parts, text[last:]])


class TrapWatch:
    """The possible traps that one worker sees in one task."""

    def __init__(self, task: int, *, stops: bool = False) -> None:
        """``stops``: links of traps are not followed."""
        self._task = task
        self._then = "its links are left out" if stops else 'traps = "stop" would leave it out'
        self._every = self._wait = PAGE_STRIDE
        self._seen: BoundedDict[str, int] = BoundedDict(FORMS)  # form -> pages, about
        self._compared: BoundedDict[str, _Form] = BoundedDict(COMPARED_PAGES)
        self._said: dict[str, int] = {}  # trap -> pages that were reported

    def see(self, url: str, body: bytes, items: Iterable[bytes] = ()) -> TrapSighting | None:
        """Takes note of a page and its items. Returns a report of its form, if one is due."""
        self._wait -= 1
        if self._wait:
            return None
        name = form_of(url)
        pages = self._seen.get(name, 0) + self._every
        self._seen[name] = pages
        self._wait = self._every = PAGE_STRIDE
        if pages < MANY_PAGES:
            return None
        form = self._compared.use(name)
        if form is None:
            form = self._compared[name] = _Form()
        if form.wait > 1:
            form.wait -= 1
        else:
            form.compare(url, body, items)
        if form.interval == 1:
            self._wait = self._every = SUSPECT_STRIDE
        said = self._said.get(name)
        if said is None and (not form.is_trap or len(self._said) >= MAX_STOPPED):
            return None
        if said is not None and pages - said < SAID_EVERY:
            return None
        self._said[name] = pages
        sighting = TrapSighting(name, pages - (said or 0), max(1, form.contents))
        if said is None:
            log.warning(
                "task %d: possible trap: %s: about %d pages in this worker, %d different contents; "
                "%s",
                *(self._task, *sighting, self._then),
            )
        return sighting

    def stops(self, url: str) -> bool:
        """Whether the URL is of a form that was reported."""
        return bool(self._said) and form_of(url) in self._said
