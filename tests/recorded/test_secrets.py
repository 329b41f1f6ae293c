"""Secrets do not get into recordings; what is none stays as it was."""

from __future__ import annotations

import base64

import pytest

from crawlframe import Request, Secret
from crawlframe.actions import Fill
from crawlframe.recorded.secrets import Secrets
from crawlframe.recorded.values import request_to_json

TOKEN = "a1b2c3d4e5f6a7b8"


@pytest.mark.parametrize(
    ("url", "stripped"),
    [
        ("https://a.example/?api_key=x", "https://a.example/?api_key=stripped"),
        ("https://a.example/?a=1&accessToken=x&b=2", "https://a.example/?a=1&accessToken=stripped&b=2"),
        ("https://a.example/?client_secret=x#f", "https://a.example/?client_secret=stripped#f"),
        ("https://a.example/?user%5Bpassword%5D=x", "https://a.example/?user%5Bpassword%5D=stripped"),
        ("https://ann:pw@a.example/", "https://a.example/"),
        (f"https://a.example/?key={TOKEN}", "https://a.example/?key=stripped"),
        # What only sounds like one.
        ("https://a.example/?key=books", None),
        ("https://a.example/?author=ann&tokens=2&session=2024-fall", None),
        ("https://a.example/?page_token=CAUQAA01234567", None),
        ("https://a.example/?nextPageToken=CAUQAA01234567", None),
        ("https://a.example/?token=", None),
    ],
)  # fmt: skip
def test_parameters_of_urls(url: str, stripped: str | None) -> None:
    assert Secrets().url(url) == (stripped or url)


@pytest.mark.parametrize(
    ("body", "stripped"),
    [
        ("q=1&password=hunter2", "q=1&password=stripped"),
        ('{"password": "a\\"b", "q": 1}', '{"password": "stripped", "q": 1}'),
        ('{"apiKey":"x","key":"books"}', '{"apiKey":"stripped","key":"books"}'),
        (
            '--x\r\nContent-Disposition: form-data; name="password"\r\n\r\nhunter2\r\n--x--',
            '--x\r\nContent-Disposition: form-data; name="password"\r\n\r\nstripped\r\n--x--',
        ),
        ({"$bytes": "AAE="}, {"$bytes": "AAE="}),
        (None, None),
    ],
)
def test_fields_of_bodies(body: object, stripped: object) -> None:
    assert Secrets().sent_body(body) == stripped


def test_headers_keep_their_form() -> None:
    secrets = Secrets()
    headers = [
        ("Authorization", "Bearer abc"),
        ("Cookie", "a=1; b=2"),
        ("Set-Cookie", "sid=abc; Path=/; HttpOnly"),
        ("X-Api-Key", "abc"),
        ("Location", "https://a.example/?token=abc"),
        ("Content-Type", "text/html"),
    ]
    assert secrets.headers(headers) == [
        ("Authorization", "Bearer stripped"),
        ("Cookie", "a=stripped; b=stripped"),
        ("Set-Cookie", "sid=stripped; Path=/; HttpOnly"),
        ("X-Api-Key", "stripped"),
        ("Location", "https://a.example/?token=stripped"),
        ("Content-Type", "text/html"),
    ]
    assert secrets.names == {
        "header Authorization", "header X-Api-Key", "cookie a", "cookie b", "cookie sid",
        "parameter token",
    }  # fmt: skip


def test_secret_arguments_are_replaced_wherever_they_occur() -> None:
    secrets = Secrets()
    given = {"token": Secret("a/b c+d"), "n": 3, "all": [Secret("other-one")]}
    assert secrets.learn_arguments(given) == {
        "token": "stripped-token",
        "n": 3,
        "all": ["stripped-all"],
    }
    for text in ("a/b c+d", "a%2Fb+c%2Bd", "a%2Fb%20c%2Bd", "a/b%20c%2Bd"):
        assert secrets.text(f"<{text}>") == "<stripped-token>"
        assert secrets.body(f"<{text}>".encode()) == b"<stripped-token>"
    assert secrets.value({"a": ["other-one", 3]}) == {"a": ["stripped-all", 3]}
    assert secrets.names == {"argument token", "argument all"}


def test_what_was_sent_is_found_in_what_comes_back() -> None:
    secrets = Secrets()
    login = base64.b64encode(b"ann:pass-word-9").decode()
    secrets.learn_headers(
        [("Authorization", f"Basic {login}"), ("Cookie", f"sid={TOKEN}; lang=en")]
    )
    secrets.learn_sent("https://a.example/?token=tok123", b"password=hunter2&key=books")
    for text in (login, "pass-word-9", TOKEN, "tok123", "hunter2"):
        assert secrets.text(f"<{text}>") == "<stripped>", text
    for text in ("lang", "en", "books", "ann"):  # words of pages
        assert secrets.text(f"<{text}>") == f"<{text}>"


def test_a_request_is_stripped_in_each_of_its_parts() -> None:
    request = Request(
        f"https://a.example/?key={TOKEN}",
        "page",
        form={"password": "hunter2"},
        cookies={"sid": "1"},
        headers={"Authorization": "x"},
        meta={"token": "abc", "deep": [{"password": "x", "n": 1}]},
        cb_kwargs={"name": "emma"},
        actions=[Fill("#password", "hunter2"), Fill("#name", "ann")],
    )
    given = Secrets().request(request_to_json(request))
    assert given["url"] == "https://a.example/?key=stripped"
    assert given["body"] == "password=stripped"
    assert given["cookies"] == {"sid": "stripped"}
    assert given["headers"]["Authorization"] == "stripped"
    assert given["meta"] == {"token": "stripped", "deep": [{"password": "stripped", "n": 1}]}
    assert given["cb_kwargs"] == {"name": "emma"}
    assert [action["text"] for action in given["options"]["actions"]] == ["stripped", "ann"]
    assert "hunter2" not in str(given)
