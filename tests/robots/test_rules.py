"""Permissions of a robots.txt: our own table of rules, with RFC 9309's sentence about each."""

from __future__ import annotations

import pytest

from crawlframe.errors import BadRequest
from crawlframe.robots.rules import (
    ALLOW_ALL,
    MAX_BYTES,
    MAX_LINE,
    Rules,
    origin_of,
    product_token,
    read_text,
)

SITE = "https://a.example"


def rules(text: str | bytes, token: str = "foobot") -> Rules:
    body = text.encode() if isinstance(text, str) else text
    return Rules(SITE, read_text(body, "text/plain").text, token)


ALL = "User-agent: *\nDisallow: /\n"
OURS = "User-agent: foobot\n"


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        # Groups: 2.2.1
        (ALL, "/", False),
        (ALL, "/robots.txt", True),
        (OURS + "Disallow: /\n", "/", False),
        ("USER-AGENT: FooBot\nDISALLOW: /\n", "/", False),
        ("User-agent: barbot\nDisallow: /\n", "/", True),
        (ALL + OURS + "Allow: /\n", "/", True),
        (OURS + "Allow: /\n" + ALL, "/", True),
        (ALL + OURS, "/", True),  # a group without rules still counts
        (OURS + "Disallow: /a\n" + ALL + OURS + "Disallow: /b\n", "/b", False),
        (OURS + "Disallow: /a\n" + ALL + OURS + "Disallow: /b\n", "/a", False),
        (OURS + "Disallow: /a\n" + ALL + OURS + "Disallow: /b\n", "/c", True),
        ("User-agent: barbot\n" + OURS + "Disallow: /\n", "/", False),
        ("Disallow: /\n", "/", True),  # of no crawler
        # Whole names: no prefix, no suffix, no part
        ("User-agent: foo\nDisallow: /\n", "/", True),
        ("User-agent: f\nDisallow: /\n", "/", True),
        ("User-agent: bot\nDisallow: /\n", "/", True),
        ("User-agent: foobot-news\nDisallow: /\n", "/", True),
        ("User-agent: myfoobot\nDisallow: /\n", "/", True),
        ("User-agent: foobot/2.1\nDisallow: /\n", "/", False),
        ("User-agent: foobot other\nDisallow: /\n", "/", False),
        ("User-agent: foobot # hello\nDisallow: /\n", "/", False),
        ("User-agent: * # hello\nDisallow: /\n", "/", False),
        (ALL + "User-agent: foo\nAllow: /\n", "/", False),
        ("User-agent: foobot2\nDisallow: /\n", "/", False),  # a digit ends a name of the RFC
        # Other lines do not end a group: 2.2.4
        (OURS + "Unknown: x\n" + ALL, "/", False),
        (OURS + "Sitemap: https://a.example/s.xml\n" + ALL, "/", False),
        (OURS + "Clean-param: ref /\nDisallow: /\n", "/", False),
        # The longest rule, and of two equal ones the permission: 2.2.2
        (OURS + "Disallow: /\nAllow: /page\n", "/page", True),
        (OURS + "Allow: /page\nDisallow: /\n", "/other", False),
        (OURS + "Disallow: /page/\nAllow: /page\n", "/page/1", False),
        (OURS + "Disallow: /page\nAllow: /page\n", "/page", True),
        (OURS + "Disallow:\n", "/", True),
        # Patterns: 2.2.3
        (OURS + "Disallow: /fish\n", "/fish.html?x=1", False),
        (OURS + "Disallow: /fish\n", "/Fish", True),
        (OURS + "Disallow: /fish\n", "/catfish", True),
        (OURS + "Disallow: /*.php\n", "/a/b.php?x", False),
        (OURS + "Disallow: /*.php$\n", "/a/b.php?x", True),
        (OURS + "Disallow: /*.php$\n", "/a/b.php", False),
        (OURS + "Disallow: /a$\n", "/a/", True),
        (OURS + "Disallow: /*?\n", "/a?b=1", False),
        (OURS + "Disallow: /a#b\n", "/ac", False),  # the rest of the line is a comment
        (OURS + "Disallow: /a*b*c*d*e*f\n", "/a" + "x" * 5000, True),
        # Percent-encoding is compared decoded: 2.2.2
        (OURS + "Disallow: /caf\u00e9\n", "/caf%C3%A9", False),
        (OURS + "Disallow: /caf%C3%A9\n", "/caf\u00e9", False),
        (OURS + "Disallow: /%7Ejoe\n", "/~joe", False),
        (OURS + "Disallow: /%62%61%7A\n", "/baz", False),
        (OURS + "Disallow: /a%2fb\n", "/a/b", True),
        # Forms that are common
        (OURS.strip() + "\r\nDisallow: /\r\n", "/", False),
        (OURS.strip() + "\rDisallow: /\r", "/", False),
        ("user-agent foobot\ndisallow /\n", "/", False),
        ("  User-agent :  foobot  \n  Disallow :  /  \n", "/", False),
        ("Useragent: foobot\nDisalow: /\n", "/", False),
    ],
)
def test_rules(text: str, path: str, allowed: bool) -> None:
    assert rules(text).allows(SITE + path) is allowed


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 10\n", 10),
        (OURS + "Crawl-delay: 2.5\nUser-agent: *\nCrawl-delay: 10\n", 2.5),
        (OURS + "Disallow: /a\nUser-agent: *\nCrawl-delay: 10\n", 0),
        (OURS + "Request-rate: 1/5\n", 5),
        (OURS + "Request-rate: 2/1m\n", 30),
        (OURS + "Crawl-delay: 7\nRequest-rate: 1/5\n", 7),
        (OURS + "Crawl-delay: soon\n", 0),
        (OURS + "Crawl-delay: -1\n", 0),
        (OURS + "Crawl-delay: inf\n", 0),
        (OURS + "Crawl-delay: nan\n", 0),
        (OURS + "Request-rate: 0/5\n", 0),
        (OURS + f"Crawl-delay: 3\nRequest-rate: 1/{'9' * 400}\n", 3),
        ("", 0),
    ],
)
def test_delays(text: str, delay: float) -> None:
    assert rules(text).crawl_delay == delay


