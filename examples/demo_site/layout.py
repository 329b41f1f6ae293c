"""Layout: the frame around every HTML page of the demo site, and the filling up to its size."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from examples.demo_site.draw import Draw
from examples.demo_site.listing import Listing, agent_name
from examples.demo_site.prose import STOCK, paragraph

INFO_PAGES = {
    "about": "About us",
    "contact": "Contact",
    "help": "Help for buyers",
    "sell": "Sell your home",
    "mortgage": "Mortgage calculator",
    "terms": "Terms of use",
    "privacy": "Privacy",
    "imprint": "Imprint",
}

STYLE = """
:root{--ink:#1d2733;--mute:#6b7785;--line:#dfe4ea;--brand:#0b6e4f;--warm:#f6f3ee;--gap:1.25rem}
*,::after,::before{box-sizing:border-box}body{margin:0;color:var(--ink);font:16px/1.55 system-ui}
header.top{display:flex;flex-wrap:wrap;gap:.5rem 1rem;padding:.8rem 5vw;border-bottom:1px solid}
header.top nav a{color:inherit;text-decoration:none;padding:.2rem .45rem;border-radius:4px}
header.top nav a:hover,header.top nav a:focus-visible{background:var(--warm);outline:2px solid}
main{max-width:74rem;margin:0 auto;padding:var(--gap)}.crumbs{color:var(--mute);font-size:.85rem}
.gallery{display:grid;grid-template-columns:2fr 1fr 1fr;grid-auto-rows:11rem;gap:.4rem}
.gallery img{width:100%;height:100%;object-fit:cover}.gallery figure:first-child{grid-row:span 2}
dl.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.8rem}
dl.facts dt{color:var(--mute);font-size:.8rem;text-transform:uppercase;letter-spacing:.04em}
.card{display:grid;grid-template-columns:9rem 1fr;gap:1rem;border:1px solid var(--line)}
.card h3{margin:.6rem 0 .2rem;font-size:1.05rem}.card .price{font-weight:700;color:var(--brand)}
.note{border-top:1px solid;padding:.6rem 0}.note .by{color:var(--mute);font-size:.82rem}
.pager{display:flex;gap:.35rem;list-style:none;padding:0}.pager [aria-current]{font-weight:700}
footer{background:var(--ink);color:#fff;padding:2rem 5vw;display:grid;gap:1rem}footer a{color:#cde}
@media(max-width:46rem){.gallery{grid-template-columns:1fr}.card{grid-template-columns:1fr}}
@media print{header.top,footer,.similar{display:none}}
"""

SCRIPT = """
(function(w,d){'use strict';var q=w.__queue=w.__queue||[],t0=Date.now();
function send(kind,data){q.push({k:kind,d:data,t:Date.now()-t0});if(q.length>20)q.shift()}
d.addEventListener('click',function(e){var a=e.target.closest&&e.target.closest('a[href]');
if(a&&a.href.indexOf('<a')<0)send('click',{href:a.getAttribute('href'),text:a.textContent.trim()})});
d.addEventListener('visibilitychange',function(){if(d.visibilityState==='hidden')
{try{navigator.sendBeacon('/api/beacon',JSON.stringify(q))}catch(err){}}});
if('IntersectionObserver' in w){var seen=new IntersectionObserver(function(list){
list.forEach(function(x){if(x.isIntersecting){send('view',{id:x.target.id});
seen.unobserve(x.target)}})});
d.addEventListener('DOMContentLoaded',function(){d.querySelectorAll('.note,.card').forEach(function(n)
{seen.observe(n)})})}
w.addEventListener('error',function(e){send('error',{m:e.message,l:e.lineno})});
var saved=[];try{saved=JSON.parse(w.localStorage.getItem('saved')||'[]')}catch(err){saved=[]}
d.documentElement.classList.add(saved.length?'has-saved':'no-saved');w.demo={send:send,saved:saved};
})(window,document);
"""


def link(href: str, text: str, attributes: str = "") -> str:
    return f'<a href="{escape(href)}"{attributes}>{escape(text)}</a>'


def script_json(data: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def euro(price: int) -> str:
    return f"€&nbsp;{price:,}"


def card(listing: Listing) -> str:
    """A listing as search results and related listings show it."""
    path = f"/listing/{listing.id}"
    token = Draw("image", listing.id).below(1 << 60)
    return (
        f'<article class="card" id="l{listing.id}"><a href="{path}#photos" tabindex="-1">'
        f'<img src="/img/{token:x}.svg" alt="" width="180" height="120" loading="lazy"></a>'
        f'<div><h3><a class="listing" href="{path}">{escape(listing.title)}</a></h3>'
        f"<p>{escape(listing.address)}</p><p>{listing.rooms:g} rooms, {listing.area}&nbsp;m², "
        f'built {listing.built}</p><p class="price">{euro(listing.price)}</p></div></article>\n'
    )


class Layout:
    """Renders whole documents for one site. ``size`` is the target size of a page in bytes."""

    def __init__(
        self, seed: int, size: int, city: str, districts: dict[str, str], featured: list[Listing]
    ) -> None:
        self._seed = seed
        self._size = size
        name = city.title()
        search = link(f"/search?city={city}", f"Homes in {name}")
        quarters = "\n".join(link(f"/district/{slug}", text) for slug, text in districts.items())
        top = "\n".join(link(f"/listing/{home.id}", home.title) for home in featured)
        info = "\n".join(link(f"/info/{slug}", text) for slug, text in INFO_PAGES.items())
        self._head = (
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="stylesheet" href="/static/site.css">\n'
            '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">\n'
            f"<style>{STYLE}</style>\n<script>{SCRIPT}</script>\n"
            '<script src="/static/site.js" defer></script>\n'
        )
        self._header = (
            '</head>\n<body>\n<header class="top">\n'
            f'<a class="brand" href="/">Demo Homes {escape(name)}</a>\n<nav>{search}\n'
            f"{quarters}\n{link('/info/help', 'Help')}\n"
            '<a href="mailto:homes@houses.example">Write to us</a></nav>\n'
            f'<form action="/search"><input name="city" value="{escape(city)}">'
            f'<button>Search</button></form>\n</header>\n<main>\n<aside class="top-homes">'
            f"<h2>Homes of the week</h2>\n{top}</aside>\n"
        )
        self._footer = (
            f"</main>\n<footer>\n<nav>{info}\n{search}\n{quarters}</nav>\n"
            "<p>© Demo Homes, a site that does not exist. No house here can be bought.</p>\n"
            "</footer>\n</body>\n</html>\n"
        ).encode()
        self.texts = [paragraph(seed, number) for number in range(STOCK)]
        self._notes = [self._note(number) for number in range(STOCK)]

    def document(
        self, path: str, title: str, main: str, data: Any, head_links: Iterable[str] = ()
    ) -> bytes:
        """A whole page: ``main`` in its frame, ``data`` as JSON-LD, then readers' notes until the
        page has its size."""
        draw = Draw(self._seed, "page", path)
        state = {
            "path": path,
            "build": f"{draw.below(1 << 60):x}",
            "flags": [f"{draw.below(1 << 30):x}" for _ in range(12)],
        }
        summary = draw.pick(self.texts)[:155]
        front = (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"<title>{escape(title)} | Demo Homes</title>\n"
            f'<meta name="description" content="{escape(summary)}">\n'
            f'<meta property="og:title" content="{escape(title)}">\n'
            f'<link rel="canonical" href="{escape(path)}">\n{"".join(head_links)}{self._head}'
            f'<script type="application/ld+json">{script_json(data)}</script>\n'
            f"<script>window.__state={script_json(state)}</script>\n"
            f"{self._header}{main}"
        ).encode()
        target = self._size * draw.between(80, 130) // 100 - len(front) - len(self._footer)
        return b"".join([front, *self._filling(draw, target), self._footer])

    def _filling(self, draw: Draw, target: int) -> list[bytes]:
        blocks = [b'<section class="notes"><h2>What readers say about the quarter</h2>\n']
        place, stride = draw.below(STOCK), 2 * draw.below(STOCK // 2) + 1
        while target > 0:
            blocks.append(self._notes[place])
            target -= len(self._notes[place])
            place = (place + stride) % STOCK
        blocks.append(b"</section>\n")
        return blocks

    def _note(self, number: int) -> bytes:
        draw = Draw(self._seed, "note", number)
        day = f"{draw.between(2016, 2025)}-{draw.between(1, 12):02}-{draw.between(1, 28):02}"
        return (
            f'<article class="note" id="n{draw.below(1 << 32):x}">'
            f'<p class="by">{escape(agent_name(self._seed, STOCK + number))}, '
            f'<time datetime="{day}">{day}</time>, {draw.between(0, 99)} found this useful</p>'
            f"<p>{escape(self.texts[number])}</p></article>\n"
        ).encode()
