"""Rules: the paths that a robots.txt allows one crawler. Protego reads it; here are its limits, the
choice of our groups, and their Content-Signal lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from string import ascii_letters, digits, punctuation
from typing import NamedTuple
from urllib.parse import quote

from protego import Protego

from crawlframe.base.urls import normalise, target_of
from crawlframe.charsets.encoding import MAX_CONTENT_TYPE, declared_in
from crawlframe.errors import BadRequest
from crawlframe.robots.signals import NO_SIGNALS, Signals, merge, read_preferences, read_signals

MAX_BYTES = 500 << 10  # of a robots.txt that are read; RFC 9309, 2.5, asks for at least as many
LARGE_FILE = 32 << 10  # characters, above which a hostile file could take milliseconds for one URL
MAX_LINE = 2083 * 8  # characters of a line; longer URLs are not sent

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"),
)  # fmt: skip
_WIDE = ([True, False] * 2, [False, True] * 2)  # which bytes are 0 in UTF-16 without a mark
_BROKEN_BOM = re.compile(rb"\xef\xbb?(?=[A-Za-z#\s])")
_NO_UTF8 = re.compile("[\udc80-\udcff]")  # bytes, by the error handler surrogateescape
_AGENT_LINE = re.compile(r"(\s*user[- ]?agent\b\s*:?\s*)(\S.*)", re.I)
_AGENT = re.compile(r"([a-z_-]*)[a-z0-9_-]*")  # the group: a name by RFC 9309
# The directives that Protego reads, with its misspellings.
_KNOWN_LINE = re.compile(r"\s*(?:user|allow|di[as]|site|crawl|request|visit|host)", re.I)
_USAGE_LINE = re.compile(r"\s*content-(signal|usage)\s*:\s*(/[^\s#]*(?!\S))?([^#]*)", re.I)
_HAS_USAGE = re.compile(r"^\s*content-(?:signal|usage)", re.I | re.M)
_LICENSE = re.compile(r"^\s*license\s*:\s*([^\s#]+)", re.I | re.M)  # of RSL
MAX_USAGES = 1_000  # lines about usage that are read
_SITEMAP_LINE = re.compile(r"\s*site", re.I)  # belongs to no group
_NOT_OURS = "0"  # no crawler has this name
_TAG = re.compile(r"\s*<(?:!|\?|/?[A-Za-z])")
_CONTROLS = re.compile(r"[\x01-\x08\x0e-\x1f\x7f\ufffd\udc80-\udcff]")
_SAMPLE = 1024  # characters that show whether a file is binary
_PRODUCT = re.compile(r"[A-Za-z0-9_-]+")
# "Mozilla/5.0 (compatible; Examplebot/2.1; ...)": the product of the crawler.
_COMPATIBLE = re.compile(r"mozilla/[^(]*\(compatible;\s*([A-Za-z0-9_-]+)", re.I)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(ascii_letters + digits + "-._~")


class Text(NamedTuple):
    """A body as text, cut to the limit. ``problem``: why it is no robots.txt, "" if it may be one.
    ``cut``: the body is longer."""

    text: str
    problem: str = ""
    cut: bool = False


class PathRule:
    """A path, with ``*`` for any text, and a ``$`` at the end for the end."""

    def __init__(self, path: str) -> None:
        path = _plain(path)
        self.length = len(path)
        self._whole = path.endswith("$")
        self._first, *self._others = path.removesuffix("$").split("*")

    def fits(self, url: str) -> bool:
        """Whether the target of a normalised URL starts like it. The first place of each text is
        always good enough, so the time is linear; the last text of a whole path ends it."""
        path = _target(url)
        if not path.startswith(self._first):
            return False
        if not self._others:
            return not self._whole or path == self._first
        *others, last = self._others if self._whole else [*self._others, ""]
        at = len(self._first)
        for part in others:
            at = path.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return len(path) - at >= len(last) and path.endswith(last)


class Rules:
    """The rules of one robots.txt for one crawler. ``licenses``: URLs of its License lines."""

    def __init__(self, origin: str = "", text: str = "", token: str = "*") -> None:
        """``text``: as ``read_text`` returns it, "" for none. ``token``: of the crawler."""
        self.large = len(text) > LARGE_FILE  # to be used in a thread
        self._origin = origin
        self._token = token
        self._protego = Protego.parse(_ours(text, token)) if text else None
        self._usages = _usages(text, token) if _HAS_USAGE.search(text) else []
        self.licenses = tuple(_urls(_LICENSE.findall(text))) if text else ()

    def allows(self, url: str) -> bool:
        """Returns whether the URL may be fetched. Raises BadRequest for one of another origin, of
        which these rules say nothing."""
        if self._protego is None:
            return True
        url = normalise(url)
        if origin_of(url) != self._origin:
            raise BadRequest(f"{url} is not of {self._origin}, whose robots.txt this is")
        return self._protego.can_fetch(url, self._token)

    def signals(self, url: str) -> Signals:
        """Returns the signals for the crawler of the Content-Signal and the Content-Usage lines
        with the longest path that fits the URL (draft-ietf-aipref-attach-05, 4.1)."""
        if not self._usages:
            return NO_SIGNALS
        found: dict[str, bool] = {}
        for name in ("signal", "usage"):
            fit = [one for one in self._usages if one.name == name and one.path.fits(url)]
            longest = max((one.path.length for one in fit), default=0)
            for one in fit:
                if one.path.length == longest:
                    merge(found, one.signals)
        return found or NO_SIGNALS

    @property
    def crawl_delay(self) -> float:
        """The seconds between two requests that Crawl-delay and Request-rate ask for, the larger
        one; 0 if neither is there."""
        if self._protego is None:
            return 0.0
        delay = self._protego.crawl_delay(self._token) or 0.0
        rate = self._protego.request_rate(self._token)
        try:
            return max(delay, rate.seconds / rate.requests) if rate else delay
        except OverflowError:  # hundreds of digits: no number that means anything, as with inf
            return delay

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The sitemaps that it names, as absolute URLs, in its order and each once."""
        return tuple(_urls(self._protego.sitemaps)) if self._protego else ()


