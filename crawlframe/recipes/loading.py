"""Recipes as spiders: those in the .toml and .json files of the spiders package, and those of the
database, whose text is the JSON of a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from crawlframe.code.registry import Registry
from crawlframe.errors import SpiderError
from crawlframe.recipes.reading import from_data, from_text
from crawlframe.recipes.recipe import Recipe
from crawlframe.recipes.spider import RecipeSpider, spider_of
from crawlframe.spider.spider import Spider

KINDS = {".toml": "toml", ".json": "json"}
MODULE = "recipe"  # shown in place of the module, for recipes of the database


class RecipeFiles:
    """A file with neither start_urls, fields nor rules is something else, such as data of another
    spider."""

    def find(self, registry: Registry) -> Iterator[type[Spider]]:
        for name in registry.listed:
            if name.endswith((*KINDS,)):
                path = Path(name)
                module = str(path.relative_to(registry.directory.parent))
                spider = registry.attempt(module, path, partial(_load, registry, module, path))
                if spider is not None:
                    yield spider

    def files(self) -> Iterable[Path]:
        return ()  # files of the package are watched already


def _load(registry: Registry, module: str, path: Path) -> type[RecipeSpider] | None:
    try:
        text = registry.read(path).decode()
    except UnicodeDecodeError as error:
        if path.suffix == ".toml":
            registry.refuse(module, f"{path}:1: not UTF-8: {error}; save it as UTF-8")
        return None
    try:
        recipe = from_text(text, KINDS[path.suffix], str(path), path.stem)
    except SpiderError as error:
        registry.refuse(module, str(error))
        return None
    return None if recipe is None else spider_of(recipe, module, path)


def recipe_of_stored(text: str) -> Recipe:
    """Returns the recipe in a stored text. Raises SpiderError."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise SpiderError(f"the recipe is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise SpiderError("the recipe must be a JSON object")
    return from_data({"name": "", "start_urls": [], **data})


def spider_of_stored(text: str) -> type[RecipeSpider]:
    """Returns the spider class of a stored text. Raises SpiderError."""
    return spider_of(recipe_of_stored(text), MODULE)
