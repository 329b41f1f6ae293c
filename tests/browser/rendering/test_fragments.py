"""Fragments and redirects of a browser: URLs of another page, and of the same page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.run.outcome import Outcome
from crawlframe.run.reasons import DUPLICATE
from tests.browser.rendering.conftest import Browser, Site, html
from tests.node.runner import HERE, Tasks, items
from tests.node.test_redirects import Frontier, rid_of

APP = """<body><script>
  const show = () => { document.body.innerHTML = `<p>${decodeURIComponent(location.hash)}</p>
    <a href="#/topic/2">2</a><a href="#!old">o</a><a href="/app#/topic/3">3</a><a href="#part">p</a>
    <a href="/other#part">x</a>` };
  addEventListener("hashchange", show); show();
</script>"""


@pytest.mark.parametrize("fragment", ["#/topic/1", "#/a b?c=é", "#"])
def test_it_is_rendered_with_its_fragment(site: Site, browser: Browser, fragment: str) -> None:
    html(site, "/app", APP)
    for one in (fragment, "", fragment):  # perhaps on the same tab
        response = browser.fetch(f"{site.url}/app{one}")
        assert response.css("p::text").get("") == ("" if one in ("", "#") else one)
        encoded = "" if one == "#" else one.replace(" ", "%20").replace("é", "%C3%A9")
        assert response.url == f"{site.url}/app{encoded}"


def test_links_to_routes_keep_theirs(site: Site, browser: Browser) -> None:
    html(site, "/app", APP)
    response = browser.fetch(f"{site.url}/app#/topic/1")
    app = f"{site.url}/app"
    routes = [f"{app}#/topic/2", f"{app}#!old", f"{app}#/topic/3"]
    assert response.links() == [*routes, app, f"{site.url}/other"]
    followed = [*response.follow_all(css="a"), response.follow("#/topic/2")]
    assert [one.url + one.fragment for one in followed] == [*response.links(), routes[0]]


class App(Spider):
    name = "app"
    settings: ClassVar[dict[str, Any]] = {
        "downloader": "browser",
        "robots": False,
        "browser": {"settle": 1.0},  # a page may lead on a moment after it has loaded
    }

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a")


def run(browser: Browser, spider: type[Spider], request: Request, **more: Any) -> Outcome:
    async def job(downloader: Any) -> Outcome:
        tasks = Tasks(spider, downloader, settings=HERE, **more)
        return await tasks.run(request)

    outcome: Outcome = browser.run(job)
    return outcome


def test_topics_are_no_duplicates(site: Site, browser: Browser) -> None:
    html(site, "/app", APP)
    outcome = run(browser, App, Request(f"{site.url}/app#/topic/1", downloader="browser"))
    assert outcome.url == f"{site.url}/app#/topic/1"
    asked = [Request.decode(link.record) for link in outcome.results.follow_ups]
    app = f"{site.url}/app"
    expected = [f"{app}#/topic/2", f"{app}#!old", f"{app}#/topic/3", app, f"{site.url}/other"]
    assert [one.url + one.fragment for one in asked] == expected


LEADS = {
    "refresh": '<meta http-equiv="refresh" content="0; url=/new">',
    "script": '<script>location = "/new"</script>',
    "itself": """<script>
        document.cookie.match("a=1") || (document.cookie = "a=1", location.reload())
    </script>""",
}


@pytest.mark.parametrize("way", LEADS)
@pytest.mark.parametrize("known", [True, False])
def test_where_a_page_leads_by_itself_is_a_redirect(
    site: Site, browser: Browser, way: str, known: bool
) -> None:
    html(site, "/old", f"{LEADS[way]}<p>old")
    html(site, "/new", "<p>new")
    frontier = Frontier(*([f"{site.url}/new", f"{site.url}/old"] if known else []))
    outcome = run(browser, App, Request(f"{site.url}/old"), permits=frontier)
    if way == "itself":
        assert (outcome.reason, items(outcome)) == ("", [{"url": f"{site.url}/old"}])
        assert (frontier.asked, outcome.fetch.landing) == ([], None)
    elif known:
        assert (outcome.verdict, outcome.reason, outcome.results.items) == ("done", DUPLICATE, [])
    else:
        assert items(outcome) == [{"url": f"{site.url}/new"}]
        assert outcome.fetch.landing == (rid_of(f"{site.url}/new"), f"{site.url}/new")
