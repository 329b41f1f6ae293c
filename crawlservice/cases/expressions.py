"""Expressions: how a value is read from a page, as a line of code and as a field of a recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urljoin

from crawlframe.base.expect import is_number
from crawlframe.recipes.converters import to_date
from crawlframe.recipes.recipe import Field
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlservice.cases.diagnosis import SeenPage
from crawlservice.cases.document import LINKS, keys_of

CSS, LINKED, SCRIPT, ASSIGNED, BODY = "css", "linked", "script", "assigned", "body"
EACH = -1  # in the path of JSON: all elements of a list
MAX_FOUND = 400  # elements on a page, from which on an expression is too general
JSON_LD = 'script[type="application/ld+json"]'
YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
LABELLED = re.compile(r"[:：]\s*(.+)")  # a value after its label
PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

JsonPath = tuple[str | int, ...]


class Expression(NamedTuple):
    """``where``: a CSS selector; of LINKED the type of the object, of ASSIGNED the text before the
    JSON. ``attribute``: of the element; "" for its text, of which ``own`` is that outside other
    elements. ``within``: the JMESPath of LINKED in a block of JSON-LD. ``labelled``: only what is
    after a colon."""

    kind: str
    where: str = ""
    attribute: str = ""
    own: bool = False
    path: JsonPath = ()
    within: str = ""
    labelled: bool = False

    @property
    def shown(self) -> str:
        match self.kind:
            case "css":
                return self._css
            case "linked":
                return f"JSON-LD {self.where}: {jmespath_of(self.path)}"
            case "body":
                return jmespath_of(self.path)
            case _:
                return f"{self.where.strip()} {jmespath_of(self.path)}"

    def code(self, *, many: bool = False, joined: bool = False) -> str:
        """The line of a callback. ``many``: of all values; ``joined``: as an absolute address."""
        get = "getall()" if many else "get()"
        if self.labelled:
            get = f'{"re" if many else "re_first"}(r"{LABELLED.pattern}")'
        keys = "".join(f"[{quoted(key)}]" for key in self.path)
        match self.kind:
            case "css" if self.own or self.attribute:
                line = f"response.css({quoted(self._css)}).{get}"
            case "css":
                line = f'response.css({quoted(self.where)}).xpath("normalize-space()").{get}'
            case "linked" if many:
                line = f"[one{keys} for one in response.data.find({quoted(self.where)})]"
            case "linked":
                line = f"response.data.find({quoted(self.where)})[0]{keys}"
            case "assigned":
                after = f"response.text.partition({quoted(self.where)})[2]"
                line = f"json.JSONDecoder().raw_decode({after})[0]{keys}"
            case "script":
                path = quoted(jmespath_of(self.path))
                line = f"response.css({quoted(self.where)}).jmespath({path}).{get}"
            case _:
                line = f"response.jmespath({quoted(jmespath_of(self.path))}).{get}"
        if not joined:
            return line
        return f"[*map(response.urljoin, {line})]" if many else f"response.urljoin({line})"

    def field(self, was: Field) -> Field | None:
        """The field of a recipe, with the converters of the old one; None if there is none."""
        regex = was.regex or (LABELLED.pattern if self.labelled else "")
        kept = {"regex": regex, "convert": was.convert, "default": was.default}
        match self.kind:
            case "css":
                where = f"{self.where}::text" if self.own else self.where
                return Field(css=where, attribute=self.attribute, **kept)
            case "linked":
                return Field(css=f"{JSON_LD}::text", jmespath=self.within, **kept)
            case "script":
                return Field(css=self.where, jmespath=jmespath_of(self.path), **kept)
            case "body":
                return Field(jmespath=jmespath_of(self.path), **kept)
        return None

    @property
    def _css(self) -> str:
        if self.attribute:
            return f"{self.where}::attr({self.attribute})"
        return f"{self.where}::text" if self.own else self.where


class ReadPage:
    """A new page with its response. ``values``: raises CrawlframeError as that does."""

    def __init__(self, page: SeenPage) -> None:
        self.page = page
        self._found: dict[Expression, list[Any]] = {}

    @cached_property
    def response(self) -> Response:
        text = self.page.text
        kind = "application/json" if text.lstrip()[:1] in ("{", "[") else "text/html"
        headers = [("Content-Type", f"{kind}; charset=utf-8")]
        return Response(self.page.url, 200, headers, text.encode(), Request(self.page.url))

    def values(self, one: Expression) -> list[Any]:
        """The values that are not blank; [] also if the first one is: it is what code gets."""
        if one not in self._found:
            found = [*self._read(one)]
            usable = bool(found) and _is_value(found[0])
            self._found[one] = [*filter(_is_value, found)] if usable else []
        return self._found[one]

    def _read(self, one: Expression) -> Iterator[Any]:
        match one.kind:
            case "css":
                texts = self._texts(one)
                yield from _after_labels(texts) if one.labelled else texts
            case "linked":
                for data in self.response.data.find(one.where):
                    yield from walk(data, one.path) or [None]
            case "script":
                for text in self.response.css(one.where).getall():
                    for data in decoded(text):
                        yield from walk(data, one.path)
            case "assigned":
                _, found, after = self.response.text.partition(one.where)
                for data in decoded(after, whole=False) if found else ():
                    yield from walk(data, one.path)
            case _:
                yield from walk(self.response.json(), one.path)

    def _texts(self, one: Expression) -> Iterator[Any]:
        if self.response.kind == "json":
            return
        if one.own:
            yield from self.response.css(f"{one.where}::text").getall()
            return
        nodes = self.response.css(one.where)
        for node in nodes if len(nodes) <= MAX_FOUND else ():
            if not one.attribute:
                yield node.xpath("normalize-space()").get()
            elif (value := node.attrib.get(one.attribute)) is not None:
                yield value


def _after_labels(texts: Iterator[str]) -> Iterator[str]:
    return (found[1].strip() for text in texts if (found := LABELLED.search(text)))


def _is_value(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else value is not None


def decoded(text: str, *, whole: bool = True) -> Iterator[Any]:
    """The JSON value of a text, or the one it begins with."""
    try:
        yield json.loads(text) if whole else json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return


def walk(value: Any, path: JsonPath) -> list[Any]:
    """The texts and numbers at a path."""
    found = [value]
    for key in path:
        if key == EACH:
            found = [one for some in found if isinstance(some, list) for one in some]
        elif isinstance(key, int):
            found = [some[key] for some in found if isinstance(some, list) and key < len(some)]
        else:
            found = [some[key] for some in found if isinstance(some, dict) and key in some]
    return [one for one in found if isinstance(one, str) or is_number(one)]


def jmespath_of(path: JsonPath) -> str:
    parts = []
    for key in path:
        if isinstance(key, int):
            parts.append("[*]" if key == EACH else f"[{key}]")
        else:
            name = key if PLAIN_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
            parts.append(f".{name}" if parts else name)
    return "".join(parts)


def quoted(value: str | int) -> str:
    """A literal of Python; a text in double quotes if it has none."""
    return (
        f'"{value}"'
        if isinstance(value, str) and not re.search(r'["\\\n]', value)
        else (repr(value))
    )


def same_keys(value: Any, base: str = "", attribute: str = "") -> frozenset[str]:
    """How a value is found again: also as a date, and as an absolute address. Of a list, the keys
    of its values."""
    if isinstance(value, list | tuple):
        return frozenset[str]().union(*(same_keys(one, base) for one in value[:50]))
    keys = {*keys_of(value)}
    if isinstance(value, str) and len(value) <= 2_000:
        text = value.strip()
        if text.startswith(("/", "./")) or is_link(attribute):
            keys.add(urljoin(base, text).casefold())
        elif len(text) <= 40 and YEAR.search(text) and not any(key[0] == "#" for key in keys):
            try:
                keys.add(f"date:{to_date(text, '')}"[:15])
            except ValueError:
                pass
    return frozenset(keys)


def is_link(attribute: str) -> bool:
    return attribute in LINKS or attribute.endswith(("-src", "-href", "-url", "-image"))
