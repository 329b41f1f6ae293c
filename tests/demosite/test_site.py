"""The generator: the same parameters give the same site, and its pages are consistent."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from crawlframe.node.worker.crawl.traps import TrapWatch
from examples.demo_site import DISTRICTS, Pages, Site
from examples.demo_site.draw import Draw

LISTED = re.compile(rb'class="listing" href="/listing/(\d+)"')
HREF = re.compile(rb'(?:href|src|data-source)="(/[^"#]*)')


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages(Site(listings=300))


def reachable(pages: Pages) -> dict[str, bytes]:
    """Every page that can be reached by links from the start page."""
    bodies: dict[str, bytes] = {}
    waiting = ["/"]
    while waiting:
        target = waiting.pop()
        if target in bodies:
            continue
        page = pages.answer(target)
        assert page.status == 200, target
        bodies[target] = page.body
        if page.content_type.startswith("text/html"):
            waiting += [found.decode() for found in HREF.findall(page.body)]
    return bodies


def test_no_link_is_broken_and_all_listings_are_reached(pages: Pages) -> None:
    bodies = reachable(pages)
    for id in pages.site.ids():
        assert f"/listing/{id}" in bodies
        assert f"/api/visits/{id}" in bodies
    assert "/static/site.css" in bodies


def test_pages_have_the_size_of_real_ones() -> None:
    for size in (25, 30, 75):
        pages = Pages(Site(listings=60, size=size))
        for target in ("/", "/search?city=berlin", "/district/mitte", "/info/terms", "/agent/3"):
            assert 20_000 <= len(pages.answer(target).body) <= 100_000, (size, target)
        sizes = [len(pages.answer(f"/listing/{id}").body) for id in pages.site.ids()]
        assert min(sizes) >= 20_000
        assert max(sizes) <= 100_000
        assert 0.9 < sum(sizes) / len(sizes) / (size * 1000) < 1.2


def test_text_compresses_like_text_not_like_filling(pages: Pages) -> None:
    for target in ("/", "/list/mitte?page=1", "/listing/10007"):
        body = pages.answer(target).body
        assert len(gzip.compress(body)) > len(body) / 6


def test_pages_differ_from_each_other(pages: Pages) -> None:
    bodies = [pages.answer(f"/listing/{id}").body for id in pages.site.ids()]
    assert len(set(bodies)) == len(bodies)
    for one, two in pairwise(bodies[:20]):
        notes = [set(re.findall(rb'class="note" id="(\w+)"', body)) for body in (one, two)]
        assert len(notes[0] & notes[1]) < len(notes[0]) / 2


def test_same_parameters_same_site_in_another_process(pages: Pages) -> None:
    code = (
        "import hashlib, sys; from examples.demo_site import Pages, Site; "
        "p = Pages(Site(listings=300)); "
        "print(hashlib.sha256(b''.join(p.answer(t).body for t in sys.argv[1:])).hexdigest())"
    )
    targets = ["/", "/search?city=berlin", "/listing/10042", "/api/visits/10042", "/info/help"]
    answers = {
        subprocess.run(
            [sys.executable, "-c", code, *targets],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(answers) == 1
    assert list(Site(listings=300).expected_items()) == list(pages.site.expected_items())


def test_numbers_are_the_same_on_every_python() -> None:
    draw = Draw(1, "listing", 10001)
    drawn = [draw.below(1000) for _ in range(12)]
    assert drawn == [54, 257, 216, 388, 947, 241, 857, 449, 324, 275, 615, 357]


def test_other_seed_other_site(pages: Pages) -> None:
    other = list(Site(listings=300, seed=2).expected_items())
    assert all(one != two for one, two in zip(pages.site.expected_items(), other, strict=True))


def test_list_pages_show_every_listing_of_their_district_once(pages: Pages) -> None:
    site = pages.site
    shown: list[int] = []
    for slug in site.districts:
        for number in range(1, site.list_pages(slug) + 1):
            body = pages.answer(f"/list/{slug}?page={number}").body
            results = body[body.index(b'class="results"') : body.index(b"</section>")]
            shown += [int(id) for id in LISTED.findall(results)]
        assert pages.answer(f"/list/{slug}?page={site.list_pages(slug) + 1}").status == 404
    assert sorted(shown) == list(site.ids())


def test_visits_are_json_of_the_item(pages: Pages) -> None:
    for item in pages.site.expected_items():
        page = pages.answer(f"/api/visits/{item['id']}")
        assert page.content_type == "application/json"
        assert json.loads(page.body)["visits"] == item["visits"]


def test_header_and_related_links_repeat(pages: Pages) -> None:
    """Duplicates are normal: most links of a page are on other pages too."""
    bodies = [pages.answer(f"/listing/{id}").body for id in pages.site.ids()]
    links = [link for body in bodies for link in set(HREF.findall(body))]
    assert len(links) > 40 * len(bodies)
    in_pages = [link for link in links if not link.startswith((b"/img/", b"/api/"))]
    assert len(set(in_pages)) < len(in_pages) / 20


@pytest.mark.parametrize(
    "target",
    ["/listing/9999", "/listing/10301", "/api/visits/10301", "/list/atlantis?page=1", "/agent/40",
     "/list/mitte?page=0", "/list/mitte?page=x", "/list/mitte?page=²", "/district/x", "/info/x",
     "/nowhere", "/listing/%F0%9F%8F%A0", "/listing/\u0661"],
)  # fmt: skip
def test_what_does_not_exist_answers_404(pages: Pages, target: str) -> None:
    page = pages.answer(target)
    assert page.status == 404
    assert b"Not found" in page.body


def test_unknown_city_finds_nothing(pages: Pages) -> None:
    page = pages.answer("/search?city=%3Cb%3Eulm")
    assert page.status == 200
    assert b"&lt;b&gt;ulm" in page.body
    assert b"<b>ulm" not in page.body
    assert b'class="districts"' not in page.body


def test_sites_of_any_shape_are_whole() -> None:
    for site in (
        Site(listings=0),
        Site(listings=1),
        Site(listings=41, city="Köln", districts=["Ehrenfeld", "Nippes & Riehl"], page_size=7),
    ):
        pages = Pages(site)
        bodies = reachable(pages)
        wanted = {f"/listing/{id}" for id in site.ids()}
        assert wanted <= bodies.keys()
        crawled = [
            target
            for target in bodies
            if target.startswith(("/search", "/district", "/list", "/api"))
        ]
        assert len(crawled) == site.crawl_pages(), site.city


def test_umlauts_become_plain_letters_in_urls() -> None:
    assert list(Site(districts=["Schöneberg", "Nippes & Riehl"]).districts) == [
        "schoneberg",
        "nippes-riehl",
    ]
    assert len(Site().districts) == len(DISTRICTS)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"listings": -1}, "listings is -1"),
        ({"page_size": 0}, "page_size is 0"),
        ({"size": 10}, "size is 10; give 25 to 200"),
        ({"city": " "}, "city is empty"),
        ({"districts": []}, "districts are"),
        ({"districts": ["Mitte", "mitte"]}, "districts are"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Site(**parameters)  # type: ignore[arg-type]


def test_no_page_of_the_demo_is_taken_for_a_trap() -> None:
    watch = TrapWatch(1)
    bodies = reachable(Pages(Site(listings=600)))
    assert len(bodies) > 600
    assert [
        seen for path, body in bodies.items() if (seen := watch.see(f"http://a{path}", body))
    ] == []
