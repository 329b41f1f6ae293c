"""Extraction: the values that a recipe's fields have on a page, or on a part of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from crawlframe.base.exact_json import loads
from crawlframe.base.urls import host_of
from crawlframe.recipes import converters
from crawlframe.recipes.converters import ConverterStep, find, plain
from crawlframe.recipes.recipe import Field, LinkRule, Select
from crawlframe.response.response import Response

if TYPE_CHECKING:
    from parsel import Selector


PLACE = re.compile(r"\{([^\W\d]\w*)\}")
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
MAX_RANGE = 1_000_000
_PARTS = re.compile(r"(\{[^\W\d]\w*\}|\{\d+\.\.\d+\})")
_ANCHORS = "descendant-or-self::a[@href] | descendant-or-self::area[@href]"
MARKUP = ("html", "xml")
UNSEEN = frozenset({"script", "style", "template", "noscript"})
# Texts of links from a heading to itself, which generators of manuals show under the mouse only.
PERMALINKS = frozenset({"\N{PILCROW SIGN}", "\N{SECTION SIGN}", "#"})
BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details",
        "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3",
        "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre",
        "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "title", "tr", "ul",
    }
)  # fmt: skip


class Scope(NamedTuple):
    """A page, or the part of it that is one item: ``node`` in markup, ``data`` in JSON."""

    response: Response
    node: Selector | None
    data: Any


class Value(NamedTuple):
    """The value of a field. ``found``: how many values before they were converted; ``problem``:
    values that could not be converted, "" if none."""

    value: Any
    found: int = 0
    problem: str = ""


def scopes(response: Response, each: Select | None) -> Iterator[Scope]:
    """The page, or the parts of it that ``each`` selects."""
    page = page_scope(response)
    if each is None:
        yield page
    elif each.jmespath:
        found = _search(each.jmespath, page.data)
        for data in found if isinstance(found, list) else [found]:
            if data is not None:
                yield Scope(response, None, data)
    elif page.node is not None:
        for node in page.node.css(each.css) if each.css else page.node.xpath(each.xpath):
            yield Scope(response, node, None)


def page_scope(response: Response) -> Scope:
    """The whole page."""
    data = None
    if response.kind == "json":
        data = response.json()
    return Scope(response, response.selector if response.kind in MARKUP else None, data)


def read(field: Field, scope: Scope) -> Value:
    """The value of a field in this scope. The default replaces an empty result."""
    steps = _steps(field.convert)
    found = _found(field, scope, html=bool(steps) and steps[0].name == "html")
    values = found if steps and not steps[0].converter.gathers else [*map(plain, found)]
    value, problem = converters.convert(steps, values, scope.response.base_url)
    if value in (None, "") or (value == [] and field.default is not None):
        value = field.default
    return Value(value, len(found), problem)


def select(part: Any, scope: Scope) -> str | None:
    """The first text that the css, xpath, jmespath or regex of a part selects, None without one. Of
    an element, it is its link."""
    link = bool(part.css or part.xpath) and "::" not in part.css
    field = Field(part.css, part.xpath, part.jmespath, getattr(part, "regex", ""))
    if link and scope.node is not None:
        nodes = scope.node.css(part.css) if part.css else scope.node.xpath(part.xpath)
        for node in nodes:
            if isinstance(node.root, str):
                return node.root
            href = _attribute(node, "href") or _attribute(node, "src")
            if href is None:
                href = node.xpath("string(.//@href)").get() or None
            if href:
                return href
        return None
    value = next(iter(_found(field, scope, html=False)), None)
    return None if value in (None, "") or value is False else str(value)


def text_of(node: Selector) -> str:
    """The text that a reader of the page sees in an element, blocks apart from each other."""
    from lxml import etree

    root = node.root
    parts: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        block = element.tag in BLOCKS
        if event == "start":
            if element is not root and (element.tag in UNSEEN or _is_permalink(element)):
                walk.skip_subtree()
            else:
                parts += [" "] if block else []
                parts.append(element.text or "")
            continue
        parts += [" "] if block else []
        if element is not root:
            parts.append(element.tail or "")
    return " ".join("".join(parts).split())


def _is_permalink(element: Any) -> bool:
    return (
        element.tag == "a"
        and (element.text or "").strip() in PERMALINKS
        and str(element.get("href", "")).startswith("#")
    )


@lru_cache(maxsize=4096)
def _steps(names: tuple[str, ...]) -> list[ConverterStep]:
    return converters.read(names)


def _found(field: Field, scope: Scope, *, html: bool) -> list[Any]:
    if field.page:
        return _matched(field.regex, _of_page(field.page, scope.response))
    values: list[Any]
    if field.css or field.xpath:
        if scope.node is None:
            return []
        nodes = scope.node.css(field.css) if field.css else scope.node.xpath(field.xpath)
        values = [
            value for node in nodes if (value := _of_node(node, field.attribute, html)) is not None
        ]
    elif field.jmespath:
        return _matched(field.regex, _listed(_search(field.jmespath, scope.data)))
    elif scope.node is not None:
        values = [scope.node.get()] if field.regex else []
    else:
        values = [scope.response.text if scope.data is None else json.dumps(scope.data)]
    if field.jmespath:
        values = [one for value in values for one in _listed(_search(field.jmespath, _data(value)))]
    return _matched(field.regex, values)


def _of_node(node: Selector, attribute: str, html: bool) -> Any:
    if attribute:
        return _attribute(node, attribute)
    if isinstance(node.root, str | bool | float):
        return node.root
    return node.get() if html else text_of(node)


def _attribute(node: Selector, name: str) -> str | None:
    return None if isinstance(node.root, str | bool | float) else node.attrib.get(name)


def _of_page(name: str, response: Response) -> list[Any]:
    match name:
        case "url":
            return [response.url]
        case "title":
            found = response.css("title") if response.kind in MARKUP else []
            return [text_of(node) for node in found[:1]]
        case "text":
            if response.kind not in MARKUP:
                return [response.text] if response.kind != "binary" else []
            return [text_of(node) for node in response.css("body")[:1]]
        case "links":
            return list(response.links())
        case "same_site_links":
            host = host_of(response.url)
            return [link for link in response.links() if host_of(link) == host]
        case "status":
            return [response.status]
        case "content_type":
            return [response.headers.get("Content-Type", "").partition(";")[0].strip().lower()]
        case _:
            return [len(response.body)]


def _matched(pattern: str, values: Iterable[Any]) -> list[Any]:
    """The matches of a pattern: its first group, or all of it if it has none."""
    if not pattern:
        return list(values)
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values)
    found = (match[1] if match.re.groups else match[0] for match in converters.find(pattern, texts))
    return [text for text in found if text is not None]


def _search(expression: str, data: Any) -> Any:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.search(expression, data)
    except JMESPathError:  # a function got a value of another type than it takes
        return None


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _data(value: Any) -> Any:
    """The data of JSON that stands in a page, such as in a script."""
    try:
        return loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def links_of(response: Response, rule: LinkRule) -> list[str]:
    """The URLs, in the order of the page, each once."""
    if rule.restrict_css or rule.restrict_xpath:
        if response.kind != "html":
            return []
        parts = [response.css(expression) for expression in rule.restrict_css]
        parts += [response.xpath(expression) for expression in rule.restrict_xpath]
        anchors = [anchor for part in parts for anchor in part.xpath(_ANCHORS)]
        links = list(dict.fromkeys(one.url for one in response.follow_all(anchors)))
    else:
        links = response.links()
    return [link for link in links if allows(rule, link)]


def allows(rule: LinkRule, url: str) -> bool:
    """Whether the rule's patterns allow a URL."""
    if rule.allow and not any(any(find(pattern, [url])) for pattern in rule.allow):
        return False
    return not any(any(find(pattern, [url])) for pattern in rule.deny)


def filled(template: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Each URL of a template: one for each number of its ranges and each element of its lists.
    Values are percent-encoded, unless the template starts with them."""
    parts = _PARTS.split(template)
    choices: list[Any] = []
    for place, part in enumerate(parts):
        if span := RANGE.fullmatch(part):
            first, last = span.groups()
            width = len(first) if first.startswith("0") else 0
            choices.append([f"{number:0{width}d}" for number in range(int(first), int(last) + 1)])
        elif name := PLACE.fullmatch(part):
            value = values[name[1]]
            several = value if isinstance(value, list | tuple) else [value]
            begins = not any(parts[:place])
            choices.append([str(one) if begins else quote(str(one), safe="") for one in several])
        else:
            choices.append([part])
    return map("".join, product(*choices))
