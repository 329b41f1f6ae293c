"""Pages: the answer of the demo site to every URL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

from examples.demo_site.draw import Draw
from examples.demo_site.layout import INFO_PAGES, SCRIPT, STYLE, Layout, card, euro, link
from examples.demo_site.listing import agent_name
from examples.demo_site.site import AGENTS, Site

RELATED = 6  # listings shown as similar on a listing's page
HTML = "text/html; charset=utf-8"
JSON = "application/json"


class SitePage(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Pages:
    """Renders the pages of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._card = lru_cache(maxsize=1 << 14)(lambda id: card(site.listing(id)))
        featured = [site.listing(id) for id in site.some("featured", 3)]
        self._layout = Layout(site.seed, site.size * 1000, site.city, site.districts, featured)
        routes: dict[str, Callable[..., SitePage | None]] = {
            r"/listing/(\d{1,12})": self._listing,
            r"/api/visits/(\d{1,12})": self._visits,
            r"/list/([a-z0-9-]+)": self._list,
            r"/district/([a-z0-9-]+)": self._district,
            r"/search": self._search,
            r"/agent/(\d{1,4})": self._agent,
            r"/info/([a-z]+)": self._info,
            r"/img/([0-9a-f]{1,16})\.svg": self._image,
            r"/static/(site\.css|site\.js|icon\.svg)": self._static,
            r"/": self._home,
        }
        self._routes = [(re.compile(path, re.ASCII), view) for path, view in routes.items()]

    def answer(self, target: str) -> SitePage:
        """The answer to a GET; ``target`` is path and query as in the request line."""
        path, _, query = target.partition("?")
        for pattern, view in self._routes:
            match = pattern.fullmatch(path)
            if match:
                return view(query, *match.groups()) or self._missing(path)
        return self._missing(path)

    def _document(self, path: str, title: str, main: str, **data: Any) -> SitePage:
        heading = f"<h1>{escape(title)}</h1>\n"
        linked = {"@context": "https://schema.org", "name": title, **data}
        return SitePage(200, HTML, self._layout.document(path, title, heading + main, linked))

    def _home(self, query: str) -> SitePage:
        cards = "".join(map(self._card, self.site.some("home", 12)))
        main = f"<p>{escape(self._text('home'))}</p>\n{cards}"
        return self._document("/", "Homes for sale", main, **{"@type": "WebSite"})

    def _search(self, query: str) -> SitePage:
        city = parse_qs(query).get("city", [""])[0].strip().lower()
        path = f"/search?city={city}"
        if city != self.site.city:
            main = f'<p class="empty">Nothing found for “{escape(city)}”.</p>\n'
            return self._document(path, "No homes found", main, **{"@type": "SearchResultsPage"})
        rows = "\n".join(
            f"<li>{link(f'/district/{slug}', name)} <span>{len(self.site.ids_in(slug))}</span></li>"
            for slug, name in self.site.districts.items()
        )
        main = f'<ul class="districts">\n{rows}\n</ul>\n<p>{escape(self._text(path))}</p>\n'
        title = f"Homes in {self.site.city.title()}"
        return self._document(path, title, main, **{"@type": "SearchResultsPage"})

    def _district(self, query: str, slug: str) -> SitePage | None:
        if slug not in self.site.districts:
            return None
        name, count = self.site.districts[slug], len(self.site.ids_in(slug))
        cards = "".join(map(self._card, self.site.some(slug, RELATED)))
        main = (
            f"<p>{escape(self._text(slug))}</p>\n"
            f"<p>{link(f'/list/{slug}?page=1', f'All {count} homes in {name}')}</p>\n"
            f'{self._pager(slug, 0)}<section class="similar"><h2>A first look</h2>\n'
            f"{cards}</section>\n"
        )
        return self._document(f"/district/{slug}", f"Living in {name}", main, **{"@type": "Place"})

    def _list(self, query: str, slug: str) -> SitePage | None:
        number = parse_qs(query).get("page", ["1"])[0]
        if slug not in self.site.districts or not number.isdecimal() or len(number) > 9:
            return None
        page = int(number)
        if not 1 <= page <= self.site.list_pages(slug):
            return None
        start = (page - 1) * self.site.page_size
        shown = self.site.ids_in(slug)[start : start + self.site.page_size]
        cards = "".join(map(self._card, shown))
        pager = self._pager(slug, page)
        main = f'{pager}<section class="results">\n{cards}</section>\n{pager}'
        title = f"Homes in {self.site.districts[slug]}, page {page}"
        return self._document(f"/list/{slug}?page={page}", title, main, **{"@type": "ItemList"})

    def _listing(self, query: str, number: str) -> SitePage | None:
        id = int(number)
        if id not in self.site.ids():
            return None
        home = self.site.listing(id)
        slug = self.site.slug(id)
        draw = Draw(self.site.seed, "detail", id)
        photos = "".join(
            f'<figure><img src="/img/{draw.below(1 << 60):x}.svg" width="640" height="420" alt="">'
            f"<figcaption>Photo {count}</figcaption></figure>\n"
            for count in range(1, draw.between(4, 8))
        )
        facts = "".join(
            f"<dt>{name}</dt><dd>{value}</dd>\n"
            for name, value in (
                ("Price", euro(home.price)),
                ("Rooms", f"{home.rooms:g}"),
                ("Area", f"{home.area}&nbsp;m²"),
                ("Built", home.built),
                ("Reference", f"H-{id}-{draw.below(1 << 20):05x}"),
            )
        )
        features = "".join(f"<li>{escape(feature)}</li>\n" for feature in home.features)
        story = "".join(f"<p>{escape(draw.pick(self._layout.texts))}</p>\n" for _ in range(4))
        others = [other for other in self.site.some(id, RELATED) if other != id]
        neighbours = "".join(
            link(f"/listing/{id + step}", word, f' rel="{rel}"') + "\n"
            for step, rel, word in ((-1, "prev", "Previous"), (1, "next", "Next"))
            if id + step in self.site.ids()
        )
        main = (
            f'<nav class="crumbs">{link("/", "Home")}'
            f" / {link(f'/search?city={self.site.city}', 'Search')}"
            f" / {link(f'/district/{slug}', home.district)}"
            f" / {link(f'/list/{slug}?page=1', 'List')}</nav>\n"
            f'<div class="gallery" id="photos">{photos}</div>\n'
            f'<address>{escape(home.address)}</address>\n<dl class="facts">\n{facts}</dl>\n'
            f'<p class="visits" data-source="/api/visits/{id}">Seen … times</p>\n'
            f'<section class="story"><h2>Description</h2>\n{story}</section>\n'
            f'<ul class="features">\n{features}</ul>\n'
            f'<p class="agent">Offered by {link(f"/agent/{id % AGENTS}", home.agent)}</p>\n'
            f'<section class="similar"><h2>Similar homes</h2>\n'
            f'{"".join(map(self._card, others))}</section>\n<nav class="steps">{neighbours}</nav>\n'
        )
        offer = {"@type": "Offer", "price": home.price, "priceCurrency": "EUR"}
        data = {"@type": "House", "address": home.address, "offers": offer, "sku": str(id)}
        return self._document(f"/listing/{id}", home.title, main, **data)

    def _visits(self, query: str, number: str) -> SitePage | None:
        id = int(number)
        if id not in self.site.ids():
            return None
        body = json.dumps({"id": id, "visits": self.site.listing(id).visits, "unit": "page views"})
        return SitePage(200, JSON, body.encode())

    def _agent(self, query: str, number: str) -> SitePage | None:
        agent = int(number)
        if agent >= AGENTS:
            return None
        ids = self.site.ids()
        cards = "".join(map(self._card, ids[(agent - ids.start) % AGENTS :: AGENTS][:12]))
        name = agent_name(self.site.seed, agent)
        main = f"<p>{escape(self._text(name))}</p>\n{cards}"
        return self._document(f"/agent/{agent}", name, main, **{"@type": "RealEstateAgent"})

    def _info(self, query: str, slug: str) -> SitePage | None:
        if slug not in INFO_PAGES:
            return None
        main = "".join(f"<p>{escape(self._text(f'{slug}{part}'))}</p>\n" for part in range(8))
        return self._document(f"/info/{slug}", INFO_PAGES[slug], main, **{"@type": "AboutPage"})

    def _image(self, query: str, token: str) -> SitePage:
        draw = Draw(self.site.seed, "picture", token)
        shapes = "".join(
            f'<rect x="{draw.below(560)}" y="{draw.below(340)}" width="{draw.between(20, 160)}" '
            f'height="{draw.between(20, 160)}" fill="#{draw.below(1 << 24):06x}"/>'
            for _ in range(12)
        )
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 420">{shapes}</svg>'
        return SitePage(200, "image/svg+xml", svg.encode())

    def _static(self, query: str, name: str) -> SitePage:
        if name == "site.css":
            return SitePage(200, "text/css", STYLE.encode())
        if name == "site.js":
            return SitePage(200, "text/javascript", SCRIPT.encode())
        return self._image(query, "icon")

    def _missing(self, path: str) -> SitePage:
        body = (
            '<!DOCTYPE html>\n<html lang="en"><head><title>Not found</title></head>'
            f"<body><h1>Not found</h1><p>{escape(unquote(path))}</p></body></html>\n"
        )
        return SitePage(404, HTML, body.encode("utf-8", "replace"))

    def _pager(self, slug: str, current: int) -> str:
        last = self.site.list_pages(slug)
        near = {1, last, *range(current - 2, current + 3)}
        rows = "".join(
            f'<li><b aria-current="page">{page}</b></li>\n'
            if page == current
            else f"<li>{link(f'/list/{slug}?page={page}', str(page))}</li>\n"
            for page in sorted(near)
            if 1 <= page <= last
        )
        return f'<ul class="pager">\n{rows}</ul>\n'

    def _text(self, key: object) -> str:
        return Draw(self.site.seed, "text", key).pick(self._layout.texts)
