"""Versions of recipes: each change is kept, with its author, and can be taken back."""

from __future__ import annotations

from difflib import unified_diff

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import transaction
from django.db.models.functions import Now

from crawlframe.errors import CrawlframeError
from crawlframe.recipes.loading import recipe_of_stored
from crawlframe.recipes.recipe import Recipe as Contents
from crawlframe.recipes.recipe import as_text
from crawlservice.models import Recipe, RecipeVersion, Task

User = AbstractUser | AnonymousUser


class Stale(CrawlframeError):
    """The recipe was saved by another user since it was opened; open it again."""


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
