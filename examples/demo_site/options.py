"""Options: the command line of the demo site."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from examples.demo_site.server import DEFAULT_PORT, serve
from examples.demo_site.site import MAX_SIZE, MIN_SIZE, Site


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="0 takes a free one (%(default)s)"
    )
    parser.add_argument("--listings", type=int, default=5000, help="houses (%(default)s)")
    parser.add_argument("--city", default="berlin", help="the search keyword (%(default)s)")
    parser.add_argument("--page-size", type=int, default=20, help="per list page (%(default)s)")
    parser.add_argument(
        "--size", type=int, default=30, help=f"kB per page, {MIN_SIZE}-{MAX_SIZE} (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed, another site")
    parser.add_argument("--latency", type=float, default=0, help="ms before each answer (0)")
    parser.add_argument(
        "--jitter", type=float, default=0.25, help="share by which latency varies (%(default)s)"
    )
    parser.add_argument(
        "--error-rate", type=float, default=0, help="share of URLs that answer 500 at first (0)"
    )


def serve_options(options: dict[str, Any], stop_with_stdin: bool = False) -> None:
    """Serves the site of the parsed options. Raises DemoSiteError and ValueError."""
    site = Site(
        listings=options["listings"],
        city=options["city"],
        page_size=options["page_size"],
        size=options["size"],
        seed=options["seed"],
    )
    serve(
        site,
        options["host"],
        options["port"],
        latency=options["latency"],
        jitter=options["jitter"],
        error_rate=options["error_rate"],
        stop_with_stdin=stop_with_stdin,
    )
