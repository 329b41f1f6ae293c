"""Loading: all spiders of a project, from its package and from every other source."""

from __future__ import annotations

from typing import Any

from crawlframe.code.registry import Registry
from crawlframe.code.sources import SpiderSource
from crawlframe.conf import Settings
from crawlframe.recipes.files import RecipeFiles


def load_spiders(settings: Settings, **options: Any) -> Registry:
    """The spiders that these settings name; ``options`` are further ones of Registry.load."""
    return Registry.load(settings.spiders, sources=sources_of(settings), **options)


def sources_of(settings: Settings) -> list[SpiderSource]:
    """The sources besides the modules of the package."""
    return [RecipeFiles()]
