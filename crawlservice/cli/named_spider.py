"""NamedSpiders: the spiders whose names a command takes: from the code and from the recipes of the
database, as nodes find them."""

from __future__ import annotations

from typing import NamedTuple

from django.db import DatabaseError, connection

from crawlframe.code.registry import Registry, unknown_spider
from crawlframe.errors import SpiderError, UnknownSpider
from crawlframe.recipes.loading import spider_of_stored
from crawlframe.run.ledger import StoredRecipe
from crawlframe.spider.spider import Spider, SpiderInfo, describe
from crawlservice.connections.database import is_there
from crawlservice.models import Recipe
from crawlservice.recipes.current import every


class NamedSpider(NamedTuple):
    """``note`` says which one it is where the name alone does not, "" otherwise. ``recipe``: the
    number of its version, 0 for a spider of the code."""

    kind: type[Spider]
    info: SpiderInfo
    recipe: int = 0
    note: str = ""


class NamedSpiders:
    """The spiders of ``registry`` and the recipes. ``problem``: why the database could not be asked
    for recipes, "" if it could. One without tables has none."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.recipes: dict[str, StoredRecipe] = {}
        self.problem = ""
        try:
            if is_there() and Recipe._meta.db_table in connection.introspection.table_names():
                self.recipes = every()
        except DatabaseError as error:
            self.problem = " ".join(str(error).split())

    def get(self, name: str) -> NamedSpider:
        """Returns the spider of the code, or else the recipe. Raises UnknownSpider."""
        if name in self._registry.spiders:
            info, note = self._registry.info(name), ""
            if name in self.recipes:
                note = f"{name} is the spider of {info.module}; the recipe {name} is not used"
            return NamedSpider(self._registry.get(name), info, note=note)
        if name in self.recipes:
            return self.recipe(name)
        known = {**self._registry.spiders, **dict.fromkeys(self.recipes, Spider)}
        error = unknown_spider(name, known, self._registry.broken)
        more = f"\nThe database could not be asked for recipes: {self.problem}"
        raise UnknownSpider(f"{error}{more if self.problem else ''}")

    def recipe(self, name: str) -> NamedSpider:
        """Returns the recipe with this name. Raises UnknownSpider if it cannot be read."""
        number, text = self.recipes[name]
        try:
            kind = spider_of_stored(text)
        except SpiderError as error:  # it was saved by a newer release
            raise UnknownSpider(f"recipe {name} cannot be read: {error}") from None
        note = f"{name} is a recipe of the database, version {number}"
        return NamedSpider(kind, describe(kind), number, note)
