"""Whatever a page contains, a reader raises nothing but the errors that it documents."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from crawlframe import CSVFeedSpider, LinkExtractor, Response, SitemapSpider, XMLFeedSpider
from crawlframe.aliases.verify import content_of
from crawlframe.errors import BadRequest, SpiderError, UnparsablePage
from crawlframe.markup.links import Nofollow
from crawlframe.near.fingerprint import visible_text, words_of
from crawlframe.noise import Density, QuarterRule, TemplateLinks, judge
from crawlframe.robots.usage import read_usage
from crawlframe.testing import make_response, run
from spiders.site import links_of
from tests.readers.mutation import FEED, PAGE, SITEMAP, mutated

pytestmark = pytest.mark.slow

URL = "https://shop.example/a/b?c=1"
KINDS = ("text/html; charset=utf-8", "text/html", "application/xhtml+xml", "text/xml")
EXTRACTORS = (
    LinkExtractor(),
    LinkExtractor(restrict_css="body, svg", attrs=("href", "src", "xlink:href"), tags=("a", "img")),
    LinkExtractor(restrict_xpaths=("//body", "//a/@href"), restrict_text="."),
)


class Entries(XMLFeedSpider):
    name = "entries"
    start_urls = (URL,)

    def parse_node(self, response: Response, node: Any) -> Any:
        yield {"title": node.css("title::text").get(), "all": node.xpath("string()").get()}
        yield from response.follow_all(node.xpath("link/text()"), self.parse_node)


class Rows(CSVFeedSpider):
    name = "rows"
    start_urls = (URL,)

    def parse_row(self, response: Response, row: dict[str, str]) -> Any:
        yield row


class Listed(SitemapSpider):
    name = "listed"
    sitemap_urls = (URL,)
    sitemap_alternate_links = True

    def parse(self, response: Response) -> None: ...


def refusing(page: Response) -> Response:
    page.nofollow = Nofollow(lambda: None)
    return page


def data_of(page: Response) -> Any:
    return page.data.json_ld, page.data.microdata, page.data.opengraph, page.data.find("Product")


def article_of(page: Response) -> Any:
    article = page.article
    return article.text, article.markdown, article.title, article.author, article.date


READERS: dict[str, tuple[Callable[[Response], Any], tuple[type[Exception], ...]]] = {
    "links": (lambda page: page.links(), (UnparsablePage,)),
    "links, nofollow": (lambda page: refusing(page).links(), (UnparsablePage,)),
    "kept": (lambda page: page.links(noise=False), (UnparsablePage,)),
    "judged": (
        lambda page: judge(page, Density(article=1), QuarterRule(), TemplateLinks()),
        (UnparsablePage,),
    ),
    "extract_links": (
        lambda page: [one.extract_links(page) for one in EXTRACTORS],
        (UnparsablePage,),
    ),
    "follow_all": (
        lambda page: [
            *page.follow_all(css="a, area, img"),
            *page.follow_all(xpath="//a | //@href | //comment()"),
            *page.follow_all(page.tree.css("a, area, [src]")),
            *page.follow_all(page.soup.find_all(["a", "img"])),
        ],
        (UnparsablePage,),
    ),
    "css": (lambda page: page.css("p, a::attr(href), ::text").getall(), (UnparsablePage,)),
    "xpath": (lambda page: page.xpath("//a[@href] | //text()").getall(), (UnparsablePage,)),
    "tree": (lambda page: [node.text() for node in page.tree.css("*")], (UnparsablePage,)),
    "soup": (lambda page: page.soup.get_text(), (UnparsablePage,)),
    "form": (lambda page: page.form(), (BadRequest, UnparsablePage)),
    "form, chosen": (
        lambda page: page.form({"q": 1, "b": "x"}, xpath="//form"),
        (BadRequest, UnparsablePage),
    ),
    "data": (data_of, (UnparsablePage,)),
    "article": (article_of, (UnparsablePage,)),
    "fast text": (lambda page: (page.article.fast_text, page.article.language), (UnparsablePage,)),
    "usage": (lambda page: read_usage(page.headers, page.body, "crawler"), ()),
    "content": (content_of, ()),
    "words": (lambda page: words_of(visible_text(page.body)), ()),
    "text": (lambda page: (page.text, page.kind, page.encoding, page.base_url), (UnparsablePage,)),
    "site": (links_of, (UnparsablePage,)),
    "feed": (lambda page: run(Entries, page), (SpiderError,)),
    "rows": (lambda page: run(Rows, page), (SpiderError,)),
    "sitemap": (lambda page: run(Listed, page, "read_sitemap"), (SpiderError,)),
}


def wrongly_raised(body: bytes, kind: str) -> Iterator[str]:
    response = make_response(URL, body=body, headers={"Content-Type": kind})
    for name, (read, allowed) in READERS.items():
        try:
            read(response)
        except allowed:
            pass
        except Exception:
            yield f"{name}, {kind}: {traceback.format_exc()}"


@pytest.mark.filterwarnings("ignore::bs4.XMLParsedAsHTMLWarning")
@pytest.mark.parametrize("kinds", [1, pytest.param(len(KINDS), marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", range(8))
def test_readers_raise_only_what_they_document(seed: int, kinds: int) -> None:
    """Each page as one kind in turn, and in the long version as all."""
    random = Random(seed)
    for number in range(20):
        base = (PAGE, PAGE, PAGE, FEED, SITEMAP)[number % 5].encode()
        body = mutated(base, random)
        for one in range(kinds):
            assert not [*wrongly_raised(body, KINDS[(number + one) % len(KINDS)])], body
