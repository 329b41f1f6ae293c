"""LinkExtractor: the links of a page that match patterns, domains and regions of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from crawlframe.base.urls import canonical, hostname_of
from crawlframe.errors import SpiderError
from crawlframe.markup.links import ADDRESSED, Link, address_in

if TYPE_CHECKING:
    from crawlframe.response.response import Response

Patterns = str | re.Pattern[str] | Iterable[str | re.Pattern[str]]
Names = str | Iterable[str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Suffixes of paths that do not lead to pages.
IGNORED_EXTENSIONS = (
    _words("7z apk bz2 deb dmg exe gz img iso jar msi pkg rar rpm tar tgz whl xz zip zst")
    | _words("avif bmp dng eps gif heic ico jpeg jpg png ps psd svg tif tiff webp")
    | _words("3gp aac aiff avi flac flv m4a m4v mid mkv mov mp3 mp4 mpeg mpg ogg ogv opus wav webm")
    | _words("wma wmv doc docx epub mobi odg odp ods odt pdf ppt pptx rtf xls xlsx")
    | _words("css js rss swf ttf woff woff2")
)


class LinkExtractor:
    """Finds the links of HTML pages that match all conditions, with the names of Scrapy's.

    ``allow`` and ``deny`` are regular expressions, one or several, searched for in the URL; a link
    must match one of ``allow``, if there are any, and none of ``deny``. ``allow_domains`` and
    ``deny_domains`` are host names, and include their subdomains. ``restrict_css`` and
    ``restrict_xpaths`` select the regions of the page whose links count; CSS runs on the fast tree,
    XPath needs a second parse. ``restrict_text``: regular expressions, one of which the text of the
    link must match. ``tags`` and ``attrs``: the elements, and their attributes, that have links.
    ``deny_extensions``: suffixes of paths that are left out, by default IGNORED_EXTENSIONS.
    ``process_value`` is called with each attribute, and returns the link in it, or None.
    ``canonicalize``: the URLs are in the form for comparing links (query sorted), instead of the
    page's.

    An object can be used by many threads. Raises SpiderError for an expression that is wrong."""

    def __init__(
        self,
        allow: Patterns = (),
        deny: Patterns = (),
        *,
        allow_domains: Names = (),
        deny_domains: Names = (),
        restrict_css: Names = (),
        restrict_xpaths: Names = (),
        restrict_text: Patterns = (),
        tags: Names = ("a", "area"),
        attrs: Names = ("href",),
        deny_extensions: Names | None = None,
        process_value: Callable[[str], str | None] | None = None,
        canonicalize: bool = False,
    ) -> None:
        self._allow = compiled("LinkExtractor: allow", allow)
        self._deny = compiled("LinkExtractor: deny", deny)
        self._text = compiled("LinkExtractor: restrict_text", restrict_text)
        self._allow_domains = _domains("allow_domains", allow_domains)
        self._deny_domains = _domains("deny_domains", deny_domains)
        self._css = _checked("restrict_css", restrict_css, _try_css)
        self._xpaths = _checked("restrict_xpaths", restrict_xpaths, _try_xpath)
        self._tags = frozenset(name.lower() for name in _listed("tags", tags))
        self._attrs = tuple(name.lower() for name in _listed("attrs", attrs))
        if not self._tags or not self._attrs:
            raise SpiderError("LinkExtractor: tags and attrs must name at least one each")
        self._selector = ",".join(_checked("attrs", map(_having, self._attrs), _try_css))
        endings = IGNORED_EXTENSIONS if deny_extensions is None else deny_extensions
        self._endings = tuple(
            f".{ending.lower().lstrip('.')}" for ending in _listed("deny_extensions", endings)
        )
        if process_value is not None and not callable(process_value):
            raise SpiderError("LinkExtractor: process_value must be a function from text to text")
        self._process = process_value
        self._canonical = canonicalize

    def extract_links(self, response: Response) -> list[Link]:
        """Return the links, in the order of the page and each URL once; none if it is not HTML.
        With ``obey_nofollow``, those with rel=nofollow are left out. Raises TooDeep or TooComplex
        for a page whose parsing would take too long."""
        if response.kind != "html":
            return []
        found: list[tuple[str, Any]] = []
        for attribute, element in self._attributes(response):
            value: str | None = attribute
            if self._process is not None:
                value = self._process(attribute) or None
            if value is not None:
                found.append((value, element))
        values = [*dict.fromkeys(value for value, _ in found)]
        urls = dict(zip(values, response._join_all(values), strict=True))
        nofollow = response.nofollow
        links: dict[str, Link] = {}
        verdicts: dict[str, bool] = {}
        for value, element in found:
            url = urls[value]
            if url is None or url in links:
                continue
            if url not in verdicts:
                verdicts[url] = self.matches(url)
            if not verdicts[url]:
                continue
            text, rel = _text_and_rel(element)
            if self._text and not any(pattern.search(text) for pattern in self._text):
                continue
            link = Link(url, text, "nofollow" in rel.lower().split())
            if nofollow is None or not nofollow.refuses(link):
                links[url] = link
        if not self._canonical:
            return [*links.values()]
        same: dict[str, Link] = {}
        for url, link in links.items():
            same.setdefault(canonical(url), link)
        return [link._replace(url=url) for url, link in same.items()]

    def matches(self, url: str) -> bool:
        """Whether a normalised URL matches the conditions that are about URLs."""
        if self._allow and not any(pattern.search(url) for pattern in self._allow):
            return False
        if any(pattern.search(url) for pattern in self._deny):
            return False
        if self._allow_domains or self._deny_domains:
            host = "." + hostname_of(url)
            if self._allow_domains and not host.endswith(self._allow_domains):
                return False
            if self._deny_domains and host.endswith(self._deny_domains):
                return False
        return not (self._endings and url.partition("?")[0].lower().endswith(self._endings))

    def _attributes(self, response: Response) -> Iterator[tuple[str, Any]]:
        """The values that may be links, with their elements."""
        if not self._css and not self._xpaths:
            yield from self._of_tree(response.tree)
        for query in self._css:
            for region in response.tree.css(query):
                yield from self._of_tree(region)
        for query in self._xpaths:
            for selected in response.xpath(query):
                yield from self._of_element(selected.root)

    def _of_tree(self, root: Any) -> Iterator[tuple[str, Any]]:
        tags, attrs = self._tags, self._attrs
        for node in root.css(self._selector):
            if node.tag in tags:
                own = node.attributes
                for name in attrs:
                    value = address_in(own) if name == "href" else own.get(name) or None
                    if value is not None:
                        yield value, node

    def _of_element(self, root: Any) -> Iterator[tuple[str, Any]]:
        if not hasattr(root, "iter"):  # the text of an attribute
            return
        for element in root.iter():
            if element.tag in self._tags:
                for name in self._attrs:
                    value = (
                        address_in(element.attrib) if name == "href" else element.get(name) or None
                    )
                    if value is not None:
                        yield value, element


def compiled(what: str, patterns: Patterns) -> tuple[re.Pattern[str], ...]:
    """Compiles regular expressions, one or several. Raises SpiderError, prefixed by ``what``."""
    if isinstance(patterns, str | re.Pattern):
        patterns = (patterns,)
    found = []
    try:
        for pattern in patterns:
            found.append(re.compile(pattern))
    except re.error as error:
        raise SpiderError(f"{what}: {pattern!r} is not a regular expression: {error}") from None
    except TypeError:
        raise SpiderError(
            f"{what}: must be regular expressions, one or a list, not {patterns!r}"
        ) from None
    return tuple(found)


def _listed(what: str, names: Any) -> list[str]:
    listed = [names] if isinstance(names, str) else [*names]
    for name in listed:
        if not isinstance(name, str) or not name.strip():
            raise SpiderError(f"LinkExtractor: {what}: {name!r} is not a name")
    return listed


def _domains(what: str, names: Names) -> tuple[str, ...]:
    """The names as ends of hosts, each after a dot."""
    listed = _listed(what, names)
    for name in listed:
        if "/" in name or ":" in name:
            raise SpiderError(
                f"LinkExtractor: {what}: {name!r} is not a host name; write one such as example.com"
            )
    return tuple("." + name.lower().strip(".") for name in listed)


def _checked(what: str, queries: Names, attempt: Callable[[str], None]) -> list[str]:
    listed = _listed(what, queries)
    for query in listed:
        try:
            attempt(query)
        except Exception as error:  # each parser has its own
            raise SpiderError(f"LinkExtractor: {what}: {query!r}: {error}") from None
    return listed


def _try_css(query: str) -> None:
    from selectolax.lexbor import LexborHTMLParser

    LexborHTMLParser("").css(query)


def _try_xpath(query: str) -> None:
    from parsel import Selector

    Selector(text="<html/>").xpath(query)


def _having(name: str) -> str:
    """The CSS selector of elements with this attribute."""
    return ADDRESSED if name == "href" else "[" + re.sub(r"([^\w-])", r"\\\1", name) + "]"


def _text_and_rel(element: Any) -> tuple[str, str]:
    """The text of an element of either parser, and its ``rel``."""
    if hasattr(element, "attributes"):
        own: dict[str, str | None] = element.attributes
        return element.text(), own.get("rel") or ""
    return str(element.xpath("string()")), str(element.get("rel", ""))
