"""Recipes as spiders: their values and links, run by the engine of a worker."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from crawlframe.errors import SpiderError
from crawlframe.recipes import converters
from crawlframe.recipes.reading import from_data
from crawlframe.recipes.spider import RecipeSpider, spider_of
from crawlframe.spider.spider import build, describe
from crawlframe.testing import make_response, run

START = "https://shop.example/list"
PAGE = """
<html><head><title>A  shop</title></head><body>
<div class=book><h2><a href=/b/1>One</a></h2><p class=price>1.234,50 €</p>
  <ul><li>red<li>blue</ul></div>
<div class=book><h2><a href=/b/2>Two</a></h2><p class=price>soon</p></div>
<div class=book><p class=price>3</p></div>
<nav><a class=next href="?page=2">next</a> <a href="https://other.example/">x</a></nav>
<script type="application/json" id=data>{"seller": {"name": "Ann"}}</script>
</body></html>
"""


def spider(**data: Any) -> type[RecipeSpider]:
    return spider_of(from_data({"name": "shop", "start_urls": [START], **data}), "spiders/x.toml")


def page(html: str = PAGE, **more: Any) -> Any:
    return make_response(START, html=html, **more)


def items(data: dict[str, Any], response: Any = None) -> list[Any]:
    return run(spider(**data), response or page()).items


def urls(data: dict[str, Any], response: Any = None, **more: Any) -> list[str]:
    result = run(spider(**data), response or page(), **more)
    return [request.url for request in result.requests]


def test_a_page_without_fields_gives_its_url_and_title() -> None:
    assert items({}) == [{"url": START, "title": "A shop"}]


def test_fields_of_each_part_with_required_ones() -> None:
    fields = {
        "title": "h2",
        "link": {"css": "h2 a", "attribute": "href", "convert": "url"},
        "price": {"css": ".price", "convert": "price"},
        "colours": {"xpath": ".//li", "convert": "list"},
        "stock": {"css": ".stock", "default": 0},
        "page": {"page": "url"},
    }
    result = run(spider(each=".book", fields=fields, required=["title"]), page())
    one, two = result.items
    assert one == {
        "title": "One", "link": "https://shop.example/b/1", "price": 1234.5,
        "colours": ["red", "blue"], "stock": 0, "page": START,
    }  # fmt: skip
    assert (two["title"], two["price"], two["colours"]) == ("Two", None, [])
    assert result.stats == {"price: not price": 1, "without title": 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"css": "h2 a::attr(href)"}, "/b/1"),
        ({"css": "h2", "convert": "html"}, '<h2><a href="/b/1">One</a></h2>'),
        ({"xpath": "count(//div)"}, 3.0),
        ({"xpath": "//h2/a/@href", "convert": "list"}, ["/b/1", "/b/2"]),
        ({"css": "#data", "jmespath": "seller.name"}, "Ann"),
        ({"css": ".book", "regex": r"(\d\.\d+)", "convert": "float"}, 1.234),
        ({"regex": r"\w+ €"}, "50 €"),
        ({"page": "status"}, 200),
        ({"page": "url", "regex": r"/(\w+)$"}, "list"),
        ({"page": "same_site_links", "convert": "count"}, 3),
        ({"page": "links", "convert": "count"}, 4),
        ({"css": "body", "regex": "soon"}, "soon"),
        ({"css": ".missing"}, None),
        ({"css": ".missing", "default": "x"}, "x"),
    ],
)
def test_ways_to_a_value(field: dict[str, Any], value: Any) -> None:
    assert items({"fields": {"it": field}}) == [{"it": value}]


ENDLESS = [r"(?:a?){99}a{99}$", r"^(?:(.+)+?)+?\dx$", r"(a|aa|aaa)*?b\b", r"((a*)*)*?\1b"]


@pytest.mark.parametrize("pattern", ENDLESS)
def test_a_regular_expression_that_backtracks_ends(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is an expression of a recipe; a match that does end is found."""
    monkeypatch.setattr(converters, "SECONDS", 0.1)
    link = f"/{'a' * 200}!"
    html = f'<p>{"a" * 5000}!</p><a href="{link}">x</a>'
    ways: list[dict[str, Any]] = [
        {"fields": {"it": {"css": "p", "regex": pattern}}},
        {"fields": {"it": {"regex": pattern}}},
        {"fields": {"it": {"page": "url", "regex": "^http"}}, "next": {"regex": pattern}},
        {"rules": [{"allow": [pattern]}]},
        {"rules": [{"deny": [pattern]}]},
    ]
    told = []
    for data in ways:
        with contextlib.suppress(SpiderError):
            run(spider(**data), page(html))
            continue
        told.append(data)
    assert told or pattern in ENDLESS[1:]


