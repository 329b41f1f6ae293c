"""RecipeFiles: the recipes in the .toml and .json files of the spiders package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from crawlframe.code.registry import Registry
from crawlframe.code.version import files
from crawlframe.errors import SpiderError
from crawlframe.recipes.reading import from_text
from crawlframe.recipes.spider import RecipeSpider, spider_of
from crawlframe.spider.spider import Spider

KINDS = {".toml": "toml", ".json": "json"}


class RecipeFiles:
    """A file with neither start_urls, fields nor rules is something else, such as data of another
    spider."""

    def find(self, registry: Registry) -> Iterator[type[Spider]]:
        for path in files(registry.directory):
            if path.suffix in KINDS:
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
