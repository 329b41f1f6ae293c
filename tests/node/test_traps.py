"""Traps: noticed by the yield of pages of one form; real pages are not taken for one."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from crawlframe.node.worker.crawl.traps import FORMS, TrapWatch, form_of

HOST = "http://shop.example"
WORDS = [
    f"{a}{b}{c}"
    for a in ("ka", "lo", "mi", "ne", "po", "ru", "sa")
    for b in ("ber", "dan", "fel", "gor", "hin", "lum")
    for c in ("da", "ke", "li", "no", "tu")
]
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
FRAME = '<title>{title}</title><a href="/">Home</a><a href="/about">About us</a>{body}<p>Shop Ltd'


def page(title: str, body: str) -> bytes:
    return FRAME.format(title=title, body=body).encode()


def calendar() -> Iterator[tuple[str, bytes]]:
    for n in range(1200):
        year, month = 2026 + n // 12, n % 12
        days = "".join(f"<td>{day}</td>" for day in range(1, 31))
        title = f"{MONTHS[month]} {year}"
        links = f'<a href="/calendar/{year}/{month + 2}">{MONTHS[(month + 1) % 12]}</a>'
        yield f"{HOST}/calendar/{year}/{month + 1}", page(title, f"<table>{days}</table>{links}")


def sessions() -> Iterator[tuple[str, bytes]]:
    dice = random.Random(1)
    for _ in range(5000):
        n, sid = dice.randrange(60), f"{dice.getrandbits(96):024x}"
        links = "".join(f'<a href="/p/{k}?sid={sid}">{WORDS[k]}</a>' for k in range(5))
        script = f"<script>var token='{sid}{dice.random()}'; if (1 < 2) go('{sid}')</script>"
        body = f"<h1>{WORDS[n]}</h1>{script}<p>Text about {WORDS[n]}</p>{links}"
        yield f"{HOST}/p/{n}?sid={sid}", page(WORDS[n], body)


def facets() -> Iterator[tuple[str, bytes]]:
    dice = random.Random(2)
    products = [f"<li>{WORDS[n]} {WORDS[-n]} <b>{n + 5}.90</b></li>" for n in range(100)]
    for _ in range(6000):
        chosen = {name: dice.randrange(8) for name in ("brand", "color", "size", "sort")}
        query = "&".join(f"{name}={value}" for name, value in chosen.items())
        body = "".join(dice.sample(products, dice.randrange(0, 12)))
        counts = "".join(f"<a href='?color={n}'>color</a> ({dice.randrange(30)})" for n in range(8))
        yield f"{HOST}/list?{query}", page("All products", f"<ul>{body}</ul>{counts}")


def endless_path() -> Iterator[tuple[str, bytes]]:
    dice = random.Random(3)
    for n in range(2000):
        path = "/".join(str(dice.randrange(9)) for _ in range(1 + n % 30))
        crumbs = "".join(f"<a href='..'>{part}</a>" for part in path.split("/"))
        yield f"{HOST}/d/{path}/", page("Folder", f"<p>You are at /d/{path}/ {crumbs}")


def pagination() -> Iterator[tuple[str, bytes]]:
    for n in range(1, 1500):
        around = "".join(f"<a href='?page={k}'>{k}</a>" for k in (n - 1, n, n + 1))
        yield f"{HOST}/news?page={n}", page(f"Page {n}", f"<p>No entries.</p>{around}")


TRAPS = {
    f"{HOST[7:]}/calendar/{{n}}": calendar,
    f"{HOST[7:]}/p/{{n}}?sid": sessions,
    f"{HOST[7:]}/list?brand&color&size&sort": facets,
    f"{HOST[7:]}/d/": endless_path,
    f"{HOST[7:]}/news?page": pagination,
}


def sighted(pages: Iterator[tuple[str, bytes]]) -> dict[str, tuple[int, int]]:
    """Template -> pages and different contents."""
    watch, found = TrapWatch(1), dict[str, tuple[int, int]]()
    for url, body in pages:
        if seen := watch.see(url, body):
            before, _ = found.get(seen.template, (0, 0))
            found[seen.template] = before + seen.pages, seen.contents
    return found


@pytest.mark.parametrize("template", TRAPS)
def test_every_kind_of_trap_is_noticed(template: str) -> None:
    found = sighted(TRAPS[template]())
    assert any(name.startswith(template) for name in found), found
    for pages, contents in found.values():
        assert pages >= 64
        assert contents <= pages / 4


def products() -> Iterator[tuple[str, bytes]]:
    """One template, 5,000 texts: words are shared, sentences are not."""
    dice = random.Random(4)
    for n in range(5000):
        name = " ".join(dice.sample(WORDS, 2))
        text = " ".join(dice.choices(WORDS, k=60))
        related = "".join(f"<a href='/product/{dice.randrange(5000)}'>{w}</a>" for w in WORDS[:6])
        body = f"<h1>{name}</h1><p>{text}</p><b>{dice.randrange(9999) / 100}</b>{related}"
        yield f"{HOST}/product/{n}", page(f"{name} - Shop", body)


def weather() -> Iterator[tuple[str, bytes]]:
    """Every page has the same words and other numbers."""
    dice = random.Random(5)
    for n in range(2000):
        cells = "".join(f"<td>{dice.randrange(100_000) / 100}</td>" for _ in range(48))
        date = f"{1990 + n // 336}-{n // 28 % 12 + 1:02}-{n % 28 + 1:02}"
        yield f"{HOST}/weather/{date}", page("Weather", f"<h1>Weather of {date}</h1>{cells}")


def chapters() -> Iterator[tuple[str, bytes]]:
    dice = random.Random(6)
    for n in range(2000):
        body = "".join(f"<p>{' '.join(dice.choices(WORDS, k=30))}</p>" for _ in range(5))
        yield f"{HOST}/3.{n % 5}/library/{WORDS[n % 200]}{n}.html", page(f"Module {n}", body)


def records() -> Iterator[tuple[str, bytes]]:
    for n in range(2000):
        yield f"{HOST}/api/item?id={n}", b'{"id": %d, "price": %d.5}' % (n, n * 7 % 997)


def images() -> Iterator[tuple[str, bytes]]:
    for n in range(2000):
        yield f"{HOST}/img/{n}.svg", b'<svg width="%d"><circle r="%d"/></svg>' % (n, n * 7)


@pytest.mark.parametrize("site", [products, weather, chapters, records, images])
def test_no_real_page_is_taken_for_a_trap(site: object) -> None:
    assert sighted(site()) == {}  # type: ignore[operator]


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("http://a.example/", "a.example/"),
        ("http://a.example:8080/p/17?b=1&a=2", "a.example:8080/p/{n}?a&b"),
        ("http://a.example/calendar/2026/11", "a.example/calendar/{n}/…"),
        ("http://a.example/2026-11-05/x", "a.example/{date}/x"),
        ("http://a.example/05.11.2026", "a.example/{date}"),
        ("http://a.example/x;jsessionid=ABCdefGHI?b", "a.example/x;jsessionid={session}?b"),
        ("http://a.example/f/1b4e28ba-2fa1-11d2-883f-0016d3cca427", "a.example/f/{id}"),
        ("http://a.example/c/deadbeef01/diff", "a.example/c/{hex}/diff"),
        ("http://a.example/s/x7Gh2kLm9Qw3zRt5Yv8B", "a.example/s/{token}"),
        ("http://a.example/version-3.14/windows11", "a.example/version-{n}.{n}/windows{n}"),
        ("http://a.example/a/b/a/b/a/b", "a.example/a/b/…"),
        ("http://a.example/1/2/3/4/5/6/7/8/9", "a.example/{n}/…"),
        ("http://a.example/x?utm1=a&utm2=b", "a.example/x?utm{n}&utm{n}"),
    ],
)
def test_the_form_of_a_url(url: str, form: str) -> None:
    assert form_of(url) == form


def test_a_trap_is_logged_once_and_its_pages_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        [(template, (pages, contents))] = sighted(calendar()).items()
    assert template == "shop.example/calendar/{n}/…"
    assert 800 <= pages <= 1200
    assert 8 <= contents <= 20
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith("task 1: possible trap: shop.example/calendar/{n}/…: about ")


def test_pages_with_different_items_are_no_repetition(caplog: pytest.LogCaptureFixture) -> None:
    """Products of a shop that writes nothing but numbers; of a calendar, the items repeat."""
    watch, trap = TrapWatch(1), TrapWatch(2)
    frame = page("Product", "<p>Product {n}</p><p>{n}.00</p><p>in stock</p>")
    for n in range(600):
        url, body = f"{HOST}/p/{n}", frame.replace(b"{n}", b"%d" % n)
        assert (
            watch.see(url, body, [b'{"url":"%s","name":"Product %d"}' % (url.encode(), n)]) is None
        )
        trap.see(url, body, [b'{"url":"%s","name":"Product"}' % url.encode()])
    assert not watch.stops(f"{HOST}/p/1")
    assert trap.stops(f"{HOST}/p/1")
    assert 'traps = "stop" would leave it out' in caplog.text


def test_urls_of_a_trap_are_known_and_others_are_not() -> None:
    watch = TrapWatch(1)
    assert not watch.stops(f"{HOST}/calendar/2050/1")
    for url, body in calendar():
        watch.see(url, body)
    assert watch.stops(f"{HOST}/calendar/2150/1")
    assert not watch.stops(f"{HOST}/calendar")
    assert not watch.stops(f"{HOST}/calendar/2150/1?print=1")


def test_memory_is_bounded() -> None:
    watch = TrapWatch(1)
    for n in range(10 * FORMS):
        watch.see(f"{HOST}/{n:x}x".translate({ord(c): ord(c) + 55 for c in "0123456789"}), b"<p>")
    assert len(watch._seen) == FORMS
    assert not watch._compared
