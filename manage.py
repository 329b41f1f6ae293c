#!/usr/bin/env python
"""Every command of Crawlframe: ``python manage.py help`` lists them."""

import os
import sys

try:
    from django.core.management import execute_from_command_line

    from crawlframe.errors import CrawlframeError
except ModuleNotFoundError as error:
    if error.name is not None and error.name.partition(".")[0] in ("crawlframe", "crawlservice"):
        raise
    sys.exit(
        "Crawlframe is not installed for this Python; first: . .venv/bin/activate   "
        "(make crawl makes it)"
    )


SERVICE, NODE = "crawlservice.settings", "crawlservice.node_settings"


def main() -> None:
    # Also when another command of ours starts a node, or a node one of them.
    if os.environ.get("DJANGO_SETTINGS_MODULE", SERVICE) in (SERVICE, NODE):
        runs_node = sys.argv[1:2] == ["runcrawler"]
        os.environ["DJANGO_SETTINGS_MODULE"] = NODE if runs_node else SERVICE
    try:
        execute_from_command_line(sys.argv)
    except CrawlframeError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
