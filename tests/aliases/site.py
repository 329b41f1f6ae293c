"""A site whose pages have several URLs: folders, lists and items, with six kinds of aliases; the
same URLs as pages of their own; and traps. Served on the loopback interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Thread
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

KINDS = ("session", "tracking", "index", "sort", "id", "path")
TRAPS = ("sorted_pages", "some_pages", "case", "walls")
FOLDER = 8  # items
PER_PAGE = 4  # items of a list
FORMS = 6  # URLs that links of one page have, at most
SORTS = ("name", "price", "stock")
WORDS = [
    a + b for a in ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti") for b in ("ro", "na", "lu", "k")
]


class Page(NamedTuple):
    """``kind``: "folder", "list", "item" or a trap; ``part``: of a list."""

    kind: str
    number: int
    part: int = 1
    more: str = ""  # a part of the URL that makes it another page


class Site:
    """``kinds``: its aliases. ``apart``: each URL is its own page. ``traps``: seeming aliases."""

    def __init__(
        self,
        items: int = 200,
        kinds: tuple[str, ...] = KINDS,
        traps: tuple[str, ...] = (),
        *,
        apart: bool = False,
    ) -> None:
        self.items, self.kinds, self.traps, self.apart = items, kinds, traps, apart
        self.fetched: Counter[str] = Counter()  # by target

    def page_of(self, target: str) -> Page | None:
        """The page at a target; None: it is no page."""
        split = urlsplit(target)
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        path, _, parameter = split.path.partition(";")
        page = self._plain(path, query)
        if page is None or not self.apart:
            return page
        return page._replace(more=f"{path};{parameter}?{sorted(query.items())}")

    def _plain(self, path: str, query: dict[str, str]) -> Page | None:
        head, _, name = path.lstrip("/").partition("/")
        if path in ("/", "/index.html"):
            return Page("folder", 0)
        if head.lower() == "item" and (head == "item" or "case" in self.traps):
            number = query.get("id", name)
            if not number.isdigit() or int(number) >= self.items:
                return None
            more = "capitals" if head == "Item" else ""
            if "some_pages" in self.traps and int(number) % 7 == 0 and query.get("view") == "full":
                more += "full"
            return Page("item", int(number), more=more)
        if head == "list" and name.isdigit():
            part = int(query.get("page", 1))
            sort = query.get("sort", "name")
            further = "sorted_pages" in self.traps and part > 1 and sort != "name"
            return Page("list", int(name), part, sort if further else "")
        if head == "folder":
            number, _, file = name.partition("/")
            if number.isdigit() and file in ("", "index.html"):
                return Page("folder", int(number))
        if "walls" in self.traps and head in ("account", "gone", "empty"):
            return Page(head, int(query.get("user", 0)))
        return None

    def forms(self, page: Page) -> list[str]:
        """The targets of links to a page; the first one is the plain one."""
        return [self._form(page, n) for n in range(FORMS)]

    def _form(self, page: Page, form: int) -> str:
        random = Random(f"{page} {form}")
        path, query = f"/{page.kind}/{page.number}", list[str]()
        if page.kind == "folder":
            path += "/"
        elif page.kind in ("account", "gone", "empty"):
            return f"/{page.kind}?user={page.number}"
        elif page.kind == "list" and page.part > 1:
            query.append(f"page={page.part}")
        if form == 0:
            return path + ("?" if query else "") + "&".join(query)
        kinds = [*self.kinds, *(one for one in ("some_pages", "case") if one in self.traps)]
        for kind in random.sample(kinds, 1 if form < 4 else 2):
            if kind == "session":
                query.append(f"sid={random.randbytes(12).hex()}")
            elif kind == "tracking":
                source = random.choice(("mail", "ad", "feed"))
                query += [f"utm_source={source}", f"utm_medium={source[::-1]}"]
            elif kind == "index" and page.kind == "folder":
                path += "index.html"
            elif kind == "sort" and page.kind == "list":
                query.append(f"sort={random.choice(SORTS)}")
            elif kind == "id" and page.kind == "item":
                path = path.replace(f"/{page.number}", "")
                query.append(f"id={page.number}")
            elif kind == "path" and page.kind != "folder":
                path += f";jsessionid={random.randbytes(8).hex()}7A"
            elif kind == "some_pages" and page.kind == "item":
                query.append("view=full")
            elif kind == "case" and page.kind == "item":
                path = path.replace("/item", "/Item")
        random.shuffle(query)
        return path + ("?" if query else "") + "&".join(query)

    def links(self, page: Page) -> list[str]:
        random = Random(f"links {page}")
        folders = max(1, self.items // FOLDER)
        found = []
        for n in range(12):
            number = (page.number * FOLDER + n) % self.items
            kind = ("item", "list", "item", "folder")[n % 4]
            if kind == "item":
                other = Page("item", number if n % 8 else random.randrange(self.items))
            elif kind == "list":
                other = Page("list", random.randrange(folders), random.randrange(1, 3))
            else:
                other = Page("folder", random.randrange(folders))
            found.append(self._form(other, random.randrange(FORMS)))
        if page.kind == "list":  # so that each page is linked
            first = page.number * FOLDER + (page.part - 1) * PER_PAGE
            found += [
                self._form(Page("item", n % self.items), n % FORMS)
                for n in range(first, first + PER_PAGE)
            ]
        if page.kind == "folder" and page.number == 0:
            found += [
                self._form(Page("list", n, part), (n + part) % FORMS)
                for n in range(folders)
                for part in (1, 2)
            ]
            if "walls" in self.traps:
                found += [f"/{w}?user={n}" for w in ("account", "gone", "empty") for n in range(30)]
        return found

    def body(self, page: Page, target: str) -> str:
        """The HTML of a page: its text and links are the same at each of its URLs, but for the
        session, which is in the text and in the links, and the order of a list."""
        query = dict(parse_qsl(urlsplit(target).query))
        if page.kind == "empty":
            return "<html><body></body></html>"
        if page.kind == "account":
            text = " ".join(WORDS * 2)
            return f"<title>Members</title><p>{text}<form><input type='password'></form>"
        if page.kind == "gone":
            return f"<title>Sorry</title><p>This page was not found. {' '.join(WORDS)}"
        random = Random(f"text {page}")
        title = f"{page.kind} {page.number} {page.part} {page.more}"
        text = " ".join(random.choices(WORDS, k=80))
        session = query.get("sid", "")
        if ";jsessionid=" in target:
            session += target.partition(";jsessionid=")[2].partition("?")[0]
        links = self.links(page)
        if page.kind == "list":
            sort = query.get("sort", "name")
            rows = [(Random(f"{page} {link} {sort}").random(), link) for link in links]
            links = [link for _, link in sorted(rows)] if sort != "name" else links
        shown = "".join(
            f"<li><a href='{link.replace('&', '&amp;')}'>{self.page_of(link)!r}</a>"
            for link in links
        )
        shown = shown.replace("Page(", "").replace(")", "")
        return (
            f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p>"
            f"<ul>{shown}</ul><p>session {session} of this visit</p></body></html>"
        )

    def answer(self, target: str) -> tuple[int, str]:
        self.fetched[target] += 1
        if target == "/robots.txt":
            return 404, ""
        page = self.page_of(target)
        return (404, "<p>no such page") if page is None else (200, self.body(page, target))


@contextmanager
def served(site: Site) -> Iterator[str]:
    """Serves the site. Gives its origin."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body leave together

        def do_GET(self) -> None:
            status, text = site.answer(self.path)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
