"""Signing: the vectors of the draft, an independent verifier, and its refusals."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from http_message_signatures import InvalidSignature

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.identity import signing
from crawlframe.identity.signing import (
    LIFETIME,
    Signer,
    SigningKey,
    authority_of,
    check_origin,
    sign_directory,
    thumbprint,
)

from .verifier import Answered, Message, verifier

# The key of RFC 9421, B.1.4, with which the draft's test vectors are made.
RFC_KEY = signing.read("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU", 0)
RFC_NAME = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
RFC_PUBLIC = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
AGENT = "https://bot.example/.well-known/http-message-signatures-directory"
COVERED = ("@authority", '"signature-agent";key="sig1"')
NOW = 1_800_000_000.0


def published(*known: SigningKey) -> dict[str, str]:
    return {key.name: signing.public_of(key.private) for key in known}


def verify(message: Message, *known: SigningKey, **more: Any) -> Any:
    return verifier(published(*known)).verify(
        message, expect_tag="web-bot-auth", require_components=COVERED, **more
    )[0]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """The verifier's clock shows this time."""
    import datetime

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime.fromtimestamp(NOW, tz)

    monkeypatch.setattr(datetime, "datetime", Clock)
    return NOW


def test_the_name_of_a_key_is_its_thumbprint() -> None:
    assert signing.public_of(RFC_KEY.private) == RFC_PUBLIC
    assert thumbprint(RFC_PUBLIC) == RFC_KEY.name == RFC_NAME


def test_a_new_key_can_be_read_and_shows_nothing() -> None:
    private = signing.make()
    key = signing.read(private, 5.0)
    assert private not in repr(key)
    assert "private" not in repr(key).lower()
    assert (len(key.name), key.starts) == (43, 5.0)
    assert signing.make() != private
    with pytest.raises(ValueError, match="32 bytes"):
        signing.read("shorter", 0)


def test_a_command_takes_the_name_of_a_key_as_it_is() -> None:
    names = {signing.read(signing.make(), 0).name for _ in range(600)}
    assert not [name for name in names if name.startswith("-")]


def test_the_vector_of_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """draft-ietf-webbotauth-httpsig-protocol-01, Ed25519, Signature-Agent on the request."""
    monkeypatch.setattr("crawlframe.identity.signing.LIFETIME", 4889289600 - 1735689600)
    nonce = (
        "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="
    )
    signer = Signer("https://signature-agent.test", [RFC_KEY], "sig2")
    assert signer.sign("example.com", 1735689600.5, nonce) == [
        ("Signature-Agent", 'sig2="https://signature-agent.test"'),
        (
            "Signature-Input",
            'sig2=("@authority" "signature-agent";key="sig2");created=1735689600'
            f';keyid="{RFC_NAME}";alg="ed25519";expires=4889289600;nonce="{nonce}"'
            ';tag="web-bot-auth"',
        ),
        (
            "Signature",
            "sig2=:CGokAoY/FrPpyuzTe1Fb2kLTAH9Idw6qSFd1+D77r1firsMRCxeuLu5e6O+ek3zQgDMAzjiXtLVfqE"
            "00xnABCQ==:",
        ),
    ]


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_an_independent_verifier_accepts_all(now: float, count: int) -> None:
    key = signing.read(signing.make(), 0)
    signer, check = Signer(AGENT, [key]), verifier(published(key))
    nonces = set()
    for number in range(count):
        host = f"h{number % 97}.shop{number}.org" + (f":{8000 + number % 99}" if number % 3 else "")
        signed = dict(signer.sign(host, now - number % 60))
        message = Message(f"https://{host}/page/{number}?q={number}", signed)
        (found,) = check.verify(
            message, expect_tag="web-bot-auth", require_components=COVERED,
            max_age=timedelta(seconds=LIFETIME),
        )  # fmt: skip
        nonces.add(found.nonce)
        assert found.parameters["keyid"] == key.name
        assert int(found.parameters["expires"]) - int(found.parameters["created"]) == LIFETIME
    assert len(nonces) == count


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://other.example/"},
        {"url": "https://www.shop.org:444/"},
        {"Signature-Agent": 'sig1="https://evil.example"'},
        {"created": 1},
        {"nonce": "bm9uY2U="},
    ],
)
def test_altered_messages_are_refused(now: float, change: dict[str, Any]) -> None:
    headers = dict(Signer(AGENT, [RFC_KEY]).sign("www.shop.org", now, "AAAA"))
    url = change.pop("url", "https://www.shop.org/")
    if "created" in change:
        shifted = f"created={int(now) + change.pop('created')}"
        headers["Signature-Input"] = headers["Signature-Input"].replace(
            f"created={int(now)}", shifted
        )
    if "nonce" in change:
        headers["Signature-Input"] = headers["Signature-Input"].replace("AAAA", change.pop("nonce"))
    fine = dict(Signer(AGENT, [RFC_KEY]).sign("www.shop.org", now))
    verify(Message("https://www.shop.org/", fine), RFC_KEY)
    with pytest.raises(InvalidSignature):
        verify(Message(url, headers | change), RFC_KEY)


