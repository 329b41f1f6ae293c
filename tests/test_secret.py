"""Secret: nothing shows its text, and an accident fails or shows the mask."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from crawlframe import Request, Secret, Spider
from crawlframe.base.logs import LineFormatter
from crawlframe.base.secret import MASK, SEALED, masked, without_logins
from crawlframe.errors import ArgumentError, BadRequest, SpiderError
from crawlframe.items.encode import encode_item
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import build, describe

TEXT = "hunter2-hunter2"
MARKED = {"type": "string", "format": "password", "writeOnly": True}


class Login(Spider):
    name = "login"
    token: Secret
    spare: Secret = Secret("the spare one")
    plain: Secret = "a default in plain text"  # type: ignore[assignment]

    def start(self, more: Secret | None = None, many: list[Secret] = []) -> Any: ...  # noqa: B006


@pytest.mark.parametrize(
    "show",
    [
        str, repr, ascii, lambda s: f"{s}", lambda s: f"{s:>40}", lambda s: f"{s!r}",
        lambda s: "%s %r" % (s, s), "{}".format, lambda s: repr({"token": [s]}),  # noqa: UP031
        lambda s: repr(dir(s)),
    ],
)  # fmt: skip
def test_every_display_shows_the_mask(show: Callable[[Secret], str]) -> None:
    assert TEXT not in show(Secret(TEXT))


@pytest.mark.parametrize(
    "use",
    [
        lambda s: "Bearer " + s, lambda s: s + "", lambda s: "".join([s]), lambda s: s[:4],
        lambda s: s.encode(), bytes, list, json.dumps, pickle.dumps, msgspec.json.encode, len,
        lambda s: vars(s), lambda s: encode_item({"token": s}),
    ],
)  # fmt: skip
def test_what_would_take_it_for_text_fails(use: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, AttributeError, SpiderError)) as failed:
        use(Secret(TEXT))
    assert TEXT not in str(failed.value)


@pytest.mark.parametrize("place", ["headers", "cookies", "cb_kwargs", "meta", "form"])
def test_a_request_does_not_take_it(place: str) -> None:
    with pytest.raises((BadRequest, TypeError)) as failed:
        Request("http://a.example/", **{place: {"token": Secret(TEXT)}}).encode()  # type: ignore[arg-type]
    assert TEXT not in str(failed.value)


def test_it_is_revealed_compared_and_copied() -> None:
    secret = Secret(TEXT)
    assert secret.reveal() == TEXT
    assert secret == Secret(TEXT) != Secret("other")
    assert secret != TEXT
    assert {secret: 1}[Secret(TEXT)] == 1
    assert copy.deepcopy({"a": secret})["a"] is copy.copy(secret) is secret
    assert (bool(secret), bool(Secret(""))) == (True, False)
    with pytest.raises(TypeError, match="not of int"):
        Secret(5)  # type: ignore[arg-type]


def test_a_log_line_shows_the_mask(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("any").error("token %s of %r", Secret(TEXT), {"a": Secret(TEXT)})
    assert MASK in caplog.text
    assert TEXT not in caplog.text


def test_the_schema_marks_it_and_shows_no_default() -> None:
    schema = describe(Login).arguments
    assert schema["properties"]["token"] == schema["properties"]["spare"] == MARKED
    assert schema["properties"]["more"] == {"anyOf": [MARKED, {"type": "null"}], "default": None}
    assert schema["properties"]["many"]["items"] == MARKED
    assert schema["required"] == ["token"]
    assert "spare one" not in json.dumps(schema)
    assert "plain text" not in json.dumps(schema)


def test_spiders_get_secrets_whatever_they_are_made_of() -> None:
    spider, start = build(Login, {"token": TEXT, "more": Secret("m"), "many": ["a", Secret("b")]})
    assert isinstance(spider, Login)
    assert spider.token == Secret(TEXT)
    assert (spider.spare, spider.plain) == (
        Secret("the spare one"),
        Secret("a default in plain text"),
    )
    assert start == {"more": Secret("m"), "many": [Secret("a"), Secret("b")]}


@pytest.mark.parametrize("wrong", [5, None, [TEXT], {SEALED: TEXT}])
def test_what_is_no_text_is_refused_without_showing_it(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="token") as refused:
        build(Login, {"token": wrong})
    assert TEXT not in str(refused.value)


def test_a_secret_is_no_other_argument() -> None:
    class Plain(Spider):
        name = "plain"

        def start(self, token: str) -> Any: ...

    with pytest.raises(ArgumentError, match="token must be text") as refused:
        build(Plain, {"token": Secret(TEXT)})
    assert TEXT not in str(refused.value)


def test_arguments_are_masked_at_any_depth() -> None:
    stored = {"a": {SEALED: "gAAAA"}, "b": [1, {"c": {SEALED: "gAAAA"}}, Secret(TEXT)], "d": "e"}
    assert masked(stored) == {"a": MASK, "b": [1, {"c": MASK}, MASK], "d": "e"}


PLACES = ["h", "h.example:81", "[::1]:8080", "bücher.example"]
LOGINS = ["u:p", "u:", ":p", "token", "u:p@ss", "us%65r:p%40", "ü:ß", "a:b:c", "u:p'w", "o'x:1"]


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize(
    "around", ["{}", "GET {}: 404", "<{}>", '{{"a":"{}","m":"x@y.de"}}', "{}\n"]
)
def test_logins_of_urls_are_masked_in_texts(login: str, around: str) -> None:
    for place in PLACES:
        for rest in ("", "/", "/@x", "/a:b@c?q=d@e#f", "?a@b"):
            url = f"https://{login}@{place}{rest}"
            shown = f"https://{MASK}@{place}{rest}"
            assert without_logins(around.format(url)) == around.format(shown)
            plain = around.format(f"https://{place}{rest}")
            assert without_logins(plain) == plain


def test_whoever_says_what_happened_says_no_login() -> None:
    """The line of a log, the detail of an error, and arguments that are shown."""
    url = "ftp://ann:MARKED@a.example/"
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s failed", (url,), None)
    with pytest.raises(BadRequest) as refused:
        Request(url)
    outcome = Outcome(b"", 1, "", b"", 0, 0)
    outcome.end(Verdict.ERROR, "callback", f"ValueError: {url}")
    shown = [LineFormatter("%(message)s").format(record), str(refused.value), outcome.detail]
    shown += [repr(masked({"a": [url]}))]
    for text in shown:
        assert "MARKED" not in text
        assert "a.example" in text
