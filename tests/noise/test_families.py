"""URLs that are built alike are a family, and samples of noise spread within it."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from math import comb
from string import ascii_lowercase

import pytest

from crawlframe.errors import ConfigError
from crawlframe.noise import NoiseFamilies, URLFamilies
from crawlframe.noise import families as families_module
from crawlframe.noise.families import parts_of
from crawlframe.noise.template import similarity
from tests.noise.urls import Labelled, generated


def lcs(one: str, other: str) -> int:
    """The textbook's way, for comparison."""
    row = [0] * (len(other) + 1)
    for letter in one:
        row = [0, *row[1:]]
        last, new = 0, [0]
        for at, char in enumerate(other, 1):
            new.append(row[at - 1] + 1 if letter == char else max(row[at], new[-1]))
            last = new[-1]
        row = new
        assert last == row[-1]
    return row[-1]


@pytest.mark.parametrize(
    ("one", "other"),
    [("abc", "abc"), ("abc", "xyz"), ("/news/12", "/new/2"), ("aXbXc", "abc"), ("a", "aaaa")],
)
def test_similarity_is_the_mean_of_both_parts(one: str, other: str) -> None:
    expected = (lcs(one, other) / len(one) + lcs(one, other) / len(other)) / 2
    assert similarity(one, other) == pytest.approx(expected)
    assert similarity(other, one) == pytest.approx(expected)


def test_similarity_of_nothing() -> None:
    assert (similarity("", ""), similarity("", "a"), similarity("a", "")) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("url", "group", "parts"),
    [
        ("https://h/a/b", ("h", 3, "", ()), ("a", "", "b")),
        ("https://h:8/", ("h:8", 2, "", ()), ("", "")),
        ("https://h/n/12/x9.HTML", ("h", 4, ".html", ()), ("n", "0", "", "x0")),
        ("https://h/m/struct.Vec.html", ("h", 3, ".html", ()), ("m", "struct.", "Vec")),
        ("https://h/?b=2&a=x", ("h", 2, "", ("a", "b")), ("", "", "x", "0")),
        ("https://h/?id=0123456789abcdef", ("h", 2, "", ("id",)), ("", "", "#")),
        ("https://h/4fd2c9aa-1c1b-4a5e-9d8c-0123456789ab", ("h", 2, "", ()), ("", "#")),
    ],
)
def test_parts_of_a_url(url: str, group: tuple, parts: tuple) -> None:
    assert parts_of(url) == (group, parts)


def test_families_are_built_alike() -> None:
    urls = [f"https://h/user/{name}" for name in ("ann", "bob", "cid", "dora", "eve", "finn")]
    urls += [f"https://h/item/{n}-{name}" for n, name in enumerate(("a", "lamp", "red-chair"))]
    urls += [f"https://h/list?page={n}" for n in range(9)]
    found = URLFamilies().add_all(urls)
    patterns = [*dict.fromkeys(family.pattern for family in found)]
    assert patterns[0] == "h/user/*"
    assert patterns[-1] == "h/list?page=0"
    assert len({*found[:6]}) == len({*found[9:]}) == 1
    assert not {*found[:6]} & {*found[6:]}
    assert sum(family.size for family in {*found}) == len(urls)


def test_sections_stay_apart() -> None:
    urls = [f"https://h/{section}/{n}-{'xyz' * (n % 4)}" for section in ("blog", "shop", "wiki",
            "help", "jobs") for n in range(40)]  # fmt: skip
    assert len({*URLFamilies().add_all(urls)}) == 5


MODULES = ("email", "xml", "http")
PARTS = ("message", "parser", "client", "server", "dom", "header", "charset")


@pytest.mark.parametrize("dotted_first", [True, False])
def test_names_of_modules_are_no_kinds_of_pages(dotted_first: bool) -> None:
    """email.html is beside email.message.html, so the part in front of the dot is a module."""
    dotted = [f"https://h/library/{name}.{part}.html" for name in MODULES for part in PARTS]
    plain = [f"https://h/library/{name}.html" for name in (*MODULES, *PARTS, "array", "bisect")]
    urls = [*dotted, *plain] if dotted_first else [*plain, *dotted]
    assert [*{family.pattern for family in URLFamilies().add_all(urls)}] == ["h/library/*.html"]


def test_kinds_of_pages_stay_apart() -> None:
    kinds = [f"https://h/std/{kind}.{name}.html" for kind in ("struct", "fn") for name in PARTS]
    plain = [f"https://h/std/{name}.html" for name in (*PARTS, "all", "index")]
    assert len({*URLFamilies().add_all([*kinds, *plain])}) == 3