ALLOW_ALL = Rules()


def origin_of(url: str) -> str:
    """Returns scheme, host and port of a normalised URL."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    return f"{scheme}://{host.rpartition('@')[2]}"


def read_text(body: bytes, content_type: str = "") -> Text:
    """Returns the text of a body: the first MAX_BYTES, in the encoding of its byte order mark, else
    UTF-8, else of its Content-Type. Lines are cut to MAX_LINE characters.

    A page of HTML is no robots.txt, even where it quotes one, and neither is a binary file. Text
    that is only declared as HTML is one if it names a crawler."""
    cut = len(body) > MAX_BYTES
    text = _decoded(body[:MAX_BYTES], content_type).replace("\0", "")
    if _TAG.match(text):
        return Text("", "it is a page of HTML or XML")
    sample = text[:_SAMPLE]
    if 10 * len(_CONTROLS.findall(sample)) > len(sample):
        return Text("", "it is a binary file")
    # In a URL such a byte is itself, whatever character it was meant to be.
    text = _NO_UTF8.sub(lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", text)
    lines = text.splitlines()
    if cut:
        del lines[-1:]  # half a rule is another rule
    if "html" in content_type.lower() and not any(map(_AGENT_LINE.match, lines)):
        return (
            Text("", "it is declared as HTML, and names no crawler") if text.strip() else Text("")
        )
    return Text("\n".join(line[:MAX_LINE] for line in lines), cut=cut)


def _decoded(body: bytes, content_type: str) -> str:
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    if broken := _BROKEN_BOM.match(body):
        body = body[broken.end() :]
    if (zeros := [byte == 0 for byte in body[:4]]) in _WIDE:
        return body.decode("utf-16-be" if zeros[0] else "utf-16-le", "replace")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(body) == MAX_BYTES:
            return body.decode(errors="ignore")  # it was cut within a character
    # Python has more codecs: some take quadratic time, or make text that cannot be stored.
    codec = declared_in(content_type[:MAX_CONTENT_TYPE])
    if codec in (None, "utf-8", "replacement"):  # the last would hide all rules
        return body.decode("utf-8", "surrogateescape")
    try:
        return body.decode(codec, "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _ours(text: str, token: str) -> str:
    """The text with the user-agent lines of other crawlers replaced, and without unknown lines,
    which must not end a group (RFC 9309, 2.2.4).

    Protego also takes ``User-agent: craw`` for a group of crawlframe; RFC 9309, 2.2.1, compares
    whole names. The rest of a line after the name is left out, such as a version."""
    lines = []
    for line in text.split("\n"):
        if not _KNOWN_LINE.match(line):
            continue
        found = _AGENT_LINE.match(line)
        if found and not found[2].startswith(("*", "#")):
            line = found[1] + (token if _names(found[2], token) else _NOT_OURS)
        lines.append(line)
    return "\n".join(lines)


def _names(value: str, token: str) -> bool:
    """Whether a user-agent line names the crawler."""
    name = _AGENT.match(value.lower())
    return name is not None and token in (name[0], name[1])


class _Usage(NamedTuple):
    name: str
    path: PathRule
    signals: Signals


def _usages(text: str, token: str) -> list[_Usage]:
    """Lines about usage for the crawler: of its own groups, else of the groups for all. Such a line
    ends the list of the crawlers of its group, as a rule does."""
    own: list[_Usage] = []
    general: list[_Usage] = []
    is_own = is_general = has_own = listing = False
    for line in text.split("\n"):
        if agent := _AGENT_LINE.match(line):
            if not listing:
                is_own = is_general = False
            listing = True
            is_own = is_own or _names(agent[2], token)
            is_general = is_general or agent[2].startswith("*")
            has_own = has_own or is_own
        elif found := _USAGE_LINE.match(line):
            listing = False
            name = found[1].lower()
            read = read_signals if name == "signal" else read_preferences
            usage = _Usage(name, PathRule(found[2] or ""), read(found[3].strip(" \t")))
            for group, meant in ((own, is_own), (general, is_general)):
                if meant:
                    group.append(usage)
        elif _KNOWN_LINE.match(line) and not _SITEMAP_LINE.match(line):
            listing = False
    return (own if has_own else general)[:MAX_USAGES]


def _urls(links: Iterable[str]) -> dict[str, None]:
    found: dict[str, None] = {}
    for link in links:
        try:
            found[normalise(link)] = None
        except BadRequest:  # RFC 9309 wants it absolute
            continue
    return found


@lru_cache(maxsize=256)
def product_token(user_agent: str) -> str:
    """Returns the first product name of a User-Agent in lower case, such as ``crawlframe``; "*" if
    it has none, to which only the rules for all crawlers apply."""
    if compatible := _COMPATIBLE.match(user_agent):
        return compatible[1].lower()
    product = _PRODUCT.match(user_agent.strip())
    return product[0].lower() if product else "*"


def user_agent_of(*headers: Mapping[str, str]) -> str:
    """Returns the User-Agent that the first of these headers have; "" if none has one."""
    for some in headers:
        for name, value in some.items():
            if name.lower() == "user-agent":
                return str(value)
    return ""


@lru_cache(maxsize=64)  # a file has many rules
def _target(url: str) -> str:
    return _plain(target_of(url))


def _plain(path: str) -> str:
    """A path in ASCII, without escapes that mean nothing."""
    return _ESCAPE.sub(_escape, quote(path, safe=punctuation))


def _escape(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()
