"""Recipes of the database: their text is the JSON of a file."""

from __future__ import annotations

import json

from crawlframe.errors import SpiderError
from crawlframe.recipes.reading import from_data
from crawlframe.recipes.recipe import Recipe
from crawlframe.recipes.spider import RecipeSpider, spider_of

MODULE = "recipe"  # shown in place of the module


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
