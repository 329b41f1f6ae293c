"""response.article: text, Markdown and metadata of an article; limits, caches, no network."""

from __future__ import annotations

import asyncio
import socket
import sys
from datetime import date
from typing import Any, Never

import pytest

from crawlframe.errors import ConfigError, TooComplex, TooDeep
from crawlframe.response.response import Response
from crawlframe.testing import make_response, run
from crawlframe.text import article as article_module
from crawlframe.text.article import declared_language
from tests.howto import spider_of

pytest.importorskip("trafilatura")
pytest.importorskip("resiliparse")

URL = "https://magazine.example/2025/bees"
FIRST = "Bees dance to tell each other where flowers are, and how far one has to fly to reach them."
SECOND = (
    "The angle of the dance is that between the flowers and the sun, as people found out in 1944."
)
PAGE = f"""<!DOCTYPE html>
<html lang="en-GB"><head><title>How bees dance - Magazine</title>
<meta name="author" content="Ann Lee"><meta property="article:published_time" content="2025-03-04">
</head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/shop">Shop</a></li></ul></nav>
<article><h1>How bees dance</h1>
<p>{FIRST}</p><h2>The angle</h2>
<p>{SECOND} See <a href="/frisch">his <b>report</b></a>.</p>
<ul><li>It needs light, which may come through clouds.</li>
<li>It is learned from other bees.</li></ul>
</article>
<div class="comments" id="comments"><p>I do not believe a word of what is written here.</p></div>
<footer><p>Copyright 2026 Magazine. All rights reserved.</p></footer></body></html>"""


