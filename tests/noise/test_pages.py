"""Noise among the links of a page, and its report."""

from __future__ import annotations

import pytest

from crawlframe.errors import ConfigError
from crawlframe.markup.links import Nofollow
from crawlframe.noise import Density, QuarterRule, TemplateLinks, judge
from crawlframe.request.request import Request
from crawlframe.response.response import Response

URL = "https://h.example/a/page"
TEXT = "This sentence is part of a long article about the weather in the mountains of the north. "


def page(body: str, url: str = URL, content_type: str = "text/html") -> Response:
    return Response(url, 200, {"Content-Type": content_type}, body.encode(), Request(url))


ARTICLE = f"""<nav><ul><li><a href=/home>Home</a><li><a href=/news>News</a></ul></nav>
<div class=story><h1>Weather</h1><p>{TEXT}</p><p>{TEXT}<a href=/source>a source</a> says.</p>
<p>{TEXT}</p></div><div class=related-links><h3><a href=/other>Another article</a></h3></div>
<footer><p>{TEXT}See the <a href=/terms>terms</a>.</p></footer>"""


def test_links_of_an_article_are_kept_and_the_others_have_a_reason() -> None:
    response = page(ARTICLE)
    assert len(response.links()) == 5
    assert response.links(noise=False) == ["https://h.example/source"]
    assert response.judged.noise == dict.fromkeys(
        [f"https://h.example/{name}" for name in ("home", "news", "other", "terms")], "density"
    )
    assert response.judged.counts == {"density": 4, "kept": 1}


def test_every_link_is_either_kept_or_noise() -> None:
    response = page(ARTICLE + "<a href=/home>again</a><area href=/map><a href='mailto:x@y'>m</a>")
    report = response.judged
    assert sorted([*report.kept, *report.noise]) == sorted(response.links())


def test_a_url_is_noise_only_if_all_links_to_it_are() -> None:
    body = ARTICLE.replace("<a href=/source>", "<a href=/home>")
    assert page(body).links(noise=False) == ["https://h.example/home"]


def test_names_do_not_set_apart_what_has_most_of_the_text() -> None:
    body = ARTICLE.replace("<div class=story>", "<div class=sidebar-card>")
    assert page(body).links(noise=False) == ["https://h.example/source"]


def test_a_page_without_an_article_is_not_judged() -> None:
    links = "".join(f"<li><a href=/{n}>chapter {n}</a>" for n in range(50))
    index = page(f"<h1>Contents</h1><ul>{links}</ul>")
    assert len(index.links(noise=False)) == 50
    assert judge(index, Density(article=0)).kept == []
    assert judge(index, QuarterRule()).kept == []


def test_the_rule_of_the_source_is_a_quarter_of_td_p_or_div() -> None:
    response = page(
        "<p>123456789 1234 <a href=/in>1234</a></p><p>12345678 <a href=/out>1234</a></p>"
        "<ul><li>a long text in an item <a href=/item>x</a></ul>"
        "<div><b>bold text that is long</b> <i><a href=/bold>y</a></i></div>"
        "<div><a href=/alone><img src=x></a></div>"
    )
    report = judge(response, QuarterRule())
    assert report.noise == {"https://h.example/out": "quarter"}
    assert len(report.kept) == 4


def test_text_of_blocks_below_does_not_count() -> None:
    body = f"<div><div>{TEXT}</div><script>{TEXT}</script><!-- {TEXT} --><a href=/x>link</a></div>"
    assert judge(page(body), QuarterRule()).noise == {"https://h.example/x": "quarter"}


def test_nofollow_and_base_hold_here_too() -> None:
    response = page(f"<base href='https://o.example/'>{ARTICLE}<a rel=nofollow href=/no>x</a>")
    refused: list[None] = []
    response.nofollow = Nofollow(lambda: refused.append(None))
    assert response.links(noise=False) == ["https://o.example/source"]
    assert "https://o.example/no" not in response.judged.noise
    assert refused == [None]


@pytest.mark.parametrize("content_type", ["application/json", "image/png", "text/plain"])
def test_only_html_has_links(content_type: str) -> None:
    response = page(ARTICLE, content_type=content_type)
    assert response.links(noise=False) == []
    assert response.judged.counts == {"kept": 0}


@pytest.mark.parametrize("body", ["", "\0", "<a href=x", "<p>" * 500 + "<a href=/x>x</a>"])
def test_any_page_is_judged(body: str) -> None:
    for one in (Density(article=0), QuarterRule(), TemplateLinks()):
        report = judge(page(body), one)
        assert len(report.kept) + len(report.noise) == len(page(body).links())


def test_the_first_filter_with_a_reason_is_named() -> None:
    assert judge(page(ARTICLE), QuarterRule(), Density()).counts == {
        "quarter": 3,
        "density": 1,
        "kept": 1,
    }


@pytest.mark.parametrize(
    "make", [lambda: QuarterRule(1.5), lambda: Density(article=-1), lambda: QuarterRule(-1)]
)
def test_limits_that_make_no_sense_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="must be"):
        make()
