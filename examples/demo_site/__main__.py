"""``python -m examples.demo_site``: serves the demo site until Ctrl-C."""

from __future__ import annotations

import argparse
import sys

from examples.demo_site.errors import DemoSiteError
from examples.demo_site.options import add_options, serve_options


def main() -> int:
    parser = argparse.ArgumentParser(prog="demosite", description="Serves the demo site.")
    add_options(parser)
    parser.add_argument("--stop-with-stdin", action="store_true", help="end when stdin ends")
    options = vars(parser.parse_args())
    try:
        serve_options(options, options["stop_with_stdin"])
    except (DemoSiteError, ValueError) as error:
        print(f"demosite: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
