"""Rules of aliases: which URLs they make equal, and where."""

from __future__ import annotations

import msgspec
import pytest

from crawlframe.aliases.rule import Aliases, AliasRule
from crawlframe.base.urls import canonical
from crawlframe.request.request import Request
from crawlframe.run.collector import Collector
from crawlframe.run.link_filters import Keep, KnownByRules, KnownFilter, LinkFilter, LinkPage
from crawlframe.run.outcome import Outcome

SITE = "https://shop.example"
ANYWHERE = frozenset({"*?*"})


def rule(kind: str, *names: str, places: set[str] | None = None, **more: str) -> AliasRule:
    found = {"origin": SITE, "kind": kind, "names": names, "places": places or {"*?*"}} | more
    return msgspec.convert(found, AliasRule)


SID = rule("query", "sid")
UTM = rule("query", "utm_medium", "utm_source")
PATH = rule("path", "jsessionid")
INDEX = rule("index", "index.html")
ID = rule("id", "id", path="/item", target="/item/{}.html")
SLASH = rule("slash")
CASE = rule("case")


@pytest.mark.parametrize(
    ("given", "url", "key"),
    [
        (SID, "/a?sid=1", "/a"),
        (SID, "/a?b=2&sid=1&c=", "/a?b=2&c="),
        (SID, "/a?sid=1&sid=2", "/a"),
        (SID, "/a?side=1", "/a?side=1"),
        (SID, "/sid=1", "/sid=1"),
        (UTM, "/a?utm_source=x&q=1", "/a?q=1"),
        (PATH, "/a;jsessionid=0A1B", "/a"),
        (PATH, "/a;jsessionid=0A1B/b;x=1?q=2", "/a/b;x=1?q=2"),
        (PATH, "/a;jsessionids=0A1B", "/a;jsessionids=0A1B"),
        (INDEX, "/index.html", "/"),
        (INDEX, "/a/index.html?q=1", "/a/?q=1"),
        (INDEX, "/a/myindex.html", "/a/myindex.html"),
        (ID, "/item?id=5", "/item/5.html"),
        (ID, "/item?id=5&page=2", "/item/5.html?page=2"),
        (ID, "/items?id=5", "/items?id=5"),
        (ID, "/item?id=", "/item?id="),
        (ID, "/item?id=5&id=6", "/item?id=5&id=6"),
        (ID, "/item?id=a%2Fb", "/item?id=a%2Fb"),
        (ID, "/item?id=..", "/item?id=.."),
        (SLASH, "/a/", "/a"),
        (SLASH, "/", "/"),
        (CASE, "/A/b?Q=X", "/a/b?Q=X"),
    ],
)
def test_keys(given: AliasRule, url: str, key: str) -> None:
    assert Aliases([given]).key(canonical(SITE + url)) == SITE + key


def test_rules_are_applied_together_and_only_at_their_origin() -> None:
    aliases = Aliases([SLASH, INDEX, SID, ID])
    assert aliases.key(f"{SITE}/a/index.html?sid=1") == f"{SITE}/a"
    assert aliases.key(f"{SITE}/item?id=5&sid=1") == f"{SITE}/item/5.html"
    for other in ("http://shop.example", "https://shop.example:8443", "https://www.shop.example"):
        assert aliases.find(f"{other}/a/index.html?sid=1") is None


def test_a_rule_holds_only_where_it_was_seen_to() -> None:
    sort = rule("sort", "sort", places={"list?", "tag0?", "*?q"})
    key = Aliases([sort]).key
    assert key(f"{SITE}/list/1?sort=a") == f"{SITE}/list/1"
    assert key(f"{SITE}/tag77?sort=a") == f"{SITE}/tag77"
    assert key(f"{SITE}/search?q=1&sort=a") == f"{SITE}/search?q=1"
    for url in ("/list/1?page=2&sort=a", "/other?sort=a", "/list2?sort=a"):
        assert key(SITE + url) == SITE + url


def test_what_is_ignored_makes_no_other_place() -> None:
    sort = rule("sort", "sort", places={"list?sid"})
    url = f"{SITE}/list?sid=1&sort=a"
    assert Aliases([sort, SID]).key(url) == f"{SITE}/list"
    assert Aliases([sort, SID]).key(f"{SITE}/list?sort=a") == f"{SITE}/list"
    # The rule of sid was revoked: each session is a page of its own again.
    assert Aliases([sort]).key(f"{SITE}/list?sort=a") == f"{SITE}/list?sort=a"
    assert Aliases([sort]).key(url) == f"{SITE}/list?sid=1"


def test_a_rule_is_stored_as_json() -> None:
    stored = msgspec.json.encode(ID)
    assert msgspec.json.decode(stored, type=AliasRule) == ID


def test_only_plain_requests_are_known_by_rules() -> None:
    known = KnownByRules([SID], lambda line: None)
    url = f"{SITE}/a?sid=1"
    found = known.find(Request(url))
    assert found is not None
    assert (found.key, found.rule) == (f"{SITE}/a", SID)
    assert known.find(Request(url, dont_filter=True)) is None
    assert known.find(Request(url, method="POST")) is None
    assert known.find(Request(url, body=b"x", method="GET")) is None
    assert known.find(Request(f"{SITE}/a")) is None


def test_the_log_names_some_links_of_each_rule() -> None:
    said: list[str] = []
    known = KnownByRules([SID, UTM], said.append)
    for name in ("sid", "utm_source"):
        for n in range(10):
            request = Request(f"{SITE}/a?{name}={n}")
            found = known.find(request)
            assert found is not None
            known.tell(found, request.url)
    assert len(said) == 6
    assert said[0] == (
        f"{SITE}/a?sid=0 is not fetched: it is {SITE}/a by the rule of {SITE}: ignore sid"
    )


def test_an_alias_that_is_too_long_hides_no_page() -> None:
    """Its page is fetched by the next URL of it, on the same page, too."""

    class TooLong:
        def of_page(self, page: LinkPage) -> Keep:
            return lambda link: "url_length" if len(link.request.url) > 100 else None

    outcome = Outcome(b"r" * 16, 1, "h", b"", 0, 0)
    filters: list[LinkFilter] = [KnownByRules([SID], lambda line: None), KnownFilter(), TooLong()]
    collector = Collector(LinkPage(outcome, depth=1), filters)
    for query in (f"?sid={'0' * 100}", "?sid=1", "", f"?sid={'1' * 100}"):
        collector.take(Request(f"{SITE}/a{query}"))
    assert [Request.decode(one.record).url for one in outcome.results.follow_ups] == [
        f"{SITE}/a?sid=1"
    ]
