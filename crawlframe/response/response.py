"""Response: the argument of a callback. Everything but the bytes is computed on first use."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from multidict import CIMultiDict, CIMultiDictProxy

from crawlframe.base.exact_json import decoded
from crawlframe.base.urls import join, join_all
from crawlframe.charsets.encoding import MAX_CONTENT_TYPE, content_type_of, encoding_of
from crawlframe.charsets.labels import encode_query
from crawlframe.errors import BadRequest, TooComplex, TooDeep
from crawlframe.markup import parsers, xhtml
from crawlframe.markup.links import Nofollow, href_of, links_of
from crawlframe.request.checks import Callback, callback_name
from crawlframe.request.request import Request
from crawlframe.response.live_page import LivePage, page_of
from crawlframe.response.media_kind import kind_of
from crawlframe.robots.rules import ALLOW_ALL, Rules

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from parsel import Selector, SelectorList
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from crawlframe.files.saved_file import SavedFile
    from crawlframe.markup.structured_data import PageData
    from crawlframe.noise.report import LinkReport
    from crawlframe.response.coded_body import CodedBody
    from crawlframe.response.stored_page import NearDuplicate, StoredPage
    from crawlframe.robots.tdmrep import Reservation
    from crawlframe.robots.usage import Usage
    from crawlframe.text.article import Article

MAX_LINK = 1 << 16  # characters; no server takes longer ones
MAX_LINKS = 120_000  # distinct links of a page; joining them to its URL takes some 0.3 s
_Tree = TypeVar("_Tree")
_BASE_TAG = re.compile(rb"<[bB][aA][sS][eE][\s/]")


class Response:
    """A server's response to ``request``, after redirects and decompression.

    ``url`` is the final URL, ``redirects`` are the URLs that redirected to it. Names of ``headers``
    are case-insensitive; ``getall`` returns repeated ones. ``elapsed``: seconds, of the last hop if
    each was a fetch of its own. ``address``: the server's IP address, or "". ``robots`` is the
    robots.txt that was asked: ``sitemaps``, ``crawl_delay``, ``allows(url)``. ``usage``: the page's
    conditions of use: ``denies("ai-train")``; None if there are none.

    Parsers run only when they are used: ``tree`` (selectolax, the fastest), ``css``/``xpath``/
    ``selector`` (parsel, as in Scrapy) and ``soup`` (BeautifulSoup, the slowest). They raise
    TooDeep or TooComplex for a page whose parsing would take too long."""

    request: Request
    file: SavedFile | None = None  # the body, if it went into the file store
    # Method, URL and headers of the transfer; None: a middleware or the cache made the response.
    sent: tuple[str, str, list[tuple[str, str]]] | None = None
    coded: CodedBody | None = None  # if it may be kept
    stored: StoredPage | None = None  # the page of the store, if nothing was fetched
    not_modified = False  # the server answered 304, and the page comes from the store
    unchanged = False  # the body equals the last kept page, as far as is known
    near_duplicate: NearDuplicate | None = None  # with the setting near_duplicates
    robots: Rules = ALLOW_ALL
    usage: Usage | None = None
    reservation: Reservation | None = None  # the reservation in the tdmrep.json that was asked
    nofollow: Nofollow | None = None  # set if the spider obeys it
    max_parse: float = parsers.MAX_PARSE  # seconds of CPU for a parser
    selector_tree: Literal["libxml2", "browser"] = "libxml2"  # of selector, css and xpath

    def __init__(
        self,
        url: str,
        status: int,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        body: bytes,
        request: Request,
        *,
        redirects: tuple[str, ...] = (),
        elapsed: float = 0.0,
        address: str = "",
    ) -> None:
        self.url, self.status = url, status
        own = headers if isinstance(headers, CIMultiDict) else CIMultiDict(headers)
        self.headers: CIMultiDictProxy[str] = CIMultiDictProxy(own)
        self.body = body
        self.request, self.redirects = request, redirects
        self.elapsed, self.address = elapsed, address
        self._joined: dict[str, str | None] = {}  # link -> URL
        self._links = 0  # joined so far
        self._refusal: TooComplex | None = None  # of a parser that took too long

    @property
    def meta(self) -> dict[str, Any]:
        return self.request.meta

    @property
    def cb_kwargs(self) -> dict[str, Any]:
        return self.request.cb_kwargs

    @property
    def size(self) -> int:
        """Bytes of the body, or of the file."""
        return self.file.size if self.file is not None else len(self.body)

    @property
    def ok(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def _content_type(self) -> str:
        return ", ".join(self.headers.getall("Content-Type", ()))[:MAX_CONTENT_TYPE]

    @cached_property
    def _essence(self) -> str:
        return content_type_of(self._content_type).essence

    @cached_property
    def kind(self) -> str:
        """The kind of body, from its Content-Type or else from its first bytes: "html", "xml",
        "json", "text" or "binary"."""
        return kind_of(self._essence, self.body)

    @cached_property
    def encoding(self) -> str:
        """Python's name of the character encoding: from the byte order mark, the Content-Type or
        the declaration in the page; guessed only if the page declares nothing and is not UTF-8."""
        return encoding_of(self.body, self._content_type, self.kind, self.url)

    @cached_property
    def text(self) -> str:
        """The body as text; bytes that are invalid in its encoding become U+FFFD."""
        return self.body.decode(self.encoding, "replace").removeprefix("\ufeff")

    @cached_property
    def _utf8(self) -> bytes:
        """The text for Lexbor, which itself replaces invalid bytes with U+FFFD."""
        if self.encoding == "utf-8" and not self.body.startswith(BOM_UTF8):
            return self.body
        return self.text.encode("utf-8", "replace")

    @cached_property
    def _json(self) -> Any:
        return decoded(self.text, self.url)

    def json(self) -> Any:
        """Return the decoded body, always the same object. Raises NotJson, which is a ValueError,
        or TooDeep."""
        return self._json

    @cached_property
    def _html(self) -> bytes:
        """The text that HTML parsers read."""
        if xhtml.is_declared(self._utf8) or self._essence == "application/xhtml+xml":
            return xhtml.with_end_tags(self._utf8)
        return self._utf8

    @property
    def _html_text(self) -> str:
        return self.text if self._html is self._utf8 else self._html.decode("utf-8", "replace")

    def _parsed(self, parse: Callable[[Any, str, float], _Tree], page: bytes | str) -> _Tree:
        """Parses the page. A page that took too long is not parsed again."""
        if self._refusal is not None:
            raise self._refusal
        try:
            return parse(page, self.url, self.max_parse)
        except TooComplex as error:
            self._refusal = error
            raise

    def _root(self) -> Any:
        """The root of libxml2's tree."""
        if self.kind == "xml":
            return parsers.xml_root(self.text, self.url)
        text = self.tree.html if self.selector_tree == "browser" else self._html_text
        return self._parsed(parsers.html_root, text or "")

    def _check(self, parser: str) -> None:
        """Raises TooDeep or TooComplex when a page is too much for a parser in Python ("soup",
        "article")."""
        parsed = self.__dict__.get("selector")
        root = self._root() if parsed is None else parsed.root
        parsers.check_slow(root, len(self._utf8), parser, self.url)

    @cached_property
    def tree(self) -> LexborHTMLParser:
        """The selectolax parser: nodes have ``text()`` and ``attributes``."""
        return self._parsed(parsers.html_tree, self._html)

    @cached_property
    def selector(self) -> Selector:
        """The parsel selector of the whole document: HTML, XML or JSON, by ``kind``."""
        from parsel import Selector

        if self.kind == "json":
            try:
                return Selector(text=self.text, type="json", base_url=self.url)
            except RecursionError:
                raise TooDeep(f"{self.url}: the JSON is nested too deeply") from None
        if self.kind == "xml":
            return Selector(root=self._root(), type="xml")
        return parsers.with_all_roots(Selector(root=self._root(), type="html"))

    def css(self, query: str) -> SelectorList[Selector]:
        """Return the elements that match a CSS selector; ``::text`` and ``::attr(name)`` work."""
        return self.selector.css(query)

    def xpath(self, query: str, **variables: Any) -> SelectorList[Selector]:
        """Return the selection of an XPath expression. ``variables`` are the ``$names`` of the
        query, and ``namespaces=``."""
        return self.selector.xpath(query, **variables)

    @cached_property
    def _json_selector(self) -> Selector:
        from parsel import Selector

        return Selector(root=self._json, type="json", base_url=self.url)

    def jmespath(self, query: str) -> SelectorList[Selector]:
        """Return the selection of a JMESPath expression in the body, which is JSON whatever its
        Content-Type says. Raises as ``json`` does."""
        return self._json_selector.jmespath(query)

    @cached_property
    def soup(self) -> BeautifulSoup:
        """The BeautifulSoup object, on lxml."""
        from bs4 import BeautifulSoup

        self._check("soup")
        if self.kind == "xml":
            return BeautifulSoup(self.text, "lxml-xml")
        return BeautifulSoup(self._html_text, "lxml")

    @cached_property
    def data(self) -> PageData:
        """The structured data of the page: JSON-LD, microdata and OpenGraph."""
        from crawlframe.markup.structured_data import PageData

        return PageData(self)

    @cached_property
    def article(self) -> Article:
        """The article of the page, with title, author, date and language; needs crawlframe[text].
        In an async callback: ``article = await response.article``."""
        from crawlframe.text.article import Article

        return Article(self)

    def _drop_derived(self) -> Article | None:
        """Drops data and article, which refer to the page: in such a cycle, pages and their trees
        would stay in memory until they are garbage collected, hundreds of them. Returns the
        article, if it was used."""
        self.__dict__.pop("data", None)
        article: Article | None = self.__dict__.pop("article", None)
        return article

    @cached_property
    def base_url(self) -> str:
        """The base of relative links: ``<base href>`` if the page has one, otherwise ``url``."""
        if self.kind != "html" or not _BASE_TAG.search(self._utf8):
            return self.url
        return self._base(self.tree.css_first("base[href]:not(svg *, math *)"))

    def _base(self, node: LexborNode | None) -> str:
        href = node.attributes["href"] if node is not None else None
        return (join(self.url, href) if href else None) or self.url

    def urljoin(self, link: str) -> str:
        """Return ``link`` as an absolute http(s) URL without fragment. Raises BadRequest for other
        links, and links of more than 65,536 characters; TooComplex for some 100,000 on a page."""
        url = self._join(link)
        if url is None:
            raise BadRequest(f"{link[:1000]!r} on {self.url} does not lead to an http(s) URL")
        return url

    def links(self, *, noise: bool = True) -> list[str]:
        """Return the absolute, normalised URLs of all http(s) links (``<a>``, ``<area>``) of an
        HTML page, in order, without duplicates and fragments (of a rendered page, routes such as
        ``#/topic/1`` keep theirs); with ``obey_nofollow``, without links with rel=nofollow, here
        and in follow_all. Cheaper than a selector. With ``noise=False``, without links outside the
        text of an article; ``judged`` says which, and why."""
        return links_of(self) if noise else self.judged.kept

    @cached_property
    def judged(self) -> LinkReport:
        """The links, by whether they are noise (crawlframe.noise): kept, noise, and counts."""
        from crawlframe.noise import Density, judge

        return judge(self, Density())

    def follow(self, url: Any, callback: Callback | None = None, **options: Any) -> Request:
        """Return a Request for a link of this page: a URL, absolute or relative; a parsel selector
        of an element with ``href`` or ``src`` or of an attribute; a node of ``tree``; a tag of
        ``soup``. ``options`` are passed to Request. Raises BadRequest for no http(s) link."""
        target = self.urljoin(href_of(url))
        return Request(target, callback, **options) if options else Request.plain(target, callback)

    def follow_all(
        self,
        urls: Iterable[Any] | None = None,
        callback: Callback | None = None,
        *,
        css: str | None = None,
        xpath: str | None = None,
        **options: Any,
    ) -> Iterator[Request]:
        """Yield a Request for each http(s) link of ``urls``, or that ``css``/``xpath`` selects."""
        if sum(given is not None for given in (urls, css, xpath)) != 1:
            raise BadRequest(f"follow_all on {self.url}: give one of urls, css and xpath")
        if css is not None:
            urls = self.css(css)
        elif xpath is not None:
            urls = self.xpath(xpath)
        return self._follow_each(urls or (), callback, options)

    def _follow_each(
        self, links: Iterable[Any], callback: Callback | None, options: dict[str, Any]
    ) -> Iterator[Request]:
        joined, plain, name = self._joined, Request.plain, callback_name(callback)
        for link in links:
            url = joined.get(link) if type(link) is str else None
            if url is None:
                if self.nofollow is not None and self.nofollow.refuses(link):
                    continue
                try:
                    url = self._join(href_of(link))
                except BadRequest:
                    continue
                if url is None:
                    continue
            yield Request(url, name, **options) if options else plain(url, name)

    async def page(self) -> LivePage:
        """Return the browser's page, of a request with the action KeepPage. Raises PageClosed."""
        return page_of(self.url, None, rendered=False)

    def form(
        self,
        data: Mapping[str, Any] | None = None,
        callback: Callback | None = None,
        *,
        css: str | None = None,
        xpath: str | None = None,
        click: str | bool = True,
        **options: Any,
    ) -> Request:
        """Return the Request that a browser sends when a form of the page is submitted.

        ``data``: the fields that are filled in, by name: text, numbers, lists of them, or None to
        leave a field out; the others are sent as the page has them. ``css`` or ``xpath`` selects
        the form, or an element in it; without, it is the only form that has all fields of ``data``.
        ``click`` is a CSS selector of the button that is pressed; True is the first one, False is
        none. ``options`` are passed to Request. Raises BadRequest if not exactly one form or button
        is meant, and names the forms or buttons of the page."""
        from crawlframe.response.forms import submit

        return submit(self, data or {}, callback, css, xpath, click, options)

    def _join(self, link: str) -> str | None:
        return self._joined[link] if link in self._joined else self._join_all([link])[0]

    def _join_all(self, links: list[str]) -> list[str | None]:
        joined = self._joined
        new = [link for link in links if link not in joined and len(link) <= MAX_LINK]
        self._links += len(new)
        if self._links > MAX_LINKS:
            raise TooComplex(f"{self.url} has more than {MAX_LINKS:,} distinct links")
        sent = new
        if not self.encoding.startswith("utf"):
            sent = [link if link.isascii() else encode_query(link, self.encoding) for link in new]
        for link, url in zip(new, join_all(self.base_url, sent), strict=True):
            joined[link] = url
            if url is not None:
                joined[url] = url  # spiders follow URLs that ``links`` returned
        return [*map(joined.get, links)]

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.url}>"