def test_it_refuses_old_signatures_and_unknown_keys(now: float) -> None:
    old = dict(Signer(AGENT, [RFC_KEY]).sign("www.shop.org", now - LIFETIME - 60))
    with pytest.raises(InvalidSignature, match="expire"):
        verify(Message("https://www.shop.org/", old), RFC_KEY)
    other = signing.read(signing.make(), 0)
    fresh = dict(Signer(AGENT, [other]).sign("www.shop.org", now))
    with pytest.raises(InvalidSignature):
        verify(Message("https://www.shop.org/", fresh), RFC_KEY)


def test_the_key_that_started_last_signs() -> None:
    first, second, third = (
        signing.read(signing.make(), starts) for starts in (100.0, 200.0, 300.0)
    )
    signer = Signer(AGENT, [third, first, second])
    assert signer.sign("a.example", 99.0) == []
    used = [signer.key_at(now) for now in (100.0, 150.0, 199.9, 200.0, 299.0, 300.0, 1e9)]
    assert used == [first, first, first, second, second, third, third]


def test_the_proof_of_the_directory_is_that_of_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signed response of cloudflare/web-bot-auth's vectors, version 1."""
    monkeypatch.setattr("crawlframe.identity.signing.DIRECTORY_LIFETIME", 4889289600 - 1735689600)
    body = (
        f'{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{RFC_NAME}","x":"{RFC_PUBLIC}"'
        ',"use":"sig"}]}'
    ).encode()
    proof = sign_directory([RFC_KEY], "signature-agent.test", body, 1735689600)
    assert proof["Content-Digest"] == "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"
    assert proof["Signature"] == (
        "binding0=:yiHq0TXrbpzbmlttAQMpYoAufitFJUWuNsakB7QQMoN0EHbo5o51bZRVR8az/ptTWCwllix9clrKXfGKw"
        "dPzBg==:"
    )


def test_each_key_of_the_directory_signs_it(now: float) -> None:
    both = [signing.read(signing.make(), 0), RFC_KEY]
    proof = sign_directory(both, "bot.example", b"{}", int(now))
    asked = Message("https://bot.example/", {})
    found = verifier(published(*both)).verify(
        Answered(asked, proof), expect_tag="http-message-signatures-directory", body=b"{}"
    )
    assert [one.parameters["keyid"] for one in found] == [key.name for key in both]
    for wrong in (Answered(Message("https://copy.example/", {}), proof), Answered(asked, proof)):
        changed = b"{}" if wrong.request is not asked else b"{ }"
        with pytest.raises(InvalidSignature):
            verifier(published(*both)).verify(
                wrong, expect_tag="http-message-signatures-directory", body=changed
            )


@pytest.mark.parametrize(
    ("url", "headers", "authority"),
    [
        ("https://www.shop.org/a", [], "www.shop.org"),
        ("https://www.shop.org:8443/a", [("X", "y")], "www.shop.org:8443"),
        ("http://[::1]:80/", [], "[::1]:80"),
        ("https://ann:x@www.shop.org/", [], "www.shop.org"),
        ("https://10.0.0.1/", [("HOST", " WWW.Shop.org:443 ")], "www.shop.org"),
        ("http://10.0.0.1/", [("Host", "www.shop.org:443")], "www.shop.org:443"),
    ],
)
def test_the_authority_is_what_the_server_sees(url: str, headers: Any, authority: str) -> None:
    assert authority_of(url, headers) == authority


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("", ""), ("https://Bot.example", "https://bot.example"),
        ("https://bot.example/", "https://bot.example"),
        ("https://bot.example:443", "https://bot.example"),
        ("https://bot.example:8443", "https://bot.example:8443"),
    ],
)  # fmt: skip
def test_the_origin_has_one_form(text: str, origin: str) -> None:
    assert check_origin(text) == origin
    keys = origin and AGENT.replace("https://bot.example", origin)
    assert Settings(bot_auth=text).signature_agent == keys


@pytest.mark.parametrize(
    "wrong",
    [
        "1", "bot.example", "http://bot.example", "https://", "https://bot.example/keys",
        "https://bot.example?x", "https://ann@bot.example", "https://bot.example#x",
        "https://bot.example:x", "https://[", 'https://bot".example', "https://bot.example\n.x",
        "https://bücher.example",
    ],
)  # fmt: skip
def test_what_is_no_https_origin_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"CRAWLFRAME_BOT_AUTH=.*https origin"):
        check_origin(wrong)


def test_signatures_of_one_instant_differ() -> None:
    signer = Signer(AGENT, [RFC_KEY])
    signed = [signer.sign("a.example", NOW)[2] for _ in range(100)]
    assert all(one != other for one, other in itertools.combinations(signed, 2))
