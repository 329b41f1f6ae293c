"""The cookies of a task, and how they travel between processes."""

from __future__ import annotations

from crawlframe.fetch.cookies import MAX_COOKIES, TaskCookies

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
    assert there.changes() == {}  # what was loaded is known already
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


def test_hostile_amounts() -> None:
    jar = TaskCookies()
    jar.absorb(URL, [f"c{i}=1; Path=/" for i in range(5000)])
    assert len(jar.dump()) == MAX_COOKIES
    assert jar.absorb(URL, ["c0=2; Path=/"])
    jar.absorb(URL, ["c1=; Path=/; Max-Age=0", "new=1; Path=/"])
    assert "new=1" in cookies_at(jar, URL)
    assert not TaskCookies().absorb(URL, ["big=" + "x" * 10_000])
