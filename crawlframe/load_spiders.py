"""Loading: all spiders of a project, from its package and from every other source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlframe.code.owners import OwnersFile
from crawlframe.code.registry import Registry, SpiderSource
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.recipes.loading import RecipeFiles


def load_spiders(settings: Settings, **options: Any) -> Registry:
    """The spiders that these settings name; ``options`` are further ones of Registry.load."""
    return Registry.load(settings.spiders, sources=sources_of(settings), **options)


def sources_of(settings: Settings) -> list[SpiderSource]:
    """The sources besides the modules of the package."""
    sources: list[SpiderSource] = [RecipeFiles(), OwnersFile()]
    if settings.scrapy:
        sources.append(scrapy_project(settings.scrapy))
    return sources


def scrapy_project(directory: str) -> SpiderSource:
    """The Scrapy project in a directory. Raises ConfigError if Scrapy is not installed."""
    try:
        from crawlframe.scrapy.project import ScrapyProject
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("crawlframe"):
            raise
        raise ConfigError(
            f"the Scrapy project {directory} needs Scrapy, and {error.name} is not installed: "
            "pip install 'crawlframe[scrapy]'"
        ) from None
    return ScrapyProject(Path(directory))
