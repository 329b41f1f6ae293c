"""``python -m examples.demo_site.crawl``: crawls the demo site and checks the items. It takes the
options of the command crawl, and of the site --listings and --latency."""

from __future__ import annotations

import os
import sys

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    django.setup()
    from examples.demo_site.command import PROGRAM, Command  # its models need the setup

    Command().run_from_argv([PROGRAM, "", "listings", *sys.argv[1:]])


if __name__ == "__main__":
    main()
