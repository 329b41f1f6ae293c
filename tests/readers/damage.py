"""Damaged XML: sound feeds and sitemaps, and damages at random places in ways that are listed."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

VALUES = (
    "plain",
    "a &amp; b",
    "x=1&amp;y=2&amp;copy=3",
    "&lt;b&gt;t&lt;/b&gt;",
    "ü €",
    "&#233;&#x20AC;",
)
CDATA = "<![CDATA[raw <b>bold</b> & more]]>"


def sitemap(random: Random, entries: int = 12) -> str:
    rows = []
    for number in range(entries):
        query = random.choice(("", "?x=1&amp;y=2", "?copy=1&amp;reg=2", "?q=%C3%BC"))
        mod = random.choice(("", f"<lastmod>2026-01-{number + 1:02}</lastmod>"))
        rows.append(f"<url>\n<loc>http://s{number}.example/p{number}{query}</loc>{mod}</url>")
    space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    return f'<?xml version="1.0"?>\n<urlset {space}>' + "\n".join(rows) + "\n</urlset>"


def feed(random: Random, entries: int = 12) -> str:
    rows = []
    for number in range(entries):
        value = random.choice((*VALUES, CDATA))
        rows.append(
            f"<item><title>{number} {value}</title><link>http://s.example/{number}?a=1&amp;b=2"
            f'</link><g:price unit="E&amp;U">{number}.5</g:price><text>{random.choice(VALUES)}'
            "</text></item>"
        )
    head = '<rss xmlns:g="http://g.example/"><channel><title>Shop &amp; co</title>'
    return f'<?xml version="1.0"?>\n{head}{"".join(rows)}</channel></rss>'


def places(xml: str, pattern: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(pattern, xml)]


def cut_out(pattern: str) -> Callable[[str, Random], str]:
    def damaged(xml: str, random: Random) -> str:
        start, end = random.choice(places(xml, pattern))
        return xml[:start] + xml[end:]

    return damaged


def put_in(*texts: str) -> Callable[[str, Random], str]:
    """A damage put into a text between tags."""

    def damaged(xml: str, random: Random) -> str:
        start, end = random.choice(places(xml, r"(?<=>)[^<>&]+(?=</)"))
        at = random.randint(start, end)
        return xml[:at] + random.choice(texts) + xml[at:]

    return damaged


def twice(xml: str, random: Random) -> str:
    start, end = random.choice(places(xml, r"(?s)<(item|url)>(?:(?!<!\[CDATA).)*?</\1>"))
    at = random.randint(start, end)
    return xml[:at] + xml[start:at] + xml[at:]


DAMAGES: dict[str, Callable[[str, Random], str]] = {
    "raw ampersand": lambda xml, random: xml.replace("&amp;", "&", random.randint(1, 9)),
    "lone ampersand": put_in("&", " & ", "&&", "&x=1", "&copy=2", "&;", "&#;", "& amp;"),
    "entity of HTML": put_in("&nbsp;", "&eacute;", "&copy;", "&hellip;"),
    "unknown entity": put_in("&nothing;", "&shop;"),
    "lone less-than": put_in("<", "< ", "<3", "a<b", "<<"),
    "tag of HTML": put_in("<br>", "<b>", "</b>", "<img src=x>", "<p class='a'>"),
    "end of CDATA": put_in("]]>"),
    "wrong reference": put_in("&#0;", "&#xD800;", "&#99999999;", "&#x1F;"),
    "control character": put_in("\0", "\x0b", "\x1f", "\ufffe"),
    "no end tag": cut_out(r"</[\w:]+>"),
    "no start tag": cut_out(r"<[a-z][^<>]*>"),
    "broken end tag": cut_out(r"(?<=</)[\w:]{1,3}"),
    "no greater-than": cut_out(r"(?<=[a-z\"])>"),
    "cut off": lambda xml, random: xml[: random.randrange(20, len(xml))],
    "a part twice": twice,
    "unknown prefix": lambda xml, random: xml.replace(' xmlns:g="http://g.example/"', ""),
}
