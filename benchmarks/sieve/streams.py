"""Streams: the links of real pages, in the order in which a crawl meets them."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from urllib.parse import unquote, urlsplit

from crawlframe.request import Request
from crawlframe.response import Response

SITE = "http://site.example/"
HTML = [("Content-Type", "text/html")]
FIRST = ("index.html", "index.html.en")  # the page at which a crawl begins


def links_of(root: Path) -> list[int]:
    """All links that a breadth-first crawl of this directory meets, numbered by their URLs. Raises
    FileNotFoundError when it has no first page."""
    first = next((name for name in FIRST if (root / name).is_file()), None)
    if first is None:
        raise FileNotFoundError(f"{root} has no {' or '.join(FIRST)}")
    numbers: dict[str, int] = {}
    met: list[int] = []
    queue, seen = deque([SITE + first]), {SITE + first}
    while queue:
        url = queue.popleft()
        if (path := _file(root, url)) is None:
            continue
        response = Response(url, 200, HTML, path.read_bytes(), Request.plain(url))
        for link in response.links():
            met.append(numbers.setdefault(link, len(numbers)))
            if link not in seen:
                seen.add(link)
                queue.append(link)
    return met


def _file(root: Path, url: str) -> Path | None:
    if not url.startswith(SITE):
        return None
    path = root / unquote(urlsplit(url).path).lstrip("/")
    if path.is_dir():
        path /= FIRST[0]
    for found in (path, path.with_name(f"{path.name}.en")):
        if ".html" in found.name and found.is_file():
            return found
    return None
