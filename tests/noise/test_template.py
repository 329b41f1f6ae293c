"""Links on most pages of a host are returned until they are known, once more, and then not."""

from __future__ import annotations

import pytest

from crawlframe.errors import ConfigError
from crawlframe.noise import QuarterRule, TemplateLinks, judge
from crawlframe.noise.template import LINKS, MEMORY, PAGES
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from tests.noise.sites import crawl, generated


def page(number: int, nav: str = "/home", host: str = "h.example") -> Response:
    body = f"<nav><a href={nav}>x</a></nav><p>See <a href=/{number + 1}>the next</a>.</p>"
    url = f"https://{host}/{number}"
    return Response(url, 200, {"Content-Type": "text/html"}, body.encode(), Request(url))


def test_a_link_of_the_template_is_returned_until_it_is_known_and_once_more() -> None:
    links = TemplateLinks()
    reports = [links.judge(page(number)) for number in range(PAGES + 5)]
    returned = ["https://h.example/home" in report.kept for report in reports]
    assert returned == [True] * PAGES + [False] * 5
    assert reports[-1].noise == {"https://h.example/home": "template"}
    assert reports[-1].kept == [f"https://h.example/{PAGES + 5}"]


def test_a_link_in_another_place_is_another_link() -> None:
    links = TemplateLinks()
    for number in range(PAGES + 5):
        links.judge(page(number))
    report = links.judge(page(0, nav="/1"))  # on few pages there; in the text once
    assert report.kept == ["https://h.example/1"]


def test_hosts_have_templates_of_their_own() -> None:
    links = TemplateLinks()
    for number in range(PAGES + 5):
        links.judge(page(number))
    assert "https://o.example/home" in links.judge(page(1, host="o.example")).kept


def test_counts_of_others_are_taken_and_their_links_returned_once() -> None:
    ours, theirs = TemplateLinks(), TemplateLinks()
    for number in range(PAGES + 5):
        theirs.judge(page(number))
    (host, (pages, counts)), *none = theirs.take_new().items()
    assert (host, pages, none) == ("h.example", PAGES + 5, [])
    assert theirs.take_new() == {}
    ours.add(host, pages, counts)
    assert ours.counts(host) == theirs.counts(host)
    kept = ["https://h.example/home" in ours.judge(page(n)).kept for n in range(100, 103)]
    assert kept == [True, False, False]


def test_memory_is_bounded_and_the_template_stays_known() -> None:
    links = TemplateLinks(hosts=3)
    for number in range(3_000):
        links.count("h", [1, 2, *range(10 + number * 10, 20 + number * 10)])
        assert len(links.counts("h")[1]) <= LINKS
    assert links.counts("h")[0] <= MEMORY
    assert links.count("h", [1, 2, 3]) == [True, True, False]
    for host in "abc":
        links.count(host, [1])
    assert links.counts("h") == (0, {})


def test_a_new_template_is_learned() -> None:
    links = TemplateLinks()
    for _ in range(MEMORY):
        links.count("h", [1])
    seen = [links.count("h", [2])[0] for _ in range(6 * MEMORY)]
    assert seen[-1]
    assert links.count("h", [1]) == [False]


def test_a_crawl_reaches_what_it_reaches_without_the_filter() -> None:
    site = generated(120)
    everything, followed = crawl(site, Response.links)
    links = TemplateLinks()
    reached, returned = crawl(site, lambda response: links.judge(response).kept)
    assert reached == everything
    assert len(reached) >= 120
    assert returned < followed
    assert len(crawl(site, lambda response: judge(response, QuarterRule()).kept)[0]) == 1


@pytest.mark.parametrize(
    "options",
    [{"share": 0.4}, {"share": 1.1}, {"pages": 0}, {"hosts": 0}, {"links": 10}],
)
def test_limits_that_make_no_sense_are_refused(options) -> None:
    with pytest.raises(ConfigError, match="TemplateLinks"):
        TemplateLinks(**options)


def test_pages_are_not_taken_away() -> None:
    with pytest.raises(ConfigError, match="-1 pages of h"):
        TemplateLinks().add("h", -1, {})
