"""Words: the arguments of a contender from the harness, and its report at the end."""

from __future__ import annotations

import argparse
import json
from typing import NamedTuple


class Words(NamedTuple):
    start: str  # URL of the first page
    database: str  # libpq URI
    redis: str  # URL
    in_flight: int  # requests, per process
    processes: int
    own_set: bool  # the spider keeps a set of the URLs it has seen
    parsel: bool  # as in the tool's tutorial, not with the fastest parser


def heard(*, scales: bool = False, tutorial: bool = False) -> Words:
    """The command line. ``scales``: several processes may share the job; ``tutorial``: there is a
    spider with parsel."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--redis", required=scales, default="")
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--processes", type=int, choices=None if scales else [1], default=1)
    parser.add_argument("--own-set", action="store_true")
    parsers = ["fast", "parsel"] if tutorial else ["fast"]
    parser.add_argument("--parser", choices=parsers, default="fast")
    said = parser.parse_args()
    if said.own_set and said.parser == "parsel":
        parser.error("--own-set goes with --parser fast")
    return Words(
        start=said.start,
        database=said.database,
        redis=said.redis,
        in_flight=said.in_flight,
        processes=said.processes,
        own_set=said.own_set,
        parsel=said.parser == "parsel",
    )


def tell(pages: int, seconds: float, notes: str) -> None:
    """``seconds``: from the first request to the last row. Ends the program with an error when
    there is no row."""
    if not pages:
        raise SystemExit("no page was stored; what went wrong is above")
    print(json.dumps({"pages": pages, "seconds": seconds, "notes": " ".join(notes.split())}))
