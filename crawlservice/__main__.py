"""``python -m crawlservice``: the entry point without its script."""

import sys

from crawlframe.base.program import ENTRY_POINT
from crawlservice.cli.program import main

if __name__ == "__main__":
    sys.argv[0] = ENTRY_POINT
    main()
