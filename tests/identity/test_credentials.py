"""Credentials: the match of a request, and refusals when one is entered."""

from __future__ import annotations

from base64 import b64decode

import pytest
from multidict import CIMultiDict

from crawlframe.base.secret import Secret
from crawlframe.identity.credentials import (
    BadCredential,
    Credential,
    Credentials,
    check_credential,
    check_host,
)
from crawlframe.identity.identity import Identity, Papers
from crawlframe.identity.signing import make, read

SECRET = "MARKED-s3cret"


def basic(host: str, user: str = "u", http: bool = False) -> Credential:
    return Credential(host, "basic", user, Secret(SECRET), http)


@pytest.mark.parametrize(
    ("url", "user"),
    [
        ("https://shop.org/", "exact"),
        ("https://shop.org:8443/", "port"),
        ("https://www.shop.org/", "below"),
        ("https://a.b.shop.org/x", "deeper"),
        ("https://b.shop.org/", "below"),
        ("https://www.shop.org:8443/", ""),
        ("https://evilshop.org/", ""),
        ("https://shop.org.evil.example/", ""),
        ("http://shop.org/", ""),
        ("http://plain.org/", "plain"),
        ("https://plain.org/", "plain"),
        ("https://org/", ""),
    ],
)
def test_the_most_exact_one_applies(url: str, user: str) -> None:
    known = Credentials([
        basic("shop.org", "exact"), basic("shop.org:8443", "port"), basic("*.shop.org", "below"),
        basic("*.b.shop.org", "deeper"), basic("plain.org", "plain", http=True),
    ])  # fmt: skip
    found = known.find(url)
    assert (found.user if found else "") == user


def test_what_the_headers_say() -> None:
    assert basic("a.org").authorization().startswith("Basic ")
    sent = Credential("a.org", "basic", "Jäsøn", Secret("p:ä")).authorization()
    assert b64decode(sent[6:]).decode() == "Jäsøn:p:ä"
    assert Credential("a.org", "bearer", "", Secret("t")).authorization() == "Bearer t"
    assert SECRET not in repr(basic("a.org"))


@pytest.mark.parametrize(
    ("typed", "host"),
    [
        ("www.Shop.org", "www.shop.org"), (" shop.org:443 ", "shop.org"),
        ("shop.org:80", "shop.org"),
        ("shop.org:8080", "shop.org:8080"), ("bücher.example", "xn--bcher-kva.example"),
        ("*.shop.org", "*.shop.org"), ("[::1]:81", "[::1]:81"), ("127.0.0.1", "127.0.0.1"),
    ],
)  # fmt: skip
def test_a_host_has_one_form(typed: str, host: str) -> None:
    assert check_host(typed) == host


@pytest.mark.parametrize(
    "wrong",
    ["", "*", "*.", "*.org", "a.*.org", "https://a.org", "a.org/x", "ann@a.org", "*.a.org:81",
     "*.10.0.0.1", "a b", "a.org?x"],
)  # fmt: skip
def test_what_is_no_host_is_refused(wrong: str) -> None:
    with pytest.raises(BadCredential, match="is not a host"):
        check_host(wrong)


@pytest.mark.parametrize(
    ("scheme", "user", "secret", "field"),
    [
        ("ntlm", "u", "s", "scheme"), ("bearer", "u", "s", "user"), ("basic", "", "s", "user"),
        ("basic", "a:b", "s", "user"), ("digest", "", "s", "user"), ("basic", "u", "", "secret"),
        ("bearer", "", "se cret", "secret"), ("bearer", "", "t\r\nX: 1", "secret"),
        ("digest", "u", "a\nb", "secret"), ("digest", "u\n", "s", "user"),
    ],
)  # fmt: skip
def test_unsendable_text_is_refused(scheme: str, user: str, secret: str, field: str) -> None:
    with pytest.raises(BadCredential) as refused:
        check_credential("a.org", scheme, user, secret)
    assert refused.value.field == field
    assert secret.strip() not in str(refused.value) or len(secret) < 2


def test_a_header_of_the_spider_stays() -> None:
    identity = Identity()
    identity.load(Papers(credentials=(basic("a.org"),)))
    assert identity.headers_for("https://a.org/", "GET", [("authorization", "mine")]) == []
    assert identity.headers_for("https://a.org/", "GET", [])[0][0] == "Authorization"


def test_an_identity_without_papers_adds_nothing() -> None:
    identity = Identity("https://bot.example")
    assert (identity.is_loaded, identity.is_plain) == (False, True)
    identity.load(Papers())
    assert identity.is_loaded
    assert not identity.is_plain  # it signs as soon as there is a key
    assert Identity().is_plain
    assert identity.headers_for("https://a.org/", "GET", []) == []
    identity.load(Papers((read(make(), 0),)))
    assert len(identity.headers_for("https://a.org/", "GET", [])) == 3


def test_papers_that_have_not_changed_keep_what_is_known_of_challenges() -> None:
    login = Credential("a.org", "digest", "u", Secret(SECRET))
    identity = Identity()
    identity.load(Papers(credentials=(login,)))
    asked = CIMultiDict({"WWW-Authenticate": 'Digest nonce="n", qop="auth"'})
    assert identity.headers_for("https://a.org/", "GET", []) == []
    assert identity.is_challenged("https://a.org/", asked, "")
    ((_, sent),) = identity.headers_for("https://a.org/", "GET", [])
    assert not identity.is_challenged("https://a.org/", asked, sent)  # the secret is wrong
    assert not identity.is_challenged("https://b.org/", asked, "")
    identity.load(Papers(credentials=(login._replace(secret=Secret(SECRET)),)))
    assert identity.headers_for("https://a.org/", "GET", [])
    identity.load(Papers(credentials=(login._replace(secret=Secret("new")),)))
    assert identity.headers_for("https://a.org/", "GET", []) == []
