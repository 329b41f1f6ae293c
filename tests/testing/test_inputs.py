"""Responses and summaries made by hand equal a node's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawlframe import Request
from crawlframe.errors import BadRequest
from crawlframe.testing import make_response, make_summary

URL = "https://shop.example/a"


@pytest.mark.parametrize(
    ("given", "kind", "content_type", "body"),
    [
        ({"html": "<p>ä"}, "html", "text/html; charset=utf-8", "<p>ä".encode()),
        ({"text": "ä"}, "text", "text/plain; charset=utf-8", "ä".encode()),
        ({"json": {"a": [1]}}, "json", "application/json", b'{"a":[1]}'),
        ({"json": 0}, "json", "application/json", b"0"),
        ({"html": ""}, "html", "text/html; charset=utf-8", b""),
        ({"body": b"\0"}, "binary", None, b"\0"),
        ({}, "text", None, b""),
    ],
)
def test_the_body_has_its_content_type(
    given: dict[str, Any], kind: str, content_type: str | None, body: bytes
) -> None:
    response = make_response(URL, **given)
    assert (response.kind, response.body) == (kind, body)
    assert response.headers.get("content-type") == content_type
    assert (response.url, response.status, response.request) == (URL, 200, Request(URL))


@pytest.mark.parametrize(
    ("name", "kind"), [("a.html", "html"), ("a.json", "json"), ("a.xml", "xml"), ("a", "html")]
)
def test_a_file_is_known_by_its_suffix_or_else_by_its_content(
    tmp_path: Path, name: str, kind: str
) -> None:
    (tmp_path / name).write_bytes("<p>è".encode("latin-1"))
    response = make_response(URL, file=tmp_path / name)
    assert (response.kind, response.text) == (kind, "<p>è")
    assert (
        make_response(file=str(tmp_path / name), headers={"Content-Type": "a/b"}).kind == "binary"
    )


@pytest.mark.parametrize(
    ("content_type", "html"),
    [
        ("text/html; charset=gb2312", "<p>你好"),
        ("text/html", "<meta charset=gb2312><p>你好"),
        ("text/html", "<p>你好"),
        ("text/html; charset=latin1", "<p>Grüße"),
    ],
)
def test_text_is_encoded_as_it_says(content_type: str, html: str) -> None:
    response = make_response(URL, html=html, headers={"content-type": content_type})
    assert response.text == html
    assert response.headers.getall("Content-Type") == [content_type]


def test_the_request_may_be_another_one() -> None:
    request = Request(f"{URL}/old", "page", meta={"n": 1})
    response = make_response(URL, status=404, headers={"X": "1"}, request=request)
    assert (response.request, response.meta, response.status) == (request, {"n": 1}, 404)
    response = make_response(URL, cb_kwargs={"n": 1}, meta={"m": 2})
    assert (response.cb_kwargs, response.meta) == ({"n": 1}, {"m": 2})


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"html": "a", "json": 1}, TypeError, "give only one of html and json"),
        (
            {"meta": {}, "request": Request(URL)},
            TypeError,
            "give cb_kwargs and meta to the request",
        ),
        ({"url": "shop"}, BadRequest, "shop"),
    ],
)
def test_what_makes_no_response_is_refused(
    given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make_response(**given)


def test_a_summary_needs_what_matters() -> None:
    summary = make_summary(outcome="failed", errors=2)
    assert (summary.outcome, summary.errors, summary.items) == ("failed", 2, 0)
    assert summary.finished_at > summary.started_at
    summary.stats["a"] = 1
    assert make_summary().stats == {}
    with pytest.raises(TypeError, match="has no field 'error'; it has task, spider"):
        make_summary(error=2)