def page(html: str = PAGE, **headers: str) -> Response:
    return make_response(URL, html=html, headers=headers)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbids connections and look-ups of names."""

    def refuse(*given: Any, **named: Any) -> Never:
        raise AssertionError(f"connects: {given}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)


# -- articles -------------------------------------------------------------------------------------


def test_the_text_is_that_of_the_article() -> None:
    lines = page().article.text.splitlines()
    assert FIRST in lines
    assert f"{SECOND} See his report." in lines
    text = "\n".join(lines)
    for other in ("Home", "Shop", "believe", "rights reserved", "https://", "**"):
        assert other not in text


def test_markdown_has_headings_links_emphasis_and_lists() -> None:
    markdown = page().article.markdown
    assert "## The angle" in markdown
    assert "](https://magazine.example/frisch)" in markdown
    assert "**report**" in markdown
    assert "- It is learned from other bees." in markdown
    assert "rights reserved" not in markdown


def test_title_author_date_and_language() -> None:
    article = page().article
    assert (article.title, article.author) == ("How bees dance", "Ann Lee")
    assert (article.date, article.language) == (date(2025, 3, 4), "en")


def test_what_a_page_does_not_say_is_none() -> None:
    article = make_response("https://a.example/", html="<html><body><p>x</p></body></html>").article
    assert (article.author, article.date, article.language) == (None, None, None)


@pytest.mark.parametrize("given", [{"json": {"a": 1}}, {"body": b"\0"}, {"text": "<p>text"}])
def test_what_is_not_html_has_no_article(given: dict[str, Any]) -> None:
    article = make_response(URL, **given).article
    assert (article.text, article.markdown, article.fast_text, article.title) == ("", "", "", None)
    assert article.language is None


@pytest.mark.parametrize(
    "html", ["", " ", "x", "<p>", "<html></html>", "http://a.example/b", "<!--"]
)
def test_pages_with_next_to_nothing(html: str) -> None:
    """The last but one is a URL, which must not be fetched."""
    article = page(html).article
    assert article.text in ("", html.strip())
    assert article.markdown in ("", html.strip())


def test_the_fast_text() -> None:
    text = page().article.fast_text
    assert FIRST in text
    assert SECOND in text
    assert "Home" not in text


@pytest.mark.parametrize(
    ("html", "header", "code"),
    [
        ('<html lang="pt-BR">', "", "pt"),
        ("<html class=x LANG=De>", "fr", "de"),
        ("<html xml:lang='sr_Latn'>", "", "sr"),
        ('<html data-lang="x" hreflang="fr">', "", None),
        ("<html>", "fr-CA", "fr"),
        ("<html>", "fr, en", None),
        ('<p><html lang="">', "x", None),
        ('<html lang="unknown">', "", None),
    ],
)
def test_the_language_that_is_declared(html: str, header: str, code: str | None) -> None:
    assert declared_language(html.encode(), {"Content-Language": header}) == code


def test_a_language_that_is_not_declared_is_detected() -> None:
    paragraph = (
        "Die Bienen tanzen, um einander mitzuteilen, wo die Blumen sind und wie weit es ist. "
    )
    html = f"<html><body><article><h1>Bienen</h1><p>{paragraph * 5}</p></article></body></html>"
    assert page(html).article.language == "de"
    assert page(html.replace(paragraph * 5, "Bienen")).article.language is None


def test_encodings_are_those_of_the_response() -> None:
    html = PAGE.replace("where flowers are", "où sont les fleurs")
    response = make_response(URL, html=html, headers={"Content-Type": "text/html; charset=cp1252"})
    assert response.body != html.encode()
    assert "où sont les fleurs" in response.article.text
    assert "où sont les fleurs" in response.article.fast_text


# -- the same for the same page -------------------------------------------------------------------


def test_the_result_does_not_depend_on_earlier_pages() -> None:
    """A paragraph that was on many pages stays, and no texts of earlier pages are kept."""
    from htmldate.extractors import try_date_expr
    from trafilatura import utils

    first = page().article._extracted
    for n in range(5):
        other = PAGE.replace(SECOND, f"Another one of the many texts that there are: {n}.")
        assert FIRST in page(other).article.text
    assert page().article._extracted == first
    for cache in (utils.trim, utils.line_processing, try_date_expr):
        assert cache.cache_info().currsize == 0


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("<p>Updated 5 March 2025. Published 1 February 2025</p>", date(2025, 2, 1)),
        ("<p class=date>Updated March 5, 2025 | Published: February 1, 2025</p>", date(2025, 2, 1)),
        ("<p>Last updated on March 5th, 2025. Posted on February 1st, 2025</p>", date(2025, 2, 1)),
        ("<p><b>Published</b> <time>2025-02-01</time></p>", date(2025, 2, 1)),
        ("<p>Published 1 February 2025</p><p>Published 2 March 2025</p>", None),
        ("<p>2025年2月1日</p>", date(2025, 2, 1)),
        ("<p>2025年02月01日（土） 12:30</p>", date(2025, 2, 1)),
        ("<p>更新日：2025年3月5日 公開日：2025年2月1日</p>", date(2025, 2, 1)),
        ("<p>投稿日 2025/02/01　更新日 2025/03/05</p>", date(2025, 2, 1)),
        ("<p>The bees of 2025年2月1日 were many more than those of the years before.</p>", None),
    ],
)
def test_the_day_that_is_called_that_of_publication(line: str, found: date | None) -> None:
    plain = PAGE.replace('<meta property="article:published_time" content="2025-03-04">', "")
    sent = {"Date": "Sun, 08 Jun 2025 10:00:00 GMT"}
    assert page(plain.replace("<h2>", f"{line}<h2>"), **sent).article.date == found
    stated = PAGE.replace("<h2>", f"{line}<h2>")
    assert page(stated, **sent).article.date == date(2025, 3, 4)  # metadata are more reliable


def test_a_date_after_that_of_the_response_is_none_of_publication() -> None:
    html = PAGE.replace("2025-03-04", "2025-06-07")
    url = "https://magazine.example/bees"
    for day, found in (("Sun, 08 Jun 2025", date(2025, 6, 7)), ("Fri, 30 May 2025", None)):
        response = make_response(url, html=html, headers={"Date": f"{day} 10:00:00 GMT"})
        assert response.article.date == found


def test_it_is_extracted_once_and_only_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    kept = article_module.part

    def part(name: str) -> Any:
        asked.append(name)
        return kept(name)

    monkeypatch.setattr(article_module, "part", part)
    response = page()
    article = response.article
    assert asked == []
    assert (article.text, article.title) == (response.article.text, response.article.title)
    assert asked == ["extraction"]


def test_awaiting_it_leaves_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[str, str | None]:
        article = await page().article
        monkeypatch.setattr(article_module, "part", None)
        assert not article.held_loop
        return article.text, article.language

    text, language = asyncio.run(main())
    assert FIRST in text
    assert language == "en"


# -- pages that do harm ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("html", "error"),
    [
        ("<div>" * 30_000, TooDeep),
        ("<p>x" * 40_000, TooComplex),
        ("<p " + " ".join(f"a{n}" for n in range(20_000)) + ">", TooComplex),
        (f"<p>{'word ' * 2_000_000}", TooComplex),
    ],
)
def test_pages_that_would_take_too_long_are_refused(html: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=URL):
        _ = page(html).article.text


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ('<script type="application/ld+json">' + '{"@type": [' * 20_000 + "</script>", ""),
        ('<script type="application/ld+json">{"a": "' + '\\"' * 20_000 + "</script>", ""),
        ('<script type="application/ld+json">' + "[" * 20_000 + "</script>", ""),
        (f'<meta name="description" content="{"<" * 100_000}">', ""),
        ("", "\\(" * 50_000),
        ("", "\\)" * 25_000 + "\\(" * 25_000),
        ("", "\\[ " * 50_000),
        ("", "\\" * 100_000 + "x["),
        ("", "<b>" * 1_000),
        ("", "<blockquote>" * 1_000),
    ],
)
def test_pages_that_would_hang_a_regular_expression_end(head: str, body: str) -> None:
    """Each took minutes, or for ever; the time limit of tests notices."""
    html = PAGE.replace("</head>", f"{head}</head>").replace("</article>", f"<p>{body}</article>")
    assert FIRST in page(html).article.text


def test_json_that_is_repaired_is_still_read() -> None:
    block = """<!-- {"@context": "https://schema.org", "@type": "NewsArticle",
    "headline": "A\nheadline", "author": {"@type": "Person", "name": "Bo Li"}} -->"""
    html = PAGE.replace('<meta name="author" content="Ann Lee">', "").replace(
        "</head>", f'<script type="application/ld+json">{block}</script></head>'
    )
    assert page(html).article.author == "Bo Li"


def test_formulas_stay() -> None:
    html = PAGE.replace("The angle of", r"With \(a_1 < b\) and \(open, the angle of")
    text = page(html).article.text
    assert r"\(a_1 < b\)" in text
    assert r"and (open" in text


# -- without the extra ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "name"), [("trafilatura", "text"), ("resiliparse.extract.html2text", "fast_text")]
)
def test_without_the_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    for module in ("extraction", "fast"):
        monkeypatch.delitem(sys.modules, f"crawlframe.text.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"pip install 'crawlframe\[text\]'"):
        getattr(page().article, name)


# -- the documentation ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "callback"), [("magazine", "parse_article"), ("journal", "parse")]
)
def test_the_examples(name: str, callback: str) -> None:
    result = run(spider_of("howto/article.md", name), page(), callback)
    assert (result.end, result.detail) == ("done", "")
    assert result.items[0]["title"] == "How bees dance"
