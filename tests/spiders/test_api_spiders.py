"""APIs with tokens, and GraphQL: a node's requests to a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from crawlframe import GraphQLSpider, JSONSpider, NextURL, Request, Secret
from crawlframe.errors import SpiderError
from crawlframe.run.outcome import Verdict
from crawlframe.spider.spider import describe
from crawlframe.testing import make_response, run
from tests.fetch.conftest import Exchange, Site, _server, site
from tests.node.runner import items
from tests.spiders.test_docs import crawl, send_json

__all__ = ("_server", "site")

QUICK = {"delay": 0, "robots": False, "retries": 1}


class Api:
    """Gives out tokens, each good for ``good_for`` requests. ``site``: its server."""

    def __init__(self, site: Site, good_for: int = 2) -> None:
        self.site = site
        self.given = 0
        self.used = 0
        self.tokens: list[str | None] = []
        self.status = 200  # of the response with a token

        @site.on("/token")
        async def token(exchange: Exchange) -> bool:
            assert exchange.body == b"key=letmein"
            assert exchange.header("Authorization") is None
            self.given += 1
            self.used = 0
            return await send_json(exchange, {"access_token": f"t{self.given}"}, self.status)

        @site.on("/items")
        async def page(exchange: Exchange) -> bool:
            self.tokens.append(exchange.header("Authorization"))
            if self.tokens[-1] != f"Bearer t{self.given}" or self.used >= good_for:
                return await send_json(exchange, {"error": "expired"}, 401)
            self.used += 1
            n = int(exchange.target.partition("?n=")[2] or 1)
            following = f"/items?n={n + 1}" if n < 5 else None
            return await send_json(exchange, {"items": [{"n": n}], "next": following})


class Tickets(JSONSpider):
    name = "tickets"
    settings: ClassVar[dict[str, Any]] = QUICK
    items_path = "items"
    next_page: ClassVar[NextURL | None] = NextURL("next")
    key: Secret
    base: str

    def start(self) -> Iterator[Request]:
        yield Request(f"{self.base}/items")

    def token_request(self) -> Request:
        return Request(f"{self.base}/token", form={"key": self.key.reveal()})


def test_a_token_is_got_and_renewed(site: Site) -> None:
    api = Api(site)
    outcomes = crawl(Tickets, {"key": Secret("letmein"), "base": site.url})
    assert [item for one in outcomes for item in items(one)] == [{"n": n} for n in range(1, 6)]
    assert {one.verdict for one in outcomes} == {Verdict.DONE}
    assert api.given == 3
    assert api.tokens == [f"Bearer t{n}" for n in (1, 1, 1, 2, 2, 2, 3)]
    assert not any(b"Bearer" in one.record for one in outcomes)


def test_requests_that_need_a_token_wait_for_the_first_that_asks(site: Site) -> None:
    class Many(Tickets):
        name = "many"
        next_page = None

        def start(self) -> Iterator[Request]:
            for n in range(1, 9):
                yield Request(f"{self.base}/items?n={n}")

    api = Api(site, good_for=99)
    outcomes = crawl(Many, {"key": Secret("letmein"), "base": site.url}, at_once=True)
    assert {one.verdict for one in outcomes} == {Verdict.DONE}
    assert (api.given, len(api.tokens)) == (1, 8)


def test_a_token_is_renewed_once(site: Site) -> None:
    api = Api(site, good_for=0)
    _, outcome = crawl(Tickets, {"key": Secret("letmein"), "base": site.url})
    assert (outcome.verdict, outcome.reason, outcome.fetch.status) == (
        Verdict.ERROR,
        "http_401",
        401,
    )
    assert (api.given, len(api.tokens)) == (2, 2)


@pytest.mark.parametrize(
    ("status", "verdict", "reason"),
    [(403, Verdict.ERROR, "token"), (500, Verdict.RETRY, "token")],
)
def test_an_api_that_gives_no_token(site: Site, status: int, verdict: Verdict, reason: str) -> None:
    api = Api(site)
    api.status = status
    _, outcome = crawl(Tickets, {"key": Secret("letmein"), "base": site.url})
    assert (outcome.verdict, outcome.reason) == (verdict, reason)
    assert api.tokens == []


def test_a_token_goes_to_its_api_only(site: Site) -> None:
    class Leaving(Tickets):
        name = "leaving"
        next_page = None

        def parse_item(self, response: Any, item: Any) -> Iterator[Any]:
            yield Request(site.url.replace("127.0.0.1", "localhost") + "/else", "parse_else")
            yield Request(f"{site.url}/own", "parse_else", headers={"authorization": "Basic eA=="})

        def parse_else(self, response: Any) -> None: ...

    Api(site)
    site.answer("/else")
    site.answer("/own")
    crawl(Leaving, {"key": Secret("letmein"), "base": site.url})
    sent = {exchange.target: exchange.header("Authorization") for exchange in site.seen}
    assert (sent["/else"], sent["/own"]) == (None, "Basic eA==")


def test_a_response_in_a_test_needs_no_token() -> None:
    arguments = {"key": Secret("letmein"), "base": "http://api.example"}
    response = make_response("http://api.example/items", json={"items": [{"n": 1}]})
    assert run(Tickets, response, arguments=arguments).items == [{"n": 1}]

    def download(request: Request) -> Any:
        if request.url.endswith("/token"):
            return make_response(request.url, json={"access_token": "t"})
        assert request.headers["Authorization"] == "Bearer t"
        return make_response(request.url, json={"items": [{"n": 2}]})

    request = Request("http://api.example/items")
    assert run(Tickets, request, arguments=arguments, download=download).items == [{"n": 2}]


def test_a_spider_without_a_token_has_no_layer() -> None:
    class Plain(JSONSpider):
        name = "plain"

    assert Plain()._layers() == ()


QUERY = "query ($after: String) { orders(first: 2, after: $after) { nodes { id } } }"
URL = "https://api.example/graphql"


class Orders(GraphQLSpider):
    name = "orders"
    settings: ClassVar[dict[str, Any]] = QUICK
    start_urls: ClassVar[list[str]] = [URL]
    query = QUERY
    variables: ClassVar[dict[str, Any]] = {"first": 2}
    connection = "data.orders"


def answer(*nodes: int, end: str | None = None, edges: bool = False, **more: Any) -> Any:
    page = {"hasNextPage": end is not None, "endCursor": end}
    found = [{"id": node} for node in nodes]
    listed = {"edges": [{"node": node} for node in found]} if edges else {"nodes": found}
    return {"data": {"orders": {**listed, "pageInfo": page}}, **more}


@pytest.mark.parametrize("edges", [False, True])
def test_a_connection_is_walked_through(edges: bool) -> None:
    assert describe(Orders).name == "orders"
    (first,) = run(Orders).requests
    assert (first.method, first.url) == ("POST", URL)
    assert json.loads(first.body or b"") == {"query": QUERY, "variables": {"first": 2}}
    got = make_response(URL, json=answer(1, 2, end="c2", edges=edges), request=first)
    result = run(Orders, got)
    assert result.items == [{"id": 1}, {"id": 2}]
    (following,) = result.requests
    assert json.loads(following.body or b"")["variables"] == {"first": 2, "after": "c2"}
    last = make_response(URL, json=answer(3, edges=edges), request=following)
    assert (run(Orders, last).items, run(Orders, last).requests) == ([{"id": 3}], [])


@pytest.mark.parametrize("path", ["data.orders", "data.*|[0]", "data.none || data.orders"])
def test_a_walk_through_a_connection_ends(path: str) -> None:
    """60 orders, two a page; with any path."""

    class Walk(Orders):
        name = "walk"
        connection = path

    (request,), found = run(Walk).requests, []
    for last in range(2, 62, 2):
        end = f"c{last}" if last < 60 else None
        got = make_response(URL, json=answer(last - 1, last, end=end), request=request)
        result = run(Walk, got)
        found += result.items
        assert len(result.requests) == (last < 60)
        request = result.requests[0] if result.requests else request
    assert len(found) == 60
    empty = run(Walk, make_response(URL, json=answer(), request=request))
    assert (empty.items, empty.requests) == ([], [])


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ({"nodes": []}, "must have hasNextPage"),
        ({"nodes": [], "pageInfo": None}, "must have hasNextPage"),
        ({"nodes": [], "pageInfo": {"endCursor": "c"}}, "must have hasNextPage"),
        (
            {"nodes": [], "pageInfo": {"hasNextPage": "true", "endCursor": "c"}},
            "must have hasNextPage",
        ),
        ({"nodes": [], "pageInfo": {"hasNextPage": True}}, "an endCursor if that is true"),
        ({"nodes": [], "pageInfo": {"hasNextPage": True, "endCursor": True}}, "and no cursor"),
        ({"node": [], "pageInfo": {"hasNextPage": False}}, "finds no list in the page"),
        ([], "finds no list in the page"),
        (None, "finds no list in the page, which has the keys data"),
    ],
)
def test_a_connection_that_is_not_understood_is_an_error(page: Any, words: str) -> None:
    (first,) = run(Orders).requests
    with pytest.raises(SpiderError) as caught:
        run(Orders, make_response(URL, json={"data": {"orders": page}}, request=first))
    assert words in str(caught.value)


def test_a_subclass_may_change_the_connection_and_the_cursor() -> None:
    class Other(Orders):
        name = "other"
        connection = "data.users"
        cursor = "from"

    class Plain(Orders):
        name = "plain"

    (first,) = run(Other).requests
    body = {"data": {"users": answer(1, end="c")["data"]["orders"]}}
    (following,) = run(Other, make_response(URL, json=body, request=first)).requests
    assert json.loads(following.body or b"")["variables"] == {"first": 2, "from": "c"}
    assert run(Plain, make_response(URL, json=answer(1), request=first)).items == [{"id": 1}]


def test_a_query_that_ignores_its_cursor_is_an_error() -> None:
    (first,) = run(Orders).requests
    body = answer(1, 2, end="c")
    (second,) = run(Orders, make_response(URL, json=body, request=first)).requests
    with pytest.raises(SpiderError, match="items of the one before, and says that there are more"):
        run(Orders, make_response(URL, json=body, request=second))


def test_stop_when_and_items_path_count_beside_a_connection() -> None:
    class Own(Orders):
        name = "own"
        stop_when = "data.orders.done"
        items_path = "data.orders.nodes[].id"

        def parse_item(self, response: Any, item: Any) -> Any:
            yield {"n": item}

    body = answer(1, end="c")
    (first,) = run(Own).requests
    result = run(Own, make_response(URL, json=body, request=first))
    assert (result.items, len(result.requests)) == ([{"n": 1}], 1)
    body["data"]["orders"]["done"] = True
    assert run(Own, make_response(URL, json=body, request=first)).requests == []


@pytest.mark.parametrize(
    ("body", "end", "detail"),
    [
        ({"errors": [{"message": "no such field"}]}, "error", "no such field"),
        ({"errors": [{"message": "m"}] * 5, "data": None}, "error", "m; m; m (and 2 more)"),
        ({"errors": "odd"}, "error", "odd"),
        (answer(1, errors=[{"message": "half of it"}]), "error", "half of it"),
        ({"errors": [{"message": "x", "extensions": {"code": "THROTTLED"}}]}, "retry", "x"),
        ({"errors": [{"message": "x", "type": "RATE_LIMITED"}]}, "retry", "x"),
    ],
)
def test_errors_in_good_responses_are_errors(body: Any, end: str, detail: str) -> None:
    (first,) = run(Orders).requests
    result = run(Orders, make_response(URL, json=body, request=first))
    assert (result.end, result.reason, result.items) == (end, "graphql", [])
    assert detail in result.detail


def test_errors_beside_data_may_be_taken() -> None:
    class Partial(Orders):
        name = "partial"
        partial = True

    (first,) = run(Partial).requests
    body = answer(1, errors=[{"message": "half of it"}])
    assert run(Partial, make_response(URL, json=body, request=first)).items == [{"id": 1}]
    nothing = {"errors": [{"message": "all of it"}], "data": None}
    assert run(Partial, make_response(URL, json=nothing, request=first)).reason == "graphql"


def test_a_query_is_needed() -> None:
    with pytest.raises(SpiderError, match="query must be the text"):
        type("Empty", (GraphQLSpider,), {"name": "empty"})


def test_a_graphql_api_may_need_a_token(site: Site) -> None:
    class Both(Orders):
        name = "both"
        base: str
        start_urls: ClassVar[list[str]] = []

        def start(self) -> Iterator[Request]:
            yield self.graphql(f"{self.base}/graphql")

        def token_request(self) -> Request:
            return Request(f"{self.base}/token", form={"key": "letmein"})

    Api(site)
    seen: list[Any] = []

    @site.on("/graphql")
    async def graphql(exchange: Exchange) -> bool:
        seen.append((exchange.header("Authorization"), json.loads(exchange.body)["variables"]))
        return await send_json(exchange, answer(1, end="c" if len(seen) == 1 else None))

    outcomes = crawl(Both, {"base": site.url})
    assert [len(items(one)) for one in outcomes] == [0, 1, 1]
    assert seen == [("Bearer t1", {"first": 2}), ("Bearer t1", {"first": 2, "after": "c"})]
