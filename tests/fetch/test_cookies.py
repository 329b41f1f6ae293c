"""The cookies of a task, and how they travel between processes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from crawlframe.base.urls import hostname_of
from crawlframe.errors import BadRequest
from crawlframe.fetch.journey.cookies import MAX_COOKIES, MAX_HEADER, MAX_PER_DOMAIN, TaskCookies
from crawlframe.fetch.journey.set_cookie import _time_of

URL = "https://www.example.com/shop/cart"


def cookies_at(jar: TaskCookies, url: str) -> set[str]:
    return set(filter(None, (jar.header_for(url) or "").split("; ")))


def test_empty_jar_sends_nothing() -> None:
    jar = TaskCookies()
    assert jar.header_for(URL) is None
    assert jar.changes() == {}
    assert jar.dump() == {}


def test_domain_path_and_secure_are_kept_to() -> None:
    jar = TaskCookies()
    given = ["host=1", "all=2; Domain=example.com; Path=/", "safe=3; Secure; Path=/", "deep=4"]
    jar.absorb(URL, [*given[:3], f"{given[3]}; Path=/shop"])
    everything = {"host=1", "all=2", "safe=3", "deep=4"}
    assert cookies_at(jar, "https://www.example.com/shop/x") == everything
    assert cookies_at(jar, "http://www.example.com/") == {"all=2"}
    assert cookies_at(jar, "https://sub.example.com/shop/") == {"all=2"}
    assert cookies_at(jar, "https://other.com/") == set()


def test_cookies_for_other_domains_are_not_taken() -> None:
    jar = TaskCookies()
    assert not jar.absorb(URL, ["a=1; Domain=other.com", "b=2; Domain=com", "c=3; Domain=.org"])
    assert jar.dump() == {}


def test_cookies_of_the_request_win() -> None:
    jar = TaskCookies()
    jar.absorb(URL, ["a=1; Path=/", "b=2; Path=/"])
    header = jar.header_for(URL, {"b": "9", "c": "3"}) or ""
    assert set(header.split("; ")) == {"a=1", "b=9", "c=3"}
    assert TaskCookies().header_for(URL, {"c": "3"}) == "c=3"
    assert cookies_at(jar, URL) == {"a=1", "b=2"}


def test_absorb_tells_what_changed() -> None:
    jar = TaskCookies()
    assert jar.absorb(URL, ["a=1"])
    assert not jar.absorb(URL, ["a=1"])
    assert jar.absorb(URL, ["a=2"])
    assert not jar.absorb(URL, ["", ";", "=; Max-Age=x"])
    assert jar.absorb(URL, ["a=; Max-Age=0"])
    assert not jar.absorb(URL, ["a=; Max-Age=0"])


def test_changes_make_another_jar_the_same() -> None:
    here, there = TaskCookies(), TaskCookies()
    here.absorb(URL, ["a=1; Path=/", "b=2; Path=/; Max-Age=3600", 'odd="x|y;z"; Path=/shop|x'])
    first = here.changes()
    assert here.changes() == {}
    there.load(first)
    assert there.dump() == here.dump()
    assert there.changes() == {}  # loaded cookies are known already
    here.absorb(URL, ["a=gone; Path=/; Max-Age=0", "b=3; Path=/"])
    there.load(here.changes())
    assert there.dump() == here.dump()
    assert cookies_at(there, "https://www.example.com/") == {"b=3"}


def test_loading_all_entries_again_deletes_what_was_deleted() -> None:
    here, there = TaskCookies(), TaskCookies()
    shared: dict[str, str] = {}  # as the frontier keeps it
    here.absorb(URL, ["a=1; Path=/"])
    shared |= here.changes()
    there.load(shared)
    here.absorb(URL, ["a=; Path=/; Max-Age=0"])
    shared |= here.changes()
    there.load(shared)
    there.load(shared)
    assert there.header_for(URL) is None


def test_own_change_is_not_lost_by_loading() -> None:
    here = TaskCookies()
    here.absorb(URL, ["a=old; Path=/"])
    shared = here.changes()
    here.absorb(URL, ["a=new; Path=/"])
    here.load(shared)
    assert cookies_at(here, URL) == {"a=new"}
    assert len(here.changes()) == 1


# -- public suffixes and prefixes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://shop.example.co.uk/", "co.uk"),
        ("https://me.github.io/", "github.io"),
        ("https://me.github.io/", ".GitHub.io"),
        ("https://a.b.kobe.jp/", "b.kobe.jp"),
        ("https://bucket.s3.amazonaws.com/", "s3.amazonaws.com"),
        ("https://xn--85x722f.xn--55qx5d.cn/", "xn--55qx5d.cn"),
        ("https://me.localhost/", "localhost"),
        ("https://127.0.0.1/", "0.0.1"),
    ],
)
def test_cookies_for_public_suffixes_are_refused(url: str, domain: str) -> None:
    jar = TaskCookies()
    assert not jar.absorb(url, [f"a=1; Domain={domain}; Path=/"])
    assert jar.dump() == {}


@pytest.mark.parametrize(
    "url", ["https://github.io/", "https://127.0.0.1/", "http://localhost:81/"]
)
def test_a_host_that_is_a_public_suffix_or_address_keeps_its_own(url: str) -> None:
    jar = TaskCookies()
    host = hostname_of(url)
    assert jar.absorb(url, [f"a=1; Domain={host}; Path=/", "b=2; Domain=; Path=/"])
    assert cookies_at(jar, url) == {"a=1", "b=2"}
    assert cookies_at(jar, url.replace(host, f"sub.{host}")) == set()


def test_cookies_without_a_domain_stay_with_their_host() -> None:
    jar = TaskCookies()
    jar.absorb("https://example.com/", ["host=1; Path=/", "all=2; Domain=example.com; Path=/"])
    assert cookies_at(jar, "https://example.com:8443/") == {"host=1", "all=2"}
    assert cookies_at(jar, "https://sub.example.com/") == {"all=2"}
    assert cookies_at(jar, "https://notexample.com/") == set()


@pytest.mark.parametrize(
    ("url", "header", "taken"),
    [
        (URL, "__Host-a=1; Secure; Path=/", True),
        (URL, "__Host-a=1; Secure", False),  # the path would be /shop
        (URL, "__Host-a=1; Secure; Path=/; Domain=example.com", False),
        (URL, "__Host-a=1; Path=/", False),
        ("http://www.example.com/", "__Host-a=1; Secure; Path=/", False),
        (URL, "__Secure-a=1; Secure", True),
        (URL, "__secure-a=1", False),
        ("http://www.example.com/", "__Secure-a=1; Secure", False),
        ("http://www.example.com/", "plain=1; Secure", False),
        (URL, "__Host-nameless", False),
    ],
)
def test_prefixes_and_secure(url: str, header: str, taken: bool) -> None:
    jar = TaskCookies()
    assert jar.absorb(url, [header]) is taken
    assert bool(jar.dump()) is taken


def test_a_stranger_cannot_delete() -> None:
    jar = TaskCookies()
    jar.absorb("https://www.bank.com/", ["a=1; Domain=bank.com; Path=/"])
    assert not jar.absorb("https://evil.com/", ["a=; Domain=bank.com; Path=/; Max-Age=0"])
    assert cookies_at(jar, "https://bank.com/") == {"a=1"}


HTTP = URL.replace("https:", "http:")


@pytest.mark.parametrize("end", ["Max-Age=0", "Expires=Thu, 01 Jan 1970 00:00:00 GMT"])
def test_cookies_are_deleted_over_http(end: str) -> None:
    jar = TaskCookies()
    jar.absorb(HTTP, ["sid=1; Path=/"])
    assert jar.absorb(HTTP, [f"sid=; Path=/; {end}"])
    assert jar.dump() == {}
    assert jar.absorb(URL, ["sid=2; Path=/"])
    assert jar.absorb(HTTP, [f"sid=; Path=/; {end}"])  # it is not secure, whoever has set it
    assert jar.dump() == {}


# RFC 6265, 5.1.1; Chromium 156 does the same, where nothing else is said.
DATES = [
    ("Thu, 01 Jan 1970 00:00:00 GMT", True),
    ("Thu Jan 1 00:00:00 1970 GMT", True),
    ("Mon, 01 Jan 1900 00:00:00 GMT", True),
    ("Fri, 01 Jan 1601 00:00:00 GMT", True),
    ("Fri, 31 Dec 1600 00:00:00 GMT", False),  # Chromium: the other way
    ("Wed, 31 Dec 1969 23:59:59 GMT", True),
    ("Mon, 01-Jan-01 00:00:00 GMT", True),
    ("1 Jan 99 00:00:00", True),
    ("01-01-1970 00:00:00", False),
    ("Thu, 01 Jan 1970", False),
    ("Thu, 01 Jan 1970 00:00 GMT", False),
    ("Thu, 01 Jan 1970 0:0:0 GMT", True),
    ("JAN 01 1970 00:00:00", True),
    ("00:00:00 1970 Jan 1", True),
    ("1970 1 Jan 00:00:00", True),
    ("70 1 Jan 00:00:00", False),
    ("Sat, 01 Jan 0001 00:00:00 GMT", True),
    ("Thu, 32 Jan 1970 00:00:00 GMT", False),
    ("Tue, 31 Feb 1970 00:00:00 GMT", False),
    ("Thu, 01 Jan 1970 24:00:00 GMT", False),
    ("Thu, 01 Jan 1970 23:59:60 GMT", False),
    ("Thu, 01 Foo 1970 00:00:00 GMT", False),
    ("Wed, 01 Jan 2070 00:00:00 GMT", False),
    ("Wed, 01-Jan-69 00:00:00 GMT", False),
    ("0", False),
    ("-1", False),
    ("1", False),
    ("now", False),
    ("Thu,01Jan1970 00:00:00 GMT", False),
    ("Thu,01/Jan/1970/00:00:00", True),
    ('"Thu, 01 Jan 1970 00:00:00 GMT"', True),
    ("Thu, 01 Jan 1970 00:00:00 +0200", True),
    ("Thu, 01 Jan 1970 00:00:00 PST", True),
    ("Thu, 01 Jan 1970 00:00:00AM", True),  # Chromium: the other way
    ("Thu, 1st Jan 1970 00:00:00", True),  # Chromium: the other way
    ("Thu, 01 Jan 19700 00:00:00", False),
    ("Thu, 001 Jan 1970 00:00:00", False),
    ("1970-01-01T00:00:00Z", False),
    ("Thu, 01 Jan 1970 00:00:00 GMT\t", True),
    ("Thu, 01 Jan 1970 00.00.00 GMT", False),
    ("Thu, 01 Jan 970 00:00:00 GMT", False),  # Chromium: the other way
    ("Sat, 01 Jan 100 00:00:00 GMT", False),  # Chromium: the other way
    ("9 Jan 2005 10:10:10 2099", True),
    ("10:10:10 11:11:11 1 Jan 1990", True),
]


@pytest.mark.parametrize(("date", "deletes"), DATES)
def test_dates_that_delete(date: str, deletes: bool) -> None:
    jar = TaskCookies()
    jar.absorb(URL, ["sid=1; Path=/"])
    jar.absorb(URL, [f"sid=2; Path=/; Expires={date}"])
    assert cookies_at(jar, URL) == (set() if deletes else {"sid=2"})


@pytest.mark.parametrize("month", range(1, 13))
def test_dates_are_read_in_every_form(month: int) -> None:
    """The forms of RFC 9110, 5.6.7, and those with dashes; two digits are 1970 to 2069."""
    for year in (1970, 1999, 2000, 2026, 2069):
        moment = datetime(year, month, 7, 3, 4, 5, tzinfo=UTC)
        for form in (
            *("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"),
            *("%a, %d-%b-%Y %H:%M:%S GMT", "%d %B %Y %H:%M:%S"),
        ):
            assert _time_of(moment.strftime(form), None) == moment.timestamp(), form


@pytest.mark.parametrize(
    ("attributes", "deletes"),
    [
        ("Expires=nonsense; Max-Age=0", True),
        ("Max-Age=0; Expires=Fri, 01 Jan 2100 00:00:00 GMT", True),
        ("Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60", False),
        ("Expires=Thu, 01 Jan 1970 00:00:00 GMT; Expires=Fri, 01 Jan 2100 00:00:00 GMT", False),
        ("Expires=Fri, 01 Jan 2100 00:00:00 GMT; Expires=Thu, 01 Jan 1970 00:00:00 GMT", True),
        ("Expires=Thu, 01 Jan 1970 00:00:00 GMT; Expires=nonsense", True),  # it is no attribute
        ("Max-Age=-1", True),
        ("Max-Age=-0", True),
        ("Max-Age=60; Max-Age=0", True),
        ("Max-Age=0; Max-Age=60", False),
        ("Max-Age=0; Max-Age=1.5", True),
        ("Max-Age=1.5", False),
        ("Max-Age=+0", False),
        ("Max-Age=", False),
        ("Max-Age", False),
        ("Max-Age=" + "9" * 6000, False),
        ("Max-Age=-" + "9" * 6000, True),
        ("Expires", False),
        ("Comment=a; Version=x; Port=y; Domain", False),
    ],
)
def test_the_last_valid_attribute_counts(attributes: str, deletes: bool) -> None:
    jar = TaskCookies()
    jar.absorb(URL, ["sid=1; Path=/"])
    jar.absorb(URL, [f"sid=2; Path=/; {attributes}"])
    assert cookies_at(jar, URL) == (set() if deletes else {"sid=2"})


@pytest.mark.parametrize(
    "header",
    [
        "sid=2; Path=/",
        "sid=; Path=/; Max-Age=0",
        "sid=2; Path=/shop",
        "sid=2; Path=/; Domain=example.com",
        "sid=2; Path=/; Secure; Max-Age=0",
    ],
)
@pytest.mark.parametrize("domain", ["", "; Domain=example.com", "; Domain=www.example.com"])
def test_http_leaves_secure_cookies_alone(header: str, domain: str) -> None:
    jar = TaskCookies()
    jar.absorb(URL, [f"sid=1; Path=/; Secure{domain}"])
    before = jar.dump()
    assert not jar.absorb(HTTP, [header])
    assert jar.dump() == before
    assert jar.absorb(HTTP, [header.replace("sid", "other")]) == ("Max-Age" not in header)


def test_http_may_set_what_is_another_cookie_than_the_secure_one() -> None:
    jar = TaskCookies()
    jar.absorb(URL, ["sid=1; Path=/shop; Secure"])
    assert jar.absorb(HTTP, ["sid=2; Path=/"])
    assert jar.absorb("http://other.com/shop", ["sid=3; Path=/shop"])
    assert jar.absorb("http://example.com/", ["sid=4; Path=/"])
    expired = old_entry("late", expires=1).replace("false,1]", "true,1]")
    jar.load({**jar.dump(), "www.example.com|/|late": expired})
    assert jar.absorb(HTTP, ["late=2; Path=/"])


@pytest.mark.parametrize("secure", ["Secure=", "secure=x", "SECURE"])
def test_secure_may_have_a_value(secure: str) -> None:
    jar = TaskCookies()
    assert not jar.absorb(HTTP, [f"sid=1; {secure}"])
    assert jar.absorb(URL, [f"sid=1; Path=/; {secure}"])
    assert cookies_at(jar, HTTP) == set()
    (entry,) = jar.dump().values()
    assert json.loads(entry)[7] is True


@pytest.mark.parametrize("path", ["foo", "foo/bar", '"quoted"', ".", "%2F"])
def test_a_path_that_is_relative_counts_as_none(path: str) -> None:
    """RFC 6265, 5.2.4."""
    jar = TaskCookies()
    assert jar.absorb(URL, [f"sid=1; Path={path}"])
    assert [*jar.dump()] == ["www.example.com|/shop|sid"]
    assert cookies_at(jar, URL) == {"sid=1"}
    assert jar.absorb(URL, [f"sid=; Path={path}; Max-Age=0"])
    assert jar.absorb("https://www.example.com/", [f"sid=1; Path={path}"])
    assert [*jar.dump()] == ["www.example.com|/|sid"]
    assert not jar.absorb("https://www.example.com/", [f"__Host-a=1; Secure; Path={path}"])


# -- amounts --------------------------------------------------------------------------------------


def test_a_domain_keeps_the_fifty_that_were_set_last(caplog: pytest.LogCaptureFixture) -> None:
    jar = TaskCookies()
    jar.absorb(URL, [f"c{i}=1; Path=/" for i in range(MAX_PER_DOMAIN)])
    assert jar.absorb(URL, ["c0=2; Path=/", "new=1; Path=/"])
    kept = cookies_at(jar, URL)
    assert len(kept) == MAX_PER_DOMAIN
    assert {"c0=2", "new=1"} <= kept
    assert "c1=1" not in kept
    jar.absorb(URL, [f"more{i}=1; Path=/" for i in range(1000)])
    assert len(jar.dump()) == MAX_PER_DOMAIN
    assert jar.dropped == 1001
    assert len(caplog.records) == 1
    assert ".example.com" in caplog.text


def test_expired_ones_go_first() -> None:
    jar = TaskCookies()
    jar.absorb(URL, [f"c{i}=1; Path=/" for i in range(MAX_PER_DOMAIN - 1)])
    jar.load({"www.example.com|/|old": old_entry("old", expires=1)})
    jar.absorb(URL, ["new=1; Path=/"])
    assert "c0=1" in cookies_at(jar, URL)
    assert "www.example.com|/|old" not in jar.dump()


def old_entry(name: str, expires: int | None = None) -> str:
    fields = [name, "1", "www.example.com", False, False, "/", True, False, expires]
    return json.dumps(fields, separators=(",", ":"))


def test_loading_keeps_the_order_of_what_is_known() -> None:
    """The entries come in any order, all of them, whenever one has changed."""
    jar = TaskCookies()
    jar.absorb(URL, [f"c{i}=1; Path=/" for i in range(MAX_PER_DOMAIN)])
    jar.changes()
    others = {"www.example.com|/|c7": old_entry("c7", expires=4_000_000_000)}
    jar.load(dict(reversed(jar.dump().items())) | others)
    jar.absorb(URL, [f"new{i}=1; Path=/" for i in range(8)])
    left = {f"c{i}=1" for i in range(9, MAX_PER_DOMAIN)} | {f"new{i}=1" for i in range(8)}
    assert cookies_at(jar, URL) == left | {"c7=1"}  # set anew, so not one of the oldest


def test_what_is_dropped_is_dropped_everywhere() -> None:
    here, there = TaskCookies(), TaskCookies()
    here.absorb(URL, [f"c{i}=1; Path=/" for i in range(MAX_PER_DOMAIN)])
    there.load(here.changes())
    here.absorb(URL, ["new=1; Path=/", *[f"brief{i}=1; Path=/" for i in range(100)]])
    changes = here.changes()
    assert not any("brief0" in key for key in changes)  # no other jar ever knew it
    there.load(changes)
    assert there.dump() == here.dump()
    assert there.changes() == {}


def test_jars_that_fill_up_apart_agree_in_the_end() -> None:
    shared: dict[str, str] = {}  # as the frontier keeps it
    jars = [TaskCookies(), TaskCookies()]
    for number, jar in enumerate(jars):
        jar.absorb(URL, [f"c{number}.{i}=1; Path=/" for i in range(MAX_PER_DOMAIN)])
        shared |= jar.changes()
    for jar in [*jars, *jars]:
        jar.load(shared)
        shared |= jar.changes()
    assert jars[0].dump() == jars[1].dump() == {key: e for key, e in shared.items() if e}
    assert len(jars[0].dump()) == MAX_PER_DOMAIN


def test_a_task_keeps_the_domains_that_were_used_last() -> None:
    jar = TaskCookies()
    domains = MAX_COOKIES // 10 + 1
    for number in range(domains):
        jar.absorb(f"https://h{number}.example/", [f"c{i}=1; Path=/" for i in range(10)])
        assert cookies_at(jar, "https://h0.example/")  # used all the time
    assert len(jar.dump()) == MAX_COOKIES
    assert not cookies_at(jar, "https://h1.example/")
    assert len(cookies_at(jar, f"https://h{domains - 1}.example/")) == 10


def test_large_cookies_are_not_taken() -> None:
    jar = TaskCookies()
    assert not jar.absorb(URL, ["big=" + "x" * 4094])
    assert not jar.absorb(URL, ["a=1; Path=/" + "x" * 10_000])
    assert jar.absorb(URL, ["big=" + "x" * 4093])


@pytest.mark.parametrize(
    "header", ["a=1; Max-Age=" + "9" * 30, "a=1; Version=1; Port", "a; Path=x"]
)
def test_odd_attributes(header: str) -> None:
    jar = TaskCookies()
    jar.absorb(URL, [header])
    TaskCookies().load(jar.changes())
    jar.header_for(URL)


def test_the_header_is_bounded() -> None:
    jar = TaskCookies()
    jar.absorb(URL, [f"c{i}={'x' * 1000}; Path=/" for i in range(20)])
    jar.absorb(URL, ["near=1; Path=/shop"])
    header = jar.header_for(URL, {"mine": "y" * 1000}) or ""
    assert MAX_HEADER - 1100 < len(header) <= MAX_HEADER
    assert header.startswith("near=1; c0=")  # longer paths first, then as they were set
    assert header.endswith("mine=" + "y" * 1000)


def test_own_cookies_that_are_too_long() -> None:
    for own in ({"a": "x" * MAX_HEADER}, {"a": "ü" * (MAX_HEADER // 2)}):
        with pytest.raises(BadRequest, match="8192"):
            TaskCookies().header_for(URL, own)


def test_older_entries_are_read() -> None:
    jar = TaskCookies()
    jar.load({"www.example.com|/|a": old_entry("a")})
    assert cookies_at(jar, URL) == {"a=1"}


# -- sessions -------------------------------------------------------------------------------------


def test_a_session_is_a_jar_of_its_own() -> None:
    jar = TaskCookies()
    jar.absorb(URL, ["id=all; Path=/; Domain=example.com"])
    jar.absorb(URL, ["id=left; Path=/; Domain=example.com"], "left")
    sent = [jar.header_for(URL, None, session) for session in ("", "left", "right")]
    assert sent == ["id=all", "id=left", None]
    jar.absorb(URL, ["id=; Max-Age=0; Path=/; Domain=example.com"], "left")
    sent = [jar.header_for(URL, None, session) for session in ("", "left")]
    assert sent == ["id=all", None]


def test_sessions_travel() -> None:
    here, there = TaskCookies(), TaskCookies()
    here.absorb(URL, ["id=1"])
    here.absorb(URL, ["id=2"], "left")
    there.load(here.changes())
    assert (there.header_for(URL), there.header_for(URL, None, "left")) == ("id=1", "id=2")
    here.absorb(URL, ["id=; Max-Age=0"], "left")
    there.load(here.changes())
    assert (there.header_for(URL), there.header_for(URL, None, "left")) == ("id=1", None)


def test_the_limits_hold_for_all_sessions_together() -> None:
    jar = TaskCookies()
    for n in range(MAX_COOKIES + 10):
        jar.absorb(URL, ["id=1"], f"s{n}")
    assert len(jar.dump()) == MAX_COOKIES
    assert jar.header_for(URL, None, "s0") is None
    for n in range(MAX_PER_DOMAIN + 10):
        jar.absorb(URL, [f"n{n}=1"], "many")
    assert len((jar.header_for(URL, None, "many") or "").split("; ")) == MAX_PER_DOMAIN
