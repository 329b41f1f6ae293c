"""Secrets do not get into recordings; other texts stay as they were."""

from __future__ import annotations

import base64

import pytest

from crawlframe import Request, Secret
from crawlframe.actions import Fill
from crawlframe.pages.secrets import Secrets
from crawlframe.request.values import request_to_json

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
        # Names that only sound secret.
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
    headers = [("Authorization", f"Basic {login}"), ("Cookie", f"sid={TOKEN}; lang=en")]
    secrets.learn_from(secrets.headers, headers)
    secrets.learn_from(secrets.url, "https://a.example/?token=tok123")
    secrets.learn_from(secrets.sent_body, "password=hunter2&key=books")
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


def test_logins_that_a_server_hands_out_are_found_in_what_it_sends() -> None:
    secrets = Secrets()
    secrets.learn_received(
        b'{"refresh_token": "r3fresh\\/v4lue", "token": "data-of-1-page", "key": "OL12345678W"}'
    )
    body = b'{"refresh_token": "r3fresh\\/v4lue", "again": "r3fresh/v4lue", "key": "OL12345678W"}'
    assert secrets.body(body) == (
        b'{"refresh_token": "stripped", "again": "stripped", "key": "OL12345678W"}'
    )


@pytest.mark.parametrize(
    "form",
    ["a/b+c'd&e=9", r"a\/b+c'd&e=9", "a%2fb%2bc%27d%26e%3d9", r"a/b\u002Bc\u0027d\u0026e=9",
     r"a/b+c'd\u0026e=9", "a/b+c&#39;d&amp;e=9", "a/b+c&#x27;d&amp;e=9"],
)  # fmt: skip
def test_a_secret_is_found_however_it_is_written(form: str) -> None:
    secrets = Secrets()
    secrets.learn("a/b+c'd&e=9")
    assert secrets.text(f"<{form}>") == "<stripped>"


def test_addresses_in_items_are_stripped_as_those_of_requests() -> None:
    secrets = Secrets()
    given = {
        "url": "https://ann:pw@a.example/?token=abc&b=1",
        "all": ["see https://a.example/?token="],
    }
    assert secrets.value(given) == {
        "url": "https://a.example/?token=stripped&b=1",
        "all": ["see https://a.example/?token="],
    }
    assert secrets.value("a=1?token=abc") == "a=1?token=abc"


def test_what_a_request_has_under_a_telling_name_is_found_elsewhere() -> None:
    secrets = Secrets()
    request = Request(
        "https://a.example/", meta={"token": "t0ken9"}, cb_kwargs={"password": ["averylongword"]},
        actions=[Fill("#password", "hunter22")],
    )  # fmt: skip
    secrets.learn_from(secrets.request, request_to_json(request))
    for secret in ("t0ken9", "averylongword", "hunter22"):
        assert secrets.url(f"https://a.example/{secret}/x") == "https://a.example/stripped/x"
    assert secrets.request(request_to_json(request))["cb_kwargs"] == {"password": ["stripped"]}


def test_bodies_that_are_no_text_are_stripped() -> None:
    secrets = Secrets()
    secrets.learn("s3cret-value")
    part = b'--x\r\nContent-Disposition: form-data; name="password"\r\n\r\nhunter2\r\n'
    body = part + b"--x\xff s3cret-value"
    given = secrets.request(
        request_to_json(Request("https://a.example/", method="POST", body=body))
    )
    sent = base64.b64decode(given["body"]["$bytes"])
    assert sent == body.replace(b"hunter2", b"stripped").replace(b"s3cret-value", b"stripped")
    meta = request_to_json(Request("https://a.example/", meta={"raw": b"\xff s3cret-value"}))
    assert base64.b64decode(secrets.request(meta)["meta"]["raw"]["$bytes"]) == b"\xff stripped"


def test_arguments_with_telling_names_are_secrets() -> None:
    secrets = Secrets()
    given = {"api_token": "t0ken9", "key": "OL12345678W", "page_token": "abcdefghijkl1", "n": 1}
    assert secrets.learn_arguments(given) == given | {"api_token": "stripped-api_token"}
    assert secrets.text("t0ken9 OL12345678W") == "stripped-api_token OL12345678W"
