"""BroadSpider: its seeds from a file, and its items of a page. No server."""

from __future__ import annotations

import logging
import os
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from crawlframe.errors import ArgumentError, BadRequest
from crawlframe.spider.spider import build, describe
from crawlframe.testing import make_response, run
from spiders import broad
from spiders.broad import BAD_SEEDS, MOST_REPORTED, BroadSpider, seed_url
from tests.howto import spider_of

PARAGRAPH = "The river rises in the hills, and turns the wheels of eleven mills before the town. "
PAGE = f"""<!DOCTYPE html><html lang=en-GB><head><title> Mills of
 the river </title><meta name=robots content="noai"></head><body>
<nav><a href=/>Home</a></nav><article><h1>Mills of the river</h1>
{"".join(f"<p>{PARAGRAPH * 4} {n}</p>" for n in range(6))}
<p><a href=/second>Second</a> <a href="https://b.example/x?y=1">B</a> <a href=/a.PNG>Picture</a>
<a href="mailto:a@b.example">Write</a> <a href=/second#part>Again</a></p></article>
<a rel="nofollow LICENSE" href=/terms>Terms</a><link rel=license href="//cc.example/by">
<a rel=license href="mailto:a@b">No</a></body></html>"""

MODULES = {name: one for name, one in sys.modules.items() if name.partition(".")[0] == "spiders"}


