"""URLs by the rules of browsers."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlframe.base.urls import canonical, host_of, hostname_of, join, normalise, without_login
from crawlframe.errors import BadRequest


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTP://User:Pw@EXAMPLE.com:80/a/../b?q=1#f", "http://example.com/b?q=1"),
        ("https://example.com", "https://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://bücher.example/ä b?ü", "https://xn--bcher-kva.example/%C3%A4%20b?%C3%BC"),
        ("  http://h/x \n", "http://h/x"),
        ("http:\\\\h\\x", "http://h/x"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::ffff:7f00:1]:8080/", "http://[::ffff:7f00:1]:8080/"),
        ("http://h/%7Ea/%2e%2e/b", "http://h/b"),
    ],
)
def test_normalise(url: str, normal: str) -> None:
    assert normalise(url) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    "url",
    ["", "page.html", "/x", "http://", "http://a b/", "ftp://h/", "file:///etc", "mailto:a@b",
     "javascript:1", "http://h:99999/", "http://h/\ud800", "data:text/html,x", None, 7],
)  # fmt: skip
def test_normalise_refuses_and_names_the_url(url: str) -> None:
    with pytest.raises(BadRequest) as caught:
        normalise(url)
    assert repr(url) in str(caught.value)


@pytest.mark.parametrize(
    ("link", "joined"),
    [
        ("x", "http://h/a/x"),
        (" \tx\n", "http://h/a/x"),
        ("../../x", "http://h/x"),
        ("/x", "http://h/x"),
        ("//o/x", "http://o/x"),
        ("?q", "http://h/a/b?q"),
        ("#f", "http://h/a/b?p=1"),
        ("", "http://h/a/b?p=1"),
        ("https://o", "https://o/"),
        ("http:x", "http://h/a/x"),
        ("x y/ü", "http://h/a/x%20y/%C3%BC"),
        ("mailto:a@b", None),
        ("javascript:void(0)", None),
        ("tel:1", None),
        ("http://", None),
        ("\ud800", None),
    ],
)
def test_join(link: str, joined: str | None) -> None:
    assert join("http://h/a/b?p=1", link) == joined


@given(st.text(max_size=40), st.sampled_from(["", "?", "//", "http://", "/"]))
def test_what_join_gives_is_normalised(link: str, start: str) -> None:
    joined = join("http://h/a/b?p=1", start + link)
    if joined is not None:
        assert normalise(joined) == without_login(joined)
        assert hostname_of(joined) in host_of(joined)


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://h/?b=2&a=1", "http://h/?a=1&b=2"),
        ("http://h/?a=1&&b=2&", "http://h/?a=1&b=2"),
        ("http://h/?", "http://h/"),
        ("http://h/?&", "http://h/"),
        ("http://h/?a", "http://h/?a"),
        ("http://h/?a=2&a=1", "http://h/?a=1&a=2"),
        ("http://h/%7Eme/%41%2d", "http://h/~me/A-"),
        ("http://h/a%2fb%c3%A4?q=%2B%5f", "http://h/a%2Fb%C3%A4?q=%2B_"),
        ("http://h/?b=%31&a=%7a", "http://h/?a=z&b=1"),
    ],
)
def test_canonical(url: str, same: str) -> None:
    assert canonical(url) == same


def test_canonical_escapes() -> None:
    """Every octet, in every spelling of its digits; reserved characters stay encoded."""
    unreserved = frozenset(string.ascii_letters + string.digits + "-._~")
    for octet in range(256):
        for digits in {f"{octet:02x}", f"{octet:02X}", f"{octet:02x}".capitalize()}:
            same = chr(octet) if chr(octet) in unreserved else f"%{octet:02X}"
            assert canonical(f"http://h/%{digits}") == f"http://h/{same}"


@pytest.mark.parametrize(
    "url",
    ["http://h/?a=", "http://h/a/", "http://h/A", "http://h/?A", "http://h/100%", "http://h/%zz",
     "http://h/%2F", "http://h/%2541"],
)  # fmt: skip
def test_canonical_leaves_what_may_differ(url: str) -> None:
    assert canonical(url) == url


@pytest.mark.parametrize(
    ("url", "host", "hostname"),
    [
        ("http://h/", "h", "h"),
        ("http://h:81/x@y", "h:81", "h"),
        ("http://u:p@h:81/", "h:81", "h"),
        ("http://h/?q=/@", "h", "h"),
        ("http://[::1]/", "[::1]", "[::1]"),
        ("http://[::1]:81/", "[::1]:81", "[::1]"),
    ],
)
def test_hosts(url: str, host: str, hostname: str) -> None:
    assert host_of(url) == host
    assert hostname_of(url) == hostname
