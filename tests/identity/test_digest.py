"""Digest authentication: the examples of RFC 7616, and challenges as servers write them."""

from __future__ import annotations

import re

import pytest

from crawlframe.identity.digest import Challenge, challenges

NONCE = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"
CNONCE = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
OFFERED = (
    f'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm={{}}, nonce="{NONCE}", '
    'opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
)


def response_of(header: str) -> str:
    found = re.search(r'response="(\w+)"', header)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_the_examples_of_the_rfc(algorithm: str, expected: str) -> None:
    """RFC 7616, 3.9.1."""
    challenge = Challenge.best([OFFERED.format(algorithm)])
    assert challenge is not None
    sent = challenge.answer("GET", "/dir/index.html", "Mufasa", "Circle of Life", CNONCE)
    assert response_of(sent) == expected
    assert 'username="Mufasa"' in sent
    assert f"algorithm={algorithm}" in sent
    assert 'uri="/dir/index.html"' in sent
    assert f'qop=auth, nc=00000001, cnonce="{CNONCE}"' in sent
    assert "nc=00000002" in challenge.answer("GET", "/", "Mufasa", "x")


def test_the_older_form_without_qop() -> None:
    """RFC 2069, with the response that its errata corrected."""
    challenge = Challenge.best(
        ['Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093"']
    )
    assert challenge is not None
    sent = challenge.answer("GET", "/dir/index.html", "Mufasa", "CircleOfLife")
    assert response_of(sent) == "1949323746fe6a43ef61f9606e7febea"
    assert "qop" not in sent


def test_names_are_hashed_or_encoded_where_needed() -> None:
    hashed = Challenge.best([OFFERED.format("SHA-256") + ", userhash=true, charset=UTF-8"])
    assert hashed is not None
    sent = hashed.answer("GET", "/", "Jäsøn Doe", "x")
    assert "userhash=true" in sent
    assert re.search(r'username="[0-9a-f]{64}"', sent)
    plain = Challenge.best([OFFERED.format("MD5")])
    assert plain is not None
    assert "username*=UTF-8''J%C3%A4s%C3%B8n%20Doe" in plain.answer("GET", "/", "Jäsøn Doe", "x")
    assert r'username="a\"b\\c"' in plain.answer("GET", "/", 'a"b\\c', "x")


def test_the_strongest_is_chosen() -> None:
    offered = [OFFERED.format(name) for name in ("MD5", "SHA-256", "SHA-512-256", "token")]
    for known, expected in ((offered, "SHA-512-256"), (offered[:2], "SHA-256")):
        best = Challenge.best(known)
        assert best is not None
        assert f"algorithm={expected}" in best.answer("GET", "/", "a", "b")


@pytest.mark.parametrize(
    "value",
    [
        "", "Basic realm=x", 'Digest realm="x"', 'Digest nonce="n", qop="auth-int"',
        'Digest nonce="n", algorithm=SHA3', "Digest", "digest,,,", 'Digest nonce="ü"', '="',
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_left(value: str) -> None:
    assert Challenge.best([value]) is None


def test_several_challenges_in_one_header() -> None:
    value = 'Newauth realm="a, b", type=1, Basic realm="s\\"x", Negotiate, Digest nonce=n, qop=auth'
    assert challenges([value, "Bearer"]) == [
        ("newauth", {"realm": "a, b", "type": "1"}),
        ("basic", {"realm": 's"x'}),
        ("negotiate", {}),
        ("digest", {"nonce": "n", "qop": "auth"}),
        ("bearer", {}),
    ]


def test_a_quotation_without_an_end_takes_no_time() -> None:
    """It took quadratic time: minutes for the size of a header."""
    assert challenges(['Digest realm="a", nonce="' + '\\"' * 50_000]) == [
        ("digest", {"realm": "a"})
    ]
    assert challenges(['Digest nonce="a\\']) == [("digest", {})]
