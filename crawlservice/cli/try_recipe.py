"""A process that tries a recipe on a page: ``python -m crawlservice.cli.try_recipe``."""

from __future__ import annotations

import json
import sys
from functools import partial

import django

from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.identity.identity import Identity
from crawlframe.recipes.loading import recipe_of_stored
from crawlframe.recipes.spider import RecipeSpider
from crawlframe.response.response import Response
from crawlframe.spider.spider import read_settings
from crawlservice.cli.fetch_shell import PageFetcher
from crawlservice.recipes.trial import run


def fetch(
    settings: Settings, identity: Identity | None, spider: RecipeSpider, url: str
) -> Response:
    """A page as a node would fetch it. Raises BadRequest, FetchError and RobotsForbidden."""
    robots = read_settings(type(spider)).robots
    return PageFetcher(settings, spider, robots=robots, identity=identity).fetch(url)


def main() -> None:
    """Reads a recipe and a URL as JSON from standard input, and writes the values that were
    found."""
    django.setup()
    from django.conf import settings

    from crawlservice.identity.papers import identity_here

    asked = json.load(sys.stdin)
    identity, _ = identity_here()
    try:
        recipe = recipe_of_stored(json.dumps(asked["recipe"]))
        found = run(recipe, asked["url"], partial(fetch, settings.CRAWLFRAME, identity))
    except CrawlframeError as error:
        found = {"problem": str(error)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
