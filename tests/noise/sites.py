"""Documentation site, generated, that is crawled without a server."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from crawlframe.request.request import Request
from crawlframe.response.response import Response

WORDS = [
    "request", "response", "frontier", "worker", "node", "queue", "page", "item", "spider",
    "model", "schema", "field", "index", "table", "cache", "host", "lease", "token", "signal",
    "record", "stream", "filter", "parser", "setting", "command", "option", "error", "retry",
    "session", "cookie", "header", "body", "link", "form", "proxy", "browser", "render", "export",
    "schedule", "task", "ledger", "event",
]  # fmt: skip


class Site(NamedTuple):
    """Pages by URL: ``read`` returns the HTML of one, None if there is none."""

    start: str
    read: Callable[[str], bytes | None]


def generated(pages: int, seed: int = 1) -> Site:
    """Returns a documentation site: a navigation of sections on each page, with the pages of the
    section that the reader is in, index pages, breadcrumbs, previous and next page, footer. Half of
    the pages of a section are named by its index only, each tenth by its previous page only."""
    rng = random.Random(seed)
    start = "https://docs.example/"
    sections: dict[str, list[str]] = {}
    while sum(map(len, sections.values())) < pages:
        word = f"{rng.choice(WORDS)}-{len(sections)}"
        count = min(rng.randint(8, 60), pages - sum(map(len, sections.values())))
        sections[word] = [f"{rng.choice(WORDS)}-{n}" for n in range(count)]
    order = [(section, page) for section, names in sections.items() for page in names]
    place = {one: at for at, one in enumerate(order)}

    def link(target: str, text: str) -> str:
        return f'<a href="/{target}">{text}</a>'

    def read(url: str) -> bytes | None:
        path = url.removeprefix(start).removesuffix("/")
        section, _, page = path.partition("/")
        if path and (section not in sections or (page and (section, page) not in place)):
            return None
        own = sections.get(section, [])
        nav = "".join(f"<li>{link(f'{name}/', name)}</li>" for name in sections)
        inner = "".join(f"<li>{link(f'{section}/{name}', name)}</li>" for name in own[::2])
        crumbs = link("", "Home") + (f" / {link(f'{section}/', section)}" if path else "")
        text = "".join(f"<p>{' '.join(rng.choices(WORDS, k=60))}.</p>" for _ in range(4))
        main = f"<h1>{path or 'Documentation'}</h1>{text if page else ''}"
        steps = ""
        if not page and section:
            rows = [name for at, name in enumerate(own) if at % 10]
            items = "".join(f"<li>{link(section + '/' + name, name)}</li>" for name in rows)
            main += f"<ul>{items}</ul>"
        elif page:
            at = place[section, page]
            for name, step in (("Previous", at - 1), ("Next", at + 1)):
                if 0 <= step < len(order):
                    steps += link("/".join(order[step]), name)
            other = rng.choice(order)
            main += f"<p>See {link('/'.join(other), other[1])} for how these are related.</p>"
        return (
            f"<html><body><nav><ul>{nav}</ul></nav><aside><ul>{inner}</ul></aside>"
            f"<div class=crumbs>{crumbs}</div><main>{main}</main><div class=steps>{steps}</div>"
            f"<footer>{link('imprint/', 'Imprint')}</footer></body></html>"
        ).encode()

    return Site(start, read)


def crawl(site: Site, links: Callable[[Response], Iterable[str]]) -> tuple[set[str], int]:
    """Returns the pages that are reached breadth first, and how many links they returned."""
    queue, seen, followed = deque([site.start]), {site.start}, 0
    reached: set[str] = set()
    headers = {"Content-Type": "text/html; charset=utf-8"}
    while queue:
        url = queue.popleft()
        body = site.read(url)
        if body is None:
            continue
        reached.add(url)
        for link in links(Response(url, 200, headers, body, Request(url))):
            followed += 1
            target = link.partition("?")[0]
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return reached, followed
