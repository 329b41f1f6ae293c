"""Recipes in files: their values, and messages about mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from crawlframe.errors import SpiderError
from crawlframe.recipes.lines import line_of, lines_of
from crawlframe.recipes.reading import RecipeError, from_data, from_text
from crawlframe.recipes.recipe import Argument, Field, LinkRule, Next, as_data, as_text

TOML = """\
name = "books"
description = "Books of a shop"
start_urls = ["https://books.example/{shelf}"]
required = ["title"]
next = "a.next"
each = ".book"

[fields]
title = "h2"
price = { css = ".price", convert = "price" }

[detail]
css = "h2 a"
[detail.fields.isbn]
regex = 'ISBN (\\d+)'

[[rules]]
allow = ["/shelf/"]

[[rules]]
allow = ["/new/"]
items = false

[settings]
page_limit = 100

[arguments]
shelf = "poetry"
"""


def read(text: str, kind: str = "toml") -> Any:
    return from_text(text, kind, "spiders/books", "stem")


def problems(data: dict[str, Any]) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        from_data({"name": "some", "start_urls": ["https://a.example/"], **data})
    return [str(one) for one in caught.value.problems]


def problem(**data: Any) -> str:
    (only,) = problems(data)
    return only


def test_a_whole_file() -> None:
    recipe = read(TOML)
    assert recipe.fields == {
        "title": Field("h2"),
        "price": Field(".price", convert=("price",)),
    }
    assert recipe.next == Next("a.next")
    assert recipe.detail.fields == {"isbn": Field(regex=r"ISBN (\d+)")}
    assert recipe.rules == (LinkRule(("/shelf/",)), LinkRule(("/new/",), items=False))
    assert recipe.arguments == {"shelf": Argument(default="poetry")}


def test_what_is_written_is_read_again() -> None:
    recipe = read(TOML)
    assert read(as_text(recipe), "json") == recipe
    assert from_data(as_data(recipe)) == recipe
    assert "start_items" not in as_text(recipe)


def test_the_name_is_that_of_the_file_if_none_is_given() -> None:
    assert read('start_urls = ["https://a.example/"]').name == "stem"


@pytest.mark.parametrize(
    ("text", "kind"),
    [('{"prices": [1, 2]}', "json"), ("[1]", "json"), ("not json", "json"), ("a = 1", "toml")],
)
def test_other_files_are_no_recipes(text: str, kind: str) -> None:
    assert read(text, kind) is None


@pytest.mark.parametrize(
    ("wrong", "place", "says"),
    [
        ("requird = []", "spiders/books:1", "'requird' here (did you mean 'required'?)"),
        ('next = "a["', "spiders/books:1", "next.css: 'a[' is not a CSS selector"),
        ("[fields.a]\ncss = 'b'\nconvert = 'prise'", "spiders/books:4",
         "there is no converter 'prise' (did you mean 'price'?)"),
        ("[[rules]]\nallow = ['a']\n[[rules]]\ndeny = ['(']", "spiders/books:5",
         "rules[2].deny[1]: '(' is not a regular expression"),
        ("[settings]\ndely = 3", "spiders/books:3", "there is no setting 'dely' (did you mean"),
        ("[settings]\ndelay = -3", "spiders/books:3", "settings.delay: delay must not be negative"),
        ("rules = 5", "spiders/books:1", "rules: must be a list of tables, such as [[rules]]"),
    ],
)  # fmt: skip
def test_mistakes_name_file_line_and_fix(wrong: str, place: str, says: str) -> None:
    text = f'{wrong}\nstart_urls = ["https://a.example/"]\n'
    if wrong.startswith("["):
        text = f'start_urls = ["https://a.example/"]\n{wrong}\n'
    with pytest.raises(SpiderError) as caught:
        read(text)
    assert str(caught.value).startswith(f"{place}: ")
    assert says in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(SpiderError) as caught:
        read('start_urls = ["nowhere"]\nsame_site = 5\nfoo = 1\n')
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["spiders/books:2", "spiders/books:3"]
    assert "same_site: must be true or false, not 5" in lines[0]


def test_syntax_errors() -> None:
    with pytest.raises(SpiderError, match=r"^spiders/books:2: not TOML: "):
        read('start_urls = ["a"]\nb = = 3\n')
    with pytest.raises(SpiderError, match=r"^spiders/books:2: not JSON: "):
        read('{"start_urls":\n oops}', "json")


def test_mistakes_in_json() -> None:
    data = {"start_urls": ["https://a.example/"], "fields": {"a": {"css": "b"}, "c": {"csss": "d"}}}
    with pytest.raises(SpiderError, match=r"^spiders/books:10: fields.c.csss: .*mean 'css'"):
        read(json.dumps(data, indent=2), "json")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"start_urls": []}, "start_urls: is missing; such as start_urls ="),
        ({"start_urls": ["https://a.example/{x}"]}, "start_urls[1]: {x} is no argument; add"),
        ({"start_urls": ["https://a.example/{9..1}"]}, "start_urls[1]: {9..1} must count up"),
        ({"start_urls": ["a.example"]}, "start_urls[1]: 'a.example' is not an absolute URL"),
        ({"name": "a b"}, "name: 'a b' must be up to 100 letters"),
        ({"allowed_domains": ["https://a/"]}, "allowed_domains[1]: 'https://a/' is not a host"),
        ({"fields": {"a": {}}}, "fields.a: does not say where the value is"),
        ({"fields": {"a": {"css": "b", "xpath": "c"}}}, "fields.a: give css or xpath, not both"),
        ({"fields": {"a": {"page": "url", "css": "b"}}}, "fields.a: page is a value of the page"),
        ({"fields": {"a": {"page": "ulr"}}}, "fields.a.page: must be one of url, title"),
        ({"fields": {"a": {"regex": "b", "attribute": "c"}}}, "fields.a.attribute: belongs to"),
        ({"fields": {"a": {"css": "b::text", "attribute": "c"}}}, "fields.a.attribute: the sel"),
        ({"fields": {"a": {"xpath": "//["}}}, "fields.a.xpath: '//[' is not an XPath expression"),
        ({"fields": {"a": {"jmespath": "a["}}}, "fields.a.jmespath: 'a[' is not a JMESPath"),
        ({"fields": {"a-b": "c"}}, "fields.a-b: a name has letters, digits and _"),
        ({"fields": {"a": {"css": "b", "convert": ["list", "html"]}}}, "fields.a.convert: html"),
        ({"required": ["a"]}, "required[1]: there is no field 'a'; add it to"),
        ({"next": {}}, "next: does not say where the next page is"),
        ({"next": {"css": "a", "url": "https://b.example/"}}, "next.url: has no {value}"),
        ({"next": {"url": "https://a.example/{page}"}, "start_items": False},
         "next: would never end"),
        ({"detail": "a"}, "detail: has no fields"),
        ({"detail": {"css": "a", "fields": {"b": "c"}}, "fields": {"b": "d"}},
         "detail.fields.b: is a field of the list, too"),
        ({"rules": [{"follow": False, "items": False}]}, "rules[1]: its pages would be fetched"),
        ({"arguments": {"name": "x"}}, "arguments.name: 'name' is a name of the spider's own"),
        ({"arguments": {"a": {"type": "int", "default": "x"}}}, "arguments.a.default: 'x' is not"),
        ({"arguments": {"a": {"type": "date", "default": "x"}}}, "arguments.a.default: 'x' is not"),
        ({"arguments": {"a": {"default": "x", "choices": ["y"]}}}, "arguments.a.default: 'x' is"),
        ({"arguments": {"a": {"type": "str"}}}, "arguments.a.type: must be one of text, int"),
        ({"settings": {"delay": 1, "min_delay": 1}}, "settings: min_delay belongs to delay"),
        ({"settings": {"render": "auto"}}, 'settings.render: render = "auto" must know when'),
        ({"settings": {"render": "auto"}, "expect": {"fields": {"a": 0.1}}}, "settings.render"),
    ],
)  # fmt: skip
def test_mistakes_in_recipes_are_refused(data: dict[str, Any], says: str) -> None:
    assert problem(**data).startswith(says)


def test_lines_of_toml() -> None:
    lines = lines_of(TOML, "toml")
    assert lines["fields", "price"] == 10
    assert lines["detail", "fields", "isbn", "regex"] == 15
    assert lines["rules", 1, "items"] == 22
    assert line_of(("rules", 1, "deny", 3), lines) == 20
    assert line_of(("nothing",), lines) == 1


def test_lines_of_json() -> None:
    lines = lines_of('{"a": {"b": 1,\n"c": [1,\n{"d": "x:{,"}]},\n"e": 2}', "json")
    assert lines["a", "c"] == 2
    assert lines["a", "c", 1, "d"] == 3
    assert lines["e",] == 4


def test_the_examples_of_the_documentation() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "spiders-without-code.md"
    examples = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 3
    for text in examples:
        assert read(text).start_urls


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            {"fields": {"a": {"jmespath": "(" * 5000 + "a" + ")" * 5000}}},
            "fields.a.jmespath: is too deep",
        ),
        (
            {"fields": {"a": {"regex": "(" * 5000 + "a" + ")" * 5000}}},
            "fields.a.regex: is too deep",
        ),
        ({"fields": {"a": {"regex": "a{99999999999999999999}"}}}, "repeat count too big"),
        ({"fields": {"a": {"xpath": "//a[re:test(@href, '(a+)+$')]"}}}, "may never end"),
        ({"fields": {"a": {"xpath": "//a\0"}}}, "is not an XPath expression"),
        ({"fields": {"a": {"xpath": "//dc:creator"}}}, "Undefined namespace prefix"),
        ({"fields": {"a": {"xpath": "lower-case(//a)"}}}, "Unregistered function"),
        ({"start_urls": ["https://a.example/{1..%s}" % ("1" * 5000)]}, "must count up"),
        ({"settings": {"delay": float("inf")}}, "settings.delay: delay is inf"),
        ({"settings": {"ip": {"delay": float("nan")}}}, "settings.ip.delay: ip.delay is nan"),
        ({"settings": {"user_agent": "a\r\nb: c"}}, "settings.user_agent: user_agent has a line"),
        ({"arguments": {"next_page": "x"}}, "is a name of the spider's own"),
        ({"arguments": {"argument_values": "x"}}, "is a name of the spider's own"),
    ],
)
def test_what_would_upset_whoever_reads_it_is_a_mistake(data: dict[str, Any], told: str) -> None:
    assert told in "\n".join(problems(data))