@pytest.mark.parametrize("pattern", ENDLESS[:1])
def test_an_endless_pattern_is_named(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "SECONDS", 0.2)
    data = {"fields": {"it": {"css": "p", "regex": pattern}}}
    with pytest.raises(SpiderError, match=r"took longer than 0\.2 s") as refused:
        run(spider(**data), page(f"<p>{'a' * 5000}!</p>"))
    assert repr(pattern) in str(refused.value)


def test_blocks_are_apart_and_scripts_are_not_text() -> None:
    body = "<div id=a><p>One</p><p>t<b>w</b>o<br>three</p><script>four</script></div>"
    assert items({"fields": {"it": "#a"}}, page(body)) == [{"it": "One two three"}]


def test_the_link_of_a_heading_to_itself_is_not_text() -> None:
    """Manuals show it under the mouse only."""
    body = (
        '<h1>C#<a href="#c">\N{PILCROW SIGN}</a></h1><p>see <a href="#c"> # </a><a href="#n">3</a>'
    )
    assert items({"fields": {"a": "h1", "b": "p"}}, page(body)) == [{"a": "C#", "b": "see 3"}]


def test_json() -> None:
    body = {"items": [{"id": 1, "n": "a"}, {"id": 2}], "next": "abc"}
    response = make_response(START, json=body)
    data = {
        "each": {"jmespath": "items"},
        "fields": {"id": {"jmespath": "id"}, "n": {"jmespath": "n"}},
        "next": {"jmespath": "next", "url": "/list?after={value}"},
    }
    assert items(data, response) == [{"id": 1, "n": "a"}, {"id": 2, "n": None}]
    result = run(spider(**data | {"each": {"jmespath": "@.items"}}), response)
    assert [request.url for request in result.requests] == ["https://shop.example/list?after=abc"]


def test_files_that_are_no_markup_have_no_selected_fields() -> None:
    response = make_response(START, body=b"%PDF-\0", headers={"Content-Type": "application/pdf"})
    fields = {"type": {"page": "content_type"}, "title": "h1"}
    assert items({"fields": fields}, response) == [{"type": "application/pdf", "title": None}]


def test_pages_of_a_list() -> None:
    assert urls({"next": "a.next"}) == ["https://shop.example/list?page=2"]
    limited = {"next": {"css": "a.next", "limit": 3}}
    (request,) = run(spider(**limited), page()).requests
    assert request.cb_kwargs == {"page": 2}
    follow = {"cb_kwargs": {"page": 3}}
    assert urls(limited, page(request=request.replace(**follow))) == []


def test_numbered_pages_end_with_the_first_empty_one() -> None:
    data = {"next": {"url": "https://shop.example/list?p={page}"}, "each": ".book"}
    assert urls(data) == ["https://shop.example/list?p=2"]
    assert urls(data, page("<p>none</p>")) == []
    zero = {"next": {"url": "/list?p={page}", "first": 0}, "each": ".book"}
    assert urls(zero) == ["https://shop.example/list?p=1"]


def test_details_join_the_fields_of_the_list() -> None:
    data = {
        "each": ".book",
        "fields": {"title": "h2"},
        "detail": {
            "css": "h2 a",
            "fields": {"isbn": {"regex": r"ISBN (\d+)"}},
            "required": ["isbn"],
        },
    }
    result = run(spider(**data), page())
    assert result.items == []
    assert [request.url for request in result.requests] == [
        "https://shop.example/b/1", "https://shop.example/b/2",
    ]  # fmt: skip
    assert result.stats == {"without link to details": 1}
    (request, _) = result.requests
    assert run(spider(**data), page("<p>ISBN 42", request=request)).items == [
        {"title": "One", "isbn": "42"}
    ]
    missing = run(spider(**data), page("<p>none", request=request))
    assert (missing.items, missing.stats) == ([], {"without isbn": 1})


