#!/usr/bin/env python
# PYTHON_ARGCOMPLETE_OK
"""Every command of Crawlframe: ``python manage.py help`` lists them."""

import sys

try:
    from crawlservice.cli.program import main
except ModuleNotFoundError as error:
    if error.name is not None and error.name.startswith(("crawlframe.", "crawlservice.")):
        raise  # the packages are there, and something is wrong in them
    sys.exit(
        "Crawlframe is not installed for this Python; first: . .venv/bin/activate   "
        "(make crawl makes it)"
    )

if __name__ == "__main__":
    main()
