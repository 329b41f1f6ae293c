"""The current recipes of the database: for nodes, and for submitting tasks.

Masking: for users without the right to change recipes. The headers of a recipe may carry tokens.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from crawlframe.base.secret import MASK
from crawlframe.errors import SpiderError, UnknownSpider
from crawlframe.recipes.loading import spider_of_stored
from crawlframe.run.ledger import StoredRecipe
from crawlframe.spider.spider import SpiderInfo, describe
from crawlservice.models import Recipe

log = logging.getLogger(__name__)


def current(name: str) -> StoredRecipe | None:
    """The current version of a recipe; None when there is none of this name."""
    if "\0" in name:  # PostgreSQL refuses it
        return None
    row = Recipe.objects.filter(name=name).values_list("number", "text").first()
    return None if row is None else StoredRecipe(*row)


def every() -> dict[str, StoredRecipe]:
    """The current version of each recipe, by name."""
    rows = Recipe.objects.order_by("name").values_list("name", "number", "text")
    return {name: StoredRecipe(number, text) for name, number, text in rows}


def numbers(names: Collection[str]) -> dict[str, int]:
    """The number of the current version of each that exists."""
    return dict(Recipe.objects.filter(name__in=names).values_list("name", "number"))


def infos() -> dict[str, SpiderInfo]:
    """The published info of each recipe, by name."""
    found = {}
    for name, recipe in every().items():
        try:
            found[name] = _info(recipe.text)
        except SpiderError as error:  # it was saved by a newer release
            log.warning("recipe %s cannot be read: %s", name, error)
    return found


def info(name: str) -> SpiderInfo | None:
    """The published info of a recipe; None if there is none. Raises UnknownSpider if this release
    cannot read it."""
    row = current(name)
    try:
        return None if row is None else _info(row.text)
    except SpiderError as error:
        raise UnknownSpider(f"recipe {name!r} cannot be read: {error}") from None


@lru_cache(maxsize=256)
def _info(text: str) -> SpiderInfo:
    return describe(spider_of_stored(text))


def masked_headers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a spider, with a mask for the value of each header."""
    headers = settings.get("headers")
    if not headers:
        return dict(settings)
    names = headers if isinstance(headers, Mapping) else ()
    return {**settings, "headers": dict.fromkeys(names, MASK)}


def masked_text(text: str) -> str:
    """The text of a recipe, with such masks; "" if it is no JSON object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(data, dict):
        return ""
    if not isinstance(data.get("settings"), dict) or not data["settings"].get("headers"):
        return text
    data["settings"] = masked_headers(data["settings"])
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
