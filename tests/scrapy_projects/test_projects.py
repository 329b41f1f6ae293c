"""The lists of public projects and crawls that the command benchmarks.scrapy_projects reads."""

from __future__ import annotations

from pathlib import Path

from benchmarks.scrapy_projects.pages import Pages
from benchmarks.scrapy_projects.projects import crawls, projects


def test_crawls_are_of_projects_that_are_listed() -> None:
    known = {one.name for one in projects()}
    assert {one.project for one in crawls()} <= known
    assert len({(one.project, one.spider) for one in crawls()}) == len(crawls()) >= 30
    assert len({one.kind for one in crawls()}) >= 10


def test_pages_are_found_by_method_url_and_pattern(tmp_path: Path) -> None:
    (tmp_path / "saved.html").write_text("saved")
    pages = Pages(
        {
            "http://a.example/*?page=1": "first",
            "http://a.example/*": {"file": "saved.html"},
            "POST http://a.example/": {"json": [1], "status": 201},
        },
        tmp_path,
    )
    assert pages.at("GET", "http://a.example/list?page=1").body == b"first"
    assert pages.at("GET", "http://a.example/x").body == b"saved"
    posted = pages.at("POST", "http://a.example/")
    assert (posted.status, posted.body) == (201, b"[1]")
    assert pages.at("GET", "http://b.example/robots.txt").status == 200
    assert pages.at("GET", "http://b.example/").status == 404
