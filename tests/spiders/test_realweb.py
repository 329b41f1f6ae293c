"""SiteSpider and wget reach the same pages of a tree with the oddities of real ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.lab.nginx import Nginx
from benchmarks.realweb.charsets import LOCATIONS
from benchmarks.realweb.crawls import Crawl as Seen
from benchmarks.realweb.crawls import seen, wget
from benchmarks.realweb.report import Report, wrong_titles
from spiders.site import SiteSpider
from tests.spiders.driver import AGENT, Crawl

pytestmark = [
    pytest.mark.forks,
    pytest.mark.skipif(
        not shutil.which("wget") or not shutil.which("nginx", path="/usr/sbin:/usr/bin"),
        reason="needs wget and nginx",
    ),
]

FILES: dict[str, str | bytes] = {
    "index.html": "<title>Start</title><a href=dir>d</a><a href='frames.html'>f</a>"
    "<a href='base.html#x'>b</a><a href='sp%20ace.html'>s</a><a href='index.html'>i</a>"
    "<a href='refresh.html'>r</a><a href='data.pdf'>p</a><a href='gone.html'>g</a>"
    "<a href='text.html.ko.euc-kr'>k</a><a href='text.html.de'>de</a><img src=pixel.png>"
    "<a href='latin.html'>l</a><a href='list.html?b=2'>q</a><a href='list.html?a=1&amp;b=2'>q</a>"
    "<!-- <a href='comment.html'>never</a> --><a href='HTTP://127.0.0.1:9/'>other port</a>"
    "<link rel=stylesheet href=style.css><link rel=next href=next.html>",
    "dir/index.html": "<a href='../index.html'>up</a><a href='deep/page.html'>down</a>",
    "dir/deep/page.html": "<a href='../../../../latin.html'>above the root</a>",
    "frames.html": "<frameset><frame src=left.html><frame src=dir/></frameset>",
    "left.html": "<map><area href=area.html></map><iframe src=iframe.html></iframe>",
    "area.html": "<title>Area</title>",
    "iframe.html": "<title>Frame</title>",
    "base.html": "<base href='dir/deep/'><a href=based.html>based</a>",
    "dir/deep/based.html": "<title>Based</title>",
    "refresh.html": "<meta http-equiv=refresh content='0; url=refreshed.html'>",
    "refreshed.html": "<title>Refreshed</title>",
    "next.html": "<p>no title",
    "comment.html": "",
    "sp ace.html": "<title>Space &amp; co</title>",
    "text.html.ko.euc-kr": "<meta charset=euc-kr><title>문서</title>".encode("euc-kr"),
    "text.html.de": "<title>Deutsch</title>",
    "latin.html": "<meta charset=iso-8859-1><title>Über</title>".encode("latin-1"),
    "list.html": "<title>List</title>",
    "data.pdf": b"%PDF-1.4",
    "pixel.png": b"\x89PNG",
    "style.css": "p { background: url(pixel.png) }",
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, Seen, Path]:
    root, work = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("work")
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with Nginx(root, work, locations=LOCATIONS) as nginx:
        theirs = wget(nginx, work)
        items = {item["url"]: item for item in Crawl(SiteSpider, url=nginx.url).items}
        ours = seen(nginx, AGENT, 0, items)
    return theirs, ours, root


def test_wget_and_the_spider_reach_the_same_pages(crawls: tuple[Seen, Seen, Path]) -> None:
    theirs, ours, _ = crawls
    report = Report(theirs, ours)
    assert report.equal, "\n".join(report.lines())
    # "/", "/dir/" and the second list.html are URLs of their own; comment.html is never linked.
    html = sum(".html" in name for name in FILES)
    assert len(theirs.pages) == html - 1 + 2
    assert set(theirs.failures.values()) == set(ours.failures.values()) == {404}


def test_titles_are_read_in_the_charset_of_the_page(crawls: tuple[Seen, Seen, Path]) -> None:
    _, ours, root = crawls
    assert wrong_titles(ours, root) == []
    titles = {item.get("title") for item in ours.items.values()}
    assert {"Über", "문서", "Space & co", None} <= titles


def test_the_report_names_every_difference(crawls: tuple[Seen, Seen, Path]) -> None:
    theirs, ours, _ = crawls
    lost, cut, extra, *_ = sorted(theirs.pages)
    items = {url: item for url, item in ours.items.items() if url != lost}
    items[cut] = {**items[cut], "size": 1}
    report = Report(
        theirs._replace(pages={url: n for url, n in theirs.pages.items() if url != extra}),
        ours._replace(items=items),
    )
    assert not report.equal
    text = "\n".join(report.lines())
    assert f"only wget: 1\n    {lost}  (we fetched it and did not store it)" in text
    assert f"only ours: 1\n    {extra}  (wget never asked for it)" in text
    assert f"another size than wget got: 1\n    {cut}" in text
