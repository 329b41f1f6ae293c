"""A recipe tried on one page: its values, their display, and its bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from crawlframe import Request, Response
from crawlframe.conf import Settings
from crawlframe.recipes.reading import from_data
from crawlframe.testing import make_response
from crawlservice.cli.try_recipe import fetch
from crawlservice.recipes import trial
from crawlservice.recipes.preview import mark, shown
from crawlservice.recipes.trial import TrialFailed, run, try_out

CHECKOUT = Path(__file__).resolve().parent.parent.parent
HERE = partial(fetch, Settings(allow_private=(ip_network("127.0.0.0/8"),)), None)
PAGES = {
    "/robots.txt": "User-agent: *\nDisallow: /no",
    "/": """<title>Shop</title><div class=b><h2>One</h2><a href=/1>more</a></div>
            <div class=b><h2>Two</h2></div><a class=n href=/2>next</a>""",
    "/1": "<h1>One</h1><p>ISBN 42</p>",
    "/no": "secret",
    "/long": f"<p>{'a' * 60}!</p>",
}


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGES.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def recipe(site: str, **data: Any) -> Any:
    return from_data({"name": "shop", "start_urls": [f"{site}/"], **data})


def test_field_by_field(site: str) -> None:
    found = run(
        recipe(
            site,
            each=".b",
            fields={"title": "h2", "link": {"css": "a", "attribute": "href"}},
            required=["link"],
            next="a.n",
            rules=[{"allow": ["/1$"]}],
            detail={"css": "a", "fields": {"isbn": {"regex": r"ISBN (\d+)", "convert": "int"}}},
        ),
        "",
        HERE,
    )
    assert (found["status"], found["count"], found["complete"]) == (200, 2, 1)
    assert [row["name"] for row in found["rows"]] == ["title", "link"]
    assert [cell["value"] for cell in found["rows"][0]["cells"]] == ["One", "Two"]
    assert [cell["missing"] for cell in found["rows"][1]["cells"]] == [False, True]
    assert found["links"] == [{"count": 1, "urls": [f"{site}/1"]}]
    assert found["next"] == f"{site}/2"
    assert found["detail"]["url"] == f"{site}/1"
    assert found["detail"]["rows"][0]["cells"][0]["value"] == "42"
    tree = LexborHTMLParser(found["html"])
    assert [node.text() for node in tree.css("[data-cf-part] [data-cf-field=title]")] == [
        "One",
        "Two",
    ]


def test_links_to_other_hosts_are_shown_only_if_they_are_followed(site: str) -> None:
    def fetch(spider: Any, url: str) -> Response:
        body = b"<a href=/1>1</a><a href=https://other.example/>2</a>"
        return Response(url, 200, {"Content-Type": "text/html"}, body, Request(url))

    def links(**data: Any) -> Any:
        return run(recipe(site, rules=[{}], **data), "", fetch)["links"][0]["urls"]

    assert links() == [f"{site}/1"]
    assert links(allowed_domains=["other.example"]) == [f"{site}/1", "https://other.example/"]
    assert links(same_site=False) == [f"{site}/1", "https://other.example/"]


def test_robots_txt_is_obeyed_unless_the_recipe_says_otherwise(site: str) -> None:
    assert "robots.txt forbids" in run(recipe(site), f"{site}/no", HERE)["problem"]
    found = run(recipe(site, settings={"robots": False}), f"{site}/no", HERE)
    assert found["status"] == 200


def test_private_addresses_are_refused(site: str) -> None:
    assert "127.0.0.1" in run(recipe(site), "", partial(fetch, Settings(), None))["problem"]


def test_start_addresses_that_need_arguments(site: str) -> None:
    shelf = recipe(site, start_urls=[f"{site}/{{n}}"], arguments={"n": {"type": "int"}})
    assert "need" in run(shelf, "", HERE)["problem"]
    given = recipe(site, start_urls=[f"{site}/{{n}}"], arguments={"n": 1})
    assert run(given, "", HERE)["url"] == f"{site}/1"


@pytest.mark.forks
def test_it_runs_in_a_process_of_its_own(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFRAME_ALLOW_PRIVATE", "127.0.0.0/8")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    found = try_out(recipe(site, fields={"title": {"page": "title"}}), "", str(CHECKOUT))
    assert found["rows"][0]["cells"][0]["value"] == "Shop"


@pytest.mark.forks
def test_a_pattern_that_never_ends_is_stopped(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFRAME_ALLOW_PRIVATE", "127.0.0.0/8")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    monkeypatch.setattr(trial, "SECONDS", 8)
    nested = "1"
    for _ in range(40):
        nested = f"count(//*[{nested}])"
    endless = recipe(site, fields={"it": {"xpath": f"//*[{nested}]"}})
    with pytest.raises(TrialFailed, match="took longer than 8 s"):
        try_out(endless, f"{site}/long", str(CHECKOUT))


def test_only_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_free", threading.BoundedSemaphore(1))
    with trial._free, pytest.raises(TrialFailed, match="Other pages are being tried"):
        try_out(recipe("http://a.example"), "", ".")


HOSTILE = """
<html onload="x()"><head><base href="//evil"><meta http-equiv=refresh content="0;//evil">
<link rel=stylesheet href="//evil"><style>*{}</style><script>x()</script></head>
<body onclick="x()" style="color:red"><a href="javascript:x()" id=a class="b c">link</a>tail
<img src="//evil" alt="a picture" onerror="x()" srcset="//evil"><iframe src="//evil"></iframe>
<svg><script>x()</script></svg><form action="//evil"><input value=typed autofocus></form>
<object data="//evil"></object><p>text<!-- comment --> after</p></body></html>
"""


def test_a_shown_page_runs_loads_and_leads_nowhere() -> None:
    html = shown(make_response(html=HOSTILE))
    for word in ("evil", "x()", "script", "style=", "<form", "<img", "<iframe", "comment"):
        assert word not in html
    tree = LexborHTMLParser(html)
    (link,) = tree.css("#a")
    assert (link.text(), link.attributes) == ("link", {"id": "a", "class": "b c"})
    words = " ".join(tree.body.text().split()) if tree.body else ""
    assert words == "linktail a picture typed text after"


def test_texts_and_attributes_are_marked_at_their_elements() -> None:
    response = make_response(html="<p>a</p><a href=x>b</a><i>c</i>")
    data: Any = {
        "p": {"css": "p::text"},
        "a": {"css": "a::attr(href)"},
        "i": {"xpath": "//i/text()"},
        "n": {"xpath": "count(//i)"},
    }
    contents = recipe("http://a.example", fields=data)
    mark(response, None, contents.fields)
    tree = LexborHTMLParser(shown(response))
    marked = {node.tag: node.attributes["data-cf-field"] for node in tree.css("[data-cf-field]")}
    assert marked == {"p": "p", "a": "a", "i": "i"}


def test_what_is_not_markup() -> None:
    assert shown(make_response(json="<b>")).endswith("<pre>&quot;&lt;b&gt;&quot;</pre>")
    assert shown(make_response(body=b"\0\1")) == ""


def test_an_expression_for_all_texts_below_an_element_is_marked_there() -> None:
    """Its last step is cut off; the rest must be an expression, too."""
    response = make_response(html="<div><p>a<b>b</b></p></div>")
    data: Any = {"all": {"xpath": "//p//text()"}, "two": {"xpath": "//p//text() | //a//text()"}}
    mark(response, None, recipe("http://a.example", fields=data).fields)
    (marked,) = LexborHTMLParser(shown(response)).css("[data-cf-field]")
    assert (marked.tag, marked.attributes["data-cf-field"]) == ("p", "all")


def test_a_page_whose_root_is_a_script_is_not_shown() -> None:
    assert (
        shown(make_response(body=b"<script>x()</script>", headers={"Content-Type": "text/xml"}))
        == ""
    )


def test_arguments_without_a_default_do_not_upset_a_trial(site: str) -> None:
    def redirected(spider: Any, url: str) -> Any:
        assert spider.allowed_domains == ("127.0.0.1",)  # as where a redirect leads elsewhere
        return HERE(spider, url)

    data: dict[str, Any] = {"start_urls": [f"{site}/{{n}}"], "arguments": {"n": {"type": "int"}}}
    assert run(recipe(site, **data), f"{site}/1", redirected)["url"] == f"{site}/1"
    data["next"] = {"url": f"{site}/{{n}}/{{page}}"}
    assert "needs the argument n" in run(recipe(site, **data), f"{site}/1", HERE)["problem"]