def test_sitemaps() -> None:
    text = """
        Sitemap: https://a.example/one.xml
        User-agent: barbot
        Sitemap: https://b.example/two.xml
        Sitemap: /relative.xml
        Sitemap: https://a.example/one.xml
        Sitemap: javascript:alert(1)
    """
    found = rules(text).sitemaps
    assert found == ("https://a.example/one.xml", "https://b.example/two.xml")
    assert ALLOW_ALL.sitemaps == ()


@pytest.mark.parametrize("content_type", ["", "text/plain", "text/plain; charset=utf-8"])
def test_bytes_that_are_no_utf8_are_those_of_the_url(content_type: str) -> None:
    body = b"User-agent: *\nDisallow: /ziel-\xfc\nSitemap: https://a.example/\xfc-\x93\xfa.xml\n"
    text = read_text(body, content_type).text
    assert Rules(SITE, text).sitemaps == ("https://a.example/%FC-%93%FA.xml",)
    found = Rules(SITE, text)
    assert [found.allows(f"{SITE}/ziel-{one}") for one in ("%FC", "%C3%BC")] == [False, True]


def test_they_say_nothing_of_other_origins() -> None:
    for url in ("http://a.example/", "https://b.example/", "https://a.example:8443/"):
        with pytest.raises(BadRequest, match=r"whose robots\.txt this is"):
            rules(ALL).allows(url)
    assert ALLOW_ALL.allows("http://anything.example/")


@pytest.mark.parametrize("charset", ["punycode", "unicode_escape", "utf-7", "no", "replacement"])
def test_a_charset_that_no_page_has_does_not_count(charset: str) -> None:
    body = b"User-agent: *\nDisallow: /\\ud800+2AA-\xff\n-" + b"a" * 300_000  # quadratic
    text = read_text(body, f"text/plain; charset={charset}").text
    assert text.startswith("User-agent: *\nDisallow: /\\ud800+2AA-%FF\n")


def test_only_so_much_is_read() -> None:
    half = read_text(b"Disallow: /aaaa\n" * (MAX_BYTES // 16) + b"Disallow: /bb", "")
    assert half.cut
    assert len(half.text) <= MAX_BYTES
    assert half.text.endswith("/aaaa")
    cut_rule = b"#" * (MAX_BYTES - 20) + b"\nDisallow: /private-and-more"
    assert "private" not in read_text(cut_rule).text, "half a rule is another rule"
    exact = read_text(b"#" * MAX_BYTES)
    assert not exact.cut
    character = b"#" * (MAX_BYTES - 1) + "\u00e9".encode() + b"\n"
    assert "\ufffd" not in read_text(character).text


def test_a_long_line_is_cut() -> None:
    path = "/x/" + "a" * MAX_LINE
    assert not rules(f"{OURS}Disallow: {path}/end\n").allows(f"{SITE}{path}/other")
    assert rules(f"{OURS}Disallow: {path}/end\n").allows(f"{SITE}/fine")


def test_rules_of_a_hostile_file_are_quick() -> None:
    """Neither patterns that could backtrack, nor many groups."""
    text = OURS + "".join(f"Disallow: /*a*a*a*a*a*a*{n}$\n" for n in range(3_000))
    text += "".join(f"User-agent: bot{n}\nDisallow: /\n" for n in range(3_000))
    assert rules(text).allows(f"{SITE}/" + "a" * 2_000)


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("Crawlframe/0.1 (+https://example.org/bot)", "crawlframe"),
        ("my-bot", "my-bot"),
        ("My_Bot/2 Other/3", "my_bot"),
        ("Bot2/1.0", "bot2"),
        ("Mozilla/5.0 (compatible; Foobot/2.1; +https://example.org)", "foobot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", "mozilla"),
        ("  spaced/1", "spaced"),
        ("", "*"),
        ("007/1", "007"),
        ("\u30c4", "*"),
    ],
)
def test_the_product_token(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token


def test_a_name_with_digits() -> None:
    text = "User-agent: 2bot3\nDisallow: /\n"
    assert not rules(text, "2bot3").allows(f"{SITE}/")
    assert rules(text, "2bot4").allows(f"{SITE}/")
    assert rules("User-agent: bot\nDisallow: /\n", "bot2").allows(f"{SITE}/")


def test_a_crawler_without_a_name_has_the_rules_for_all() -> None:
    assert not rules(ALL, "*").allows(f"{SITE}/")
    assert rules("User-agent: foobot\nDisallow: /\n", "*").allows(f"{SITE}/")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://a.example/b?c", "http://a.example"),
        ("https://a.example:8443/", "https://a.example:8443"),
        ("http://user:pass@a.example/", "http://a.example"),
        ("http://[::1]:81/x", "http://[::1]:81"),
        ("http://a.example/x@y", "http://a.example"),
    ],
)
def test_origins(url: str, origin: str) -> None:
    assert origin_of(url) == origin