def test_rules() -> None:
    assert urls({"rules": [{"allow": ["/b/"], "deny": ["2$"]}]}) == ["https://shop.example/b/1"]
    nav = {"rules": [{"restrict_css": ["nav"]}]}
    assert urls(nav) == ["https://shop.example/list?page=2"]  # the other host is not of this site
    assert urls({"rules": [{"restrict_xpath": ["//h2"]}]}) == [
        "https://shop.example/b/1", "https://shop.example/b/2",
    ]  # fmt: skip
    wide = urls(nav | {"same_site": False})
    assert wide == ["https://shop.example/list?page=2", "https://other.example/"]
    assert urls(nav | {"allowed_domains": ["other.example"]}) == wide


def test_what_rules_say_goes_with_their_requests() -> None:
    last = {"allow": ["/b/1"], "follow": False}
    (request,) = run(spider(rules=[last]), page()).requests
    assert request.cb_kwargs == {"follow": False}
    assert urls({"rules": [last]}, page(request=request)) == []
    index = {"allow": ["/b/1"], "items": False}
    (request,) = run(spider(rules=[index]), page()).requests
    assert run(spider(rules=[index]), page(request=request)).items == []


def test_start_pages_without_items() -> None:
    data = {"start_items": False, "rules": [{"allow": ["/b/1"]}]}
    (request,) = run(spider(**data)).requests
    result = run(spider(**data), page(request=request))
    assert (result.items, len(result.requests)) == ([], 1)


def test_arguments_and_ranges_in_urls() -> None:
    data: dict[str, Any] = {
        "start_urls": ["https://shop.example/{shelf}/{08..10}", "{site}"],
        "arguments": {"shelf": {"type": "list"}, "site": {"type": "url"}},
    }
    kind = spider(**data)
    given = {"shelf": ["a b", "c"], "site": "https://www.one.example/x?y"}
    found = [request.url for request in run(kind, arguments=given).requests]
    assert found == [
        *(
            f"https://shop.example/{shelf}/{n}"
            for shelf in ("a%20b", "c")
            for n in ("08", "09", "10")
        ),
        "https://www.one.example/x?y",
    ]
    made, _ = build(kind, given)
    assert made.allowed_domains == ("shop.example", "one.example")
    assert kind.allowed_domains == ("shop.example",)


def test_arguments_and_settings_of_a_recipe_are_published() -> None:
    arguments = {
        "n": 3,
        "kind": {"choices": ["a", "b"]},
        "day": {"type": "date", "default": "2024-01-01"},
    }
    info = describe(spider(description="Books.", settings={"delay": 2}, arguments=arguments))
    assert (info.name, info.doc, info.module) == ("shop", "Books.", "spiders/x.toml")
    assert info.settings.delay == 2
    assert info.arguments["required"] == ["kind"]
    assert info.arguments["properties"]["kind"] == {"enum": ["a", "b"]}


def test_a_pattern_looks_only_at_the_part_that_is_an_item() -> None:
    data = {"each": {"xpath": "//p/text()"}, "fields": {"it": {"regex": "^."}}}
    assert items(data, page("<p>ab</p><p>cd</p>")) == [{"it": "a"}, {"it": "c"}]


def test_a_numbered_list_ends_at_a_page_that_is_repeated_and_at_its_limit() -> None:
    numbered = {"next": {"url": "https://shop.example/list?p={page}"}, "fields": {"title": "h2"}}
    (following,) = run(spider(**numbered), page()).requests
    result = run(spider(**numbered), page(request=following))
    assert (result.items, result.requests, result.stats) == ([], [], {"repeated_pages": 1})
    last = following.replace(cb_kwargs={"page": 10_000})
    assert run(spider(**numbered), page(request=last)).stats == {"walks_cut": 1}