@pytest.fixture(autouse=True)
def the_same_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test may have had them imported again, as a reload does."""
    for name, module in MODULES.items():
        monkeypatch.setitem(sys.modules, name, module)


def seeds(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def started(path: str) -> tuple[list[str], int]:
    result = run(BroadSpider, arguments={"seeds": path})
    assert result.end == "done", result.detail
    return [request.url for request in result.requests], result.stats.get(BAD_SEEDS, 0)


def test_seeds_are_urls_and_domains_and_bad_lines_cost_only_themselves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = seeds(
        tmp_path / "seeds.txt",
        b"\xef\xbb\xbf# sites\n\nhttps://a.example/x#part   # a comment\r\n  b.example\n"
        b"1,c.example\nftp://d.example/\nhttp://[\nC\xc3\xbc.example:81/p?q\nnot-a-domain\n"
        b"http://e.example/\xff\nhttp://f.example/ http://g.example/\nhttp://127.0.0.1:8/h.example",
    )
    with caplog.at_level(logging.WARNING):
        urls, bad = started(path)
    assert urls == [
        "https://a.example/x",
        "https://b.example/",
        "https://xn--c-eha.example:81/p?q",
        "http://127.0.0.1:8/h.example",
    ]
    assert bad == 6
    told = [record.getMessage() for record in caplog.records]
    assert [int(text.partition("line ")[2].partition(" ")[0]) for text in told] == [
        5, 6, 7, 9, 10, 11,
    ]  # fmt: skip
    assert all(path in text and "is neither a URL nor a domain" in text for text in told)
    # A submitter may name any file of the node, and read the log.
    assert not any(word in text for text in told for word in ("1,c", "d.example", "not-a-domain"))


def test_the_log_has_the_first_bad_lines_and_the_number_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = seeds(tmp_path / "seeds.txt", "?\n" * (MOST_REPORTED + 7) + "a.example\n")
    with caplog.at_level(logging.WARNING):
        assert started(path) == (["https://a.example/"], MOST_REPORTED + 7)
    assert len(caplog.records) == MOST_REPORTED + 1
    assert "7 more lines are wrong" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("text", ["", "# nothing\n\n", "?\n"])
def test_a_file_without_a_site_is_an_error(tmp_path: Path, text: str) -> None:
    path = seeds(tmp_path / "seeds.txt", text)
    problem = f"{path} names no site, and {text.count('?')} of its lines are wrong"
    with pytest.raises(ArgumentError, match=problem):
        run(BroadSpider, arguments={"seeds": path})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    for path in (tmp_path / "none.txt", tmp_path, pipe, "/dev/zero"):
        with pytest.raises(ArgumentError, match=f"seeds: {path} cannot be read .*absolute path"):
            run(BroadSpider, arguments={"seeds": str(path)})
    with pytest.raises(ArgumentError, match=r"seeds: 'a\\x00b' cannot be read"):
        run(BroadSpider, arguments={"seeds": "a\0b"})


@pytest.mark.parametrize("text", ["article", "fast", "none"])
def test_a_package_that_is_missing_is_noticed_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    arguments = {"seeds": seeds(tmp_path / "seeds.txt", "a.example"), "text": text}
    monkeypatch.setattr(broad, "find_spec", lambda name: None)
    if text == "none":
        assert len(run(BroadSpider, arguments=arguments).requests) == 1
    else:
        with pytest.raises(ArgumentError, match=rf"{text} needs .*crawlframe\[text\]"):
            run(BroadSpider, arguments=arguments)


@pytest.mark.slow
def test_a_long_file_is_never_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    with path.open("w") as file:
        file.writelines(f"host-{n:050}.example\n" for n in range(20_000))  # 1.3 MB
    spider, start = build(BroadSpider, {"seeds": str(path)})
    requests = spider.start(**start)
    next(requests)
    tracemalloc.start()
    try:
        assert sum(1 for _ in requests) == 19_999
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("seed", ["mailto:a@b.example", "//a.example/", "a b.example", "example"])
def test_what_is_no_seed(seed: str) -> None:
    with pytest.raises(BadRequest):
        seed_url(seed)


def test_an_item_has_what_the_page_says() -> None:
    result = run(BroadSpider, make_response("https://a.example/first", html=PAGE), arguments=SEEDS)
    (item,) = result.items
    text, links = item.pop("text"), item.pop("links")
    assert text.count("eleven mills") == 24
    assert "Home" not in text
    assert item == {
        "url": "https://a.example/first",
        "title": "Mills of the river",
        "language": "en",
        "usage": {"ai-train": "no", "said": [["meta robots", "noai"]]},
        "licenses": ["https://a.example/terms", "https://cc.example/by"],
    }
    assert links == [
        "https://a.example/", "https://a.example/second", "https://b.example/x?y=1",
        "https://a.example/a.PNG", "https://a.example/terms",
    ]  # fmt: skip
    followed = [request.url for request in result.requests]
    assert followed == [link for link in links if not link.endswith(".PNG")]


SEEDS = {"seeds": "seeds.txt"}


@pytest.mark.parametrize(("text", "least"), [("fast", 24), ("none", 0)])
def test_a_faster_text_or_none(text: str, least: int) -> None:
    page = make_response("https://a.example/first", html=PAGE)
    (item,) = run(BroadSpider, page, arguments={**SEEDS, "text": text}).items
    assert (item["title"], item["language"]) == ("Mills of the river", "en")
    assert (item["text"] or "").count("eleven mills") == least


def test_within_the_hosts_of_pages() -> None:
    page = make_response(
        "https://www.a.example/", html="<a href=//a.example/1></a><a href=//b.a.example/></a>"
    )
    result = run(BroadSpider, page, arguments={**SEEDS, "across": False})
    assert [request.url for request in result.requests] == ["https://a.example/1"]


def test_what_is_no_page_is_counted() -> None:
    result = run(BroadSpider, make_response(json={}), arguments=SEEDS)
    assert (result.items, result.requests) == ([], [])
    assert result.stats == {"not HTML: json": 1}


def test_its_description_and_settings_are_valid() -> None:
    described = describe(BroadSpider)
    assert described.name == "broad"


def test_seeds_from_a_table(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Sites:
        """A queryset."""

        def __init__(self, **chosen: str) -> None:
            assert chosen == {"country": "de"}

        def order_by(self, name: str) -> Sites:
            return self

        async def aiterator(self) -> AsyncIterator[SimpleNamespace]:
            for pk, domain in enumerate(("a.example", "no site", "http://b.example/x")):
                yield SimpleNamespace(pk=pk, domain=domain)

    site = SimpleNamespace(objects=SimpleNamespace(filter=Sites))
    monkeypatch.setitem(sys.modules, "customers", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "customers.models", SimpleNamespace(Site=site))
    spider = spider_of("howto/broad.md", "our_sites")
    assert issubclass(spider, BroadSpider)
    result = run(spider, arguments={"country": "de"})
    assert [one.url for one in result.requests] == ["https://a.example/", "http://b.example/x"]
    assert "site 1: 'no site' has spaces" in caplog.text
    (item,) = run(spider, make_response(html=PAGE), arguments={"country": "de"}).items
    assert item["title"] == "Mills of the river"
