"""Trial: a recipe tried on one live page. What a worker would do with the page, told field by
field; nothing is stored.

It runs in a process of its own (crawlservice/cli/try_recipe.py): a pattern that never ends, or a
page that upsets a parser, costs nothing but that process.

Preview: a fetched page as it may be shown in the admin: its text and structure, nothing that
runs, loads or leads anywhere. What a recipe finds on it is marked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from crawlframe.base.urls import hostname_of, is_within
from crawlframe.errors import CrawlframeError
from crawlframe.recipes.extraction import (
    MARKUP,
    Scope,
    filled,
    links_of,
    page_scope,
    read,
    scopes,
    select,
)
from crawlframe.recipes.recipe import PLAIN, Field, Recipe, Select, as_data
from crawlframe.recipes.spider import RecipeSpider, spider_of
from crawlframe.recipes.stored import MODULE
from crawlframe.response.response import Response

MAX_SHOWN = 1 << 20  # characters of markup
MARK = "data-cf-field"  # the names of the fields that an element is a value of
PART = "data-cf-part"  # on each part of the page that is one item
REMOVED = (
    "script", "style", "link", "meta", "base", "iframe", "frame", "frameset", "object", "embed",
    "applet", "noscript", "template", "svg", "math", "audio", "video", "source", "track", "canvas",
    "portal", "dialog", "title",
)  # fmt: skip
INERT = {
    "form": "div", "button": "span", "input": "span", "select": "span", "option": "span",
    "textarea": "span", "img": "span",
}  # fmt: skip
KEPT = frozenset({"id", "class", "colspan", "rowspan", "dir", "lang", "title", MARK, PART})
# What an expression ends in when it selects a text or an attribute of an element.
_ENDS = re.compile(r"\s*::(?:text|attr\([^)]*\))\s*$|/(?:/?text\(\)|@[\w:-]+)\s*$")
Fetch = Callable[[RecipeSpider, str], Response]
PROCESS = "crawlservice.cli.try_recipe"
SECONDS = 40  # that a trial may take, with the page of details
AT_ONCE = 2  # trials in each process of the web
SHOWN_ITEMS = 3
SHOWN_LINKS = 5
MAX_VALUE = 300  # characters of a value that are shown
_free = threading.BoundedSemaphore(AT_ONCE)


class TrialFailed(CrawlframeError):
    """The page could not be tried."""


def try_out(recipe: Recipe, url: str, directory: str) -> dict[str, Any]:
    """What the recipe finds on the page ``url``; its first start page if that is empty. Fetched as
    a node would: robots.txt, private addresses, credentials, limits. ``directory``: of the project.

    Raises TrialFailed."""
    if not _free.acquire(blocking=False):
        raise TrialFailed("Other pages are being tried at the moment; try again in a few seconds")
    try:
        done = subprocess.run(
            [sys.executable, "-m", PROCESS],
            input=json.dumps({"recipe": as_data(recipe), "url": url}),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=directory,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TrialFailed(
            f"The trial took longer than {SECONDS} s: the site does not answer, or a pattern needs "
            "too long for this page"
        ) from None
    finally:
        _free.release()
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it died"]
        raise TrialFailed(f"The trial failed: {last[0][:500]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if found.get("problem"):
        raise TrialFailed(found["problem"])
    return found


def run(recipe: Recipe, url: str, fetch: Fetch) -> dict[str, Any]:
    """The trial itself. ``fetch`` is called with the spider and a URL."""
    kind = spider_of(recipe, MODULE)
    spider = kind()
    try:
        response, seconds = _timed(fetch, spider, url or _first_url(recipe))
        fields = recipe.fields or ({} if recipe.detail else PLAIN)
        parts = list(scopes(response, recipe.each))
        found = _page(response, seconds, fields, parts, recipe.required)
        found["links"] = [
            {"count": len(links), "urls": links[:SHOWN_LINKS]}
            for links in (
                [link for link in links_of(response, rule) if _is_followed(spider, link)]
                for rule in recipe.rules
            )
        ]
        found["next"] = _next(recipe, spider, response)
        links = _details(recipe, spider, parts)
        mark(response, recipe.each, fields)
        found["html"] = shown(response)
        if recipe.detail is not None:
            found["detail"] = _detail(recipe, spider, links, fetch)
    except CrawlframeError as error:
        return {"problem": str(error)}
    return found


def _is_followed(spider: RecipeSpider, url: str) -> bool:
    """Whether a link leads to a host of the recipe."""
    domains = [*map(str.lower, spider.allowed_domains)]
    return not domains or is_within(hostname_of(url), domains)


def _detail(recipe: Recipe, spider: RecipeSpider, links: list[str], fetch: Fetch) -> dict[str, Any]:
    detail = recipe.detail
    assert detail is not None
    if not links:
        return {"problem": "", "count": 0}
    try:
        response, seconds = _timed(fetch, spider, links[0])
        found = _page(response, seconds, detail.fields, [page_scope(response)], detail.required)
        mark(response, None, detail.fields)
        return found | {"html": shown(response), "problem": ""}
    except CrawlframeError as error:
        return {"problem": f"{links[0]}: {error}"}


def _timed(fetch: Fetch, spider: RecipeSpider, url: str) -> tuple[Response, float]:
    begun = time.monotonic()
    response = fetch(spider, url)
    return response, time.monotonic() - begun


def _page(
    response: Response,
    seconds: float,
    fields: dict[str, Field],
    parts: list[Scope],
    required: tuple[str, ...],
) -> dict[str, Any]:
    rows, complete = [], [True] * len(parts)
    for name, field in fields.items():
        cells = []
        for place, scope in enumerate(parts):
            value, count, problem = read(field, scope)
            missing = name in required and value in (None, "", [])
            complete[place] &= not missing
            if place < SHOWN_ITEMS:
                cells.append(
                    {
                        "value": _told(value),
                        "nothing": value in (None, "", []),
                        "found": count,
                        "problem": problem,
                        "missing": missing,
                    }
                )
        rows.append({"name": name, "cells": cells})
    return {
        "url": response.url,
        "status": response.status,
        "ok": response.ok,
        "kind": response.kind,
        "size": len(response.body),
        "seconds": round(seconds, 2),
        "rows": rows,
        "count": len(parts),
        "complete": sum(complete),
    }


def _details(recipe: Recipe, spider: RecipeSpider, parts: list[Scope]) -> list[str]:
    """The URLs of the pages of details."""
    if recipe.detail is None:
        return []
    found = []
    for scope in parts:
        link = select(recipe.detail, scope)
        if link is not None and recipe.detail.url:
            values = spider.argument_values() | {"value": link}
            try:
                link = next(filled(recipe.detail.url, values))
            except KeyError as missing:
                raise _lacks(missing) from None
        if link is not None:
            found.append(scope.response.urljoin(link))
    return found


def _next(recipe: Recipe, spider: RecipeSpider, response: Response) -> str:
    if recipe.next is None:
        return ""
    try:
        found = list(spider.next_page(recipe.next, response, True, True, 1, b"1"))
    except KeyError as missing:
        raise _lacks(missing) from None
    return found[0].url if found else ""


def _lacks(missing: KeyError) -> TrialFailed:
    name = missing.args[0]
    return TrialFailed(f"An address needs the argument {name}; give it a default to try the recipe")


def _first_url(recipe: Recipe) -> str:
    """Raises TrialFailed when an argument has no default."""
    values = {n: one.default for n, one in recipe.arguments.items() if one.default is not None}
    values |= {n: one.choices[0] for n, one in recipe.arguments.items() if one.choices}
    try:
        return next(filled(recipe.start_urls[0], values))
    except (KeyError, StopIteration):
        raise TrialFailed(
            "The start URL needs arguments that have no default; enter the address of a page to try"
        ) from None


def _told(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def mark(response: Response, each: Select | None, fields: dict[str, Field]) -> None:
    """Marks what ``each`` and the fields select, in the tree of the page."""
    if response.kind not in MARKUP:
        return
    parts = [response.selector]
    if each is not None:
        parts = list(_selected(response.selector, each)) if not each.jmespath else []
        for part in parts:
            _add(part, PART, "1")
    for part in parts:
        for name, field in fields.items():
            for node in _selected(part, field):
                _add(node, MARK, name)


def shown(response: Response) -> str:
    """The markup to show; that of a text file is its text. "" when it is not text, or too long."""
    from lxml import etree, html

    if response.kind not in MARKUP:
        return "" if response.kind == "binary" else _as_text(response.text[:MAX_SHOWN])
    root = response.selector.root
    if not isinstance(root, etree._Element) or _local(root) in REMOVED:
        return ""
    for element in [*root.iter()]:
        if not isinstance(element.tag, str) or _local(element) in REMOVED:
            _drop(element)
    for element in root.iter():
        _disarm(element)
    text: str = html.tostring(root, encoding="unicode", doctype="<!doctype html>")
    return text if len(text) <= MAX_SHOWN else ""


def _selected(node: Any, part: Any) -> Iterable[Any]:
    if part.css:
        return node.css(_ENDS.sub("", part.css) or "*")  # type: ignore[no-any-return]
    if part.xpath:
        try:
            return node.xpath(_ENDS.sub("", part.xpath) or ".")  # type: ignore[no-any-return]
        except ValueError:  # what is left is no expression; the whole one has been evaluated
            return ()
    return ()


def _add(node: Any, attribute: str, word: str) -> None:
    element = node.root
    if not hasattr(element, "attrib"):
        return
    words = element.get(attribute, "").split()
    if word not in words:
        element.set(attribute, " ".join([*words, word]))


def _disarm(element: Any) -> None:
    name = _local(element)
    if name in INERT:
        words = element.get("alt") or element.get("value") or element.get("placeholder")
        if words and not element.text:
            element.text = words
        element.tag = INERT[name]
        element.set("class", f"{element.get('class', '')} cf-was-{name}".strip())
    for attribute in element.attrib:
        if attribute not in KEPT:
            del element.attrib[attribute]


def _drop(element: Any) -> None:
    parent = element.getparent()
    if parent is None:
        return
    before = element.getprevious()
    if element.tail:
        if before is not None:
            before.tail = (before.tail or "") + element.tail
        else:
            parent.text = (parent.text or "") + element.tail
    parent.remove(element)


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].lower()


def _as_text(text: str) -> str:
    from html import escape

    return f"<!doctype html><pre>{escape(text)}</pre>"
