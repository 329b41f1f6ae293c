"""XMLFeedSpider and CSVFeedSpider: call a method for each entry of a feed."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import IncrementalNewlineDecoder
from typing import TYPE_CHECKING, Any, ClassVar

from crawlframe.errors import SpiderError
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider
from crawlframe.spiders.body_text import BodyText
from crawlframe.spiders.results import stream
from crawlframe.spiders.xml_elements import XmlElements

if TYPE_CHECKING:
    from parsel import Selector

MAX_LINE = 4 << 20  # characters of a line or a field of a CSV file
csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))

_HTML = ("html", "head", "body", "title", "meta", "script", "div", "p", "h1", "center")  # outermost

# Names of Scrapy's feed spiders, and their replacements.
_OTHERS = {
    "iterator": "feeds are always read entry by entry; leave it out",
    "adapt_response": "write a middleware, or change response.body in a parse of your own",
    "process_results": "write pipelines for the items, and follow for the requests",
}


class FeedSpider(Spider):
    """The common base of both kinds."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, instead in _OTHERS.items():
            if hasattr(cls, name):
                raise SpiderError(f"spider {cls.name!r}: {name}: that is Scrapy's name; {instead}")


class XMLFeedSpider(FeedSpider):
    """Calls ``parse_node`` for each element of a feed, such as RSS, Atom or a list of products.

    ``itertag`` is the name of these elements; with the prefix of one of ``namespaces`` (prefix to
    URI), only elements of that namespace. Without, elements of any namespace are found, and the
    namespace of each is taken off it and its content, so that ``node.css("title::text")`` works.
    Other prefixes that the feed declares, and prefixes of ``namespaces``, work in XPath; name
    prefixes that not every feed declares.

    Feeds may be packed with gzip; they are read in bounded memory."""

    itertag: ClassVar[str] = "item"
    namespaces: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.name:
            return
        if not callable(getattr(cls, "parse_node", None)):
            raise SpiderError(f"spider {cls.name!r} has no method parse_node(self, response, node)")
        if not isinstance(cls.namespaces, Mapping):
            raise SpiderError(
                f"spider {cls.name!r}: namespaces must be a dict of prefixes and URIs, such as "
                '{"g": "http://base.google.com/ns/1.0"}'
            )
        prefix, _, _ = cls.itertag.rpartition(":")
        if prefix and prefix not in cls.namespaces:
            raise SpiderError(f"spider {cls.name!r}: itertag: namespaces lacks {prefix!r}")

    if TYPE_CHECKING:

        def parse_node(self, response: Response, node: Selector) -> Any:
            """Called with each element, as a parsel Selector that holds nothing else of the feed;
            yields items and Requests."""

    def parse(self, response: Response) -> Any:
        """Calls ``parse_node`` for each element."""
        return stream(self._nodes(response), self.parse_node)

    def _nodes(self, response: Response) -> Iterator[Any]:
        from parsel import Selector

        prefix, _, name = self.itertag.rpartition(":")
        tag = f"{{{self.namespaces[prefix] if prefix else '*'}}}{name}"
        body = BodyText(response)
        elements = XmlElements(body, (tag,))
        empty = True
        for element in elements:
            empty = False
            names = {key: uri for key, uri in element.nsmap.items() if key} | {**self.namespaces}
            if not prefix:
                _take_off_namespace(element)
            node = Selector(root=element, type="xml", base_url=response.url)
            for key, uri in names.items():
                node.register_namespace(key, uri)
            yield self.parse_node(response, node)
        root = elements.root.lower()
        if empty and root in _HTML:
            raise SpiderError(f"{response.url} is no feed but HTML")
        _report(self, response, body.problem or elements.problem, fatal=not root)


class CSVFeedSpider(FeedSpider):
    """Calls ``parse_row`` for each row of a CSV file.

    ``headers`` are the names of the columns; by default those in the first row. ``delimiter`` and
    ``quotechar`` are one character each. Rows with another number of fields than columns are left
    out, and counted in the task's stats as ``wrong_rows``. The second column of a name gets a
    number: ``price``, ``price_2``.

    Files may be packed with gzip; they are read in bounded memory."""

    delimiter: ClassVar[str] = ","
    quotechar: ClassVar[str] = '"'
    headers: ClassVar[Sequence[str] | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.name:
            return
        if not callable(getattr(cls, "parse_row", None)):
            raise SpiderError(f"spider {cls.name!r} has no method parse_row(self, response, row)")
        for name in ("delimiter", "quotechar"):
            value = getattr(cls, name)
            if not isinstance(value, str) or len(value) != 1:
                raise SpiderError(
                    f"spider {cls.name!r}: {name} must be one character, not {value!r}"
                )
        if isinstance(cls.headers, str):
            raise SpiderError(
                f'spider {cls.name!r}: headers must be a list of names, such as ["id", "price"]'
            )

    if TYPE_CHECKING:

        def parse_row(self, response: Response, row: dict[str, str]) -> Any:
            """Called with each row, as a dict by column; yields items and Requests."""

    def parse(self, response: Response) -> Any:
        """Calls ``parse_row`` for each row."""
        return stream(self._rows(response), self.parse_row)

    def _rows(self, response: Response) -> Iterator[Any]:
        body = BodyText(response)
        rows = csv.reader(_lines(body), delimiter=self.delimiter, quotechar=self.quotechar)
        columns = _distinct(self.headers) if self.headers is not None else None
        try:
            for row in rows:
                if not row:
                    continue
                if columns is None:
                    columns = _distinct(row)
                elif len(row) == len(columns):
                    yield self.parse_row(response, dict(zip(columns, row, strict=True)))
                else:
                    self.stats.inc("wrong_rows")
                    self.log.warning(
                        "%s: the row that ends in line %d has %d fields, the header %d; it is left "
                        "out", response.url, rows.line_num, len(row), len(columns)
                    )  # fmt: skip
        except csv.Error as error:
            raise SpiderError(f"{response.url}: line {rows.line_num}: {error}") from None
        _report(self, response, body.problem, fatal=False)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names of the columns; repeated names get a number: ``price``, ``price_2``."""
    found: dict[str, None] = {}
    count: Counter[str] = Counter()
    for name in names:
        one = name
        while one in found:
            count[name] += 1
            one = f"{name}_{count[name] + 1}"
        found[one] = None
    return [*found]


def _report(spider: Spider, response: Response, problem: str, *, fatal: bool) -> None:
    """Counts a feed that is damaged. Raises SpiderError if nothing of it can be read."""
    if fatal:
        raise SpiderError(f"{response.url} is no XML: {problem or 'it is empty'}")
    if problem:
        spider.stats.inc("broken_feeds")
        spider.log.warning("%s: %s; what could be read is kept", response.url, problem)


def _take_off_namespace(element: Any) -> None:
    """Renames an element and those inside it that have its namespace."""
    namespace, brace, _ = element.tag.rpartition("}")
    if not brace:
        return
    start = len(namespace) + 1
    for one in element.iter(f"{namespace}}}*"):
        one.tag = one.tag[start:]


def _lines(pieces: BodyText) -> Iterator[str]:
    """The lines with their ends, as the csv module wants them: no other character ends one."""
    newlines, rest = IncrementalNewlineDecoder(None, translate=True), ""
    for piece in pieces:
        *lines, rest = (rest + newlines.decode(piece)).split("\n")
        for line in lines:
            yield line + "\n"
        if len(rest) > MAX_LINE:
            raise csv.Error(f"it has more than {MAX_LINE:,} characters")
    yield rest + newlines.decode("", final=True)
