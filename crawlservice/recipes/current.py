"""The recipes of the database as they are now: for nodes, and for those who submit tasks.

Masking: recipes as they are shown to those who may not change them. The headers of a recipe may
carry tokens.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from difflib import unified_diff
from functools import lru_cache
from typing import Any

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import transaction
from django.db.models.functions import Now

from crawlframe.base.secret import MASK
from crawlframe.errors import CrawlframeError, SpiderError, UnknownSpider
from crawlframe.recipes.recipe import Recipe as Contents
from crawlframe.recipes.recipe import as_text
from crawlframe.recipes.stored import recipe_of_stored, spider_of_stored
from crawlframe.run.ledger import StoredRecipe
from crawlframe.spider.spider import SpiderInfo, describe
from crawlservice.models import Recipe, RecipeVersion, Task

User = AbstractUser | AnonymousUser
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
    """What is published about each recipe, by name."""
    found = {}
    for name, recipe in every().items():
        try:
            found[name] = _info(recipe.text)
        except SpiderError as error:  # it was saved by a newer release
            log.warning("recipe %s cannot be read: %s", name, error)
    return found


def info(name: str) -> SpiderInfo | None:
    """What is published about a recipe; None when there is none. Raises UnknownSpider if this
    release cannot read it."""
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


class Stale(CrawlframeError):
    """Somebody else has saved the recipe since it was opened; open it again."""


class NameTaken(CrawlframeError):
    """Another spider has this name."""


class InUse(CrawlframeError):
    """Tasks of the recipe still run; cancel them first, or wait for their end."""


def add(contents: Contents, user: User) -> Recipe:
    """Keeps a new recipe. Raises NameTaken."""
    with transaction.atomic():
        recipe, made = Recipe.objects.get_or_create(
            name=contents.name, defaults={"text": as_text(contents)}
        )
        if not made:
            raise NameTaken(f"there is a recipe {contents.name!r} already; choose another name")
        _keep(recipe, user)
    return recipe


def change(
    pk: int, contents: Contents, user: User, *, seen: int, restored: int | None = None
) -> Recipe:
    """Keeps a new version, unless nothing differs. The name stays. ``seen``: the version that the
    user has changed. Raises Stale."""
    with transaction.atomic():
        recipe = Recipe.objects.select_for_update().get(pk=pk)
        if recipe.number != seen:
            raise Stale(
                f"version {recipe.number} of the recipe was saved meanwhile; what you changed was "
                f"version {seen}. Copy what you need, and open it again"
            )
        text = as_text(contents)
        if text != recipe.text:
            recipe.text, recipe.number, recipe.changed_at = text, recipe.number + 1, Now()
            recipe.save()
            recipe.refresh_from_db()
            _keep(recipe, user, restored)
    return recipe


def restore(pk: int, number: int, user: User) -> Recipe:
    """Makes an older version the newest. Raises SpiderError if this release cannot read it, and
    RecipeVersion.DoesNotExist."""
    old = RecipeVersion.objects.select_related("recipe").get(recipe_id=pk, number=number)
    contents = recipe_of_stored(old.text)
    return change(pk, contents, user, seen=old.recipe.number, restored=number)


def remove(recipe: Recipe) -> None:
    """Deletes a recipe with its versions. Raises InUse."""
    active = Task.objects.filter(spider=recipe.name, state__in=Task.ACTIVE)
    if numbers := [str(pk) for pk in active.values_list("pk", flat=True)[:5]]:
        raise InUse(
            f"tasks of {recipe.name} still run ({', '.join(numbers)}); cancel them, or wait for "
            "their end"
        )
    recipe.delete()


def difference(old: str, new: str) -> list[tuple[str, str]]:
    """The lines that differ and those around them, each with "+", "-", "@" or " "."""
    lines = unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2)
    return [(line[:1], line[1:]) for line in lines if not line.startswith(("+++", "---"))]


def _keep(recipe: Recipe, user: User, restored: int | None = None) -> None:
    known = user if user.is_authenticated else None
    RecipeVersion.objects.create(
        recipe=recipe,
        number=recipe.number,
        text=recipe.text,
        user_id=known.pk if known else None,
        name=known.get_username() if known else "",
        restored=restored,
    )
