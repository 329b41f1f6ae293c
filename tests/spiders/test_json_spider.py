"""JSONSpider: items by path, next pages in each of their forms, and ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from crawlframe import (
    Cursor,
    JSONSpider,
    LinkHeader,
    NextURL,
    Offset,
    PageNumber,
    Request,
    Response,
    Secret,
)
from crawlframe.errors import NotJson, SpiderError
from crawlframe.testing import make_response, run
from crawlframe.testing.result import Result

API = "https://api.shop.example/items"


class Shop(JSONSpider):
    name = "shop"
    start_urls = (f"{API}?limit=2",)
    items_path = "data.items"


def other(**parts: Any) -> type[Shop]:
    return type("Other", (Shop,), {"name": "other", **parts})


def page(
    *items: Any, url: str = f"{API}?limit=2", request: Request | None = None, **more: Any
) -> Response:
    headers = more.pop("headers", None)
    status = more.pop("status", 200)
    body = {"data": {"items": [{"id": item} for item in items]}, **more}
    return make_response(url, json=body, request=request, headers=headers, status=status)


def next_of(result: Result) -> str | None:
    """The query of the next page."""
    return result.requests[-1].url.partition("?")[2] if result.requests else None


def walk(spider: type[Shop], answer: Callable[[Request], Any], **arguments: Any) -> list[Any]:
    """The items of all pages."""
    found: list[Any] = []
    waiting = run(spider, arguments=arguments).requests
    seen: set[bytes] = set()
    while waiting:
        request = waiting.pop(0)
        if request.fingerprint() in seen:
            continue
        seen.add(request.fingerprint())
        assert len(seen) < 20
        answered = make_response(request.url, json=answer(request), request=request)
        result = run(spider, answered, arguments=arguments)
        found += result.items
        waiting += result.requests
    return found


def test_items_are_found_by_their_path() -> None:
    assert run(Shop).requests == [Request(f"{API}?limit=2", headers={"Accept": "application/json"})]
    result = run(Shop, page(1, 2))
    assert (result.items, result.requests) == ([{"id": 1}, {"id": 2}], [])


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("@", [{"id": 1}]),
        ("results[].node", {"results": [{"node": {"id": 1}}]}),
        ("item", {"item": {"id": 1}}),
        ("[@]", {"id": 1}),
        ("items[?stock > `0`]", {"items": [{"id": 1, "stock": 3}, {"id": 2, "stock": 0}]}),
    ],
)
def test_paths(path: str, data: Any) -> None:
    assert run(other(items_path=path), make_response(API, json=data)).items[0]["id"] == 1


def test_each_item_goes_to_parse_item() -> None:
    def parse_item(self: Any, response: Response, item: Any) -> Any:
        return response.follow(f"/items/{item['id']}", "parse_one", cb_kwargs={"id": item["id"]})

    spider = other(parse_item=parse_item, parse_one=lambda self, response, id: None)
    assert [request.cb_kwargs for request in run(spider, page(1, 2)).requests] == [
        {"id": 1}, {"id": 2}
    ]  # fmt: skip


@pytest.mark.parametrize("link", [f"{API}?after=b", "?after=b", "/items?after=b"])
def test_the_url_of_the_next_page(link: str) -> None:
    spider = other(next_page=NextURL("links.next"))
    result = run(spider, page(1, links={"next": link}))
    assert result.requests[0].url == f"{API}?after=b"
    for end in (None, ""):
        assert run(spider, page(1, links={"next": end})).requests == []
    assert run(spider, page(1)).requests == []


def test_the_link_header() -> None:
    spider = other(next_page=LinkHeader())
    header = f'<{API}?page=1>; rel="prev", <{API}?page=3&a=1,2>; rel="next"'
    assert next_of(run(spider, page(1, headers={"Link": header}))) == "page=3&a=1,2"
    odd = {"Link": f"<{API}?after=\xfc>; rel=next"}  # header bytes are read as Latin-1
    assert next_of(run(spider, page(1, headers=odd))) == "after=%FC"
    assert next_of(run(spider, page(1, headers={"Link": f"<{API}>; rel=last"}))) is None
    assert next_of(run(spider, page(1))) is None


def test_a_cursor() -> None:
    spider = other(next_page=Cursor("meta.next", "after"))
    response = page(1, meta={"next": "x y=="}, url=f"{API}?limit=2&after=old")
    assert next_of(run(spider, response)) == "limit=2&after=x+y%3D%3D"
    for end in (None, "", False):
        assert run(spider, page(1, meta={"next": end})).requests == []
    assert next_of(run(spider, page(1, meta={"next": 0}))) == "limit=2&after=0"


def test_page_numbers() -> None:
    spider = other(next_page=PageNumber("p"))
    assert next_of(run(spider, page(1))) == "limit=2&p=2"
    assert next_of(run(spider, page(1, url=f"{API}?p=7&limit=2"))) == "limit=2&p=8"
    assert next_of(run(spider, page())) is None
    last = other(next_page=PageNumber("p", last="pages"))
    assert next_of(run(last, page(1, pages=2))) == "limit=2&p=2"
    assert next_of(run(last, page(1, pages="2", url=f"{API}?p=2"))) is None
    from_zero = other(next_page=PageNumber("p", first=0, last="pages"))
    assert next_of(run(from_zero, page(1, pages=2, url=f"{API}?p=0"))) == "p=1"
    assert next_of(run(from_zero, page(1, pages=2, url=f"{API}?p=1"))) is None


def test_offsets() -> None:
    spider = other(next_page=Offset("from"))
    assert next_of(run(spider, page(1, 2))) == "limit=2&from=2"
    assert next_of(run(spider, page(1, url=f"{API}?from=4"))) == "from=5"
    assert next_of(run(spider, page())) is None
    total = other(next_page=Offset("from", step=50, total="count"))
    assert next_of(run(total, page(1, count=51))) == "limit=2&from=50"
    assert next_of(run(total, page(1, count=50))) is None


def test_parameters_in_a_json_body_and_a_form() -> None:
    request = Request(API, json={"query": "q", "variables": {"first": 2}}, headers={"X-Key": "k"})
    spider = other(next_page=Cursor("end", "variables.after", where="json"))
    (more,) = run(spider, page(1, end="c", request=request)).requests
    assert orjson.loads(more.body or b"") == {
        "query": "q", "variables": {"first": 2, "after": "c"}
    }  # fmt: skip
    assert (more.method, more.headers["X-Key"]) == ("POST", "k")
    assert more.headers["Content-Type"] == "application/json"
    form = Request(API, form={"page": "3", "q": "tea"})
    (more,) = run(other(next_page=PageNumber(where="form")), page(1, request=form)).requests
    assert more.body == b"q=tea&page=4"


def test_what_the_first_request_has_the_following_have_too() -> None:
    request = Request(API, headers={"X-Key": "k"}, cookies={"a": "1"}, timeout=9, dont_filter=True)
    (more,) = run(other(next_page=PageNumber()), page(1, request=request)).requests
    assert (more.headers, more.cookies) == ({"X-Key": "k"}, {"a": "1"})
    assert more.options.timeout == 9
    assert not more.dont_filter


def test_another_origin_gets_no_headers_and_cookies() -> None:
    request = Request(API, json={"key": "k"}, headers={"X-Key": "k"}, cookies={"a": "1"})
    spider = other(next_page=NextURL("next"))
    for link in ("https://evil.example/x", "http://api.shop.example/items"):
        (more,) = run(spider, page(1, next=link, request=request)).requests
        assert more == Request(link, cb_kwargs=more.cb_kwargs)


def test_tokens() -> None:
    class Orders(Shop):
        name = "orders"
        token: Secret

        def request_headers(self) -> dict[str, str]:
            return {"Authorization": f"Bearer {self.token.reveal()}"}

    (first,) = run(Orders, arguments={"token": "t0p"}).requests
    assert first.headers == {"Authorization": "Bearer t0p"}


def test_a_walk_ends() -> None:
    def clamped(request: Request) -> Any:
        """The last page again and again, whatever the number."""
        number = min(3, int(request.url.rpartition("=")[2]))
        return {"data": {"items": [{"id": number}]}, "done": number == 2}

    ids = [{"id": 1}, {"id": 2}, {"id": 3}]
    numbered = {"start_urls": [f"{API}?page=1"], "next_page": PageNumber()}
    assert walk(other(**numbered), clamped) == ids
    assert walk(other(**numbered), clamped, max_pages=2) == ids[:2]
    assert walk(other(**numbered, stop_when="done"), clamped) == ids[:2]
    circle = other(start_urls=[f"{API}?c=a"], next_page=Cursor("next", "c"))

    def around(request: Request) -> Any:
        cursor = request.url[-1]
        return {"data": {"items": [{"id": cursor}]}, "next": "b" if cursor == "a" else "a"}

    assert walk(circle, around) == [{"id": "a"}, {"id": "b"}]


def test_a_handled_status_is_the_end() -> None:
    spider = other(next_page=PageNumber(), settings={"handle_statuses": (404,)})
    result = run(spider, make_response(API, json={"detail": "no such page"}, status=404))
    assert (result.items, result.requests) == ([], [])


def test_a_page_without_its_items_is_an_error_unless_it_follows_another() -> None:
    with pytest.raises(SpiderError) as caught:
        run(Shop, make_response(API, json={"error": "no key", "code": 7}))
    assert "items_path 'data.items' finds no list in the page, which has the keys code, error" in (
        str(caught.value)
    )
    last = make_response(API, json={"data": {"items": None}}, cb_kwargs={"page": 2})
    assert run(Shop, last).items == []
    with pytest.raises(NotJson):
        run(Shop, make_response(API, html="<p>"))


@pytest.mark.parametrize(
    ("next_page", "more", "words"),
    [
        (NextURL("next"), {"next": 3}, "'next' is 3, and no URL"),
        (NextURL("next"), {"next": "javascript:more()"}, "which is no http(s) URL"),
        (PageNumber(last="pages"), {"pages": "many"}, "'pages' is 'many', and no number"),
        (PageNumber("q"), {"url": f"{API}?q=tea"}, "q is 'tea', and no number"),
        (Offset(where="json"), {"request": Request(API, form={"a": 1})}, "is not JSON"),
        (Cursor("c", "a.b", "json"), {"c": 1, "request": Request(API, json={"a": 1})}, "no place"),
        (NextURL("length(next)"), {"next": 3}, "'length(next)': "),
    ],
)
def test_pages_that_do_not_fit(next_page: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        run(other(next_page=next_page), page(1, **more))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"items_path": "data["}, "'data[' is not a JMESPath: "),
        ({"stop_when": "a ||"}, "'a ||' is not a JMESPath: "),
        ({"items_path": None}, "None is not a JMESPath"),
        ({"next_page": "page"}, "next_page must be one such as PageNumber('page'), not 'page'"),
    ],
)
def test_wrong_parts_are_named_when_the_class_is_defined(parts: Any, words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        other(**parts)
    assert str(caught.value).startswith("spider 'other': ")
    assert words in str(caught.value)


def test_wrong_parameters_are_named() -> None:
    wrong: Any = "header"
    with pytest.raises(SpiderError, match="where must be query, form or json, not 'header'"):
        PageNumber(where=wrong)
    with pytest.raises(SpiderError, match="must have a name"):
        Cursor("next", "")


# -- an end differs from an unknown form -----------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('</a;v=1>; rel="next"', "/a;v=1"),
        ('</a,b;c=1>; title="x, y; rel=\\"no\\""; rel=next', "/a,b;c=1"),
        ("</a>; type=x; a=b=c; rel=next", "/a"),
        ('</a>;REL = "prev  NEXT"', "/a"),
        ("</a>; rel=next; rel=last", "/a"),
        ('</a>; rel="last"; rel="next"', None),
        ('</a>; rel="next"; anchor="/other"', None),
        ('</p>; rel="prev",,</a>; rel="next",', "/a"),
        ('</a>; rel="next', "/a"),
        ("</a>;;rel=next", "/a"),
        ("</a>; rel", None),
        ("<https://other.example/x>; rel=next", "https://other.example/x"),
        ("garbage", None),
        ("</a>; rel=last garbage", None),
    ],
)
def test_links_are_read_as_rfc_8288_says(header: str, found: str | None) -> None:
    result = run(other(next_page=LinkHeader()), page(1, headers={"Link": header}))
    expected = None if found is None else make_response(API).urljoin(found)
    assert [one.url for one in result.requests] == ([] if expected is None else [expected])


@pytest.mark.parametrize("header", ["/a; rel=next", "</a; rel=next", "<>x</a>; rel=next"])
def test_a_link_that_cannot_be_read_is_an_error(header: str) -> None:
    with pytest.raises(SpiderError, match="the header Link cannot be read from"):
        run(other(next_page=LinkHeader()), page(1, headers={"Link": header}))


@pytest.mark.parametrize("expression", ["!meta.more", "a || !a.b.c", "!a[].b", "[!a.b]", "!!a.b"])
def test_a_negation_that_binds_to_the_parent_is_refused(expression: str) -> None:
    with pytest.raises(SpiderError, match="put parentheses around"):
        other(stop_when=expression)
    other(stop_when="!(meta.more)")
    other(stop_when="!more")


def pages_of(spider: type[Shop], answers: Callable[[int], Any], most: int = 50) -> Result:
    """The result of the last page, and the items of all: a server that keeps its place."""
    request, found, count, seen = run(spider).requests[0], [], 0, set()
    while True:
        count += 1
        result = run(spider, make_response(request.url, json=answers(count), request=request))
        found += result.items
        following = [one for one in result.requests if one.dont_filter or one.url not in seen]
        if not following or count == most:
            result.items[:] = found
            return result
        (request,) = following
        seen.add(request.url)


def test_a_cursor_that_stays_the_same_leads_on() -> None:
    spider = other(next_page=Cursor("scroll", "scroll"))

    def scroll(n: int) -> Any:
        return {"data": {"items": [{"id": n}] if n < 6 else []}, "scroll": "constant"}

    assert [one["id"] for one in pages_of(spider, scroll).items] == [1, 2, 3, 4, 5]


def test_a_page_that_is_repeated_ends_the_walk_and_is_counted() -> None:
    def same(n: int) -> Any:
        return {"data": {"items": [{"id": 1}]}, "next": "c", "served": n}

    for next_page in (Cursor("next", "c"), NextURL("next"), PageNumber(), Offset()):
        result = pages_of(other(next_page=next_page), same)
        assert result.items == [{"id": 1}]
        assert result.stats == {"repeated_pages": 1}
    for certain in (PageNumber(last="n"), Offset(total="n")):
        with pytest.raises(SpiderError, match="and says that there are more"):
            pages_of(other(next_page=certain), lambda n: same(n) | {"n": 99})


def test_pages_of_equal_items_with_new_cursors_are_different_pages() -> None:
    result = pages_of(
        other(next_page=Cursor("next", "c")),
        lambda n: {"data": {"items": [{"price": 1}]}, "next": n if n < 4 else None},
    )
    assert len(result.items) == 4


def test_a_limit_is_told() -> None:
    def endless(n: int) -> Any:
        return {"data": {"items": [{"id": n}]}, "next": f"c{n}"}

    spider = other(next_page=Cursor("next", "c"), max_pages=7)
    result = pages_of(spider, endless)
    assert (len(result.items), result.stats) == (7, {"walks_cut": 1})
    assert Shop.max_pages == 10_000


def test_empty_pages_do_not_end_a_walk_whose_length_is_known() -> None:
    def answers(n: int) -> Any:
        items = [] if n in (2, 3) else [{"id": n}]
        return {"data": {"items": items}, "pages": 5, "total": 5}

    ids = [{"id": n} for n in (1, 4, 5)]
    assert pages_of(other(next_page=PageNumber(last="pages")), answers).items == ids
    assert pages_of(other(next_page=Offset(step=1, total="total")), answers).items == ids
    with pytest.raises(SpiderError, match="no items, but 'total' says that there are more"):
        pages_of(other(next_page=Offset(total="total")), answers)


@pytest.mark.parametrize(
    ("next_page", "more", "words"),
    [
        (Cursor("c"), {"c": {"id": 1}}, "and no cursor"),
        (Cursor("c"), {"c": [1, 2]}, "and no cursor"),
        (Cursor("c"), {"c": True}, "and no cursor"),
        (NextURL("c"), {"c": {"href": "/x"}}, "and no URL"),
        (NextURL("c"), {"c": 0}, "and no URL"),
        (PageNumber(last="c"), {"c": True}, "and no number"),
        (PageNumber(last="c"), {"c": 2.5}, "and no number"),
        (Offset(total="c"), {"c": float("inf")}, "and no number"),
        (Offset(total="c"), {"c": None}, "and no number"),
    ],
)
def test_what_is_there_but_cannot_be_read_is_an_error(
    next_page: Any, more: Any, words: str
) -> None:
    data = json.dumps({"data": {"items": [{"id": 1}]}, **more})
    response = make_response(API, body=data.encode(), headers={"Content-Type": "application/json"})
    with pytest.raises(SpiderError) as caught:
        run(other(next_page=next_page), response)
    assert words in str(caught.value)


def test_a_later_page_without_its_items_is_an_error_unless_it_says_null() -> None:
    pages: list[Any] = [{"error": "rate limited"}, {"data": {}}, {"data": None}, {}, []]
    for data in pages:
        with pytest.raises(SpiderError, match="if it is the last one, add"):
            run(Shop, make_response(API, json=data, cb_kwargs={"page": 2}))
    spider = other(items_path="data.items || `[]`")
    assert run(spider, make_response(API, json={}, cb_kwargs={"page": 2})).items == []
    for path in ("data.items[].node", "data.items[?a]", "data.items[*].a"):
        last = make_response(API, json={"data": {"items": None}}, cb_kwargs={"page": 2})
        assert run(other(items_path=path), last).items == []


def test_stop_when_is_no_text() -> None:
    with pytest.raises(SpiderError, match="is the text 'false'; compare it"):
        run(other(stop_when="done"), page(1, done="false"))


def test_other_parameters_stay_as_they_are_written() -> None:
    spider = other(next_page=PageNumber("p"))
    assert next_of(run(spider, page(1, url=f"{API}?q=%FC+x%20y&p=3&e"))) == "q=%FC+x%20y&e&p=4"
