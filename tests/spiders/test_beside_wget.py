"""SiteSpider and wget reach the same pages of a tree with the oddities of real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest

from benchmarks.lab.nginx import Nginx
from crawlframe.base.urls import normalise
from spiders.site import SiteSpider
from tests.spiders.driver import AGENT, Crawl

pytestmark = [
    pytest.mark.forks,
    pytest.mark.skipif(
        not shutil.which("wget") or not shutil.which("nginx", path="/usr/sbin:/usr/bin"),
        reason="needs wget and nginx",
    ),
]

WGET = (
    "wget", "--recursive", "--level=inf", "--execute=robots=off", "--no-proxy", "--tries=1",
    "--timeout=30", "--quiet", "--delete-after", "--no-config", "--user-agent=wget",
)  # fmt: skip
# Names of manuals contain language and charset, as Apache's MultiViews reads them.
LOCATIONS = """
    location ~* "\\.html.*\\.euc-kr$" { types { } default_type text/html; charset euc-kr; }
    location ~* "\\.html\\.[a-z-]+$" { types { } default_type text/html; }
"""
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


Pages = tuple[dict[str, int], set[int]]  # bytes by URL, and the statuses of failures


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pages, Pages, list[dict[str, Any]]]:
    root, work = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("work")
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with Nginx(root, work, locations=LOCATIONS) as nginx:
        command = [*WGET, f"--directory-prefix={work / 'wget'}", nginx.url]
        # It exits with 8 because a link is broken.
        subprocess.run(command, env={**os.environ, "LC_ALL": "C.UTF-8"}, check=False)
        items = Crawl(SiteSpider, url=nginx.url).items
        return pages(nginx, "wget"), pages(nginx, AGENT), items


def pages(nginx: Nginx, agent: str) -> Pages:
    hits = nginx.hits(agent)
    found = {
        normalise(nginx.url.rstrip("/") + hit.uri): hit.bytes
        for hit in hits
        if hit.status == 200 and hit.type == "text/html"
    }
    return found, {hit.status for hit in hits if hit.status >= 400}


def test_wget_and_the_spider_reach_the_same_pages(
    crawls: tuple[Pages, Pages, list[dict[str, Any]]],
) -> None:
    theirs, ours, items = crawls
    assert theirs == ours
    stored = [item for item in items if item["content_type"] == "text/html"]
    assert {item["url"]: item["size"] for item in stored} == ours[0]
    assert len(stored) == len(ours[0]), "each is stored once"
    # "/", "/dir/" and the second list.html are URLs of their own; comment.html is never linked.
    assert len(ours[0]) == sum(".html" in name for name in FILES) - 1 + 2
    assert ours[1] == {404}


def test_titles_are_read_in_the_charset_of_the_page(
    crawls: tuple[Pages, Pages, list[dict[str, Any]]],
) -> None:
    titles = {item.get("title") for item in crawls[2]}
    expected = {"Start", "Area", "Frame", "Based", "Refreshed", "List", "Space & co", "Deutsch"}
    assert titles == {*expected, "Über", "문서", None}