def test_names_of_modules_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(families_module, "SHAPES", 50)
    families = URLFamilies()
    for one in ascii_lowercase:
        for other in ascii_lowercase:
            families.add(f"https://h/library/{one}{other}.html")
    (bucket,) = families._buckets.values()
    assert 0 < len(bucket.words) <= 50


def test_memory_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(families_module, "FAMILIES", 40)
    families = URLFamilies(groups=3)
    for n in range(500):
        families.add(f"https://h/{chr(97 + n % 26) * 30}/{chr(97 + n // 26) * 30}/x{'y' * (n % 9)}")
    assert len(families.families()) <= 40 + 40
    for host in "abcd":
        families.add(f"https://{host}/x")
    assert {family.group.host for family in families.families()} == {"b", "c", "d"}


def adjusted_rand(one: Sequence[object], other: Sequence[object]) -> float:
    """Returns the adjusted Rand index of two clusterings of the same things (Hubert and Arabie,
    1985): 1.0 if they are equal, about 0.0 for random ones."""
    pairs = sum(comb(n, 2) for n in Counter(zip(one, other, strict=True)).values())
    ours = sum(comb(n, 2) for n in Counter(one).values())
    theirs = sum(comb(n, 2) for n in Counter(other).values())
    expected = ours * theirs / max(1, comb(len(one), 2))
    most = (ours + theirs) / 2
    return (pairs - expected) / (most - expected) if most != expected else 1.0


@pytest.mark.parametrize("site", ["shop", "wiki", "news", "listings"])
def test_families_are_the_templates(site: str) -> None:
    urls = generated(site, 2_000, 7, noise=False)
    found = URLFamilies().add_all(one.url for one in urls)
    assert adjusted_rand(found, [one.template for one in urls]) >= 0.9


def spread(urls: Sequence[Labelled]) -> Counter[tuple[bool, bool]]:
    """URLs by whether they are found to be noise, and are, when 2 % of the URLs are samples, of
    which 5 % have the wrong label. Samples are not counted."""
    rng = random.Random(1)
    chosen = set(rng.sample(range(len(urls)), len(urls) // 50))
    noise = NoiseFamilies()
    for at, one in enumerate(urls):
        if at in chosen:
            noise.sample(one.url, noise=one.noise != (rng.random() < 0.05))
        else:
            noise.families.add(one.url)
    noise.families.merge()
    others = (one for at, one in enumerate(urls) if at not in chosen)
    return Counter((bool(noise.reason(one.url)), one.noise) for one in others)


def test_noise_is_found_from_samples() -> None:
    found = spread(generated("shop", 10_000, 7, noise=True))
    hits = found[True, True]
    assert hits >= 0.95 * (hits + found[True, False])
    assert hits >= 0.9 * (hits + found[False, True])


def test_reasons() -> None:
    noise = NoiseFamilies(outliers=True)
    for day in range(1, 9):
        noise.sample(f"https://h/calendar/2026/{day}", noise=True)
        noise.sample(f"https://h/article/{day}", noise=False)
        noise.sample(f"https://h/article/{day}?session={day}", noise=True)
    assert noise.reason("https://h/calendar/2031/5") == "family"
    assert noise.reason("https://h/article/99") == ""
    assert noise.reason("https://h/other/9?session=3") == "query names"
    assert noise.reason("https://h/other/9?session=3&new=1") == ""
    assert noise.reason("https://h/calendars/2031/x/5") == "similar family"
    assert noise.reason("https://h/unknown") == ""


def test_one_sample_is_not_enough_and_wrong_ones_are_outvoted() -> None:
    noise = NoiseFamilies()
    noise.sample("https://h/a/1", noise=True)
    assert noise.reason("https://h/a/2") == ""
    for n in range(9):
        noise.sample(f"https://h/b/{n}", noise=n != 4)
    assert noise.reason("https://h/b/77") == "family"
    assert [family.pattern for family in noise.noise()] == ["h/b/0"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: URLFamilies(threshold=0),
        lambda: URLFamilies(groups=0),
        lambda: NoiseFamilies(share=0.5),
        lambda: NoiseFamilies(samples=0),
        lambda: NoiseFamilies(alike=2),
    ],
)
def test_limits_that_make_no_sense_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="must be"):
        make()


def test_a_missing_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance.LCSseq", None)
    with pytest.raises(ConfigError, match=r"crawlframe\[broad\]"):
        URLFamilies()
