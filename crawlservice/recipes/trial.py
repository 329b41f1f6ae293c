"""Trial: a recipe tried on one live page. The result of a worker with this page, field by field;
nothing is stored.

It runs in a process of its own (crawlservice/cli/try_recipe.py): a pattern that never ends, or a
page that upsets a parser, costs nothing but that process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from crawlframe.base.urls import hostname_of, is_within
from crawlframe.errors import CrawlframeError
from crawlframe.recipes.extraction import (
    Scope,
    filled,
    links_of,
    page_scope,
    read,
    scopes,
)
from crawlframe.recipes.loading import MODULE
from crawlframe.recipes.recipe import PLAIN, Detail, Field, Recipe, as_data
from crawlframe.recipes.spider import RecipeSpider, spider_of
from crawlframe.response.response import Response
from crawlservice.recipes.preview import mark, shown

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
    """The result of the recipe on the page ``url``; on its first start page if that is empty.
    Fetched as by a node: robots.txt, private addresses, credentials, limits. ``directory``: of the
    project.

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
        detail = recipe.detail
        link = None if detail is None else _detail_url(detail, spider, parts)
        mark(response, recipe.each, fields)
        found["html"] = shown(response)
        if detail is not None:
            found["detail"] = _detail(detail, spider, link, fetch)
    except CrawlframeError as error:
        return {"problem": str(error)}
    return found


def _is_followed(spider: RecipeSpider, url: str) -> bool:
    """Whether a link leads to a host of the recipe."""
    domains = [*map(str.lower, spider.allowed_domains)]
    return not domains or is_within(hostname_of(url), domains)


def _detail(detail: Detail, spider: RecipeSpider, link: str | None, fetch: Fetch) -> dict[str, Any]:
    if link is None:
        return {"problem": "", "count": 0}
    try:
        response, seconds = _timed(fetch, spider, link)
        found = _page(response, seconds, detail.fields, [page_scope(response)], detail.required)
        mark(response, None, detail.fields)
        return found | {"html": shown(response), "problem": ""}
    except CrawlframeError as error:
        return {"problem": f"{link}: {error}"}


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


def _detail_url(detail: Detail, spider: RecipeSpider, parts: list[Scope]) -> str | None:
    """The URL of the first page of details, None without one."""
    for scope in parts:
        try:
            link = spider.detail_link(detail, scope)
        except KeyError as missing:
            raise _lacks(missing) from None
        if link is not None:
            return scope.response.urljoin(link)
    return None


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
