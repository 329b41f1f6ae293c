"""Hosts: the simulated hosts and their pages, the same in each run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from benchmarks.standard.text import BLOCKS, THINGS, block

MOST, RANKS = 2_000, 1_000  # pages of the largest host, and sizes that follow Zipf's law
CHILDREN = 6  # links of a page that lead deeper: the pages form a tree
OTHERS = 3  # links of a page to other hosts
SECTIONS = 4  # of a page, about 1 KB each
DRIPS = 3  # one page of so many drips, on a host that does that
PRIVATE = "/private/"  # forbidden by robots.txt
CALENDAR, SESSION = "/calendar/", "sid="  # in the URLs of traps
LANGUAGES = ("en", "en", "en", "de", "fr")
# Kinds of hosts, and how many of a hundred there are. The others have nothing special.
KINDS = {
    "calendar": 3,  # links to the next month, for ever
    "sessions": 3,  # another session id in the links of each response
    "drip": 2,  # bodies that never end, a byte a second
    "silent": 1,  # takes connections, and answers nothing
    "failing": 5,  # one page of four fails at first
}


class Host(NamedTuple):
    """A host, by its number. Times in seconds."""

    number: int
    address: str  # in 127.0.0.0/8; also its name
    kind: str  # of KINDS; "" for nothing special
    pages: int
    latency: float
    crawl_delay: float  # that its robots.txt asks for; 0 for none
    robots: bool  # whether it has a robots.txt
    language: str
    no_training: bool  # its robots.txt says ai-train=no


def address_of(number: int) -> str:
    """An address of its own for each host."""
    return f"127.20.{number // 250}.{number % 250 + 1}"


@cache
def hosts(count: int) -> tuple[Host, ...]:
    """The simulated hosts. Raises ValueError for a number that has no addresses."""
    if not 1 <= count <= 60_000:
        raise ValueError(f"{count} hosts: there can be 1 to 60,000")
    return tuple(map(_host, range(count)))


def _host(number: int) -> Host:
    dice = random.Random(f"host {number}")
    drawn, kind = dice.randrange(100), ""
    for name, share in KINDS.items():
        if 0 <= drawn < share:
            kind = name
        drawn -= share
    slow = dice.random() < 0.05
    return Host(
        number=number,
        address=address_of(number),
        kind=kind,
        pages=int(MOST / dice.randint(1, RANKS) ** 0.8),
        latency=round(dice.uniform(1.0, 2.0) if slow else dice.lognormvariate(-2.5, 0.8), 3),
        crawl_delay=dice.choice((0.5, 2.0, 8.0)) if dice.random() < 0.2 else 0.0,
        robots=dice.random() < 0.8,
        language=dice.choice(LANGUAGES),
        no_training=dice.random() < 0.2,
    )


def robots_of(host: Host) -> str:
    """The robots.txt of a host."""
    lines = ["User-agent: *", f"Disallow: {PRIVATE}"]
    if host.crawl_delay:
        lines.append(f"Crawl-delay: {host.crawl_delay:g}")
    if host.no_training:
        lines.append("Content-Signal: search=yes, ai-train=no")
    return "\n".join([*lines, ""])


def asks(host: Host) -> float:
    """Seconds between requests that its robots.txt asks for, if there is one."""
    return host.crawl_delay if host.robots else 0.0


def page_number(path: str) -> int | None:
    """The number of the page with this path, without a query; None if it is no page of the tree."""
    if path == "/":
        return 0
    digits = path.removeprefix("/p/")
    return int(digits) if digits != path and digits.isdigit() and digits != "0" else None


def path_of(number: int) -> str:
    return f"/p/{number}" if number else "/"


def drips(host: Host, number: int) -> bool:
    """Whether the body of this page never ends."""
    return host.kind == "drip" and number % DRIPS == 1


def wanted(host: Host) -> int:
    """The number of pages that a crawler can get of a host."""
    if host.kind == "silent":
        return 0
    if host.kind != "drip":
        return host.pages
    return _reachable(host.pages)


@cache
def _reachable(pages: int) -> int:
    """Pages that do not drip, and whose links come from such pages."""
    reached, waiting = 0, [0]
    while waiting:
        number = waiting.pop()
        if number % DRIPS != 1:
            reached += 1
            waiting += children(number, pages)
    return reached


def children(number: int, pages: int) -> range:
    first = CHILDREN * number + 1
    return range(first, min(first + CHILDREN, pages))


def links(host: Host, path: str, all_hosts: tuple[Host, ...], port: int) -> Iterator[str]:
    """The links of a page, without session ids."""
    dice = random.Random(f"links {host.number} {path}")
    number = page_number(path)
    if number is None:
        year, month = (int(part) for part in path.removeprefix(CALENDAR).split("/"))
        months = 12 * year + month  # from 1 on
        for next_one in (months, months + 11):
            yield f"{CALENDAR}{next_one // 12}/{next_one % 12 + 1}"
        yield "/"
        return
    for child in children(number, host.pages):
        # One link of sixteen leads to an old place of the page, which redirects.
        yield f"/old/{child}" if dice.randrange(16) == 0 else path_of(child)
    for _ in range(OTHERS):
        yield path_of(dice.randrange(number + 1))
        other = all_hosts[dice.randrange(len(all_hosts))]
        yield f"http://{other.address}:{port}{path_of(dice.randrange(min(other.pages, 4)))}"
    if host.robots and number % 4 == 0:
        yield f"{PRIVATE}{number}"
    if number % 8 == 3:
        yield f"/gone/{number}"
    if host.kind == "calendar":
        yield f"{CALENDAR}2026/{1 + number % 12}"


def page(host: Host, path: str, all_hosts: tuple[Host, ...], port: int, session: str) -> bytes:
    """The HTML of a page. ``session``: the id in the links of this response, or ""."""
    dice = random.Random(f"page {host.number} {path}")
    title = f"{dice.choice(THINGS)} of host {host.number}, {path}"
    ending = f"?{SESSION}{session}" if session else ""
    anchors = [
        f'<li><a href="{link}{"" if "://" in link else ending}">{dice.choice(THINGS)}</a></li>\n'
        for link in links(host, path, all_hosts, port)
    ]
    sections = "".join(block(dice.randrange(BLOCKS)) for _ in range(SECTIONS))
    return (
        f"<!DOCTYPE html>\n<html lang={host.language}>\n<head>\n<meta charset=utf-8>\n"
        f"<title>{title}</title>\n</head>\n<body>\n<main><article>\n<h1>{title}</h1>\n{sections}"
        f"</article></main>\n<nav><ul>\n{''.join(anchors)}</ul></nav>\n</body>\n</html>\n"
    ).encode()
