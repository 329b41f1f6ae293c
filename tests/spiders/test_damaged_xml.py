"""Damage in XML changes nothing that is sound: yielded values are as written."""

from __future__ import annotations

import re
from html import unescape
from random import Random
from typing import Any

import pytest

from crawlframe import Response, XMLFeedSpider
from crawlframe.errors import SpiderError
from crawlframe.spiders.sitemap_file import SitemapFile
from crawlframe.spiders.xml_elements import XmlElements
from crawlframe.testing import make_response, run
from tests.readers.damage import DAMAGES, feed, sitemap


class Shop(XMLFeedSpider):
    name = "shop"
    start_urls = ("http://s/",)

    def parse_node(self, response: Response, node: Any) -> None: ...


PIECE = 100  # characters that are read at a time


def items_of(xml: str, tag: str = "item") -> list[dict[str, str]]:
    pieces = [xml[at : at + PIECE] for at in range(0, len(xml), PIECE)]
    return [
        {re.sub(".*}|.*:", "", one.tag): "".join(one.itertext()).strip() for one in element}
        for element in XmlElements(pieces, (f"{{*}}{tag}",))
    ]


def written(xml: str) -> set[str]:
    """The texts from each start tag to the next end tag of its name, as the file has them."""
    found = set()
    for start in re.finditer(r"<([\w:]+)[^<>]*>", xml):
        if end := re.compile(rf"</{start[1]}\s*>").search(xml, start.end()):
            found.add(plain(xml[start.end() : end.start()]))
    return found


def plain(text: str) -> str:
    """The text with the characters for which its references stand."""
    cdata = r"<!\[CDATA\[(.*?)\]\]>"
    text = re.sub(cdata, lambda one: one[1].replace("&", "&amp;"), text)
    text = re.sub(r"&(?!(#\d+|#x[\da-fA-F]+|\w+);)|&(?=nothing;|shop;)", "&amp;", text)
    text = re.sub(r"&#(0|xD800|99999999|x1F);", r"&amp;#\1;", text)
    return re.sub(r"[\0\x0b\x1f\ufffe]", "\ufffd", unescape(text)).strip()


@pytest.mark.parametrize("kind", DAMAGES)
def test_what_is_yielded_is_in_the_file(kind: str) -> None:
    for seed in range(25):
        for make, tag in ((feed, "item"), (sitemap, "url")):
            random = Random(seed)
            sound = make(random)
            xml = DAMAGES[kind](sound, random)
            found, values = items_of(xml, tag), written(xml)
            assert {value for item in found for value in item.values()} <= values, xml
            whole = re.findall(rf"(?s)<{tag}>.*?</{tag}>", sound)
            kept = [
                item for item, text in zip(items_of(sound, tag), whole, strict=True) if text in xml
            ]
            assert all(item in found for item in kept), xml
            assert len(found) >= len(kept) - (kind == "a part twice")
            assert len(kept) >= 10 or kind in ("cut off", "unknown prefix", "raw ampersand"), xml


def test_what_a_damaged_sitemap_asks_for() -> None:
    def asked(body: str) -> list[str]:
        return [entry.loc for entry in SitemapFile(make_response("http://s/", body=body.encode()))]

    one = "<url><loc>http://s/1?x=1&y=2</loc></url>"
    assert asked(f"<urlset>{one}<url><loc>http://s0") == ["http://s/1?x=1&y=2"]
    assert asked("<urlset><url><loc>http://s/<!-- x -->2</loc></url>") == ["http://s/2"]
    assert asked("<urlset><url><loc>http://s/<![CDATA[a&b]]>c</loc></url>") == ["http://s/a&bc"]
    assert asked("<urlset><url><loc>http://s/<b>1</b>2</loc></url></urlset>") == []
    assert asked("<urlset><url><loc>http://s/\x0b</loc></url></urlset>") == []
    shop = "<!DOCTYPE urlset [<!ENTITY shop 'http://s/a?b'>]>"
    assert asked(f"{shop}<urlset><url><loc>&shop;&amp;c</loc></url></urlset>") == ["http://s/a?b&c"]


@pytest.mark.slow
def test_a_text_of_more_than_10_mb_does_not_end_a_feed() -> None:
    assert items_of(f"<r><item>{'&' * 3_000_000}<t>a</t></item></r>") == [{"t": "a"}]
    text = "<item><t>a</t></item><item><t>%s</t></item><item><t>b</t></item>"
    assert [len(item["t"]) for item in items_of(f"<r>{text % ('x' * 11_000_000)}</r>")] == [
        1, 11_000_000, 1
    ]  # fmt: skip
    assert [item["t"] for item in items_of(f"<r>{text % ('x' * 17_000_000)}</r>")] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<r><!-- <item><t>1</t></item><item><t>2</t></item></r>", ["1", "2"]),  # not closed
        ("<r><!-- <item><t>1</t></item> --><item><t>2</t></item></r>", ["2"]),
        ("<r><item><t><![CDATA[</item>]]></t></item><item><t>2</t></item></r>", ["</item>", "2"]),
        ("<r><item><t>1</t><item><t>2</t></item><item><t>3</t></item></r>", ["2", "3"]),
        ("<r><item a='>' b=\"</item>\"><t>1</t></item></r>", []),  # "<" is not allowed there
        ("<r><item a='>'><t>1</t></item></r>", ["1"]),
        ("<r></item><item><t>1</t></item></item></r>", ["1"]),
        ("<item><t>1</t></item>", ["1"]),
        ("Warning: x < y<br><r><item><t>1</t></item></r>", ["1"]),
        ("<r xmlns='a'><x xmlns='b'/><item><t>1</t></item></r>", ["1"]),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_elements_are_found(
    monkeypatch: pytest.MonkeyPatch, body: str, found: list[str], piece: int
) -> None:
    monkeypatch.setitem(globals(), "PIECE", piece)
    assert [item["t"] for item in items_of(body)] == found


@pytest.mark.parametrize(
    "body",
    ["<!doctype html><title>x</title><p>no", "<html><body>x", "<head><title>x</title></head>"],
)
def test_a_page_in_place_of_a_feed_is_an_error(body: str) -> None:
    with pytest.raises(SpiderError, match="is no feed but HTML"):
        run(Shop, make_response("http://s/", body=body.encode()))
