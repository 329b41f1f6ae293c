"""Declared uses of pages: headers, meta elements, content signals and reservations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawlframe.robots.rules import Rules
from crawlframe.robots.signals import NO_SIGNALS, read_preferences, read_signals
from crawlframe.robots.tdmrep import Reservation
from crawlframe.robots.usage import (
    ABOUT,
    MAX_HEAD,
    MAX_METAS,
    MAX_SAID,
    MAX_STATEMENT,
    Usage,
    read_usage,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)
HTML = ("Content-Type", "text/html; charset=utf-8")


def usage_of(
    *headers: tuple[str, str],
    body: bytes = b"",
    signals: Any = NO_SIGNALS,
    token: str = "newsbot",
    reservation: Reservation | None = None,
) -> Usage | None:
    fields = CIMultiDictProxy(CIMultiDict([*headers]))
    return read_usage(fields, body, token, signals, reservation, NOW)


def verdict(usage: Usage | None) -> str:
    """Denied words with a minus, allowed ones with a plus, in the order of ABOUT."""
    if usage is None:
        return ""
    assert usage.allows.keys() <= {*ABOUT}
    allows = usage.allows
    return " ".join(("+" if allows[one] else "-") + one for one in ABOUT if one in allows)


NEVER, BOTH = "-index", "-index -follow"
RESERVED = "-ai-input -ai-train -tdm"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["noindex"], NEVER),
        (["NOINDEX, NoFollow"], BOTH),
        (["none"], BOTH),
        (["all"], "+index +follow"),
        (["index, nofollow"], "+index -follow"),
        (["noindex, index"], NEVER),
        (["noindex", "nofollow"], BOTH),
        (["index", "noindex"], NEVER),
        (["nosnippet, noarchive"], ""),
        (["max-snippet:20, noindex"], NEVER),
        (["max-image-preview:large"], ""),
        (["newsbot: noindex"], NEVER),
        (["NewsBot: noindex, nofollow"], BOTH),
        (["googlebot: noindex"], ""),
        (["googlebot: noindex", "newsbot: nofollow"], "-follow"),
        (["googlebot: noindex, nofollow"], ""),
        (["googlebot: noindex, newsbot: nofollow"], "-follow"),
        (["nofollow, googlebot: noindex"], "-follow"),
        (["newsbot2: noindex"], ""),
        (["*: noindex"], NEVER),
        (["newsbot: , noindex"], NEVER),
        (["noai, noimageai"], "-ai-train"),
        (["unavailable_after: 25 Jun 2026 15:00:00 GMT"], NEVER),
        (["unavailable_after: Thu, 25 Jun 2026 15:00:00 GMT, nofollow"], "-index -follow"),
        (["unavailable_after: Thursday, 25-Jun-26 15:00:00 UTC"], NEVER),
        (["unavailable_after: 2026-06-25"], NEVER),
        (["unavailable_after: 2027-06-25"], ""),
        (["unavailable_after: soon"], ""),
        ([""], ""),
        ([",,;:"], ""),
    ],
)
def test_the_header_of_robots(values: list[str], expected: str) -> None:
    assert verdict(usage_of(*(("X-Robots-Tag", value) for value in values))) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'<meta name="robots" content="noindex">', NEVER),
        (b"<META NAME='ROBOTS' CONTENT='NOINDEX,NOFOLLOW'>", BOTH),
        (b"<meta name=robots content=noindex>", NEVER),
        (b'<meta content="none" name="robots"/>', BOTH),
        (b'<meta name = "robots" content = "noindex">', NEVER),
        (b'<meta\n name="robots"\n content="noindex,\n nofollow">', BOTH),
        (b'<meta name="newsbot" content="noindex">', NEVER),
        (b'<meta name="NewsBot" content="nofollow">', "-follow"),
        (b'<meta name="googlebot" content="noindex">', ""),
        (b'<meta name="robots" content="index"><meta name="newsbot" content="noindex">', NEVER),
        (b'<meta name="robots" content="noindex"><meta name="robots" content="follow">',
         "-index +follow"),
        (b'<!-- <meta name="robots" content="noindex"> -->', ""),
        (b'<!-- a > b --><meta name="robots" content="noindex">', NEVER),
        (b'<!--><meta name="robots" content="noindex">', NEVER),
        (b"<script>'<meta name=\"robots\" content=\"noindex\">'</script>", ""),
        (b'<SCRIPT></script><meta name="robots" content="noindex">', NEVER),
        (b'<title><meta name="robots" content="noindex"></title>', ""),
        (b'<meta name="description" content="a > b"><meta name="robots" content="none">', BOTH),
        (b'<meta property="og:x" content="name=robots noindex">', ""),
        (b'<meta name="robots">', ""),
        (b'<meta name="robots" content="no&#105;ndex">', NEVER),
        (b'<meta name="robots" name="x" content="noindex">', NEVER),
        (b'</head><body><meta name="robots" content="noindex">', ""),
        (b'<meta name="tdm-reservation" content="1">', RESERVED),
        (b'<meta name="tdm-reservation" content="0">', "+tdm"),
        (b'<meta name="tdm-reservation" content="yes">', ""),
        (b'<meta name="tdm-policy" content="https://a.example/p.json">', ""),
    ],
)  # fmt: skip
def test_meta_elements(head: bytes, expected: str) -> None:
    assert verdict(usage_of(HTML, body=b"<!doctype html><head>" + head)) == expected


@pytest.mark.parametrize(
    ("headers", "head", "expected"),
    [
        ([("Content-Signal", "search=yes, ai-train=no")], b"", "+search -ai-train"),
        ([("content-signal", "AI-Train = NO,ai-input=yes")], b"", "+ai-input -ai-train"),
        ([("Content-Signal", "ai-train=no"), ("Content-Signal", "ai-train=yes")], b"", "-ai-train"),
        ([("Content-Signal", "ai-train=maybe, ai_train=no, =no, train")], b"", ""),
        ([("tdm-reservation", "1")], b"", RESERVED),
        ([("TDM-Reservation", " 0 ")], b"", "+tdm"),
        ([("tdm-reservation", "2")], b"", ""),
        ([("tdm-reservation", "0"), ("tdm-reservation", "1")], b"", RESERVED),
        ([("tdm-reservation", "1")], b'<meta name="tdm-reservation" content="0">', "+tdm"),
        ([("tdm-reservation", "0")], b'<meta name="tdm-reservation" content="1">', RESERVED),
        ([("tdm-reservation", "1"), ("Content-Signal", "ai-train=yes")], b"", RESERVED),
        ([("X-Robots-Tag", "noindex")], b"<meta name=robots content=nofollow>", BOTH),
    ],
)
def test_other_headers(headers: list[tuple[str, str]], head: bytes, expected: str) -> None:
    assert verdict(usage_of(HTML, *headers, body=head)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /", "+search -ai-train"),
        ("User-Agent: *\nAllow: /\ncontent-signal:ai-train=no # not that", "-ai-train"),
        ("User-agent: *\nContent-Signal: ai-train=no\n\nUser-agent: newsbot\nAllow: /", ""),
        ("User-agent: newsbot\nContent-Signal: ai-input=no\n\nUser-agent: *\nContent-Signal: "
         "ai-train=no", "-ai-input"),
        ("User-agent: otherbot\nUser-agent: newsbot/2.1\nContent-Signal: search=no", "-search"),
        ("User-agent: newsbot\nContent-Signal: search=no\nUser-agent: otherbot\nContent-Signal: "
         "ai-train=no", "-search"),
        ("User-agent: newsbot\nAllow: /\nUser-agent: a\nAllow: /\nUser-agent: newsbot\n"
         "Content-Signal: ai-train=no", "-ai-train"),
        ("User-agent: newsbot\nSitemap: http://a.example/s\nUser-agent: b\nContent-Signal: "
         "search=no", "-search"),
        ("Content-Signal: ai-train=no\nUser-agent: *\nAllow: /", ""),
        ("# Content-Signal: ai-train=no\nUser-agent: *", ""),
        ("User-agent: *\nContent-Signal: ai-train=yes\nContent-Signal: ai-train=no", "-ai-train"),
    ],
)  # fmt: skip
def test_content_signals_of_robots_txt(text: str, expected: str) -> None:
    rules = Rules("http://a.example", text, "newsbot")
    assert verdict(usage_of(signals=rules.signals("http://a.example/x"))) == expected
    if "Allow" in text:
        assert rules.allows("http://a.example/x")


def test_a_page_without_a_declaration_has_none() -> None:
    assert usage_of() is None
    assert usage_of(HTML, body=b"<title>robots</title><p class=robots>robots") is None
    assert usage_of(("X-Robots-Tag", "googlebot: noindex")) is None


def test_only_html_is_searched() -> None:
    body = b"<meta name=robots content=noindex>"
    for kind in ("text/html", "TEXT/HTML", "application/xhtml+xml"):
        assert verdict(usage_of(("Content-Type", kind), body=body)) == NEVER
    assert verdict(usage_of(body=body)) == NEVER, "no Content-Type"
    assert usage_of(("Content-Type", "text/plain"), body=body) is None
    assert usage_of(("Content-Type", "application/pdf"), body=body) is None


def test_a_crawler_without_a_name_hears_what_is_for_all() -> None:
    tag = ("X-Robots-Tag", "noindex, newsbot: nofollow")
    assert verdict(usage_of(HTML, tag, body=b"<meta name=* content=x>", token="*")) == NEVER


def test_it_is_recorded_in_words() -> None:
    usage = usage_of(
        HTML,
        ("X-Robots-Tag", "noindex,  max-snippet:0"),
        ("X-Robots-Tag", "googlebot: nofollow"),
        ("tdm-reservation", "1"),
        ("tdm-policy", "https://a.example/policy.json"),
        body=b"<meta name=newsbot content='Index'>",
        signals={"search": True},
    )
    assert usage is not None
    assert usage.denies("index")
    assert not usage.denies("search")
    assert not usage.denies("follow")
    assert usage.as_json() == {
        "search": "yes",
        "ai-input": "no",
        "ai-train": "no",
        "tdm": "no",
        "index": "no",
        "said": [
            ["robots.txt", "search=yes"],
            ["X-Robots-Tag", "noindex, max-snippet:0"],
            ["tdm-reservation", "1"],
            ["tdm-policy", "https://a.example/policy.json"],
            ["meta newsbot", "index"],
        ],
    }


def test_the_record_is_bounded() -> None:
    long = ("X-Robots-Tag", "max-snippet:1, " * 1000 + "noindex")
    usage = usage_of(*[long] * 50, ("X-Robots-Tag", "nofollow"))
    assert usage is not None
    assert len(usage.said) == MAX_SAID
    assert {len(text) for _, text in usage.said} == {MAX_STATEMENT}
    assert verdict(usage) == BOTH, "all of it counts"


def test_the_record_can_be_stored() -> None:
    usage = usage_of(("tdm-policy", "a\0b\udce9\n c"))
    assert usage is not None
    assert usage.said == (("tdm-policy", "a b? c"),)


def test_a_head_is_read_up_to_a_limit() -> None:
    tag = b"<meta name=robots content=noindex>"
    assert verdict(usage_of(HTML, body=b" " * (MAX_HEAD - len(tag)) + tag)) == NEVER
    assert usage_of(HTML, body=b" " * MAX_HEAD + tag) is None
    some = b"<meta a=robots>" * MAX_METAS
    assert usage_of(HTML, body=some + tag) is None
    assert verdict(usage_of(HTML, body=some[15:] + tag)) == NEVER


@pytest.mark.parametrize(
    "piece", [b'<meta "', b"<meta a='", b"<!--", b"<script", b"<meta name=robots ", b"=", b"<meta"]
)
def test_hostile_heads_end(piece: bytes) -> None:
    usage_of(HTML, body=b"=robots" + piece * (MAX_HEAD // len(piece)))


def test_signals() -> None:
    assert read_signals("search=yes,ai-train=no,search=no") == {"search": False, "ai-train": False}
    assert read_signals("") == {}


@pytest.mark.parametrize(
    ("reserved", "headers", "expected"),
    [
        (True, [], RESERVED),
        (False, [], "+tdm"),
        (True, [("tdm-reservation", "0")], "+tdm"),
        (False, [("tdm-reservation", "1")], RESERVED),
    ],
)
def test_a_header_counts_before_the_file(
    reserved: bool, headers: list[tuple[str, str]], expected: str
) -> None:
    said = Reservation(reserved, "https://a.example/p")
    usage = usage_of(*headers, reservation=said)
    assert verdict(usage) == expected
    assert usage is not None
    assert usage.said[:2] == (
        ("tdmrep.json", str(int(reserved))),
        ("tdmrep.json policy", "https://a.example/p"),
    )


# -- AI preferences of the IETF --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train-ai=n", "-ai-train"),
        ("  train-ai=y, search=n  ", "+ai-train -search"),
        ("ai-use=n", "-ai-input"),
        ("bots=n", "-search -ai-input -ai-train"),
        ("bots=n, search=y", "+search -ai-input -ai-train"),
        ("train-ai=n, bots=y", "+search +ai-input -ai-train"),
        ("train-genai=n, train-ai=y", "-ai-train"),
        ("train-genai=n", "-ai-train"),
        ("train-genai=y", ""),
        ("train-ai=n, train-ai=y", "+ai-train"),
        ('train-ai=y, train-ai, search=n, search="n"', ""),
        ("train-ai;allow=n, train-ai=y", "+ai-train"),
        ('train-ai;has;parameters="?", search=n', "-search"),
        ('x="a, train-ai=y; \\"", train-ai=n;p=1.5;q=:aGk=:;r=?1;s=@-1;t=%"%c3%a4"', "-ai-train"),
        ('list=(a b;x=1 "c, d");y, train-ai=n', "-ai-train"),
        ("other=y,\ttrain-ai=n", "-ai-train"),
        ("*a.b_c-9=1, train-ai=n", "-ai-train"),
        ("train-ai=N", ""),
        ("train-ai=yes", ""),
        ("train-ai=?0", ""),
        # No dictionaries: all is unknown.
        ("Train-AI=n", ""),
        ("train-ai=n,", ""),
        ("train-ai=n search=n", ""),
        ("train-ai=n, =y", ""),
        ("train-ai=n, search=", ""),
        ("train-ai = n", ""),
        ('train-ai=n, x="open', ""),
        ("train-ai=n, x=1.2345", ""),
        ("train-ai=n, x=(a b", ""),
        ("train-ai=n, x=\u00e4", ""),
        ("", ""),
    ],
)
def test_preferences_are_read_as_a_structured_field(text: str, expected: str) -> None:
    said = read_preferences(text)
    assert {f"{'+' if yes else '-'}{use}" for use, yes in said.items()} == {*expected.split()}
    header = usage_of(("Content-Usage", text))
    assert (header.allows if header else {}) == said


def test_headers_are_one_field_and_the_strictest_source_counts() -> None:
    assert verdict(usage_of(("Content-Usage", "search=y"), ("Content-Usage", "train-ai=n"))) == (
        "+search -ai-train"
    )
    usage = usage_of(("Content-Usage", "train-ai=y"), signals={"ai-train": False})
    assert verdict(usage) == "-ai-train"
    usage = usage_of(("Content-Usage", "train-ai=n"), ("Content-Signal", "ai-train=yes"))
    assert verdict(usage) == "-ai-train"


DRAFT = """User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""
PATHS = """User-agent: newsbot
content-usage : /a train-ai=n#x
Content-Usage:\t/a/b\ttrain-ai=y
Content-Usage: /a/b/* search=n
Content-Usage: /*.pdf$ train-ai=n
Content-Usage: /same train-ai=y
Content-Usage: /same train-ai=n
Content-Usage: /ö%7e train-ai=n
Content-Usage: /odd Train-AI=n
Content-Signal: /a search=yes
Content-Signal: ai-input=no
Disallow: /b
"""


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (DRAFT, "/test", "-ai-train"),
        (DRAFT, "/ai-ok/test", "+ai-train"),
        (DRAFT.replace("ExampleBot", "newsbot"), "/test", "+ai-train"),
        (PATHS, "/", "-ai-input"),
        (PATHS, "/a", "+search -ai-train"),
        (PATHS, "/abc", "+search -ai-train"),
        (PATHS, "/a/b", "+search +ai-train"),
        (PATHS, "/a/b/c", "-search"),
        (PATHS, "/x/y.pdf", "-ai-input -ai-train"),
        (PATHS, "/x/y.pdf?z", "-ai-input"),
        (PATHS, "/same", "-ai-input -ai-train"),
        (PATHS, "/%c3%b6~", "-ai-input -ai-train"),
        (PATHS, "/odd", "-ai-input"),
    ],
)
def test_lines_of_robots_txt_count_for_their_paths(text: str, path: str, expected: str) -> None:
    rules = Rules("http://a.example", text, "newsbot")
    assert verdict(usage_of(signals=rules.signals(f"http://a.example{path}"))) == expected


def test_licenses_are_recorded() -> None:
    text = "License: https://a.example/l.xml\nUser-agent: *\nDisallow: /x\nlicense:/no # relative\n"
    rules = Rules("http://a.example", text, "newsbot")
    assert rules.licenses == ("https://a.example/l.xml",)
    link = '</style.css>; rel=preload, </own;v=1.xml>; rel="license"; type="application/rsl+xml"'
    fields = CIMultiDictProxy(CIMultiDict({"Link": link}))
    usage = read_usage(fields, b"", "newsbot", licenses=rules.licenses)
    assert usage is not None
    assert usage.said == (
        ("robots.txt License", "https://a.example/l.xml"), ("Link license", "/own;v=1.xml")
    )  # fmt: skip
    assert usage.allows == {}
    assert usage_of(("Link", "</style.css>; rel=preload")) is None
