"""Templates: URLs that belong together."""

from __future__ import annotations

import pytest

from crawlframe.render.knowledge import MAX_CHARS, form_of

SHOP = "https://shop.example"


@pytest.mark.parametrize(
    ("url", "form"),
    [
        (f"{SHOP}/", "shop.example/"),
        (f"{SHOP}/product/17", "shop.example/product/*"),
        (f"{SHOP}/product/red-shoe", "shop.example/product/*"),
        (f"{SHOP}/product/red-shoe.HTML", "shop.example/product/*.html"),
        (f"{SHOP}/product/17/", "shop.example/product/*/"),
        (f"{SHOP}/product/17/reviews", "shop.example/product/*/*"),
        (f"{SHOP}/the-long-title-of-a-text/2", "shop.example/*/*"),
        (f"{SHOP}/a/b/c/d/e/f/g/h", "shop.example/a/b/c/d/e/f/…"),
        (f"{SHOP}/search?q=x&page=2", "shop.example/*?page&q"),
        (f"{SHOP}/search?page=9&q=y", "shop.example/*?page&q"),
        (f"{SHOP}/x?f12=1&f13=2&q=3", "shop.example/*?q&*"),
        ("http://shop.example:8080/a/1", "shop.example:8080/a/*"),
    ],
)
def test_what_varies_is_left_out(url, form):
    assert form_of(url) == form


def test_it_has_a_limit():
    assert len(form_of(f"{SHOP}/x?" + "&".join("a" * 24 + "b" * n for n in range(50)))) <= MAX_CHARS
